// Runs in every page before its own scripts.  The main functions on `window.__mira`:
//   snapshot()               the page as text: one line a block, controls as `role "name" state`
//   locate(role, name, nth)  where to click a control, or why it can't be clicked
//   refusal(kind, text)      why what `locate` found takes no such action, or ""
//   settle(limit)            resolves when the page is quiet, or after `limit` milliseconds
//   opened()                 whether a new tab was asked for since this was last called
(() => {
  if (window.__mira) return;
  const NATIVE_ROLES = {
    A: "link", BUTTON: "button", TEXTAREA: "textbox", SELECT: "combobox", SUMMARY: "button",
  };
  const INPUT_ROLES = {
    button: "button", submit: "button", reset: "button", image: "button", checkbox: "checkbox", radio: "radio",
    range: "slider", file: "button", hidden: "",
  };
  const ARIA_ROLES = new Set(["button", "link", "checkbox", "radio", "tab", "menuitem", "menuitemcheckbox", "menuitemradio",
    "option", "switch", "combobox", "textbox", "searchbox", "spinbutton", "slider", "treeitem"]);
  const SKIPPED = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "SVG", "svg", "CANVAS"]);
  const MAX_NAME = 120, MAX_OPTIONS = 20, MAX_TEXT = 20_000;
  // Characters that are not seen but turn a line around or split a word; the joiners of emoji and Persian stay.
  const UNSEEN = /[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;

  const clean = (text) => (text || "").toWellFormed().replace(UNSEEN, "").replace(/[\s\u0000-\u001f\u007f-\u009f]+/g, " ").trim();
  const cut = (text, limit = MAX_NAME) => (text.length > limit ? text.slice(0, limit - 1).toWellFormed() + "…" : text);
  const escaped = (char) => "\\u" + char.charCodeAt(0).toString(16).padStart(4, "0");
  const quote = (text) => JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029]/g, escaped).replace(UNSEEN, escaped);
  // Page text must not look like a control: its quotes are escaped, so `role "name"` can only come from here.
  const plain = (text) => text.replace(/[\\"]/g, (c) => "\\" + c);
  // An element with `display: contents` has no box, and so fails `checkVisibility`, but its children are seen.
  const visible = (el) => el.checkVisibility({ visibilityProperty: true }) || getComputedStyle(el).display === "contents";

  function roleOf(el) {
    const stated = (el.getAttribute("role") || "").split(" ")[0];
    if (ARIA_ROLES.has(stated)) return stated === "searchbox" || stated === "spinbutton" ? "textbox" : stated;
    if (el.tagName === "A") return el.hasAttribute("href") || el.onclick ? "link" : "";
    if (el.tagName === "INPUT") return INPUT_ROLES[el.type] ?? "textbox";
    // A drawn box or switch: the label stands for a control that is not shown itself.
    if (el.tagName === "LABEL") return el.control && !visible(el.control) ? INPUT_ROLES[el.control.type] ?? "" : "";
    if (NATIVE_ROLES[el.tagName]) return NATIVE_ROLES[el.tagName];
    if (el.isContentEditable && !el.parentElement?.isContentEditable) return "textbox";
    if (el.hasAttribute("onclick") || (el.tabIndex >= 0 && el.hasAttribute("tabindex"))) return "button";
    return "";
  }

  function textOf(node) {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.nodeType !== Node.ELEMENT_NODE) return "";
    if (node.tagName === "svg") return ` ${node.getAttribute("aria-label") || node.querySelector("title")?.textContent || ""} `;
    if (SKIPPED.has(node.tagName)) return "";
    if (node.tagName === "IMG") return ` ${node.alt || ""} `;
    if (!visible(node)) return "";
    return [...(node.shadowRoot || node).childNodes].map(textOf).join(" ".repeat(node.tagName === "BR" ? 1 : 0)) + " ";
  }

  function nameOf(el, role) {
    const root = el.getRootNode();
    const ids = el.getAttribute("aria-labelledby");
    const labelled = ids && ids.split(/\s+/).map((id) => root.getElementById?.(id)?.textContent || "").join(" ");
    const isFile = el.type === "file", isField = "labels" in el && (role !== "button" || isFile);
    const label = isField && el.labels?.length ? [...el.labels].map((l) => labelText(l, el)).join(" ") : "";
    const own = role === "textbox" || role === "combobox" || el.tagName === "INPUT" ? "" : textOf(el);
    const value = el.tagName === "INPUT" && role === "button" ? (isFile ? "" : el.value) || el.alt : "";
    for (const name of [labelled, el.getAttribute("aria-label"), label, own, value, el.getAttribute("placeholder"), el.title, el.name]) {
      if (clean(name)) return cut(clean(name));
    }
    return isFile ? "Choose file" : "";
  }

  // A label that wraps its control must not repeat the control's own text.
  function labelText(label, el) {
    const walk = (node) => (node === el ? "" : node.nodeType === 3 ? node.data : [...node.childNodes].map(walk).join(" "));
    return walk(label);
  }

  // As shown; the second of one text is "Text (2)".
  function optionNames(el) {
    const seen = {};
    return [...el.options].map((option) => {
      const text = clean(option.label || option.text), count = (seen["=" + text] = (seen["=" + text] || 0) + 1);
      return count === 1 ? text : `${text} (${count})`;
    });
  }

  function stateOf(el, role) {
    const state = [];
    if (role === "textbox") {
      const value = el.isContentEditable ? el.textContent : el.value ?? "";
      state.push(quote(el.type === "password" ? "•".repeat(value.length) : cut(value)));
    } else if (role === "combobox" && el.tagName === "SELECT") {
      const options = optionNames(el).map(quote);
      state.push(options.filter((_, index) => el.options[index].selected).join(" ") || '""', "of");
      state.push(...options.slice(0, MAX_OPTIONS));
      if (options.length > MAX_OPTIONS) state.push("…");
    } else if (role === "slider") {
      state.push(quote(String(el.value ?? el.getAttribute("aria-valuenow") ?? "")));
    }
    if ((el.control || el).checked || el.getAttribute("aria-checked") === "true") state.push("checked");
    if (el.getAttribute("aria-selected") === "true") state.push("selected");
    const expanded = el.getAttribute("aria-expanded") ?? (el.tagName === "SUMMARY" ? String(el.parentElement.open) : null);
    if (expanded !== null) state.push(expanded === "true" ? "expanded" : "collapsed");
    if (disabled(el)) state.push("disabled");
    else if (readOnly(el)) state.push("readonly");
    return state.join(" ");
  }

  const disabled = (el) => (el.control || el).matches(":disabled") || el.closest("[aria-disabled=true], [inert]") !== null;
  const readOnly = (el) => el.readOnly === true || el.getAttribute("aria-readonly") === "true";

  // One walk serves snapshot and locate, so that both count the same controls.
  function walkPage() {
    const lines = [[]], controls = [];
    let below = false;
    const push = (part) => lines[lines.length - 1].push(part);
    const newLine = () => { if (lines[lines.length - 1].length) lines.push([]); };

    function inView(rect, offset, view) {
      if (!rect.width && !rect.height) return false;
      if (rect.top + offset.y >= view) { below = true; return false; }
      return rect.bottom + offset.y > 0;
    }

    function visitText(node, offset) {
      const text = clean(node.data);
      if (!text) return;
      const range = node.ownerDocument.createRange();
      range.selectNodeContents(node);
      if (inView(range.getBoundingClientRect(), offset, window.innerHeight)) push(plain(cut(text, MAX_TEXT)));
    }

    function visitControl(el, role, offset) {
      if (!inView(el.getBoundingClientRect(), offset, window.innerHeight)) return;
      const name = nameOf(el, role), state = stateOf(el, role);
      controls.push({ el, role, name, offset });
      push(`${role} ${quote(name)}${state ? " " + state : ""}`);
    }

    function visitFrame(el, offset) {
      let inner = null;
      try { inner = el.contentDocument; } catch { /* another origin */ }
      const rect = el.getBoundingClientRect();
      newLine();
      if (inner?.body) visit(inner.body, { x: offset.x + rect.left + el.clientLeft, y: offset.y + rect.top + el.clientTop });
      else if (inView(rect, offset, window.innerHeight)) push(`frame ${quote(cut(clean(el.title || el.name || "other site")))}`);
      newLine();
    }

    function visit(node, offset) {
      if (node.nodeType === Node.TEXT_NODE) return visitText(node, offset);
      if (node.nodeType !== Node.ELEMENT_NODE || SKIPPED.has(node.tagName)) return;
      if (!visible(node) || node.getAttribute("aria-hidden") === "true") return;
      if (node.tagName === "IFRAME" || node.tagName === "FRAME") return visitFrame(node, offset);
      const role = roleOf(node), display = getComputedStyle(node).display;
      if (display === "table-cell" && lines[lines.length - 1].length) push("|");
      const block = !/^(inline|contents|table-cell)/.test(display);
      if (block) newLine();
      if (role) visitControl(node, role, offset);
      else if (node.tagName === "LABEL" && node.control?.checkVisibility()) visitControlsOnly(node, offset);
      else if (node.tagName === "IMG") node.alt && visitImage(node, offset);
      else {
        if (/^H[1-6]$/.test(node.tagName)) push("#");
        for (const child of children(node)) visit(child, offset);
        if (/^H[1-6]$/.test(node.tagName) && lines[lines.length - 1].length === 1) lines[lines.length - 1].pop();
      }
      if (block) newLine();
    }

    // The text of a label is its control's name already.
    function visitControlsOnly(label, offset) {
      for (const el of label.querySelectorAll("input, select, textarea, button, a")) visit(el, offset);
    }

    function visitImage(el, offset) {
      if (inView(el.getBoundingClientRect(), offset, window.innerHeight)) push(`image ${quote(cut(clean(el.alt)))}`);
    }

    function children(node) {
      if (node.shadowRoot) return node.shadowRoot.childNodes;
      if (node.tagName === "DETAILS" && !node.open) return node.querySelectorAll(":scope > summary:first-of-type");
      if (node.tagName === "SLOT" && node.assignedNodes().length) return node.assignedNodes();
      return node.childNodes;
    }

    const modal = [...document.querySelectorAll("dialog:modal")].at(-1);
    if (modal) push("dialog"), newLine();
    const root = modal || document.body;
    if (root) for (const child of children(root)) visit(child, { x: 0, y: 0 });
    return { lines: lines.filter((line) => line.length).map((line) => line.join(" ")), controls, below };
  }

  function snapshot() {
    const { lines, below } = walkPage();
    if (window.scrollY > 0) lines.unshift("(more above)");
    if (below) lines.push("(more below)");
    return JSON.stringify({ title: clean(document.title), url: location.href, text: lines.join("\n") });
  }

  function locate(role, name, nth) {
    const found = walkPage().controls.filter((control) => control.role === role && control.name === clean(name));
    const said = `${role} ${quote(name)}`;
    if (!found.length) return { reason: `there is no ${said} on this page` };
    if (found.length < nth) return { reason: `there are only ${found.length} of ${said}` };
    const el = (window.__mira.target = found[nth - 1].el);
    if (disabled(el)) return { reason: `${said} is disabled` };
    let cover = null;
    for (const scroll of [false, true]) {  // a bar at an edge of the window covers no control in its middle
      if (scroll) el.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
      for (const [x, y] of pointsOf(el)) {
        const place = reach(el, x, y);
        if ("x" in place) return place;
        cover ||= scroll && place.cover;
      }
    }
    const top = cover && `${cover.tagName.toLowerCase()} ${quote(cut(clean(cover.textContent)))}`;
    return { reason: top ? `${said} is covered by ${top}` : `${said} is out of reach` };
  }

  // Where a click may be tried: the middle of each line of the control (a link may wrap), then points nearer to its edges.
  function pointsOf(el) {
    const boxes = [...el.getClientRects()].filter((box) => box.width && box.height);
    const at = (across, down) => (box) => [box.left + box.width * across, box.top + box.height * down];
    return [[0.5, 0.5], [0.1, 0.5], [0.9, 0.5], [0.5, 0.1], [0.5, 0.9]].flatMap(([x, y]) => boxes.map(at(x, y)));
  }

  // The point of this window where a click reaches `el` at (x, y) of its own, or the element that would take the click instead.
  function reach(el, x, y) {
    let top = el.ownerDocument.elementFromPoint(x, y);
    for (let inner; (inner = top?.shadowRoot?.elementFromPoint(x, y)) && inner !== top; ) top = inner;
    const takers = [el, ...(el.labels || [])];
    for (let node = top; !takers.includes(node); node = node.assignedSlot || node.parentNode || node.host) {
      if (!node) return { cover: top };
    }
    const frame = el.ownerDocument === document ? null : el.ownerDocument.defaultView.frameElement;
    if (!frame) return { x, y };
    const box = frame.getBoundingClientRect();
    return reach(frame, x + box.left + frame.clientLeft, y + box.top + frame.clientTop);
  }

  function refusal(kind, text) {
    const el = window.__mira.target;
    if (kind === "select") return el.tagName === "SELECT" ? "" : "it is not a list of options";
    if (kind !== "type") return "";
    if (readOnly(el)) return "it is read-only";
    if (el.tagName === "SELECT") return "its options are to be selected, not typed";
    if (!/^(textbox|combobox|slider)$/.test(roleOf(el))) return "it takes no text";
    return el.type === "number" && !isFinite(text) ? `it takes only a number, not ${quote(text)}` : "";
  }

  // A field that is not typed as one text, such as a date, is set at once.  null where this is none, else why it failed, or "".
  function set(text) {
    const el = window.__mira.target, before = el.value;
    if (el.tagName !== "INPUT" || !/^(date|time|datetime-local|month|week|range|color)$/.test(el.type)) return null;
    el.focus();
    // the prototype's setter, since frameworks put their own on the element
    const setter = Object.getOwnPropertyDescriptor(el.ownerDocument.defaultView.HTMLInputElement.prototype, "value").set;
    setter.call(el, text);
    const fits = { range: text.trim() && isFinite(text), color: /^#[0-9a-f]{6}$/i.test(text) }[el.type] ?? (el.value || !text);
    if (!fits) {
      setter.call(el, before);
      return `it takes no ${quote(text)}`;
    }
    changed(el);
    return "";
  }

  // Select what the field holds, so that typing replaces it.
  function selectText() {
    const el = window.__mira.target;
    el.focus();
    if (el.select) el.select();
    else el.ownerDocument.defaultView.getSelection().selectAllChildren(el);
  }

  function changed(el) {
    el.dispatchEvent(new Event("input", { bubbles: true }));
    el.dispatchEvent(new Event("change", { bubbles: true }));
  }

  function choose(text) {
    const el = window.__mira.target;
    const option = el.options[optionNames(el).indexOf(clean(text))];
    if (!option) return `it has no option ${quote(text)}`;
    if (option.matches(":disabled")) return `its option ${quote(text)} is disabled`;
    if (el.multiple) option.selected = true;
    else el.selectedIndex = option.index;
    changed(el);
    return "";
  }

  let running = 0, leaving = null, departures = 0, opening = false, listening = null;
  // A new tab's window is kept, but loses its listeners, when the first page replaces about:blank.  So both remember the page.
  function listen() {
    listening = document;
    addEventListener("beforeunload", () => { leaving = document; departures++; });
    addEventListener("submit", (event) => setTimeout(() => {
      if (event.defaultPrevented) return;
      if (elsewhere(event.target.getAttribute("target"))) opening = true;
      else leaving = document;
    }), true);
    addEventListener("click", (event) => {
      const link = event.composedPath().find((node) => node.tagName === "A" && node.href);
      if (link && elsewhere(link.target)) setTimeout(() => { opening ||= !event.defaultPrevented; });
    }, true);
  }
  const elsewhere = (target) => Boolean(target) && !/^_(self|parent|top)$/i.test(target);
  const openNow = window.open;
  window.open = (...args) => { opening = true; return openNow.apply(window, args); };
  const submitNow = HTMLFormElement.prototype.submit;  // which fires no event
  HTMLFormElement.prototype.submit = function () {
    opening ||= elsewhere(this.getAttribute("target"));
    return submitNow.call(this);
  };
  // Was a new tab asked for since we last asked?
  const opened = () => new Promise((resolve) => setTimeout(() => { resolve(opening); opening = false; }));
  listen();
  const fetchNow = window.fetch;
  window.fetch = (...args) => { running++; return fetchNow(...args).finally(() => running--); };
  const sendNow = XMLHttpRequest.prototype.send;
  XMLHttpRequest.prototype.send = function (...args) {
    running++;
    this.addEventListener("loadend", () => running--);
    return sendNow.apply(this, args);
  };

  const settle = (limit) => new Promise((resolve) => {
    const begin = performance.now();
    if (listening !== document) listen();
    const check = () => {
      if (leaving === document) resolve("leaving");
      else if ((running <= 0 && document.readyState !== "loading") || performance.now() - begin > limit) resolve("quiet");
      else setTimeout(check, 10);
    };
    requestAnimationFrame(() => setTimeout(check));
  });

  // A navigation came to nothing, as with a download: the page stays, unless it set off once more meanwhile.
  const stayed = () => { if (--departures <= 0) departures = 0, leaving = null; };

  window.__mira = { snapshot, locate, refusal, set, selectText, choose, settle, opened, stayed };
})();

// Runs in every page before its own scripts.  The main functions on `window.__mira`:
//   snapshot()               the page as text: one line a block, controls as `role "name" state`
//   locate(role, name, nth)  where to click a control, or why it can't be clicked
//   settle(limit)            resolves when the page is quiet, or after `limit` milliseconds
//   opened()                 whether a new tab was asked for since this was last called
(() => {
  if (window.__mira) return;
  const NATIVE_ROLES = {
    A: "link", BUTTON: "button", TEXTAREA: "textbox", SELECT: "combobox", SUMMARY: "button",
  };
  const INPUT_ROLES = {
    button: "button", submit: "button", reset: "button", image: "button", checkbox: "checkbox", radio: "radio",
    range: "slider", file: "button", color: "button", hidden: "",
  };
  const ARIA_ROLES = new Set(["button", "link", "checkbox", "radio", "tab", "menuitem", "menuitemcheckbox", "menuitemradio",
    "option", "switch", "combobox", "textbox", "searchbox", "spinbutton", "slider", "treeitem"]);
  const SKIPPED = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "HEAD", "SVG", "svg", "CANVAS"]);
  const MAX_NAME = 120, MAX_OPTIONS = 20;

  const clean = (text) => (text || "").toWellFormed().replace(/[\s\u00a0]+/g, " ").trim();
  const cut = (text) => (text.length > MAX_NAME ? text.slice(0, MAX_NAME - 1).toWellFormed() + "…" : text);
  const quote = (text) => JSON.stringify(text);
  // Page text must not look like a control: its quotes are escaped, so `role "name"` can only come from here.
  const plain = (text) => text.replace(/[\\"]/g, (c) => "\\" + c);
  // An element with `display: contents` has no box, and so fails `checkVisibility`, but its children are seen.
  const visible = (el) => el.checkVisibility({ visibilityProperty: true }) || getComputedStyle(el).display === "contents";

  function roleOf(el) {
    const stated = (el.getAttribute("role") || "").split(" ")[0];
    if (ARIA_ROLES.has(stated)) return stated === "searchbox" || stated === "spinbutton" ? "textbox" : stated;
    if (el.tagName === "A") return el.hasAttribute("href") || el.onclick ? "link" : "";
    if (el.tagName === "INPUT") return INPUT_ROLES[el.type] ?? "textbox";
    if (NATIVE_ROLES[el.tagName]) return NATIVE_ROLES[el.tagName];
    if (el.isContentEditable && !el.parentElement?.isContentEditable) return "textbox";
    if (el.hasAttribute("onclick") || (el.tabIndex >= 0 && el.hasAttribute("tabindex"))) return "button";
    return "";
  }

  function textOf(node) {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    if (node.nodeType !== Node.ELEMENT_NODE || SKIPPED.has(node.tagName)) return "";
    if (node.tagName === "IMG") return ` ${node.alt || ""} `;
    if (!visible(node)) return "";
    return [...(node.shadowRoot || node).childNodes].map(textOf).join(" ".repeat(node.tagName === "BR" ? 1 : 0)) + " ";
  }

  function nameOf(el, role) {
    const root = el.getRootNode();
    const ids = el.getAttribute("aria-labelledby");
    const labelled = ids && ids.split(/\s+/).map((id) => root.getElementById?.(id)?.textContent || "").join(" ");
    const isField = "labels" in el && role !== "button";
    const label = isField && el.labels?.length ? [...el.labels].map((l) => labelText(l, el)).join(" ") : "";
    const own = role === "textbox" || role === "combobox" || el.tagName === "INPUT" ? "" : textOf(el);
    const value = el.tagName === "INPUT" && role === "button" ? el.value || el.alt : "";
    for (const name of [labelled, el.getAttribute("aria-label"), label, own, value, el.getAttribute("placeholder"), el.title, el.name]) {
      if (clean(name)) return cut(clean(name));
    }
    return "";
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
    if (el.checked || el.getAttribute("aria-checked") === "true") state.push("checked");
    if (el.getAttribute("aria-selected") === "true") state.push("selected");
    const expanded = el.getAttribute("aria-expanded") ?? (el.tagName === "SUMMARY" ? String(el.parentElement.open) : null);
    if (expanded !== null) state.push(expanded === "true" ? "expanded" : "collapsed");
    if (el.disabled || el.getAttribute("aria-disabled") === "true") state.push("disabled");
    return state.join(" ");
  }

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
      if (inView(range.getBoundingClientRect(), offset, window.innerHeight)) push(plain(text));
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

    const modal = document.querySelector("dialog:modal");
    if (modal) push("dialog"), newLine();
    const root = modal || document.body;
    if (root) for (const child of children(root)) visit(child, { x: 0, y: 0 });
    return { lines: lines.filter((line) => line.length).map((line) => line.join(" ")), controls, below };
  }

  function snapshot() {
    const { lines, below } = walkPage();
    if (window.scrollY > 0) lines.unshift("(more above)");
    if (below) lines.push("(more below)");
    return JSON.stringify({ title: clean(document.title), url: location.href, text: lines.join("\n"), width: innerWidth });
  }

  function locate(role, name, nth) {
    const found = walkPage().controls.filter((control) => control.role === role && control.name === clean(name));
    if (!found.length) return { reason: `there is no ${role} ${quote(name)} on this page` };
    if (found.length < nth) return { reason: `there are only ${found.length} of ${role} ${quote(name)}` };
    const { el, offset } = found[nth - 1];
    if (el.disabled || el.getAttribute("aria-disabled") === "true") return { reason: `${role} ${quote(name)} is disabled` };
    window.__mira.target = el;
    let rect = el.getBoundingClientRect();
    if (rect.top + offset.y < 0 || rect.bottom + offset.y > window.innerHeight) {
      el.scrollIntoView({ block: "center" });
      rect = el.getBoundingClientRect();
    }
    const line = [...el.getClientRects()].find((box) => box.width && box.height) || rect;  // a link may wrap over lines
    const x = line.left + line.width / 2, y = line.top + line.height / 2;
    const root = el.getRootNode();
    const top = (root.elementFromPoint ? root : el.ownerDocument).elementFromPoint(x, y);
    if (top && top !== el && !el.contains(top) && !top.contains(el) && !top.shadowRoot?.contains(el) && ![...(el.labels || [])].some((l) => l.contains(top))) {
      return { reason: `${role} ${quote(name)} is covered by ${top.tagName.toLowerCase()} ${quote(cut(clean(top.textContent)))}` };
    }
    return { x: x + offset.x, y: y + offset.y };
  }

  // Select the text of the field that `locate` found, so that typing replaces it.  A field that is not typed as one text,
  // such as a date, is set at once; true when that was done.
  function selectText(text) {
    const el = window.__mira.target, view = el.ownerDocument.defaultView;
    el.focus();
    if (el.tagName === "INPUT" && /^(date|time|datetime-local|month|week)$/.test(el.type)) {
      // the prototype's setter, since frameworks put their own on the element
      Object.getOwnPropertyDescriptor(view.HTMLInputElement.prototype, "value").set.call(el, text);
      changed(el);
      return true;
    }
    if (el.select) el.select();
    else view.getSelection().selectAllChildren(el);
    return false;
  }

  function changed(el) {
    el.dispatchEvent(new Event("input", { bubbles: true }));
    el.dispatchEvent(new Event("change", { bubbles: true }));
  }

  function choose(text) {
    const el = window.__mira.target;
    if (el.tagName !== "SELECT") return `it is not a list of options`;
    const option = el.options[optionNames(el).indexOf(clean(text))];
    if (!option) return `it has no option ${quote(text)}`;
    if (option.disabled) return `its option ${quote(text)} is disabled`;
    if (el.multiple) option.selected = true;
    else el.selectedIndex = option.index;
    changed(el);
    return "";
  }

  let running = 0, leaving = null, opening = false, listening = null;
  // A new tab's window is kept, but loses its listeners, when the first page replaces about:blank.  So both remember the page.
  function listen() {
    listening = document;
    addEventListener("beforeunload", () => { leaving = document; });
    addEventListener("submit", (event) => setTimeout(() => {
      if (event.defaultPrevented) return;
      if (elsewhere(event.target.target)) opening = true;
      else leaving = document;
    }), true);
    addEventListener("click", (event) => {
      const link = event.composedPath().find((node) => node.tagName === "A" && node.href);
      if (link && elsewhere(link.target)) setTimeout(() => { opening ||= !event.defaultPrevented; });
    }, true);
  }
  const elsewhere = (target) => target && !/^_(self|parent|top)$/i.test(target);
  const openNow = window.open;
  window.open = (...args) => { opening = true; return openNow.apply(window, args); };
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

  window.__mira = { snapshot, locate, selectText, choose, settle, opened, stayed: () => { leaving = null; } };
})();

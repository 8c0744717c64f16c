"""What may an agent send in a person's name, and what may be written down of what it typed?

Two promises of ``run_agent.py``; the third, that its pages reach the allowed origins alone, is the browser's (``browser.py``):

* `Secrets`: a password that was typed stands in no log, file or report;
* `Guard`: a form is held until a person says yes, however it is sent: by a button, the Enter key or a script.  What a page
  sends without a form (``fetch``) is not held.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Awaitable, Callable
from urllib.parse import quote, quote_plus

from playwright.async_api import Error as PlaywrightError

from environment.tab import LOAD_LIMIT_S, Tab, first_line
from trajectory import Action, Observation

MASK = "••••"
SHORTEST_SECRET = 4  # a shorter password, masked wherever its letters occur, would blot out half of every page


class Secrets:
    """The passwords that were typed, and texts without them.

    >>> secrets = Secrets()
    >>> secrets.add("open sesame")
    >>> secrets.mask("/in?p=open+sesame")
    '/in?p=••••'
    """

    def __init__(self):
        self.known: set[str] = set()

    def add(self, secret: str) -> None:
        """Remember it in each form in which a page, an address or an action spells it."""
        if len(secret) >= SHORTEST_SECRET:
            forms = {secret, quote(secret), quote(secret, safe=""), quote_plus(secret)}
            self.known |= forms | {json.dumps(form, ensure_ascii=False)[1:-1] for form in forms}

    def mask(self, text: str) -> str:
        for secret in sorted(self.known, key=len, reverse=True):
            text = text.replace(secret, MASK)
        return text

    def mask_all(self, record):
        """A record as JSON has it, with every text in it masked."""
        if isinstance(record, str):
            return self.mask(record)
        if isinstance(record, dict):
            return {key: self.mask_all(value) for key, value in record.items()}
        return [self.mask_all(value) for value in record] if isinstance(record, (list, tuple)) else record


# Runs in every page.  A form that is about to be sent is kept in `held` instead, while the gate is not open.
GATE = """(() => {
  const proto = HTMLFormElement.prototype, gate = (window.__gate ??= { submit: proto.submit, attach: Element.prototype.attachShadow });
  gate.held = null;
  gate.open = false;
  const hold = (event) => {
    if (gate.open) return;
    const form = event.target, button = event.submitter;
    event.preventDefault();
    event.stopImmediatePropagation();
    gate.held = () => form.requestSubmit(button);
  };
  addEventListener("submit", hold, true);
  proto.submit = function () {
    if (gate.open) gate.submit.call(this);
    else gate.held = () => gate.submit.call(this);
  };
  // a submit event does not leave its shadow root
  Element.prototype.attachShadow = function (init) {
    const root = gate.attach.call(this, init);
    root.addEventListener("submit", hold, true);
    return root;
  };
})()"""
SEND = "() => { const send = __gate.held; __gate.held = null; __gate.open = true; try { send(); } finally { __gate.open = false; } }"


class Guard:
    """Stands between an agent and its tab.

    confirm   asks a person, True for yes; None lets every form pass
    """

    def __init__(self, tab: Tab, confirm: Callable[[Action], Awaitable[bool]] | None = None):
        self.tab, self.confirm, self._notes = tab, confirm, []

    async def stand(self) -> "Guard":
        """From now on, for the pages that are open and all that will be."""
        if self.confirm:
            await self.tab.context.add_init_script(GATE)
            await self._run(self.tab.page, GATE)
        return self

    async def act(self, action: Action) -> Observation:
        """Carry out one action, or as much of it as is allowed, and look at the page that follows."""
        observation = await self.tab.act(action)
        if self.confirm and (frame := await self._held()):
            if await self.confirm(action):
                await self._run(frame, SEND)
                observation = await self.tab.act(Action("stop"))  # which does nothing, waits for what was begun, and looks
            else:
                await self._run(frame, "() => { __gate.held = null; }")
                self._notes.append("the person did not allow this form to be sent")
        error = "; ".join(filter(None, [observation.error, *self._notes]))
        self._notes.clear()
        return replace(observation, error=error)

    async def _held(self):
        """The frame of the active page that holds a form, or None."""
        for frame in self.tab.page.frames:
            if await self._run(frame, "() => Boolean(window.__gate?.held)"):
                return frame
        return None

    async def _run(self, page, script: str):
        """The script's value; None where the page is just being replaced, or does not answer."""
        try:
            async with asyncio.timeout(LOAD_LIMIT_S):
                return await page.evaluate(script)
        except (PlaywrightError, asyncio.TimeoutError) as problem:
            if "Error: " in first_line(problem):  # the page's own, such as a form whose button is gone
                self._notes.append(first_line(problem))
            return None

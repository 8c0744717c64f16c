"""How does the agent see and touch a page?

The observation is compact text (``page.js`` makes it): visible text and controls in reading order, each control as
``role "name" state``.  An action names a control in the same words, so names stay the same from one episode to the next,
which the failure analyser's comparison of action sequences rests on.

What a page can do to the agent is bounded: every wait has a limit, a step that fails becomes the observation's `error`,
and the episode goes on.  JavaScript dialogs are accepted (an alert, a confirm and a leave-page question by "OK", a prompt
with its default) and their message is shown in the next observation.  A new tab becomes the active one; when it closes, the
tab before it is active again.  A page that no longer answers is left for the episode's first page.
"""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urljoin, urlsplit

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page, Request

from trajectory import Action, Observation, quote

VIEWPORT = {"width": 1280, "height": 1440}  # tall, so that a page of a bundled site fits without scrolling
TAB_LIMIT_S = 2  # between a page's asking for a new tab and the tab
QUIET_LIMIT_MS = 1500  # a page that polls for ever is taken as it is after this long
LOAD_LIMIT_S = 10
MAX_NOTES = 5  # a page may open dialogs without end


class EnvironmentFailure(RuntimeError):
    """The browser or the site broke: not the agent's doing, so never a reward of 0."""


class Tab:
    """What the agent looks at: the active page of one browser context."""

    def __init__(self, context, home: str, allowed: set[str]):
        self.context, self.home, self.allowed = context, home, allowed
        self.pages: list[Page] = []
        self._notes: list[str] = []
        self._blocked: set[str] = set()  # origins outside, asked for in vain and told of
        self._led_outside = ""  # the one of these that the last navigation would have led to
        self._loaded, self._opened = asyncio.Event(), asyncio.Event()
        self._crashed = self._stayed = False
        context.set_default_timeout(LOAD_LIMIT_S * 1000)
        context.on("page", self._page_opened)
        context.on("requestfailed", self._request_failed)

    async def start(self, url: str) -> None:
        self._first = url
        page = self.pages[0] if self.pages else await self.context.new_page()
        try:
            response = await page.goto(url, wait_until="domcontentloaded")
        except PlaywrightError:
            if self._blocked:
                raise EnvironmentFailure(f"it leads to {', '.join(self._blocked)}, which is not allowed") from None
            raise
        if response is not None and response.status >= 500:
            raise EnvironmentFailure(f"it answered {response.status}")
        await self._settle()
        if (landed := origin(page.url)) not in self.allowed:
            raise EnvironmentFailure(f"it leads to {landed}, which is not allowed")

    @property
    def page(self) -> Page:
        return self.pages[-1]

    def _page_opened(self, page: Page) -> None:
        self.pages.append(page)
        self._opened.set()
        page.on("dialog", lambda dialog: asyncio.ensure_future(self._answer(dialog)))
        page.on("domcontentloaded", lambda _: self._loaded.set())
        page.on("download", lambda download: self._note(f"a file was offered and not kept: {download.suggested_filename}"))
        page.on("filechooser", lambda _: self._note("the page asks for a file, and there is none to give"))
        page.on("websocket", lambda socket: self._keep_out(socket.url.replace("ws", "http", 1)))
        page.on("close", self._page_closed)
        page.on("crash", self._page_crashed)

    def _note(self, note: str) -> None:
        if len(self._notes) < MAX_NOTES and note not in self._notes:
            self._notes.append(note)

    def _request_failed(self, request: Request) -> None:
        self._keep_out(request.url)
        if not request.is_navigation_request():
            return
        if request.url.startswith("http") and (place := origin(request.url)) not in self.allowed:
            if self._is_main(request):
                self._led_outside = place
        elif request.failure == "net::ERR_ABORTED":  # a download, a 204, a mail program
            self._stayed = True
            self._loaded.set()

    @staticmethod
    def _is_main(request: Request) -> bool:
        try:
            return request.frame.parent_frame is None
        except PlaywrightError:  # a new tab's first request, before the tab is there
            return True

    def _keep_out(self, url: str) -> None:
        """Note, once an episode, that the page asked for a place outside the task's sites."""
        if url.startswith("http") and (place := origin(url)) not in self.allowed | self._blocked:
            self._blocked.add(place)
            self._note(f"{place} is outside this task's sites: blocked")

    def _page_closed(self, page: Page) -> None:
        if page in self.pages and len(self.pages) > 1:
            self.pages.remove(page)
            self._note("the tab closed itself")
            self._loaded.set()  # nothing more will load in it

    def _page_crashed(self, _) -> None:
        self._crashed = True

    def _check_alive(self) -> None:
        if self._crashed or self.page.is_closed():
            raise EnvironmentFailure("the page crashed" if self._crashed else "the browser went away")

    async def _answer(self, dialog) -> None:
        self._note(f"{dialog.type} dialog: {' '.join(dialog.message.split())[:200]}")
        try:
            await dialog.accept(dialog.default_value)
        except PlaywrightError:
            pass  # the page went away with its dialog

    async def observe(self, error: str = "") -> Observation:
        """The active page now.  A page that cannot be read is an observation with an error, not a crash."""
        seen = {"title": "", "url": self.page.url, "text": ""}
        for _ in range(3):
            try:
                seen = json.loads(await self._limited(self.page.evaluate("__mira.snapshot()")))
                break
            except asyncio.TimeoutError:
                await self._free()
            except PlaywrightError as problem:  # the page was replaced while we asked
                self._check_alive()
                await self._settle()
                seen = {"title": "", "url": self.page.url, "text": "", "problem": first_line(problem)}
        notes = [note for note in (error, *self._notes, seen.get("problem", "")) if note]
        self._notes.clear()
        return Observation(seen["title"], self._short(seen["url"]), seen["text"], "; ".join(notes))

    def _short(self, url: str) -> str:
        """Path and query at home, the whole address elsewhere."""
        return (url[len(self.home) :] or "/") if origin(url) == self.home else url

    async def act(self, action: Action) -> Observation:
        """Carry out one action and look at the page that follows."""
        self._check_alive()
        self._loaded.clear()
        self._opened.clear()
        try:
            page = self.page
            error = await self._limited(self._carry_out(action))
            await self._new_tab(page)
            await self._settle()
        except asyncio.TimeoutError:
            error = f"{action.kind} took longer than {LOAD_LIMIT_S} seconds"
            await self._settle()
        except PlaywrightError as problem:
            self._check_alive()
            error = first_line(problem)
            await self._settle()
        try:
            error = await self._back_to_allowed() or error
        except PlaywrightError as problem:
            error = first_line(problem)
        if self.page.url.startswith("chrome-error:"):
            await self._check_reachable()
            error = error or "the page could not be loaded"
        return await self.observe(error)

    async def _check_reachable(self) -> None:
        parts = urlsplit(self.home)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            _, writer = await self._limited(asyncio.open_connection(parts.hostname, port))
            writer.close()
        except (OSError, asyncio.TimeoutError) as error:
            raise EnvironmentFailure(f"{self.home} is unreachable: {first_line(error)}") from error

    async def is_secret(self, action: Action) -> bool:
        """Whether `action` types into a password field, so that a view of the run can hide what; in doubt, yes."""
        if action.kind != "type":
            return False
        if "password" in action.name.lower():  # also one that "show password" has made a plain text field
            return True
        place = [action.role, action.name, action.nth]
        try:
            if "reason" in await self._limited(self.page.evaluate("([r, n, i]) => __mira.locate(r, n, i)", place)):
                return False
            return bool(await self._limited(self.page.evaluate("__mira.target.type === 'password'")))
        except (PlaywrightError, asyncio.TimeoutError):
            return True

    async def _carry_out(self, action: Action) -> str:
        """Returns why it could not be done, or ""."""
        page = self.page
        match action.kind:
            case "click" | "hover" | "type" | "select":
                return await self._touch(action)
            case "press":
                await page.keyboard.press(action.text)
            case "scroll":
                distance = VIEWPORT["height"] * 2 // 3 * (1 if action.text == "down" else -1)
                await page.evaluate(f"window.scrollBy(0, {distance})")
            case "go_back":
                before = page.url  # a step back within one document has no response either
                if await page.go_back(wait_until="domcontentloaded") is None and page.url == before:
                    return "there is no page to go back to"
                if page.url == "about:blank":  # where every tab begins
                    await page.go_forward(wait_until="domcontentloaded")
                    return "there is no page to go back to"
            case "goto":
                url = urljoin(page.url if page.url.startswith("http") else self.home, action.text)
                if origin(url) not in self.allowed:
                    return f"{origin(url)} is outside this task's sites"
                await page.goto(url, wait_until="domcontentloaded")
            case "stop":
                pass
            case _:
                return f"not an action: {action.text[:100]}"
        return ""

    async def _touch(self, action: Action) -> str:
        page = self.page
        place = await page.evaluate("([r, n, i]) => __mira.locate(r, n, i)", [action.role, action.name, action.nth])
        if "reason" in place:
            return place["reason"]
        said = f"{action.role} {quote(action.name)}"
        if reason := await page.evaluate("([kind, text]) => __mira.refusal(kind, text)", [action.kind, action.text]):
            return f"{said}: {reason}"
        if action.kind == "select":
            reason = await page.evaluate("text => __mira.choose(text)", action.text)
            return reason and f"{said}: {reason}"
        if action.kind == "hover":
            await page.mouse.move(place["x"], place["y"])
            return ""
        if action.kind == "type":
            reason = await page.evaluate("text => __mira.set(text)", action.text)
            if reason is not None:
                return reason and f"{said}: {reason}"
        await page.mouse.click(place["x"], place["y"])
        if action.kind == "type":
            await page.evaluate("__mira.selectText()")
            if action.text:
                await page.keyboard.insert_text(action.text)
            else:
                await page.keyboard.press("Delete")
        return ""

    async def _settle(self) -> None:
        """Wait until a navigation that has begun is over and requests have come back, each with a limit."""
        for _ in range(5):  # a page may redirect itself a few times
            try:
                if await self._limited(self.page.evaluate(f"__mira.settle({QUIET_LIMIT_MS})")) == "quiet":
                    return
            except PlaywrightError:
                self._check_alive()  # else the page was replaced while we asked
            except asyncio.TimeoutError:
                return await self._free()
            try:
                async with asyncio.timeout(LOAD_LIMIT_S):
                    await self._loaded.wait()
            except asyncio.TimeoutError:
                self._note(f"the next page has not come within {LOAD_LIMIT_S} seconds")
                self._stayed = True
            self._loaded.clear()
            if self._stayed:
                self._stayed = False
                try:
                    await self._limited(self.page.evaluate("__mira.stayed()"))
                except (PlaywrightError, asyncio.TimeoutError):
                    pass  # it has gone after all

    async def _free(self) -> None:
        """A page that does not answer waits for one that does not come, or its script never ends.

        The first is told to stay.  The second takes its tab with it: on with a new one, on the episode's first page.
        """
        try:
            async with asyncio.timeout(LOAD_LIMIT_S):
                session = await self.context.new_cdp_session(self.page)
                await session.send("Page.stopLoading")
                await session.detach()
                await self.page.evaluate("__mira.stayed()")
            return self._note(f"the next page has not come within {LOAD_LIMIT_S} seconds")
        except (PlaywrightError, asyncio.TimeoutError):
            self._check_alive()
        try:
            async with asyncio.timeout(2 * LOAD_LIMIT_S):
                hung = self.pages[:]
                page = await self.context.new_page()  # first, since a context that has lost its last page is over
                self.pages = [page]
                for other in hung:  # they may share the process that hangs
                    await other.close()
                await page.goto(self._first, wait_until="domcontentloaded")
        except (PlaywrightError, asyncio.TimeoutError) as error:
            raise EnvironmentFailure(f"the page hangs, and cannot be left: {first_line(error)}") from error
        self._note("the page did not answer any more; back to the first page")

    async def _new_tab(self, page: Page) -> None:
        """Wait for the tab that `page` asked for, so that the next look is at that."""
        try:
            if await self._limited(page.evaluate("__mira.opened()")):
                await asyncio.wait_for(self._opened.wait(), TAB_LIMIT_S)
        except (PlaywrightError, asyncio.TimeoutError):
            pass  # the page was replaced, or its tab was blocked

    async def _back_to_allowed(self) -> str:
        """Where a link, a form or a redirect led outside, Chromium shows its own page for what was blocked."""
        page, outside = self.page, self._led_outside
        if not outside or not page.url.startswith("chrome-error:"):
            return ""
        self._led_outside = ""
        await page.go_back(wait_until="domcontentloaded")
        if not page.url.startswith("http"):  # a tab of its own, with nothing to go back to
            if len(self.pages) > 1:
                self.pages.remove(page)
                await page.close()
            else:
                await page.goto(self._first, wait_until="domcontentloaded")
        return f"{outside} is outside this task's sites; went back"

    @staticmethod
    async def _limited(awaitable):
        async with asyncio.timeout(LOAD_LIMIT_S):  # unlike `wait_for` before Python 3.12, it never swallows a Ctrl-C
            return await awaitable

    async def read(self, url: str, expression: str) -> str:
        """The value of a JavaScript expression on the page at `url`, for evaluators: the episode is over, the tab goes there.

        "" when the expression fails, as WebArena's evaluators have it.
        """
        try:
            await self.page.goto(url, wait_until="domcontentloaded")
            return await evaluate_text(self.page, expression)
        except PlaywrightError as error:
            raise EnvironmentFailure(f"could not open {url}: {first_line(error)}") from error

    async def empty(self) -> bool:
        """Leave the page and forget cookies, storage, history and other tabs, as if all were new; False where that fails.

        A tab that may visit other origins than its home fails.
        """
        if self.allowed != {self.home}:
            await self.close()
            return False
        try:
            self._check_alive()
            for page in self.pages[1:]:
                await page.close()
            await self._limited(self.page.evaluate("window.name = '', sessionStorage.clear()"))
            await self._limited(self.page.goto("about:blank"))
            session = await self.context.new_cdp_session(self.page)
            await session.send("Storage.clearDataForOrigin", {"origin": self.home, "storageTypes": "all"})
            await session.send("Page.resetNavigationHistory")
            await session.detach()
            await self.context.clear_cookies()
        except (PlaywrightError, EnvironmentFailure, asyncio.TimeoutError):
            await self.close()
            return False
        self._notes.clear()
        self._blocked.clear()
        self._led_outside = ""
        return True

    async def close(self) -> None:
        await self.close_context(self.context)

    @staticmethod
    async def close_context(context) -> None:
        try:
            await context.close()
        except PlaywrightError:
            pass  # the browser is gone already


async def evaluate_text(page: Page, expression: str) -> str:
    """The value of a JavaScript expression as text; "" where there is none or it fails."""
    try:
        value = await page.evaluate(expression)
    except PlaywrightError:
        return ""
    return "" if value is None else str(value)


def origin(url: str) -> str:
    """
    >>> origin("http://127.0.0.1:8000/forum?q=1")
    'http://127.0.0.1:8000'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]

"""How does the agent see and touch a page?  Chromium through Playwright.

The observation is compact text (``page.js`` makes it): visible text and controls in reading order, each control as
``role "name" state``.  An action names a control in the same words, so names stay the same from one episode to the next,
which the failure analyser's comparison of action sequences rests on.

What a page can do to the agent is bounded: every wait has a limit, a step that fails becomes the observation's `error`,
and the episode goes on.  JavaScript dialogs are accepted (an alert, a confirm and a leave-page question by "OK", a prompt
with its default) and their message is shown in the next observation.  A new tab becomes the active one; when it closes, the
tab before it is active again.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page, async_playwright

from trajectory import Action, Observation

PAGE_SCRIPT = (Path(__file__).parent / "page.js").read_text(encoding="utf-8")
# Without RenderDocument, pages of one site share a frame, and navigating costs a third less.  Chromium takes the last such list
# only, so those of Playwright's own that matter here are repeated.
SWITCHES = ["--disable-features=RenderDocument,PaintHolding,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,ThirdPartyStoragePartitioning"]
VIEWPORT = {"width": 1280, "height": 1440}  # tall, so that a page of a bundled site fits without scrolling
SYSTEM_BROWSERS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
TAB_LIMIT_S = 2  # between a page's asking for a new tab and the tab
QUIET_LIMIT_MS = 1500  # a page that polls for ever is taken as it is after this long
LOAD_LIMIT_S = 10


class EnvironmentFailure(RuntimeError):
    """The browser or the site broke: not the agent's doing, so never a reward of 0."""


def find_browser() -> str | None:
    """A Chromium that the system has, or None.  (Playwright's own is found by Playwright.)"""
    return next((path for name in SYSTEM_BROWSERS if (path := shutil.which(name))), None)


class Browser:
    """One Chromium process; each episode gets a fresh context of it, with no cookies or storage from another.

    >>> async with Browser() as browser:                      # doctest: +SKIP
    ...     tab = await browser.open("http://127.0.0.1:8000/forum")
    ...     print((await tab.observe()).text)
    """

    def __init__(self, *, headless: bool = True):
        self.headless = headless

    async def __aenter__(self) -> "Browser":
        self._playwright = await async_playwright().start()
        self._launching = asyncio.Lock()
        try:
            await self._launch()
        except EnvironmentFailure:
            await self._playwright.stop()
            raise
        return self

    async def _launch(self) -> None:
        own = self._playwright.chromium.executable_path
        path = None if os.path.exists(own) else find_browser()
        try:
            self._browser = await self._playwright.chromium.launch(executable_path=path, headless=self.headless, args=SWITCHES)
        except PlaywrightError as error:
            raise EnvironmentFailure(
                f"no browser could be started ({first_line(error)}); `python -m environment.browser` finds or installs one"
            ) from error

    @property
    def version(self) -> str:
        return self._browser.version

    async def __aexit__(self, *exception) -> None:
        try:
            await self._browser.close()
        finally:
            await self._playwright.stop()

    async def open(self, url: str, *, allowed: tuple[str, ...] = (), instead_of: "Tab | None" = None) -> "Tab":
        """A fresh context on `url`.  The agent may visit the origins of `url` and of `allowed`, and no others.

        A Chromium that died is started again first.

        instead_of   a tab that `Tab.empty` has emptied: it goes to `url`, which costs half of what a fresh context does
        """
        if instead_of is not None:
            try:
                await instead_of.start(url)
                return instead_of
            except (PlaywrightError, EnvironmentFailure):
                await instead_of.close()
        async with self._launching:
            if not self._browser.is_connected():
                await self._launch()
        context = None
        try:
            context = await self._browser.new_context(viewport=VIEWPORT, reduced_motion="reduce")
            await context.add_init_script(PAGE_SCRIPT)
            tab = Tab(context, origin(url), {origin(url), *map(origin, allowed)})
            await tab.start(url)
            return tab
        except (PlaywrightError, EnvironmentFailure) as error:
            if context:
                await Tab.close_context(context)
            raise EnvironmentFailure(f"could not open {url}: {first_line(error)}") from error


class Tab:
    """What the agent looks at: the active page of one browser context."""

    def __init__(self, context, home: str, allowed: set[str]):
        self.context, self.home, self.allowed = context, home, allowed
        self.pages: list[Page] = []
        self._notes: list[str] = []
        self._loaded, self._opened = asyncio.Event(), asyncio.Event()
        self._crashed = False
        context.on("page", self._page_opened)

    async def start(self, url: str) -> None:
        page = self.pages[0] if self.pages else await self.context.new_page()
        response = await page.goto(url, wait_until="domcontentloaded", timeout=LOAD_LIMIT_S * 1000)
        if response is not None and response.status >= 500:
            raise EnvironmentFailure(f"it answered {response.status}")
        await self._settle()
        if (landed := origin(page.url)) not in self.allowed:
            raise EnvironmentFailure(f"{url} leads to {landed}, which is not allowed")

    @property
    def page(self) -> Page:
        return self.pages[-1]

    def _page_opened(self, page: Page) -> None:
        self.pages.append(page)
        self._opened.set()
        page.on("dialog", lambda dialog: asyncio.ensure_future(self._answer(dialog)))
        page.on("domcontentloaded", lambda _: self._loaded.set())
        page.on("close", self._page_closed)
        page.on("crash", self._page_crashed)

    def _page_closed(self, page: Page) -> None:
        if page in self.pages and len(self.pages) > 1:
            self.pages.remove(page)
            self._notes.append("the tab closed itself")
            self._loaded.set()  # nothing more will load in it

    def _page_crashed(self, _) -> None:
        self._crashed = True

    def _check_alive(self) -> None:
        if self._crashed or self.page.is_closed():
            raise EnvironmentFailure("the page crashed" if self._crashed else "the browser went away")

    async def _answer(self, dialog) -> None:
        self._notes.append(f"{dialog.type} dialog: {' '.join(dialog.message.split())[:200]}")
        try:
            await dialog.accept(dialog.default_value)
        except PlaywrightError:
            pass  # the page went away with its dialog

    async def observe(self, error: str = "") -> Observation:
        """The active page now.  A page that cannot be read is an observation with an error, not a crash."""
        for _ in range(3):
            try:
                seen = json.loads(await self._limited(self.page.evaluate("__mira.snapshot()")))
                break
            except (PlaywrightError, asyncio.TimeoutError) as problem:
                self._check_alive()
                await self._settle()
                seen = {"title": "", "url": self.page.url, "text": "", "problem": first_line(problem)}
        else:
            if self.page.is_closed():
                raise EnvironmentFailure(f"the browser went away: {seen['problem']}")
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
            error = error or await self._back_to_allowed()
        except asyncio.TimeoutError:
            error = f"{action.kind} took longer than {LOAD_LIMIT_S} seconds"
        except PlaywrightError as problem:
            self._check_alive()
            error = first_line(problem)
            await self._settle()
        if self.page.url.startswith("chrome-error:"):
            await self._check_reachable()
            error = error or "the page could not be loaded"
        return await self.observe(error)

    async def _check_reachable(self) -> None:
        try:
            await self.context.request.get(self.home, timeout=LOAD_LIMIT_S * 1000)
        except PlaywrightError as error:
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
        if action.kind == "select":
            reason = await page.evaluate("text => __mira.choose(text)", action.text)
            return reason and f"combobox {json.dumps(action.name, ensure_ascii=False)}: {reason}"
        if action.kind == "hover":
            await page.mouse.move(place["x"], place["y"])
            return ""
        await page.mouse.click(place["x"], place["y"])
        if action.kind == "type":
            if await page.evaluate("text => __mira.selectText(text)", action.text):
                return ""
            if action.text:
                await page.keyboard.insert_text(action.text)
            else:
                await page.keyboard.press("Delete")
        return ""

    async def _settle(self) -> None:
        """Wait until a navigation that has begun is over and requests have come back, each with a limit."""
        for _ in range(5):  # a page may redirect itself a few times
            try:
                state = await self._limited(self.page.evaluate(f"__mira.settle({QUIET_LIMIT_MS})"))
                if state == "quiet":
                    return
            except PlaywrightError:
                self._check_alive()  # else the page was replaced while we asked
            except asyncio.TimeoutError:
                return
            try:
                async with asyncio.timeout(LOAD_LIMIT_S / 2):
                    await self._loaded.wait()
                self._loaded.clear()
            except asyncio.TimeoutError:  # it said it would leave and stayed, as with a download
                try:
                    await self._limited(self.page.evaluate("__mira.stayed()"))
                except (PlaywrightError, asyncio.TimeoutError):
                    return

    async def stays(self) -> None:
        """For who stopped a navigation: the page need not be waited for."""
        try:
            await self._limited(self.page.evaluate("__mira.stayed()"))
        except (PlaywrightError, asyncio.TimeoutError):
            pass  # a new tab, which has no page yet
        self._loaded.set()

    async def _new_tab(self, page: Page) -> None:
        """Wait for the tab that `page` asked for, so that the next look is at that."""
        try:
            if await self._limited(page.evaluate("__mira.opened()")):
                await asyncio.wait_for(self._opened.wait(), TAB_LIMIT_S)
        except (PlaywrightError, asyncio.TimeoutError):
            pass  # the page was replaced, or its tab was blocked

    async def _back_to_allowed(self) -> str:
        page, outside = self.page, origin(self.page.url)
        if outside in self.allowed or not page.url.startswith("http"):
            return ""
        await page.go_back(wait_until="domcontentloaded")
        if page.url.startswith("http") and origin(page.url) not in self.allowed:  # a tab of its own, with nothing to go back to
            if len(self.pages) > 1:
                self.pages.remove(page)
                await page.close()
            else:
                await page.goto(self.home, wait_until="domcontentloaded")
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
            await self.page.goto(url, wait_until="domcontentloaded", timeout=LOAD_LIMIT_S * 1000)
            return await evaluate_text(self.page, expression)
        except PlaywrightError as error:
            raise EnvironmentFailure(f"could not open {url}: {first_line(error)}") from error

    async def empty(self) -> bool:
        """Leave the page and forget cookies, storage, history and other tabs, as if all were new; False where that fails.

        Only for a tab that has no other origin than its home.
        """
        try:
            self._check_alive()
            for page in self.pages[1:]:
                await page.close()
            await self._limited(self.page.evaluate("sessionStorage.clear()"))
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
    try:
        return str(await page.evaluate(expression) or "")
    except PlaywrightError:
        return ""


def origin(url: str) -> str:
    """
    >>> origin("http://127.0.0.1:8000/forum?q=1")
    'http://127.0.0.1:8000'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# --- finding or installing one -----------------------------------------------------------------------------------------


async def _starts() -> str:
    """What starts here, or "" with the reason on the screen."""
    try:
        async with Browser() as browser:
            return f"Chromium {browser.version}"
    except EnvironmentFailure as failure:
        print(failure, file=sys.stderr)
        return ""


def main() -> None:
    """Make sure that a browser is there: Playwright's, the system's, else Playwright's installer, else the system's package."""
    apt = ["apt-get", "install", "--yes", "--no-install-recommends"]
    attempts = [[], [sys.executable, "-m", "playwright", "install", "chromium"]]
    if shutil.which("apt-get"):
        sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
        attempts += [[*sudo, "apt-get", "update", "--quiet"], [*sudo, *apt, "chromium-headless-shell"], [*sudo, *apt, "chromium"]]
    for command in attempts:
        if command:
            print("$", " ".join(command), flush=True)
            try:
                subprocess.run(command, check=False)
            except OSError as error:
                print(error, file=sys.stderr)
        if found := asyncio.run(_starts()):
            print(f"browser: {found}")
            return
    sys.exit("no browser: install Chromium or Chrome by hand (`apt-get install chromium`, `brew install --cask google-chrome`)")


if __name__ == "__main__":
    main()

"""Which Chromium runs, and what is an episode's own in it?

Each episode has a browser context to itself, with no cookies or storage from another.  The context's way out is a proxy
that is not there, and only the task's own origins go around it: so links, frames, scripts, sockets and redirects to any
other place fail at once, whatever a page tries, and no request to a task's own site costs more than before.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import async_playwright

from environment.tab import VIEWPORT, EnvironmentFailure, Tab, evaluate_text, first_line, origin

__all__ = ["Browser", "EnvironmentFailure", "Tab", "evaluate_text", "find_browser", "first_line", "origin"]

PAGE_SCRIPT = (Path(__file__).parent / "page.js").read_text(encoding="utf-8")
# Without RenderDocument, pages of one site share a frame, and navigating costs a third less.  Chromium takes the last such list
# only, so those of Playwright's own that matter here are repeated.
SWITCHES = ["--disable-features=RenderDocument,PaintHolding,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,ThirdPartyStoragePartitioning"]
SYSTEM_BROWSERS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
NOWHERE = "http://127.0.0.1:9"  # the discard port


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
        """A tab on `url`.  It may visit the origins of `url` and of `allowed`, and no others.

        A Chromium that died is started again first.

        instead_of   a tab that `Tab.empty` has emptied: it goes to `url`, which costs half of what a fresh context does, if
                     it may visit the same origins; else it is closed
        """
        sites = {origin(url), *map(origin, allowed)}
        if instead_of is not None:
            try:
                if instead_of.allowed == sites and instead_of.home == origin(url):
                    await instead_of.start(url)
                    return instead_of
            except (PlaywrightError, EnvironmentFailure):
                pass  # a fresh one may do better
            await instead_of.close()
        async with self._launching:
            if not self._browser.is_connected():
                await self._launch()
        context = None
        try:
            way_out = {"server": NOWHERE, "bypass": ",".join(map(host_and_port, sorted(sites)))}
            context = await self._browser.new_context(viewport=VIEWPORT, reduced_motion="reduce", proxy=way_out)
            await context.add_init_script(PAGE_SCRIPT)
            tab = Tab(context, origin(url), sites)
            await tab.start(url)
            return tab
        except (PlaywrightError, EnvironmentFailure) as error:
            if context:
                await Tab.close_context(context)
            raise EnvironmentFailure(f"could not open {url}: {first_line(error)}") from error


def host_and_port(site: str) -> str:
    """
    >>> host_and_port("https://example.org"), host_and_port("http://[::1]:8000")
    ('example.org:443', '[::1]:8000')
    """
    parts = urlsplit(site)
    return parts.netloc if parts.port else f"{parts.netloc}:{443 if parts.scheme == 'https' else 80}"


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

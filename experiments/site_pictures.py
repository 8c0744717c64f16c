"""What do the bundled sites look like?  One page of each, as the oracle of an evaluation task leaves it.

    python -m experiments.site_pictures            # writes docs/sites.png
"""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path

from environment.browser import Browser
from environment.tasks import load_tasks
from environment.websites import SITES, World
from experiments.figures import picture_grid
from trajectory import Task, parse_action

ACTIONS = {"forum": 4, "gitlab": 5, "shop_admin": 4, "shop": 4, "map": 3}  # how far the oracle goes: to a page that shows much


async def picture(browser: Browser, world: World, task: Task, actions: int) -> bytes:
    """A PNG of the page's upper part after the oracle's first `actions`."""
    world.reset(task.world)
    tab = await browser.open(world.url(task.start_url))
    for line in task.oracle[:actions]:
        await tab.act(parse_action(line))
    png = await tab.page.screenshot(clip={"x": 0, "y": 0, "width": 1140, "height": 620})
    await tab.close()
    return png


async def pictures(tasks: dict[str, Task]) -> dict[str, io.BytesIO]:
    with World() as world:
        async with Browser() as browser:
            return {site: io.BytesIO(await picture(browser, world, task, ACTIONS[site])) for site, task in tasks.items()}


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/sites.png")
    longest = {site: max((t for t in load_tasks("evaluation") if t.sites == (site,)), key=lambda t: len(t.oracle)) for site in SITES}
    print(picture_grid(asyncio.run(pictures(longest)), path))


if __name__ == "__main__":
    main()

"""How fast are the browser and the worlds?  Agent steps a second, a world's reset, and all oracles replayed.

    python -m experiments.browser_speed                 # 200 steps on four pages side by side, 50 resets, the oracles
    python -m experiments.browser_speed --oracles 0     # without the oracles

A step is what an agent's is: an action that follows a link or goes back, the wait until the page is quiet, and its
observation.  Where BrowserGym is installed, its own loop takes the same steps on one page, for the ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import itertools
import re
import time

from environment.browser import Browser, find_browser
from environment.rollout import OraclePolicy, rollout
from environment.tasks import load_tasks
from environment.websites import World
from trajectory import parse_action

SEED = 7
START = "__FORUM__"


async def steps_a_second(steps: int, pages: int) -> float:
    """`steps` actions in all, on `pages` worlds side by side."""

    async def play(browser: Browser, world: World) -> None:
        tab = await browser.open(world.url(START))
        for line in itertools.islice(itertools.cycle(actions), steps // pages):
            seen = await tab.act(parse_action(line))
            if seen.error:
                raise RuntimeError(f"{line}: {seen.error}")
        await tab.close()

    worlds = [World() for _ in range(pages)]
    for world in worlds:
        world.reset(SEED)
    try:
        async with Browser() as browser:
            actions = await repeatable_actions(browser, worlds[0])
            begin = time.perf_counter()
            await asyncio.gather(*(play(browser, world) for world in worlds))
            return steps / (time.perf_counter() - begin)
    finally:
        for world in worlds:
            world.close()


async def repeatable_actions(browser: Browser, world: World) -> list[str]:
    """Follow the start page's first link, then go back: what can be done for ever."""
    tab = await browser.open(world.url(START))
    for name in re.findall(r'link ("[^"]+")', (await tab.observe()).text):
        if (await tab.act(parse_action(f"click link {name}"))).url != "/forum":
            await tab.close()
            return [f"click link {name}", "go_back"]
    raise RuntimeError("the start page has no link that leads away")


def reset_ms(resets: int) -> float:
    """Mean time in which a world that was written to is put back, once its seed has been made."""
    took = 0.0
    with World() as world:
        world.reset(SEED)
        for _ in range(resets):
            with world.lock:
                world.db.execute("UPDATE forum_posts SET title = 'changed'")
                world.db.commit()
            begin = time.perf_counter()
            world.reset(SEED)
            took += time.perf_counter() - begin
            if world.query("SELECT 1 FROM forum_posts WHERE title = 'changed'"):
                raise RuntimeError("a reset left something behind")
    return 1000 * took / resets


def browsergym_steps_a_second(steps: int) -> float:
    """BrowserGym's own loop with its default observations: a click on the start page's first link, then back."""
    import gymnasium
    import playwright.sync_api  # noqa: F401  BrowserGym drives the synchronous interface

    import browsergym.core  # noqa: F401  registers the task

    with World() as world:
        world.reset(SEED)
        options = {"executable_path": find_browser()}
        env = gymnasium.make(
            "browsergym/openended", task_kwargs={"start_url": world.url(START)}, pw_chromium_kwargs=options, headless=True
        )
        seen, _ = env.reset()
        begin = time.perf_counter()
        for number in range(steps):
            links = [n["browsergym_id"] for n in seen["axtree_object"]["nodes"] if n["role"]["value"] == "link" and n.get("browsergym_id")]
            seen, *_ = env.step("go_back()" if number % 2 else f"click('{links[-1]}')")
        rate = steps / (time.perf_counter() - begin)
        env.close()
        return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="actions in all")
    parser.add_argument("--pages", type=int, default=4, help="worlds side by side")
    parser.add_argument("--resets", type=int, default=50)
    parser.add_argument("--oracles", type=int, default=165, help="evaluation tasks whose oracles are replayed")
    options = parser.parse_args()

    ours = asyncio.run(steps_a_second(options.steps, options.pages))
    print(f"steps a second, {options.pages} pages: {ours:.1f}")
    print(f"world reset: {reset_ms(options.resets):.2f} ms")
    if options.oracles:
        tasks = load_tasks("evaluation")[: options.oracles]
        begin = time.perf_counter()
        episodes = rollout(OraclePolicy(), tasks, max_steps=20)
        took, acted = time.perf_counter() - begin, sum(len(episode.steps) for episode in episodes)
        print(f"oracles: {sum(episode.success for episode in episodes)} of {len(tasks)} solve, {acted} steps in {took:.1f} s")
    if importlib.util.find_spec("browsergym"):
        alone = asyncio.run(steps_a_second(options.steps // 4, 1))
        theirs = browsergym_steps_a_second(20)
        print(f"one page: {alone:.1f} steps a second here, {theirs:.1f} with BrowserGym: {alone / theirs:.0f} times")


if __name__ == "__main__":
    main()

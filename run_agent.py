"""The agent at inference time: milestones made once, checked before every action.  (Section 5.2, A.2, Figures 5, 9, 14)

    python run_agent.py "Open the first issue assigned to me" --start-url http://127.0.0.1:3000 --model google/gemma-3-12b-it
    python run_agent.py --task gitlab-eval-003   a bundled task; by default the first, with the newest policy under runs/

A generator makes exactly K = 4 milestones, once.  Before each action a rater says which are reached, z_t, latched; the actor is
shown the checklist, the rater's answers and, where z stands still or the agent goes round in a loop, the call to plan anew.  A
bundled task brings milestones and checks along, so all of this works with no network.

Each of the three is a model of its own or the same: a run's folder, what transformers loads, or, with an address, whatever
answers there in OpenAI's protocol (Gemini, vLLM, llama.cpp, Ollama); a strong one makes this the paper's Gemini-SGO.  Keys come
from the environment, ACTOR_API_KEY, RATER_API_KEY and GENERATOR_API_KEY where they differ, else OPENAI_API_KEY.

Settled here.  A policy without a chat template (the small bundled one) is shown milestones only if it was trained with them
(`train.py --milestone-share 0.5`).  Where no rating can be had the step is "unjudged" and the last z stands.  Your own site has no evaluator: `--save`
then writes ``unjudged.jsonl``.  An episode that Ctrl-C or a dead endpoint ends is recorded as an environment failure: the agent
did not fail.  Passwords that were typed are masked on the screen and in all that is saved.
Exit status: 0 solved (your own site: stopped by itself), 1 not, 2 could not begin, 3 browser, site or endpoint broke, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import logging
import os
import sys
from pathlib import Path
from typing import Awaitable, Callable, Sequence
from urllib.parse import urlsplit

from agent import Agent, Metered, Roles, Session, chats, reads_milestones, with_milestones
from environment.browser import Browser, EnvironmentFailure, first_line
from environment.report import Moment, photograph, write_report
from environment.rollout import Episode, trajectory_of
from environment.safety import Guard
from environment.tasks import SPLITS, load_tasks, score
from environment.terminal import View, ask
from environment.websites import World
from failure_analysis import agent_failures, classify, key_decision_step, known_paths
from language_model import ChatEndpoint, LanguageModel, LocalModel
from milestoning import AutoRater, thinking_budget
from run_folder import policy_folder
from trajectory import (
    Task,
    Trajectory,
    append_trajectories,
    read_trajectories,
    trajectory_from_json,
    trajectory_to_json,
)


async def run(
    options: argparse.Namespace,
    roles: Roles,
    show: Callable[[str], None] = print,
    confirm: Callable[[str], Awaitable[bool]] = ask,
) -> Trajectory:
    """Play the task of `check`'s options and save it, come what may.  `confirm` is asked for a person's yes."""
    if not all(chats(model) for model in (roles.rater, roles.generator) if model):
        raise ValueError("this policy can neither make nor rate milestones; name a model with --rater, or add --no-milestones")
    world = World() if options.task.subgoal_checks else None
    rater = AutoRater(Metered(roles.rater), options.thinking) if roles.rater else None
    agent = Agent(roles.actor, rater, None if rater else world, options.milestones)
    shown = options.images and isinstance(roles.rater, ChatEndpoint)
    session = Session(Episode(options.task, 0), agent, View(show), options.max_steps, bool(options.save) or shown, shown)
    ending, outcome = (False, "environment_failure", ""), "interrupted"
    try:
        async with Browser(headless=not options.headed) as browser:
            guard = await begin(browser, session, roles, options, world, confirm)
            end = await session.play(guard)
            answer = session.episode.steps[-1].action.text if end == "stopped" else ""
            points = await score(session.episode.task, answer, guard.tab, world) if world else None
            ending = (points == 1.0 and end == "stopped", end, answer)
            outcome = verdict(trajectory_of(session.episode, *ending), points, session.moments)
            session.view(outcome)
    except (ConnectionError, EnvironmentFailure) as error:
        outcome = f"broke off: {first_line(error)}"
        raise
    finally:
        session.threads.shutdown(wait=False)
        if world:
            world.close()
        played = trajectory_from_json(session.view.secrets.mask_all(trajectory_to_json(trajectory_of(session.episode, *ending))))
        if options.save and session.episode.observation:
            save(Path(options.save), played, session, outcome, judged=world is not None)
    return played


async def begin(browser: Browser, session: Session, roles: Roles, options: argparse.Namespace, world: World | None, confirm) -> Guard:
    """Open the first page, guarded, and make the milestones where the task has none."""
    view, episode, start = session.view, session.episode, options.task.start_url
    if world:
        world.reset(episode.task.world)
    tab = await browser.open(world.url(start) if world else start, allowed=tuple(options.allow))
    question = lambda action: confirm(view.secrets.mask(f"Send the form on {tab.page.url}, by {action}?"))  # noqa: E731
    guard = await Guard(tab, question if options.confirm else None).stand()
    episode.observation = await tab.observe()
    view(f"goal  {episode.task.intent}")
    if roles.generator:
        picture = await photograph(tab, view.secrets) if options.images and isinstance(roles.generator, ChatEndpoint) else b""
        episode.task = await session.think(with_milestones, episode, roles.generator, picture)
    if options.milestones and not reads_milestones(roles.actor):
        view("note  this policy was trained without a checklist: milestones are tracked and shown, but not to it")
    return guard


def save(folder: Path, played: Trajectory, session: Session, outcome: str, judged: bool) -> None:
    """The trajectory, appended, and the report, whose key decision step compares with the successes in the same file."""
    file = folder / ("trajectories.jsonl" if judged else "unjudged.jsonl")
    append_trajectories(file, [played])
    failed = agent_failures([played])
    key_step = key_decision_step(played, known_paths(played, read_trajectories(file))) if failed else None
    write_report(folder, played.task.intent, played.task.subgoals, session.moments, outcome, key_step, session.view.secrets)


def verdict(episode: Trajectory, points: float | None, moments: Sequence[Moment]) -> str:
    """The outcome in a line; `points` is the evaluator's score, None on a site that has none."""
    outcome = "success" if episode.success else episode.end if points is None else f"failed: {classify(episode).value}"
    facts = ["no evaluator" if points is None else f"score {points:.1f}", f"{len(episode.steps)} steps"]
    facts += [f"{sum(episode.z[-1])} of {len(episode.z[-1])} milestones"] if episode.z[-1] else []
    unjudged = sum(not moment.judged for moment in moments)
    facts += [f"{unjudged} of {len(moments)} checks unjudged"] if unjudged else []
    facts += [f"{sum(moment.tokens for moment in moments):,} tokens, {sum(moment.seconds for moment in moments):.1f} s"]
    return f"{outcome}  ({', '.join(facts)})" + (episode.answer and f"  answer: {episode.answer}")


# --- the command line -----------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    usage = "python run_agent.py [TASK IN WORDS --start-url URL | --task ID] [--model NAME] [...]   (--help lists all)"
    parser = argparse.ArgumentParser(usage=usage, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("intent", nargs="?", help="what to do, in words")
    add("--start-url", metavar="URL", help="the page to begin on, for a task in words")
    add("--task", metavar="ID", help="a bundled task, such as gitlab-eval-003 (default: the first one)")
    add("--allow", action="append", default=[], metavar="URL", help="another site that the agent may visit")
    add("--model", default="", help="the actor: a run's or policy's folder, a hub id, a .gguf file (default: newest policy under runs/)")
    add("--endpoint", metavar="URL", help="the OpenAI-compatible address of --model")
    add("--rater", metavar="NAME", help="'checks' (default of bundled tasks), 'self' (of others: the actor), or another model")
    add("--rater-endpoint", metavar="URL", help="the OpenAI-compatible address of --rater")
    add("--generator", metavar="NAME", help="'task' (default of bundled tasks), 'rater' (of others), 'self', or another model")
    add("--generator-endpoint", metavar="URL", help="the OpenAI-compatible address of --generator")
    add("--images", action="store_true", help="show pages to rater and generator as pictures, too, at an endpoint that takes them")
    add("--no-milestones", dest="milestones", action="store_false", help="the plain agent")
    add("--thinking", default="auto", metavar="N", help="tokens that the rater may think: 0, 256, …, or auto (default): more in doubt")
    add("--max-steps", type=int, default=30, metavar="N", help="actions after which it ends (default: 30)")
    add("--confirm", action="store_true", help="ask before a form is sent")
    add("--headed", action="store_true", help="show the browser")
    add("--save", metavar="DIR", help="append the trajectory to a file there, with a screenshot a step and report.html")
    return parser.parse_args(arguments)


def check(options: argparse.Namespace) -> argparse.Namespace:
    """Raises `ValueError` where options do not go together; returns them with `task` a `Task` and the roles filled in."""
    own, rater, generator = options.intent is not None, options.rater, options.generator
    start, *allow = [address(url) if url else "" for url in (options.start_url, *options.allow)]
    for url in filter(None, (options.endpoint, options.rater_endpoint, options.generator_endpoint)):
        address(url)
    generator = generator or ("rater" if own else "task")
    rater = rater or ("checks" if generator == "task" else "self")
    tasks = {task.task_id: task for split in SPLITS for task in load_tasks(split)}
    wanted = options.task or next(iter(tasks))
    close = ", ".join(difflib.get_close_matches(wanted, tasks, 3)) or "none"
    wrong = {
        "a task in words needs --start-url, and the other way round": own != bool(options.start_url),
        "a task in words and --task exclude each other": own and options.task,
        f"--task: there is no {wanted!r} among the bundled tasks; near it: {close}": wanted not in tasks,
        "--generator: only a bundled task has milestones": own and generator == "task",
        "--rater: only a bundled task has checks, and only for its own milestones": rater == "checks" and generator != "task",
        "--rater, --generator: the plain agent has no use for them": (options.rater or options.generator) and not options.milestones,
        "--endpoint needs the name of a --model": options.endpoint and not options.model,
        "--rater-endpoint needs the name of a --rater": options.rater_endpoint and rater in ("checks", "self"),
        "--generator-endpoint needs the name of a --generator": options.generator_endpoint and generator in ("task", "rater", "self"),
        "--images: neither rater nor generator is an endpoint": options.images
        and not (options.rater_endpoint or options.generator_endpoint or options.endpoint and "self" in (rater, generator)),
        f"--max-steps: expected 1 or more, got {options.max_steps}": options.max_steps < 1,
    }
    if problems := [text for text, holds in wrong.items() if holds]:
        raise ValueError("; ".join(problems))
    thinking = int(options.thinking) if options.thinking.isdecimal() else options.thinking
    thinking_budget(thinking)  # raises what is wrong with it
    if options.save:
        Path(options.save).mkdir(parents=True, exist_ok=True)
    task = Task("own", (), options.intent, start, {"eval_types": []}) if own else tasks[wanted]
    if not options.milestones:
        rater, generator = "checks", "task"
    found = {"task": task, "allow": allow, "rater": rater, "generator": generator, "thinking": thinking}
    return argparse.Namespace(**{**vars(options), **found})


def address(url: str) -> str:
    """`url` as a browser spells it, so that origins can be compared; raises `ValueError` where it is none.

    >>> address("HTTP://Shop.example:80/cart")
    'http://shop.example/cart'
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"expected an address such as http://127.0.0.1:3000, got {url!r}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = "" if parts.port in (None, {"http": 80, "https": 443}[parts.scheme]) else f":{parts.port}"
    return parts._replace(netloc=host + port).geturl()


def load_roles(options: argparse.Namespace) -> Roles:
    """The models that `check`'s options name, each loaded once."""
    loaded: dict[tuple, LanguageModel] = {}

    def load(role: str, name: str, endpoint: str | None) -> LanguageModel:
        if (name, endpoint) not in loaded:
            key = os.environ.get(f"{role}_API_KEY")
            loaded[name, endpoint] = ChatEndpoint(name, endpoint, key=key) if endpoint else LocalModel.load(policy_folder(name))
        return loaded[name, endpoint]

    actor = load("ACTOR", options.model, options.endpoint)
    words = {"checks": None, "task": None, "self": actor}
    rater = words[options.rater] if options.rater in words else load("RATER", options.rater, options.rater_endpoint)
    words["rater"] = rater
    named = options.generator not in words
    return Roles(actor, rater, load("GENERATOR", options.generator, options.generator_endpoint) if named else words[options.generator])


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    sys.stdout.reconfigure(errors="replace")  # a page may have letters that the terminal lacks
    try:
        options = check(options)
        episode = asyncio.run(run(options, load_roles(options)))
    except (ValueError, OSError, EnvironmentFailure) as error:
        print(f"run_agent.py: {first_line(error)}", file=sys.stderr)
        return 3 if isinstance(error, (EnvironmentFailure, ConnectionError)) else 2
    except KeyboardInterrupt:
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # or it laments the browser, which Ctrl-C reaches too
        print(f"\nstopped{options.save and f'; the episode so far is in {options.save}' or ''}", file=sys.stderr)
        return 130
    return int(not episode.success if options.task.subgoal_checks else episode.end != "stopped")


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    if code == 130:
        os._exit(code)  # neither a model that still thinks nor a question that is still open is waited for
    sys.exit(code)

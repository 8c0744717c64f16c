"""The agent at inference time: milestones made once, checked before every action.  (Section 5.2, Figures 5 and 9)

    python run_agent.py "Open the first issue assigned to me" --start-url http://127.0.0.1:3000 --model google/gemma-3-12b-it
    python run_agent.py --task gitlab-eval-003   a bundled task; by default the first, with the newest policy under runs/

A model behind an OpenAI-compatible address is `--endpoint URL --model NAME` (key: OPENAI_API_KEY); a strong one makes this the
paper's Gemini-SGO.  A teacher makes exactly K = 4 milestones, once.  Before each action the AutoRater says which are reached,
z_t, latched; the action is conditioned on the checklist, the rater's answers and, where z stands still or the agent goes round
in a loop, the call to plan anew.  A bundled task brings milestones and checks along, so all of this works with no network.

Settled here.  A policy without a chat template (the small bundled one) was trained on the plain state: milestones stay out of
its prompt.  Your own site has no evaluator: `--save` then writes ``unjudged.jsonl``.  An episode that Ctrl-C ends is recorded
as an environment failure: the agent did not fail.  Passwords are masked on the screen; the saved file has what was typed.
Exit status: 0 solved (your own site: stopped by itself), 1 not, 2 could not begin, 3 browser, site or endpoint broke, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import logging
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Callable, Sequence
from urllib.parse import urlsplit

from openai import OpenAIError

from environment.browser import Browser, EnvironmentFailure, Tab, first_line
from environment.rollout import Episode, trajectory_of
from environment.tasks import SPLITS, completed_subgoals, load_tasks, score
from environment.terminal import View
from environment.websites import World
from failure_analysis import classify, loop_entry
from language_model import ACTION_GUIDE, ChatEndpoint, LanguageModel, LocalModel, read_action, state_prompt
from milestoning import QUESTIONS, AutoRater, Reflection, checklist, replan_instruction, stagnated, thinking_budget
from progress_labels import key_steps
from subgoals import EXAMPLES, generate_subgoals
from trajectory import Step, Task, Trajectory, append_trajectories, as_text

K = 4  # milestones a task (section 5.1)
DEMONSTRATIONS = [example for domain in EXAMPLES.values() for example in domain[:3]]  # for a site of no known kind


@dataclass(frozen=True)
class Agent:
    """π with a rater beside it.

    rater        None: the checks of the bundled task in `world` say what z_t is, exactly and at no cost
    milestones   False: the plain agent, whose prompt has the state and the instruction alone
    patience     steps without a new milestone after which it plans anew; not reported, and the bundled oracles pause for 3
    """

    model: LanguageModel
    rater: AutoRater | None = None
    world: World | None = None
    milestones: bool = True
    patience: int = 4

    def reflect(self, episode: Episode) -> Reflection:
        """z_t, latched, and the answers, for the current observation; where the rater gives none, the last z stands."""
        task, page = episode.task, episode.observation
        before = episode.z[-1] if episode.z else (False,) * len(task.subgoals)
        if self.rater:
            return self.rater.reflect(task.intent, task.subgoals, episode.steps, page, before) or Reflection(before)
        now = completed_subgoals(task, page, self.world) if self.world else before
        return Reflection(tuple(a or b for a, b in zip(now, before, strict=True)))

    def fruitless(self, episode: Episode) -> list[Step]:
        """The steps since z last grew, if they are too many or end in a loop; else none."""
        if not self.milestones or not episode.steps:
            return []
        grown = max(key_steps(episode.z), default=0)
        recent, z = episode.steps[grown:], episode.z[grown:]
        so_far = Trajectory(episode.task, recent, episode.observation, z, success=False, end="step_limit")
        return recent if stagnated(episode.z, self.patience) or loop_entry(so_far) is not None else []

    def prompt(self, episode: Episode, reflection: Reflection) -> str:
        plan = []
        if self.milestones and chats(self.model):
            plan = [checklist(episode.task.subgoals, reflection.z)]
            plan += [f"{field}: {answer}" for field in QUESTIONS if (answer := getattr(reflection, field))]
            if recent := self.fruitless(episode):
                plan.append(replan_instruction(episode.task.subgoals, reflection.z, recent))
        guide = f"{ACTION_GUIDE}\n" if chats(self.model) else ""
        actions = [step.action for step in episode.steps]
        return guide + state_prompt(episode.task.intent, actions, episode.observation, checklist="\n".join(plan))

    def act(self, episode: Episode, reflection: Reflection) -> Step:
        room = 64 if isinstance(self.model, LocalModel) else 1024  # what an endpoint thinks counts too
        (reply,) = self.model.generate([self.prompt(episode, reflection)], temperature=0.0, max_new_tokens=room)
        return Step(episode.observation, read_action(reply.text), reply.text, reply.token_ids, reply.log_prob)


def chats(model: LanguageModel) -> bool:
    """False for a policy without a chat template: a checklist is foreign to it, and it can neither make nor rate milestones."""
    return not isinstance(model, LocalModel) or bool(model.tokenizer.chat_template)


async def run(options, model: LanguageModel, guide: LanguageModel | None, show: Callable[[str], None] = print) -> Trajectory:
    """Play the task of `check`'s options and save it, come what may; `guide` makes and rates milestones, None: the task does."""
    if guide and not chats(guide):
        raise ValueError("this policy can neither make nor rate milestones; name a model with --rater, or add --no-milestones")
    world = World() if options.task.subgoal_checks else None
    view, episode, ending = View(show), Episode(options.task, 0), (False, "environment_failure", "")
    agent = Agent(model, AutoRater(guide, options.thinking) if guide else None, world, options.milestones)
    try:
        async with Browser(headless=not options.headed) as browser:
            if world:
                world.reset(episode.task.world)
            start = options.task.start_url
            tab = await browser.open(world.url(start) if world else start, allowed=tuple(options.allow))
            episode.observation = await tab.observe()
            if options.milestones and not episode.task.subgoals:
                page = as_text(episode.observation)
                made = await asyncio.to_thread(generate_subgoals, guide, episode.task.intent, page, K, DEMONSTRATIONS, seed=0)
                episode.task = replace(episode.task, subgoals=made)
            view(f"goal  {episode.task.intent}")
            if options.milestones and not chats(model):
                view("note  this policy was trained without a checklist: milestones are tracked and shown, but not to it")
            end = await play(episode, agent, tab, view, options.max_steps)
            answer = episode.steps[-1].action.text if end == "stopped" else ""
            points = await score(episode.task, answer, tab, world) if world else None
            ending = (points == 1.0 and end == "stopped", end, answer)
            view(verdict(trajectory_of(episode, *ending), points))
    finally:
        if options.save and episode.observation:
            file = Path(options.save) / ("trajectories.jsonl" if world else "unjudged.jsonl")
            append_trajectories(file, [trajectory_of(episode, *ending)])
        if world:
            world.close()
    return trajectory_of(episode, *ending)


async def play(episode: Episode, agent: Agent, tab: Tab, view: View, max_steps: int) -> str:
    """Reflect, act, look, until the agent stops or has no steps left.  Models run in a thread, so that Ctrl-C is heard."""
    while True:
        reflection = await asyncio.to_thread(agent.reflect, episode)
        episode.z.append(reflection.z)
        view.page(len(episode.steps), episode.observation)
        if agent.milestones and episode.z[-1] != (episode.z[-2] if episode.steps else None):
            view.block(checklist(episode.task.subgoals, reflection.z).splitlines())
        if recent := agent.fruitless(episode):
            view.block([f"~ no new milestone in {len(recent)} steps: time to plan anew"])
        if episode.steps and episode.steps[-1].action.kind == "stop":
            return "stopped"
        if len(episode.steps) >= max_steps:
            return "step_limit"
        step = await asyncio.to_thread(agent.act, episode, reflection)
        view.action(step.action, secret=await tab.is_secret(step.action))
        episode.observation = await tab.act(step.action)
        episode.steps.append(step)


def verdict(episode: Trajectory, points: float | None) -> str:
    """The outcome in a line; `points` is the evaluator's score, None on a site that has none."""
    outcome = "success" if episode.success else episode.end if points is None else f"failed: {classify(episode).value}"
    judged = "no evaluator" if points is None else f"score {points:.1f}"
    reached = f", {sum(episode.z[-1])} of {len(episode.z[-1])} milestones" if episode.z[-1] else ""
    return f"{outcome}  ({judged}, {len(episode.steps)} steps{reached})" + (episode.answer and f"  answer: {episode.answer}")


# --- the command line -----------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    usage = "python run_agent.py [TASK IN WORDS --start-url URL | --task ID] [--model NAME] [...]   (--help lists all)"
    parser = argparse.ArgumentParser(usage=usage, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("intent", nargs="?", help="what to do, in words")
    add("--start-url", metavar="URL", help="the page to begin on, for a task in words")
    add("--task", metavar="ID", help="a bundled task, such as gitlab-eval-003 (default: the first one)")
    add("--allow", action="append", default=[], metavar="URL", help="another site that the agent may visit")
    add("--model", default="", help="a run's or policy's folder, a hub id, a .gguf file (default: newest policy under runs/)")
    add("--endpoint", metavar="URL", help="the OpenAI-compatible address of --model")
    add("--rater", metavar="NAME", help="'checks' (default of bundled tasks), 'self' (of others), or another model")
    add("--rater-endpoint", metavar="URL", help="the OpenAI-compatible address of --rater")
    add("--no-milestones", dest="milestones", action="store_false", help="the plain agent")
    add("--thinking", default="auto", metavar="N", help="the rater's: off, auto (default), or a number of tokens")
    add("--max-steps", type=int, default=30, metavar="N", help="actions after which it ends (default: 30)")
    add("--headed", action="store_true", help="show the browser")
    add("--save", metavar="DIR", help="append the trajectory to a file there")
    return parser.parse_args(arguments)


def check(options: argparse.Namespace) -> argparse.Namespace:
    """Raises `ValueError` where options do not go together; returns them with `task` a `Task` and `rater` filled in."""
    own, rater = options.intent is not None, options.rater
    for url in filter(None, [options.start_url, options.endpoint, options.rater_endpoint, *options.allow]):
        if not urlsplit(url).hostname or not url.startswith(("http://", "https://")):
            raise ValueError(f"expected an address such as http://127.0.0.1:3000, got {url!r}")
    tasks = {task.task_id: task for split in SPLITS for task in load_tasks(split)}
    wanted = options.task or next(iter(tasks))
    close = ", ".join(difflib.get_close_matches(wanted, tasks, 3)) or "none"
    wrong = {
        "a task in words needs --start-url, and the other way round": own != bool(options.start_url),
        "a task in words and --task exclude each other": own and options.task,
        f"--task: there is no {wanted!r} among the bundled tasks; near it: {close}": wanted not in tasks,
        "--rater: only a bundled task has checks": own and rater == "checks",
        "--rater: the plain agent has no use for one": rater and not options.milestones,
        "--endpoint needs the name of a --model": options.endpoint and not options.model,
        "--rater-endpoint needs the name of a --rater": options.rater_endpoint and rater in (None, "checks", "self"),
        f"--max-steps: expected 1 or more, got {options.max_steps}": options.max_steps < 1,
    }
    if problems := [text for text, holds in wrong.items() if holds]:
        raise ValueError("; ".join(problems))
    thinking = int(options.thinking) if options.thinking.isdecimal() else options.thinking
    thinking_budget(thinking)  # raises what is wrong with it
    if options.save:
        Path(options.save).mkdir(parents=True, exist_ok=True)
    task = Task("own", (), options.intent, options.start_url, {"eval_types": []}) if own else tasks[wanted]
    rater = rater or ("self" if own and options.milestones else "checks")
    return argparse.Namespace(**{**vars(options), "task": task, "rater": rater, "thinking": thinking})


def policy_folder(name: str, runs: str = "runs") -> str:
    """The newest policy in the run's or phase's folder `name`, and for "" in the newest run; any other `name` as it is."""
    policies = sorted(Path(name or runs).glob("**/policy"), key=lambda policy: policy.stat().st_mtime)
    policies = [policy for policy in policies if policy.parent.name.removeprefix("phase-").isdecimal()]
    if not name and not policies:
        raise ValueError(f"no policy under {runs}/ yet: `python train.py --phases 1` makes one, and --model names any other")
    newest = [policy for policy in policies if policy.parents[1] == policies[-1].parents[1]]  # of the newest run
    return str(max(newest, key=lambda policy: int(policy.parent.name.removeprefix("phase-")), default=name))


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    sys.stdout.reconfigure(errors="replace")  # a page may have letters that the terminal lacks
    load = lambda name, endpoint: ChatEndpoint(name, endpoint) if endpoint else LocalModel.load(policy_folder(name))  # noqa: E731
    try:
        options = check(options)
        model = load(options.model, options.endpoint)
        other = options.rater not in ("self", "checks")
        guide = load(options.rater, options.rater_endpoint) if other else model if options.rater == "self" else None
        episode = asyncio.run(run(options, model, guide))
    except (ValueError, OSError, EnvironmentFailure, OpenAIError) as error:
        print(f"run_agent.py: {first_line(error)}", file=sys.stderr)
        return 3 if isinstance(error, (EnvironmentFailure, OpenAIError)) else 2
    except KeyboardInterrupt:
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # or it laments the browser, which Ctrl-C reaches too
        print(f"\nstopped{options.save and f'; the episode so far is in {options.save}' or ''}", file=sys.stderr)
        return 130
    return int(not episode.success if episode.task.subgoal_checks else episode.end != "stopped")


if __name__ == "__main__":
    sys.exit(main())

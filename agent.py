"""How does the agent with milestones choose its next action, step after step?  (Section 5.2, Figures 5 and 9)

Three roles, played by three models or by one: a generator makes K milestones once, a rater says before each action which are
reached, z_t, latched, and an actor acts on the state, the checklist, the rater's answers and, where z stands still or the agent
goes round in a loop, the call to plan anew.  A bundled task's own milestones and checks can stand in for the first two.

Settled here.  A trained policy is shown what it was trained with: the checklist with z, or, trained on the plain state, no
milestones.  Where no rating can be had, the last z stands and the step counts as unjudged.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Awaitable, Callable

from environment.report import Moment, photograph
from environment.rollout import Episode
from environment.safety import MASK, Guard
from environment.tasks import completed_subgoals
from environment.terminal import View
from environment.websites import World
from failure_analysis import loop_entry
from language_model import ACTION_GUIDE, LanguageModel, LocalModel, Reply, read_action, state_prompt
from milestoning import QUESTIONS, AutoRater, Reflection, checklist, replan_instruction, stagnated
from progress_labels import key_steps
from subgoals import EXAMPLES, examples_for, generate_subgoals, one_line
from trajectory import Action, Step, Task, Trajectory, as_text, format_action

K = 4  # milestones a task (section 5.1)
REASON = "You may say in one line why, before the line with the action.\n"
DEMONSTRATIONS = [example for domain in EXAMPLES.values() for example in domain[:3]]  # for a site of no known kind


@dataclass(frozen=True)
class Roles:
    """Who does what; one model may do it all.

    rater       None: the checks of the bundled task say what z_t is, exactly and at no cost
    generator   None: the bundled task brings its milestones along
    """

    actor: LanguageModel
    rater: LanguageModel | None = None
    generator: LanguageModel | None = None


class Metered:
    """A model, and the tokens that it has written so far."""

    def __init__(self, model: LanguageModel):
        self.model, self.tokens = model, 0

    def generate(self, prompts: list[str], **settings) -> list[Reply]:
        replies = self.model.generate(prompts, **settings)
        self.tokens += sum(reply.tokens for reply in replies)
        return replies


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

    @property
    def tokens_of_rater(self) -> int:
        return getattr(self.rater.model, "tokens", 0) if self.rater else 0

    def reflect(self, episode: Episode, picture: bytes = b"") -> Reflection:
        """z_t, latched, and the answers, for the current observation; where the rater gives none, the last z stands.

        picture   the page as a screenshot, for a rater that takes images
        """
        task, page = episode.task, episode.observation
        before = episode.z[-1] if episode.z else (False,) * len(task.subgoals)
        if self.rater:
            rated = self.rater.reflect(task.intent, task.subgoals, episode.steps, page, before, picture)
            return rated or Reflection(before, judged=False)
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
        if self.milestones and reads_milestones(self.model):
            plan = [checklist(episode.task.subgoals, reflection.z)]
        if plan and chats(self.model):
            plan += [f"{field}: {answer}" for field in QUESTIONS if (answer := getattr(reflection, field))]
            if (current := reflection.current_subgoal) is not None:
                plan.append(f"current milestone: {one_line(episode.task.subgoals[current])}")
            if recent := self.fruitless(episode):
                plan.append(replan_instruction(episode.task.subgoals, reflection.z, recent))
        guide = f"{ACTION_GUIDE}{REASON}\n" if chats(self.model) else ""
        actions = [step.action for step in episode.steps]
        return guide + state_prompt(episode.task.intent, actions, episode.observation, checklist="\n".join(plan))

    def act(self, episode: Episode, reflection: Reflection) -> Reply:
        local = isinstance(self.model, LocalModel)
        room = 2048 if not local else 256 if chats(self.model) else 64  # what an endpoint thinks unseen counts too
        (reply,) = self.model.generate([self.prompt(episode, reflection)], temperature=0.0, max_new_tokens=room)
        return reply


def chats(model: LanguageModel) -> bool:
    """False for a policy without a chat template: it acts, and can neither make nor rate milestones."""
    return not isinstance(model, LocalModel) or bool(model.tokenizer.chat_template)


def reads_milestones(model: LanguageModel) -> bool:
    """False for a policy that was trained on the plain state alone."""
    return chats(model) or model.knows_milestones


def action_of(reply: Reply) -> tuple[Action, str]:
    """The action of a reply, and what was said before it.  A reply that was cut off has not come to its action."""
    if reply.cut:
        return Action("invalid", text=f"the reply was cut off at its limit of tokens: {' '.join(reply.text.split())[-100:]}"), ""
    action = read_action(reply.text)
    said = reply.text.strip().rpartition("\n")[0] if action.kind != "invalid" else ""
    return action, " ".join(said.split())


def with_milestones(episode: Episode, generator: LanguageModel, picture: bytes = b"") -> Task:
    """The task with K milestones made for it; its checks, if it has any, belong to others.  Raises `ValueError`: none came."""
    task, page = episode.task, as_text(episode.observation)
    examples = examples_for(task.sites) or DEMONSTRATIONS
    order = zlib.crc32(task.intent.encode())  # of the demonstrations: another for each task, and always the same
    made = generate_subgoals(generator, task.intent, page, K, examples, seed=order, picture=picture)
    return replace(task, subgoals=made, subgoal_checks=())


@dataclass
class Session:
    """An episode under way, and who takes part in it.

    photos    whether to photograph each page, for the report or the rater
    shown     whether the rater sees the photograph
    moments   what comes of it for the report, filled in as it happens
    """

    episode: Episode
    agent: Agent
    view: View
    max_steps: int
    photos: bool
    shown: bool = False
    moments: list[Moment] = field(default_factory=list)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def think(self, work: Callable, *arguments) -> Awaitable:
        """A model's work in a thread of its own, so that Ctrl-C is heard."""
        return asyncio.get_running_loop().run_in_executor(self.threads, work, *arguments)

    async def play(self, guard: Guard) -> str:
        """Reflect, act, look, until the agent stops or has no steps left: how it ended."""
        steps = self.episode.steps
        while True:
            picture = await photograph(guard.tab, self.view.secrets) if self.photos else b""
            self.moments.append(Moment(self.episode.observation, picture))
            reflection = await self.reflect(self.moments[-1])
            if steps and steps[-1].action.kind == "stop":
                return "stopped"
            if len(steps) >= self.max_steps:
                return "step_limit"
            await self.act(guard, self.moments[-1], reflection)

    async def reflect(self, moment: Moment) -> Reflection:
        """Which milestones are reached?"""
        episode, agent, view = self.episode, self.agent, self.view
        view.page(len(episode.steps), episode.observation)
        began, written = time.monotonic(), agent.tokens_of_rater
        reflection = await self.think(agent.reflect, episode, moment.screenshot if self.shown else b"")
        moment.seconds, moment.tokens = time.monotonic() - began, agent.tokens_of_rater - written
        moment.z, moment.judged = reflection.z, reflection.judged
        moment.answers = {name: getattr(reflection, name) for name in QUESTIONS}
        episode.z.append(reflection.z)
        if agent.milestones and episode.z[-1] != (episode.z[-2] if episode.steps else None):
            view.block(checklist(episode.task.subgoals, reflection.z).splitlines())
        view.answers(moment.answers if moment.judged else {"unjudged": "the last check stands"})
        if recent := agent.fruitless(episode):
            view.block([f"~ no new milestone in {len(recent)} steps: time to plan anew"])
        return reflection

    async def act(self, guard: Guard, moment: Moment, reflection: Reflection) -> None:
        """Choose the next action, and carry it out."""
        episode, began = self.episode, time.monotonic()
        reply = await self.think(self.agent.act, episode, reflection)
        moment.seconds, moment.tokens = moment.seconds + time.monotonic() - began, moment.tokens + reply.tokens
        action, moment.reason = action_of(reply)
        if secret := await guard.tab.is_secret(action):
            moment.reason = ""  # it may tell what is typed
        self.view.action(action, reason=moment.reason, secret=secret)
        self.view.budget(moment.tokens, moment.seconds)
        step = Step(episode.observation, action, reply.text, reply.token_ids, reply.log_prob)
        if secret:  # from here on only the page knows it; token ids would tell
            hidden = replace(action, text=MASK)
            step = Step(episode.observation, hidden, format_action(hidden))
        moment.action = format_action(step.action)
        episode.observation = await guard.act(action)
        episode.steps.append(step)

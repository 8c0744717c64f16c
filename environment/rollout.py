"""How are episodes played?  Many worlds side by side, one batch of the policy for all of them at each step.

Two teams of episodes take turns: while the browsers of one team act, the policy answers for the other, in one batch.  Teams
alternate strictly, so a run with the same seed gives the same episodes.  When an episode ends, its place takes the next task.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Callable, Protocol, Sequence

from environment.browser import Browser, EnvironmentFailure, Tab
from environment.tasks import completed_subgoals, score
from environment.websites import World
from trajectory import Action, Observation, Step, Task, Trajectory, parse_action

ATTEMPTS = 2  # an episode that the environment broke is played once more before it is reported


class Policy(Protocol):
    """Chooses an action for each of several states."""

    def act(self, states: Sequence["Episode"]) -> list[Step]:
        """One `Step` for each episode, from its task, earlier steps and current observation."""


@dataclass
class Episode:
    """An episode under way, and what the policy may look at: `task`, `steps`, `observation`, `key`."""

    task: Task
    key: int  # position in the list of tasks; with the run's seed it fixes the episode's random numbers
    attempt: int = 0
    steps: list[Step] = field(default_factory=list)
    observation: Observation | None = None
    z: list[tuple[bool, ...]] = field(default_factory=list)


@dataclass
class _Place:
    """A world, the tab that shows it, and the episode that is played in it."""

    world: World
    tab: Tab | None = None
    episode: Episode | None = None


def rollout(
    policy: Policy,
    tasks: Sequence[Task],
    *,
    max_steps: int,
    parallel: int = 8,
    headless: bool = True,
    done: Callable[[int, Trajectory], None] = lambda key, trajectory: None,
) -> list[Trajectory]:
    """One trajectory for each task, in the tasks' order.

    max_steps  actions after which an episode ends with "step_limit"
    done       called with (position, trajectory) as each episode ends
    """
    return asyncio.run(_rollout(policy, list(tasks), max_steps, parallel, headless, done))


async def _rollout(policy, tasks, max_steps, parallel, headless, done) -> list[Trajectory]:
    results: dict[int, Trajectory] = {}
    waiting = [Episode(task, key) for key, task in enumerate(tasks)][::-1]
    places = [_Place(World()) for _ in range(min(parallel, len(tasks)))]

    def finish(place: _Place, trajectory: Trajectory) -> None:
        results[place.episode.key] = trajectory
        done(place.episode.key, trajectory)
        place.episode = None

    def broken(place: _Place) -> None:
        episode = place.episode
        if episode.attempt + 1 < ATTEMPTS:
            waiting.append(Episode(episode.task, episode.key, episode.attempt + 1))
            place.episode = None
        else:
            finish(place, trajectory_of(episode, False, "environment_failure", ""))

    async def begin(place: _Place) -> None:
        try:
            await _start(place, browser)
        except EnvironmentFailure:
            broken(place)

    async def step(place: _Place, chosen: Step) -> None:
        try:
            if (end := await _step(place, chosen, max_steps)) is not None:
                finish(place, end)
        except EnvironmentFailure:
            broken(place)

    try:
        async with Browser(headless=headless) as browser:
            acting, thinking, chosen = places[0::2], places[1::2], []
            while waiting or any(place.episode for place in places):
                asked = [place.episode for place in thinking if place.episode]
                answer = asyncio.create_task(asyncio.to_thread(policy.act, asked)) if asked else None
                await asyncio.gather(*map(step, [place for place in acting if place.episode], chosen))
                free = [place for place in acting if not place.episode][: len(waiting)]
                for place in free:
                    place.episode = waiting.pop()
                await asyncio.gather(*map(begin, free))
                chosen = await answer if answer else []
                acting, thinking = thinking, acting
    finally:
        for place in places:
            place.world.close()
    return [results[key] for key in range(len(tasks))]


async def _start(place: _Place, browser: Browser) -> None:
    task = place.episode.task
    emptied = place.tab if place.tab and await place.tab.empty() else None
    place.tab = None
    place.world.reset(task.world)
    place.tab = await browser.open(place.world.url(task.start_url), instead_of=emptied)
    _saw(place, await place.tab.observe())


def _saw(place: _Place, observation: Observation) -> None:
    place.episode.observation = observation
    place.episode.z.append(completed_subgoals(place.episode.task, observation, place.world))


async def _step(place: _Place, step: Step, max_steps: int) -> Trajectory | None:
    """Play one action; the trajectory if it was the last."""
    episode, action = place.episode, step.action
    _saw(place, await place.tab.act(action))
    episode.steps.append(step)
    if action.kind != "stop" and len(episode.steps) < max_steps:
        return None
    stopped = action.kind == "stop"
    answer = action.text if stopped else ""
    # WebArena scores the page as it is at the end; an agent that never stops has given no answer.
    success = await score(episode.task, answer, place.tab, place.world) == 1.0
    return trajectory_of(episode, success and stopped, "stopped" if stopped else "step_limit", answer)


def trajectory_of(episode: Episode, success: bool, end: str, answer: str) -> Trajectory:
    """The episode as far as it came; where it broke off before z of its last states was known, the last z stands."""
    final = episode.observation or Observation("", "", "", "the episode could not be started")
    z = episode.z or [(False,) * len(episode.task.subgoals)]
    z = z + [z[-1]] * (len(episode.steps) + 1 - len(z))
    return Trajectory(episode.task, episode.steps, final, z, success, end, answer)


class OraclePolicy:
    """Plays each task's own solution; the demonstrations of the supervised warm-up."""

    def act(self, states: Sequence[Episode]) -> list[Step]:
        lines = [state.task.oracle[len(state.steps)] for state in states]
        return [Step(state.observation, parse_action(line), reply=line) for state, line in zip(states, lines)]


class NoOpPolicy:
    """Stops at once, with no answer: no task may be solved by it."""

    def act(self, states: Sequence[Episode]) -> list[Step]:
        return [Step(state.observation, Action("stop"), reply='stop ""') for state in states]

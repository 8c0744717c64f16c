"""How well do policies do on a set of tasks?  Greedy episodes of each, and what one kind gains over another.  (Table 3)

    python -m experiments.evaluate runs/mira/phase-6/policy
    python -m experiments.evaluate before=runs/mira/phase-0/policy,runs/seed-1/phase-0/policy \\
                                   after=runs/mira/phase-6/policy,runs/seed-1/phase-6/policy

Printed for each policy: success with its 95% interval, by site, on templates that no pool task has, how the failures came about,
and the cost of a step; then how far the mean of each kind lies above the first kind's, over the same tasks.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from tqdm import tqdm

import evaluation
from environment.browser import EnvironmentFailure
from environment.rollout import rollout
from environment.tasks import load_tasks
from experiments.compare import difference, points
from language_model import LanguagePolicy, LocalModel
from trajectory import Task, Trajectory


def play(policy: LanguagePolicy, tasks: list[Task], parallel: int) -> tuple[list[Trajectory], float]:
    """The policy's episodes, and the seconds that they took."""
    begin = time.perf_counter()
    with tqdm(total=len(tasks), leave=False) as bar:
        episodes = rollout(policy, tasks, max_steps=16, parallel=parallel, done=lambda *_: bar.update())
    return episodes, time.perf_counter() - begin


def report(name: str, episodes: list[Trajectory], seconds: float) -> None:
    found, steps = evaluation.summary(episodes), [step for episode in episodes for step in episode.steps]
    written = np.mean([len(step.token_ids) for step in steps])
    unseen = found.get("held_out_templates")
    print(f"{name}: success {_rate(found)}" + (f", on held-out templates {_rate(unseen)}" if unseen else ""))
    print("  by site: " + "  ".join(f"{site} {rate:.0%}" for site, rate in found["by_site"].items()))
    print("  failures: " + "  ".join(f"{mode} {share:.0%}" for mode, share in found["failure_modes"].items()))
    print(f"  {found['steps']:.1f} steps an episode, {written:.1f} tokens and {seconds / len(steps):.3f} s a step", flush=True)


def _rate(found: dict) -> str:
    return "{:.1%} [{:.0%}, {:.0%}]".format(found["success"], *found["interval"])


def solved(episodes: list[Trajectory]) -> dict[str, bool]:
    return {episode.task.task_id: episode.success for episode in evaluation.judged(episodes)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", nargs="+", help="[NAME=]FOLDER,FOLDER,…")
    parser.add_argument("--tasks", default="evaluation", help="'evaluation', 'pool' or a file")
    parser.add_argument("--parallel", type=int, default=12, help="browser pages at once")
    options = parser.parse_args()
    outcomes: dict[str, list[dict[str, bool]]] = {}
    try:
        tasks = load_tasks(options.tasks)
        for group in options.policies:
            name, _, folders = group.rpartition("=")
            for folder in folders.split(","):
                policy = LanguagePolicy(LocalModel.load(folder), temperature=0.0)
                episodes, seconds = play(policy, tasks, options.parallel)
                report(folder, episodes, seconds)
                outcomes.setdefault(name or folder, []).append(solved(episodes))
    except (OSError, ValueError, EnvironmentFailure) as error:
        sys.exit(f"evaluate: {error}")
    first, *others = outcomes
    for name in others:
        print(f"{name} less {first}: {points(difference(outcomes[name], outcomes[first]))}")


if __name__ == "__main__":
    main()

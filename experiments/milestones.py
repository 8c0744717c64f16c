"""Does it help a trained policy to see its milestones?  One policy, without and with them, on the same tasks.  (Table 4)

    python train.py --name guided --milestone-share 0.5 --warmup-epochs 4 --phases 0
    python -m experiments.milestones runs/guided

The bundled tasks bring milestones and checks along, so z costs nothing here.  Printed for each way: success with its 95%
interval, how the failures came about, steps an episode, tokens written and seconds for a step; then the difference over the
same tasks.  The episodes go to ``milestones/`` in the run's folder.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

import evaluation
from environment.browser import EnvironmentFailure
from environment.rollout import Episode, rollout
from environment.tasks import load_tasks
from experiments.compare import difference, points
from language_model import LanguagePolicy, LocalModel
from milestoning import checklist
from run_folder import policy_folder
from trajectory import Task, Trajectory, append_trajectories


def plan(episode: Episode) -> str:
    """The checklist with z_t, latched."""
    return checklist(episode.task.subgoals, np.any(episode.z, axis=0))


def play(policy: LanguagePolicy, tasks: list[Task], parallel: int) -> tuple[list[Trajectory], float]:
    """The policy's episodes, and the seconds that they took."""
    begin = time.perf_counter()
    with tqdm(total=len(tasks), leave=False) as bar:
        episodes = rollout(policy, tasks, max_steps=16, parallel=parallel, done=lambda *_: bar.update())
    return episodes, time.perf_counter() - begin


def line(name: str, episodes: list[Trajectory], seconds: float) -> str:
    summary, steps = evaluation.summary(episodes), [step for episode in episodes for step in episode.steps]
    modes = "  ".join(f"{mode} {share:.0%}" for mode, share in summary["failure_modes"].items())
    low, high = summary["interval"]
    written = np.mean([len(step.token_ids) for step in steps])
    cost = f"{len(steps) / len(episodes):.1f} steps  {written:.1f} tokens and {seconds / len(steps):.3f} s a step"
    return f"{name:12} success {summary['success']:.1%} [{low:.0%}, {high:.0%}]  failures: {modes}  {cost}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the folder of a run with --milestone-share above 0")
    parser.add_argument("--tasks", default="evaluation", help="'evaluation', 'pool' or a file")
    parser.add_argument("--parallel", type=int, default=12, help="browser pages at once")
    options = parser.parse_args()
    try:
        tasks, model = load_tasks(options.tasks), LocalModel.load(policy_folder(options.run))
        if not model.knows_milestones:
            sys.exit(f"{options.run}: expected a policy that was trained with --milestone-share above 0")
        solved = {}
        policies = {
            "plain": LanguagePolicy(model, temperature=0.0),
            "milestones": LanguagePolicy(model, temperature=0.0, plan=plan),
        }
        for name, policy in policies.items():
            episodes, seconds = play(policy, tasks, options.parallel)
            print(line(name, episodes, seconds), flush=True)
            file = Path(options.run) / "milestones" / f"{name}.jsonl"
            file.unlink(missing_ok=True)
            append_trajectories(file, episodes)
            solved[name] = {episode.task.task_id: episode.success for episode in evaluation.judged(episodes)}
    except (OSError, ValueError, EnvironmentFailure) as error:
        sys.exit(f"milestones: {error}")
    print(f"milestones less plain: {points(difference([solved['milestones']], [solved['plain']]))}")


if __name__ == "__main__":
    main()

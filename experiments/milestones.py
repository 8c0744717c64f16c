"""Does it help a trained policy to see its milestones?  One policy, without and with them, on the same tasks.  (Table 4)

    python train.py
    python -m experiments.milestones runs/mira

The bundled tasks bring milestones and checks along, so z costs nothing here.  Printed for each way what
`experiments.evaluate` prints, then the difference over the same tasks.  The episodes go to ``milestones/`` in the run's folder.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from environment.browser import EnvironmentFailure
from environment.rollout import Episode
from environment.tasks import load_tasks
from experiments.compare import difference, points
from experiments.evaluate import play, report, solved
from language_model import LanguagePolicy, LocalModel
from milestoning import checklist
from run_folder import policy_folder
from trajectory import append_trajectories


def plan(episode: Episode) -> str:
    """The checklist with z_t, latched."""
    return checklist(episode.task.subgoals, np.any(episode.z, axis=0))


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
        outcomes = {}
        policies = {
            "plain": LanguagePolicy(model, temperature=0.0),
            "milestones": LanguagePolicy(model, temperature=0.0, plan=plan),
        }
        for name, policy in policies.items():
            episodes, seconds = play(policy, tasks, options.parallel)
            report(name, episodes, seconds)
            file = Path(options.run) / "milestones" / f"{name}.jsonl"
            file.unlink(missing_ok=True)
            append_trajectories(file, episodes)
            outcomes[name] = solved(episodes)
    except (OSError, ValueError, EnvironmentFailure) as error:
        sys.exit(f"milestones: {error}")
    print(f"milestones less plain: {points(difference([outcomes['milestones']], [outcomes['plain']]))}")


if __name__ == "__main__":
    main()

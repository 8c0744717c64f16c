"""What do several runs gain together, and is one kind of run better than another?  (Figures 10a, 11)

    python -m experiments.compare MiRA=runs/mira,runs/seed-1,runs/seed-2 "replay only"=runs/replay,runs/replay-1

Each argument is a name and the run folders that share it, say one a seed.  Printed: success by phase, a row a run and the mean;
each name's gain from the warm-up to the last phase; and how far the first name's last phase lies above each other name's.
Intervals are 95% bootstraps over tasks: what one task became in all runs is resampled together.  The figure with the means
goes to ``runs/comparison.png``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Sequence

import numpy as np

from evaluation import bootstrap_interval, judged
from experiments.figures import success_by_phase
from trajectory import read_trajectories


def outcomes(run: str | Path) -> list[dict[str, bool]]:
    """For each finished phase of a run, from 0 on: {task id: whether it was solved}, by its evaluation episodes."""
    files = []
    while (file := Path(run) / f"phase-{len(files)}" / "evaluation.jsonl").exists():
        files.append({episode.task.task_id: episode.success for episode in judged(read_trajectories(file))})
    if not files:
        raise ValueError(f"expected the folder of a run with an evaluated phase, got {str(run)!r}")
    return files


def difference(after: Sequence[dict[str, bool]], before: Sequence[dict[str, bool]]) -> tuple[float, float, float]:
    """Mean success of `after` less that of `before`, with its interval; each is one {task: solved} a run.

    Only tasks that all runs have count.
    """
    tasks = sorted(set.intersection(*map(set, [*after, *before])))
    gains = np.array([np.mean([run[task] for run in after]) - np.mean([run[task] for run in before]) for task in tasks])
    low, high = bootstrap_interval((1 + gains) / 2)  # in [0, 1], as the bounds where all are alike need it
    return float(gains.mean()), 2 * low - 1, 2 * high - 1


def compare(groups: dict[str, list[str]], figure: str | Path) -> None:
    """Print the table and draw the figure for {name: run folders}."""
    found = {name: [outcomes(run) for run in runs] for name, runs in groups.items()}
    phases = min(len(run) for runs in found.values() for run in runs)
    print(f"{'':<16}" + "".join(f"{f'phase {phase}':>9}" for phase in range(phases)))
    curves = {}
    for name, runs in found.items():
        rates = np.array([[np.mean(list(run[phase].values())) for phase in range(phases)] for run in runs])
        mean = [(f"{name}, mean", rates.mean(0))] if len(runs) > 1 else []
        for folder, row in [*zip(groups[name], rates), *mean]:
            print(f"{Path(folder).name:<16}" + "".join(f"{rate:>9.1%}" for rate in row))
        curves[name] = [(mean, *_interval([run[phase] for run in runs])) for phase, mean in enumerate(rates.mean(0))]
    last = {name: [run[phases - 1] for run in runs] for name, runs in found.items()}
    for name, runs in found.items():
        print(f"{name}: phase {phases - 1} less phase 0: {points(difference(last[name], [run[0] for run in runs]))}")
    first, *others = last
    for name in others:
        print(f"phase {phases - 1}: {first} less {name}: {points(difference(last[first], last[name]))}")
    print(f"figure: {success_by_phase(curves, figure)}")


def _interval(runs: Sequence[dict[str, bool]]) -> tuple[float, float]:
    pairs = [(task, solved) for run in runs for task, solved in run.items()]
    return bootstrap_interval([solved for _, solved in pairs], clusters=[task for task, _ in pairs])


def points(gain: tuple[float, float, float]) -> str:
    return "{:+.1f} points [{:+.1f}, {:+.1f}]".format(*(100 * part for part in gain))


def main() -> None:
    groups = {name: folders.split(",") for name, _, folders in (argument.partition("=") for argument in sys.argv[1:])}
    if not groups or not all(name and all(folders) for name, folders in groups.items()):
        sys.exit("usage: python -m experiments.compare NAME=RUN,RUN,… [NAME=RUN,RUN,… …]")
    try:
        compare(groups, Path("runs") / "comparison.png")
    except (ValueError, OSError) as error:
        sys.exit(f"compare: {error}")


if __name__ == "__main__":
    main()

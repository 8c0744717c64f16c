"""What do the critics know of episodes that they have seen, and of those they have not?  (Section 5.3)

    python -m experiments.critics runs/mira

Each phase's episodes are judged twice: by the critics at the phase's start, to which they are new, and by those at its end,
which have been trained on them.  Printed: the area under V's ROC curve at the first and at the last state, the mean advantage of
successes and of failures (the whole episode and its last action), and what P says at the end of failures beside the share of
milestones that they reached, with the correlation of the two.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from language_model import LocalModel
from progress_labels import latch
from settings import Config
from train import Encoded, advantages, encode_all, predict
from trajectory import read_trajectories


def measure(config: Config, value: Path, potential: Path, data: list[Encoded]) -> dict[str, float]:
    """The printed quantities, for both critics on these episodes."""
    V, P = predict(config, value, data), predict(config, potential, data)
    A = [advantages(config, d.episode, v, p) for d, v, p in zip(data, V, P)]
    success = np.array([d.episode.success for d in data])
    reached = np.array([latch(np.array(d.episode.z))[-1].mean() for d in data])[~success]
    told = np.array([p[-1] for p in P])[~success]
    return {
        "AUC of V, first": roc_auc_score(success, [v[0] for v in V]),
        "AUC of V, last": roc_auc_score(success, [v[-2] for v in V]),
        "A of successes": np.mean([a.mean() for a, good in zip(A, success) if good]),
        "A of failures": np.mean([a.mean() for a, good in zip(A, success) if not good]),
        "A of last actions, successes": np.mean([a[-1] for a, good in zip(A, success) if good]),
        "A of last actions, failures": np.mean([a[-1] for a, good in zip(A, success) if not good]),
        "P at failures' ends": told.mean(),
        "milestones reached by failures": reached.mean(),
        "correlation of the two": np.corrcoef(told, reached)[0, 1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="folders of runs; the means are over their phases")
    options = parser.parse_args()
    before, after = [], []
    try:
        for run in map(Path, options.runs):
            config = Config(**json.loads((run / "config.json").read_text(encoding="utf-8")))
            for end in sorted(run.glob("phase-*/policy")):
                here, start = end.parent, run / f"phase-{int(end.parent.name[6:]) - 1}"
                if not start.exists():
                    continue
                data = encode_all(LocalModel.load(start / "policy"), list(read_trajectories(here / "trajectories.jsonl")))
                for critics, found in ((start, before), (here, after)):
                    found.append(measure(config, critics / "value", critics / "potential", data))
        if not before:
            raise ValueError(f"no finished phase in {', '.join(options.runs)}")
    except (OSError, ValueError, TypeError) as error:
        sys.exit(f"critics: {error}")
    print(f"{'mean over ' + str(len(before)) + ' phases':<32}{'episodes new':>14}{'seen':>8}")
    for key in before[0]:
        print(f"{key:<32}" + f"{np.mean([f[key] for f in before]):>14.2f}{np.mean([f[key] for f in after]):>8.2f}")


if __name__ == "__main__":
    main()

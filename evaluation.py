"""How often does the agent succeed, where, and how sure are we?  (Section 6)

Success rate by site (Table 3), pass@k (Fig. 11a), and how far episodes got by when (Fig. 12).  The paper reports no
intervals; on 165 tasks two or three points are noise, so we give one with every rate.

An environment failure (browser died, site unreachable) says nothing about the agent: it is counted apart and enters
no rate.  Figures are drawn in ``experiments/figures.py``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Iterable, Sequence

import numpy as np

from environment.tasks import is_held_out
from failure_analysis import failure_distribution
from progress_labels import latch
from trajectory import Task, Trajectory


@dataclass(frozen=True)
class Success:
    """How many episodes there were and how many succeeded.

    outcomes               one entry an episode, True for a success, in the order given
    environment_failures   episodes that the environment spoilt, which are not among the outcomes
    """

    outcomes: tuple[bool, ...] = ()
    environment_failures: int = 0

    @property
    def rate(self) -> float:
        """Share of successes; NaN where nothing was judged."""
        return sum(self.outcomes) / len(self.outcomes) if self.outcomes else math.nan


def success(trajectories: Iterable[Trajectory]) -> Success:
    """SR = (successes)/(episodes)    §6, over all sites together"""
    trajectories = list(trajectories)
    kept = judged(trajectories)
    return Success(tuple(t.success for t in kept), len(trajectories) - len(kept))


def success_by_site(trajectories: Iterable[Trajectory]) -> dict[str, Success]:
    """The success rate of each site, in the order of their names (Table 3's columns)."""
    groups = defaultdict(list)
    for trajectory in trajectories:
        groups[site_of(trajectory.task)].append(trajectory)
    return {site: success(groups[site]) for site in sorted(groups)}


def site_of(task: Task) -> str:
    """The task's site, or "multi-site" as WebArena-Lite counts the tasks that need several."""
    return task.sites[0] if len(set(task.sites)) == 1 else "multi-site"


def judged(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """The episodes that say something about the agent: all but the environment failures."""
    return [trajectory for trajectory in trajectories if trajectory.end != "environment_failure"]


# --- pass@k --------------------------------------------------------------------------------------------------------


def attempts_by_task(trajectories: Iterable[Trajectory]) -> dict[str, tuple[int, int]]:
    """{task: (n, c)}: attempts and successes of each task, for `pass_at_k`."""
    outcomes = defaultdict(list)
    for trajectory in judged(trajectories):
        outcomes[trajectory.task.task_id].append(trajectory.success)
    return {task: (len(values), sum(values)) for task, values in outcomes.items()}


def pass_at_k(n, c, k):
    """pass@k = 1 − C(n−c, k)/C(n, k) = 1 − Π_{i=n−c+1}^{n} (1 − k/i)    §6.2 (Chen et al. 2021)

    n          attempts at a task, ≥ 0: an int, or an array with one entry a task
    c          how many succeeded, 0 … n
    k          ≥ 1
    returns    chance that at least one of k attempts, drawn from the n without replacement, succeeded; NaN where n < k

    A product of c factors: the binomials themselves overflow at a few hundred attempts.

    >>> pass_at_k(4, 1, 2)
    0.5
    """
    n, c, k = np.broadcast_arrays(n, c, k)
    if not all(np.issubdtype(array.dtype, np.integer) for array in (n, c, k)):
        raise ValueError(f"expected whole numbers, got n {n.dtype}, c {c.dtype}, k {k.dtype}")
    if ((c < 0) | (c > n) | (k < 1)).any():
        raise ValueError(f"expected 0 <= c <= n and k >= 1, got n={n.tolist()}, c={c.tolist()}, k={k.tolist()}")
    chances = np.array([_pass_at_k(*row) for row in zip(n.ravel().tolist(), c.ravel().tolist(), k.ravel().tolist())])
    return float(chances[0]) if n.ndim == 0 else chances.reshape(n.shape)


def _pass_at_k(n: int, c: int, k: int) -> float:
    if n < k:
        return math.nan
    if n - c < k:  # fewer failures than draws
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - c + 1, n + 1))


def average_pass_at_k(n, c, k) -> tuple[float, int]:
    """(mean of pass@k over the tasks that were tried at least k times, how many those are)

    n, c       [tasks], whole numbers; tasks may differ in n
    k          one number

    Chances are averaged, each task counting once.  Tasks with n < k are left out, hence the count: compare averages
    only where it is the same.  (NaN, 0) where no task was tried often enough.
    """
    if len(n) == 0:
        return math.nan, 0
    chances = pass_at_k(np.asarray(n), np.asarray(c), k)
    known = chances[~np.isnan(chances)]
    return (float(known.mean()) if len(known) else math.nan), len(known)


# --- intervals -----------------------------------------------------------------------------------------------------


def bootstrap_interval(
    outcomes: Sequence[float],
    *,
    confidence: float = 0.95,
    samples: int = 10_000,
    seed: int = 0,
    clusters: Sequence | None = None,
) -> tuple[float, float]:
    """The percentile bootstrap interval of the mean of `outcomes`, as (low, high).

    outcomes   [N]    one number an episode: 0/1 for a success rate
    confidence        chance that such an interval covers the mean, in (0, 1)
    samples           how many resamples
    clusters   [N]    label of the group that each outcome belongs to; groups are then resampled whole.  Pass task ids
                      where a task was tried more than once: its attempts are not independent.

    Where all outcomes are 0 or all are 1 every resample is the same, and the bootstrap would claim certainty.  The
    exact binomial (Clopper-Pearson) bound stands in, with N the number of groups.  (NaN, NaN) where there is none.

    >>> bootstrap_interval([0] * 10)[1] < bootstrap_interval([0] * 5)[1] < 1
    True
    """
    outcomes = np.asarray(outcomes, dtype=float)
    clusters = np.arange(len(outcomes)) if clusters is None else np.asarray(clusters)
    if outcomes.ndim != 1 or clusters.shape != outcomes.shape:
        raise ValueError(f"expected outcomes and clusters of shape [N], got {outcomes.shape} and {clusters.shape}")
    if not np.isfinite(outcomes).all():
        raise ValueError("expected finite outcomes, got NaN or infinity")
    if not 0 < confidence < 1 or samples < 1:
        raise ValueError(f"expected confidence in (0, 1) and samples >= 1, got {confidence} and {samples}")
    if len(outcomes) == 0:
        return math.nan, math.nan
    _, group = np.unique(clusters, return_inverse=True)
    sizes, sums = np.bincount(group), np.bincount(group, weights=outcomes)  # [groups]
    tail = (1 - confidence) / 2
    if (outcomes == outcomes[0]).all() and outcomes[0] in (0, 1):
        margin = 1 - tail ** (1 / len(sums))
        return (0.0, margin) if outcomes[0] == 0 else (1 - margin, 1.0)
    drawn = np.random.default_rng(seed).integers(len(sums), size=(samples, len(sums)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)  # [samples]
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def summary(trajectories: Sequence[Trajectory]) -> dict:
    """What a phase's evaluation is reported by, as JSON can hold it.

    success, interval   rate over the judged episodes and its 95% bootstrap interval
    by_site             {site: rate}
    failure_modes       {mode: share of the failed episodes}, Table 1's four
    steps               mean number of actions
    environment_failures  episodes that the environment broke; they count nowhere else
    held_out_templates  rate and interval of the tasks whose templates the pool does not have, where there are any
    """
    overall, counted = success(trajectories), judged(trajectories)
    unseen = success(trajectory for trajectory in trajectories if is_held_out(trajectory.task))
    apart = {"held_out_templates": {"success": unseen.rate, "interval": bootstrap_interval(unseen.outcomes)}}
    return {
        "episodes": len(counted),
        "success": overall.rate,
        "interval": bootstrap_interval(overall.outcomes),
        "by_site": {site: found.rate for site, found in success_by_site(trajectories).items()},
        "failure_modes": {mode.value: share for mode, share in failure_distribution(trajectories).items()},
        "steps": float(np.mean([len(episode.steps) for episode in counted])) if counted else math.nan,
        "environment_failures": overall.environment_failures,
        **(apart if unseen.outcomes else {}),
    }


# --- sub-goals over time -------------------------------------------------------------------------------------------


def subgoal_completion_map(trajectories: Iterable[Trajectory], bins: int = 10) -> np.ndarray:
    """M[b, j] = share of episodes with exactly j sub-goals done at time u_b = b/(bins − 1)    §6.2 (Fig. 12)

    trajectories      with the same K; environment failures are left out
    bins              how many points of time, from the first state (u = 0) to the last (u = 1); 1 = the last alone
    returns           [bins, K+1], each row sums to 1

    Time is normalised by each episode's own length: row b looks at state ⌊u_b T⌋.  Column j < K reads "at work on
    sub-goal j" (the paper's index), column K "all done".  Stagnation is a vertical band on the left; an agent that
    chains sub-goals in step with the episode makes a diagonal from top left to bottom right.
    """
    kept = judged(trajectories)
    widths = sorted({len(t.z[0]) for t in kept})
    if bins < 1 or len(widths) != 1 or widths[0] == 0:
        raise ValueError(f"expected bins >= 1 and episodes that all have K >= 1 sub-goals, got {bins} and K in {widths}")
    shares = np.zeros((bins, widths[0] + 1))
    for trajectory in kept:
        count, T = latch(trajectory.z).sum(axis=1), len(trajectory.steps)  # c_t, [T+1]
        for b in range(bins):
            shares[b, count[b * T // (bins - 1) if bins > 1 else T]] += 1
    return shares / len(kept)

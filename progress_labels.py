"""How far along was each state of a successful episode?  (Section 5.3, "progress labels")

The sub-goal checker says only *done* or *not done*.  This module turns its verdicts z into a smooth curve from 0 to 1,
the regression target of the potential critic: straight lines between the steps at which a sub-goal was completed, and
a last line that runs to the end of the episode, so that the administrative steps after the last sub-goal count too.

What the paper leaves open is settled here so: z is latched; the order of completion does not matter; sub-goals that
are completed at one step jump together; and a successful episode that was never seen to complete all K still ends at 1.
"""

from __future__ import annotations

import numpy as np


def latch(z):
    """z̄_{t,k} = max_{u ≤ t} z_{u,k}    §5.3: once done, a sub-goal stays done

    z          [T+1, K]  bool
    returns    [T+1, K]  bool

    The one rule for a sub-goal that is undone later (a menu closed again, a filter reset).  The labels use it, and so
    does the reflection at inference time.

    >>> latch([[False, True], [True, False]]).tolist()
    [[False, True], [True, True]]
    """
    return _like(z, np.maximum.accumulate(_checked(z), axis=0))


def key_steps(z) -> list[int]:
    """{ t : c_t > c_{t-1} },  c_t = Σ_k z̄_{t,k},  c_{-1} = 0    §5.3

    z          [T+1, K]  bool
    returns    the steps t in 0 … T at which at least one sub-goal was completed for the first time

    >>> key_steps([[0], [0], [1], [0]])
    [2]
    """
    return np.flatnonzero(np.diff(_counts(z), prepend=0)).tolist()


def progress_labels(z):
    """p*_t = (1 − α_t) c_i/K + α_t c_j/K,  α_t = (t − t_i)/(t_j − t_i),  t_i ≤ t ≤ t_j    §5.3

    z          [T+1, K]  bool, of an episode that *succeeded*
    returns    [T+1]     float in [0, 1], non-decreasing, 1 at T

    t_i and t_j are neighbouring knots of the curve: (0, 0), then (t, c_t/K) at each key step, then (T, 1).  The step
    that completes the last sub-goal is no knot, which is the paper's gap anchoring: the curve rises to T, not to t_K.

    At T=0 the only label is 1.  Sub-goals that already hold in s_0 lift the first label to c_0/K.

    >>> z = [[t >= 2, t >= 4, t >= 6] for t in range(10)]   # the paper's example: K = 3, T = 9
    >>> [round(float(p), 3) for p in progress_labels(z)]
    [0.0, 0.167, 0.333, 0.5, 0.667, 0.733, 0.8, 0.867, 0.933, 1.0]
    """
    states, K = _checked(z).shape
    c = _counts(z)
    knots = {0: 0.0}
    knots.update({t: c[t] / K for t in key_steps(z) if c[t] < K})
    knots[states - 1] = 1.0
    return _like(z, np.interp(np.arange(states), list(knots), list(knots.values())))


def _counts(z) -> np.ndarray:
    """c_t = Σ_k z̄_{t,k}, [T+1]."""
    return np.maximum.accumulate(_checked(z), axis=0).sum(axis=1)


def _checked(z) -> np.ndarray:
    """`z` as a bool array, or a ``ValueError`` that says what came."""
    array = np.asarray(z.detach().cpu() if hasattr(z, "detach") else z)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"expected z of shape [T+1, K] with at least one state and one sub-goal, got {array.shape}")
    if not np.isin(array, (0, 1)).all():
        raise ValueError("expected z to hold only 0 and 1 (or booleans)")
    return array.astype(bool)


def _like(z, array: np.ndarray):
    """`array` as a tensor on z's device where z is a tensor."""
    if not hasattr(z, "detach"):
        return array
    import torch  # only when a tensor came in: the milestoning agent needs no torch

    dtype = torch.bool if array.dtype == bool else torch.get_default_dtype()
    return torch.as_tensor(array, dtype=dtype, device=z.device)

"""How much better than expected was each action?  (Section 5.3, "doubly-robust advantage"; Appendix A.1)

The potential critic P densifies the sparse reward, the value critic V is the baseline, and the advantage mixes a
one-step TD error (low variance, wrong where V is wrong) with the Monte-Carlo return (right, but noisy).

All functions take one episode: rewards ``[T]``, per-state arrays ``[T+1]``.  NumPy arrays (or lists) in, NumPy out;
torch tensors in, torch out.  Returns never cross episodes, because no function sees two.

Two of the paper's choices are kept as they are, and matter:

* the shaping term is α(P' − P).  Only α(γP' − P) leaves the best policy unchanged (A.1): at γ < 1 the paper's form
  pays α(1 − γ) for every lap of a loop.  The exact form is ``potential_based_rewards``;
* V is fitted by cross-entropy, so it is the *undiscounted* chance of success, while G_t discounts.  At γ = 0.9 the
  early steps of a sure success get a negative advantage (the tests work one out).
"""

from __future__ import annotations

import sys

import numpy as np


def shaped_rewards(rewards, potential, *, shaping_scale):
    """r'_t = r_t + α (P(s_{t+1}) − P(s_t))    §5.3

    rewards        [T]    environment rewards r_t: 0, and 1 on the last action of a success
    potential      [T+1]  the potential critic's progress estimates, in [0, 1]
    shaping_scale         the paper's α, 0.3 (Table 7)

    >>> shaped_rewards([0., 1.], [0., .5, 1.], shaping_scale=0.3).tolist()
    [0.15, 1.15]
    """
    return potential_based_rewards(rewards, potential, gamma=1.0, shaping_scale=shaping_scale)


def potential_based_rewards(rewards, potential, *, gamma, shaping_scale=1.0):
    """r'_t = r_t + α (γ Φ(s_{t+1}) − Φ(s_t))    §3.2, Appendix A.1

    rewards        [T]
    potential      [T+1]  Φ; potential[T] = 0 once the episode has ended, or the last state's potential is paid out
    gamma                 the discount of the returns in which r' is used

    The exact form: it equals learning from r with Q started at αΦ, and so leaves the best policy as it was
    (Ng et al. 1999; Wiewiora 2003).
    """
    rewards, potential = _episode(rewards, potential, "potential")
    return rewards + shaping_scale * (gamma * potential[1:] - potential[:-1])


def discounted_returns(rewards, gamma):
    """G_t = Σ_{u=t}^{T-1} γ^{u−t} r_u    §5.3

    rewards    [T]    of one episode
    gamma             discount in [0, 1]; 0.9 in Table 6
    returns    [T]

    >>> discounted_returns([0., 0., 1.], 0.5).tolist()
    [0.25, 0.5, 1.0]
    """
    (rewards,) = _arrays(rewards)
    _check_shape("rewards", rewards, "[T]", rewards.shape[:1])
    _check_fraction("gamma", gamma)
    returns = rewards * 1.0  # a copy: the caller's rewards stay as they were recorded
    for t in reversed(range(len(rewards) - 1)):
        returns[t] = rewards[t] + gamma * returns[t + 1]
    return returns


def td_errors(rewards, value, gamma):
    """δ_t = r_t + γ V(s_{t+1}) − V(s_t)    §5.3

    rewards    [T]
    value      [T+1]  success probabilities; the caller sets value[T] = 0 once the episode has ended
    returns    [T]

    >>> td_errors([0., 1.], [.5, .75, 0.], 1.0).tolist()
    [0.25, 0.25]
    """
    rewards, value = _episode(rewards, value, "value")
    _check_fraction("gamma", gamma)
    return rewards + gamma * value[1:] - value[:-1]


def doubly_robust_advantage(shaped, value, *, gamma, td_weight):
    """A_t = λ (r'_t + γ V_{t+1} − V_t) + (1 − λ)(G_t − V_t)    Eq. 10, §5.3

    shaped     [T]    shaped rewards r'_t, one per action; G_t is their discounted sum
    value      [T+1]  success probabilities; value[T] = 0 once the episode has ended
    td_weight         the paper's λ: 1 = TD error only, 0 = Monte-Carlo only (the reverse of GAE's)
    returns    [T]

    Nothing is normalised over a batch, so an action's advantage does not depend on what it is trained with.
    """
    shaped, value = _episode(shaped, value, "value")
    _check_fraction("td_weight", td_weight)
    td = td_errors(shaped, value, gamma)
    monte_carlo = discounted_returns(shaped, gamma) - value[:-1]
    return td_weight * td + (1 - td_weight) * monte_carlo


def webrl_advantage(rewards, value, *, td_weight=0.5):
    """A_t = λ (r_t + V_{t+1} − V_t) + (1 − λ)(r(s_T) − V_t)    the baseline's form (Qi et al. 2024)

    rewards    [T]    environment rewards, not shaped
    value      [T+1]  success probabilities; value[T] = 0 once the episode has ended
    returns    [T]

    Eq. 10 without discount or potential: the return of every step is the final reward.
    """
    return doubly_robust_advantage(rewards, value, gamma=1.0, td_weight=td_weight)


# --- shapes --------------------------------------------------------------------------------------------------------


def _episode(rewards, per_state, name):
    """Rewards [T] and a per-state array [T+1] as floats of one kind."""
    rewards, per_state = _arrays(rewards, per_state)
    _check_shape("rewards", rewards, "[T]", rewards.shape[:1])
    _check_shape(name, per_state, "[T+1]", (len(rewards) + 1,))
    return rewards, per_state


def _check_shape(name, array, expected, shape):
    if array.ndim != 1 or tuple(array.shape) != tuple(shape):
        raise ValueError(f"expected {name} of shape {expected} = {tuple(shape)}, got {tuple(array.shape)}")


def _check_fraction(name, number):
    if not 0 <= number <= 1:
        raise ValueError(f"expected {name} in [0, 1], got {number}")


def _arrays(*values):
    """Floats of one kind: torch tensors where one of `values` is a tensor, NumPy arrays otherwise."""
    torch = sys.modules.get("torch")  # no tensor can have come in before torch was imported
    tensors = [value for value in values if torch and isinstance(value, torch.Tensor)]
    if not tensors:
        arrays = [np.asarray(value) for value in values]
        return [array if np.issubdtype(array.dtype, np.floating) else array.astype(float) for array in arrays]
    arrays = [torch.as_tensor(value, device=tensors[0].device) for value in values]
    return [array if array.is_floating_point() else array.to(torch.get_default_dtype()) for array in arrays]

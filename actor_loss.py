"""Which way, and how far, should each action's probability move?  (Section 5.3; Appendices A.8 and A.9)

MiRA fits the policy by regression: β log(π/π_ref) is to equal the advantage.  That needs no sampling from π_ref, so
replayed episodes serve as they are, and a bad action is pushed *down*, which no weighted likelihood can do.  Beside it
stand the ablation (KL) and the baselines (AWR, DigiRL, WebRL), so that one can compare them line by line:

=====================  ===========================================  ==================  ============
loss                   weight on ∇(−log π)                          data                A < 0
=====================  ===========================================  ==================  ============
regression (MiRA)      2β (A − β log π/π_ref)                       any                 pushed down
kl                     exp(A/β)                                     from π_ref          pushed up
awr                    exp(A/β), at most 20                         the replay buffer   pushed up
digirl                 1 where A passes a filter, else 0            any                 ignored
webrl, as published    as MiRA, from another A                      any                 pushed down
webrl, as released     1, falling to 0 as log π/π_ref nears 1/β     any                 ignored
=====================  ===========================================  ==================  ============

All losses are per sample, ``[B]``, one for each action: log π(a|s) is the *sum* over the action's tokens.  Nothing is
normalised over the batch, so any split into micro-batches has the same gradient.  log π_ref and A are data: the caller
stops their gradients.  NumPy in, NumPy out; torch in, torch out; half precision is raised to single, since a squared
log-ratio overflows it.
"""

from __future__ import annotations

import math

import numpy as np
import torch


def optimal_policy(log_pi_ref, advantage, beta):
    """log π*(a|s) = log π_ref(a|s) + A(s, a)/β − log Z(s)    Eq. 5, Appendix A.8

    log_pi_ref [A]    log-probabilities of the actions under the reference policy
    advantage  [A]    A(s, a) of the same actions, in one state
    beta              price of leaving π_ref, > 0: large stays with it, small turns greedy
    returns    [A]    log-probabilities, normalised over the given actions

    Eq. 5 has no Z: for the exact soft-optimal advantage it is 1.  For an estimate it is not, so we divide by it.

    >>> np.exp(optimal_policy(np.log([.5, .5]), [math.log(3.), 0.], beta=1.0)).round(2).tolist()
    [0.75, 0.25]
    """
    log_pi_ref, advantage = _checked(beta, log_pi_ref=log_pi_ref, advantage=advantage)
    if log_pi_ref.ndim != 1 or len(log_pi_ref) == 0:
        raise ValueError(f"expected log_pi_ref of shape [A] with at least one action, got {tuple(log_pi_ref.shape)}")
    unnormalised = log_pi_ref + advantage / beta
    if isinstance(unnormalised, torch.Tensor):
        return unnormalised - torch.logsumexp(unnormalised, dim=0)
    return unnormalised - np.logaddexp.reduce(unnormalised)


# --- MiRA ----------------------------------------------------------------------------------------------------------


def regression_loss(log_pi, log_pi_ref, advantage, *, beta):
    """ℓ = (β log(π(a|s)/π_ref(a|s)) − A)²    Eq. 8, and Eq. 12 with the shaped advantage

    log_pi     [B]    log π(a|s), summed over the action's tokens; the gradient flows through it
    log_pi_ref [B]    the same under π_ref
    advantage  [B]    A_t of Eq. 10
    beta              > 0; the loss is least where log(π/π_ref) = A/β
    returns    [B]

    >>> regression_loss([-1.0], [-6.0], [0.5], beta=0.1).tolist()   # log-ratio 5 = A/β
    [0.0]
    """
    log_pi, log_pi_ref, advantage = _checked(beta, log_pi=log_pi, log_pi_ref=log_pi_ref, advantage=advantage)
    return (beta * (log_pi - log_pi_ref) - advantage) ** 2


def regression_gradient(log_pi, log_pi_ref, advantage, *, beta):
    """∂ℓ/∂log π = −2β (A − β log(π/π_ref))    Eq. 13, per sample

    Arguments as in `regression_loss`; returns [B].  Training does not need it (autograd does), reading does: the
    advantage pulls, and β log(π/π_ref) pulls back, until the two are equal.

    >>> regression_gradient([-2.0, -2.0], [-2.0, -2.0], [1.0, -1.0], beta=0.5).tolist()
    [-1.0, 1.0]
    """
    log_pi, log_pi_ref, advantage = _checked(beta, log_pi=log_pi, log_pi_ref=log_pi_ref, advantage=advantage)
    return -2 * beta * (advantage - beta * (log_pi - log_pi_ref))


# --- the ablation and the baselines --------------------------------------------------------------------------------


def kl_loss(log_pi, advantage, *, beta, max_weight=100.0):
    """ℓ = −exp(A/β) log π(a|s),  a ~ π_ref    the ablation "MiRA w. KL", Appendix A.9

    log_pi     [B]
    advantage  [B]    the same A_t that `regression_loss` gets
    beta              > 0
    max_weight        exp(A/β) is cut off here, so that one sample cannot swamp a batch; math.inf for the exact form
    returns    [B]

    min_π KL(π*‖π) is maximum likelihood under π*; with actions drawn from π_ref, each counts π*/π_ref = exp(A/β)/Z(s).
    Z(s), which is 1 for the exact advantage, is left out: it could only be had from many actions in one state, and the
    batch's mean weight instead of it would make a sample's gradient depend on its neighbours.

    π_ref does not appear as an argument: it is where the data must come from, which replayed episodes do not.
    """
    log_pi, advantage = _checked(beta, log_pi=log_pi, advantage=advantage)
    return -_exponential_weight(advantage, beta, max_weight) * log_pi


def awr_loss(log_pi, advantage, *, beta, max_weight=20.0):
    """ℓ = −min(exp(A/β), w_max) log π(a|s),  a ~ the replay buffer    Peng et al. 2019

    log_pi     [B]
    advantage  [B]    return minus value; the baseline has no potential critic
    beta              their temperature, > 0
    max_weight        their w_max
    returns    [B]

    The formula of `kl_loss`; what differs is what goes in.  The KL is to the buffer's mixture of past policies rather
    than to π_ref, so replayed actions are the right samples, and the trust region moves with them.
    """
    return kl_loss(log_pi, advantage, beta=beta, max_weight=max_weight)


def digirl_loss(log_pi, advantage, *, threshold=0.0):
    """ℓ = −1[A > threshold] log π(a|s)    filtered cloning, Bai et al. 2024

    log_pi     [B]
    advantage  [B]    `webrl_advantage`'s kind of mix; their code subtracts 0.05 from it and keeps what is above 0
    threshold         where the filter stands: 0.05 on the plain mix does the same
    returns    [B]    0 for what does not pass
    """
    log_pi, advantage = _checked(None, log_pi=log_pi, advantage=advantage)
    return _where(advantage > threshold, -log_pi, 0.0)


def webrl_loss(log_pi, log_pi_ref, advantage, *, beta):
    """ℓ = (β log(π(a|s)/π_ref(a|s)) − A)²    WebRL as published, Qi et al. 2024

    MiRA's Eq. 8 is this very loss: the two differ in A, which is here `webrl_advantage`, of the plain reward, without
    discount or potential.  Arguments as in `regression_loss`; returns [B].
    """
    return regression_loss(log_pi, log_pi_ref, advantage, beta=beta)


def webrl_released_loss(log_pi, log_pi_ref, advantage, *, beta=1.0):
    """ℓ = 1[A ≥ 0] SmoothL1(b x, 1)/b,  x = log(π/π_ref),  b = min(β, 1/|x|)    WebRL as released

    log_pi     [B]    their code divides both sums by the number of action tokens
    log_pi_ref [B]
    advantage  [B]    V' − V − 0.05 + r_t + r(s_T) there; only its sign is used
    beta              a number or [B]; theirs is 1, and 5 where π_ref's geometric-mean token probability is at least 0.8
    returns    [B]    0 where A < 0

    The released code replaces A by +1 or −0.6 and then drops the negative ones, so an action is never pushed down; and
    as b (a constant to the gradient) shrinks with the ratio, one that has risen past x = 1/β is not pulled back.
    """
    log_pi, log_pi_ref, advantage = _checked(beta, log_pi=log_pi, log_pi_ref=log_pi_ref, advantage=advantage)
    x = log_pi - log_pi_ref
    size = abs(x.detach() if isinstance(x, torch.Tensor) else x)
    b = beta / (beta * size).clip(min=1)  # min(β, 1/|x|), without dividing by zero
    distance = abs(b * x - 1)
    smooth_l1 = _where(distance < 1, distance**2 / 2, distance - 0.5)
    return _where(advantage >= 0, smooth_l1 / b, 0.0)


# --- shapes --------------------------------------------------------------------------------------------------------


def _checked(beta, **arrays):
    """`arrays` as floats of one kind, at least single precision, after checking that their shapes are the same."""
    shapes = {name: tuple(np.shape(array)) for name, array in arrays.items()}
    if len(set(shapes.values())) > 1:  # [B] with [B, 1] would broadcast to [B, B] in silence
        raise ValueError(f"expected arrays of one shape, got {', '.join(f'{n} {s}' for n, s in shapes.items())}")
    if beta is not None and not (torch.as_tensor(beta) > 0).all():
        raise ValueError(f"expected beta > 0, got {beta}")
    tensors = [array for array in arrays.values() if isinstance(array, torch.Tensor)]
    if not tensors:
        values = [np.asarray(array) for array in arrays.values()]
        return [x.astype(np.result_type(x.dtype, np.float32), copy=False) for x in values]
    values = [torch.as_tensor(array, device=tensors[0].device) for array in arrays.values()]
    return [x.to(torch.promote_types(x.dtype, torch.float32)) for x in values]


def _exponential_weight(advantage, beta, max_weight):
    """min(exp(A/β), max_weight), cut off before the exponential so that it cannot overflow."""
    if max_weight <= 0:
        raise ValueError(f"expected max_weight > 0, got {max_weight}")
    exponent = (advantage / beta).clip(max=math.log(max_weight))
    return exponent.exp() if isinstance(exponent, torch.Tensor) else np.exp(exponent)


def _where(condition, yes, no):
    return torch.where(condition, yes, no) if isinstance(condition, torch.Tensor) else np.where(condition, yes, no)

"""Eq. 5, 8, 12 and 13, the KL ablation and the baselines' losses: by hand, at their limits, against autograd."""

import math

import numpy as np
import pytest
import torch

from actor_loss import (
    awr_loss,
    digirl_loss,
    kl_loss,
    optimal_policy,
    regression_gradient,
    regression_loss,
    webrl_loss,
    webrl_released_loss,
)

# Every loss as a function of (log_pi, log_pi_ref, advantage), for what must hold of all of them.
LOSSES = {
    "regression": lambda p, r, a: regression_loss(p, r, a, beta=0.5),
    "kl": lambda p, r, a: kl_loss(p, a, beta=0.5),
    "awr": lambda p, r, a: awr_loss(p, a, beta=0.5),
    "digirl": lambda p, r, a: digirl_loss(p, a),
    "webrl": lambda p, r, a: webrl_loss(p, r, a, beta=0.5),
    "webrl released": lambda p, r, a: webrl_released_loss(p, r, a),
}
every_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def random_batch(seed, B=6):
    """log_pi, log_pi_ref, advantage, each [B], double precision."""
    rng = np.random.default_rng(seed)
    return -5 * rng.random(B), -5 * rng.random(B), rng.normal(size=B)


# --- the optimal policy, Eq. 5 -------------------------------------------------------------------------------------


def test_optimal_policy_by_hand():
    # pi_ref = [1/2, 1/4, 1/4], exp(A/beta) = [1, 4, 2]: products [1/2, 1, 1/2], Z = 2, pi* = [1/4, 1/2, 1/4].
    advantage = 0.5 * np.log([1, 4, 2])
    policy = np.exp(optimal_policy(np.log([0.5, 0.25, 0.25]), advantage, beta=0.5))
    np.testing.assert_allclose(policy, [0.25, 0.5, 0.25])


def test_optimal_policy_limits():
    log_pi_ref, advantage = np.log([0.7, 0.2, 0.1]), np.array([-0.1, 0.3, 0.1])
    np.testing.assert_allclose(optimal_policy(log_pi_ref, advantage, beta=1e9), log_pi_ref, atol=1e-8)  # stays
    np.testing.assert_allclose(np.exp(optimal_policy(log_pi_ref, advantage, beta=1e-3)), [0, 1, 0], atol=1e-12)  # greedy
    np.testing.assert_allclose(optimal_policy(log_pi_ref, np.ones(3), beta=0.1), log_pi_ref)  # no action is better


def test_optimal_policy_maximises_advantage_minus_kl():
    # E_pi[A - beta log(pi/pi_ref)] is beta log Z at pi*, and less anywhere else.
    rng = np.random.default_rng(0)
    log_pi_ref, advantage, beta = np.log(rng.dirichlet(np.ones(4))), rng.normal(size=4), 0.3

    def objective(log_pi):
        return (np.exp(log_pi) * (advantage - beta * (log_pi - log_pi_ref))).sum()

    best = objective(optimal_policy(log_pi_ref, advantage, beta))
    assert best == pytest.approx(beta * math.log((np.exp(log_pi_ref + advantage / beta)).sum()))
    assert all(objective(np.log(rng.dirichlet(np.ones(4)))) < best for _ in range(200))


def test_optimal_policy_has_no_regression_loss_up_to_its_normaliser():
    # beta log(pi*/pi_ref) = A - beta log Z: with the advantage so centred, every action's loss is 0.
    rng = np.random.default_rng(1)
    log_pi_ref, advantage, beta = np.log(rng.dirichlet(np.ones(4))), rng.normal(size=4), 0.3
    log_z = math.log(np.exp(log_pi_ref + advantage / beta).sum())
    log_pi = optimal_policy(log_pi_ref, advantage, beta)
    loss = regression_loss(log_pi, log_pi_ref, advantage - beta * log_z, beta=beta)
    np.testing.assert_allclose(loss, 0, atol=1e-20)


def test_descending_the_regression_loss_finds_the_optimal_policy():
    # A softmax policy, whose log-probabilities cannot all rise at once; the advantage centred as above.
    log_pi_ref = torch.log(torch.tensor([0.6, 0.3, 0.1], dtype=torch.double))
    advantage, beta = torch.tensor([-0.2, 0.4, 0.1], dtype=torch.double), 0.5
    advantage = advantage - beta * torch.logsumexp(log_pi_ref + advantage / beta, 0)
    logits = log_pi_ref.clone().requires_grad_()
    optimiser = torch.optim.SGD([logits], lr=0.5)
    for _ in range(500):
        optimiser.zero_grad()
        regression_loss(torch.log_softmax(logits, 0), log_pi_ref, advantage, beta=beta).sum().backward()
        optimiser.step()
    expected = optimal_policy(log_pi_ref, advantage, beta)
    torch.testing.assert_close(torch.log_softmax(logits, 0).detach(), expected, atol=1e-6, rtol=0)


# --- the regression loss, Eq. 8, 12, 13 ----------------------------------------------------------------------------


def test_regression_loss_by_hand():
    # (0.5 * (-1 - -3) - 0.4)^2 = (1 - 0.4)^2 = 0.36;  (0.5 * (-3 - -1) - 0.4)^2 = (-1.4)^2 = 1.96
    loss = regression_loss([-1.0, -3.0], [-3.0, -1.0], [0.4, 0.4], beta=0.5)
    np.testing.assert_allclose(loss, [0.36, 1.96])


@pytest.mark.parametrize("advantage, best", [(0.5, 5.0), (-0.5, -5.0), (0.0, 0.0)])
def test_least_where_the_log_ratio_is_advantage_over_beta(advantage, best):
    # A = 0.5, beta = 0.1: the minimising log-ratio is A/beta = 5, not A beta = 0.05; below zero where A is.
    ratio = np.linspace(-10, 10, 2001)
    loss = regression_loss(ratio - 20, np.full(2001, -20.0), np.full(2001, advantage), beta=0.1)
    assert ratio[loss.argmin()] == pytest.approx(best)
    assert loss.min() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_gradient_is_eq_13_is_autograd_is_finite_difference(seed):
    log_pi, log_pi_ref, advantage = random_batch(seed)
    formula = regression_gradient(log_pi, log_pi_ref, advantage, beta=0.7)
    step = 1e-5
    up = regression_loss(log_pi + step, log_pi_ref, advantage, beta=0.7)
    down = regression_loss(log_pi - step, log_pi_ref, advantage, beta=0.7)
    np.testing.assert_allclose((up - down) / (2 * step), formula, atol=1e-8)
    variable = torch.tensor(log_pi, requires_grad=True)
    regression_loss(variable, torch.tensor(log_pi_ref), torch.tensor(advantage), beta=0.7).sum().backward()
    np.testing.assert_allclose(variable.grad.numpy(), formula)


def test_gradient_by_hand():
    # At pi = pi_ref only the advantage pulls: -2 * 0.5 * 0.4 = -0.4, so descent raises log pi; A < 0 lowers it.
    gradient = regression_gradient([-2.0, -2.0], [-2.0, -2.0], [0.4, -0.4], beta=0.5)
    np.testing.assert_allclose(gradient, [-0.4, 0.4])
    # Past A/beta = 0.8 the reference pulls back: log-ratio 2, -2 * 0.5 * (0.4 - 0.5 * 2) = 0.6.
    np.testing.assert_allclose(regression_gradient([-1.0], [-3.0], [0.4], beta=0.5), [0.6])


# --- the KL ablation and AWR ---------------------------------------------------------------------------------------


def test_kl_loss_by_hand():
    # exp(0.5/0.5) * 2 = 2e;  exp(-0.5/0.5) * 3 = 3/e
    loss = kl_loss([-2.0, -3.0], [0.5, -0.5], beta=0.5)
    np.testing.assert_allclose(loss, [2 * math.e, 3 / math.e])


def test_kl_loss_limits():
    log_pi = np.array([-2.0, -3.0])
    np.testing.assert_allclose(kl_loss(log_pi, [0.5, -0.5], beta=1e9), -log_pi)  # beta large: plain cloning
    np.testing.assert_allclose(kl_loss(log_pi, [0.0, 0.0], beta=0.1), -log_pi)  # A = 0: plain cloning
    np.testing.assert_allclose(kl_loss(log_pi, [0.5, -0.5], beta=1e-3), [200, 0], atol=1e-9)  # small: at most max_weight
    np.testing.assert_allclose(kl_loss([-1.0], [5.0], beta=1.0, max_weight=math.inf), [math.exp(5)])


def test_kl_loss_over_the_reference_is_the_kl_to_the_optimal_policy():
    # sum_a pi_ref(a) exp(A/beta)/Z (-log pi) = KL(pi*||pi) + entropy of pi*, over all actions of one state.
    rng = np.random.default_rng(2)
    log_pi_ref, log_pi = np.log(rng.dirichlet(np.ones(4), size=2))
    advantage, beta = rng.normal(size=4), 0.8
    best = optimal_policy(log_pi_ref, advantage, beta)
    Z = np.exp(log_pi_ref + advantage / beta).sum()
    expected_loss = (np.exp(log_pi_ref) * kl_loss(log_pi, advantage, beta=beta, max_weight=math.inf)).sum() / Z
    kl = (np.exp(best) * (best - log_pi)).sum()
    entropy = -(np.exp(best) * best).sum()
    assert expected_loss == pytest.approx(kl + entropy)


def test_awr_is_kl_with_its_own_cut():
    # exp(4) = 54.6 is cut to 20; exp(1) = 2.718 is not.
    np.testing.assert_allclose(awr_loss([-1.0, -1.0], [4.0, 1.0], beta=1.0), [20, math.e])
    np.testing.assert_allclose(kl_loss([-1.0, -1.0], [4.0, 1.0], beta=1.0), [math.exp(4), math.e])


def test_only_the_regression_lowers_a_bad_action():
    # At pi = pi_ref with A = -0.5.  Descent moves log pi against the gradient.
    def gradient(loss):
        log_pi = torch.tensor([-2.0], requires_grad=True)
        loss(log_pi, torch.tensor([-2.0]), torch.tensor([-0.5])).sum().backward()
        return log_pi.grad.item()

    assert gradient(LOSSES["regression"]) > 0 and gradient(LOSSES["webrl"]) > 0
    assert gradient(LOSSES["kl"]) < 0 and gradient(LOSSES["awr"]) < 0
    assert gradient(LOSSES["digirl"]) == 0 and gradient(LOSSES["webrl released"]) == 0


# --- DigiRL and WebRL ----------------------------------------------------------------------------------------------


def test_digirl_keeps_or_drops():
    np.testing.assert_allclose(digirl_loss([-1.0, -2.0, -3.0], [0.2, 0.0, -0.2]), [1, 0, 0])
    np.testing.assert_allclose(digirl_loss([-1.0, -2.0], [0.04, 0.06], threshold=0.05), [0, 2])


def test_digirl_drops_even_an_impossible_action():
    assert digirl_loss(np.array([-np.inf]), np.array([-1.0])).tolist() == [0.0]


def test_webrl_as_published_is_the_regression():
    log_pi, log_pi_ref, advantage = random_batch(4)
    published = webrl_loss(log_pi, log_pi_ref, advantage, beta=0.3)
    np.testing.assert_array_equal(published, regression_loss(log_pi, log_pi_ref, advantage, beta=0.3))


def test_webrl_as_released_by_hand():
    # beta = 1, target 1.  x = 0: (0 - 1)^2 / 2 = 0.5 (SmoothL1 at distance 1).  x = 0.5: 0.5^2 / 2 = 0.125.
    # x = -0.5: distance 1.5 - 0.5 = 1.  x = 2: b = 1/2, b x = 1, 0.  A < 0: 0, whatever x.
    x = np.array([0, 0.5, -0.5, 2, 0.5])
    loss = webrl_released_loss(x - 3, np.full(5, -3.0), [0.1, 0.9, 0.0, 0.4, -0.1])
    np.testing.assert_allclose(loss, [0.5, 0.125, 1, 0, 0], atol=1e-12)
    # beta = 5, x = 0.1: (0.5 - 1)^2 / 2 / 5 = 0.025.  x = -1: b = 1, distance 2 - 0.5 = 1.5.
    loss = webrl_released_loss(np.array([0.1, -1.0]), np.zeros(2), np.ones(2), beta=np.array([5.0, 5.0]))
    np.testing.assert_allclose(loss, [0.025, 1.5])


def test_webrl_as_released_only_pushes_up_and_not_past_its_bound():
    # The gradient is -(1 - beta x) on 0 < x < 1/beta, -1 below 0, 0 from 1/beta on.
    x = torch.tensor([-3.0, -0.5, 0.25, 0.5, 0.75, 2.0], requires_grad=True)
    webrl_released_loss(x, torch.zeros(6), torch.ones(6), beta=1.0).sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([-1, -1, -0.75, -0.5, -0.25, 0]))


# --- what must hold of every loss ----------------------------------------------------------------------------------


@every_loss
def test_torch_agrees_with_numpy(loss):
    batch = random_batch(0)
    numpy_loss, torch_loss = loss(*batch), loss(*map(torch.tensor, batch))
    assert isinstance(numpy_loss, np.ndarray) and isinstance(torch_loss, torch.Tensor)
    assert numpy_loss.shape == torch_loss.shape == (6,)
    np.testing.assert_allclose(torch_loss.numpy(), numpy_loss, atol=1e-12)


@every_loss
def test_a_sample_does_not_see_its_neighbours(loss):
    batch = random_batch(1)
    together = loss(*batch)
    apart = np.concatenate([loss(*(x[i : i + 1] for x in batch)) for i in range(6)])
    np.testing.assert_array_equal(together, apart)


@every_loss
def test_gradients_are_equal_across_micro_batches(loss):
    log_pi, log_pi_ref, advantage = map(torch.tensor, random_batch(2))

    def gradient(*splits):
        variable = log_pi.clone().requires_grad_()
        for rows in splits:
            loss(variable[rows], log_pi_ref[rows], advantage[rows]).sum().backward()
        return variable.grad

    whole, halves = gradient(slice(None)), gradient(slice(0, 2), slice(2, 6))
    torch.testing.assert_close(whole, halves, rtol=0, atol=0)


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_extreme_ratios_stay_finite(loss, dtype):
    # A 60-token action can be e^-1000 under one policy: squared, that passes half precision's 65,504.
    log_pi = torch.tensor([-1000.0, -0.5, -1000.0, 0.0], dtype=dtype, requires_grad=True)
    log_pi_ref = torch.tensor([-0.5, -1000.0, -1000.0, 0.0], dtype=dtype)
    advantage = torch.tensor([300.0, 1.0, -300.0, 0.0], dtype=dtype)
    value = loss(log_pi, log_pi_ref, advantage)
    value.sum().backward()
    assert value.dtype == torch.float32 and value.isfinite().all() and log_pi.grad.isfinite().all()


@every_loss
def test_an_empty_batch_has_no_losses(loss):
    assert loss(np.zeros(0), np.zeros(0), np.zeros(0)).shape == (0,)


@every_loss
def test_shapes_that_would_broadcast_are_refused(loss):
    with pytest.raises(ValueError, match=r"expected arrays of one shape, got .*\(3,\).*\(3, 1\)"):
        loss(np.zeros(3), np.zeros(3), np.zeros((3, 1)))


def test_beta_is_positive():
    for beta in (0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="beta > 0"):
            regression_loss([-1.0], [-1.0], [0.0], beta=beta)
    with pytest.raises(ValueError, match="at least one action"):
        optimal_policy([], [], beta=1.0)

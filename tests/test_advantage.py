"""Shaped rewards, returns, TD errors and Eq. 10, by hand; and Appendix A.1 on a small tabular problem."""

import numpy as np
import pytest
import torch

from advantage import (
    discounted_returns,
    doubly_robust_advantage,
    potential_based_rewards,
    shaped_rewards,
    td_errors,
    webrl_advantage,
)


def random_episode(seed, T=7):
    """Rewards [T] and values [T+1] of an episode that has ended."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=T), np.append(rng.random(T), 0.0)


# --- by hand -------------------------------------------------------------------------------------------------------


def test_shaped_rewards_by_hand():
    # 0 + 0.5 (0.5 - 0.2) = 0.15;  0 + 0.5 (0.4 - 0.5) = -0.05;  1 + 0.5 (1 - 0.4) = 1.3
    shaped = shaped_rewards([0, 0, 1], [0.2, 0.5, 0.4, 1.0], shaping_scale=0.5)
    np.testing.assert_allclose(shaped, [0.15, -0.05, 1.3])


def test_discounted_returns_by_hand():
    # G_2 = 4;  G_1 = 2 + 0.5 * 4 = 4;  G_0 = 1 + 0.5 * 4 = 3
    np.testing.assert_allclose(discounted_returns(np.array([1, 2, 4]), 0.5), [3, 4, 4])


def test_td_errors_by_hand():
    # 0 + 0.5 * 0.5 - 0.2 = 0.05;  0 + 0.5 * 0.7 - 0.5 = -0.15;  1 + 0.5 * 0 - 0.7 = 0.3
    np.testing.assert_allclose(td_errors([0, 0, 1], [0.2, 0.5, 0.7, 0], 0.5), [0.05, -0.15, 0.3])


def test_doubly_robust_advantage_by_hand():
    # gamma = 0.5, td_weight = 0.25, r' = [0, 0, 1], V = [0.2, 0.5, 0.7, 0].
    #   TD as above: [0.05, -0.15, 0.3];  G = [0.25, 0.5, 1], G - V = [0.05, 0, 0.3]
    #   A = 0.25 TD + 0.75 (G - V) = [0.05, -0.0375, 0.3]
    advantage = doubly_robust_advantage([0, 0, 1], [0.2, 0.5, 0.7, 0], gamma=0.5, td_weight=0.25)
    np.testing.assert_allclose(advantage, [0.05, -0.0375, 0.3])


def test_no_off_by_one_at_the_end():
    # Undiscounted, the Monte-Carlo part is return - V: [1 - 0.2, 1 - 0.5, 1 - 0.7].
    advantage = doubly_robust_advantage([0, 0, 1], [0.2, 0.5, 0.7, 0], gamma=1, td_weight=0)
    np.testing.assert_allclose(advantage, [0.8, 0.5, 0.3])


@pytest.mark.parametrize("td_weight", [0, 0.5, 1])
def test_an_episode_of_one_action(td_weight):
    # T = 1: both parts are r - V, whatever the mix.
    np.testing.assert_allclose(doubly_robust_advantage([1], [0.3, 0], gamma=0.9, td_weight=td_weight), [0.7])


def test_the_literal_settings_push_the_first_step_of_a_sure_success_down():
    # V = 1 all along a successful 15-step episode, alpha = 0.3, P linear, gamma = 0.9, lambda = 0.5:
    #   r'_t = 0.3/15 = 0.02, and 1 more at the last step
    #   TD_0 = 0.02 + 0.9 * 1 - 1 = -0.08
    #   G_0 = 0.02 (1 - 0.9^15)/(1 - 0.9) + 0.9^14 = 0.1588 + 0.2288 = 0.3876,  G_0 - V = -0.6124
    #   A_0 = 0.5 * -0.08 + 0.5 * -0.6124 = -0.3462
    T = 15
    shaped = shaped_rewards(np.append(np.zeros(T - 1), 1), np.linspace(0, 1, T + 1), shaping_scale=0.3)
    value = np.append(np.ones(T), 0.0)
    literal = doubly_robust_advantage(shaped, value, gamma=0.9, td_weight=0.5)
    assert literal[0] == pytest.approx(-0.3462, abs=1e-4)
    # Undiscounted, no step of it is pushed down; nor with V fitted to the discounted outcome gamma^(T-1-t).
    assert (doubly_robust_advantage(shaped, value, gamma=1.0, td_weight=0.5) > 0).all()
    discounted_value = np.append(0.9 ** np.arange(T - 1, -1, -1), 0.0)
    assert (doubly_robust_advantage(shaped, discounted_value, gamma=0.9, td_weight=0.5) > 0).all()


# --- reductions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_td_weight_one_is_the_td_error_and_zero_is_monte_carlo(seed):
    shaped, value = random_episode(seed)
    td = td_errors(shaped, value, 0.9)
    monte_carlo = discounted_returns(shaped, 0.9) - value[:-1]
    np.testing.assert_allclose(doubly_robust_advantage(shaped, value, gamma=0.9, td_weight=1), td)
    np.testing.assert_allclose(doubly_robust_advantage(shaped, value, gamma=0.9, td_weight=0), monte_carlo)


@pytest.mark.parametrize("seed", range(5))
def test_td_errors_telescope_to_return_minus_value(seed):
    # sum_u gamma^(u-t) delta_u = G_t - V_t + gamma^(T-t) V_T, with a bootstrap V_T that is not zero.
    rewards, value = random_episode(seed)
    value[-1] = 0.4
    T = len(rewards)
    bootstrap = 0.9 ** (T - np.arange(T)) * value[-1]
    telescoped = discounted_returns(td_errors(rewards, value, 0.9), 0.9)
    np.testing.assert_allclose(telescoped, discounted_returns(rewards, 0.9) - value[:-1] + bootstrap)


def test_no_shaping_no_discount_is_webrl():
    rewards, value = np.array([0, 0, 1.0]), np.array([0.2, 0.5, 0.7, 0])
    shaped = shaped_rewards(rewards, [0.1, 0.4, 0.2, 0.9], shaping_scale=0)
    ours = doubly_robust_advantage(shaped, value, gamma=1, td_weight=0.5)
    np.testing.assert_allclose(webrl_advantage(rewards, value), ours)
    # 0.5 (0.5 - 0.2) + 0.5 (1 - 0.2) = 0.55;  0.5 (0.7 - 0.5) + 0.5 (1 - 0.5) = 0.35;  0.5 * 0.3 + 0.5 * 0.3 = 0.3
    np.testing.assert_allclose(ours, [0.55, 0.35, 0.3])


def test_returns_at_the_ends_of_gamma():
    rewards = np.array([3.0, -1.0, 2.0])
    np.testing.assert_allclose(discounted_returns(rewards, 0), rewards)
    np.testing.assert_allclose(discounted_returns(rewards, 1), [4, 1, 2])


def test_shaping_telescopes():
    # Undiscounted, an episode gains alpha (P_T - P_0) in all, however it went.
    rng = np.random.default_rng(0)
    rewards, potential = rng.normal(size=6), rng.random(7)
    gained = shaped_rewards(rewards, potential, shaping_scale=0.3).sum() - rewards.sum()
    assert gained == pytest.approx(0.3 * (potential[-1] - potential[0]))


def test_the_exact_form_is_the_papers_at_gamma_one():
    rewards, potential = random_episode(0)
    exact = potential_based_rewards(rewards, potential, gamma=1, shaping_scale=0.3)
    np.testing.assert_array_equal(exact, shaped_rewards(rewards, potential, shaping_scale=0.3))


def test_a_loop_pays_in_the_papers_form_only():
    # P: 0 -> 1 -> 0.  Paper's form, alpha = 0.3: r' = [0.3, -0.3], G = 0.3 - 0.9 * 0.3 = 0.03 a lap.
    # Exact form: r' = 0.3 [0.9, -1], G = 0.27 - 0.9 * 0.3 = 0.
    loop, nothing = [0.0, 1.0, 0.0], [0.0, 0.0]
    paper = shaped_rewards(nothing, loop, shaping_scale=0.3)
    exact = potential_based_rewards(nothing, loop, gamma=0.9, shaping_scale=0.3)
    assert discounted_returns(paper, 0.9)[0] == pytest.approx(0.03)
    assert discounted_returns(exact, 0.9)[0] == pytest.approx(0.0)


# --- Appendix A.1 on a small random problem ------------------------------------------------------------------------

STATES, ACTIONS, GAMMA = 5, 3, 0.9


def random_problem(seed):
    """Transition probabilities [S, A, S], rewards [S, A, S] and a potential [S]."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(STATES), size=(STATES, ACTIONS))
    return transition, rng.normal(size=(STATES, ACTIONS, STATES)), rng.normal(size=STATES)


def shaped_problem(reward, potential, gamma=GAMMA):
    """Every transition's exact shaped reward, each taken as an episode of one action."""
    shaped = np.empty_like(reward)
    for s, a, s2 in np.ndindex(*reward.shape):
        shaped[s, a, s2] = potential_based_rewards([reward[s, a, s2]], potential[[s, s2]], gamma=gamma)[0]
    return shaped


def bellman(Q, transition, reward):
    """Q(s, a) <- E_{s'} [ r + gamma max_a' Q(s', a') ]"""
    return (transition * (reward + GAMMA * Q.max(axis=1))).sum(axis=2)


@pytest.mark.parametrize("seed", range(3))
def test_exact_shaping_equals_starting_q_at_the_potential(seed):
    # A: shaped rewards, Q starts at 0.  B: plain rewards, Q starts at Phi(s).  Q_B - Phi = Q_A after every update.
    transition, reward, potential = random_problem(seed)
    shaped = shaped_problem(reward, potential)
    Q_a, Q_b = np.zeros((STATES, ACTIONS)), np.tile(potential[:, None], ACTIONS)
    for _ in range(60):
        np.testing.assert_allclose(Q_a, Q_b - potential[:, None], atol=1e-10)
        assert (Q_a.argmax(axis=1) == Q_b.argmax(axis=1)).all()  # so the greedy policies agree too
        Q_a, Q_b = bellman(Q_a, transition, shaped), bellman(Q_b, transition, reward)


def test_exact_shaping_equals_starting_q_at_the_potential_sample_by_sample():
    # The same for tabular Q-learning along one random walk, which is how it is met in practice.
    transition, reward, potential = random_problem(7)
    rng = np.random.default_rng(7)
    Q_a, Q_b, s = np.zeros((STATES, ACTIONS)), np.tile(potential[:, None], ACTIONS), 0
    for _ in range(300):
        a = rng.integers(ACTIONS)
        s2 = rng.choice(STATES, p=transition[s, a])
        (shaped,) = potential_based_rewards([reward[s, a, s2]], potential[[s, s2]], gamma=GAMMA)
        Q_a[s, a] += 0.1 * (shaped + GAMMA * Q_a[s2].max() - Q_a[s, a])
        Q_b[s, a] += 0.1 * (reward[s, a, s2] + GAMMA * Q_b[s2].max() - Q_b[s, a])
        s = s2
    np.testing.assert_allclose(Q_a, Q_b - potential[:, None], atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_exact_shaping_leaves_the_best_policy_alone(seed):
    # Both from Q = 0: the fixed points differ by Phi(s), which no choice of action sees.
    transition, reward, potential = random_problem(seed)
    shaped = shaped_problem(reward, potential)
    plain_Q = shaped_Q = np.zeros((STATES, ACTIONS))
    for _ in range(400):
        plain_Q, shaped_Q = bellman(plain_Q, transition, reward), bellman(shaped_Q, transition, shaped)
    np.testing.assert_allclose(shaped_Q, plain_Q - potential[:, None], atol=1e-8)
    assert (shaped_Q.argmax(axis=1) == plain_Q.argmax(axis=1)).all()


def test_the_papers_form_can_change_the_best_policy():
    # Finish now for 0.1, or lap P: 0 -> 1 -> 0 for ever for 0.03/(1 - 0.81) = 0.158 (alpha 0.3, gamma 0.9).
    lap = discounted_returns(shaped_rewards([0.0, 0.0] * 200, [0.0, 1.0] * 200 + [0.0], shaping_scale=0.3), 0.9)[0]
    finish = shaped_rewards([0.1], [0.0, 0.0], shaping_scale=0.3)[0]
    assert lap == pytest.approx(0.03 / 0.19, abs=1e-6) and lap > finish


# --- kinds and shapes ----------------------------------------------------------------------------------------------


def test_torch_agrees_with_numpy():
    shaped, value = random_episode(3)
    expected = doubly_robust_advantage(shaped, value, gamma=0.9, td_weight=0.3)
    got = doubly_robust_advantage(torch.tensor(shaped), torch.tensor(value), gamma=0.9, td_weight=0.3)
    assert isinstance(expected, np.ndarray) and isinstance(got, torch.Tensor)
    np.testing.assert_allclose(got.numpy(), expected)
    mixed = doubly_robust_advantage(shaped.tolist(), torch.tensor(value), gamma=0.9, td_weight=0.3)
    assert isinstance(mixed, torch.Tensor)


def test_integer_rewards_do_not_truncate_the_returns():
    assert discounted_returns(torch.tensor([0, 0, 1]), 0.5).tolist() == [0.25, 0.5, 1.0]
    assert discounted_returns([0, 0, 1], 0.5).tolist() == [0.25, 0.5, 1.0]


def test_rewards_are_not_overwritten():
    rewards = np.array([1.0, 1.0])
    discounted_returns(rewards, 0.9)
    assert rewards.tolist() == [1.0, 1.0]


def test_gradients_reach_the_rewards_where_wanted():
    rewards = torch.tensor([0.0, 0.0, 1.0], requires_grad=True)
    discounted_returns(rewards, 0.5)[0].backward()
    assert rewards.grad.tolist() == [1.0, 0.5, 0.25]


def test_an_episode_without_actions():
    assert discounted_returns([], 0.9).shape == (0,)
    assert doubly_robust_advantage(np.zeros(0), np.zeros(1), gamma=0.9, td_weight=0.5).shape == (0,)


@pytest.mark.parametrize("shape", [(3,), (5,), (4, 1), ()])
def test_wrong_shapes_say_what_came(shape):
    for call in (
        lambda x: td_errors(np.zeros(3), x, 0.9),
        lambda x: shaped_rewards(np.zeros(3), x, shaping_scale=0.3),
        lambda x: doubly_robust_advantage(np.zeros(3), x, gamma=0.9, td_weight=0.5),
    ):
        with pytest.raises(ValueError, match=r"expected (value|potential) of shape \[T\+1\] = \(4,\), got"):
            call(np.zeros(shape))
    with pytest.raises(ValueError, match="expected rewards"):
        discounted_returns(np.zeros((2, 3)), 0.9)
    with pytest.raises(ValueError, match="expected rewards"):
        discounted_returns(np.array(1.0), 0.9)


def test_discount_and_mix_are_fractions():
    with pytest.raises(ValueError, match="gamma"):
        discounted_returns(np.zeros(3), 1.1)
    with pytest.raises(ValueError, match="td_weight"):
        doubly_robust_advantage(np.zeros(3), np.zeros(4), gamma=0.9, td_weight=-0.1)

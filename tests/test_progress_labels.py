"""Progress labels: the paper's example, what it leaves open, and what must always hold.  (Section 5.3)"""

import numpy as np
import pytest
import torch

from progress_labels import key_steps, latch, progress_labels


def done_at(T, *steps):
    """z [T+1, K]: sub-goal k is done from steps[k] on; None = never."""
    return np.array([[step is not None and t >= step for step in steps] for t in range(T + 1)])


# --- the paper's example: K = 3, done at 2, 4, 6, T = 9 ------------------------------------------------------------


def test_key_steps_of_the_papers_example():
    assert key_steps(done_at(9, 2, 4, 6)) == [2, 4, 6]


def test_labels_of_the_papers_example():
    # Knots (0, 0), (2, 1/3), (4, 2/3), (9, 1): the completion at 6 is anchored to 9.
    #   t = 7: alpha = (7 - 4)/(9 - 4) = 3/5, p = 2/5 * 2/3 + 3/5 * 1 = 4/15 + 9/15 = 13/15
    #   t = 5: alpha = 1/5,                   p = 4/5 * 2/3 + 1/5 * 1 = 8/15 + 3/15 = 11/15
    expected = np.array([0, 2.5, 5, 7.5, 10, 11, 12, 13, 14, 15]) / 15
    np.testing.assert_allclose(progress_labels(done_at(9, 2, 4, 6)), expected, rtol=0, atol=1e-12)


# --- what the paper leaves open ------------------------------------------------------------------------------------


def test_a_sub_goal_that_is_undone_stays_done():
    # z = 0 1 0 1: one key step at 1, none at 3.
    z = np.array([[0, 0], [1, 0], [0, 0], [1, 0], [1, 1]])
    assert key_steps(z) == [1, 4]
    assert latch(z)[:, 0].tolist() == [False, True, True, True, True]
    # Knots (0, 0), (1, 1/2), (4, 1).
    np.testing.assert_allclose(progress_labels(z), [0, 1 / 2, 4 / 6, 5 / 6, 1])


def test_order_of_completion_does_not_matter():
    np.testing.assert_array_equal(progress_labels(done_at(9, 4, 2, 6)), progress_labels(done_at(9, 2, 4, 6)))


def test_sub_goals_completed_together_jump_together():
    # K = 4, two at step 2: knots (0, 0), (2, 2/4), (3, 3/4), (5, 1).
    z = done_at(5, 2, 2, 3, 4)
    assert key_steps(z) == [2, 3, 4]
    np.testing.assert_allclose(progress_labels(z), [0, 1 / 4, 2 / 4, 3 / 4, 7 / 8, 1])


def test_all_completed_at_one_step_is_one_straight_line():
    # The only key step is also the last, so it is anchored to T: knots (0, 0), (8, 1).
    np.testing.assert_allclose(progress_labels(done_at(8, 4, 4, 4)), np.arange(9) / 8)


def test_fewer_than_k_completed_still_ends_at_one_from_the_last_knot():
    # Knots (0, 0), (2, 1/3), (4, 2/3), (9, 1): the same curve as if the third had been seen at any step after 4.
    seen, unseen = done_at(9, 2, 4, 6), done_at(9, 2, 4, None)
    np.testing.assert_array_equal(progress_labels(unseen), progress_labels(seen))


def test_nothing_completed_is_one_straight_line():
    np.testing.assert_allclose(progress_labels(np.zeros((5, 3), bool)), [0, 1 / 4, 2 / 4, 3 / 4, 1])
    assert key_steps(np.zeros((5, 3), bool)) == []


def test_completion_at_step_zero():
    # One of two holds at the start: p_0 = c_0/K = 1/2, then straight to (4, 1).
    z = done_at(4, 0, 3)
    assert key_steps(z) == [0, 3]
    np.testing.assert_allclose(progress_labels(z), [4 / 8, 5 / 8, 6 / 8, 7 / 8, 1])
    # All hold at the start: the last completion is anchored to T, which leaves the line from (0, 0).
    np.testing.assert_allclose(progress_labels(done_at(2, 0, 0)), [0, 1 / 2, 1])


def test_the_last_state_is_one_whatever_was_completed_there():
    np.testing.assert_allclose(progress_labels(done_at(4, 4, None, None)), np.arange(5) / 4)


def test_shortest_episodes():
    assert progress_labels([[True, False]]).tolist() == [1.0]  # T = 0
    assert progress_labels([[False], [True]]).tolist() == [0.0, 1.0]  # T = 1
    assert progress_labels([[False, False], [True, False]]).tolist() == [0.0, 1.0]


# --- what must always hold -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(50))
def test_labels_are_finite_monotone_and_end_at_one(seed):
    rng = np.random.default_rng(seed)
    z = rng.random((rng.integers(1, 20), rng.integers(1, 6))) < 0.2  # flickering, in any order
    p = progress_labels(z)
    assert p.shape == (len(z),)
    assert np.isfinite(p).all() and p.min() >= 0 and p[-1] == 1
    assert (np.diff(p) >= 0).all()
    # Latching twice is latching once, and the label never runs behind what has been completed, short of the last.
    np.testing.assert_array_equal(latch(latch(z)), latch(z))
    np.testing.assert_array_equal(progress_labels(latch(z)), p)
    count = latch(z).sum(axis=1)
    behind = count < z.shape[1]
    assert (p[behind] >= count[behind] / z.shape[1] - 1e-12).all()


def test_same_kind_out():
    z = torch.as_tensor(done_at(9, 2, 4, 6))
    labels = progress_labels(z)
    assert isinstance(labels, torch.Tensor) and labels.dtype == torch.float32
    torch.testing.assert_close(labels[7], torch.tensor(13 / 15))
    assert latch(z).dtype == torch.bool
    assert key_steps(z) == [2, 4, 6] and all(type(t) is int for t in key_steps(z))
    assert isinstance(progress_labels(z.tolist()), np.ndarray)


@pytest.mark.parametrize("function", [latch, key_steps, progress_labels])
@pytest.mark.parametrize("z", [np.zeros((4, 0)), np.zeros((0, 3)), np.zeros(4), np.zeros((2, 3, 4))])
def test_wrong_shapes_say_what_came(function, z):
    with pytest.raises(ValueError, match=str(z.shape).replace("(", r"\(").replace(")", r"\)")):
        function(z)


def test_only_zeros_and_ones():
    with pytest.raises(ValueError, match="0 and 1"):
        progress_labels(np.array([[0.5], [1.0]]))
    with pytest.raises(ValueError, match="0 and 1"):
        progress_labels(np.array([[np.nan], [1.0]]))

"""The perplexity filter, the replay buffer and the failure-driven draw, on small cases with their arithmetic."""

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
import torch

from curriculum import ReplayBuffer, keep_moderate, perplexity, resample, tfidf_similarity, within_reach
from trajectory import Action, Observation, Step, Task, Trajectory, append_trajectories

KINDS = [np.asarray, torch.as_tensor]

# --- perplexity -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("array", KINDS)
def test_perplexity_by_hand(array):
    # p = 1/2, 1/8: mean NLL = (ln 2 + ln 8)/2 = ln 4, so 4.   p = 1: 1.   third tokens are padding
    log_probs = array(np.log([[0.5, 0.125, 0.9], [1.0, 1.0, 0.1]]))
    mask = array(np.array([[True, True, False], [True, True, False]]))
    result = perplexity(log_probs, mask)
    assert type(result) is type(log_probs) and tuple(result.shape) == (2,)
    np.testing.assert_allclose(np.asarray(result), [4, 1])


@pytest.mark.parametrize("array", KINDS)
def test_padding_counts_for_nothing_whatever_it_holds(array):
    alone = perplexity(array(np.log([[0.5, 0.25]])), array(np.ones((1, 2), bool)))
    padded = array(np.array([[math.log(0.5), math.log(0.25), -math.inf, math.nan]]))
    batched = perplexity(padded, array(np.array([[1, 1, 0, 0]])))
    np.testing.assert_allclose(np.asarray(batched), np.asarray(alone), rtol=1e-15)


@pytest.mark.parametrize("array", KINDS)
def test_perplexity_at_its_limits_is_filtered_without_a_warning(array, recwarn):
    log_probs = array(np.array([[-800.0, -800.0], [-math.inf, 0.0], [-1.0, -1.0], [math.nan, 0.0]]))
    mask = array(np.array([[True, True], [True, True], [False, False], [True, True]]))
    result = perplexity(log_probs, mask)
    assert np.isinf(np.asarray(result)[:2]).all()  # e^800 overflows; an impossible token
    assert np.isnan(np.asarray(result)[2:]).all()  # no tokens; a broken model
    assert not np.asarray(keep_moderate(result)).any()
    assert not recwarn.list


def test_half_precision_is_taken_up_to_single():
    log_probs = torch.full((1, 300), -math.log(1.5), dtype=torch.bfloat16)
    result = perplexity(log_probs, torch.ones(1, 300, dtype=torch.bool))
    assert result.dtype == torch.float32
    assert result.item() == pytest.approx(1.5, rel=4e-3)  # bfloat16 holds ln 1.5 to 2^-9 of it


def test_perplexity_of_a_uniform_model_is_its_vocabulary():
    assert perplexity(np.full((1, 7), -math.log(50)), np.ones((1, 7), bool)) == pytest.approx([50])


def test_perplexity_rejects_shapes():
    with pytest.raises(ValueError, match=r"got \(2, 3\) and \(2, 2\)"):
        perplexity(np.zeros((2, 3)), np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"\[B, N\]"):
        perplexity(np.zeros(3), np.ones(3))


@pytest.mark.parametrize("array", KINDS)
def test_keep_moderate_includes_both_ends(array):
    values = array(np.array([1.0, 1 / 0.9 - 1e-9, 1 / 0.9, 1.5, 2.0, 2.0 + 1e-9, math.inf, math.nan]))
    kept = keep_moderate(values)
    assert type(kept) is type(values)
    assert np.asarray(kept).tolist() == [False, False, True, True, True, False, False, False]
    with pytest.raises(ValueError, match="low=2"):
        keep_moderate(values, low=2, high=1)


# --- replay buffer ----------------------------------------------------------------------------------------------


def task(task_id, intent="Open the issue", site="gitlab"):
    return Task(task_id, (site,), intent, "/" + site, {})


def success(name, log_prob=-1.0, won=True):
    page = Observation("t", "/", name)
    step = Step(page, Action("stop", text=name), reply=f'stop "{name}"', token_ids=(1, 2), log_prob=log_prob)
    return Trajectory(task(name), [step], page, [[False], [True]], won, "stopped", name)


def names(episodes):
    return [episode.answer for episode in episodes]


def test_buffer_takes_successes_once_and_lets_the_oldest_go():
    buffer = ReplayBuffer(capacity=3)
    assert buffer.add([success("a"), success("b"), success("lost", won=False)]) == 2
    assert buffer.add([success("a", log_prob=-2.0)]) == 0  # the same episode, seen by other weights
    assert buffer.add([success("c"), success("d")]) == 2
    assert names(buffer) == ["b", "c", "d"] and len(buffer) == 3
    assert buffer.add([success("a")]) == 1  # gone, so new again
    assert names(buffer) == ["c", "d", "a"]


def test_sample_is_without_replacement_and_decided_by_the_generator():
    buffer = ReplayBuffer()
    buffer.add(success(str(i)) for i in range(20))
    drawn = names(buffer.sample(8, np.random.default_rng(0)))
    assert len(set(drawn)) == 8
    assert drawn == names(buffer.sample(8, np.random.default_rng(0)))
    assert drawn != names(buffer.sample(8, np.random.default_rng(1)))
    assert sorted(names(buffer.sample(99, np.random.default_rng(0)))) == sorted(names(buffer))
    assert ReplayBuffer().sample(4, np.random.default_rng(0)) == []


def test_buffer_survives_the_disk(tmp_path):
    file = tmp_path / "phase" / "replay.jsonl"
    buffer = ReplayBuffer()
    buffer.add([success("a"), success("b")])
    buffer.save(file)
    buffer.add([success("c")])
    buffer.save(file)
    restored = ReplayBuffer.load(file)
    assert list(restored) == list(buffer)
    assert restored.add([success("b")]) == 0
    assert names(ReplayBuffer.load(file, capacity=2)) == ["b", "c"]
    assert [path.name for path in file.parent.iterdir()] == ["replay.jsonl"]


def test_loading_loses_the_torn_record_only_and_reports_the_rest(tmp_path):
    file = tmp_path / "replay.jsonl"
    append_trajectories(file, [success("a"), success("b")])
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])  # killed while writing b
    assert names(ReplayBuffer.load(file)) == ["a"]
    file.write_bytes(b"{broken\n" + whole)
    with pytest.raises(ValueError, match="line 1"):
        ReplayBuffer.load(file)
    with pytest.raises(FileNotFoundError):
        ReplayBuffer.load(tmp_path / "absent.jsonl")


def test_capacity_is_checked():
    with pytest.raises(ValueError, match="got 0"):
        ReplayBuffer(capacity=0)


# --- resampling -------------------------------------------------------------------------------------------------

ISSUES = [task(f"issue-{i}", f"Open an issue titled Bug {i} in the compiler project") for i in range(6)]
MEMBERS = [task(f"member-{i}", f"Invite developer number {i} as a member of the group") for i in range(6)]
ROUTES = [task("route-0", "Find the walking time from the museum to the station", "map")]
POOL = ISSUES + MEMBERS + ROUTES
FAILED_ISSUE = task("failed-issue", "Open an issue titled Crash in the compiler project")
FAILED_ROUTE = task("failed-route", "Find the walking time from the library to the station", "map")


def rng():
    return np.random.default_rng(7)


def another_world(failed, generator):
    """A stand-in for the benchmark's own generator: the same task in another world."""
    world = int(generator.integers(1, 10**6))
    return dataclasses.replace(failed, task_id=f"{failed.task_id}-{world}", world=world)


def test_similar_tasks_are_drawn_once_each():
    drawn = resample([FAILED_ISSUE], POOL, 6, rng())
    assert sorted(t.task_id for t in drawn) == sorted(t.task_id for t in ISSUES)


def test_thin_categories_are_filled_by_perturbed_failures():
    drawn = resample([FAILED_ISSUE, FAILED_ROUTE], POOL, 6, rng(), perturb=another_world)
    assert Counter(t.sites[0] for t in drawn) == {"gitlab": 3, "map": 3}  # two failures take turns: half each
    assert all(t in ISSUES for t in drawn if t.sites == ("gitlab",))
    assert all(t.task_id.startswith("failed-route-") for t in drawn if t.sites == ("map",))  # 1 route < min_coverage
    assert len({t.task_id for t in drawn}) == 6


def test_the_new_set_is_spread_as_the_failures_are_and_not_as_the_pool_is():
    failed = [dataclasses.replace(FAILED_ROUTE, task_id=f"r{i}") for i in range(3)] + [FAILED_ISSUE]
    drawn = resample(failed, POOL, 8, rng(), perturb=another_world)
    assert Counter(t.sites[0] for t in drawn) == {"map": 6, "gitlab": 2}


def test_a_used_up_category_goes_on_with_perturbations():
    drawn = resample([FAILED_ISSUE], POOL, 10, rng(), perturb=another_world)
    assert len(drawn) == 10
    assert sum(t in ISSUES for t in drawn) == 6


def test_without_perturbation_the_nearest_stand_in_until_the_pool_is_used_up():
    assert ROUTES[0] in resample([FAILED_ROUTE], POOL, 3, rng())
    assert len(resample([FAILED_ROUTE], POOL, 99, rng())) == len(POOL)
    assert resample([FAILED_ROUTE], [], 3, rng()) == []


def test_a_perturbation_that_brings_nothing_new_does_not_hang():
    drawn = resample([FAILED_ROUTE], POOL, 99, rng(), perturb=lambda failed, generator: failed)
    assert len(drawn) == len(POOL)


def test_excluded_ids_are_never_drawn():
    excluded = {t.task_id for t in ISSUES} | {"failed-issue-1"}
    only_excluded = lambda failed, generator: dataclasses.replace(failed, task_id="failed-issue-1")  # noqa: E731
    drawn = resample([FAILED_ISSUE], POOL, 20, rng(), exclude=excluded, perturb=only_excluded)
    assert not excluded & {t.task_id for t in drawn}


def test_same_generator_same_tasks():
    draw = lambda seed: resample([FAILED_ISSUE], POOL, 4, np.random.default_rng(seed))  # noqa: E731
    assert draw(0) == draw(0)
    assert any(draw(0) != draw(seed) for seed in range(1, 5))


def test_no_failures_is_a_plain_draw():
    drawn = resample([], POOL, 5, rng())
    assert len({t.task_id for t in drawn}) == 5


def test_any_similarity_can_be_passed():
    last_member = POOL.index(MEMBERS[-1])
    only_it = lambda queries, documents: np.eye(1, len(documents), last_member).repeat(len(queries), 0)  # noqa: E731
    assert resample([FAILED_ISSUE], POOL, 1, rng(), similarity=only_it) == [MEMBERS[-1]]
    with pytest.raises(ValueError, match=r"\(1, 13\), got \(1, 2\)"):
        resample([FAILED_ISSUE], POOL, 1, rng(), similarity=lambda queries, documents: np.zeros((1, 2)))


def test_a_failure_is_within_reach_where_its_like_was_solved_on_its_own_site():
    elsewhere = task("route-gitlab", ROUTES[0].intent)  # the same words on another site
    assert within_reach([FAILED_ROUTE, FAILED_ISSUE], [ISSUES[0], elsewhere]) == [FAILED_ISSUE]
    assert within_reach([FAILED_ROUTE, FAILED_ISSUE], [ROUTES[0], *ISSUES]) == [FAILED_ROUTE, FAILED_ISSUE]
    assert within_reach([FAILED_ISSUE], [MEMBERS[0]]) == within_reach([FAILED_ISSUE], []) == within_reach([], ISSUES) == []
    assert within_reach([FAILED_ISSUE], [MEMBERS[0]], min_similarity=0.0) == [FAILED_ISSUE]


def test_tfidf_similarity_ranks_templates_together():
    scores = tfidf_similarity([FAILED_ISSUE.intent], [ISSUES[0].intent, MEMBERS[0].intent, ROUTES[0].intent])
    assert scores.shape == (1, 3) and scores[0, 0] > 0.15 > max(scores[0, 1:])
    assert tfidf_similarity(["a"], ["a", "b"]).tolist() == [[1, 0]]
    assert tfidf_similarity(["", "?"], ["", "!"]).tolist() == [[0, 0], [0, 0]]
    assert tfidf_similarity([], ["a"]).shape == (0, 1)

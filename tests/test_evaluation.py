"""Success by site, pass@k, bootstrap intervals, the sub-goal map, and that the figures get drawn.  (Section 6)"""

import itertools
import math

import numpy as np
import pytest

from environment.tasks import HELD_OUT
from evaluation import (
    attempts_by_task,
    average_pass_at_k,
    bootstrap_interval,
    pass_at_k,
    subgoal_completion_map,
    success,
    success_by_site,
    summary,
)
from experiments import compare, figures
from trajectory import Action, Observation, Step, Task, Trajectory, append_trajectories


def episode(succeeded, *, site="forum", task="1", z=((0,), (1,)), end="stopped", template=""):
    """An episode with as many actions as z asks for."""
    page = Observation("Page", "/", "text")
    sites = (site,) if isinstance(site, str) else site
    steps = tuple(Step(page, Action("scroll", text="down")) for _ in z[1:])
    return Trajectory(Task(task, sites, "Do it", "/", {}, template), steps, page, z, succeeded, end)


# --- success rates -------------------------------------------------------------------------------------------------


def test_success_by_site():
    episodes = [
        episode(True, site="map"),
        episode(False, site="forum"),
        episode(True, site="forum"),
        episode(False, site=("map", "wiki")),
        episode(True, site="forum"),
    ]
    sites = success_by_site(episodes)
    assert list(sites) == ["forum", "map", "multi-site"]
    assert sites["forum"].outcomes == (False, True, True) and sites["forum"].rate == 2 / 3
    assert (sites["map"].rate, sites["multi-site"].rate) == (1.0, 0.0)
    assert success(episodes).rate == 3 / 5


def test_environment_failures_are_counted_apart():
    # 1 of 2, not 1 of 3: the third episode says nothing about the agent.
    result = success([episode(True), episode(False), episode(False, end="environment_failure")])
    assert (result.rate, result.environment_failures) == (0.5, 1)
    assert attempts_by_task([episode(True), episode(False, end="environment_failure")]) == {"1": (1, 1)}


def test_no_rate_without_episodes():
    assert math.isnan(success([]).rate)
    spoilt = success_by_site([episode(False, end="environment_failure")])["forum"]
    assert math.isnan(spoilt.rate) and spoilt.environment_failures == 1


def test_templates_that_the_pool_does_not_have_are_reported_apart():
    # 3 of 4 in all; of the held-out templates 1 of 2, the third of them being the environment's failure.
    held_out = sorted(HELD_OUT)[:2]
    episodes = [
        episode(True, template="forum/create_post"),
        episode(True),
        episode(True, template=held_out[0]),
        episode(False, template=held_out[1]),
        episode(False, template=held_out[1], end="environment_failure"),
    ]
    found = summary(episodes)
    assert (found["success"], found["held_out_templates"]["success"]) == (3 / 4, 1 / 2)
    assert found["held_out_templates"]["interval"] == bootstrap_interval([1, 0])
    assert "held_out_templates" not in summary(episodes[:2])


# --- pass@k --------------------------------------------------------------------------------------------------------


def test_pass_at_k_by_hand():
    # n = 4, c = 1, k = 2: 1 - C(3, 2)/C(4, 2) = 1 - 3/6.   n = 5, c = 2, k = 3: 1 - C(3, 3)/C(5, 3) = 1 - 1/10.
    assert pass_at_k(4, 1, 2) == pytest.approx(0.5)
    assert pass_at_k(5, 2, 3) == pytest.approx(0.9)


@pytest.mark.parametrize("n, c", [(n, c) for n in range(1, 7) for c in range(n + 1)])
def test_pass_at_k_is_the_share_of_draws_with_a_success(n, c):
    for k in range(1, n + 1):
        draws = list(itertools.combinations([True] * c + [False] * (n - c), k))
        assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_limits():
    assert pass_at_k(8, 3, 1) == pytest.approx(3 / 8)  # k = 1 is the plain rate
    assert pass_at_k(8, 0, 8) == 0 and pass_at_k(8, 1, 8) == 1 and pass_at_k(8, 8, 1) == 1


def test_too_few_attempts_is_no_answer():
    assert math.isnan(pass_at_k(2, 0, 5)) and math.isnan(pass_at_k(1, 1, 8)) and math.isnan(pass_at_k(0, 0, 1))


def test_pass_at_k_with_many_attempts():
    # C(5000, 100) has more digits than a float holds.  With c = 1 the chance is k/n.
    assert pass_at_k(5000, 1, 100) == pytest.approx(100 / 5000)
    assert pass_at_k(5000, 2500, 1) == pytest.approx(0.5)
    assert 0 < 1 - pass_at_k(5000, 2500, 20) < 1e-5  # near 2^-20


def test_pass_at_k_of_several_tasks():
    np.testing.assert_allclose(pass_at_k(np.array([4, 5, 1]), np.array([1, 2, 1]), 2), [0.5, 0.7, np.nan])


@pytest.mark.parametrize("n, c, k", [(4, 5, 1), (4, -1, 1), (-1, 0, 1), (4, 1, 0), (4.0, 1, 2), (4, 0.5, 2)])
def test_impossible_counts_are_refused(n, c, k):
    with pytest.raises(ValueError, match="expected"):
        pass_at_k(n, c, k)


def test_average_pass_at_k_with_unequal_attempts():
    # pass@2: 0.5 for (4, 1), 0 for (3, 0), none for (1, 1), which is left out: (0.5 + 0)/2 over 2 tasks.
    assert average_pass_at_k([4, 3, 1], [1, 0, 1], 2) == (pytest.approx(0.25), 2)
    average, tasks = average_pass_at_k([1], [1], 8)  # one greedy run says nothing about eight
    assert math.isnan(average) and tasks == 0
    assert average_pass_at_k([], [], 1)[1] == 0


# --- bootstrap -----------------------------------------------------------------------------------------------------


def test_interval_agrees_with_the_normal_approximation():
    # 66 of 165: 0.4 +- 1.96 sqrt(0.4 * 0.6/165) = 0.4 +- 0.0748
    low, high = bootstrap_interval([1] * 66 + [0] * 99)
    assert low == pytest.approx(0.4 - 0.0748, abs=0.008) and high == pytest.approx(0.4 + 0.0748, abs=0.008)


def test_interval_is_reproducible_and_wider_with_confidence():
    outcomes = [1] * 10 + [0] * 20
    assert bootstrap_interval(outcomes) == bootstrap_interval(outcomes)
    low, high = bootstrap_interval(outcomes, confidence=0.8)
    wide_low, wide_high = bootstrap_interval(outcomes, confidence=0.99)
    assert wide_low < low < 1 / 3 < high < wide_high


def test_repeating_every_outcome_within_its_cluster_tells_nothing_new():
    outcomes, tasks = [1] * 10 + [0] * 20, list(range(30))
    once = bootstrap_interval(outcomes)
    low, high = bootstrap_interval(outcomes * 5, clusters=tasks * 5)
    assert (low, high) == pytest.approx(once)
    naive_low, naive_high = bootstrap_interval(outcomes * 5)
    assert naive_high - naive_low < 0.6 * (high - low)


def test_all_alike_is_not_certainty():
    # 0 of 10: the rate p at which ten failures in a row have chance 0.025, (1 - p)^10 = 0.025, p = 0.3085.
    assert bootstrap_interval([0] * 10) == (0.0, pytest.approx(0.3085, abs=1e-4))
    assert bootstrap_interval([1] * 10) == (pytest.approx(0.6915, abs=1e-4), 1.0)
    assert bootstrap_interval([False] * 10, clusters=[0, 1] * 5)[1] == pytest.approx(1 - math.sqrt(0.025))
    assert bootstrap_interval([0.5] * 10) == (0.5, 0.5)  # not a rate: the plain bootstrap


def test_intervals_of_nothing_and_of_nonsense():
    assert all(map(math.isnan, bootstrap_interval([])))
    with pytest.raises(ValueError, match="finite"):
        bootstrap_interval([1, math.nan])
    with pytest.raises(ValueError, match="confidence"):
        bootstrap_interval([1, 0], confidence=95)
    with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
        bootstrap_interval([1, 0], clusters=[1, 2, 3])


# --- the sub-goal map ----------------------------------------------------------------------------------------------


def test_subgoal_map_by_hand():
    # K = 2, T = 4.  First: counts 0 0 1 1 2 at t = 0 … 4; second: 0 1 1 1 1 (undone later, but latched).
    # bins = 3 looks at t = 0, 2, 4: counts (0, 1, 2) and (0, 1, 1).
    first = episode(True, z=((0, 0), (0, 0), (1, 0), (1, 0), (1, 1)))
    second = episode(False, z=((0, 0), (0, 1), (0, 0), (0, 0), (0, 0)))
    spoilt = episode(False, z=((0, 0), (0, 0)), end="environment_failure")
    expected = [[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]]
    np.testing.assert_allclose(subgoal_completion_map([first, second, spoilt], bins=3), expected)
    np.testing.assert_allclose(subgoal_completion_map([first, second], bins=1), expected[-1:])


def test_subgoal_map_rows_sum_to_one_and_counts_only_grow():
    rng = np.random.default_rng(0)
    episodes = [episode(False, z=rng.random((rng.integers(1, 12), 4)) < 0.15) for _ in range(20)]
    shares = subgoal_completion_map(episodes, bins=7)
    assert shares.shape == (7, 5)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (np.diff(shares @ np.arange(5)) >= -1e-12).all()  # the mean count


def test_subgoal_map_needs_one_k():
    for episodes in ([], [episode(True, z=((0,),)), episode(True, z=((0, 0),))], [episode(True, z=((), ()))]):
        with pytest.raises(ValueError, match="K in"):
            subgoal_completion_map(episodes)


# --- runs side by side ---------------------------------------------------------------------------------------------


def test_a_gain_is_paired_by_task():
    # Task a is solved in both runs after and in none before, b in one run each time, c is missing from one run: +1 and 0.
    before = [{"a": False, "b": True, "c": True}, {"a": False, "b": False, "c": True}]
    after = [{"a": True, "b": False, "c": False}, {"a": True, "b": True}]
    gain, low, high = compare.difference(after, before)
    assert (gain, low, high) == (0.5, 0.0, 1.0)
    assert compare.difference(before, before) == (0.0, 0.0, 0.0)


def test_runs_are_compared_by_their_evaluation_episodes(tmp_path, capsys):
    # Two runs: 0 then 1 of 2 solved, and 1 then 2 of 2; another: 1 then 0 of 2, with an episode that the browser broke.
    solved = {"run": [[0, 0], [1, 0]], "run-1": [[1, 0], [1, 1]], "other": [[1, 0], [0, 0]]}
    for name, phases in solved.items():
        for phase, outcomes in enumerate(phases):
            played = [episode(bool(solved), task=str(task)) for task, solved in enumerate(outcomes)]
            append_trajectories(tmp_path / name / f"phase-{phase}" / "evaluation.jsonl", played)
    broken = episode(False, task="2", end="environment_failure")
    append_trajectories(tmp_path / "other" / "phase-1" / "evaluation.jsonl", [broken])
    runs = {name: str(tmp_path / name) for name in solved}
    compare.compare({"MiRA": [runs["run"], runs["run-1"]], "other": [runs["other"]]}, tmp_path / "figure.png")
    said = capsys.readouterr().out
    rows = {line[:16].strip(): line[16:].split() for line in said.splitlines()}
    assert (rows["run"], rows["run-1"], rows["MiRA, mean"]) == (["0.0%", "50.0%"], ["50.0%", "100.0%"], ["25.0%", "75.0%"])
    assert rows["other"] == ["50.0%", "0.0%"]
    assert "MiRA: phase 1 less phase 0: +50.0 points [+50.0, +50.0]" in said
    assert "phase 1: MiRA less other: +75.0 points [+50.0, +100.0]" in said
    assert (tmp_path / "figure.png").stat().st_size > 2000
    with pytest.raises(ValueError, match="evaluated phase"):
        compare.outcomes(tmp_path)


# --- figures -------------------------------------------------------------------------------------------------------

CURVES = {"MiRA": [(0.2, 0.1, 0.3), (0.4, 0.3, 0.5)], "baseline": [0.2, math.nan]}


@pytest.mark.parametrize(
    "draw, data",
    [
        (figures.success_by_phase, CURVES),
        (figures.success_by_phase, {"MiRA": [0.0]}),
        (figures.success_by_site, {site: CURVES for site in ("forum", "gitlab", "map", "shop")}),
        (figures.failure_modes, {"Phase 0": {"stuck_midway": 0.4, "other": 0.1}, "Phase 1": {"stuck_midway": 1.0}}),
        (figures.subgoal_maps, {"Phase 0": [[1, 0], [0.5, 0.5]], "Phase 6": np.eye(2)}),
    ],
)
def test_figures_are_drawn(draw, data, tmp_path):
    path = draw(data, tmp_path / "figures" / "figure.png")
    assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 2000


def test_labels_keep_their_order_and_their_distance():
    heights = [0.3, 0.31, 0.305, 0.9, 0.0]
    spread = figures._spread(heights, gap=0.1)
    assert np.argsort(spread).tolist() == np.argsort(heights).tolist()
    assert np.diff(sorted(spread)).min() >= 0.1 - 1e-9

"""Table 1's rules on episodes small enough to classify by eye."""

import dataclasses
import math
import subprocess
import sys
from pathlib import Path

import pytest

from failure_analysis import (
    FailureMode,
    agent_failures,
    classify,
    common_subsequence,
    environment_failures,
    failure_distribution,
    key_decision_step,
    known_paths,
    loop_entry,
    periodic_tail,
)
from trajectory import Action, Observation, Step, Task, Trajectory, append_trajectories

TASK = Task("7", ("forum",), "Post in r/books", "/forum", {}, oracle=('click link "A"', 'click link "B"', 'stop ""'))


def episode(actions, pages=None, end=None, success=False, task=TASK):
    """An episode from one letter an action: "." stops, "?" is a reply that did not parse; pages differ unless given."""
    kinds = {".": Action("stop"), "?": Action("invalid", text="I think that I should")}
    pages = pages if pages is not None else [str(t) for t in range(len(actions) + 1)]
    seen = [Observation("t", "/" + page, page) for page in pages]
    chosen = [kinds.get(letter, Action("click", "link", letter)) for letter in actions]
    steps = [Step(observation, action) for observation, action in zip(seen, chosen)]
    end = end or ("stopped" if actions.endswith(".") else "step_limit")
    last = seen[len(actions)] if len(seen) > len(actions) else Observation("t", "/end", "end")
    return Trajectory(task, steps, last, [[False]] * (len(steps) + 1), success, end)


@pytest.mark.parametrize(
    "actions, pages, mode",
    [
        ("abccc", None, FailureMode.STUCK_MIDWAY),  # N = 3 identical last actions, though the pages differ
        ("abcc", None, FailureMode.OTHERS),  # two are a retry
        ("abababab", "pqpqpqpqp", FailureMode.STUCK_MIDWAY),  # two pages to and fro, more than M = 3 rounds
        ("ababab", None, FailureMode.OTHERS),  # the same actions on ever new pages are progress
        ("abab", "pqpqp", FailureMode.OTHERS),  # two rounds only
        ("xaaa.", "xpppp", FailureMode.STUCK_MIDWAY),  # gave up after a loop: stuck has priority over termination
        ("xaaa.", None, FailureMode.WRONG_TERMINATION),  # "Next" three times, then an answer
        ("aaabcd.", "ppppqrs", FailureMode.WRONG_TERMINATION),  # a loop that it left again
        ("ab.", None, FailureMode.WRONG_TERMINATION),
        ("a.", None, FailureMode.FAIL_ATTEMPT),
        (".", None, FailureMode.FAIL_ATTEMPT),
        ("", None, FailureMode.FAIL_ATTEMPT),
        ("?.", None, FailureMode.FAIL_ATTEMPT),  # a reply that does not parse is no action on the page
        ("???", None, FailureMode.STUCK_MIDWAY),  # the priority order decides: three identical actions
        ("abcdefghijklmno", None, FailureMode.OTHERS),  # step limit, nothing repeated
    ],
)
def test_table_1(actions, pages, mode):
    assert classify(episode(actions, pages)) is mode


def test_priority_order_is_table_1s():
    assert [mode.value for mode in FailureMode] == ["Stuck Midway", "Wrong Termination", "Fail Attempt", "Others"]


def test_only_the_agents_failures_have_a_mode():
    with pytest.raises(ValueError, match="got a success"):
        classify(episode("ab.", success=True))
    with pytest.raises(ValueError, match="got an environment failure"):
        classify(episode("ab", end="environment_failure"))
    with pytest.raises(ValueError, match="got a success"):
        key_decision_step(episode("ab.", success=True), [])


@pytest.mark.parametrize(
    "actions, pages, entry",
    [
        ("abccc", None, 2),
        ("abxyxyxy", "01pqpqpqp", 2),
        ("abxyxyxyx", "01pqpqpqpq", 2),  # the step limit cuts the fourth round short
        ("abxyxyxy.", "01pqpqpqp", 2),
        ("ccc", None, 0),
        ("abcdeabcdeabcde", "pqrstpqrstpqrstp", 0),  # the longest loop we look for: 5 steps, 3 rounds
        ("abcdefabcdefabcdef", "pqrstupqrstupqrstup", None),  # 6 steps are not short
        ("xcccyz", None, None),  # left again
        ("", None, None),
    ],
)
def test_loop_entry(actions, pages, entry):
    assert loop_entry(episode(actions, pages)) == entry


@pytest.mark.parametrize(
    "failed, references, step",
    [
        ("abxy.", ["abcd."], 2),  # a b | x instead of c
        ("ab.", ["abcd."], 2),  # stopped too early: the stop is the mistake
        ("xbc.", ["abc."], 0),
        ("abxcy", ["abcd."], 4),  # x is a detour that comes back to c; y is where d was due
        ("axbc.", ["abc."], 1),  # all of the reference was done: the additional x is what differs
        ("abxy.", ["abcd.", "abxe."], 3),  # x is on another golden path, so only y leaves every one
        ("abxy.", [], None),
        ("ab.", ["ab."], None),  # same actions, another outcome: the actions cannot tell why
        ("ab", ["abcd."], None),  # on the path when the steps ran out
    ],
)
def test_key_decision_step(failed, references, step):
    assert key_decision_step(episode(failed), [episode(r, success=True) for r in references]) == step


def test_a_stuck_episode_was_lost_where_it_entered_its_loop():
    assert key_decision_step(episode("abccc"), [episode("xy.", success=True)]) == 2
    assert key_decision_step(episode("abccc"), []) == 2


def test_references_may_be_a_teachers_actions_and_must_be_successes_on_the_task():
    failed = episode("Ax.")
    assert key_decision_step(failed, known_paths(failed, [])) == 1  # the oracle is A, B, stop
    with pytest.raises(ValueError, match="got a failure on 7"):
        key_decision_step(failed, [episode("AB.")])
    other = Task("8", ("forum",), "Another", "/forum", {})
    with pytest.raises(ValueError, match="got a success on 8"):
        key_decision_step(failed, [episode("AB.", success=True, task=other)])


def test_common_subsequence_is_common_and_longest():
    a, b = "xaybzcab", "abcab"
    pairs = common_subsequence(a, b)
    assert all(a[i] == b[j] for i, j in pairs) and pairs == sorted(pairs)
    assert len(pairs) == 5  # a . b . c a b holds all of b
    assert common_subsequence("abc", "abc") == [(0, 0), (1, 1), (2, 2)]
    assert common_subsequence("abc", "") == []


def test_periodic_tail_limits():
    assert periodic_tail("", 1) == 0
    assert periodic_tail("aaaa", 1) == 4
    assert periodic_tail("ab", 5) == 2  # shorter than one round


def test_distribution_counts_the_agents_failures_only():
    episodes = [
        episode("abccc"),
        episode("xyyy"),
        episode("ab."),
        episode("."),
        episode("ab.", success=True),
        episode("ab", end="environment_failure"),
    ]
    shares = failure_distribution(episodes)
    assert list(shares.values()) == [2 / 4, 1 / 4, 1 / 4, 0]  # of 4 failures: 2 stuck, 1 terminated wrongly, 1 attempt
    assert list(shares) == list(FailureMode)
    assert environment_failures(episodes) == 1
    assert len(agent_failures(episodes)) == 4


def test_distribution_of_nothing_is_undefined():
    assert all(math.isnan(share) for share in failure_distribution([episode("ab.", success=True)]).values())


def command_line(*files):
    script = Path(__file__).parent.parent / "failure_analysis.py"
    return subprocess.run([sys.executable, script, *files], capture_output=True, text=True)


def test_command_line(tmp_path):
    file = tmp_path / "trajectories.jsonl"
    append_trajectories(file, [episode("abccc"), episode("Ax."), episode("AB.", success=True)])
    done = command_line(file)
    assert done.returncode == 0
    assert "3 episodes, 2 failed by the agent, 0 by the environment\n" in done.stdout
    assert "Stuck Midway           1   50.0%" in done.stdout
    lost = {line.split()[-4]: line for line in done.stdout.splitlines() if 'click link "' in line}  # by the key step
    assert list(lost) == ["2", "1"] and lost["1"].endswith('click link "x"')  # the oracle is A, B, stop


def test_successes_in_the_files_show_where_a_task_without_an_oracle_was_lost(tmp_path):
    own = dataclasses.replace(TASK, oracle=())
    append_trajectories(tmp_path / "failed", [episode("AxB.", task=own)])
    append_trajectories(tmp_path / "solved", [episode("AB.", success=True, task=own)])
    alone, together = command_line(tmp_path / "failed").stdout, command_line(tmp_path / "failed", tmp_path / "solved").stdout
    assert alone.splitlines()[-1].split()[-2:] == ["4", "-"]
    assert together.splitlines()[-1].split()[-4:] == ["1", "click", "link", '"x"']


def test_an_episode_that_nothing_judged_is_no_failure(tmp_path):
    own = dataclasses.replace(TASK, eval={"eval_types": []})
    append_trajectories(tmp_path / "unjudged.jsonl", [episode("ab.", task=own), episode("a", task=own, end="environment_failure")])
    assert "2 episodes, 0 failed by the agent, 1 by the environment, 1 without a verdict" in command_line(tmp_path / "unjudged.jsonl").stdout


@pytest.mark.parametrize("content, said", [(None, "No such file"), ('{"task": 1}\n', "line 1: not a trajectory")])
def test_a_file_that_is_none_of_trajectories_is_named_in_one_line(tmp_path, content, said):
    if content:
        (tmp_path / "file").write_text(content)
    done = command_line(tmp_path / "file")
    assert done.returncode == 2 and said in done.stderr and str(tmp_path / "file") in done.stderr and "Traceback" not in done.stderr

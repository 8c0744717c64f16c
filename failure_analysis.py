"""Why did an episode fail, and at which step was it lost?  (Section 4)

The analyser has three functions, and so has this file:

1. the outcome is taken from the environment's verdict, never from what the agent says of itself (`Trajectory.success`);
2. Table 1's rules name the failure mode (`classify`), tried in the order of `FailureMode`: the first that fits wins;
3. the key decision step is found by comparison (`key_decision_step`): where a run that is stuck entered its loop, and
   otherwise where it left every known way to succeed for good.

Run it on any file of trajectories:  ``python failure_analysis.py runs/demo/trajectories.jsonl``

Where the paper is silent.  It gives no N and M for its loop rule, and no length for a "very short" attempt: see the
constants.  It calls the four modes mutually exclusive, yet an agent that stops at once both "terminates wrongly" and
"makes no attempt"; we count it as the second, or that mode would always be empty.  An episode that ran into the step
limit on a path that never repeats is Others: Table 1's evidence of being stuck is repetition, and this has none.
"""

from __future__ import annotations

import argparse
import enum
import math
from collections import Counter
from typing import Hashable, Iterable, Sequence

from trajectory import Action, Trajectory, format_action, parse_action, read_trajectories

# Table 1's N.  Twice is a retry after a slow page; three times in a row, as an episode's last actions, is no longer one.
IDENTICAL_ACTIONS = 3
# Table 1's M.  Going somewhere and back once is exploring; the third round has learned nothing from the first two.
LOOP_ROUNDS = 3
# "Short" sequence.  Three rounds of five steps fill the whole horizon of 15 that appendix A.7 implies.
LONGEST_LOOP = 5
# Fewer actions on the page than this is no attempt.  No task of four milestones is solved by one action, so an agent
# that stops after it has not tried; with two it has at least looked and acted.
SHORTEST_ATTEMPT = 2


class FailureMode(enum.Enum):
    """Table 1's modes, in the order in which the rules are tried."""

    STUCK_MIDWAY = "Stuck Midway"
    WRONG_TERMINATION = "Wrong Termination"
    FAIL_ATTEMPT = "Fail Attempt"
    OTHERS = "Others"


def classify(trajectory: Trajectory) -> FailureMode:
    """The failure mode of a failed episode: the first of Table 1's rules that fits.

    Stuck Midway       it ends in a loop, whether the step limit or a resigned stop then ended it (`loop_entry`)
    Wrong Termination  the agent stopped by itself after a real attempt, and the outcome check says no
    Fail Attempt       fewer than `SHORTEST_ATTEMPT` actions on the page: it stopped at once, or wrote nothing valid
    Others             everything else, such as a step limit reached without repeating

    Raises ``ValueError`` for a success, and for an environment failure, which says nothing about the agent.
    """
    _expect_failure(trajectory)
    if loop_entry(trajectory) is not None:
        return FailureMode.STUCK_MIDWAY
    attempted = sum(action.kind not in ("stop", "invalid") for action in trajectory.actions) >= SHORTEST_ATTEMPT
    if trajectory.end == "stopped" and attempted:
        return FailureMode.WRONG_TERMINATION
    return FailureMode.OTHERS if attempted else FailureMode.FAIL_ATTEMPT


def _expect_failure(trajectory: Trajectory) -> None:
    if trajectory.success or trajectory.end == "environment_failure":
        got = "a success" if trajectory.success else "an environment failure"
        raise ValueError(f"task {trajectory.task.task_id}: expected an episode that the agent failed, got {got}")


# --- loops ------------------------------------------------------------------------------------------------------


def loop_entry(trajectory: Trajectory) -> int | None:
    """The first step of the loop that the episode ends in, or None.  Table 1's two signs of it:

    * the last N actions are identical, whatever the pages showed;
    * a short sequence of (state, action) pairs, up to `LONGEST_LOOP` long, makes up the last M rounds or more.

    A stop at the very end is set aside for the second sign: who goes in circles and then gives up was stuck.  Not for
    the first: paging through three result pages and then answering is work.  A loop that was left again is none.
    """
    steps = trajectory.steps
    actions = [step.action for step in steps]
    pairs = [(step.observation.url, step.observation.text, step.action) for step in steps]
    if trajectory.end == "stopped" and actions and actions[-1].kind == "stop":
        pairs.pop()
    tails = [periodic_tail(actions, 1)] if periodic_tail(actions, 1) >= IDENTICAL_ACTIONS else []
    entries = [len(actions) - length for length in tails]
    for period in range(1, LONGEST_LOOP + 1):
        length = periodic_tail(pairs, period)
        if length >= LOOP_ROUNDS * period:
            entries.append(len(pairs) - length)
    return min(entries, default=None)


def periodic_tail(sequence: Sequence[Hashable], period: int) -> int:
    """The length of the longest ending of `sequence` in which each item equals the one `period` places later.

    The last round may be cut off, as a step limit does.

    >>> periodic_tail("xyababa", 2)
    5
    >>> periodic_tail("xyababa", 1)
    1
    """
    start = max(len(sequence) - period, 0)
    while start > 0 and sequence[start - 1] == sequence[start - 1 + period]:
        start -= 1
    return len(sequence) - start


# --- the key decision step --------------------------------------------------------------------------------------


def key_decision_step(failed: Trajectory, references: Iterable[Trajectory | Sequence[Action]]) -> int | None:
    """The step at which a failed episode was lost: the first significant divergence (section 4, Figure 2).

    failed       a failed episode
    references   successes on the same task: other agents' episodes, or a teacher's demonstration as a list of actions

    A stuck episode was lost where it entered its loop.  Any other is aligned with each reference by their longest
    common subsequence, so that a harmless detour which comes back to the path is no divergence: the run leaves a
    reference where it first skips one of its actions, or, having done them all, at its first additional one.  A step
    is only a mistake if it leaves *every* known path, so the latest of these counts.

    None where nothing can be said: no reference, no divergence, or a good path cut off by the step limit.  Raises
    ``ValueError`` when `failed` is not the agent's failure, or a reference is no success on the same task.
    """
    _expect_failure(failed)
    paths = [_successful_actions(reference, failed) for reference in references]
    entry = loop_entry(failed)
    if entry is not None:
        return entry
    divergences = [_divergence(failed.actions, path) for path in paths]
    if not divergences or max(divergences) >= len(failed.actions):
        return None
    return max(divergences)


def _successful_actions(reference: Trajectory | Sequence[Action], failed: Trajectory) -> list[Action]:
    if not isinstance(reference, Trajectory):
        return list(reference)
    if not reference.success or reference.task.task_id != failed.task.task_id:
        outcome = "success" if reference.success else "failure"
        raise ValueError(
            f"expected references that succeed on task {failed.task.task_id}, got a {outcome} on {reference.task.task_id}"
        )
    return reference.actions


def _divergence(actions: Sequence[Action], reference: Sequence[Action]) -> int:
    """The step of `actions` that leaves `reference`; len(actions) where none does."""
    matched = common_subsequence(actions, reference)
    followed = 0  # matches before the first action of the reference that was skipped
    while followed < len(matched) and matched[followed][1] == followed:
        followed += 1
    if followed < len(reference):
        return matched[followed - 1][0] + 1 if followed else 0
    mine = {i for i, _ in matched}
    return next((i for i in range(len(actions)) if i not in mine), len(actions))


def common_subsequence(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Index pairs of a longest common subsequence of `a` and `b`, matched as early as possible.

    >>> common_subsequence("abxc", "abcd")
    [(0, 0), (1, 1), (3, 2)]
    """
    length = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]  # length[i][j]: of the endings a[i:], b[j:]
    for i in reversed(range(len(a))):
        for j in reversed(range(len(b))):
            longest = max(length[i + 1][j], length[i][j + 1])
            length[i][j] = length[i + 1][j + 1] + 1 if a[i] == b[j] else longest
    pairs, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif length[i + 1][j] >= length[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


# --- many episodes ----------------------------------------------------------------------------------------------


def agent_failures(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """The episodes that the agent failed: neither successes, nor environment failures, nor without a verdict."""
    return [t for t in trajectories if not t.success and t.end != "environment_failure" and not unjudged(t)]


def unjudged(trajectory: Trajectory) -> bool:
    """Whether nothing judged the outcome, as on a person's own site: it is neither a success nor a failure."""
    return trajectory.task.eval.get("eval_types") == []


def environment_failures(trajectories: Iterable[Trajectory]) -> int:
    """How many episodes the environment broke.  They belong to no mode and are reported beside the distribution."""
    return sum(t.end == "environment_failure" for t in trajectories)


def failure_distribution(trajectories: Iterable[Trajectory]) -> dict[FailureMode, float]:
    """Each mode's share of the agent's failures, in priority order; the shares sum to 1 (Figures 3 and 13, Table 4).

    Successes and environment failures are left out.  NaN throughout where the agent failed nothing.
    """
    counts = Counter(classify(trajectory) for trajectory in agent_failures(trajectories))
    failures = counts.total()
    return {mode: counts[mode] / failures if failures else math.nan for mode in FailureMode}


def main() -> None:
    parser = argparse.ArgumentParser(description="Name the failures in files of trajectories, and where they began.")
    parser.add_argument("files", nargs="+", help="JSON Lines, one trajectory a line")
    try:
        trajectories = [t for file in parser.parse_args().files for t in read_trajectories(file)]
    except (OSError, ValueError) as error:  # no such file, or a line that is no trajectory
        parser.error(str(error))
    failures = agent_failures(trajectories)
    broken = environment_failures(trajectories)
    open_ = sum(unjudged(t) and t.end != "environment_failure" for t in trajectories)
    rest = f", {open_} without a verdict" if open_ else ""
    print(f"{len(trajectories)} episodes, {len(failures)} failed by the agent, {broken} by the environment{rest}\n")
    counts = Counter(map(classify, failures))
    for mode, share in failure_distribution(trajectories).items():
        print(f"{mode.value:18} {counts[mode]:5}  {share:6.1%}" if failures else f"{mode.value:18} {0:5}       -")
    if failures:
        print(f"\n{'task':16} {'mode':18} {'steps':>5} {'key':>4}  action at the key step")
    for failed in failures:
        step = key_decision_step(failed, known_paths(failed, trajectories))
        action = "" if step is None else format_action(failed.actions[step])
        key = "-" if step is None else step
        print(f"{failed.task.task_id:16} {classify(failed).value:18} {len(failed.steps):5} {key:>4}  {action}")


def known_paths(failed: Trajectory, trajectories: Iterable[Trajectory]) -> list[Trajectory | list[Action]]:
    """What is known to solve the task: its oracle, where it has one, and the successes on it among `trajectories`."""
    oracle = [[parse_action(line) for line in failed.task.oracle]] if failed.task.oracle else []
    return oracle + [t for t in trajectories if t.success and t.task.task_id == failed.task.task_id]


if __name__ == "__main__":
    main()

"""What is an episode?  The records that every other module reads and writes.  (Section 3)

An episode with T actions visits T+1 states s_0 … s_T.  The whole project follows one convention:

* per-state arrays are ``[T+1]``: potential, value, progress label, z (``[T+1, K]``);
* per-action arrays are ``[T]``: reward, advantage, log-probability.

The state is the paper's s_t = [a_1 … a_{t-1}, o_t]: earlier *actions*, not earlier pages, and the current
observation.  So a trajectory keeps its final observation too: P(s_T) needs it.

Records are plain frozen dataclasses and go to disk as JSON Lines, one trajectory a line, so that a file can be
read with any tool and nothing has to be unpickled.  Standard library only.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Iterator

# Which arguments each kind of action takes, in the order in which they are written.
ACTION_ARGUMENTS = {
    "click": ("role", "name"),
    "hover": ("role", "name"),
    "type": ("role", "name", "text"),
    "select": ("role", "name", "text"),
    "press": ("text",),
    "scroll": ("direction",),
    "go_back": (),
    "goto": ("text",),
    "stop": ("text",),
}
ENDS = ("stopped", "step_limit", "environment_failure")


@dataclass(frozen=True)
class Action:
    """One action of the agent: a control named by role and accessible name, and what to do with it.

    kind       a key of ``ACTION_ARGUMENTS``, or "invalid" for a reply that could not be parsed
    role       the control's ARIA role ("link", "button", "textbox", …); empty where the kind takes none
    name       the control's accessible name as the observation shows it
    nth        1 for the first control of that role and name on the page, 2 for the second, …
    text       what is typed, selected, pressed, visited or answered; the direction of a scroll
    """

    kind: str
    role: str = ""
    name: str = ""
    nth: int = 1
    text: str = ""

    def __str__(self) -> str:
        return format_action(self)


def quote(text: str) -> str:
    """`text` between double quotes on one line: JSON's escapes, so that any string survives the round trip."""
    return json.dumps(text, ensure_ascii=False)


def format_action(action: Action) -> str:
    """The line a model writes for `action`; ``parse_action`` is its inverse.

    >>> format_action(Action("type", "textbox", "Title", text="Broken build"))
    'type textbox "Title" "Broken build"'
    >>> format_action(Action("click", "link", "Edit", nth=2))
    'click link "Edit" #2'
    """
    if action.kind == "invalid":
        return action.text
    words = [action.kind]
    for argument in ACTION_ARGUMENTS[action.kind]:
        if argument in ("role", "direction"):
            words.append(action.role if argument == "role" else action.text)
        else:
            words.append(quote(getattr(action, argument)))
        if argument == "name" and action.nth != 1:
            words.append(f"#{action.nth}")
    return " ".join(words)


_STRING = r'"(?:[^"\\\n]|\\.)*"'
_PATTERNS = {
    kind: re.compile(
        r"\s+".join(
            [kind]
            + [
                {"role": r"(?P<role>[a-z]+)", "direction": r"(?P<text>up|down)"}.get(a)
                or (rf"(?P<name>{_STRING})(?:\s+#(?P<nth>[1-9]\d*))?" if a == "name" else rf"(?P<text>{_STRING})")
                for a in arguments
            ]
        )
    )
    for kind, arguments in ACTION_ARGUMENTS.items()
}


def parse_action(reply: str) -> Action:
    """The action in a model's reply: the last line of it that is an action, so that reasoning may come before.

    Raises ``ValueError`` that quotes the reply when no line is an action.
    """
    for line in reversed(reply.split("\n")):  # not `splitlines`: a quoted text may hold one of Unicode's other line breaks
        line = line.strip().strip("`").strip()
        kind = re.split(r"\s", line, maxsplit=1)[0]
        match = _PATTERNS[kind].fullmatch(line) if kind in _PATTERNS else None
        if match:
            found = {key: value for key, value in match.groupdict().items() if value is not None}
            try:
                return Action(
                    kind,
                    role=found.get("role", ""),
                    name=_unquote(found.get("name", "")),
                    nth=int(found.get("nth", 1)),
                    text=_unquote(found.get("text", "")),
                )
            except (json.JSONDecodeError, UnicodeEncodeError):  # an escape that JSON does not have, or half a character
                continue
    raise ValueError(f"expected an action such as 'click link \"New issue\"', got {reply[:200]!r}")


def _unquote(text: str) -> str:
    text = json.loads(text) if text.startswith('"') else text
    text.encode()  # "\ud83d" alone is no text: it could neither be stored nor typed
    return text


@dataclass(frozen=True)
class Observation:
    """What the agent sees of a page: compact text, one line a block, controls named by role and name.

    title, url  of the active page; url is the path on a bundled site, the whole URL elsewhere
    text        the page's visible text and controls in reading order
    error       why the last action could not be carried out, or what a dialog said; "" when all went well
    """

    title: str
    url: str
    text: str
    error: str = ""


def as_text(observation: Observation) -> str:
    """An observation as the agent reads it: title, address, the last action's error, then the page."""
    error = f"! {' '.join(observation.error.split())}\n" if observation.error else ""
    return f"{' '.join(observation.title.split())}\n{observation.url}\n{error}{observation.text}"


@dataclass(frozen=True)
class Task:
    """One task, in WebArena's own JSON fields, with what PocketArena adds.

    sites, task_id, intent, start_url, intent_template_id, eval   as in WebArena
    world            seed of the world that the bundled sites show for this task
    subgoals         K milestones in plain words, in the order in which they are expected
    subgoal_checks   K checks, one for each: {"path": regex, "page": [texts], "db": [[sql, *arguments], …]}
    oracle           actions that solve the task, as ``format_action`` writes them
    """

    task_id: str
    sites: tuple[str, ...]
    intent: str
    start_url: str
    eval: dict
    intent_template_id: str = ""
    world: int = 0
    subgoals: tuple[str, ...] = ()
    subgoal_checks: tuple[dict, ...] = ()
    oracle: tuple[str, ...] = ()

    def __post_init__(self):
        for name in ("sites", "subgoals", "subgoal_checks", "oracle"):
            object.__setattr__(self, name, tuple(getattr(self, name)))


@dataclass(frozen=True)
class Step:
    """One action and the observation it was chosen on.

    reply       what the policy wrote, before parsing
    token_ids   the reply's token ids as generated, end token included: log π is taken of these, never of re-encoded text
    log_prob    log π(a|s) at sampling, summed over `token_ids`, at temperature 1; None where the policy has none
    """

    observation: Observation
    action: Action
    reply: str = ""
    token_ids: tuple[int, ...] = ()
    log_prob: float | None = None

    def __post_init__(self):
        object.__setattr__(self, "token_ids", tuple(self.token_ids))


@dataclass(frozen=True)
class Trajectory:
    """One episode on one task.

    steps     T of them; steps[t] holds o_t and a_t
    final     o_T, the observation after the last action
    z         T+1 rows of K booleans: which sub-goal's check holds in state t.  As recorded, so not latched:
              ``milestoning.latch`` and ``progress_labels`` do that
    success   the evaluator's verdict
    end       one of ``ENDS``.  "environment_failure" is an outcome of its own, never a reward of 0
    answer    what the agent said when it stopped
    """

    task: Task
    steps: tuple[Step, ...]
    final: Observation
    z: tuple[tuple[bool, ...], ...]
    success: bool
    end: str
    answer: str = ""

    def __post_init__(self):
        object.__setattr__(self, "steps", tuple(self.steps))
        object.__setattr__(self, "z", tuple(tuple(bool(done) for done in row) for row in self.z))
        if self.end not in ENDS:
            raise ValueError(f"expected end to be one of {ENDS}, got {self.end!r}")
        if len(self.z) != len(self.steps) + 1:
            raise ValueError(f"expected z for {len(self.steps) + 1} states, got {len(self.z)}")

    @property
    def actions(self) -> list[Action]:
        return [step.action for step in self.steps]

    @property
    def observations(self) -> list[Observation]:
        """o_0 … o_T."""
        return [step.observation for step in self.steps] + [self.final]

    @property
    def rewards(self) -> list[float]:
        """[T]: r_t = 1 on the action that ends a successful episode, else 0 (section 3.1)."""
        return [0.0] * (len(self.steps) - 1) + [float(self.success)] if self.steps else []


# --- JSON Lines -------------------------------------------------------------------------------------------------


def task_from_json(record: dict) -> Task:
    """A `Task` from one entry of a task file; fields of WebArena's that we do not use are ignored."""
    known = {field.name for field in dataclasses.fields(Task)}
    values = {key: value for key, value in record.items() if key in known}
    missing = {"task_id", "sites", "intent", "start_url", "eval"} - values.keys()
    if missing:
        raise ValueError(f"task {record.get('task_id', '?')}: missing {', '.join(sorted(missing))}")
    values["task_id"] = str(values["task_id"])
    values["intent_template_id"] = str(values.get("intent_template_id", ""))
    return Task(**values)


def trajectory_to_json(trajectory: Trajectory) -> dict:
    return dataclasses.asdict(trajectory)


def trajectory_from_json(record: dict) -> Trajectory:
    steps = [
        Step(**{**step, "observation": Observation(**step["observation"]), "action": Action(**step["action"])})
        for step in record["steps"]
    ]
    values = {**record, "task": task_from_json(record["task"]), "steps": steps, "final": Observation(**record["final"])}
    return Trajectory(**values)


def append_trajectories(path: str | Path, trajectories: Iterable[Trajectory]) -> None:
    """Append to a JSON Lines file.  A last line torn by a crash is cut off first, so no record is ever glued to it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+") as file:
        _cut_torn_line(file)
        for trajectory in trajectories:
            line = json.dumps(trajectory_to_json(trajectory), ensure_ascii=False)
            file.write(line.encode("utf-8", "surrogatepass") + b"\n")  # an endpoint may send half a character
        file.flush()
        os.fsync(file.fileno())


def _cut_torn_line(file) -> None:
    file.seek(0)
    content = file.read()
    if content and not content.endswith(b"\n"):
        file.truncate(content.rfind(b"\n") + 1)
    file.seek(0, os.SEEK_END)


def read_trajectories(path: str | Path) -> Iterator[Trajectory]:
    """The trajectories of a JSON Lines file.

    A torn last line (a run killed while writing) is skipped; a broken line before it is a ``ValueError`` with its number.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                yield trajectory_from_json(json.loads(line))
            except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {number}: not a trajectory ({error})") from error

"""Records of episodes: the action language and its inverse, shapes, and files that survive a crash."""

import dataclasses
import json

import pytest

from trajectory import (
    ACTION_ARGUMENTS,
    Action,
    Observation,
    Step,
    Task,
    Trajectory,
    append_trajectories,
    as_text,
    format_action,
    parse_action,
    read_trajectories,
    task_from_json,
    trajectory_from_json,
    trajectory_to_json,
)

# --- actions ----------------------------------------------------------------------------------------------------

CANONICAL = {
    'click link "New issue"': Action("click", "link", "New issue"),
    'click button "Save" #3': Action("click", "button", "Save", 3),
    'hover button "Menu"': Action("hover", "button", "Menu"),
    'type textbox "Title" "Broken build"': Action("type", "textbox", "Title", text="Broken build"),
    'type textbox "Name" #2 ""': Action("type", "textbox", "Name", 2, ""),
    'select combobox "Priority" "High"': Action("select", "combobox", "Priority", text="High"),
    'press "Enter"': Action("press", text="Enter"),
    "scroll down": Action("scroll", text="down"),
    "scroll up": Action("scroll", text="up"),
    "go_back": Action("go_back"),
    'goto "/forum?sort=new"': Action("goto", text="/forum?sort=new"),
    'stop ""': Action("stop"),
    'stop "17.50"': Action("stop", text="17.50"),
}
AWKWARD = [
    "",
    " ",
    "it's",
    'say "hi"',
    "back\\slash",
    'ends in backslash\\',
    "#2",
    "a] b) c}",
    "two\nlines",
    "tab\tand\rreturn",
    "\\n is not a newline",
    'click link "x"',
    "naïve café – ¥€ 東京 🙂",
    "next line\x85and\u2028line\u2029separators\x0b\x0c\x1c",
    "zero\0byte",
    "`code`",
    "x" * 5000,
]


@pytest.mark.parametrize("line, action", CANONICAL.items())
def test_each_kind_is_written_and_read_as_documented(line, action):
    assert format_action(action) == str(action) == line
    assert parse_action(line) == action


def test_the_canonical_examples_cover_every_kind():
    assert {action.kind for action in CANONICAL.values()} == set(ACTION_ARGUMENTS)


@pytest.mark.parametrize("text", AWKWARD, ids=range(len(AWKWARD)))
def test_parse_inverts_format_for_any_text(text):
    for kind, arguments in ACTION_ARGUMENTS.items():
        if "direction" in arguments:
            continue
        role = "textbox" if "role" in arguments else ""
        for nth in (1, 2, 12) if "name" in arguments else (1,):
            action = Action(kind, role, text if "name" in arguments else "", nth, text if "text" in arguments else "")
            assert parse_action(format_action(action)) == action
            assert "\n" not in format_action(action)


@pytest.mark.parametrize(
    "reply, expected",
    [
        ('I could click link "A", but better:\nclick link "B"', Action("click", "link", "B")),
        ('click link "A"\nclick link "B"', Action("click", "link", "B")),  # the last one counts
        ('click link "A"\nThat opens the issue.', Action("click", "link", "A")),
        ('```\nclick link "A"\n```', Action("click", "link", "A")),
        ('`stop "3"`', Action("stop", text="3")),
        ('  press   "Enter"  \r\n', Action("press", text="Enter")),
        ('press\t"Enter"', Action("press", text="Enter")),
        ('type textbox "Title"   "caf\\u00e9"', Action("type", "textbox", "Title", text="café")),
    ],
)
def test_the_last_line_that_is_an_action_counts(reply, expected):
    assert parse_action(reply) == expected


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "\n\n",
        "click",
        "click link New",
        'click "New"',
        'click link "New" #0',
        'click link "New" "text"',
        'click link "New" and then stop',
        'Click link "New"',
        'type textbox "Title"',
        'stop "unclosed',
        'stop "ends in a backslash\\"',
        'stop "bad escape \\q"',
        'stop "half of a pair \\ud83d"',  # no text that can be stored or sent to a page
        "scroll left",
        "invalid",
        "go_back now",
    ],
)
def test_what_is_no_action_is_an_error_that_quotes_it(reply):
    with pytest.raises(ValueError, match="expected an action") as error:
        parse_action(reply)
    assert repr(reply[:200]) in str(error.value)


def test_a_failed_reply_is_written_as_it_was():
    assert format_action(Action("invalid", text="I do not know")) == "I do not know"


# --- records ----------------------------------------------------------------------------------------------------

TASK = Task(
    "gitlab-7",
    ["gitlab"],
    "Open the issue",
    "__GITLAB__",
    {"eval_types": ["url_match"], "reference_url": "__GITLAB__/x"},
    intent_template_id="gitlab/open",
    world=7,
    subgoals=["a", "b"],
    subgoal_checks=[{"path": "x"}, {"page": ["y"]}],
    oracle=['click link "x"', 'stop ""'],
)


def episode(name="done", *, success=True, end="stopped"):
    steps = [
        Step(Observation("Home", "/", 'link "x"'), Action("click", "link", "x"), 'click link "x"', [5, 6, 2], -0.25),
        Step(Observation("X – ü", "/x", "two\nlines", "an alert"), Action("stop", text=name)),
    ]
    return Trajectory(TASK, steps, Observation("X", "/x", name), [[0, 0], [1, 0], [1, 1]], success, end, name)


def test_an_episode_with_T_actions_has_T_plus_1_states():
    played = episode()
    assert len(played.actions) == len(played.rewards) == 2
    assert len(played.observations) == len(played.z) == 3
    assert played.observations[-1] is played.final
    assert [str(action) for action in played.actions] == ['click link "x"', 'stop "done"']
    with pytest.raises(ValueError, match="3 states, got 2"):
        dataclasses.replace(played, z=[[0, 0], [1, 1]])


def test_the_reward_is_one_on_the_last_action_of_a_success():
    assert episode().rewards == [0, 1]
    assert episode(success=False, end="step_limit").rewards == [0, 0]
    never_started = Trajectory(TASK, [], Observation("", "", ""), [[0, 0]], False, "environment_failure")
    assert never_started.rewards == [] and len(never_started.observations) == 1


def test_ends_are_named():
    with pytest.raises(ValueError, match="'crashed'"):
        episode(end="crashed")


def test_observation_as_text_keeps_its_own_lines_apart_from_the_page():
    assert as_text(Observation("T", "/p", "one\ntwo")) == "T\n/p\none\ntwo"
    forged = Observation("T\n/other", "/p", "page", "alert: ok\nlink \"x\"")
    assert as_text(forged) == 'T /other\n/p\n! alert: ok link "x"\npage'


def test_records_survive_json():
    for played in (episode(), episode("7", success=False, end="step_limit")):
        restored = trajectory_from_json(json.loads(json.dumps(trajectory_to_json(played))))
        assert restored == played
        assert type(restored.steps[0].token_ids) is tuple and type(restored.z[0][0]) is bool


def test_a_webarena_entry_is_read_and_its_other_fields_are_left():
    entry = {
        "sites": ["reddit"],
        "task_id": 27,
        "require_login": True,
        "storage_state": "./.auth/reddit_state.json",
        "start_url": "__REDDIT__",
        "geolocation": None,
        "intent_template": "Tell me {{what}}",
        "instantiation_dict": {"what": "how many"},
        "intent": "Tell me how many",
        "require_reset": False,
        "intent_template_id": 33,
        "eval": {"eval_types": ["string_match"], "reference_answers": {"exact_match": "1"}},
    }
    task = task_from_json(entry)
    assert (task.task_id, task.sites, task.intent_template_id) == ("27", ("reddit",), "33")
    assert task.subgoals == task.oracle == () and task.eval == entry["eval"]
    with pytest.raises(ValueError, match="task 27: missing eval, intent"):
        task_from_json({key: value for key, value in entry.items() if key not in ("eval", "intent")})


# --- files ------------------------------------------------------------------------------------------------------


def answers(path):
    return [played.answer for played in read_trajectories(path)]


def test_append_and_read(tmp_path):
    path = tmp_path / "made" / "on the way.jsonl"
    append_trajectories(path, [episode("a"), episode("b")])
    append_trajectories(path, [])
    append_trajectories(path, [episode("c – two\nlines \u2028 🙂")])
    assert list(read_trajectories(path))[:2] == [episode("a"), episode("b")]
    assert answers(path)[2] == "c – two\nlines \u2028 🙂"
    assert path.read_bytes().count(b"\n") == 3
    half = dataclasses.replace(episode(), answer="half of a pair \ud83d")
    append_trajectories(path, [half])
    assert list(read_trajectories(path))[3] == half


def test_a_torn_last_record_is_lost_and_nothing_is_glued_to_it(tmp_path):
    path = tmp_path / "a.jsonl"
    append_trajectories(path, [episode("a"), episode("b")])
    whole = path.read_bytes()
    for cut in (1, 30, len(whole) // 2 - 1):  # killed just before the line break, within b, right after b began
        path.write_bytes(whole[:-cut])
        assert answers(path) == ["a"]
        append_trajectories(path, [episode("c")])
        assert answers(path) == ["a", "c"]
    path.write_bytes(whole[:20])  # killed within the very first
    append_trajectories(path, [episode("c")])
    assert answers(path) == ["c"]


def test_a_broken_record_before_the_last_is_reported_with_its_line(tmp_path):
    path = tmp_path / "a.jsonl"
    append_trajectories(path, [episode("a"), episode("b")])
    good = path.read_bytes().splitlines(keepends=True)
    for broken in (b"{\n", b"[]\n", b"{}\n", good[0].replace(b'"stopped"', b'"exploded"')):
        path.write_bytes(good[0] + broken + good[1])
        with pytest.raises(ValueError, match="line 2"):
            answers(path)

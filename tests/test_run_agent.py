"""The milestone agent in a real browser, with models that follow a script."""

import asyncio
import http.server
import json
import os
import signal
import threading

import pytest

import run_agent
from agent import Roles
from environment.browser import Browser, EnvironmentFailure
from environment.tasks import load_tasks
from environment.terminal import View
from language_model import ScriptedModel
from run_agent import check, main, parse, policy_folder
from trajectory import Action, Observation, read_trajectories

TASK = min((task for task in load_tasks("evaluation") if task.sites == ("forum",)), key=lambda task: len(task.oracle))
MILESTONES = "1. Open the sign-in page\n2. Fill in the name\n3. Fill in the password\n4. Be signed in"


def play(arguments, model, guide=None, says=()):
    """`guide` makes and rates milestones; a person gives the answers `says` in turn."""
    lines, says = [], list(says)

    async def confirm(question):
        lines.append(question)
        return says.pop(0)

    options = check(parse(arguments))
    roles = Roles(model, guide, guide if options.generator != "task" else None)
    return asyncio.run(run_agent.run(options, roles, lines.append, confirm)), "\n".join(lines)


class Recorder(ScriptedModel):
    """A scripted model that keeps what it was asked."""

    asked: list

    def generate(self, prompts, **settings):
        self.asked = [*getattr(self, "asked", []), *prompts]
        return super().generate(prompts, **settings)


@pytest.fixture
def site():
    """A page with a sign-in form, and where it is."""
    pages = {
        "/": '<title>Home</title><a href="/login">Sign in</a>',
        "/login": '<title>Sign in</title><form action="/in"><label>Name <input name="n"></label>'
        '<label>Password <input type="password"></label><button>Go</button></form>',
        "/in": "<title>Hello</title><h1>Hello, mia</h1>",
    }

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            page = pages.get(self.path.split("?")[0])
            if self.path.startswith("/away"):
                self.send_response(302)
                self.send_header("Location", f"http://localhost:{self.server.server_port}/")
            else:
                self.send_response(200 if page else 404)
                self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write((page or "").encode())

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


# --- the command line -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--task", "gitlab-evl-003"], "near it: gitlab-eval-003"),
        (["Open the issue"], "needs --start-url"),
        (["--start-url", "http://127.0.0.1:1"], "needs --start-url"),
        (["Open the issue", "--start-url", "127.0.0.1:3000"], "expected an address"),
        (["Open the issue", "--start-url", "http://a.example", "--task", TASK.task_id], "exclude each other"),
        (["Open the issue", "--start-url", "http://a.example", "--rater", "checks"], "only a bundled task"),
        (["--allow", "a.example"], "expected an address"),
        (["--thinking", "much"], "number of tokens, got 'much'"),
        (["--max-steps", "0"], "--max-steps"),
        (["--endpoint", "http://127.0.0.1:1/v1"], "--model"),
        (["--rater-endpoint", "http://127.0.0.1:1/v1"], "--rater"),
        (["--generator-endpoint", "http://127.0.0.1:1/v1", "--generator", "rater"], "--generator"),
        (["Open the issue", "--start-url", "http://a.example", "--generator", "task"], "only a bundled task has milestones"),
        (["--generator", "self", "--rater", "checks"], "only for its own milestones"),
        (["--no-milestones", "--generator", "self"], "plain agent"),
        (["--thinking", "-1"], "number of tokens, got '-1'"),
        (["--no-milestones", "--rater", "self"], "plain agent"),
        (["--model", "no/such/model/here"], "no/such/model/here"),
    ],
)
def test_what_does_not_go_together_is_said_in_one_line(arguments, said, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1


def test_an_endpoint_without_a_key_and_a_save_folder_that_cannot_be(capsys, monkeypatch, tmp_path):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert main(["--endpoint", "http://127.0.0.1:1/v1", "--model", "m"]) == 2
    assert "OPENAI_API_KEY" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["--save", str(tmp_path / "file")]) == 2
    assert "file" in capsys.readouterr().err


def test_without_a_trained_policy_it_says_what_makes_one(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main([]) == 2
    assert "python train.py" in capsys.readouterr().err


def test_the_newest_phase_of_the_newest_run(tmp_path):
    for age, name in enumerate(["new/phase-10", "new/phase-2", "new/phase-11.unfinished", "old/phase-12"]):
        (tmp_path / name / "policy").mkdir(parents=True)
        os.utime(tmp_path / name / "policy", (10_000 - age, 10_000 - age))
    assert policy_folder("", str(tmp_path)) == str(tmp_path / "new/phase-10/policy")
    assert policy_folder(str(tmp_path / "old")) == str(tmp_path / "old/phase-12/policy")
    assert policy_folder(str(tmp_path / "new/phase-2")) == str(tmp_path / "new/phase-2/policy")
    assert policy_folder(str(tmp_path / "new/phase-2/policy")) == str(tmp_path / "new/phase-2/policy")
    assert policy_folder("google/gemma-3-12b-it") == "google/gemma-3-12b-it"


# --- the view -------------------------------------------------------------------------------------------------------


def test_the_view_masks_passwords_and_what_steers_a_terminal():
    lines = []
    view = View(lines.append)
    view.action(Action("type", "textbox", "Password", text="open sesame"), secret=True)
    view.page(1, Observation("In\x1b[2J", "/in?p=open+sesame", "", 'not an action: type "open sesame"'))
    assert "sesame" not in "".join(lines) and "\x1b" not in "".join(lines)
    assert lines[0].endswith('type textbox "Password" "••••"')


# --- whole episodes -------------------------------------------------------------------------------------------------


def test_a_bundled_task_played_by_its_oracle(tmp_path):
    episode, seen = play(["--task", TASK.task_id, "--save", str(tmp_path)], ScriptedModel(TASK.oracle))
    assert episode.success and episode.end == "stopped" and all(episode.z[-1]) and not any(episode.z[0])
    assert all(not before or after for a, b in zip(episode.z, episode.z[1:]) for before, after in zip(a, b))
    assert list(read_trajectories(tmp_path / "trajectories.jsonl")) == [episode]
    assert seen.startswith(f"goal  {TASK.intent}") and "[x]" in seen and "success  (score 1.0" in seen
    assert all(f"> {line}" in seen for line in TASK.oracle)


def test_a_run_that_goes_round_is_told_so_and_reported_with_its_failure_mode(tmp_path):
    model = Recorder(['click link "No such link"', "I do not know", *['click link "Forums"'] * 3])
    arguments = ["--task", TASK.task_id, "--save", str(tmp_path), "--max-steps", "5"]
    episode, seen = play(arguments, model)
    assert not episode.success and episode.end == "step_limit" and episode.actions[1].kind == "invalid"
    assert '! there is no link "No such link" on this page' in seen and "failed: Stuck Midway  (score 0.0, 5 steps" in seen
    assert "Plan anew" in model.asked[4] and "Plan anew" not in model.asked[3]
    early, seen = play([*arguments, "--no-milestones"], ScriptedModel(['stop "nobody"']))
    assert "failed: Fail Attempt" in seen and "[ ]" not in seen
    assert list(read_trajectories(tmp_path / "trajectories.jsonl")) == [episode, early]


def test_milestones_made_and_rated_by_a_model_on_a_page_of_ones_own(site, tmp_path):
    actions = ['click link "Sign in"', 'type textbox "Name" "mia"', 'type textbox "Password" "open sesame"']
    actions += ['goto "http://localhost:1/"', 'click button "Go"', 'stop ""']
    model = Recorder([f"I see.\n{action}" for action in actions])
    ratings = [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], None, [1, 1, 1, 1], [1, 1, 1, 1]]
    replies = ["no list at all", MILESTONES]
    for z in ratings:  # what cannot be read is asked for twice
        replies += [json.dumps({"achieved": f"saw {sum(z)}", "z": z})] if z else ["?", "?"]
    guide = Recorder(replies)
    arguments = ["Sign in as mia", "--start-url", site, "--save", str(tmp_path), "--thinking", "off"]
    episode, seen = play(arguments, model, guide)
    assert guide.replies == [] and model.replies == []
    assert episode.task.subgoals == tuple(line[3:] for line in MILESTONES.splitlines())
    assert [sum(row) for row in episode.z] == [0, 1, 2, 3, 3, 4, 4]  # latched, and kept where there was no rating
    assert "[x] Open the sign-in page\n[ ] Fill in the name" in model.asked[1] and "achieved: saw 1" in model.asked[1]
    assert "sesame" not in seen and "outside this task's sites" in seen and "stopped  (no evaluator, 6 steps, 4 of 4" in seen
    assert not episode.success and list(read_trajectories(tmp_path / "unjudged.jsonl")) == [episode]
    assert not (tmp_path / "trajectories.jsonl").exists()


def test_a_start_page_that_cannot_be_reached_or_leads_elsewhere(site):
    with pytest.raises(EnvironmentFailure, match="could not open http://127.0.0.1:9"):
        play(["Look", "--start-url", "http://127.0.0.1:9", "--no-milestones"], ScriptedModel([]))
    with pytest.raises(EnvironmentFailure, match="leads to http://localhost:"):
        play(["Look", "--start-url", f"{site}/away", "--no-milestones"], ScriptedModel([]))


def test_a_browser_that_dies_is_no_page_to_act_on(site):
    async def look():
        async with Browser() as browser:
            tab = await browser.open(site)
            await browser._browser.close()
            await tab.act(Action("invalid", text="hm"))

    with pytest.raises(EnvironmentFailure, match="went away"):
        asyncio.run(look())


def test_ctrl_c_saves_what_there_is(tmp_path):
    class Interrupted(ScriptedModel):
        def generate(self, prompts, **settings):
            if len(self.replies) == 1:
                os.kill(os.getpid(), signal.SIGINT)
            return super().generate(prompts, **settings)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job begins with it ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            play(["--task", TASK.task_id, "--save", str(tmp_path)], Interrupted([*TASK.oracle[:2], 'stop ""']))
    finally:
        signal.signal(signal.SIGINT, before)
    (episode,) = read_trajectories(tmp_path / "trajectories.jsonl")
    assert episode.end == "environment_failure" and not episode.success
    assert [str(action) for action in episode.actions] == list(TASK.oracle[:2])

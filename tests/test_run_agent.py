"""The milestone agent in a real browser, with models that follow a script."""

import asyncio
import base64
import http.server
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import KEY

import run_agent
from agent import Roles
from environment.browser import Browser, EnvironmentFailure
from environment.tasks import goal, load_tasks
from environment.terminal import View, ask
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
        '<label>Password <input type="password" name="p"></label><button>Go</button></form>',
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
        (["--images"], "neither rater nor generator is an endpoint"),
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


@pytest.mark.parametrize("typed, yes", [("y\n", True), ("Yes\n", True), ("n\n", False), ("\n", False), ("yikes\n", False), ("", False)])
def test_only_yes_is_yes(monkeypatch, typed, yes):
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    assert asyncio.run(ask("Send it?")) is yes


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


# --- through real endpoints -----------------------------------------------------------------------------------------


def rating(*z):
    return json.dumps({"achieved": f"saw {sum(z)}", "current": "not yet", "next": "go on", "z": z})


def arguments_for(url, actor, **others):
    """Of a task in words on `url`, its roles at these addresses."""
    found = ["Sign in as mia", "--start-url", url, "--model", "m", "--endpoint", actor.url, "--thinking", "0"]
    for role, endpoint in others.items():
        found += [f"--{role}", f"the-{role}", f"--{role}-endpoint", endpoint.url]
    return found


def test_each_role_is_an_endpoint_of_its_own_with_a_key_of_its_own(serve, site, capsys, monkeypatch, tmp_path):
    actor, _ = serve('The form is behind this link.\nclick link "Sign in"', 'stop "done"')
    rater, _ = serve(rating(0, 0, 0, 0), rating(1, 0, 0, 0))
    generator, _ = serve(f"Here you are:\n{MILESTONES}")
    monkeypatch.setenv("RATER_API_KEY", "rater's key")
    arguments = arguments_for(site, actor, rater=rater, generator=generator)
    assert main([*arguments, "--save", str(tmp_path)]) == 0
    seen = capsys.readouterr().out
    assert generator.keys == [f"Bearer {KEY}"] and rater.keys == ["Bearer rater's key"] * 3 and actor.keys == [f"Bearer {KEY}"] * 2
    assert [asked["model"] for asked in (actor.asked[0], rater.asked[0], generator.asked[0])] == ["m", "the-rater", "the-generator"]
    assert "[x] Open the sign-in page\n[ ] Fill in the name" in actor.asked[1]["messages"][0]["content"]
    assert "because The form is behind this link." in seen and "? achieved: saw 1" in seen
    assert seen.count("= 14 tokens, ") == 2  # the server counts 7 a reply: one of the rater's, one of the actor's
    assert "35 tokens, " in seen  # and 7 of the last check
    saved = "".join(file.read_text() for file in tmp_path.iterdir() if file.suffix != ".jpg")
    assert KEY not in saved + seen and "rater's key" not in saved + seen


def test_rater_and_generator_see_the_page_as_a_picture_where_they_take_one(serve, site):
    actor, _ = serve('stop ""')
    guide, _ = serve(MILESTONES, rating(0, 0, 0, 0))
    assert main([*arguments_for(site, actor, rater=guide), "--images"]) == 0
    for asked in guide.asked:
        text, picture = asked["messages"][0]["content"]
        assert "| Home" in text["text"]
        assert base64.b64decode(picture["image_url"]["url"].removeprefix("data:image/jpeg;base64,")).startswith(b"\xff\xd8\xff")
    assert len(guide.asked) == 3 and isinstance(actor.asked[0]["messages"][0]["content"], str)


def test_a_dead_actor_ends_the_episode_with_one_line_and_what_there_is(serve, site, capsys, tmp_path):
    actor, _ = serve('click link "Sign in"', (401, {}, {"error": {"message": f"the key {KEY} is used up"}}))
    guide, _ = serve(MILESTONES, rating(1, 0, 0, 0))
    arguments = arguments_for(site, actor, rater=guide)
    assert main([*arguments, "--save", str(tmp_path)]) == 3
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and "m at 127.0.0.1: " in said and "used up" in said and KEY not in said
    (episode,) = read_trajectories(tmp_path / "unjudged.jsonl")
    assert (len(episode.steps), episode.end, episode.success) == (1, "environment_failure", False)
    report = (tmp_path / "report.html").read_text()
    assert "broke off: m at 127.0.0.1" in report and KEY not in report


def test_a_dead_rater_leaves_the_steps_unjudged_and_the_last_z_standing(serve, site, capsys, tmp_path):
    actor, _ = serve('click link "Sign in"', 'stop ""')
    rater, _ = serve(rating(1, 0, 0, 0), (404, {}, {"error": {"message": "no such model"}}))
    generator, _ = serve(MILESTONES)
    arguments = arguments_for(site, actor, rater=rater, generator=generator)
    assert main([*arguments, "--save", str(tmp_path)]) == 0
    assert "2 of 3 checks unjudged" in capsys.readouterr().out
    (episode,) = read_trajectories(tmp_path / "unjudged.jsonl")
    assert episode.z == ((True, False, False, False),) * 3
    assert (tmp_path / "report.html").read_text().count("unjudged: the last check stands") == 2


def test_a_generator_that_never_makes_four_ends_it_before_it_begins(serve, site, capsys):
    actor, _ = serve('stop ""')
    guide, _ = serve("1. Sign in")
    assert main(arguments_for(site, actor, rater=guide)) == 2
    assert "no 4 milestones after 3 attempts" in capsys.readouterr().err
    assert len(guide.asked) == 3 and not actor.asked


def test_a_bundled_tasks_milestones_can_be_made_and_rated_too(serve, capsys):
    actor, _ = serve('stop ""')
    guide, _ = serve(MILESTONES, rating(1, 0, 0, 0))
    roles = ["--generator", "g", "--generator-endpoint", guide.url, "--rater", "g", "--rater-endpoint", guide.url]
    assert main(["--task", TASK.task_id, "--model", "m", "--endpoint", actor.url, *roles]) == 1
    seen = capsys.readouterr().out
    assert "failed: Fail Attempt  (score 0.0, 1 steps, 1 of 4 milestones" in seen
    shown = guide.asked[0]["messages"][0]["content"]
    assert shown.count("\nTask: ") == 13  # the forum's twelve demonstrations, and the task


def test_a_person_is_asked_before_a_form_is_sent(site):
    lines = ['click link "Sign in"', 'type textbox "Password" "open sesame"', 'click button "Go"', 'click button "Go"', 'stop ""']
    arguments = ["Sign in", "--start-url", site, "--no-milestones", "--confirm"]
    episode, seen = play(arguments, ScriptedModel(lines), says=[False, True])
    assert [step.observation.title for step in episode.steps] == ["Home", "Sign in", "Sign in", "Sign in", "Hello"]
    assert "did not allow" in episode.steps[3].observation.error and not episode.steps[4].observation.error
    assert seen.count(f'Send the form on {site}/login, by click button "Go"?') == 2


@pytest.mark.parametrize("waits_for", ["an endpoint", "a person"])
def test_ctrl_c_is_heard_whatever_is_waited_for(serve, site, tmp_path, waits_for):
    second = (200, {}, "hang") if waits_for == "an endpoint" else 'click button "Go"'
    actor, _ = serve('click link "Sign in"', second)
    arguments = ["Sign in", "--start-url", site, "--model", "m", "--endpoint", actor.url, "--no-milestones", "--confirm"]
    arguments += ["--save", str(tmp_path)]
    script = Path(run_agent.__file__)
    hears = "import signal, runpy, sys; signal.signal(signal.SIGINT, signal.default_int_handler); runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    running = subprocess.Popen([sys.executable, "-u", "-c", hears, script, *arguments], cwd=script.parent, text=True, **pipes)
    if waits_for == "a person":
        while running.stdout.read(1) != "?":  # the question's end
            assert running.poll() is None
    while len(actor.asked) < 2:
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=20)  # the request alone would hang for minutes
    assert running.returncode == 130 and "Traceback" not in said and f"the episode so far is in {tmp_path}" in said
    (episode,) = read_trajectories(tmp_path / "unjudged.jsonl")
    assert (len(episode.steps), episode.end) == (1, "environment_failure")
    assert "<b>interrupted</b>" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("site_name", ["forum", "gitlab", "shop_admin", "shop", "map"])
def test_a_bundled_task_is_solved_when_a_person_lets_each_form_pass(site_name):
    task = next(task for task in load_tasks("evaluation") if task.sites == (site_name,) and goal(task) == "state")
    episode, seen = play(["--task", task.task_id, "--confirm"], ScriptedModel(task.oracle), says=[True] * 9)
    assert episode.success and seen.count("Send the form on ") >= 1
    assert not any("did not allow" in step.observation.error for step in episode.steps)


# --- what is saved --------------------------------------------------------------------------------------------------


def test_the_report_shows_each_step_and_neither_page_nor_model_can_act_in_it(site, tmp_path):
    attack = "<script>alert(1)</script><img src=x onerror=alert(2)>"
    model = ScriptedModel([f"{attack}\nclick link \"Sign in\"", f'stop "{attack}"'])
    guide = ScriptedModel([MILESTONES, rating(0, 0, 0, 0), json.dumps({"achieved": attack, "z": [1, 0, 0, 0]}), rating(1, 0, 0, 0)])
    arguments = [f"Sign in {attack}", "--start-url", f"{site}/?q={attack}", "--save", str(tmp_path), "--thinking", "0"]
    play(arguments, model, guide)
    report = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in report and "<img src=x" not in report and "&lt;script&gt;alert(1)" in report
    assert report.count("<section") == 3 and report.count("[x] Open the sign-in page") == 2
    pictures = [(tmp_path / f"step-{step:02}.jpg").read_bytes() for step in range(3)]
    assert all(picture.startswith(b"\xff\xd8\xff") for picture in pictures)  # JPEG's first bytes
    assert [base64.b64decode(data) for data in re.findall(r'src="data:image/jpeg;base64,([^"]+)"', report)] == pictures
    assert "z = [1, 0, 0, 0]" in report and "click link &quot;Sign in&quot;" in report and "What the agent saw" in report


def test_the_report_of_a_failed_episode_names_its_mode_and_where_it_was_lost(tmp_path):
    (tmp_path / "step-99.jpg").write_bytes(b"of a longer episode")
    play(["--task", TASK.task_id, "--save", str(tmp_path)], ScriptedModel([TASK.oracle[0], "scroll down", 'stop ""']))
    report = (tmp_path / "report.html").read_text()
    assert "failed: Wrong Termination" in report
    assert 'Key decision step: <a href="#step-1">1</a>' in report  # the oracle does not scroll
    assert report.index('id="step-1" class=key') > 0 and not (tmp_path / "step-99.jpg").exists()


@pytest.mark.parametrize("secret", ['open "sesame" & more', "abc"])
def test_a_password_that_was_typed_is_in_nothing_that_was_shown_or_saved(site, tmp_path, secret):
    quoted = json.dumps(secret)
    lines = ['click link "Sign in"', f"The password is {secret}.\ntype textbox \"Password\" {quoted}", 'press "Enter"', f"stop {quoted}"]
    arguments = [f"Sign in with {secret}", "--start-url", site, "--save", str(tmp_path), "--no-milestones"]
    episode, seen = play(arguments, ScriptedModel(lines))
    if len(secret) < 4:  # masked where it was typed, and only there: it might be part of any word
        assert f'type textbox "Password" {quoted}' not in seen and str(episode.actions[1]) == 'type textbox "Password" "••••"'
        return
    saved = "".join(file.read_text(encoding="utf-8") for file in tmp_path.iterdir() if file.suffix != ".jpg")
    _, after = seen.split('type textbox "Password"')
    assert "sesame" not in saved + after and "••••" in saved and episode.steps[1].token_ids == ()
    assert episode.final.url == "/in?n=&p=••••"

"""The training loop: one episode's numbers, and two small phases in a real browser, stopped and gone on with."""

import contextlib
import dataclasses
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from environment.tasks import load_tasks
from settings import Config
from train import advantages, encode, milestones, next_tasks, run
from trajectory import Action, Observation, Step, Task, Trajectory, read_trajectories

# --- one episode ------------------------------------------------------------------------------------------------


def episode(actions, success, token_ids=()):
    steps = [Step(Observation("T", "/", f"page {t}"), action, token_ids=token_ids) for t, action in enumerate(actions)]
    task = Task("t", ("forum",), "Go there", "__FORUM__", {})
    return Trajectory(task, steps, Observation("T", "/", "final"), [[]] * (len(actions) + 1), success, "stopped")


def test_advantages_by_hand():
    # r' = [0 + α(0.5 − 0), 1 + α(1 − 0.5)] = [0.15, 1.15] with α = 0.3; V = [0.4, 0.6], and 0 after the end, not 0.9
    # TD = [0.15 + 0.6 − 0.4, 1.15 + 0 − 0.6] = [0.35, 0.55]     G − V = [1.3 − 0.4, 1.15 − 0.6] = [0.9, 0.55]
    played = episode([Action("go_back"), Action("stop")], True)
    found = advantages(Config(), played, np.array([0.4, 0.6, 0.9]), np.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(found, [(0.35 + 0.9) / 2, 0.55])


def test_an_episode_is_scored_on_the_ids_that_were_generated(tiny_model):
    model = tiny_model()
    actions = [Action("click", "link", "Posts"), Action("stop", text="7")]
    told = encode(model, episode(actions, True))
    assert len(told.states) == 3 and len(told.transitions()) == 2
    assert told.actions == [model.reply_ids('click link "Posts"'), model.reply_ids('stop "7"')]
    text = model.tokenizer.decode(told.states[1], skip_special_tokens=True)
    assert text == 'page:\nT\n/\npage 1\ndone:\nclick link "Posts"\ntask: Go there\naction:\n'
    assert encode(model, episode(actions, True, token_ids=(9, 9, 2))).actions == [(9, 9, 2)] * 2


def test_some_prompts_show_the_milestones_as_they_stood_and_the_states_always(tiny_model):
    model, turns = tiny_model(), iter([False, True, True])
    played = episode([Action("click", "link", "Posts"), Action("click", "link", "A"), Action("stop", text="7")], True)
    task = dataclasses.replace(played.task, subgoals=("Open posts", "Answer"))
    played = dataclasses.replace(played, task=task, z=[[False, False], [True, False], [False, False], [False, True]])
    told = encode(model, played, lambda: next(turns))
    told_plainly = encode(model, played)
    assert told.prompts[0] == told_plainly.prompts[0] != told.states[0]
    assert told_plainly.states == told.states and told.prompts[1:] == told.states[1:3]
    for t, first, second in ((0, " ", " "), (1, "x", " "), (2, "x", " "), (3, "x", "x")):  # latched: what was done at 1 is done at 2
        text = model.tokenizer.decode(told.states[t], skip_special_tokens=True)
        assert text.endswith(f"milestones:\n[{first}] Open posts\n[{second}] Answer\ntask: Go there\naction:\n")
    drawn = [milestones(Config(milestone_share=0.5), "phase-1") for _ in range(2)]
    first, again = ([draw() for _ in range(2000)] for draw in drawn)
    assert first == again and 900 < sum(first) < 1100
    assert not any(milestones(Config(milestone_share=0), "phase-1")() for _ in range(100))


# --- the next phase's tasks ---------------------------------------------------------------------------------------


def test_a_share_of_the_next_tasks_comes_from_failures_within_reach():
    pool = [dataclasses.replace(task, subgoal_checks=()) for task in load_tasks("pool")[::2]]
    held_out = load_tasks("evaluation")
    kinds = {task.intent_template_id: task for task in pool}
    solved, other = kinds["gitlab/count_issues"], kinds["map/phone_of_nearest"]
    config = Config(tasks_per_phase=12, curriculum_share=0.25)
    chosen = next_tasks(config, 1, [solved, other], [solved], [task for task in pool if task not in (solved, other)], held_out)
    assert len({task.task_id for task in chosen}) == 12
    assert {task.sites for task in chosen[:3]} == {("gitlab",)}
    assert len({task.sites for task in chosen[3:]}) > 1
    assert {task.task_id for task in chosen} <= {task.task_id for task in pool}
    whole = next_tasks(dataclasses.replace(config, curriculum_share=1.0), 1, [solved], [solved], pool, held_out)
    assert {task.sites for task in whole} == {("gitlab",)} and len(whole) == 12
    uniform = next_tasks(config, 1, [other], [solved], pool, held_out)  # nothing within reach
    assert len({task.task_id for task in uniform}) == 12 and len({task.sites for task in uniform}) > 1


# --- a whole run ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_run(tmp_path_factory, tiny_checkpoint):
    """(folder, config): two phases on three short tasks of the forum, from random weights."""
    home = tmp_path_factory.mktemp("training")
    for split, count in (("pool", 6), ("evaluation", 2)):
        tasks = [task for task in load_tasks(split) if task.sites == ("forum",) and len(task.oracle) <= 7][:count]
        assert len(tasks) == count
        (home / f"{split}.json").write_text(json.dumps([dataclasses.asdict(task) for task in tasks]))
    config = Config(
        name="small",
        model=str(tiny_checkpoint),
        tasks=str(home / "pool.json"),
        held_out=str(home / "evaluation.json"),
        phases=2,
        tasks_per_phase=3,
        max_steps=7,
        demonstrations=3,
        warmup_epochs=1,
        explorations=3,
        batch_size=8,
        potential_epochs=1,
        replay=4,
        failed_share=0.5,
        low_perplexity=1.0,
        high_perplexity=math.inf,
        parallel=3,
        device="cpu",
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with contextlib.chdir(home):
        run(config)
    yield home, config
    torch.set_num_threads(threads)


def content(folder: Path) -> dict[str, bytes]:
    """Every file below, but for times of the clock and the order in which episodes came to their ends."""
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    files |= {name: b"".join(sorted(data.splitlines(keepends=True))) for name, data in files.items() if name.endswith(".jsonl")}
    lines = [json.loads(line) for line in files["metrics.jsonl"].splitlines()]
    files["metrics.jsonl"] = json.dumps([{**line, "seconds": 0} for line in lines]).encode()
    return files


def again(home: Path, config: Config, name: str) -> Path:
    """A copy of the finished run under another name, as if it had always been called that."""
    folder = home / "runs" / name
    shutil.copytree(home / "runs" / config.name, folder)
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "name": name}, indent=1))
    return folder


def test_a_run_leaves_what_the_design_says(small_run):
    home, config = small_run
    folder = home / "runs" / "small"
    shown = {episode.task.task_id for episode in read_trajectories(folder / "phase-0" / "demonstrations.jsonl")}
    assert len(shown) == 3
    for phase in range(3):
        here = folder / f"phase-{phase}"
        for part in ("policy", "value", "potential"):
            assert (here / part / "model.safetensors").exists() and (here / part / "config.json").exists()
        assert len(list(read_trajectories(here / "evaluation.jsonl"))) == 2
        if phase:
            tasks = [json.loads(line)["task_id"] for line in (here / "tasks.jsonl").read_text().splitlines()]
            episodes = list(read_trajectories(here / "trajectories.jsonl"))
            assert len(tasks) == len(set(tasks)) == 3 and not set(tasks) & shown
            assert sorted(tasks) == sorted(played.task.task_id for played in episodes)
            for played in episodes:
                assert played.end in ("stopped", "step_limit") and all(step.token_ids for step in played.steps)
    assert not list(folder.rglob("*.unfinished"))
    assert {path.suffix for path in folder.rglob("*") if path.is_file()} <= {".json", ".jsonl", ".safetensors", ".jinja"}
    assert json.loads((folder / "config.json").read_text()) == dataclasses.asdict(config)


def test_demonstrations_are_the_oracles_and_succeed(small_run):
    home, _ = small_run
    episodes = list(read_trajectories(home / "runs/small/phase-0/demonstrations.jsonl"))
    assert len(episodes) == 3 and all(played.success for played in episodes)
    assert all([str(action) for action in played.actions] == list(played.task.oracle) for played in episodes)


def test_metrics_have_a_line_a_phase(small_run):
    home, _ = small_run
    lines = [json.loads(line) for line in (home / "runs/small/metrics.jsonl").read_text().splitlines()]
    assert [line["phase"] for line in lines] == [0, 1, 2]
    for line in lines:
        assert 0 <= line["interval"][0] <= line["success"] <= line["interval"][1] <= 1
        assert set(line) == set(lines[-1]) or line["phase"] == 0
    for line in lines[1:]:
        assert math.isfinite(line["actor_loss"]) and math.isfinite(line["value_loss"])
        assert line["kept"] == 1  # nothing is filtered with these limits


def test_each_phase_changes_the_policy_and_the_critics(small_run):
    home, config = small_run
    for part in ("policy", "value", "potential"):
        weights = [load_file(home / f"runs/small/phase-{phase}/{part}/model.safetensors") for phase in range(3)]
        for phase, (before, after) in enumerate(zip(weights, weights[1:]), 1):
            episodes = read_trajectories(home / f"runs/small/phase-{phase}/trajectories.jsonl")
            learns = part != "potential" or any(played.success for played in episodes)  # P learns from successes only
            assert before.keys() == after.keys()
            assert any(not torch.equal(before[name], after[name]) for name in before) == learns, part
            assert all(torch.isfinite(weight).all() for weight in after.values())
    shown = json.loads((home / "runs/small/phase-0/potential/losses.json").read_text())  # the demonstrations are successes
    assert shown["potential_loss"] > 0
    start = load_file(Path(config.model) / "model.safetensors")
    warm = load_file(home / "runs/small/phase-0/policy/model.safetensors")
    assert any(not torch.equal(start[name], warm[name]) for name in start)


def test_the_same_command_again_does_no_work(small_run):
    home, config = small_run
    folder = home / "runs" / "small"
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != "config.json" and path.is_file()}
    with contextlib.chdir(home):
        assert (home / run(config)).samefile(folder)
    after = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != "config.json" and path.is_file()}
    assert before == after


def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(small_run):
    home, config = small_run
    folder = again(home, config, "stopped")
    shutil.rmtree(folder / "phase-2" / "policy")  # killed while the last actor was trained
    (folder / "phase-2" / "policy.unfinished").mkdir()
    (folder / "phase-2" / "evaluation.jsonl").unlink()
    (folder / "metrics.jsonl").write_text("".join((folder / "metrics.jsonl").read_text().splitlines(keepends=True)[:2]))
    with contextlib.chdir(home):
        run(dataclasses.replace(config, name="stopped"))
    expected = content(home / "runs" / "small")
    found = content(folder)
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name] and name != "config.json"] == []


def test_a_run_that_was_stopped_between_phases_goes_on_alike(small_run):
    home, config = small_run
    folder = again(home, config, "between")
    shutil.rmtree(folder / "phase-2")
    for part in ("potential", "policy"):
        shutil.rmtree(folder / "phase-1" / part)
    (folder / "phase-1" / "evaluation.jsonl").unlink()
    (folder / "metrics.jsonl").write_text((folder / "metrics.jsonl").read_text().splitlines(keepends=True)[0])
    with contextlib.chdir(home):
        run(dataclasses.replace(config, name="between"))
    expected, found = content(home / "runs" / "small"), content(folder)
    assert [name for name in expected if found.get(name) != expected[name] and name != "config.json"] == []

"""The training loop: its optimisation, its folder, and two small phases in a real browser, stopped and gone on with."""

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

import train
from environment.tasks import load_tasks
from train import FREE, PAPER, Config, advantages, encode, fit, micro_batches, parse, piece, problems, rng_of, run
from trajectory import Action, Observation, Step, Task, Trajectory, read_trajectories

# --- optimisation -----------------------------------------------------------------------------------------------


def test_micro_batches_group_prompts_of_like_length():
    # sorted by length 1, 3, 5, 9: 3·2 = 6 fits into 6, 5·3 does not, and 9 alone is more than 6 but has to go
    prompts = [[0] * length for length in (5, 1, 9, 3)]
    assert micro_batches(Config(micro_batch_tokens=6), [10, 11, 12, 13], prompts) == [[11, 13], [10], [12]]
    assert micro_batches(Config(), [10, 11, 12, 13], prompts) == [[11, 13, 10, 12]]


TEXTS = ("page:\n", "page:\nquiet harbor\n" * 20, "page:\nquiet\n" * 3, "task: go\n", "page:\nred\n" * 9)
REPLIES = ("go_back", 'stop "a much longer answer than that"', 'click link "x"', "scroll down", 'press "Enter"')


def fitted(model, **settings):
    samples = [(model.prompt_ids(text), model.reply_ids(reply)) for text, reply in zip(TEXTS, REPLIES)]

    def loss(batch):
        return -model.token_log_probs(*zip(*batch))[0].sum(-1)

    last = fit(Config(**{"batch_size": 5, "optimizer": "adamw", **settings}), model.model, samples, loss, epochs=2, rate=1e-3, key="test")
    return last, model.model.state_dict()


def test_how_a_batch_is_cut_changes_nothing(tiny_model):
    whole, weights = fitted(tiny_model(), micro_batch_tokens=10**6)
    start = tiny_model().model.state_dict()
    for tokens in (1, 100):
        cut, others = fitted(tiny_model(), micro_batch_tokens=tokens)
        assert cut == pytest.approx(whole, rel=1e-6)
        for name, weight in weights.items():
            # the scores are summed in 32 bits; Adam's first steps have the size of the rate, whatever the gradient's
            torch.testing.assert_close(others[name], weight, rtol=0, atol=2e-5, msg=name)
            assert not torch.equal(weight, start[name]), name


def test_the_order_of_samples_is_the_runs_own(tiny_model):
    first, same, other = (fitted(tiny_model(), batch_size=2, seed=seed)[1] for seed in (0, 0, 1))
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_fitting_lowers_the_loss_and_nothing_to_fit_is_no_loss(tiny_model):
    model = tiny_model()
    before, _ = fitted(model)
    after, _ = fitted(model)
    assert after < before
    assert math.isnan(fit(Config(), model.model, [], None, epochs=1, rate=1, key="none"))


def test_random_numbers_depend_on_seed_and_purpose_only():
    draws = [rng_of(Config(seed=seed), *key).random() for seed, *key in ((0, "a"), (0, "a"), (0, "b"), (1, "a"), (0, "a", "b"))]
    assert draws[0] == draws[1] and len(set(draws)) == 4


# --- one episode ------------------------------------------------------------------------------------------------


def episode(actions, success, token_ids=()):
    steps = [Step(Observation("T", "/", f"page {t}"), action, token_ids=token_ids) for t, action in enumerate(actions)]
    task = Task("t", ("forum",), "Go there", "__FORUM__", {})
    return Trajectory(task, steps, Observation("T", "/", "final"), [[False]] * (len(actions) + 1), success, "stopped")


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


# --- settings ---------------------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pocket_model").mkdir()
    return tmp_path


def test_the_command_line_is_made_of_the_settings(elsewhere):
    assert parse([]) == Config()
    assert parse(["--phases", "2", "--gamma", "0.9", "--checkpointing", "off", "--tasks-per-phase=7"]) == Config(
        phases=2, gamma=0.9, checkpointing="off", tasks_per_phase=7
    )
    assert parse(["--preset", "paper"]) == Config(**PAPER)
    assert parse(["--preset", "paper", "--gamma", "0.5"]).gamma == 0.5
    assert set(FREE) | set(PAPER) <= {field.name for field in dataclasses.fields(Config)}
    assert all(field.metadata["help"] for field in dataclasses.fields(Config))


@pytest.mark.parametrize(
    "argument, complaint",
    [
        ("--phases=-1", "--phases: expected at least 0, got -1"),
        ("--batch-size=0", "--batch-size: expected at least 1"),
        ("--gamma=1.5", "--gamma: expected a number from 0 to 1, got 1.5"),
        ("--gamma=nan", "--gamma: expected a number from 0 to 1"),
        ("--beta=0", "--beta"),
        ("--name=a/b", "plain folder name"),
        ("--name=..", "plain folder name"),
        ("--model=no_such_folder", "no folder or file 'no_such_folder'"),
        ("--tasks=pol", "got 'pol'"),
        ("--max-steps=many", "invalid int value"),
        ("--optimizer=sgd", "--optimizer: expected one of muon, adamw, got 'sgd'"),
    ],
)
def test_wrong_settings_are_refused_before_any_work(elsewhere, capsys, argument, complaint):
    with pytest.raises(SystemExit) as stop:
        parse([argument])
    assert stop.value.code == 2 and complaint in capsys.readouterr().err
    assert not (elsewhere / "runs").exists()


def test_a_hub_id_is_no_problem(elsewhere):
    assert problems(Config(model="google/gemma-3-12b-it")) == []


def test_a_folder_keeps_its_settings(elsewhere):
    folder = train.open_run(Config(seed=3))
    assert json.loads((folder / "config.json").read_text())["seed"] == 3
    free = dict(phases=9, parallel=2, micro_batch_tokens=5, checkpointing="off", device="cpu", headed=True)
    assert set(free) == set(FREE)
    assert train.open_run(Config(seed=3, **free)) == folder
    with pytest.raises(ValueError, match="seed was 3 and is now 4.*another --name"):
        train.open_run(Config(seed=4))
    assert train.open_run(Config(seed=4, name="other")) != folder


def test_a_piece_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "run" / "phase-1" / "value"

    def killed(folder):
        (folder / "half").write_text("half")
        raise KeyboardInterrupt

    def made(folder):
        assert not list(folder.iterdir())
        (folder / "whole").write_text(str(torch.rand(1).item()))

    with pytest.raises(KeyboardInterrupt):
        piece(Config(), target, killed)
    assert not target.exists()
    assert piece(Config(), target, made) == target
    drawn = (target / "whole").read_text()
    piece(Config(), target, killed)  # there already
    assert [path.name for path in target.parent.iterdir()] == ["value"]
    torch.rand(3)
    shutil.rmtree(target)
    assert (piece(Config(), target, made) / "whole").read_text() == drawn  # whatever was drawn before


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
    for phase in range(3):
        here = folder / f"phase-{phase}"
        for part in ("policy", "value", "potential"):
            assert (here / part / "model.safetensors").exists() and (here / part / "config.json").exists()
        assert len(list(read_trajectories(here / "evaluation.jsonl"))) == 2
        if phase:
            tasks = [json.loads(line)["task_id"] for line in (here / "tasks.jsonl").read_text().splitlines()]
            episodes = list(read_trajectories(here / "trajectories.jsonl"))
            assert len(tasks) == len(set(tasks)) == 3
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
        for before, after in zip(weights, weights[1:]):
            assert before.keys() == after.keys()
            assert any(not torch.equal(before[name], after[name]) for name in before), part
            assert all(torch.isfinite(weight).all() for weight in after.values())
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

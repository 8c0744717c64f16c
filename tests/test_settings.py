"""The settings and the command line that is made of them."""

import dataclasses

import pytest

from settings import FREE, PAPER, Config, parse, problems


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
        ("--milestone-share=1.1", "--milestone-share: expected a number from 0 to 1, got 1.1"),
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

"""A run's folder: its settings stay, its pieces appear whole, its random numbers are by purpose."""

import json
import shutil

import pytest
import torch

from run_folder import open_run, piece, rng_of
from settings import FREE, Config


def test_random_numbers_depend_on_seed_and_purpose_only():
    draws = [rng_of(Config(seed=seed), *key).random() for seed, *key in ((0, "a"), (0, "a"), (0, "b"), (1, "a"), (0, "a", "b"))]
    assert draws[0] == draws[1] and len(set(draws)) == 4


def test_a_folder_keeps_its_settings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = open_run(Config(seed=3))
    assert json.loads((folder / "config.json").read_text())["seed"] == 3
    free = dict(phases=9, parallel=2, micro_batch_tokens=5, checkpointing="off", device="cpu", headed=True)
    assert set(free) == set(FREE)
    assert open_run(Config(seed=3, **free)) == folder
    with pytest.raises(ValueError, match="seed was 3 and is now 4.*another --name"):
        open_run(Config(seed=4))
    assert open_run(Config(seed=4, name="other")) != folder


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

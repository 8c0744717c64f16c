"""Where is a run kept, so that it can be stopped at any moment?  Folders that appear whole, and random numbers by purpose.

    runs/<name>/config.json        the settings
    runs/<name>/metrics.jsonl      a line a phase
    runs/<name>/phase-k/           tasks.jsonl, trajectories.jsonl, evaluation.jsonl, policy/, value/, potential/
    runs/<name>/phase-0/           demonstrations.jsonl, exploration.jsonl, evaluation.jsonl and the three models

Each finished piece appears in one move, and the random numbers of a piece depend on the run's seed and on what they are for,
never on what was drawn before: so a run that goes on ends as one that was never stopped.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import shutil
import zlib
from pathlib import Path
from typing import Callable

import numpy as np
import torch

from settings import FREE, Config
from trajectory import Task, task_from_json


def rng_of(config: Config, *key: str) -> np.random.Generator:
    """Random numbers for one purpose: the run's seed and the purpose's name fix them, whatever was drawn before."""
    return np.random.default_rng([config.seed, zlib.crc32("/".join(key).encode())])


def piece(config: Config, target: Path, make: Callable[[Path], None]) -> Path:
    """`target`, made by `make(folder)` unless it is there already; it appears whole or not at all."""
    if not target.exists():
        unfinished = target.with_name(target.name + ".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        torch.manual_seed(zlib.crc32(f"{config.seed}/{target.parent.name}/{target.name}".encode()))  # a critic's new head
        make(unfinished)
        os.replace(unfinished, target)
    return target


def open_run(config: Config) -> Path:
    """The run's folder, new or begun before with the same settings; raises `ValueError` on any other."""
    folder = Path("runs") / config.name
    folder.mkdir(parents=True, exist_ok=True)
    file, settings = folder / "config.json", dataclasses.asdict(config)
    if file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        changed = [key for key in settings if key not in FREE and before.get(key) != settings[key]]
        if changed:
            listed = ", ".join(f"{key} was {before.get(key)!r} and is now {settings[key]!r}" for key in changed)
            raise ValueError(f"{folder} holds a run with other settings ({listed}); choose another --name or remove the folder")
    write(file, json.dumps(settings, indent=1))
    return folder


def write(file: Path, text: str) -> None:
    """In one move, so that a kill leaves the old file or the new one."""
    unfinished = file.with_name(file.name + ".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, file)


def write_losses(folder: Path, losses: dict[str, float]) -> None:
    """Beside the weights, so that a run that goes on reports what it would have reported.  Without samples there is no loss."""
    write(folder / "losses.json", json.dumps({name: loss for name, loss in losses.items() if not math.isnan(loss)}))


def phase_tasks(here: Path, tasks: list[Task]) -> list[Task]:
    """The phase's tasks, written down so that a look at the folder shows what the curriculum chose."""
    file = here / "tasks.jsonl"
    if not file.exists():
        here.mkdir(parents=True, exist_ok=True)
        write(file, "".join(f"{json.dumps(dataclasses.asdict(task))}\n" for task in tasks))
    return [task_from_json(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def policy_folder(name: str, runs: str = "runs") -> str:
    """The newest policy in the run's or phase's folder `name`, and for "" in the newest run; any other `name` as it is."""
    policies = sorted(Path(name or runs).glob("**/policy"), key=lambda policy: policy.stat().st_mtime)
    policies = [policy for policy in policies if policy.parent.name.removeprefix("phase-").isdecimal()]
    if not name and not policies:
        raise ValueError(f"no policy under {runs}/ yet: `python train.py --phases 1` makes one, and --model names any other")
    newest = [policy for policy in policies if policy.parents[1] == policies[-1].parents[1]]  # of the newest run
    return str(max(newest, key=lambda policy: int(policy.parent.name.removeprefix("phase-")), default=name))

"""What can be set, and to what?  All settings of a run, with the paper's values beside ours.  (Tables 6 to 8)

The command line of ``train.py`` is made of the fields of `Config`: there is nothing else to set.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

from environment.tasks import load_tasks


def setting(default, help: str):
    return dataclasses.field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Config:
    """All settings of a run; the command line is made of them, and they alone are logged."""

    name: str = setting("mira", "the run's folder under runs/")
    model: str = setting("pocket_model", "π at the start: a folder, a hub id such as google/gemma-3-12b-it, or a .gguf file")
    tasks: str = setting("pool", "tasks to train on: 'pool' or a file in WebArena's format; 1,573 in the paper (section 5.4)")
    held_out: str = setting("evaluation", "tasks to evaluate on: 'evaluation' or a file; 165 in the paper (section 6)")
    seed: int = setting(0, "fixes every random draw of the run")
    phases: int = setting(6, "rounds of Algorithm 2; the paper's Fig. 10 shows 6")
    tasks_per_phase: int = setting(160, "episodes collected in a phase; WebRL has 500, the paper does not say")
    curriculum_share: float = setting(0.5, "of a phase's tasks, drawn by the last failures; the others come from the whole pool")
    max_steps: int = setting(16, "actions after which an episode ends; the paper keeps episodes under 15 steps (A.7), WebRL 30")
    temperature: float = setting(0.5, "of the rollouts; Table 6 has 1, at which a model this small loses half of its successes; evaluation is greedy")
    demonstrations: int = setting(600, "oracle episodes for the supervised warm-up that stands in for the SFT checkpoint")
    milestone_share: float = setting(0.5, "of the demonstrated and replayed steps, whose prompt shows milestones and z (section 5.2)")
    warmup_epochs: int = setting(3, "passes over the demonstrations")
    warmup_learning_rate: float = setting(2e-3, "of the warm-up; WebRL's SFT has 1e-5 at 8 B parameters")
    explorations: int = setting(96, "warm-up policy's episodes that the critics are warm-started on (section 5.3: 1,237 tasks)")
    shaping_scale: float = setting(0.3, "α of the shaped reward r + α(P' − P) (Table 7)")
    gamma: float = setting(1.0, "discount γ; Table 6 has 0.9, with V trained undiscounted: see the README")
    td_weight: float = setting(0.5, "λ of Eq. 10: 1 = TD error only, 0 = Monte-Carlo only; not reported, WebRL has 0.5")
    beta: float = setting(0.05, "β of Eq. 8, how closely π stays to π_ref; not reported")
    optimizer: str = setting("muon", "'muon' (matrices; AdamW for the rest) or 'adamw', as the paper's baselines have it")
    schedule: str = setting("falling", "learning rate over a phase's updates: 'falling' to 0 in a straight line, or 'constant' (Table 6)")
    actor_learning_rate: float = setting(4e-4, "Table 6 has 1e-6 at 12 B parameters")
    value_learning_rate: float = setting(1e-3, "Table 6 has 1e-6 at 12 B parameters")
    potential_learning_rate: float = setting(1e-3, "higher than the others' (A.4); Table 6 has 2e-5 at 12 B parameters")
    actor_epochs: int = setting(1, "passes a phase (Table 6)")
    value_epochs: int = setting(1, "passes a phase (Table 6)")
    potential_epochs: int = setting(3, "passes a phase (Table 6)")
    batch_size: int = setting(16, "states in an update; Table 6 has 128, for more episodes a phase")
    replay: int = setting(100, "earlier successes that join a phase's training; not reported")
    failed_share: float = setting(0.0, "of the failed episodes, that the actor learns from, as the critics do from all; 1 in the paper")
    low_perplexity: float = setting(1.02, "actions below this are left out as too easy, 1 keeps them; Table 8 has 1/0.9")
    high_perplexity: float = setting(1 / 0.5, "actions above this are too far off and are left out (Table 8)")
    buffer: int = setting(100_000, "episodes that the replay buffer holds (Table 6, DigiRL)")
    micro_batch_tokens: int = setting(4096, "tokens that go through a model at once; lower it when memory is short")
    parallel: int = setting(12, "browser pages at once")
    checkpointing: str = setting("auto", "recompute activations in the backward pass: 'on', 'off', 'auto' = from 100 M parameters on")
    device: str = setting("", "where the models run; default: cuda where there is one, else cpu")
    headed: bool = setting(False, "show the browser")


# Settings that may differ when a run goes on: they do not change what is computed.
FREE = ("phases", "parallel", "micro_batch_tokens", "checkpointing", "device", "headed")
PAPER = {
    "temperature": 1.0,
    "milestone_share": 0.0,
    "curriculum_share": 1.0,
    "failed_share": 1.0,
    "gamma": 0.9,
    "optimizer": "adamw",
    "schedule": "constant",
    "batch_size": 128,
    "actor_learning_rate": 1e-6,
    "value_learning_rate": 1e-6,
    "potential_learning_rate": 2e-5,
    "low_perplexity": 1 / 0.9,
}


def parse(arguments: Sequence[str] | None = None, *, description: str = "") -> Config:
    """The settings that a command line asks for; a wrong one ends the program with a line that says what is wrong."""
    usage = "python train.py [--setting value ...]   (--help lists them)"
    parser = argparse.ArgumentParser(usage=usage, description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", choices=["pocket", "paper"], default="pocket", help="'paper' takes Table 6's values")
    for field in dataclasses.fields(Config):
        how = {"action": argparse.BooleanOptionalAction} if isinstance(field.default, bool) else {"type": type(field.default)}
        shown = "" if isinstance(field.default, bool) else f" (default: {field.default or 'automatic'})".replace("%", "%%")
        option = f"--{field.name.replace('_', '-')}"
        parser.add_argument(option, default=None, help=field.metadata["help"].replace("%", "%%") + shown, **how)
    given = {key: value for key, value in vars(parser.parse_args(arguments)).items() if value is not None}
    preset = PAPER if given.pop("preset") == "paper" else {}
    config = Config(**{**preset, **given})
    if wrong := problems(config):
        parser.error("; ".join(wrong))
    return config


def problems(config: Config) -> list[str]:
    """What is wrong with the settings, found before any work starts."""
    least = {"phases": 0, "tasks_per_phase": 1, "max_steps": 1, "demonstrations": 1, "warmup_epochs": 0, "explorations": 1}
    least |= {"actor_epochs": 0, "value_epochs": 0, "potential_epochs": 0, "batch_size": 1, "replay": 0, "buffer": 1, "parallel": 1}
    found = [f"--{k.replace('_', '-')}: expected at least {v}, got {getattr(config, k)}" for k, v in least.items() if getattr(config, k) < v]
    shares = dict.fromkeys(("gamma", "td_weight", "milestone_share", "curriculum_share", "failed_share"), (0, 1))
    shares |= {"shaping_scale": (0, math.inf), "temperature": (1e-6, math.inf), "beta": (1e-6, math.inf)}
    for key, (low, high) in shares.items():
        if not low <= getattr(config, key) <= high:
            found.append(f"--{key.replace('_', '-')}: expected a number from {low:g} to {high:g}, got {getattr(config, key)}")
    for key, choices in {"optimizer": ("muon", "adamw"), "schedule": ("falling", "constant"), "checkpointing": ("auto", "on", "off")}.items():
        if getattr(config, key) not in choices:
            found.append(f"--{key}: expected one of {', '.join(choices)}, got {getattr(config, key)!r}")
    if not config.name or "/" in config.name or config.name.startswith("."):
        found.append(f"--name: expected a plain folder name, got {config.name!r}")
    if not Path(config.model).exists() and (config.model.count("/") != 1 or config.model.startswith((".", "/", "~"))):
        found.append(f"--model: there is no folder or file {config.model!r}, and a hub id looks like 'google/gemma-3-12b-it'")
    for key in ("tasks", "held_out"):
        try:
            load_tasks(getattr(config, key))
        except (OSError, ValueError) as error:
            found.append(f"--{key.replace('_', '-')}: {error}")
    return found

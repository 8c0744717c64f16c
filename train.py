"""MiRA from the supervised warm-up to the last phase: Algorithms 1 and 2, top to bottom.  (Sections 5.3, 5.4)

    python train.py --phases 6

One phase: play the phase's tasks with the current policy; label progress by the sub-goals that successful episodes
complete; train the value critic and the potential critic; estimate shaped advantages; regress the policy's log-ratio on
them; analyse the failures; draw the next phase's tasks by what failed; evaluate on held-out tasks.

Everything a run makes is under ``runs/<name>/``.  Each finished piece appears there in one move, so a run can be stopped at
any moment, and the same command goes on from the last finished piece, with the same random numbers.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import math
import os
import shutil
import sys
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Sequence

import numpy as np
import torch
import transformers
from tqdm import tqdm

import evaluation
from actor_loss import regression_loss
from advantage import doubly_robust_advantage, shaped_rewards
from critics import Critic, potential_loss, value_loss
from curriculum import ReplayBuffer, keep_moderate, perplexity, resample
from environment.browser import EnvironmentFailure
from environment.rollout import OraclePolicy, rollout
from environment.tasks import load_tasks, perturb
from language_model import LanguagePolicy, LocalModel
from progress_labels import progress_labels
from trajectory import Task, Trajectory, append_trajectories, format_action, read_trajectories, task_from_json


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
    tasks_per_phase: int = setting(64, "episodes collected in a phase; WebRL has 500, the paper does not say")
    max_steps: int = setting(16, "actions after which an episode ends; the paper keeps episodes under 15 steps (A.7), WebRL 30")
    temperature: float = setting(1.0, "of the rollouts (Table 6); evaluation is greedy")
    demonstrations: int = setting(600, "oracle episodes for the supervised warm-up that stands in for the SFT checkpoint")
    warmup_epochs: int = setting(2, "passes over the demonstrations")
    warmup_learning_rate: float = setting(2e-3, "of the warm-up; WebRL's SFT has 1e-5 at 8 B parameters")
    explorations: int = setting(48, "warm-up policy's episodes that the critics are warm-started on (section 5.3: 1,237 tasks)")
    shaping_scale: float = setting(0.3, "α of the shaped reward r + α(P' − P) (Table 7)")
    gamma: float = setting(1.0, "discount γ; Table 6 has 0.9, with V trained undiscounted: see the README")
    td_weight: float = setting(0.5, "λ of Eq. 10: 1 = TD error only, 0 = Monte-Carlo only; not reported, WebRL has 0.5")
    beta: float = setting(0.5, "β of Eq. 8, how closely π stays to π_ref; not reported")
    optimizer: str = setting("muon", "'muon' (matrices; AdamW for the rest) or 'adamw', as the paper's baselines have it")
    schedule: str = setting("falling", "learning rate over a phase's updates: 'falling' to 0 in a straight line, or 'constant' (Table 6)")
    actor_learning_rate: float = setting(1e-4, "Table 6 has 1e-6 at 12 B parameters")
    value_learning_rate: float = setting(3e-4, "Table 6 has 1e-6 at 12 B parameters")
    potential_learning_rate: float = setting(1e-3, "higher than the others' (A.4); Table 6 has 2e-5 at 12 B parameters")
    actor_epochs: int = setting(1, "passes a phase (Table 6)")
    value_epochs: int = setting(1, "passes a phase (Table 6)")
    potential_epochs: int = setting(3, "passes a phase (Table 6)")
    batch_size: int = setting(32, "states in an update; Table 6 has 128, for more episodes a phase")
    replay: int = setting(120, "earlier successes that join a phase's training; not reported")
    low_perplexity: float = setting(1.0, "actions below this are left out as too easy; Table 8 has 1/0.9, with which a model this small learns less")
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
    "gamma": 0.9,
    "optimizer": "adamw",
    "schedule": "constant",
    "batch_size": 128,
    "actor_learning_rate": 1e-6,
    "value_learning_rate": 1e-6,
    "potential_learning_rate": 2e-5,
    "low_perplexity": 1 / 0.9,
}


# --- Algorithm 2: the phases -------------------------------------------------------------------------------------------


def run(config: Config) -> Path:
    """The whole training; returns the run's folder."""
    folder = open_run(config)
    pool, held_out = load_tasks(config.tasks), load_tasks(config.held_out)
    buffer = ReplayBuffer(config.buffer)

    begin = time.time()
    shown = collect(config, None, draw(config, pool, config.demonstrations, "demonstrations"), folder / "phase-0" / "demonstrations.jsonl")
    policy = warm_up(config, folder / "phase-0", shown)
    buffer.add(shown)
    explored = collect(config, policy, draw(config, pool, config.explorations, "exploration"), folder / "phase-0" / "exploration.jsonl")
    value, potential = warm_start(config, folder / "phase-0", policy, explored)
    buffer.add(explored)
    report(config, folder, 0, policy, held_out, begin)

    tasks = draw(config, pool, config.tasks_per_phase, "phase-1")
    for phase in range(1, config.phases + 1):
        here, begin = folder / f"phase-{phase}", time.time()
        tasks = phase_tasks(here, tasks)
        episodes = collect(config, policy, tasks, here / "trajectories.jsonl")
        replayed = buffer.sample(config.replay, rng_of(config, here.name, "replay"))
        policy, value, potential = update(config, here, episodes, replayed, policy, value, potential)
        buffer.add(episodes)
        report(config, folder, phase, policy, held_out, begin)
        failed = [episode.task for episode in evaluation.judged(episodes) if not episode.success]
        held_out_ids = {task.task_id for task in held_out}
        can_perturb = perturb if pool[0].subgoal_checks else None
        tasks = resample(
            failed, pool, config.tasks_per_phase, rng_of(config, here.name, "tasks"), perturb=can_perturb, exclude=held_out_ids
        )
    return folder


def warm_up(config: Config, here: Path, demonstrations: list[Trajectory]) -> Path:
    """Supervised fine-tuning on the oracle's episodes: the checkpoint that the phases start from."""

    def make(folder: Path) -> None:
        model = load_for_training(LocalModel, config.model, config)
        data = [transition for episode in demonstrations for transition in encode(model, episode).transitions()]

        def loss(batch):
            log_p, _ = model.token_log_probs([prompt for prompt, _ in batch], [action for _, action in batch])
            return -log_p.sum(-1)

        fit(config, model.model, data, loss, epochs=config.warmup_epochs, rate=config.warmup_learning_rate, key="warm-up")
        model.save(folder)

    return piece(config, here / "policy", make)


def collect(config: Config, policy: Path | None, tasks: list[Task], file: Path) -> list[Trajectory]:
    """Play `tasks` with the policy in a folder (None: the oracle); episodes that `file` holds already are not played again."""
    known = {episode.task.task_id for episode in read_trajectories(file)} if file.exists() else set()
    missing = [task for task in tasks if task.task_id not in known]
    if missing:
        temperature = 0.0 if file.stem == "evaluation" else config.temperature
        seed = zlib.crc32(f"{config.seed}/{file.parent.name}/{file.stem}".encode())
        player = LanguagePolicy(load(LocalModel, policy, config), temperature=temperature, seed=seed) if policy else OraclePolicy()
        with tqdm(total=len(missing), desc=f"{file.parent.name} {file.stem}", leave=False) as bar:

            def done(_, episode: Trajectory) -> None:
                append_trajectories(file, [episode])
                bar.update()

            rollout(player, missing, max_steps=config.max_steps, parallel=config.parallel, headless=not config.headed, done=done)
    order = {task.task_id: index for index, task in enumerate(tasks)}
    return sorted(read_trajectories(file), key=lambda episode: order[episode.task.task_id])


def draw(config: Config, pool: list[Task], count: int, what: str) -> list[Task]:
    """`count` tasks of the pool, uniformly; each kind of draw has random numbers of its own."""
    return [pool[i] for i in rng_of(config, what).permutation(len(pool))[:count]]


# --- Algorithm 1: one offline update -------------------------------------------------------------------------------------


@dataclass
class Encoded:
    """An episode as token ids: T+1 states, T actions."""

    episode: Trajectory
    states: list[list[int]]
    actions: list[tuple[int, ...]]

    def transitions(self) -> list[tuple[list[int], tuple[int, ...]]]:
        return list(zip(self.states, self.actions))


def encode(model: LocalModel, episode: Trajectory) -> Encoded:
    """Prompts of s_0 … s_T and the actions' ids: as generated, or, for an oracle's action, as its text is tokenised."""
    intent, actions = episode.task.intent, episode.actions
    states = [model.prompt_ids(model.policy_prompt(intent, actions[:t], seen)) for t, seen in enumerate(episode.observations)]
    ids = [step.token_ids or model.reply_ids(format_action(step.action)) for step in episode.steps]
    return Encoded(episode, states, ids)


def update(config, here: Path, fresh, replayed, policy: Path, value: Path, potential: Path) -> tuple[Path, Path, Path]:
    """Algorithm 1: critics, shaped rewards, advantages, actor; one model at a time on the device."""
    fresh, replayed = evaluation.judged(fresh), evaluation.judged(replayed)
    encoder = load(LocalModel, policy, config)
    data = [encode(encoder, episode) for episode in [*fresh, *replayed] if episode.steps]
    del encoder
    value = train_value(config, here / "value", value, data)
    potential = train_potential(config, here / "potential", potential, data)

    def make(folder: Path) -> None:
        V = predict(config, value, data)
        P = predict(config, potential, data)
        A = [advantages(config, d.episode, v, p) for d, v, p in zip(data, V, P)]
        model = load_for_training(LocalModel, policy, config)
        transitions = [pair for d in data for pair in d.transitions()]
        log_ref, ppl = reference(config, model, transitions)  # π_ref is the policy at the phase's start
        kept = keep_moderate(ppl, config.low_perplexity, config.high_perplexity)
        samples = [(*pair, r, a) for pair, r, a, keep in zip(transitions, log_ref, np.concatenate(A), kept) if keep]

        def loss(batch):
            prompts, actions, log_pi_ref, advantage = zip(*batch)
            log_pi = model.token_log_probs(prompts, actions)[0].sum(-1)
            targets = torch.tensor([log_pi_ref, advantage], device=model.device, dtype=torch.float32)
            return regression_loss(log_pi, *targets, beta=config.beta)

        mean = fit(
            config, model.model, samples, loss, epochs=config.actor_epochs, rate=config.actor_learning_rate, key=f"{here.name} actor"
        )
        model.save(folder)
        write_losses(folder, {"actor_loss": mean, "kept": float(kept.mean())})

    return piece(config, here / "policy", make), value, potential


def advantages(config: Config, episode: Trajectory, value: np.ndarray, potential: np.ndarray) -> np.ndarray:
    """[T]: Eq. 10 on the shaped rewards of one episode."""
    value = np.append(value[:-1], 0.0)  # nothing comes after the end
    shaped = shaped_rewards(episode.rewards, potential, shaping_scale=config.shaping_scale)
    return doubly_robust_advantage(shaped, value, gamma=config.gamma, td_weight=config.td_weight)


def train_value(config: Config, target: Path, start: Path, data: list[Encoded]) -> Path:
    """V on the outcome of every episode, from each of its states (§5.3)."""
    samples = [(state, float(d.episode.success)) for d in data for state in d.states[:-1]]
    return train_critic(config, target, start, samples, value_loss, config.value_epochs, config.value_learning_rate)


def train_potential(config: Config, target: Path, start: Path, data: list[Encoded]) -> Path:
    """P on the progress labels of the successful episodes only (§5.3)."""
    samples = [
        (state, label)
        for d in data
        if d.episode.success
        for state, label in zip(d.states, progress_labels(np.array(d.episode.z)))
    ]

    def loss(logit, label):
        return potential_loss(logit.sigmoid(), label)

    return train_critic(config, target, start, samples, loss, config.potential_epochs, config.potential_learning_rate)


def train_critic(config, target: Path, start: Path, samples, loss_of, epochs: int, rate: float) -> Path:
    def make(folder: Path) -> None:
        critic = load_for_training(Critic, start, config)

        def loss(batch):
            states, labels = zip(*batch)
            return loss_of(critic(states), torch.tensor(labels, device=critic.tokens.device))

        key = f"{target.parent.name} {target.name}"
        mean = fit(config, critic, samples, loss, epochs=epochs, rate=rate, key=key)
        critic.save(folder)
        write_losses(folder, {f"{target.name}_loss": mean})

    return piece(config, target, make)


def warm_start(config: Config, here: Path, policy: Path, explored: list[Trajectory]) -> tuple[Path, Path]:
    """Both critics before the first phase, on what the warm-up policy did when it explored (section 5.3)."""
    model = load(LocalModel, policy, config)
    data = [encode(model, episode) for episode in evaluation.judged(explored) if episode.steps]
    return train_value(config, here / "value", policy, data), train_potential(config, here / "potential", policy, data)


@torch.no_grad()
def predict(config: Config, critic: Path, data: list[Encoded]) -> list[np.ndarray]:
    """sigmoid(logit) for every state: a [T+1] array an episode."""
    critic = load(Critic, critic, config).eval()
    states = [state for d in data for state in d.states]
    found = np.zeros(len(states), np.float32)
    for part in micro_batches(config, range(len(states)), states):
        found[part] = critic([states[i] for i in part]).sigmoid().cpu().numpy()
    return np.split(found, np.cumsum([len(d.states) for d in data])[:-1])


@torch.no_grad()
def reference(config: Config, model: LocalModel, transitions) -> tuple[np.ndarray, np.ndarray]:
    """log π_ref(a|s), summed over the action's tokens, and each action's perplexity: computed once a phase."""
    model.model.eval()
    log_ref, ppl = np.zeros(len(transitions)), np.zeros(len(transitions))
    for part in micro_batches(config, range(len(transitions)), [state for state, _ in transitions]):
        log_p, mask = model.token_log_probs(*zip(*[transitions[i] for i in part]))
        log_ref[part], ppl[part] = log_p.sum(-1).cpu(), perplexity(log_p, mask).cpu()
    return log_ref, ppl


# --- optimisation --------------------------------------------------------------------------------------------------------


def fit(config: Config, module, samples: Sequence, loss_of: Callable, *, epochs: int, rate: float, key: str) -> float:
    """Gradient steps over shuffled batches; returns the mean loss of the last epoch (NaN without samples).

    samples   tuples that begin with a prompt's token ids
    loss_of   list of samples -> per-sample losses

    A batch goes through in micro-batches of like length.  Their losses are summed over samples and divided by the batch's
    size, so the gradient does not depend on how the batch was cut.
    """
    if not samples:
        return math.nan
    optimizers = make_optimizers(module, rate, config.optimizer)
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    peaks = [group["lr"] for group in groups]
    rng, module = rng_of(config, key), module.train()
    total = math.nan
    with tqdm(total=epochs * len(samples), desc=key, leave=False) as bar:
        for epoch in range(epochs):
            order, total = rng.permutation(len(samples)), 0.0
            batches = np.array_split(order, math.ceil(len(order) / config.batch_size))
            for step, batch in enumerate(batches):
                done = (epoch + step / len(batches)) / epochs
                for group, peak in zip(groups, peaks):
                    group["lr"] = peak * (1 - done if config.schedule == "falling" else 1)
                for part in micro_batches(config, batch, [samples[i][0] for i in batch]):
                    loss = loss_of([samples[i] for i in part]).sum()
                    (loss / len(batch)).backward()
                    total += float(loss.detach())
                    bar.update(len(part))
                torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)  # Table 6
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
    return total / len(samples)


def make_optimizers(module, rate: float, kind: str) -> list[torch.optim.Optimizer]:
    """"adamw": AdamW on everything.  "muon": Muon on the matrices at ten times `rate`, AdamW on embeddings, norms and heads.

    At the pocket model's size Muon learns more from as many samples than AdamW does at its best rate.
    """
    if kind == "adamw":
        return [torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=0.0)]
    is_matrix = {name: p.ndim == 2 and "embed" not in name and "head" not in name for name, p in module.named_parameters()}
    matrices = [p for name, p in module.named_parameters() if is_matrix[name]]
    rest = [p for name, p in module.named_parameters() if not is_matrix[name]]
    return [torch.optim.Muon(matrices, lr=10 * rate, weight_decay=0.0), torch.optim.AdamW(rest, lr=rate, weight_decay=0.0)]


def micro_batches(config: Config, indices: Sequence[int], prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """`indices` grouped by the length of their prompts, each group at most `micro_batch_tokens` with padding."""
    groups: list[list[int]] = []
    for length, index in sorted(zip(map(len, prompts), indices)):
        if not groups or length * (len(groups[-1]) + 1) > config.micro_batch_tokens:
            groups.append([])
        groups[-1].append(int(index))
    return groups


def load(kind, source, config: Config):
    """A `LocalModel` or a `Critic`, once the models before it are gone from the device."""
    gc.collect()
    return kind.load(source, config.device or None)


def load_for_training(kind, source, config: Config):
    loaded = load(kind, source, config)
    model = loaded.model if kind is LocalModel else loaded.tokens.model
    if config.checkpointing == "on" or (config.checkpointing == "auto" and model.num_parameters() >= 100e6):
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return loaded


# --- the run's folder ------------------------------------------------------------------------------------------------------


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
    """Beside the weights, so that a run that goes on reports what it would have reported."""
    write(folder / "losses.json", json.dumps(losses))


def phase_tasks(here: Path, tasks: list[Task]) -> list[Task]:
    """The phase's tasks, written down so that a look at the folder shows what the curriculum chose."""
    file = here / "tasks.jsonl"
    if not file.exists():
        here.mkdir(parents=True, exist_ok=True)
        write(file, "".join(f"{json.dumps(dataclasses.asdict(task))}\n" for task in tasks))
    return [task_from_json(json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def report(config: Config, folder: Path, phase: int, policy: Path, held_out: list[Task], begin: float) -> None:
    """Evaluate greedily on the held-out tasks; one line on the screen and in ``metrics.jsonl``."""
    here = folder / f"phase-{phase}"
    episodes = collect(config, policy, held_out, here / "evaluation.jsonl")
    record = {"phase": phase, **evaluation.summary(episodes)}
    for made in sorted(here.glob("*/losses.json")):
        record |= json.loads(made.read_text(encoding="utf-8"))
    if (here / "trajectories.jsonl").exists():
        record["train_success"] = evaluation.success(read_trajectories(here / "trajectories.jsonl")).rate
    record["seconds"] = time.time() - begin
    file = folder / "metrics.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    if len(lines) <= phase:
        write(file, "\n".join([*lines[:phase], json.dumps(record)]) + "\n")
    print(phase_line(json.loads(file.read_text(encoding="utf-8").splitlines()[phase])), flush=True)


def phase_line(record: dict) -> str:
    modes = "  ".join(f"{mode} {share:.0%}" for mode, share in record["failure_modes"].items())
    losses = "  ".join(f"{key[:-5]} {record[key]:.3f}" for key in ("value_loss", "potential_loss", "actor_loss") if key in record)
    low, high = record["interval"]
    return (
        f"phase {record['phase']}  success {record['success']:.1%} [{low:.0%}, {high:.0%}]  failures: {modes}"
        f"{'  losses: ' + losses if losses else ''}  {record['seconds']:.0f} s"
    )


# --- the command line --------------------------------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None = None) -> Config:
    usage = "python train.py [--setting value ...]   (--help lists them)"
    parser = argparse.ArgumentParser(usage=usage, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
    shares = {"gamma": (0, 1), "td_weight": (0, 1), "shaping_scale": (0, math.inf), "temperature": (1e-6, math.inf), "beta": (1e-6, math.inf)}
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


def main() -> None:
    config = parse()
    transformers.utils.logging.disable_progress_bar()
    try:
        folder = run(config)
        from experiments.figures import write_report

        write_report(folder)
    except (ValueError, OSError, EnvironmentFailure) as error:
        sys.exit(f"train.py: {error}")
    except KeyboardInterrupt:
        sys.exit(f"\nstopped; `python train.py {' '.join(sys.argv[1:])}` goes on from the last finished piece")


if __name__ == "__main__":
    main()

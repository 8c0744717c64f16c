"""MiRA from the supervised warm-up to the last phase: Algorithms 1 and 2, top to bottom.  (Sections 5.3, 5.4)

    python train.py --phases 6

One phase: play the phase's tasks with the current policy; estimate shaped advantages; regress the policy's log-ratio on them;
label progress by the sub-goals that successful episodes complete; train the value critic and the potential critic; evaluate on
held-out tasks; draw the next phase's tasks, half of them by what failed.

Everything a run makes is under ``runs/<name>/``.  Each finished piece appears there in one move, so a run can be stopped at
any moment, and the same command goes on from the last finished piece, with the same random numbers.
"""

from __future__ import annotations

import gc
import json
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
from curriculum import ReplayBuffer, keep_moderate, perplexity, resample, within_reach
from environment.browser import EnvironmentFailure
from environment.rollout import OraclePolicy, rollout
from environment.tasks import load_tasks, perturb
from language_model import LanguagePolicy, LocalModel, checkpoint_activations
from milestoning import checklist
from optimisation import fit, micro_batches
from progress_labels import latch, progress_labels
from run_folder import open_run, phase_tasks, piece, rng_of, write, write_losses
from settings import Config, parse
from trajectory import Task, Trajectory, append_trajectories, format_action, read_trajectories


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
    known = {episode.task.task_id for episode in shown}
    pool = [task for task in pool if task.task_id not in known] or pool  # what was demonstrated has little left to teach
    explored = collect(config, policy, draw(config, pool, config.explorations, "exploration"), folder / "phase-0" / "exploration.jsonl")
    value, potential = warm_start(config, folder / "phase-0", policy, explored, shown[: config.explorations])
    buffer.add(explored)
    report(config, folder, 0, policy, held_out, begin)

    solved = [episode.task for episode in explored if episode.success]
    tasks = draw(config, pool, config.tasks_per_phase, "phase-1")
    for phase in range(1, config.phases + 1):
        here, begin = folder / f"phase-{phase}", time.time()
        tasks = phase_tasks(here, tasks)
        episodes = collect(config, policy, tasks, here / "trajectories.jsonl")
        replayed = buffer.sample(config.replay, rng_of(config, here.name, "replay"))
        policy, value, potential = update(config, here, episodes, replayed, policy, value, potential)
        buffer.add(episodes)
        report(config, folder, phase, policy, held_out, begin)
        solved += [episode.task for episode in episodes if episode.success]
        failed = [episode.task for episode in evaluation.judged(episodes) if not episode.success]
        tasks = next_tasks(config, phase, failed, solved, pool, held_out)
    return folder


def warm_up(config: Config, here: Path, demonstrations: list[Trajectory]) -> Path:
    """Supervised fine-tuning on the oracle's episodes: the checkpoint that the phases start from."""

    def make(folder: Path) -> None:
        model = load_for_training(LocalModel, config.model, config)
        model.model.config.knows_milestones = config.milestone_share > 0
        data = [pair for d in encode_all(model, demonstrations, milestones(config, "warm-up")) for pair in d.transitions()]

        def loss(batch):
            log_p, _ = model.token_log_probs([prompt for prompt, _ in batch], [action for _, action in batch])
            return -log_p.sum(-1)

        optimise(config, model.model, data, loss, epochs=config.warmup_epochs, rate=config.warmup_learning_rate, key="warm-up")
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


def next_tasks(config: Config, phase: int, failed: list[Task], solved: list[Task], pool: list[Task], held_out: list[Task]) -> list[Task]:
    """A share by what failed and is within reach, the rest from the whole pool: what is out of reach today may not be for long."""
    by_failure = resample(
        within_reach(failed, solved),
        pool,
        round(config.curriculum_share * config.tasks_per_phase),
        rng_of(config, f"phase-{phase}", "tasks"),
        perturb=perturb if pool[0].subgoal_checks else None,
        exclude={task.task_id for task in held_out},
    )
    drawn = {task.task_id for task in by_failure}
    others = [task for task in pool if task.task_id not in drawn]
    return by_failure + draw(config, others, config.tasks_per_phase - len(by_failure), f"phase-{phase + 1}")


def draw(config: Config, pool: list[Task], count: int, what: str) -> list[Task]:
    """`count` tasks of the pool, uniformly; each kind of draw has random numbers of its own."""
    return [pool[i] for i in rng_of(config, what).permutation(len(pool))[:count]]


# --- Algorithm 1: one offline update -------------------------------------------------------------------------------------


@dataclass
class Encoded:
    """An episode as token ids: T+1 states (the critics'), T prompts (the policy's), T actions."""

    episode: Trajectory
    states: list[list[int]]
    prompts: list[list[int]]
    actions: list[tuple[int, ...]]

    def transitions(self) -> list[tuple[list[int], tuple[int, ...]]]:
        return list(zip(self.prompts, self.actions))


def encode(model: LocalModel, episode: Trajectory, shown: Callable[[], bool] = lambda: False) -> Encoded:
    """The states s_0 … s_T with milestones and z_t beside the page, the prompts that the actions answered, and the actions' ids:
    as generated, or, for an oracle's action, as its text is tokenised.

    shown   asked at each step whether its prompt, too, shows the milestones and z_t
    """
    task, actions, observations = episode.task, episode.actions, episode.observations

    def ids(t: int, plan: str = "") -> list[int]:
        return model.prompt_ids(model.policy_prompt(task.intent, actions[:t], observations[t], plan))

    z = latch(episode.z) if task.subgoals else episode.z
    states = [ids(t, checklist(task.subgoals, z[t])) for t in range(len(observations))]
    prompts = [states[t] if shown() else ids(t) for t in range(len(actions))]
    replies = [step.token_ids or model.reply_ids(format_action(step.action)) for step in episode.steps]
    return Encoded(episode, states, prompts, replies)


def encode_all(model: LocalModel, episodes: Sequence[Trajectory], shown: Callable[[], bool] = lambda: False) -> list[Encoded]:
    """The episodes that say something: at least one action, and not broken off by the environment."""
    return [encode(model, episode, shown) for episode in evaluation.judged(episodes) if episode.steps]


def milestones(config: Config, *key: str) -> Callable[[], bool]:
    """Draws, step after step, whether the prompt shows milestones, so that one policy serves with and without.  (Section 5.2)"""
    rng = rng_of(config, *key, "milestones")
    return lambda: rng.random() < config.milestone_share


def update(config, here: Path, fresh, replayed, policy: Path, value: Path, potential: Path) -> tuple[Path, Path, Path]:
    """Algorithm 1: shaped rewards, advantages, actor, and then the critics; one model at a time on the device.

    The critics that judge this phase's episodes are those that have not seen them.  At this size a critic that has been
    trained on an episode knows its outcome by heart: V is then the outcome itself, and of the advantages little is left.
    """
    encoder = load(LocalModel, policy, config)
    own, earlier = encode_all(encoder, fresh), encode_all(encoder, replayed, milestones(config, here.name))
    del encoder
    rng = rng_of(config, here.name, "failed")
    data = [d for d in own if d.episode.success or rng.random() < config.failed_share] + earlier

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

        key = f"{here.name} actor"
        mean = optimise(config, model.model, samples, loss, epochs=config.actor_epochs, rate=config.actor_learning_rate, key=key)
        model.save(folder)
        write_losses(folder, {"actor_loss": mean, "kept": float(kept.mean())})

    improved = piece(config, here / "policy", make)
    return improved, train_value(config, here / "value", value, own), train_potential(config, here / "potential", potential, own)


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
        mean = optimise(config, critic, samples, loss, epochs=epochs, rate=rate, key=key)
        critic.save(folder)
        write_losses(folder, {f"{target.name}_loss": mean})

    return piece(config, target, make)


def warm_start(config: Config, here: Path, policy: Path, explored, shown) -> tuple[Path, Path]:
    """Both critics before the first phase, on what the warm-up policy did when it explored (section 5.3).

    P learns from successes only, which are few so early, so it sees some demonstrations too.
    """
    model = load(LocalModel, policy, config)
    own = encode_all(model, explored)
    value = train_value(config, here / "value", policy, own)
    return value, train_potential(config, here / "potential", policy, [*own, *encode_all(model, shown)])


@torch.no_grad()
def predict(config: Config, critic: Path, data: list[Encoded]) -> list[np.ndarray]:
    """sigmoid(logit) for every state: a [T+1] array an episode."""
    critic = load(Critic, critic, config).eval()
    states = [state for d in data for state in d.states]
    found = np.zeros(len(states), np.float32)
    for part in micro_batches(range(len(states)), states, config.micro_batch_tokens):
        found[part] = critic([states[i] for i in part]).sigmoid().cpu().numpy()
    return np.split(found, np.cumsum([len(d.states) for d in data])[:-1])


@torch.no_grad()
def reference(config: Config, model: LocalModel, transitions) -> tuple[np.ndarray, np.ndarray]:
    """log π_ref(a|s), summed over the action's tokens, and each action's perplexity: computed once a phase."""
    model.model.eval()
    log_ref, ppl = np.zeros(len(transitions)), np.zeros(len(transitions))
    for part in micro_batches(range(len(transitions)), [state for state, _ in transitions], config.micro_batch_tokens):
        log_p, mask = model.token_log_probs(*zip(*[transitions[i] for i in part]))
        log_ref[part], ppl[part] = log_p.sum(-1).cpu(), perplexity(log_p, mask).cpu()
    return log_ref, ppl


def optimise(config: Config, module, samples: Sequence, loss_of: Callable, *, epochs: int, rate: float, key: str) -> float:
    """`fit` with the run's settings."""
    return fit(
        module,
        samples,
        loss_of,
        rng_of(config, key),
        epochs=epochs,
        rate=rate,
        batch_size=config.batch_size,
        micro_batch_tokens=config.micro_batch_tokens,
        optimizer=config.optimizer,
        schedule=config.schedule,
        what=key,
    )


def load(kind, source, config: Config):
    """A `LocalModel` or a `Critic`, once the models before it are gone from the device."""
    gc.collect()
    return kind.load(source, config.device or None)


def load_for_training(kind, source, config: Config):
    loaded = load(kind, source, config)
    model = loaded.model if kind is LocalModel else loaded.tokens.model
    if config.checkpointing == "on" or (config.checkpointing == "auto" and model.num_parameters() >= 100e6):
        checkpoint_activations(model)
    return loaded


# --- what the user sees ---------------------------------------------------------------------------------------------------


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


def main() -> None:
    config = parse(description=__doc__)
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

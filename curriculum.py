"""What does the agent train on in the next phase?  (Sections 5.4, A.3, A.6; Algorithm 2)

Between two phases the curriculum does three things:

1. it keeps the transitions that the current actor finds neither too easy nor too strange (`perplexity`,
   `keep_moderate`);
2. it remembers what succeeded, over all phases (`ReplayBuffer`);
3. it draws the next phase's tasks by what failed in this one (`resample`): tasks of the pool that resemble a failure,
   and, where the pool has too few of those, the failure itself, perturbed.

Departures.  The paper leaves the judgement of similarity to Gemini-2.5-flash; the default here is the cosine of TF-IDF
vectors, which needs no model, and any other is passed in as a callable.  Appendix A.3 speaks of a moving upper threshold
on perplexity, appendix A.6 of the fixed band [1/0.9, 1/0.5]; we take the band, the one that comes with numbers (Table 8).
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Callable, Collection, Iterable, Iterator, Sequence

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from trajectory import Task, Trajectory, append_trajectories, read_trajectories, trajectory_to_json

Array = np.ndarray | torch.Tensor
Similarity = Callable[[Sequence[str], Sequence[str]], np.ndarray]  # Q queries, D documents -> [Q, D], higher = closer

# --- the perplexity filter --------------------------------------------------------------------------------------


def perplexity(token_log_probs: Array, mask: Array) -> Array:
    """ppl_b = exp(−(1/N_b) Σ_n log π(w_n | s, w_<n)), the mean over the action's own tokens    §5.4, A.6

    token_log_probs  [B, N]  log-probability of each token under the current actor
    mask             [B, N]  true on the N_b tokens of the action; prompt and padding count for nothing, whatever they hold
    returns          [B]     1 for an action the actor is sure of; inf where the exponential overflows or a token is
                             impossible; NaN for a row without tokens.  `keep_moderate` drops both.

    One row is one action, so it is *transitions* that are filtered: an episode keeps its uncertain steps and loses its
    routine ones.  To filter whole episodes, put all of an episode's action tokens into one row.

    >>> perplexity(np.log([[0.5, 0.5, 1.0]]), np.array([[True, True, False]]))
    array([2.])
    """
    if token_log_probs.ndim != 2 or token_log_probs.shape != mask.shape:
        got = f"{tuple(token_log_probs.shape)} and {tuple(mask.shape)}"
        raise ValueError(f"expected token_log_probs and mask of one shape [B, N], got {got}")
    if isinstance(token_log_probs, torch.Tensor):
        # half precision would overflow at a mean of 11 nats and round the band's edges away
        log_probs = token_log_probs.to(torch.promote_types(token_log_probs.dtype, torch.float32))
        kept = mask.bool()
        return torch.exp(-torch.where(kept, log_probs, 0.0).sum(-1) / kept.sum(-1))
    kept = mask.astype(bool)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        total = np.where(kept, token_log_probs, 0.0).sum(-1)  # where, not a product: 0 · -inf would be NaN
        return np.exp(-total / kept.sum(-1))


def keep_moderate(perplexity: Array, low: float = 1 / 0.9, high: float = 1 / 0.5) -> Array:
    """low ≤ ppl ≤ high    A.6, Table 8: [1/0.9, 1/0.5] is the band of borderline-difficult data

    perplexity  any shape; NaN and inf are never kept
    returns     bool mask of the same shape and kind

    >>> keep_moderate(np.array([1.0, 1.5, 2.0, 2.5]))
    array([False,  True,  True, False])
    """
    if not low <= high:
        raise ValueError(f"expected low <= high, got low={low}, high={high}")
    return (perplexity >= low) & (perplexity <= high)


# --- the replay buffer ------------------------------------------------------------------------------------------


class ReplayBuffer:
    """The successes of all phases, oldest first; when it is full the oldest leave (Algorithm 2).

    capacity   in episodes.  100,000 is DigiRL's in Table 6; the paper gives none for MiRA.

    An episode that is already here does not come in again, so that a phase which is run a second time after a crash
    leaves no doubles, and easy tasks, solved the same way in each phase, do not crowd out the others.
    """

    def __init__(self, capacity: int = 100_000):
        if capacity < 1:
            raise ValueError(f"expected a capacity of at least 1, got {capacity}")
        self.capacity = capacity
        self._episodes: dict[str, Trajectory] = {}  # by fingerprint, in order of arrival

    def __len__(self) -> int:
        return len(self._episodes)

    def __iter__(self) -> Iterator[Trajectory]:
        return iter(self._episodes.values())

    def add(self, trajectories: Iterable[Trajectory]) -> int:
        """Take in the successes among `trajectories` that are not here yet; returns how many."""
        added = 0
        for trajectory in trajectories:
            key = fingerprint(trajectory)
            if not trajectory.success or key in self._episodes:
                continue
            self._episodes[key] = trajectory
            added += 1
            if len(self._episodes) > self.capacity:
                del self._episodes[next(iter(self._episodes))]
        return added

    def sample(self, n: int, rng: np.random.Generator) -> list[Trajectory]:
        """`n` different episodes, uniformly; all of them, in random order, where there are no more than `n`."""
        if n < 0:
            raise ValueError(f"expected n >= 0, got {n}")
        episodes = list(self)
        return [episodes[i] for i in rng.permutation(len(episodes))[:n]]

    def save(self, path: str | Path) -> None:
        """Write all episodes to a JSON Lines file, which is replaced in one move: a crash leaves the old one whole."""
        path = Path(path)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        unfinished.unlink(missing_ok=True)
        append_trajectories(unfinished, self)
        os.replace(unfinished, path)

    @classmethod
    def load(cls, path: str | Path, capacity: int = 100_000) -> ReplayBuffer:
        """The buffer that `save` wrote.  No file is a ``FileNotFoundError``: it never comes back silently empty."""
        buffer = cls(capacity)
        buffer.add(read_trajectories(path))
        return buffer


def fingerprint(trajectory: Trajectory) -> str:
    """Equal for equal episodes.  log π at sampling is left out: it changes with the weights, the episode does not."""
    record = trajectory_to_json(trajectory)
    for step in record["steps"]:
        del step["log_prob"]
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


# --- the next phase's tasks -------------------------------------------------------------------------------------


def tfidf_similarity(queries: Sequence[str], documents: Sequence[str]) -> np.ndarray:
    """[Q, D] cosines in [0, 1] of TF-IDF vectors over words and pairs of words: the offline stand-in for a judge.

    >>> tfidf_similarity(["open the issue"], ["open the issue", "buy a lamp"]).round(2)
    array([[1., 0.]])
    """
    if not len(queries) or not len(documents):
        return np.zeros((len(queries), len(documents)))
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\w+|[^\w\s]+", sublinear_tf=True)
    vectorizer.fit([*documents, *queries])
    return (vectorizer.transform(queries) @ vectorizer.transform(documents).T).toarray()


def within_reach(
    failed: Sequence[Task],
    solved: Sequence[Task],
    *,
    similarity: Similarity = tfidf_similarity,
    min_similarity: float = 0.15,
) -> list[Task]:
    """The failures that resemble a task of their own site which the policy has solved, in the order given.

    §5.4 wants tasks at the frontier of what the policy can do.  Failures alone lead past it: the kinds of task that never
    succeed fail most often, and phase by phase fill the task set, until hardly an episode succeeds.  WebRL leaves out new
    tasks to which its critic gives less than a chance of 0.05; a likeness among the solved tasks needs no page to look at.

    solved          tasks of the policy's own successful episodes, demonstrations not among them
    min_similarity  as in `resample`
    """
    close = _scores(failed, solved, similarity) >= min_similarity
    return [task for task, near in zip(failed, (close & _same_site(failed, solved)).any(1)) if near]


def resample(
    failed: Sequence[Task],
    pool: Sequence[Task],
    n: int,
    rng: np.random.Generator,
    *,
    perturb: Callable[[Task, np.random.Generator], Task] | None = None,
    exclude: Collection[str] = (),
    similarity: Similarity = tfidf_similarity,
    min_similarity: float = 0.15,
    min_coverage: int = 3,
) -> list[Task]:
    """The next phase's task set: at most `n` different tasks, drawn by the failures of this phase (Algorithm 2, A.3).

    The failures take turns, in random order, so that the new set is spread over kinds of task as the failures are and
    not as the pool is.  At its turn, a failure brings in a pool task of its own site, with a chance in proportion to
    their similarity.  Where the pool has fewer than `min_coverage` tasks of that site with at least `min_similarity`
    (appendix A.3's sparse categories, such as Map), it brings in a perturbation of itself instead.

    perturb         (task, rng) -> a new variant of the task; without it, or when it has nothing new, the pool's nearest
                    unused tasks stand in, of whatever site
    exclude         ids that must not be drawn: the evaluation tasks, say.  Perturbations are held to it too
    similarity      (queries, documents) -> [Q, D], over intents
    min_similarity  at 0.15 of the TF-IDF cosine, two thirds of the bundled tasks' pairs of one template are let in, and
                    two thirds of what is let in are such pairs; set it anew for another similarity

    Without failures the tasks are drawn uniformly.  Fewer than `n` come back only when the pool is used up and nothing
    can be perturbed.  The same `rng` state gives the same tasks.
    """
    if n < 0:
        raise ValueError(f"expected n >= 0, got {n}")
    exclude = set(exclude)
    pool = [task for task in pool if task.task_id not in exclude]
    if not failed:
        return [pool[i] for i in rng.permutation(len(pool))[:n]]
    scores = _scores(failed, pool, similarity)
    close = _same_site(failed, pool) & (scores >= min_similarity)
    covered = close.sum(1) >= min_coverage
    free = np.ones(len(pool), bool)
    chosen: dict[str, Task] = {}
    while len(chosen) < n:
        before = len(chosen)
        for f in rng.permutation(len(failed))[: n - len(chosen)]:
            task = None
            if perturb is not None and not (covered[f] and (free & close[f]).any()):
                task = _variant(failed[f], perturb, rng, {*exclude, *chosen, *(p.task_id for p in pool)})
            if task is None:
                task = _draw(pool, free, close[f], scores[f], rng)
            if task is not None:
                chosen[task.task_id] = task
        if len(chosen) == before:  # the pool is used up, and no failure has a new variant left
            break
    return list(chosen.values())


def _scores(failed: Sequence[Task], pool: Sequence[Task], similarity: Similarity) -> np.ndarray:
    scores = np.asarray(similarity([task.intent for task in failed], [task.intent for task in pool]), float)
    if scores.shape != (len(failed), len(pool)):
        raise ValueError(f"expected a similarity of shape {(len(failed), len(pool))}, got {scores.shape}")
    return scores


def _same_site(failed: Sequence[Task], pool: Sequence[Task]) -> np.ndarray:
    return np.array([[f.sites == p.sites for p in pool] for f in failed], bool).reshape(len(failed), len(pool))


def _draw(pool, free, close, scores, rng) -> Task | None:
    """An unused task of the pool, in proportion to its score: a close one if there is any.  It is then used."""
    candidates = np.flatnonzero(free & close if (free & close).any() else free)
    if not len(candidates):
        return None
    weights = np.clip(scores[candidates], 0, None)
    index = rng.choice(candidates, p=weights / weights.sum() if weights.sum() > 0 else None)
    free[index] = False
    return pool[index]


def _variant(task: Task, perturb, rng, taken: Collection[str], attempts: int = 5) -> Task | None:
    """A perturbation of `task` with an id of its own, or None when `attempts` brought none."""
    for _ in range(attempts):
        variant = perturb(task, rng)
        if variant.task_id not in taken and variant.task_id != task.task_id:
            return variant
    return None

"""How is a loss minimised?  Shuffled batches, micro-batches of like length, Muon or AdamW.  (Table 6)

One loop serves the warm-up, both critics and the actor; what differs is the loss and the samples.
"""

from __future__ import annotations

import math
from typing import Callable, Sequence

import numpy as np
import torch
from tqdm import tqdm


def fit(
    module: torch.nn.Module,
    samples: Sequence,
    loss_of: Callable,
    rng: np.random.Generator,
    *,
    epochs: int,
    rate: float,
    batch_size: int,
    micro_batch_tokens: int,
    optimizer: str = "muon",
    schedule: str = "falling",
    what: str = "training",
) -> float:
    """Gradient steps over shuffled batches; returns the mean loss of the last epoch (NaN without samples).

    samples     tuples that begin with a prompt's token ids
    loss_of     list of samples -> per-sample losses
    rng         shuffles each epoch
    rate        learning rate of AdamW; see `make_optimizers`
    schedule    "falling": in a straight line to 0 over all updates; "constant"
    what        the progress bar's name

    A batch goes through in micro-batches of like length.  Their losses are summed over samples and divided by the batch's
    size, so the gradient does not depend on how the batch was cut.  Its norm is cut to 1 (Table 6).
    """
    if not samples:
        return math.nan
    optimizers = make_optimizers(module, rate, optimizer)
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    peaks = [group["lr"] for group in groups]
    module, total = module.train(), math.nan
    with tqdm(total=epochs * len(samples), desc=what, leave=False) as bar:
        for epoch in range(epochs):
            order, total = rng.permutation(len(samples)), 0.0
            batches = np.array_split(order, math.ceil(len(order) / batch_size))
            for step, batch in enumerate(batches):
                done = (epoch + step / len(batches)) / epochs
                for group, peak in zip(groups, peaks):
                    group["lr"] = peak * (1 - done if schedule == "falling" else 1)
                for part in micro_batches(batch, [samples[i][0] for i in batch], micro_batch_tokens):
                    loss = loss_of([samples[i] for i in part]).sum()
                    (loss / len(batch)).backward()
                    total += float(loss.detach())
                    bar.update(len(part))
                torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad()
    return total / len(samples)


def micro_batches(indices: Sequence[int], prompts: Sequence[Sequence[int]], tokens: int) -> list[list[int]]:
    """`indices` grouped by the length of their prompts, each group at most `tokens` with padding.

    >>> micro_batches([7, 8, 9], [[1, 2, 3], [1], [1, 2]], tokens=4)
    [[8, 9], [7]]
    """
    groups: list[list[int]] = []
    for length, index in sorted(zip(map(len, prompts), indices)):
        if not groups or length * (len(groups[-1]) + 1) > tokens:
            groups.append([])
        groups[-1].append(int(index))
    return groups


def make_optimizers(module: torch.nn.Module, rate: float, kind: str) -> list[torch.optim.Optimizer]:
    """"adamw": AdamW on everything.  "muon": Muon on the matrices at ten times `rate`, AdamW on embeddings, norms and heads.

    At the pocket model's size Muon learns more from as many samples than AdamW does at its best rate.
    """
    if kind == "adamw":
        return [torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=0.0)]
    is_matrix = {name: p.ndim == 2 and "embed" not in name and "head" not in name for name, p in module.named_parameters()}
    matrices = [p for name, p in module.named_parameters() if is_matrix[name]]
    rest = [p for name, p in module.named_parameters() if not is_matrix[name]]
    return [Muon(matrices, lr=10 * rate), torch.optim.AdamW(rest, lr=rate, weight_decay=0.0)]


class Muon(torch.optim.Optimizer):
    """W ← W − lr √max(1, rows/columns) · orthogonal(momentum)    Jordan et al. 2024

    As ``torch.optim.Muon``, but in the weights' own precision: torch's computes in bfloat16, which many CPUs only emulate.
    """

    def __init__(self, matrices, *, lr: float, momentum: float = 0.95):
        super().__init__(matrices, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                average = self.state[p].setdefault("average", torch.zeros_like(p))
                average.lerp_(p.grad, 1 - group["momentum"])
                direction = orthogonal(p.grad.lerp(average, group["momentum"]))  # Nesterov's look ahead
                p.add_(direction, alpha=-group["lr"] * max(1.0, p.shape[0] / p.shape[1]) ** 0.5)


def orthogonal(matrix: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """About U Vᵀ of the singular value decomposition U S Vᵀ, by Newton-Schulz steps: singular values end in 0.7 to 1.2."""
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(steps):
        square = x @ x.T
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x

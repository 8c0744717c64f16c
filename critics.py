"""How good is a state?  The potential critic P and the value critic V.  (Section 5.3)

Both are a pretrained language model with a small MLP on the hidden state of the prompt's last token, so both read the whole
state [a_1 … a_{t-1}, o_t], the goal, and its milestones with z_t (`train.encode`): p* is made of z, and a small critic that
does not see z counts the steps instead.  They differ in what they are trained on:

* P(s, g) in [0, 1] regresses the interpolated progress labels of *successful* episodes.  It only shapes the reward.
* V(s, g) in [0, 1] is the chance of success: binary cross-entropy on the final outcome, of all episodes.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from language_model import LocalModel, left_pad

HEAD_FILE = "head.safetensors"


def potential_loss(predicted: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """(P(s_t, g) − p*_t)²    §5.3

    predicted  [B]  P after the sigmoid, in [0, 1]
    label      [B]  progress labels p*_t of successful episodes, in [0, 1]
    returns    [B]

    >>> potential_loss(torch.tensor([0.5]), torch.tensor([1.0]))
    tensor([0.2500])
    """
    _same_shape(predicted, label)
    return (predicted.float() - label.float()) ** 2


def value_loss(logit: torch.Tensor, success: torch.Tensor) -> torch.Tensor:
    """−[r log V + (1 − r) log(1 − V)],  V = sigmoid(logit)    §5.3

    Taken on the logit: log V and log(1 − V) are each computed without forming V, so a confident critic neither saturates nor
    yields an infinite loss.

    logit    [B]  before the sigmoid; V is squashed here, once
    success  [B]  the episode's outcome r(s_T, a_T) in {0, 1}, the same for each of its states
    returns  [B]

    >>> value_loss(torch.tensor([8.0]), torch.tensor([1.0]))     # log(1 + e^-8)
    tensor([0.0003])
    """
    _same_shape(logit, success)
    return nn.functional.binary_cross_entropy_with_logits(logit.float(), success.float(), reduction="none")


def _same_shape(first: torch.Tensor, second: torch.Tensor) -> None:
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(f"expected two arrays of one shape [B], got {tuple(first.shape)} and {tuple(second.shape)}")


class Critic(nn.Module):
    """A language model's backbone with an MLP head: one logit for a state.  ``sigmoid(logit)`` is P or V."""

    def __init__(self, model: LocalModel):
        super().__init__()
        self.tokens = model  # its tokenizer, prompt rules and device; the backbone is its model without the vocabulary head
        self.backbone = model.model.get_decoder()
        width = self.backbone.config.get_text_config().hidden_size
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
        nn.init.zeros_(self.head[-1].weight)  # start at 1/2 everywhere, whatever the backbone's scale
        nn.init.zeros_(self.head[-1].bias)
        self.head.to(model.device)

    @classmethod
    def load(cls, folder: str | Path, device=None) -> "Critic":
        """A saved critic, or a new head on the language model in `folder`."""
        critic = cls(LocalModel.load(folder, device))
        if (Path(folder) / HEAD_FILE).exists():
            critic.head.load_state_dict(load_file(Path(folder) / HEAD_FILE, device=str(critic.tokens.device)))
        return critic

    def save(self, folder: str | Path) -> None:
        self.tokens.save(folder)
        save_file(self.head.state_dict(), Path(folder) / HEAD_FILE)

    def forward(self, prompts: list[list[int]]) -> torch.Tensor:
        """Logits [B] in 32 bits, one for each prompt (token ids)."""
        ids, mask = left_pad(prompts, self.tokens.tokenizer.pad_token_id, self.tokens.device)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        with self.tokens.autocast():
            hidden = self.backbone(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False).last_hidden_state
        return self.head(hidden[:, -1].float()).squeeze(-1)  # left-padded, so the last column is every prompt's last token

"""What is π?  One protocol, three kinds of model behind it.

* `LocalModel`    anything that ``transformers`` loads: a hub id, a folder, a GGUF file; it can be trained
* `ChatEndpoint`  a model behind an OpenAI-compatible address (Gemini, vLLM, llama.cpp, Ollama)
* `ScriptedModel` replies that were written down before, for tests and recordings

``state_prompt`` writes the paper's state s_t = [a_1 … a_{t-1}, o_t] and the instruction (section 3) as text.
"""

from __future__ import annotations

import base64
import contextlib
import inspect
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Protocol, Sequence

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from trajectory import Action, Observation, Step, as_text, format_action, parse_action

ACTION_GUIDE = """You operate a web browser to carry out a task. Reply with one line, the next action:
click link "Name" | hover button "Name" | type textbox "Name" "text" | select combobox "Name" "option"
press "Enter" | scroll down | scroll up | go_back | goto "/path" | stop "answer"
Name a control as the page shows it; write #2 after its name for the second of the same name. Stop when the task is done,
with the answer if one was asked for, else with "".
"""


@dataclass(frozen=True)
class Reply:
    """A model's reply.

    token_ids   as generated, end token included; empty where the model does not tell
    log_prob    log π of `token_ids` at temperature 1, summed; None where the model does not tell
    tokens      how many were written, thinking that is not shown included; 0 where the model does not tell
    cut         it ran into `max_new_tokens`: half a reply can look like a whole one, so judges and teachers do not read it
    """

    text: str
    token_ids: tuple[int, ...] = ()
    log_prob: float | None = None
    tokens: int = 0
    cut: bool = False


class LanguageModel(Protocol):
    def generate(self, prompts: list[str], *, temperature: float, max_new_tokens: int) -> list[Reply]:
        """One reply for each prompt; temperature 0 is greedy.  Raises `ConnectionError` where the model cannot be asked."""


def state_prompt(intent: str, actions: Sequence[Action], observation: Observation, *, checklist: str = "") -> str:
    """The state and the instruction as text: earlier actions, the current page, then what is asked for.

    The instruction comes last, right before the action: small models copy from a fixed distance long before they learn to
    search.

    checklist   sub-goals and their marks (`milestoning.checklist`), for the agent with milestones
    """
    page = re.sub(r"(?m)^(?=(page|done|milestones|task|action):)", "- ", as_text(observation))  # headings are ours alone
    done = "".join(f"{format_action(action)}\n" for action in actions)
    plan = f"milestones:\n{checklist}\n" if checklist else ""
    return f"page:\n{page}\ndone:\n{done}{plan}task: {' '.join(intent.split())}\naction:\n"


class ScriptedModel:
    """Gives the replies it was made with, in turn."""

    def __init__(self, replies: Sequence[str]):
        self.replies = list(replies)

    def generate(self, prompts: list[str], *, temperature: float = 0.0, max_new_tokens: int = 64) -> list[Reply]:
        if len(prompts) > len(self.replies):
            raise ValueError(f"the script has {len(self.replies)} replies left and was asked for {len(prompts)}")
        return [Reply(self.replies.pop(0)) for _ in prompts]


class ChatEndpoint:
    """A chat model behind an OpenAI-compatible address.

    The client asks again, `retries` times, after a time-out, a broken connection, 408, 409, 429 (when its Retry-After is over)
    and 5xx.  What remains is a ``ConnectionError`` of one line.  A reply without a choice or content is "": malformed, like
    any other text that is not what was asked for.

    base_url   where it answers; the client's own default is OpenAI
    key        default: the environment's OPENAI_API_KEY; masked where the endpoint repeats it
    timeout    seconds for reading the prompt; each token that may be written adds 1/20
    """

    def __init__(self, model: str, base_url: str | None = None, *, key: str | None = None, timeout: float = 120.0, retries: int = 3):
        from openai import OpenAI, OpenAIError

        self.model, self.timeout, self._broken = model, timeout, OpenAIError
        try:
            self.client = OpenAI(api_key=key, base_url=base_url, max_retries=retries)
        except OpenAIError as error:
            raise ValueError(f"no key for {model}: set OPENAI_API_KEY; an endpoint that asks for none takes any word") from error

    def generate(
        self, prompts: list[str], *, temperature: float = 0.0, max_new_tokens: int = 1024, picture: bytes = b""
    ) -> list[Reply]:
        """`picture`: a JPEG that the model sees beside each prompt, if it takes images."""
        return [self._ask(prompt, temperature, max_new_tokens, picture) for prompt in prompts]

    def _ask(self, prompt: str, temperature: float, max_new_tokens: int, picture: bytes) -> Reply:
        shown = {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{base64.b64encode(picture).decode()}"}}
        try:
            answer = self.client.chat.completions.create(
                model=self.model,
                messages=[{"role": "user", "content": [{"type": "text", "text": prompt}, shown] if picture else prompt}],
                temperature=temperature,
                max_tokens=max_new_tokens,
                timeout=self.timeout + max_new_tokens / 20,
            )
            return self._read(answer)
        except self._broken as error:
            reason = f"{error} {error.__cause__ or ''}"
        except (AttributeError, LookupError, TypeError, ValueError):  # a web page, or JSON of another form
            reason = "it does not answer in OpenAI's protocol; many addresses end in /v1"
        said = " ".join(reason.split()).replace(self.client.api_key, "••••")
        said = "".join(char for char in said[:300] if char.isprintable())
        raise ConnectionError(f"{self.model} at {self.client.base_url.host}: {said}")

    @staticmethod
    def _read(answer) -> Reply:
        spent = (answer.usage and answer.usage.completion_tokens) or 0
        if answer.choices == []:
            return Reply("", tokens=spent)
        content, cut = answer.choices[0].message.content, answer.choices[0].finish_reason == "length"
        whole = (content or "").encode("utf-8", "replace").decode()  # half a character could not be sent back
        thought, _, text = whole.rpartition("</think>")  # some servers leave the thinking in the reply
        cut = cut or (not thought and text.lstrip().startswith("<think>"))
        return Reply(text, tokens=spent, cut=cut)


class LocalModel:
    """A causal language model with its tokenizer, on one device.

    Small models keep 32-bit weights and compute in bfloat16 (autocast) on a GPU; from a billion parameters on, the weights are
    bfloat16 too, since a copy in 32 bits would not fit beside gradients and optimizer state.
    """

    def __init__(self, model, tokenizer, device: str | torch.device | None = None, *, max_prompt_tokens: int = 4096):
        self.device = torch.device(device or default_device())
        self.model = model.to(self.device)
        for part in self.model.modules():  # no dropout: π/π_ref must be 1 before the first update
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
            elif hasattr(part, "attention_dropout"):
                part.attention_dropout = 0.0
        self.tokenizer = tokenizer
        self.max_prompt_tokens = max_prompt_tokens
        ends = getattr(model.generation_config, "eos_token_id", None) or tokenizer.eos_token_id
        self.ends = set(ends if isinstance(ends, (list, tuple)) else [ends])

    @classmethod
    def load(cls, name: str | Path, device: str | torch.device | None = None) -> "LocalModel":
        """`name`: a hub id, a folder, or a .gguf file.  A weight that is missing or left over is an error (P08)."""
        source, gguf = (str(Path(name).parent), {"gguf_file": Path(name).name}) if str(name).endswith(".gguf") else (str(name), {})
        tokenizer = AutoTokenizer.from_pretrained(source, padding_side="left", **gguf)
        model, info = AutoModelForCausalLM.from_pretrained(source, dtype="auto", output_loading_info=True, **gguf)
        if wrong := [key for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") for key in info.get(kind, ())]:
            raise ValueError(f"{name}: {len(wrong)} weights do not fit the architecture, such as {sorted(map(str, wrong))[:3]}")
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        small = model.num_parameters() < 1e9
        return cls(model.float() if small else model.bfloat16(), tokenizer, device)

    def save(self, folder: str | Path) -> None:
        """As ``transformers`` reads it; 32-bit weights stay 32-bit, so that training resumes with nothing lost."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    @property
    def knows_milestones(self) -> bool:
        """Whether it was trained with a checklist in some of its prompts; its configuration remembers."""
        return getattr(self.model.config, "knows_milestones", False)

    def policy_prompt(self, intent: str, actions: Sequence[Action], observation: Observation, checklist: str = "") -> str:
        """The state as this model is asked about it: a chat model, which was not trained on our actions, gets their guide."""
        guide = f"{ACTION_GUIDE}\n" if self.tokenizer.chat_template else ""
        return guide + state_prompt(intent, actions, observation, checklist=checklist)

    def prompt_ids(self, prompt: str) -> list[int]:
        """Token ids of a prompt with exactly one BOS; a chat model's template is applied.

        A prompt that is too long loses its middle: the page's end goes, the instruction stays.  A page that spells a special
        token, such as <eos>, has written text and no token.
        """
        if self.tokenizer.chat_template:
            special = "|".join(re.escape(str(token)) for token in self.tokenizer.added_tokens_decoder.values() if token.special)
            spelled = re.sub(special, lambda token: f"{token[0][0]} {token[0][1:]}", prompt) if special else prompt
            messages = [{"role": "user", "content": spelled}]
            text = self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
            ids = self.tokenizer.encode(text, add_special_tokens=False)
        else:
            ids = self._plain_ids(prompt)
        bos = self.tokenizer.bos_token_id
        ids = ids if bos is None or ids[:1] == [bos] else [bos, *ids]
        half = self.max_prompt_tokens // 2
        return ids if len(ids) <= self.max_prompt_tokens else ids[:half] + ids[-half:]

    def reply_ids(self, reply: str) -> tuple[int, ...]:
        """Token ids of a reply that no model generated (a demonstration), end token included."""
        return (*self._plain_ids(reply), self.tokenizer.eos_token_id)

    def _plain_ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)

    def autocast(self):
        """bfloat16 arithmetic on 32-bit weights, on a GPU: many CPUs only emulate it, at a tenth of the speed."""
        if self.model.dtype == torch.float32 and self.device.type == "cuda":
            return torch.autocast(self.device.type, torch.bfloat16)
        return contextlib.nullcontext()

    @torch.no_grad()
    def generate(
        self,
        prompts: list[str],
        *,
        temperature: float = 0.0,
        max_new_tokens: int = 64,
        rngs: Sequence[np.random.Generator] | None = None,
    ) -> list[Reply]:
        """Replies to a batch of prompts, each drawn with its own random numbers, so that the batch does not matter.

        temperature   0 takes the likeliest token; 1 samples from π itself
        rngs          one generator a prompt (default: fresh ones)
        """
        rngs = rngs or [np.random.default_rng() for _ in prompts]
        if len(rngs) != len(prompts):
            raise ValueError(f"expected one generator for each of {len(prompts)} prompts, got {len(rngs)}")
        was_training = self.model.training
        self.model.eval()
        try:
            ids, mask = left_pad([self.prompt_ids(prompt) for prompt in prompts], self.tokenizer.pad_token_id, self.device)
            tokens, log_probs = self._decode(ids, mask, temperature, max_new_tokens, rngs)
        finally:
            self.model.train(was_training)
        return [
            Reply(
                self.tokenizer.decode(row, skip_special_tokens=True), tuple(row), float(sum(scores)), len(row), row[-1] not in self.ends
            )
            for row, scores in zip(tokens, log_probs)
        ]

    def _decode(self, ids, mask, temperature, max_new_tokens, rngs):
        cache, tokens, log_probs = None, [[] for _ in rngs], [[] for _ in rngs]
        newer = "cache" in inspect.signature(self.model.forward).parameters  # transformers renamed the argument in 5.x
        cache_name = "cache" if newer else "past_key_values"
        open_rows = set(range(len(rngs)))
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        for _ in range(max_new_tokens):
            with self.autocast():
                out = self.model(
                    input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1, **{cache_name: cache}
                )
            cache = out[cache_name]
            log_p = out.logits[:, -1].float().log_softmax(-1).cpu()  # [B, V]
            chosen = pick(log_p, temperature, rngs, open_rows)
            for row in list(open_rows):
                tokens[row].append(chosen[row])
                log_probs[row].append(float(log_p[row, chosen[row]]))
                if chosen[row] in self.ends:
                    open_rows.discard(row)
            if not open_rows:
                break
            ids = torch.tensor(chosen, device=self.device)[:, None]
            mask = torch.cat([mask, torch.ones_like(mask[:, :1])], -1)
            positions = positions[:, -1:] + 1
        return tokens, log_probs

    def token_log_probs(self, prompts: list[list[int]], actions: list[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """log π of each action token given its prompt and the tokens before it: ([B, N], mask [B, N]), right-aligned.

        Only the logits of action tokens are computed: a vocabulary of 262,144 times every prompt token would not fit.
        """
        rows = [[*prompt, *action] for prompt, action in zip(prompts, actions)]
        ids, mask = left_pad(rows, self.tokenizer.pad_token_id, self.device)
        longest = max(map(len, actions))
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        with self.autocast():
            out = self.model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=False, logits_to_keep=longest + 1)
        log_p = out.logits[:, :-1].float().log_softmax(-1)  # [B, N, V]: the logit at a position is for the next token
        log_p = log_p.gather(-1, ids[:, -longest:, None]).squeeze(-1)
        lengths = torch.tensor([len(action) for action in actions], device=self.device)
        is_action = torch.arange(longest, device=self.device) >= longest - lengths[:, None]
        return torch.where(is_action, log_p, 0.0), is_action  # `where`, since 0 · NaN would be NaN


class LanguagePolicy:
    """π as the environment plays it: prompt, reply, action.  A reply that is no action is a recorded failed action.

    seed   with a task's id and the step it fixes each draw, so that an episode does not depend on its neighbours
    plan   what an episode's prompt shows of its milestones: `milestoning.checklist` with their marks, or ""
    """

    def __init__(
        self,
        model: LocalModel,
        *,
        temperature: float,
        seed: int = 0,
        max_new_tokens: int = 64,
        plan: Callable[..., str] = lambda episode: "",
    ):
        self.model, self.temperature, self.seed, self.max_new_tokens = model, temperature, seed, max_new_tokens
        self.plan = plan

    def act(self, states) -> list[Step]:
        """One `Step` for each ``environment.rollout.Episode``."""
        prompts = [
            self.model.policy_prompt(state.task.intent, [step.action for step in state.steps], state.observation, self.plan(state))
            for state in states
        ]
        rngs = [
            np.random.default_rng([self.seed, zlib.crc32(state.task.task_id.encode()), len(state.steps), state.attempt])
            for state in states
        ]
        replies = self.model.generate(prompts, temperature=self.temperature, max_new_tokens=self.max_new_tokens, rngs=rngs)
        return [
            Step(state.observation, read_action(reply.text), reply.text, reply.token_ids, reply.log_prob)
            for state, reply in zip(states, replies)
        ]


def read_action(reply: str) -> Action:
    try:
        return parse_action(reply)
    except ValueError:
        return Action("invalid", text=" ".join(reply.split())[:200])


def pick(log_p: torch.Tensor, temperature: float, rngs: Sequence[np.random.Generator], rows: set[int]) -> list[int]:
    """One token id a row: the likeliest at temperature 0, else drawn by inverting the cumulative distribution."""
    if temperature == 0:
        return log_p.argmax(-1).tolist()
    cumulative = (log_p / temperature).softmax(-1).double().cumsum(-1)
    draws = torch.tensor([rngs[row].random() if row in rows else 0.0 for row in range(len(rngs))], dtype=torch.double)
    # The last entry is 1 only up to rounding, so the draw is scaled by it.
    return torch.searchsorted(cumulative, (draws * cumulative[:, -1])[:, None], right=True).clamp(max=log_p.shape[-1] - 1)[:, 0].tolist()


def left_pad(rows: list[list[int]], pad: int, device) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids, mask), each [B, L]; rows end at the right edge, so that generation can go on from there."""
    longest = max(map(len, rows))
    ids = torch.tensor([[pad] * (longest - len(row)) + list(row) for row in rows], device=device)
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=device)
    return ids, mask


def default_device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def checkpoint_activations(model) -> None:
    """Keep a layer's input only and compute the rest again in the backward pass: a third more work for far less memory."""
    enable = getattr(model, "activation_checkpointing_enable", None)  # the newer name
    (enable or model.gradient_checkpointing_enable)({"use_reentrant": False})

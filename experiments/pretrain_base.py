"""Make the base model that the project ships: a small Gemma 3 that can read pages, but has never seen a task solved.

    python -m experiments.pretrain_base --out pocket_model

1. Random walks over worlds of their own collect pages (no task, no oracle is involved).
2. A byte-level BPE tokenizer is trained on them.
3. *Said-again* sequences (a random list of tokens, repeated) until the repeats are predicted: this is how attention learns to
   copy, and it comes late and all at once.
4. Pages, each with many exercises of one step: the control that an instruction names, the text it quotes, the value beside a
   name.  The page's own text is learned too at first; later only the exercises are, since the names on a page are random.
5. The reading test: the same kind of exercise on pages of worlds that training never saw.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import time
from functools import partial
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tqdm import tqdm
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, PreTrainedTokenizerFast

from environment.rollout import Episode, rollout
from environment.tasks import SPLITS, load_tasks
from environment.websites import SITES
from environment.websites.words import ADJECTIVES, NOUNS, PEOPLE, phrase
from optimisation import make_optimizers
from trajectory import Action, Step, Task, as_text, quote

VOCABULARY = 2048
SPECIAL = ["<pad>", "<bos>", "<eos>", "<unk>"]
WIDTH, LAYERS = 128, 3
PARTS = 4  # the page stage is saved and tested this often
TRAIN_WORLDS, TEST_WORLDS = range(20_000_000, 20_100_000), range(20_100_000, 20_200_000)


# --- 1. pages ----------------------------------------------------------------------------------------------------------


class RandomWalk:
    """Clicks, types and selects at random, to see as many different pages as possible."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)

    def act(self, states: list[Episode]) -> list[Step]:
        return [Step(state.observation, self._choose(state.observation.text)) for state in states]

    def _choose(self, text: str) -> Action:
        controls = re.findall(r'\b(link|button|textbox|combobox) ("(?:[^"\\]|\\.)*")((?: "(?:[^"\\]|\\.)*"| of)*)', text)
        if not controls or self.rng.random() < 0.03:
            return Action("go_back")
        # fields first: a form that is filled in shows more than an empty one
        fields = [control for control in controls if control[0] in ("textbox", "combobox")]
        pool = fields if fields and self.rng.random() < 0.55 else controls
        role, name, state = self.rng.choice(pool)
        name = json.loads(name)
        if role == "textbox":
            return Action("type", role, name, text=phrase(self.rng))
        if role == "combobox":
            options = [json.loads(option) for option in re.findall(r'"(?:[^"\\]|\\.)*"', state)]
            return Action("select", role, name, text=self.rng.choice(options)) if options else Action("go_back")
        return Action("click", role, name)


def collect_pages(worlds, count: int, seed: int, steps: int = 12) -> list[str]:
    """Texts of the pages that random walks saw, in random order, each once."""
    rng = random.Random(seed)
    tasks = []
    for index in range(count // steps):
        site = SITES[index % len(SITES)]
        tasks.append(Task(f"walk-{index}", (site,), "", f"__{site.upper()}__", {"eval_types": []}, world=rng.choice(worlds)))
    bar = tqdm(total=len(tasks), desc="random walks")
    walks = rollout(RandomWalk(seed), tasks, max_steps=steps, parallel=12, done=lambda *_: bar.update())
    pages = list(dict.fromkeys(as_text(observation) for walk in walks for observation in walk.observations))
    rng.shuffle(pages)
    return pages


# --- 2. tokenizer ------------------------------------------------------------------------------------------------------


def train_tokenizer(pages: list[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE in which a word is the same token wherever it stands: after a space, a quote or a line break.

    Copying is easiest when the copy is the same token, but "Rare and Rare differ by the space before them.  So each quote
    and each line break is written with a space after it and read back without: every word then begins with a space.
    """
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend(" "), normalizers.Replace('"', '" '), normalizers.Replace("\n", "\n ")]
    )
    pattern = Regex(r' "|" |\n| ?\d| ?[A-Za-z]+| ?[^\sA-Za-z\d"]|\s+(?!\S)|\s')
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(pattern, "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.ByteLevel(),
            decoders.Fuse(),
            decoders.Replace('" ', '"'),
            decoders.Replace("\n ", "\n"),
            decoders.Strip(" ", 1, 0),
        ]
    )
    prompt = "\npage:\ndone:\nmilestones:\ntask:\naction:\n"
    known = [form for word in [*ADJECTIVES, *NOUNS, *PEOPLE] for form in (word, word.capitalize())]
    spoken = [line for task in load_tasks(SPLITS[1]) for line in (task.intent, *task.oracle, *task.subgoals)]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(pages + spoken + [" ".join(known) + prompt] * 300, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


# --- 3. and 4. what it is trained on -----------------------------------------------------------------------------------


def said_again(rng: random.Random, length: int = 72) -> tuple[list[int], list[int]]:
    """(tokens, labels): a random list of 6-24 tokens, over and over; -100 where nothing can be predicted."""
    items = [rng.randrange(len(SPECIAL), VOCABULARY) for _ in range(rng.randint(6, 24))]
    tokens = (items * (length // len(items) + 1))[:length]
    return tokens, [-100] * len(items) + tokens[len(items) :]


CONTROL = re.compile(r'\b(link|button|textbox|combobox|checkbox|radio|tab) ("(?:[^"\\]|\\.)*")((?: "(?:[^"\\]|\\.)*"| of)*)')
TYPE_WORDS = ('type {text} in {name}', 'set {name} to {text}', '{name} {text}', 'write {text} as {name}', '{text} is the {name}')
CHOOSE_WORDS = ('choose {text} in {name}', 'set {name} to {text}', '{name} {text}', 'with {name} {text}', 'change {name} to {text}')
CLICK_WORDS = ("click {name}", "open {name}", "go to {name}", "press {name}", "show {name}")
READ_WORDS = ("what is beside {name}", "read {name}", "the value of {name}")
FACT_WORDS = ("{what} of {name}", "what {what} has {name}", "tell me the {what} of {name}", "{name} {what}")


def exercises(page: str, rng: random.Random, count: int) -> list[tuple[list[str], str, str]]:
    """(lines already done, instruction, action) for one page: single steps that name what they are about, and look-ups.

    Several fields in one instruction come with the first of them done, so that the next one has to be found.
    """
    named, asked, fields = [], [], []
    for line in page.splitlines()[2:]:
        for match in CONTROL.finditer(line):
            role, name, state, rest = match[1], match[2], match[3], line[match.end(2) :].strip()
            if not 3 <= len(name) <= 60:
                continue
            if role == "textbox":
                fields.append((TYPE_WORDS, f"type textbox {name}", name, quote(some_text(rng))))
            elif role == "combobox":
                options = [option for option in re.findall(r'"(?:[^"\\]|\\.)*"', state) if len(option) > 2]
                if options:
                    fields.append((CHOOSE_WORDS, f"select combobox {name}", name, rng.choice(options)))
            else:
                named.append(([], rng.choice(CLICK_WORDS).format(name=name), f"click {role} {name}"))
            asked += [([], question, f"stop {answer}") for question, answer in facts(name, rest, rng)]
        words = CONTROL.sub("", line).split()
        if len(words) >= 2 and words[0].endswith(":"):
            asked.append(([], f"what is {quote(words[0][:-1])}", f"stop {quote(' '.join(words[1:3]))}"))
        elif len(words) >= 3:
            at = rng.randrange(len(words) - 2)
            asked.append(([], f"what comes after {' '.join(words[at : at + 2])}", f"stop {quote(words[at + 2])}"))
    text = quote(some_text(rng))
    named.append(([], f"answer {text}", f"stop {text}"))
    filled = [several(fields, rng) for _ in range(count // 3 if fields else 0)]
    asked = rng.sample(asked, min(len(asked), (count - len(filled)) // 2))
    named = rng.sample(named, min(len(named), count - len(filled) - len(asked)))
    return rng.sample([*filled, *asked, *named], len(filled) + len(asked) + len(named))


def facts(name: str, rest: str, rng: random.Random) -> list[tuple[str, str]]:
    """(question, quoted answer) pairs on what stands beside a name: `link "Fast comet" by leo, 97 points` says two things."""
    if value := re.match(r'"(?:[^"\\]|\\.)*"', rest):
        return [(rng.choice(READ_WORDS).format(name=name), value[0])]
    found = []
    for part in rest.split(", "):
        match part.split():
            case [number, unit] if number[-1:].isdigit():
                found.append((rng.choice(FACT_WORDS).format(what=unit, name=name), quote(number)))
            case [word, value]:
                found.append((rng.choice(FACT_WORDS).format(what=word, name=name), quote(value)))
            case [word]:
                found.append((rng.choice(READ_WORDS).format(name=name), quote(word)))
    return found


def several(fields, rng: random.Random) -> tuple[list[str], str, str]:
    """One to four fields to fill in, some of them done."""
    chosen = rng.sample(fields, min(len(fields), rng.randint(1, 4)))
    chosen = [(words, action, name, quote(some_text(rng)) if words is TYPE_WORDS else text) for words, action, name, text in chosen]
    steps = [f"{action} {text}" for _, action, _, text in chosen]
    at = rng.randrange(len(steps))
    return steps[:at], ", ".join(rng.choice(words).format(name=name, text=text) for words, _, name, text in chosen), steps[at]


def some_text(rng: random.Random) -> str:
    """What people type: words, a capitalised title, a name, a number."""
    kind = rng.random()
    if kind < 0.4:
        return phrase(rng)
    if kind < 0.7:
        return phrase(rng).capitalize()
    return rng.choice(PEOPLE) if kind < 0.85 else str(rng.randint(1, 999))


def page_example(page: str, tokenizer, rng: random.Random, *, text: bool, longest: int = 640) -> tuple[list[int], list[int]]:
    """(tokens, labels): a page, then exercises; the loss is on the actions and, with `text`, on the page's own text."""
    tokens = [tokenizer.bos_token_id] + tokenizer.encode(f"page:\n{page}", add_special_tokens=False)
    labels = list(tokens) if text else [-100] * len(tokens)
    for done, instruction, action in exercises(page, rng, 12):
        asked = tokenizer.encode(ask(done, instruction), add_special_tokens=False)
        told = tokenizer.encode(action, add_special_tokens=False) + [tokenizer.eos_token_id]
        tokens += asked + told
        labels += [-100] * len(asked) + told
    return tokens[:longest], labels[:longest]


def ask(done: list[str], instruction: str) -> str:
    """The end of a prompt, as ``language_model.state_prompt`` has it."""
    return "\ndone:\n" + "".join(f"{line}\n" for line in done) + f"task: {instruction}\naction:\n"


def batch(examples: list[tuple[list[int], list[int]]]) -> dict[str, torch.Tensor]:
    longest = max(len(tokens) for tokens, _ in examples)
    pad = lambda row, fill: row + [fill] * (longest - len(row))  # noqa: E731
    return {
        "input_ids": torch.tensor([pad(tokens, 0) for tokens, _ in examples]),
        "labels": torch.tensor([pad(labels, -100) for _, labels in examples]),
    }


# --- training ----------------------------------------------------------------------------------------------------------


def new_model() -> Gemma3ForCausalLM:
    """Gemma 3's architecture at 2 M parameters.

    Two of its defaults are meant for wide models and are set for this width: the attention scale (the head's dimension, not
    256) and the initial spread of the weights (1/√width, not 0.02).
    """
    head = WIDTH // 4
    config = Gemma3TextConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=WIDTH * 8 // 3,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=head,
        query_pre_attn_scalar=head,
        initializer_range=WIDTH**-0.5,
        max_position_embeddings=4096,
        sliding_window=4096,
        layer_types=["full_attention"] * LAYERS,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return Gemma3ForCausalLM(config)


def train(model, make_batch, steps: int, what: str, *, opts, warm: int = 30, cool: float = 0.0) -> float:
    """Returns the mean loss of the last tenth.  `cool` is the share of the steps in which the learning rate falls to 0."""
    peaks, losses = [group["lr"] for opt in opts for group in opt.param_groups], []
    bar = tqdm(range(steps), desc=what, mininterval=5)
    for step in bar:
        scale = min(1.0, (step + 1) / warm, (steps - step) / max(1, cool * steps))
        for group, peak in zip((g for opt in opts for g in opt.param_groups), peaks):
            group["lr"] = peak * scale
        data = make_batch()
        told = data["labels"][:, 1:] != -100
        hidden = model.model(input_ids=data["input_ids"]).last_hidden_state[:, :-1][told]  # logits only where there is a loss
        loss = torch.nn.functional.cross_entropy(model.lm_head(hidden), data["labels"][:, 1:][told])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for opt in opts:
            opt.step()
            opt.zero_grad()
        losses.append(float(loss))
        bar.set_postfix(loss=f"{sum(losses[-20:]) / len(losses[-20:]):.3f}", refresh=False)
    for group, peak in zip((g for opt in opts for g in opt.param_groups), peaks):
        group["lr"] = peak
    tail = losses[-max(1, steps // 10) :]
    return sum(tail) / len(tail)


@torch.no_grad()
def reading_test(model, tokenizer, pages: list[str], seed: int, questions: int = 300) -> float:
    """Share of exercises on unseen pages that are answered exactly, reading greedily."""
    rng, right, asked = random.Random(seed), 0, 0
    model.eval()
    while asked < questions:
        page = rng.choice(pages)
        for done, instruction, action in exercises(page, rng, 5):
            prompt = [tokenizer.bos_token_id] + tokenizer.encode(f"page:\n{page}{ask(done, instruction)}", add_special_tokens=False)
            told = tokenizer.encode(action, add_special_tokens=False) + [tokenizer.eos_token_id]
            logits = model(input_ids=torch.tensor([prompt + told])).logits[0, len(prompt) - 1 : -1]
            right += logits.argmax(-1).tolist() == told  # greedy decoding gives `told` exactly when each argmax does
            asked += 1
    model.train()
    return right / asked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="pocket_model", help="folder for the model (default: the shipped one)")
    parser.add_argument("--pages", type=int, default=7200, help="pages to collect")
    parser.add_argument("--copy-steps", type=int, default=500, help="said-again steps")
    parser.add_argument("--page-steps", type=int, default=2000, help="page steps")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    work = Path("runs/pretrain_base")
    pages = cached_pages(work / "pages.json", args.pages)
    rng = random.Random(args.seed)
    torch.manual_seed(args.seed)
    done = sorted(work.glob("part-*/model.safetensors"))
    if done:  # a part that is finished is not trained again
        model = Gemma3ForCausalLM.from_pretrained(done[-1].parent, dtype=torch.float32)
        tokenizer = PreTrainedTokenizerFast.from_pretrained(done[-1].parent, padding_side="left")
        rng.seed(f"{args.seed}/{len(done)}")
    else:
        tokenizer, model = train_tokenizer(pages["train"]), new_model()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters, {len(pages['train'])} pages, {len(tokenizer)} tokens")
    opts, begin = make_optimizers(model, 2e-3, "muon"), time.time()

    def copy_batch():
        return batch([said_again(rng) for _ in range(64)])

    def page_batch(text: bool):
        return batch([*(page_example(rng.choice(pages["train"]), tokenizer, rng, text=text) for _ in range(12)), said_again(rng)])

    for part in range(len(done), PARTS + 1):
        if part == 0:
            loss = train(model, copy_batch, args.copy_steps, "said again", opts=opts)
            print(f"said again: loss {loss:.3f} (chance {math.log(VOCABULARY):.2f}), {time.time() - begin:.0f} s", flush=True)
        else:
            cool = 0.8 if part == PARTS else 0.0
            make_batch = partial(page_batch, text=part == 1)
            train(model, make_batch, args.page_steps // PARTS, f"pages {part}/{PARTS}", opts=opts, cool=cool)
            right = reading_test(model, tokenizer, pages["test"], 0)
            print(f"reading test on unseen pages: {right:.3f}, {time.time() - begin:.0f} s", flush=True)
        save(model, tokenizer, work / f"part-{part}")
    save(model.to(torch.bfloat16), tokenizer, Path(args.out))
    print(f"saved to {args.out}")


def cached_pages(file: Path, count: int) -> dict[str, list[str]]:
    if not file.exists():
        pages = {"train": collect_pages(TRAIN_WORLDS, count, 1), "test": collect_pages(TEST_WORLDS, max(120, count // 10), 2)}
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(pages), encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))


def save(model, tokenizer, folder: Path) -> None:
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)  # last: a part counts as finished when its weights are there


if __name__ == "__main__":
    main()

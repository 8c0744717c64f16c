"""Where do sub-goals come from, and do they tell success from failure?  (Section 5.1, A.4)

Three things, all offline and once a task:

1. a teacher model splits the instruction into exactly K milestones (`generator_prompt`, `parse_subgoals`,
   `generate_subgoals`);
2. a judge, the sub-goal checker, says which of them are reached in a given state (`checker_prompt`, `parse_verdict`,
   `judge`), unless the benchmark brings checks of its own;
3. metrics say how far completed sub-goals and success agree (`equivalence`, `auroc`, `kendall_tau`,
   `success_by_count`): Figure 4 and the numbers beside it, for any file of trajectories:

       python subgoals.py runs/mira/phase-6/evaluation.jsonl

Departures.  The teacher is shown the first page as text, with the paper's screenshot where the model takes images.  The
twelve demonstrations a domain (Table 5's form, `subgoal_examples.json`) are ours.  A judgement that cannot be had is None,
"unjudged": left out of the labels and counted, never taken for "not done".
"""

from __future__ import annotations

import argparse
import json
import logging
import re
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Mapping, Sequence

import numpy as np
import scipy.stats

from trajectory import Action, Observation, format_action, read_trajectories

if TYPE_CHECKING:
    from language_model import LanguageModel

_log = logging.getLogger(__name__)
Example = Mapping[str, object]  # {"intent": str, "subgoals": [str, …]}

EXAMPLES: dict[str, list[Example]] = json.loads(Path(__file__).with_name("subgoal_examples.json").read_text("utf-8"))
GENERATOR_THINKING = 2048  # a thinking model's thoughts count as part of its reply, and milestones are made once
_WEBARENA_NAMES = {"reddit": "forum", "shopping": "shop", "shopping_admin": "shop_admin", "wikipedia": "map"}

# --- generation -------------------------------------------------------------------------------------------------


def examples_for(sites: Sequence[str]) -> list[Example]:
    """The demonstrations for a task on `sites`, under our names of the sites or WebArena's."""
    domains = [_WEBARENA_NAMES.get(site, site) for site in sites]
    if unknown := [domain for domain in domains if domain not in EXAMPLES]:
        raise ValueError(f"expected sites among {', '.join(EXAMPLES)}, got {', '.join(unknown)}")
    return [example for domain in dict.fromkeys(domains) for example in EXAMPLES[domain]]


def generator_prompt(task_intent: str, first_observation_text: str, k: int, examples: Sequence[Example], seed: int) -> str:
    """The teacher's prompt: the demonstrations in an order drawn from `seed`, then the first page, then the task.

    The order is random so that the teacher does not learn to copy the last demonstration (section 5.1).  Of the
    demonstrations only those with K milestones are shown: others would contradict the demand for exactly K.
    """
    shown = [example for example in examples if len(example["subgoals"]) == k]
    Random(seed).shuffle(shown)
    parts = [
        f"You split a task on a website into exactly {k} milestones, in the order in which they are reached.\n"
        "Each milestone is one line, says what holds once it is reached, and can be checked by looking at the page. "
        "It is neither a single click nor the whole task. Keep names, numbers and quoted texts as the task has them."
    ]
    parts += [f"Task: {one_line(example['intent'])}\n{numbered(example['subgoals'])}" for example in shown]
    parts.append(f"The page on which the next task starts:\n{quote_page(first_observation_text)}")
    parts.append(f"Write exactly {k} numbered lines, 1. to {k}., and nothing else.\nTask: {one_line(task_intent)}")
    return "\n\n".join(parts) + "\n"


_NUMBERED = re.compile(
    r"""\s* (?:[-*•>]\s+)? (?:\#+\s+)? (?:\*\*)?  # a bullet, a heading, bold
        (?:(?:step|milestone|sub-?goal|goal)\s+)?  # "Step 1"
        (?P<number>\d+) (?:\*\*)? \s* (?:[.):]|\s[-–—])  # 1.   1)   1:   1 -
        (?:\*\*(?=\s|$))? (?:\s+(?P<text>.*))?""",
    re.IGNORECASE | re.VERBOSE,
)


def parse_subgoals(text: str, k: int) -> tuple[str, ...]:
    """The K milestones of a teacher's reply: the lines numbered 1 to K, in that order, whatever stands around them.

    Code fences, bullets, bold and "Step 1:" are seen through, and an indented line goes on with the milestone above it.
    Raises ``ValueError`` unless the numbers are exactly 1 … K and every milestone says something.

    >>> parse_subgoals("Here you are:\\n1. Open the forum\\n2) **Submit** the post", 2)
    ('Open the forum', 'Submit the post')
    """
    if k < 1:
        raise ValueError(f"expected k >= 1, got {k}")
    if not isinstance(text, str):
        raise ValueError(f"expected the reply as text, got {type(text).__name__}")
    numbers, subgoals, going_on = [], [], False
    for line in text.splitlines():
        if match := _NUMBERED.fullmatch(line):
            numbers.append(int(match["number"]))
            subgoals.append(match["text"] or "")
        elif going_on and re.match(r"(\s{2,}|\t)[^\s*•-]", line) and "```" not in line:
            subgoals[-1] += " " + line
        else:
            going_on = False
            continue
        going_on = True
    if numbers != list(range(1, k + 1)):
        raise ValueError(f"expected lines numbered 1 to {k}, got {numbers} in {text[:200]!r}")
    subgoals = [one_line(subgoal.replace("**", "")) for subgoal in subgoals]
    if not all(subgoals):
        raise ValueError(f"expected {k} milestones, got an empty one in {text[:200]!r}")
    return tuple(subgoals)


def generate_subgoals(
    model: LanguageModel,
    task_intent: str,
    first_observation_text: str,
    k: int,
    examples: Sequence[Example],
    seed: int,
    attempts: int = 3,
    picture: bytes = b"",
) -> tuple[str, ...]:
    """K milestones from the teacher, asked up to `attempts` times, each time with the demonstrations in another order.

    The first attempt is greedy; the next ones sample, since a greedy model would only repeat its mistake.  Raises
    ``ValueError`` with the last reply's fault when none has exactly K.  A reply that was cut off counts as malformed: its
    last milestone may be half a one.

    picture   a screenshot of the first page, for a model that takes images
    """
    if attempts < 1:
        raise ValueError(f"expected attempts >= 1, got {attempts}")
    shown = {"picture": picture} if picture else {}  # most models have no such argument
    for attempt in range(attempts):
        prompt = generator_prompt(task_intent, first_observation_text, k, examples, seed + attempt)
        temperature = 0.7 if attempt else 0.0
        room = 64 * k + GENERATOR_THINKING
        (reply,) = model.generate([prompt], temperature=temperature, max_new_tokens=room, **shown)
        try:
            if reply.cut:
                raise ValueError(f"the reply was cut off at its limit of tokens: {reply.text[-100:]!r}")
            return parse_subgoals(reply.text, k)
        except ValueError as error:
            fault = error
    raise ValueError(f"no {k} milestones after {attempts} attempts: {fault}") from fault


# --- what prompts are made of -----------------------------------------------------------------------------------


def one_line(text: str) -> str:
    """`text` on one line, so that it cannot start a line of its own in a prompt."""
    return " ".join(text.split())


def numbered(subgoals: Sequence[str]) -> str:
    return "\n".join(f"{i}. {one_line(subgoal)}" for i, subgoal in enumerate(subgoals, 1))


def quote_page(text: str) -> str:
    """A page's text with a bar before each line: no line of it can pass for an instruction, a verdict or a checklist.

    >>> print(quote_page("Welcome\\n[x] Submit"))
    | Welcome
    | [x] Submit
    """
    return "\n".join(f"| {line}" for line in text.splitlines())


# --- the sub-goal checker ---------------------------------------------------------------------------------------


def checker_prompt(task_intent: str, subgoals: Sequence[str], actions: Sequence[Action], page: Observation) -> str:
    """The judge's prompt for one state s_t = [a_1 … a_{t−1}, o_t]: which sub-goals have been reached by now?"""
    done = [f"{i}. {one_line(format_action(action))}" for i, action in enumerate(actions, 1)]
    return "\n\n".join(
        [
            "You check how far an agent on a website has come. Judge by the actions and the page alone, and hold a "
            "milestone for reached only if they show it.",
            "Actions so far:\n" + ("\n".join(done) or "none"),
            f"The page now, {quote_page(one_line(page.title))} at {one_line(page.url)}:\n{quote_page(page.text)}",
            f"Task: {one_line(task_intent)}\nMilestones:\n{numbered(subgoals)}",
            f'Answer with JSON: {{"z": [{", ".join("0" * len(subgoals))}]}} with 1 in place of 0 for each of the '
            f"{len(subgoals)} milestones that has been reached.\n",
        ]
    )


def parse_json_objects(text: str) -> list[dict]:
    """The JSON objects of a model's reply: the whole of it, or else the outermost balanced {…} spans in it.

    Spans inside others are not looked at: the inside of a reply that was cut off is not the answer.  Line breaks inside
    strings are allowed, since models write them; anything else that is not JSON is left out.
    """
    spans, start, depth, in_string, escaped = [text.strip()], 0, 0, False, False
    for i, char in enumerate(text):
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            in_string = depth > 0
        elif char == "{":
            start = start if depth else i
            depth += 1
        elif char == "}" and depth:
            depth -= 1
            if not depth:
                spans.append(text[start : i + 1])
    found = []
    for span in spans:
        try:
            value = json.loads(span, strict=False)
        except (ValueError, RecursionError):  # not JSON, or absurdly long numbers or deep nesting
            continue
        if isinstance(value, dict) and value not in found:
            found.append(value)
    return found


def parse_verdict(text: str, k: int) -> tuple[bool, ...] | None:
    """z ∈ {0, 1}^K from a judge's reply, or None: unjudged.

    Refusals, empty or cut-off replies, another number of verdicts, values other than 0, 1, true and false, and several
    verdicts that differ are all None.  None is not zero: a judge that failed has not said "not done".

    >>> parse_verdict('Both hold. ```json\\n{"z": [1, true]}\\n```', 2)
    (True, True)
    """
    if not isinstance(text, str):
        return None
    verdicts = {_as_flags(value.get("z"), k) for value in parse_json_objects(text) if "z" in value}
    return verdicts.pop() if len(verdicts) == 1 else None


def _as_flags(value: object, k: int) -> tuple[bool, ...] | None:
    if not isinstance(value, list) or len(value) != k or any(type(v) not in (int, bool) or v not in (0, 1) for v in value):
        return None
    return tuple(map(bool, value))


def judge(model: LanguageModel, prompts: Sequence[str], k: int, attempts: int = 2) -> list[tuple[bool, ...] | None]:
    """The judge's z for each of `prompts` (`checker_prompt`), all in one batch; None where it stays unjudged.

    Only the unjudged are asked again, up to `attempts` times in all, and then with sampling.  Report the share of None.
    A judge that cannot be asked at all, after its own retries, has judged none of what is still open.
    """
    verdicts: list[tuple[bool, ...] | None] = [None] * len(prompts)
    for attempt in range(attempts):
        open_ = [i for i, verdict in enumerate(verdicts) if verdict is None]
        if not open_:
            break
        temperature = 0.7 if attempt else 0.0
        try:
            replies = model.generate([prompts[i] for i in open_], temperature=temperature, max_new_tokens=256)
        except ConnectionError as error:
            _log.warning("unjudged: %s", error)
            break
        for i, reply in zip(open_, replies, strict=True):
            verdicts[i] = None if reply.cut else parse_verdict(reply.text, k)
    return verdicts


# --- how good are the sub-goals? --------------------------------------------------------------------------------


def equivalence(z_final, success) -> tuple[float, float, float]:
    """(precision, recall, F1) of "all K sub-goals done" as a prediction of success    §5.1, exact equivalence

    z_final  bool [N, K], latched, at the end of each episode
    success  bool [N]

    Precision and recall are NaN where nothing is predicted or nothing succeeds; F1 = 2TP/(2TP + FP + FN) is NaN only
    where neither occurs.  The paper has 0.79, 0.60 and 0.68.

    >>> equivalence([[1, 1], [1, 0], [1, 1]], [1, 1, 0])
    (0.5, 0.5, 0.5)
    """
    z_final, success = np.asarray(z_final), np.asarray(success)
    if z_final.ndim != 2 or z_final.shape[1] < 1 or success.shape != z_final.shape[:1]:
        raise ValueError(f"expected z_final [N, K] and success [N], got {z_final.shape} and {success.shape}")
    complete, success = z_final.astype(bool).all(1), success.astype(bool)
    hits = int((complete & success).sum())
    predicted, actual = int(complete.sum()), int(success.sum())
    ratio = lambda a, b: a / b if b else float("nan")  # noqa: E731
    return ratio(hits, predicted), ratio(hits, actual), ratio(2 * hits, predicted + actual)


def auroc(score, success) -> float:
    """P(s_i > s_j) + ½ P(s_i = s_j) over a success i and a failure j    §5.1, Figure 4 (left)

    score    [N]       the progress score s_i = (1/K) Σ_k z_{i,k}, or any other
    success  bool [N]

    NaN where only one class is present.  The paper has 0.84.

    >>> auroc([0.25, 0.5, 0.5, 1.0], [0, 0, 1, 1])  # of the 4 pairs 3 are in order and 1 is tied
    0.875
    """
    score, success = _paired(score, success)
    wins, losses = int(success.sum()), int((~success).sum())
    if not wins or not losses:
        return float("nan")
    ranks = scipy.stats.rankdata(score)  # mid-ranks: a tie counts half
    return float((ranks[success].sum() - wins * (wins + 1) / 2) / (wins * losses))


def kendall_tau(count, success) -> tuple[float, float]:
    """(τ_b, p) of the number of completed sub-goals and success    §5.1

    τ_b = (concordant − discordant pairs) / √(pairs not tied in count · pairs not tied in success)

    count    [N]       completed sub-goals
    success  bool [N]

    Both NaN where either is constant.  The paper has 0.4585, p < 0.001.
    """
    count, success = _paired(count, success)
    if len(count) < 2 or len(set(count.tolist())) < 2 or len(set(success.tolist())) < 2:
        return float("nan"), float("nan")
    tau, p = scipy.stats.kendalltau(count, success)
    return float(tau), float(p)


def success_by_count(count, success, k: int) -> np.ndarray:
    """P(y = 1 | m) for m = 0 … K completed sub-goals: [K+1], NaN where no episode completed m    §5.1, Figure 4 (right)

    >>> success_by_count([0, 2, 2], [0, 1, 0], 2)
    array([0. , nan, 0.5])
    """
    count, success = _paired(count, success)
    if k < 1 or ((count < 0) | (count > k) | (count != np.floor(count))).any():
        raise ValueError(f"expected k >= 1 and whole counts in 0 … {k}, got {count.tolist()}")
    episodes = np.bincount(count.astype(int), minlength=k + 1)
    wins = np.bincount(count.astype(int), weights=success, minlength=k + 1)
    return np.divide(wins, episodes, out=np.full(k + 1, np.nan), where=episodes > 0)


def _paired(values, success) -> tuple[np.ndarray, np.ndarray]:
    values, success = np.asarray(values, float), np.asarray(success)
    if values.ndim != 1 or values.shape != success.shape or np.isnan(values).any():
        raise ValueError(f"expected two arrays [N] without NaN, got shapes {values.shape} and {success.shape}")
    return values, success.astype(bool)


def main() -> None:
    parser = argparse.ArgumentParser(description="How well sub-goals tell success from failure in files of trajectories.")
    parser.add_argument("files", nargs="+", help="JSON Lines, one trajectory a line")
    try:
        episodes = [t for file in parser.parse_args().files for t in read_trajectories(file) if t.end != "environment_failure"]
    except (OSError, ValueError) as error:  # no such file, or a line that is no trajectory
        parser.error(str(error))
    k = max((len(t.task.subgoals) for t in episodes), default=0)
    episodes = [t for t in episodes if k and len(t.task.subgoals) == k]
    if not episodes:
        parser.error("none of the episodes has sub-goals")
    z, success = np.array([np.any(t.z, axis=0) for t in episodes]), np.array([t.success for t in episodes])
    count, tau = z.sum(1), "τ = {:.3f} (p = {:.2g})"
    precision, recall, f1 = equivalence(z, success)
    print(f"{len(episodes)} episodes with {k} sub-goals, {success.sum()} successes")
    print(f"all {k} done as a sign of success: precision {precision:.2f}, recall {recall:.2f}, F1 {f1:.2f}")
    print(f"share done: AUROC {auroc(count / k, success):.2f}, Kendall's " + tau.format(*kendall_tau(count, success)))
    for m, rate in enumerate(success_by_count(count, success, k)):
        print(f"P(success | {m} done) = {rate:.2f}  of {(count == m).sum()}")


if __name__ == "__main__":
    main()

"""What are the tasks, and when is one solved?

Task files have WebArena's own JSON format, so the same loader and evaluators serve PocketArena and WebArena-Lite.  The
evaluators follow the variant that WebRL and VisualAgentBench use: a score is the product of its parts, and only 1.0 is
success.  PocketArena's entries add the world's seed, four sub-goals with a check each, and an oracle's actions.

Sub-goal checks stand in for the paper's LLM judge (section 5.1): each is a condition on the page, its address and the
world's database, so z_t is exact and costs nothing.  `SubgoalChecker` in ``subgoals`` is the judge for other sites.
"""

from __future__ import annotations

import importlib
import json
import random
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from environment.browser import Tab, evaluate_text
from environment.websites import SITES, World, seeded_database
from environment.websites.authoring import Draft, Template, Unsuitable, formatted
from trajectory import Observation, Task, as_text, task_from_json

TASK_FOLDER = Path(__file__).parent / "websites" / "tasks"
SPLITS = ("evaluation", "pool")


def load_tasks(source: str | Path) -> list[Task]:
    """The tasks of a split of PocketArena ("evaluation", "pool") or of a file in WebArena's JSON format."""
    path = TASK_FOLDER / f"{source}.json" if str(source) in SPLITS else Path(source)
    if not path.exists():
        raise FileNotFoundError(f"expected {' or '.join(map(repr, SPLITS))} or a task file, got {str(source)!r}")
    return [task_from_json(entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


# --- making tasks from templates -----------------------------------------------------------------------------------


def templates() -> dict[str, tuple[str, Template]]:
    """Every template by its id, with its site: {"forum/create_post": ("forum", create_post), …}."""
    found = {}
    for site in SITES:
        for template in importlib.import_module(f"environment.websites.{site}.tasks").TEMPLATES:
            found[f"{site}/{template.__name__}"] = (site, template)
    return found


def instantiate(template_id: str, seed: int, *, task_id: str = "") -> Task:
    """The task that a template makes of the world `seed`; raises `Unsuitable` where there is none."""
    site, template = templates()[template_id]
    rng = random.Random(f"{template_id}/{seed}")
    draft: Draft = template(seeded_database(seed), rng)
    return Task(
        task_id=task_id or f"{template_id}/{seed}",
        sites=(site,),
        intent=rng.choice(draft.intents),
        start_url=draft.start,
        eval=draft.eval,
        intent_template_id=template_id,
        world=seed,
        subgoals=[text for text, _ in draft.subgoals],
        subgoal_checks=[check for _, check in draft.subgoals],
        oracle=formatted(draft.oracle),
    )


def first_suitable(template_id: str, seeds, *, task_id: str = "") -> Task:
    """The task of the first seed that the template can use."""
    for seed in seeds:
        try:
            return instantiate(template_id, seed, task_id=task_id)
        except Unsuitable:
            continue
    raise ValueError(f"{template_id}: none of the given worlds is suitable")


def perturb(task: Task, rng) -> Task:
    """A failed task's sibling: the same template in another world (appendix A.3's perturbed failures).

    `rng` is a NumPy generator.  The worlds drawn lie outside the seeds of both splits.
    """
    if task.intent_template_id not in templates():
        raise ValueError(f"only tasks of the bundled sites can be perturbed, got template {task.intent_template_id!r}")
    seeds = (int(rng.integers(10_000_000, 2**31)) for _ in range(100))
    return first_suitable(task.intent_template_id, seeds)


# --- sub-goals -------------------------------------------------------------------------------------------------------


def completed_subgoals(task: Task, observation: Observation, world: World) -> tuple[bool, ...]:
    """z_t: which of the K checks hold in this state (not latched)."""
    page = as_text(observation)
    return tuple(_holds(check, observation.url, page, world) for check in task.subgoal_checks)


def _holds(check: dict, url: str, page: str, world: World) -> bool:
    return (
        re.search(check.get("path", ""), url) is not None
        and all(text in page for text in check.get("page", ()))
        and (not check.get("db") or bool(world.query(*check["db"])))
    )


# --- evaluators ------------------------------------------------------------------------------------------------------


async def score(task: Task, answer: str, tab: Tab, world: World, judge=None) -> float:
    """The product of the task's evaluators; 1.0 is success.

    judge    callable (question, reference, answer) -> bool for `fuzzy_match` and unachievable tasks; without one, tasks
             that need it raise a ValueError
    """
    result = 1.0
    for kind in sorted(task.eval["eval_types"], key="program_html".__eq__):  # the last, since it may leave the agent's page
        match kind:
            case "string_match":
                result *= string_match(answer, task.eval["reference_answers"], task.intent, judge)
            case "url_match":
                reference = world.url(task.eval["reference_url"])
                result *= url_match(tab.page.url, reference, task.eval.get("url_note", "EXACT"))
            case "program_html":
                for target in sorted(task.eval["program_html"], key=lambda target: target["url"] != "last"):
                    result = result and result * await _program_html(target, tab, world)
            case _:
                raise ValueError(f"task {task.task_id}: unknown evaluator {kind!r}")
    return result


def clean_answer(answer: str) -> str:
    """
    >>> clean_answer('"Mia"')
    'mia'
    """
    answer = answer.strip()
    if len(answer) >= 2 and answer[0] == answer[-1] and answer[0] in "\"'":
        answer = answer[1:-1]
    return answer.lower()


def exact_match(answer: str, reference: str) -> float:
    return float(clean_answer(answer) == clean_answer(reference))


def must_include(answer: str, reference: str) -> float:
    """1 when one of the " |OR| " alternatives is in the answer: a single word as a word, a longer one as a substring.

    >>> must_include("it takes 170 minutes", "17")
    0.0
    """
    answer = clean_answer(answer)
    for alternative in map(clean_answer, reference.split(" |OR| ")):
        tokens = words(alternative)
        if (alternative in words(answer)) if len(tokens) == 1 else (alternative in answer):
            return 1.0
    return 0.0


def words(text: str) -> set[str]:
    """Tokens as WebArena's evaluator makes them; one with a slash also counts as its parts."""
    tokens = re.findall(r"[$€£]?\d[\d.,:/%-]*\d%?|[^\W\d_](?:[\w'/-]*\w)?|[$€£]?\d%?|\S", text)
    return {part for token in tokens for part in (token, *token.split("/"))}


def string_match(answer: str, references: dict, intent: str, judge=None) -> float:
    result = 1.0
    for how, reference in references.items():
        match how:
            case "exact_match":
                result *= exact_match(answer, reference)
            case "must_include":
                for part in reference:
                    result *= must_include(answer, part)
            case "fuzzy_match":
                if reference == "N/A" and clean_answer(answer) == "n/a":
                    continue
                if judge is None:
                    raise ValueError("this task's answer needs a judge model, and none was given")
                for part in [reference] if isinstance(reference, str) else reference:
                    result *= float(judge(intent, part, answer))
            case _:
                raise ValueError(f"unknown way to match an answer: {how!r}")
    return result


def url_match(url: str, reference: str, note: str = "EXACT") -> float:
    """EXACT: the address equals one alternative; GOLD in PRED: it contains one.  A final "/" does not count.

    >>> url_match("http://h/a/?q=1", "http://h/a?q=1")
    1.0
    """

    def plain(address: str) -> str:
        parts = urlsplit(address.replace("localhost", "127.0.0.1"))
        query = sorted((key, value) for key, values in parse_qs(parts.query).items() for value in values)
        return f"{parts.netloc}{parts.path.rstrip('/')}" + (f"?{query}" if query else "")

    alternatives = reference.split(" |OR| ")
    if note == "EXACT":
        return float(any(plain(url) == plain(alternative) for alternative in alternatives))
    if note == "GOLD in PRED":
        return float(any(alternative.rstrip("/") in url for alternative in alternatives))
    raise ValueError(f"unknown url_note {note!r}: expected 'EXACT' or 'GOLD in PRED'")


async def _program_html(target: dict, tab: Tab, world: World) -> float:
    url, locator = target["url"], target["locator"].strip()
    expression = locator or "document.documentElement.outerHTML"
    if not expression.startswith("document."):
        raise ValueError(f"expected a locator that is empty or starts with 'document.', got {locator!r}")
    found = await (evaluate_text(tab.page, expression) if url == "last" else tab.read(world.url(url), expression))
    required, result = target["required_contents"], 1.0
    if "exact_match" in required:
        result *= exact_match(found, required["exact_match"])
    for part in required.get("must_include", ()):
        result *= float(any(option.lower() in found.lower() for option in part.split(" |OR| ")))
    return result

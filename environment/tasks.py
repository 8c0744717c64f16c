"""What are the tasks, and when is one solved?

Task files have WebArena's own JSON format, so the same loader and evaluators (``evaluators``) serve PocketArena and
WebArena-Lite.  PocketArena's entries add the world's seed, four sub-goals with a check each, and an oracle's actions.

Sub-goal checks stand in for the paper's LLM judge (section 5.1): each is a condition on the page, its address and the
world's database, so z_t is exact and costs nothing.  `SubgoalChecker` in ``subgoals`` is the judge for other sites.
"""

from __future__ import annotations

import importlib
import json
import random
import re
from pathlib import Path

from environment.evaluators import Judge, html_match, page_expression, page_url, string_match, url_match
from environment.tab import Tab, evaluate_text
from environment.websites import SITES, World, seeded_database
from environment.websites.authoring import Draft, Template, Unsuitable, formatted
from trajectory import Observation, Task, as_text, task_from_json

TASK_FOLDER = Path(__file__).parent / "websites" / "tasks"
SPLITS = ("evaluation", "pool")
MULTI_SITE = "multi_site"  # the group of the tasks that need two sites
GOALS = {"string_match": "answer", "program_html": "state", "url_match": "page"}
HELD_OUT = frozenset(  # templates that only the evaluation has: does what was learned carry over to other requests?
    {
        "shop_admin/stock_of_ordered_product",
        "shop_admin/restock_ordered_product",
        "shop_admin/settle_and_tell_amount",
        "map/minutes_from_best_rated",
        "map/save_and_tell_phone",
        "shop/stock_of_ordered_item",
        "shop/reorder_item",
        "shop/order_to_saved_address",
        "forum/sum_of_comments",
        "forum/open_most_commented_of_author",
        "gitlab/count_across_projects",
        "gitlab/invite_author",
        "gitlab/open_merge_request",
        "multi_site/city_of_reviewer",
        "multi_site/order_to_place",
    }
)


def load_tasks(source: str | Path) -> list[Task]:
    """The tasks of a split of PocketArena ("evaluation", "pool") or of a file in WebArena's JSON format."""
    path = TASK_FOLDER / f"{source}.json" if str(source) in SPLITS else Path(source)
    if not path.exists():
        raise FileNotFoundError(f"expected {' or '.join(map(repr, SPLITS))} or a task file, got {str(source)!r}")
    return [task_from_json(entry) for entry in json.loads(path.read_text(encoding="utf-8"))]


# --- making tasks from templates -----------------------------------------------------------------------------------


def templates() -> dict[str, tuple[tuple[str, ...], Template]]:
    """Every template by its id, with its sites: {"forum/create_post": (("forum",), create_post), …}."""
    found = {}
    for site in SITES:
        for module in ("tasks", "lookups"):
            for template in importlib.import_module(f"environment.websites.{site}.{module}").TEMPLATES:
                found[f"{site}/{template.__name__}"] = ((site,), template)
    for sites, template in importlib.import_module(f"environment.websites.{MULTI_SITE}").TEMPLATES:
        found[f"{MULTI_SITE}/{template.__name__}"] = (sites, template)
    return found


def is_held_out(task: Task) -> bool:
    """Whether the task's template is one that the pool does not have."""
    return task.intent_template_id in HELD_OUT


def goal(task: Task) -> str:
    """What the task asks for: an "answer", a "state" of the site, a "page" to stop on, or "both" of two of these."""
    names = [GOALS[kind] for kind in task.eval["eval_types"]]
    return names[0] if len(names) == 1 else "both"


def instantiate(template_id: str, seed: int, *, task_id: str = "") -> Task:
    """The task that a template makes of the world `seed`; raises `Unsuitable` where there is none."""
    sites, template = templates()[template_id]
    rng = random.Random(f"{template_id}/{seed}")
    draft: Draft = template(seeded_database(seed), rng)
    return Task(
        task_id=task_id or f"{template_id}/{seed}",
        sites=sites,
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


# --- scores ----------------------------------------------------------------------------------------------------------


async def score(task: Task, answer: str, tab: Tab, world: World, judge: Judge | None = None) -> float:
    """The product of the task's evaluators; 1.0 is success.

    judge    callable (question, reference, answer) -> bool for `fuzzy_match` and unachievable tasks
             (`evaluators.model_judge` makes one of a model); without one, tasks that need it raise a ValueError
    """
    rules, result = task.eval, 1.0
    for kind in sorted(rules["eval_types"], key="program_html".__eq__):  # the last, since it may leave the agent's page
        match kind:
            case "string_match":
                note = rules.get("string_note") or ""
                result *= string_match(answer, rules["reference_answers"], task.intent, judge, note=note)
            case "url_match":
                result *= url_match(tab.page.url, world.url(rules["reference_url"]), rules.get("url_note") or "EXACT")
            case "program_html":
                last_url = tab.page.url
                for target in sorted(rules["program_html"], key=lambda target: target["url"] != "last"):
                    if result == 0:
                        break
                    url, expression = target["url"], page_expression(target["locator"])
                    if url == "last":
                        found = await evaluate_text(tab.page, expression)
                    else:
                        found = await tab.read(page_url(world.url(url), last_url), expression)
                    result *= html_match(found, target["required_contents"], task.intent, judge)
            case _:
                raise ValueError(f"task {task.task_id}: unknown evaluator {kind!r}")
        if result == 0:  # neither a page nor a judge has to be asked
            return result
    return result

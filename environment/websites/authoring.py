"""How a task template is written.

A template is a function ``(db, rng) -> Draft``.  It looks at a filled database, draws what the task is about, and says
four things: the intent (in several wordings), what proves success, K = 4 sub-goals with a check each, and the oracle's
actions.  Raise `Unsuitable` when this world cannot hold the task; another seed is then tried.
"""

from __future__ import annotations

import random
import sqlite3
from dataclasses import dataclass
from typing import Callable

from trajectory import Action, format_action


class Unsuitable(Exception):
    """This world has no instance of the template."""


@dataclass(frozen=True)
class Draft:
    """What a template says of one task.

    intents    wordings of the same request; one is drawn
    eval       WebArena's evaluator configuration
    subgoals   four `subgoal(…)` entries, in the expected order; none may hold on the start page
    oracle     actions from the start page to the end, the last a `stop`
    start      where the episode starts
    """

    intents: list[str]
    eval: dict
    subgoals: list[tuple[str, dict]]
    oracle: list[Action]
    start: str


Template = Callable[[sqlite3.Connection, random.Random], Draft]


def subgoal(text: str, *, path: str = "", page: tuple[str, ...] | list[str] = (), db: tuple = ()) -> tuple[str, dict]:
    """A milestone in plain words and its check; all the parts that are given must hold in the same state.

    path   regular expression searched in the URL's path and query
    page   texts that the observation must contain, each
    db     (sql, argument, …): the query must return a row
    """
    check = {"path": path, "page": list(page), "db": list(db)}
    if not any(check.values()):
        raise ValueError(f"sub-goal {text!r} checks nothing")
    return text, {key: value for key, value in check.items() if value}


# --- actions, as the oracle writes them --------------------------------------------------------------------------


def click(role: str, name: str, nth: int = 1) -> Action:
    return Action("click", role, name, nth)


def type_into(name: str, text: str, role: str = "textbox", nth: int = 1) -> Action:
    return Action("type", role, name, nth, text)


def select(name: str, option: str, nth: int = 1) -> Action:
    return Action("select", "combobox", name, nth, option)


def press(key: str) -> Action:
    return Action("press", text=key)


def goto(path: str) -> Action:
    return Action("goto", text=path)


def go_back() -> Action:
    return Action("go_back")


def stop(answer: str = "") -> Action:
    return Action("stop", text=answer)


# --- evaluators, in WebArena's format ----------------------------------------------------------------------------


def answer_is(exact: str = "", *, includes: list[str] = ()) -> dict:
    """string_match: the answer given with `stop`."""
    references = {"exact_match": exact} if exact else {"must_include": list(includes)}
    return {"eval_types": ["string_match"], "reference_answers": references}


def ends_at(url: str) -> dict:
    """url_match: the page on which the agent stops, such as "__FORUM__/f/books"."""
    return {"eval_types": ["url_match"], "reference_url": url, "url_note": "EXACT"}


def page_shows(*pages: tuple[str, str, list[str]]) -> dict:
    """program_html: afterwards, each (url, css selector or "", texts) page's element contains all the texts."""
    return {
        "eval_types": ["program_html"],
        "program_html": [
            {
                "url": url,
                "locator": f"document.querySelector('{selector}').innerText" if selector else "",
                "required_contents": {"must_include": list(texts)},
            }
            for url, selector, texts in pages
        ],
    }


def both(first: dict, second: dict) -> dict:
    """Both evaluators must pass."""
    return {**first, **second, "eval_types": first["eval_types"] + second["eval_types"]}


def formatted(oracle: list[Action]) -> list[str]:
    return [format_action(action) for action in oracle]

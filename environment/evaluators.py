"""When is an answer, an address or a page right?

The rules of WebArena-Lite's evaluators, in the variant that VisualAgentBench and WebRL use, as functions of text.  A task's
score is the product of its parts, and only 1.0 is success.

Where we depart from that variant, each on purpose:

* words are split by one regular expression, not by NLTK: a number is a word without its unit ("5km" holds "5");
* an address that must be equal may differ in the order and the spelling of its query and in its fragment;
* a judge is asked about each part of a fuzzy reference, and never for "N/A" said in so many words; a task that is judged
  unachievable keeps the other parts of its score;
* a helper that a task file names is looked up and called with its literals: nothing in a task file is run as Python.

The original variant, which the package ``browsergym-webarenalite`` has, takes most one-word references as substrings, knows
no " |OR| " in an answer and compares addresses by parts; ``tests/test_evaluators.py`` counts the disagreements.
"""

from __future__ import annotations

import ast
import html
import json
import re
from typing import Callable
from urllib.parse import parse_qs, urlsplit

ALTERNATIVES = " |OR| "
Judge = Callable[[str, str, str], bool]  # (question, reference, answer)


# --- answers ---------------------------------------------------------------------------------------------------------


def clean_answer(answer: str) -> str:
    """One matching pair of quotes off, then lower case.

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
    for alternative in map(clean_answer, reference.split(ALTERNATIVES)):
        if alternative in (words(answer) if len(tokens(alternative)) == 1 else answer):
            return 1.0
    return 0.0


def tokens(text: str) -> list[str]:
    """
    >>> tokens("It's $3.50 (and/or 5%).")
    ["It's", '$3.50', '(', 'and/or', '5%', ')', '.']
    """
    return re.findall(r"[$€£]?\d[\d.,:/%-]*\d%?|[^\W\d_](?:[\w'/-]*\w)?|[$€£]?\d%?|\S", text)


def words(text: str) -> set[str]:
    """The tokens of a text; one with a slash also counts as its parts."""
    return {part for token in tokens(text) for part in (token, *token.split("/"))}


def string_match(answer: str, references: dict, intent: str, judge: Judge | None = None, *, note: str = "") -> float:
    """The product over the ways in which an answer is to match.

    note   why the task is unachievable, for a judge of an answer that gives a reason instead of "N/A"
    """
    result = 1.0
    for how, reference in references.items():
        match how:
            case "exact_match":
                result *= exact_match(answer, reference)
            case "must_include":
                for part in listed(reference):
                    result *= must_include(answer, part)
            case "fuzzy_match":
                if reference == "N/A":
                    if not exact_match(answer, "N/A"):
                        result *= judged(judge, intent, f"N/A: {note}" if note else "N/A", answer)
                    continue
                for part in listed(reference):
                    result *= judged(judge, intent, part, answer)
            case _:
                raise ValueError(f"unknown way to match an answer: {how!r}")
    return result


def listed(reference: str | list[str]) -> list[str]:
    """A task file may have one reference without its list."""
    return [reference] if isinstance(reference, str) else reference


# --- the judge -------------------------------------------------------------------------------------------------------


def judged(judge: Judge | None, question: str, reference: str, answer: str) -> float:
    if judge is None:
        raise ValueError("this task's answer needs a judge model, and none was given")
    return float(judge(question, reference, answer))


def model_judge(model, *, attempts: int = 3) -> Judge:
    """A judge that asks a `LanguageModel`.  A reply that is no verdict is asked for again, and never taken for a "no"."""

    def judge(question: str, reference: str, answer: str) -> bool:
        prompt = judge_prompt(question, reference, answer)
        for attempt in range(attempts):
            reply = model.generate([prompt], temperature=0.0 if attempt == 0 else 1.0, max_new_tokens=256)[0].text
            verdicts = re.findall(r"\b(yes|no)\b", reply.lower())
            if verdicts:
                return verdicts[-1] == "yes"
        raise ValueError(f"the judge gave no verdict in {attempts} replies, the last was {reply[:200]!r}")

    return judge


def judge_prompt(question: str, reference: str, answer: str) -> str:
    return (
        "Grade an answer to a question about a web site.  It counts if it means the same as the reference, in other words or\n"
        'with more detail; a part of it does not.  A reference that begins with "N/A" says that the task cannot be done, and\n'
        "why: an answer counts then if it says so for the same reason.\n\n"
        f"question: {json.dumps(question, ensure_ascii=False)}\n"
        f"reference: {json.dumps(reference, ensure_ascii=False)}\n"
        f"answer: {json.dumps(answer, ensure_ascii=False)}\n\n"
        "Does the answer count?  Reply with yes or no.\n"
    )


# --- addresses -------------------------------------------------------------------------------------------------------


def url_match(url: str, reference: str, note: str = "EXACT") -> float:
    """EXACT: the address equals one alternative; GOLD in PRED: it contains one.  A final "/" does not count.

    >>> url_match("http://h/a/?q=1", "http://h/a?q=1")
    1.0
    """

    def local(address: str) -> str:
        return address.replace("localhost", "127.0.0.1")

    def plain(address: str) -> str:
        parts = urlsplit(local(address))
        query = sorted((key, value) for key, values in parse_qs(parts.query).items() for value in values)
        return f"{parts.netloc}{parts.path.rstrip('/')}" + (f"?{query}" if query else "")

    alternatives = reference.split(ALTERNATIVES)
    if note == "EXACT":
        return float(any(plain(url) == plain(alternative) for alternative in alternatives))
    if note == "GOLD in PRED":
        return float(any(local(alternative).rstrip("/") in local(url) for alternative in alternatives))
    raise ValueError(f"unknown url_note {note!r}: expected 'EXACT' or 'GOLD in PRED'")


# --- pages -----------------------------------------------------------------------------------------------------------


def html_match(found: str, required: dict, intent: str = "", judge: Judge | None = None) -> float:
    """What a page was found to hold against a target's `required_contents`."""
    unknown = required.keys() - {"exact_match", "must_include", "fuzzy_match"}
    if unknown or not required:
        raise ValueError(f"unknown required_contents: {', '.join(sorted(unknown)) or 'none'}")
    found, result = html.unescape(found), 1.0
    if "exact_match" in required:
        result *= exact_match(found, required["exact_match"])
    for part in listed(required.get("must_include", [])):
        result *= must_include(found, part)
    if "fuzzy_match" in required:
        result *= judged(judge, intent, ", ".join(listed(required["fuzzy_match"])), found)
    return result


def page_expression(locator: str) -> str:
    """The JavaScript of a locator: empty means the whole page, a "func:" is one of `PAGE_FUNCTIONS`."""
    locator = locator.strip()
    if not locator:
        return "document.documentElement.outerHTML"
    if locator.startswith(("document.", "[...document.")):
        return locator
    if locator.startswith("func:"):
        return _call(locator, PAGE_FUNCTIONS)
    raise ValueError(f"expected a locator that is empty or starts with 'document.' or 'func:', got {locator!r}")


def page_url(url: str, last_url: str) -> str:
    """The address of a target that names a function instead of one: "func:" and one of `URL_FUNCTIONS`.

    >>> page_url("func:reddit_get_post_url('__last_url__')", "http://h/f/books/7/a-title?x#c1")
    'http://h/f/books/7/'
    """
    return _call(url, URL_FUNCTIONS, __last_url__=last_url) if url.startswith("func:") else url


def _call(text: str, functions: dict[str, Callable[..., str]], **places: str) -> str:
    """`func:name('a', …)` with literal arguments, in which the names of `places` stand for their values."""
    try:
        call = ast.parse(text.removeprefix("func:").strip(), mode="eval").body
        name, arguments = call.func.id, [a for a in call.args if not (isinstance(a, ast.Name) and a.id == "__page__")]
        values = [places.get(value := ast.literal_eval(argument), value) for argument in arguments]
        function = functions[name]
    except (SyntaxError, ValueError, AttributeError, KeyError) as error:
        known = ", ".join(sorted(functions))
        raise ValueError(f"expected an address, 'document.…' or a call of {known}, got {text!r}") from error
    return function(*values)


def post_url(url: str) -> str:
    """The address of a forum's post, from that of one of its comments."""
    parts = urlsplit(url)
    steps = parts.path.split("/")
    return f"{parts.scheme}://{parts.netloc}/f/{steps[2]}/{steps[3]}/" if len(steps) > 3 and steps[1] == "f" else url


def member_role(account: str) -> str:
    """The role of a code host's member, read from the list of members."""
    return f"""[...document.querySelectorAll("td[data-label='Account']")]
        .filter((cell) => cell.querySelector("span.gl-avatar-labeled-sublabel")?.outerText === {json.dumps("@" + account)})
        .map((cell) => cell.closest("tr").querySelector("td.col-max-role span").outerText)[0]"""


# By the names that WebArena's task files use.  A site's own can be added: `URL_FUNCTIONS["name"] = function`.
URL_FUNCTIONS: dict[str, Callable[..., str]] = {"reddit_get_post_url": post_url}
PAGE_FUNCTIONS: dict[str, Callable[..., str]] = {"gitlab_get_project_memeber_role": member_role}

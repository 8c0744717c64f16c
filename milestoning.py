"""How does an agent keep track of its progress while it acts?  (Section 5.2, Figures 5, 9, 14)

Before each action the agent looks back over what it did and answers three questions: which milestones have I achieved,
have I completed the current one, which should come next?  The answers and a progress vector z_t come from an AutoRater,
a judge inside the same model.  z_t goes into the next prompt as a checklist, which keeps the agent from believing in
progress that it did not make; when z_t has not grown for a while, the agent is told what it repeats and plans anew.

Settled here.  z_t is latched by the function that the progress labels use: a milestone once seen done stays done.  A
rating that cannot be had is None, and the caller goes on with the last z.  The paper says that the "auto" budget spends
tokens where the check is ambiguous, and leaves it to Gemini to notice; `is_ambiguous` is our rule for any model.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Sequence

import numpy as np

from progress_labels import latch
from subgoals import numbered, one_line, parse_json_objects, parse_verdict, quote_page
from trajectory import Observation, Step, format_action

if TYPE_CHECKING:
    from language_model import LanguageModel

_log = logging.getLogger(__name__)

# The three questions of Figure 5, in our words, by the field of `Reflection` that answers them.
QUESTIONS = {
    "achieved": "Looking back over your actions and pages, which milestones have you achieved?",
    "current": "Have you completed the milestone that you are working on? What on the page shows it?",
    "next": "Which milestone comes next, and which action brings you closer to it?",
}
ANSWER_TOKENS = 256  # room for three short answers and z
QUICK_BUDGET = 256  # Figure 14's smallest budget: 6.5 s a step, 24.3 % success
DEEP_BUDGET = 8192  # Figure 14's best fixed budget: 19 s a step, 32.5 % success; 16,384 does worse


@dataclass(frozen=True)
class Reflection:
    """What the agent holds of its own progress at step t.

    z          K booleans: the milestones achieved by now, latched
    achieved   the answer to the first question, what has been achieved
    current    … to the second, whether the current milestone is completed
    next       … to the third, what comes next
    certain    whether the rater said that what it saw leaves no doubt
    judged     False where no rating could be had and z is the one before: not the same as "nothing new"
    """

    z: tuple[bool, ...]
    achieved: str = ""
    current: str = ""
    next: str = ""
    certain: bool = True
    judged: bool = True

    @property
    def current_subgoal(self) -> int | None:
        """The first milestone that is not done, or None when all are."""
        return next((k for k, done in enumerate(self.z) if not done), None)


# --- reading progress -------------------------------------------------------------------------------------------


def stagnated(z_history, patience: int) -> bool:
    """c_t = c_{t−patience}: no milestone was completed for the first time in the last `patience` steps    §5.2

    z_history  [t+1, K] bool, z_0 … z_t; latched or not, the answer is the same

    False as long as there have been fewer than `patience` steps.

    >>> stagnated([[0, 0], [1, 0], [1, 0], [0, 0]], patience=2)
    True
    >>> stagnated([[0, 0], [1, 0], [1, 0], [0, 1]], patience=2)
    False
    """
    if patience < 1:
        raise ValueError(f"expected a patience of at least 1 step, got {patience}")
    if len(z_history) <= patience:
        return False
    done = latch(np.asarray(z_history, bool)).sum(1)
    return bool(done[-1] == done[-1 - patience])


def checklist(subgoals: Sequence[str], z: Sequence[bool]) -> str:
    """The milestones as lines for the actor's prompt, done or not.

    A milestone stays on one line.  Text of the page goes into a prompt behind `subgoals.quote_page`'s bars, so that a page
    that prints "[x] Submit" cannot tick a milestone off.

    >>> print(checklist(["Open the forum", "Submit"], [True, False]))
    [x] Open the forum
    [ ] Submit
    """
    if len(subgoals) != len(z):
        raise ValueError(f"expected one z for each of {len(subgoals)} sub-goals, got {len(z)}")
    return "\n".join(f"[{'x' if done else ' '}] {one_line(subgoal)}" for subgoal, done in zip(subgoals, z))


def replan_instruction(subgoals: Sequence[str], z: Sequence[bool], recent: Sequence[Step]) -> str:
    """What a stagnating agent is told before its next action: what it repeated, and which milestone is still open.

    recent   the steps since z last grew
    """
    pairs = Counter((one_line(format_action(step.action)), one_line(step.observation.url)) for step in recent)
    repeated = [f"- {action} on {url}, {times} times" for (action, url), times in pairs.most_common(3) if times > 1]
    lines = [f"No milestone was reached in the last {len(recent)} steps."]
    if repeated:
        lines += ["You repeated, without effect:", *repeated, "Do not do these again. Go another way."]
    else:
        lines += ["You repeated no action, but this way does not lead on. Go back to where it began, and go another way."]
    open_ = [one_line(subgoal) for subgoal, done in zip(subgoals, z, strict=True) if not done]
    lines.append(f"Plan anew for this milestone: {open_[0]}" if open_ else "All milestones are reached: finish the task.")
    return "\n".join(lines)


# --- how much to think ------------------------------------------------------------------------------------------


def thinking_budget(mode: str | int, ambiguous: bool = False) -> int:
    """Tokens for thinking before an answer (appendix A.2, Figure 14).

    mode        "off": none; a number: that many at every step; "auto": `DEEP_BUDGET` where the check of the milestones
                was ambiguous, else `QUICK_BUDGET`
    ambiguous   what `is_ambiguous` says of the quick check

    >>> thinking_budget("auto"), thinking_budget("auto", ambiguous=True), thinking_budget(1024), thinking_budget("off")
    (256, 8192, 1024, 0)
    """
    if mode == "off":
        return 0
    if mode == "auto":
        return DEEP_BUDGET if ambiguous else QUICK_BUDGET
    if isinstance(mode, bool) or not isinstance(mode, int) or mode < 0:
        raise ValueError(f'expected "off", "auto" or a number of tokens, got {mode!r}')
    return mode


def is_ambiguous(rated: Reflection | None, z_before: Sequence[bool]) -> bool:
    """Whether a quick check needs a second, deeper one.  It does when

    * there is none: the reply could not be read;
    * the rater itself says that it is not certain;
    * it takes back a milestone that was done before;
    * it skips ahead: a milestone is newly done while an earlier one is open.

    rated   the rater's own z, before it is latched
    """
    if rated is None or not rated.certain or any(b and not a for a, b in zip(rated.z, z_before, strict=True)):
        return True
    fresh = [k for k, (now, before) in enumerate(zip(rated.z, z_before)) if now and not before]
    return bool(fresh) and not all(rated.z[: fresh[-1]])


# --- the AutoRater ----------------------------------------------------------------------------------------------


def reflection_prompt(
    intent: str, subgoals: Sequence[str], steps: Sequence[Step], page: Observation, z_before: Sequence[bool], budget: int
) -> str:
    """The three questions over the trace so far: actions and where they were done, the page now, the checklist."""
    trace = [f"{i}. {one_line(format_action(s.action))} on {one_line(s.observation.url)}" for i, s in enumerate(steps, 1)]
    questions = "\n".join(f'"{field}": {question}' for field, question in QUESTIONS.items())
    fields = ", ".join(f'"{field}": "…"' for field in QUESTIONS)
    zeros = ", ".join("0" * len(subgoals))
    think = f"Think first, in at most {budget} tokens. Then answer" if budget else "Answer at once"
    error = f"\nThe last action failed or said: {one_line(page.error)}" if page.error else ""
    return "\n\n".join(
        [
            "You are an agent on a website, and pause to check your progress. Hold a milestone for achieved only if the "
            "actions and pages show it.",
            "Your actions so far:\n" + ("\n".join(trace) or "none"),
            f"The page now, {quote_page(one_line(page.title))} at {one_line(page.url)}:\n{quote_page(page.text)}{error}",
            f"Task: {one_line(intent)}\nMilestones:\n{numbered(subgoals)}",
            f"As of the last check:\n{checklist(subgoals, z_before)}",
            f"{questions}\n{think} with JSON: {{{fields}, "
            f'"z": [{zeros}], "certain": true}}. In z, put 1 for each achieved milestone; '
            "say false for certain if the page leaves a doubt.\n",
        ]
    )


def parse_reflection(text: str, k: int) -> Reflection | None:
    """The rater's reply, its z not yet latched, or None: unjudged.  z is required, answers left out are empty.

    >>> parse_reflection('{"achieved": "the first", "z": [1, 0]}', 2)
    Reflection(z=(True, False), achieved='the first', current='', next='', certain=True, judged=True)
    """
    z = parse_verdict(text, k)
    if z is None:
        return None
    answers = next(value for value in reversed(parse_json_objects(text)) if "z" in value)
    said = {field: one_line(str(answers.get(field) or "")) for field in QUESTIONS}
    return Reflection(z, **said, certain=answers.get("certain", True) is True)


@dataclass(frozen=True)
class AutoRater:
    """The judge that reflects for the agent: the same model that acts, or any other (section 5.2).

    model      the language model
    thinking   "auto", "off", or a fixed number of tokens, see `thinking_budget`
    attempts   how often an unreadable reply is asked for again
    """

    model: LanguageModel
    thinking: str | int = "auto"
    attempts: int = 2

    def reflect(
        self,
        intent: str,
        subgoals: Sequence[str],
        steps: Sequence[Step],
        page: Observation,
        z_before: Sequence[bool] | None = None,
        picture: bytes = b"",
    ) -> Reflection | None:
        """The reflection before the action a_t, with z_t latched onto `z_before`; None when it stays unjudged.

        steps     the t steps taken so far
        page      o_t
        z_before  z_{t−1}; none done where it is left out
        picture   a screenshot of the page, for a model that takes images
        """
        z_before = tuple(map(bool, z_before)) if z_before is not None else (False,) * len(subgoals)
        asked = intent, subgoals, steps, page, z_before
        rated = None
        try:
            rated = self._rate(*asked, picture, ambiguous=False)
            if self.thinking == "auto" and is_ambiguous(rated, z_before):
                rated = self._rate(*asked, picture, ambiguous=True) or rated
        except ConnectionError as error:  # it was retried where it was raised
            _log.warning("unjudged: %s", error)
        if rated is None:
            return None
        return replace(rated, z=tuple(map(bool, latch(np.array([z_before, rated.z]))[-1])))

    def _rate(self, intent, subgoals, steps, page, z_before, picture, ambiguous: bool) -> Reflection | None:
        budget = thinking_budget(self.thinking, ambiguous)
        prompt = reflection_prompt(intent, subgoals, steps, page, z_before, budget)
        shown = {"picture": picture} if picture else {}  # most models have no such argument
        for attempt in range(1 if self.thinking == "auto" and not ambiguous else self.attempts):
            temperature = 0.7 if attempt else 0.0  # a greedy model would only repeat what could not be read
            (reply,) = self.model.generate([prompt], temperature=temperature, max_new_tokens=ANSWER_TOKENS + budget, **shown)
            rated = None if reply.cut else parse_reflection(reply.text, len(subgoals))
            if rated is not None:
                return rated
        return None

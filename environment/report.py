"""What is left of a run for a person to read?  A screenshot a step, and one page that needs nothing else.

The page holds its pictures itself and has no script.  Whatever comes from a site or a model is escaped, and the page's own
policy forbids it to load or run anything: a site that the agent visited cannot act on who reads the report.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Sequence

from playwright.async_api import Error as PlaywrightError

from environment.browser import Tab
from environment.safety import Secrets
from trajectory import Observation

PICTURE_LIMIT_MS = 5000
HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
section { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 3fr); gap: 1.5rem; border-top: 1px solid #ccc; padding: 1rem 0 }
section.key { border-left: 6px solid #c33; padding-left: 1rem }
img { width: 100%; border: 1px solid #ccc } pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px }
h1 { font-size: 1.4rem } h2 { font-size: 1rem; margin: 0 } p { margin: .3rem 0; overflow-wrap: anywhere }
.action { font: bold 14px monospace } .quiet { color: #777 } .error { color: #a00 } .done { color: #070 }
ul { list-style: none; padding: 0; margin: .5rem 0 } @media (max-width: 50rem) { section { display: block } }
</style>
"""


@dataclass
class Moment:
    """One state of an episode, and what the agent made of it.

    screenshot   JPEG; empty where the page could not be photographed
    z, judged    which milestones are reached; False where no rating could be had and z is the one before
    answers      to the three questions
    action       the line of the action that followed, with `reason` before it; "" in the last state
    tokens, seconds   what the models spent on it
    """

    observation: Observation
    screenshot: bytes = b""
    z: tuple[bool, ...] = ()
    judged: bool = True
    answers: dict[str, str] = field(default_factory=dict)
    action: str = ""
    reason: str = ""
    tokens: int = 0
    seconds: float = 0.0


async def photograph(tab: Tab, secrets: Secrets) -> bytes:
    """The page as a person would see it, with boxes over passwords that it prints."""
    boxes = [tab.page.get_by_text(secret) for secret in secrets.known]
    try:
        return await tab.page.screenshot(type="jpeg", quality=70, mask=boxes, timeout=PICTURE_LIMIT_MS)
    except PlaywrightError:
        return b""


def write_report(
    folder: str | Path,
    intent: str,
    subgoals: Sequence[str],
    moments: Sequence[Moment],
    outcome: str,
    key_step: int | None,
    secrets: Secrets,
) -> Path:
    """``step-00.jpg`` … and ``report.html`` in `folder`, in place of an earlier episode's.

    outcome    how it ended, a failed episode's failure mode included
    key_step   the step at which a failed episode was lost, or None
    """
    folder = Path(folder)
    for old in folder.glob("step-[0-9][0-9].jpg"):
        old.unlink()
    for step, moment in enumerate(moments):
        if moment.screenshot:
            (folder / f"step-{step:02}.jpg").write_bytes(moment.screenshot)
    text = lambda said: escape(secrets.mask(said))  # noqa: E731
    key = f'<p>Key decision step: <a href="#step-{key_step}">{key_step}</a></p>' if key_step is not None else ""
    parts = [HEAD, f"<title>{text(intent)}</title><h1>{text(intent)}</h1><p><b>{text(outcome)}</b></p>{key}"]
    parts += [_section(step, moment, subgoals, text, step == key_step) for step, moment in enumerate(moments)]
    (folder / "report.html").write_bytes("\n".join(parts).encode("utf-8", "replace"))
    return folder / "report.html"


def _section(step: int, moment: Moment, subgoals: Sequence[str], text, is_key: bool) -> str:
    page = moment.observation
    picture = base64.b64encode(moment.screenshot).decode()
    image = f'<img alt="the page at step {step}" src="data:image/jpeg;base64,{picture}">' if picture else '<p class="quiet">no picture</p>'
    marks = [
        f'<li class="{"done" if done else "open"}">[{"x" if done else " "}] {text(goal)}</li>' for goal, done in zip(subgoals, moment.z)
    ]
    lines = [f"<h2>{step}. {text(page.title)}</h2><p class=quiet>{text(page.url)}</p>"]
    lines += [f'<p class="error">{text(page.error)}</p>'] if page.error else []
    lines += [f"<ul>{''.join(marks)}</ul><p class=quiet>z = {[int(done) for done in moment.z]}</p>"] if marks else []
    lines += [] if moment.judged else ['<p class="error">unjudged: the last check stands</p>']
    lines += [f"<p><i>{text(name)}</i>: {text(answer)}</p>" for name, answer in moment.answers.items() if answer]
    lines += [f"<p><i>because</i> {text(moment.reason)}</p>"] if moment.reason else []
    lines += [f'<p class="action">{text(moment.action)}</p>'] if moment.action else []
    lines += ['<p class="error">Key decision step: here the episode was lost.</p>'] if is_key else []
    lines += [f'<p class="quiet">{moment.tokens:,} tokens, {moment.seconds:.1f} s</p>'] if moment.action else []
    lines += [f"<details><summary>What the agent saw</summary><pre>{text(page.text)}</pre></details>"]
    return f'<section id="step-{step}"{" class=key" if is_key else ""}><div>{image}</div><div>{"".join(lines)}</div></section>'

"""What does a person see of a run, and what is a person asked?  Lines on a terminal, as they happen."""

from __future__ import annotations

import asyncio
import sys
import threading
from dataclasses import replace
from typing import Callable, Mapping, Sequence

from environment.safety import MASK, Secrets
from trajectory import Action, Observation, format_action

LONGEST_LINE = 240  # of what a model says of itself


class View:
    """Writes a run as lines: passwords masked, and nothing in them that could steer the terminal.

    >>> View(print)("Sign\\x1b[2J in")
    Sign [2J in
    """

    def __init__(self, show: Callable[[str], None]):
        self.show, self.secrets = show, Secrets()

    def __call__(self, line: str) -> None:
        self.show("".join(char if char.isprintable() else " " for char in self.secrets.mask(line)))

    def block(self, lines: Sequence[str]) -> None:
        for line in lines:
            self(f"      {line}")

    def page(self, step: int, page: Observation) -> None:
        if page.error:
            self.block([f"! {page.error}"])
        self(f"{step:4}  {page.title}  {page.url}")

    def answers(self, answers: Mapping[str, str]) -> None:
        self.block([f"? {name}: {answer[:LONGEST_LINE]}" for name, answer in answers.items() if answer])

    def action(self, action: Action, *, reason: str = "", secret: bool = False) -> None:
        """`secret` hides what the action types, here and, unless it is very short, in all later lines."""
        if secret:
            self.secrets.add(action.text)
        if reason:
            self.block([f"because {reason[:LONGEST_LINE]}"])
        self.block([f"> {format_action(replace(action, text=MASK) if secret else action)}"])

    def budget(self, tokens: int, seconds: float) -> None:
        self.block([f"= {tokens:,} tokens, {seconds:.1f} s"])


async def ask(question: str) -> bool:
    """A person's yes; anything else, and no terminal to answer on, is no.

    A thread that nobody waits for reads the line, so that Ctrl-C is heard meanwhile.
    """
    print(f"      {question} [y/N] ", end="", flush=True)
    loop = asyncio.get_running_loop()
    answer = loop.create_future()

    def read() -> None:
        line = sys.stdin.readline()
        loop.call_soon_threadsafe(lambda: answer.done() or answer.set_result(line))

    threading.Thread(target=read, daemon=True).start()
    return (await answer).strip().lower() in ("y", "yes")

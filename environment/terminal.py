"""What does a person see of a run?  Lines on a terminal, as they happen."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Sequence
from urllib.parse import quote_plus

from trajectory import Action, Observation, format_action

MASK = "••••"


class View:
    """Writes a run as lines: passwords masked, and nothing in them that could steer the terminal.

    >>> View(print)("Sign\\x1b[2J in")
    Sign [2J in
    """

    def __init__(self, show: Callable[[str], None]):
        self.show, self.secrets = show, set()

    def __call__(self, line: str) -> None:
        for secret in sorted(self.secrets, key=len, reverse=True):
            line = line.replace(secret, MASK)
        self.show("".join(char if char.isprintable() else " " for char in line))

    def block(self, lines: Sequence[str]) -> None:
        for line in lines:
            self(f"      {line}")

    def page(self, step: int, page: Observation) -> None:
        if page.error:
            self.block([f"! {page.error}"])
        self(f"{step:4}  {page.title}  {page.url}")

    def action(self, action: Action, *, secret: bool) -> None:
        """`secret` hides what the action types, here and, from four letters on, in all later lines."""
        if secret and len(action.text) >= 4:  # a shorter one would blot out half of every page
            self.secrets |= {action.text, quote_plus(action.text)}
        self.block([f"> {format_action(replace(action, text=MASK) if secret else action)}"])

"""Where commands print: what was asked for to standard output, everything about it to standard error.

What rollouts and graders say may hold anything. It is printed as text: no markup, no control characters.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, redirect_stdout
from textwrap import fill
from typing import Any

from rich.console import Console

from whileai.errors import kind_and_reason

INDENT = 2
"""Columns that the content of a section stands in from the margin."""

DEEPEST = 40
"""Levels of nesting that are printed."""

NARROWEST = 20
"""Columns below which wrapping makes nothing more readable."""

VERDICTS = {"yes": "bold green", "no": "bold red", "not enough data": "bold yellow"}
"""The colour of each answer of a check."""


def console(*, stderr: bool = False) -> Console:
    """A console that colours on terminals only, and reads no markup in what it prints."""
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def say(console: Console, text: str, style: str = "", indent: int = INDENT) -> None:
    """A text: its words wrapped at the margin of a terminal, each line whole where something else reads it."""
    margin = " " * indent
    for line in visible(text).split("\n"):
        width = console.width if console.is_terminal else len(line) + indent + 1
        hanging = margin + " " * (len(line) - len(line.lstrip()))
        wrapped = fill(
            line,
            max(width, NARROWEST),
            initial_indent=margin,
            subsequent_indent=hanging,
            break_long_words=False,
            break_on_hyphens=False,
        )
        console.print(wrapped, style=style, soft_wrap=True)


def heading(console: Console, text: str) -> None:
    """The title of a section, between empty lines."""
    console.print(f"\n{text}\n", style="bold")


def count(number: int, what: str) -> str:
    """`1 case`, `2 cases`, `2 passes`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}{'es' if what.endswith('s') else 's'}"


def error(message: str) -> None:
    """One error for a person, on standard error. Its lines stay whole, so that a place or a command can be copied."""
    shown = console(stderr=True)
    shown.print("error: ", end="", style="bold red")
    shown.print(visible(message), soft_wrap=True)


def visible(text: str) -> str:
    """The text with what could drive a terminal or hide in one (control characters but line ends) as escapes."""
    return _UNSEEN.sub(lambda found: " " if found[0] == "\t" else ascii(found[0])[1:-1], text)


_UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def print_json(value: Any) -> None:
    """One JSON document on standard output, for machines: plain ASCII, whatever the terminal's encoding."""
    sys.stdout.write(json.dumps(json_like(value), indent=2, allow_nan=False) + "\n")


def graders_aside() -> AbstractContextManager[Any]:
    """What a grader prints goes to standard error meanwhile: it is about the answer, and not the answer."""
    return redirect_stdout(sys.stderr)


def failure_json(failure: BaseException | None) -> dict[str, str] | None:
    """A failed call of a grader: its kind and its reason."""
    return None if failure is None else dict(zip(("kind", "reason"), kind_and_reason(failure), strict=True))


def json_like(value: Any, depth: int = 0) -> Any:
    """Any value as one that JSON can hold: a number that is not finite as null, a stranger as its `repr`."""
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if depth > DEEPEST:
        return "..."
    for method in ("_asdict", "model_dump", "tolist"):  # named tuples; pydantic's models; arrays and their numbers
        if not isinstance(value, type) and callable(plain := getattr(value, method, None)):
            return json_like(plain(), depth + 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): json_like(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_like(item, depth + 1) for item in value]
    return repr(value)

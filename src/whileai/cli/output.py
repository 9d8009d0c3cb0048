"""Where commands print: what was asked for to standard output, everything about it to standard error."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Colours and wraps at the margin on terminals; elsewhere every line stays whole. Texts are shown as they are."""
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    made.soft_wrap = not made.is_terminal
    return made


def error(message: str) -> None:
    """One error for a person, on standard error."""
    shown = console(stderr=True)
    shown.print("error: ", style="bold red", end="")
    shown.print(message)


def print_json(value: Any) -> None:
    """One JSON document on standard output, for machines: plain ASCII, whatever the terminal's encoding."""
    sys.stdout.write(json.dumps(value, indent=2, allow_nan=False) + "\n")

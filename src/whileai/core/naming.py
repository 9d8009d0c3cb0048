"""What messages and reports call a grader."""

from __future__ import annotations

from typing import Any


def name_of(grader: Any) -> str:
    """What to call a grader: its name, its function's name, or its class."""
    while True:
        name = getattr(grader, "name", None) or getattr(grader, "__name__", None)
        if isinstance(name, str):
            return name
        if not hasattr(grader, "func"):  # functools.partial
            return type(grader).__name__
        grader = grader.func

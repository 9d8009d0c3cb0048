"""What messages and reports call a grader."""

from __future__ import annotations

from functools import partial
from typing import Any


def name_of(grader: Any) -> str:
    """What to call a grader: its name, its function's name, or its class."""
    for attribute in ("name", "__name__"):
        if isinstance(name := getattr(grader, attribute, None), str) and name:
            return name
    return name_of(grader.func) if isinstance(grader, partial) else type(grader).__name__

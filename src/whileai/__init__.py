"""Graders for groups of rollouts: write them, test them, check them, train on them.

Names are imported when they are first used, so that `import whileai` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whileai.core.spread import SpreadReport
    from whileai.core.stats import GradingStats
    from whileai.core.verdict import Verdict
    from whileai.grading import GroupwiseGrading
    from whileai.loader import CompiledGrader, lint, load_grader

__version__ = "0.1.0"

_HOMES = {
    "GradingStats": "whileai.core.stats",
    "GroupwiseGrading": "whileai.grading",
    "SpreadReport": "whileai.core.spread",
    "Verdict": "whileai.core.verdict",
    "CompiledGrader": "whileai.loader",
    "lint": "whileai.loader",
    "load_grader": "whileai.loader",
}

__all__ = [
    "CompiledGrader",
    "GradingStats",
    "GroupwiseGrading",
    "SpreadReport",
    "Verdict",
    "__version__",
    "lint",
    "load_grader",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'whileai' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

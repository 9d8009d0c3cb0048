"""For tests of graders: golden groups as one assertion.

from whileai.testing import assert_golden

def test_rank_group():
    assert_golden(rank_group, "tests/rank_group.golden.yaml")
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from whileai.checks.cases import CaseResult, run_golden
from whileai.checks.votes import GateKnobs

__all__ = ["CaseResult", "assert_golden", "run_golden"]


def assert_golden(grader: Callable[..., Any], path: str | Path, knobs: GateKnobs | None = None) -> None:
    """Assert that every case of the golden file `path` holds for `grader`, a compiled one or any callable.

    Args:
        knobs: those of the training (`min_factor`, `hack_zero`, `mode`); default: the defaults, with the
            grader's own mode.

    Raises:
        AssertionError: it shows the group, the verdict and the difference of each case that does not hold.
        SpecError: the file has mistakes.
    """
    __tracebackhide__ = True
    results = run_golden(grader, path, knobs)
    broken = [result for result in results if not result.ok]
    if broken:
        count = f"{len(broken)} of {len(results)} golden cases do not hold"
        raise AssertionError("\n\n".join([count, *map(str, broken)]))

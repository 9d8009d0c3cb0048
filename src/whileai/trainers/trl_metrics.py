"""What a run's metrics and its table of completions say about the grader.

The names are the same on every rank and in every call, whatever happened there. TRL averages a metric over the
calls of a logging interval and over the ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from whileai.core.shaping import GroupShape
from whileai.errors import (
    DeadlineExceeded,
    GraderFailure,
    GraderTimeout,
    ModelsFailed,
    ProviderError,
    UnusableVerdict,
)

FALLBACKS = ("unusable", "timeout", "deadline", "provider", "raised", "other")
"""Why a group kept its original rewards: the metric `fallback_...` of each is the number of failed calls."""


class RowOutcome(NamedTuple):
    """What happened to one rollout.

    Attributes:
        reward: what the trainer gets.
        verifier_reward: what the verifier gave; None where it could not score.
        factor: quality factor (reward mode: product); None if it was not graded.
        rank: 1 for the best passes of the group, ties alike; None if it was not ranked.
        hack: the grader named it a hack.
        reason: the grader's own words on it, or why its group fell back.
    """

    reward: float
    verifier_reward: float | None
    factor: float | None = None
    rank: int | None = None
    hack: bool = False
    reason: str = ""


COLUMNS = RowOutcome._fields[1:]
"""The columns of the table."""


def outcomes_of(shape: GroupShape, rewards: Sequence[float | None]) -> list[RowOutcome]:
    """The outcome of each row of a group; `rewards` are the verifier's."""
    verdict, factors = shape.verdict, shape.factors
    if verdict is None and not factors and not shape.failures:
        return [RowOutcome(shaped, reward) for shaped, reward in zip(shape.rewards, rewards, strict=True)]
    hacks: Sequence[int] = shape.hacks if verdict is None else verdict.hacks
    reasons = None if verdict is None else verdict.extra.get("reasons", verdict.extra.get("reason"))
    levels = sorted(factors.values(), reverse=True) if verdict and (verdict.ranking or verdict.factors) else []
    ranks = {level: levels.index(level) + 1 for level in levels}
    fell = "; ".join(reason_of(failure) for failure in shape.failures)
    return [
        RowOutcome(
            shaped,
            reward,
            factors.get(index),
            ranks.get(factors[index]) if index in factors else None,
            index in hacks,
            fell or ("" if reasons is None else _said(reasons, index)),
        )
        for index, (shaped, reward) in enumerate(zip(shape.rewards, rewards, strict=True))
    ]


class Metrics:
    """Figures of one call, under names that never change. A call that graded nothing repeats its last factors."""

    def __init__(self) -> None:
        self._mean, self._std = 1.0, 0.0

    def of(self, shapes: Sequence[GroupShape], *, judge_seconds: float, verifier_failures: int) -> dict[str, float]:
        """The figures of the groups that this rank shaped."""
        factors = [factor for shape in shapes for factor in shape.factors.values()]
        if factors:
            self._mean = sum(factors) / len(factors)
            self._std = (sum((factor - self._mean) ** 2 for factor in factors) / len(factors)) ** 0.5
        figures = {
            "groups": len(shapes),
            "graded_groups": sum(bool(shape.verdict is not None or shape.factors) for shape in shapes),
            "hacks": sum(len(shape.verdict.hacks if shape.verdict else shape.hacks) for shape in shapes),
            "factor_mean": self._mean,
            "factor_std": self._std,
            "lambda_capped": sum(shape.capped for shape in shapes),
            "judge_seconds": judge_seconds,
            "verifier_failures": verifier_failures,
        } | {f"fallback_{kind}": 0 for kind in FALLBACKS}
        for shape in shapes:
            for failure in shape.failures:
                figures[f"fallback_{_kind(failure)}"] += 1
        return {name: float(figure) for name, figure in figures.items()}


def _kind(failure: BaseException) -> str:
    if isinstance(failure, UnusableVerdict):
        return "unusable"
    if isinstance(failure, GraderTimeout):
        return "timeout"
    if isinstance(failure, DeadlineExceeded):
        return "deadline"
    if isinstance(failure, (ProviderError, ModelsFailed)):
        return "provider"
    return "other" if isinstance(failure, GraderFailure) else "raised"


def reason_of(failure: BaseException) -> str:
    """Kind and reason of a failed call, at a length that a table and a log can take."""
    kind = failure.kind if isinstance(failure, GraderFailure) else type(failure).__name__
    return f"{kind}: {failure}"[:500]


def _said(reasons: Any, index: int) -> str:
    if isinstance(reasons, Mapping):
        reasons = reasons.get(index, reasons.get(str(index), ""))
    elif isinstance(reasons, (list, tuple)):
        reasons = reasons[index] if index < len(reasons) else ""
    return "" if reasons is None else str(reasons)

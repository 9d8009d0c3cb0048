"""What is said before models are asked: who they are, where they are, and what it will come to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whileai.cli import output

if TYPE_CHECKING:
    from whileai.loader import CompiledGrader
    from whileai.spec.roles import ResolvedRole

LOOKED_AT = 64
"""Calls whose prompts are made for an estimate; of more, so many at equal distances stand for all."""


def say_spending(grader: Any, calls: Sequence[tuple[Any, ...]]) -> None:
    """Say on standard error whom these calls of a grader will ask, how often, and about what it costs.

    Args:
        calls: the arguments of each: a group, or a rollout and its rubric.

    Raises:
        BatchError: a rollout lacks a column that a judge is shown.
    """
    for name, judge in _judges(grader).items():
        requests, usd = estimate(judge, calls)
        number = output.count(round(requests), "request")
        _say(f"{name} asks {asked(judge)}: about {number}, {money(usd)}")


def say_models(grader: Any) -> None:
    """Say on standard error whom a grader asks."""
    for name, judge in _judges(grader).items():
        _say(f"{name} asks {asked(judge)}")


def estimate(judge: CompiledGrader, calls: Sequence[tuple[Any, ...]]) -> tuple[float, float | None]:
    """About how many requests these calls take, and US dollars; None where a price is unknown."""
    looked_at = calls
    if len(calls) > LOOKED_AT:
        looked_at = [calls[number * len(calls) // LOOKED_AT] for number in range(LOOKED_AT)]
    requests, usd = 0.0, 0.0
    for call in looked_at:
        number = len(judge.prompts(*call))
        requests += number
        price = judge.price(call[0] if isinstance(call[0], list) else [call[0]])
        usd = usd + number * price if price is not None else float("nan")
    scale = len(calls) / max(1, len(looked_at))
    return requests * scale, None if usd != usd else usd * scale


def asked(judge: CompiledGrader) -> str:
    """The models of a judge in turn, each with the host that is called."""
    return ", then ".join(map(where, judge.models))


def where(model: ResolvedRole) -> str:
    """A model with its role, and where it is asked."""
    if model.provider == "recorded":
        return f"{label(model)}, which sends nothing"
    return f"{label(model)} at {model.host or 'the host of its provider'}"


def label(model: ResolvedRole) -> str:
    """A model with its role; of a recording its file's name."""
    name = f"recorded:{Path(model.name).name}" if model.provider == "recorded" else str(model)
    return f"{model.role}={name}" if model.role else name


def _judges(grader: Any) -> dict[str, CompiledGrader]:
    return dict(getattr(grader, "judges", {}))


def money(usd: float | None) -> str:
    """An estimate in words."""
    if usd is None:
        return "price unknown"
    return "at no cost" if usd == 0 else f"about ${usd:.2f}" if usd >= 0.1 else f"about ${usd:.4f}"


def _say(line: str) -> None:
    output.say(output.console(stderr=True), line, "dim", indent=0)

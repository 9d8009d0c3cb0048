"""What a grader did so far: counted exactly under threads, in memory that does not grow."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import mul
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

V = TypeVar("V")

MOST_LINKS = 64
"""Links that are counted by name: more than any chain has, and a bound if an author's own `link` is never the same."""


@dataclass(frozen=True, slots=True)
class GradingStats:
    """A snapshot; later batches do not change it.

    Attributes:
        mode: "advantage" or "reward".
        groups: groups seen.
        mixed: of these, groups with passes and failures.
        grader_calls: calls of the grader, failed ones included.
        grader_failures: calls without a usable verdict, and tasks without a rubric; their groups kept
            (reward mode: their passes took) rewards that the grader did not touch.
        hacks: passes named as hacks and zeroed.
        lambda_capped: groups in which the cap bound.
        answered: verdicts by the link that gave them, for a grader with fallbacks.
        rescued: groups that broke their judge and were judged again, without the rollouts that forge something.
        unconfirmed: hacks that a judge named without evidence that stands in the rollout; they count for nothing.
        failures: `grader_failures` by kind.
        reasons: the first reason of each kind.
        factor_count, factor_mean, factor_std: of the quality factors handed out (population standard deviation).
        unchecked: why an unchecked grader was accepted, if it was.
        loosened: links whose check asked less than the defaults, with the reason that their spec gives.
    """

    mode: str
    groups: int = 0
    mixed: int = 0
    grader_calls: int = 0
    grader_failures: int = 0
    hacks: int = 0
    lambda_capped: int = 0
    answered: Mapping[str, int] = field(default_factory=lambda: Frozen(), hash=False)
    rescued: int = 0
    unconfirmed: int = 0
    failures: Mapping[str, int] = field(default_factory=lambda: Frozen(), hash=False)
    reasons: Mapping[str, str] = field(default_factory=lambda: Frozen(), hash=False)
    factor_count: int = 0
    factor_mean: float = 0.0
    factor_std: float = 0.0
    unchecked: str | None = None
    loosened: Mapping[str, str] = field(default_factory=lambda: Frozen(), hash=False)

    def __str__(self) -> str:
        factors = ""
        if self.factor_count and self.mode == "advantage":
            factors = f"; factors mean {self.factor_mean:.3f} std {self.factor_std:.3f}"
        elif self.factor_count:
            factors = f"; products mean {self.factor_mean:.3f} std {self.factor_std:.3f}"
        judged = "".join(f"; answered by {link} {count}" for link, count in self.answered.items())
        judged += f"; {self.rescued} rescued from forgeries" if self.rescued else ""
        unconfirmed = f" ({self.unconfirmed} unconfirmed)" if self.unconfirmed else ""
        unchecked = f"; unchecked: {self.unchecked}" if self.unchecked else ""
        unchecked += "".join(f"; check of {link} loosened: {reason}" for link, reason in self.loosened.items())
        return (
            f"groupwise grading ({self.mode}): {self.groups} groups, {self.mixed} mixed, "
            f"{self.grader_calls} grader calls, {self.grader_failures} failed (fell back), "
            f"{self.hacks} hacks zeroed{unconfirmed}{factors}{judged}{unchecked}"
        )


class Frozen(dict[str, V]):
    """A dict that does not change, and yet is one: for JSON, `dataclasses.asdict` and pickle."""

    def _refuse(self, *args: Any, **more: Any) -> NoReturn:
        raise TypeError("a snapshot does not change")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return Frozen, (dict(self),)


@dataclass(slots=True)
class Tally:
    """What one batch adds."""

    groups: int = 0
    mixed: int = 0
    grader_calls: int = 0
    hacks: int = 0
    lambda_capped: int = 0
    answered: dict[str, int] = field(default_factory=dict)
    rescued: int = 0
    unconfirmed: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    factors: list[float] = field(default_factory=list)

    def heard(self, extra: Mapping[str, Any]) -> None:
        """Count what the verdict of a compiled grader says about itself; see `kinds.chain`, `.llm` and `.panel`.

        An author's function or schema may use the same names for something else: what has another form is not read.
        """
        link, judge, panel = extra.get("link"), extra.get("judge"), extra.get("panel")
        if isinstance(link, str) and (link in self.answered or len(self.answered) < MOST_LINKS):
            self.answered[link] = self.answered.get(link, 0) + 1
        self.rescued += isinstance(extra.get("rescued"), str) and "marked" in extra
        unconfirmed = judge.get("unconfirmed") if isinstance(judge, Mapping) else None
        if isinstance(unconfirmed, (list, tuple)):
            places = [found.get("index") for found in unconfirmed if isinstance(found, Mapping)]
            self.unconfirmed += len({place for place in places if isinstance(place, int)})
        votes = panel.get("votes") if isinstance(panel, Mapping) else None
        for vote in votes.values() if isinstance(votes, Mapping) else ():
            if isinstance(vote, Mapping):
                self.heard(vote)

    def fail(self, kind: str, reason: str) -> None:
        self.failures[kind] = self.failures.get(kind, 0) + 1
        self.reasons.setdefault(kind, reason)


class Counters:
    """Running totals behind `GradingStats`; factors as count, mean and squared deviation (Chan et al. 1979)."""

    def __init__(self, mode: str, unchecked: str | None = None) -> None:
        self._lock = threading.Lock()
        self._total = Tally()
        self._mode = mode
        self._unchecked = unchecked
        self._count, self._mean, self._squares = 0, 0.0, 0.0

    def add(self, tally: Tally) -> list[str]:
        """Add one batch; returns the kinds of failure that were never seen before."""
        count, mean, squares = _moments(tally.factors)
        with self._lock:
            total = self._total
            total.groups += tally.groups
            total.mixed += tally.mixed
            total.grader_calls += tally.grader_calls
            total.hacks += tally.hacks
            total.lambda_capped += tally.lambda_capped
            total.rescued += tally.rescued
            total.unconfirmed += tally.unconfirmed
            for link, number in tally.answered.items():
                if link in total.answered or len(total.answered) < MOST_LINKS:
                    total.answered[link] = total.answered.get(link, 0) + number
            new = [kind for kind in tally.failures if kind not in total.failures]
            for kind, number in tally.failures.items():
                total.failures[kind] = total.failures.get(kind, 0) + number
                total.reasons.setdefault(kind, tally.reasons[kind])
            if count:
                both = self._count + count
                shift = mean - self._mean
                self._squares += squares + shift * shift * self._count * count / both
                self._mean += shift * count / both
                self._count = both
            return new

    def snapshot(self, loosened: Mapping[str, str] = MappingProxyType({})) -> GradingStats:
        """The totals so far. `loosened`: as in `GradingStats`."""
        with self._lock:
            total = self._total
            return GradingStats(
                mode=self._mode,
                groups=total.groups,
                mixed=total.mixed,
                grader_calls=total.grader_calls,
                grader_failures=sum(total.failures.values()),
                hacks=total.hacks,
                lambda_capped=total.lambda_capped,
                answered=Frozen(total.answered),
                rescued=total.rescued,
                unconfirmed=total.unconfirmed,
                failures=Frozen(total.failures),
                reasons=Frozen(total.reasons),
                factor_count=self._count,
                factor_mean=self._mean,
                factor_std=(self._squares / self._count) ** 0.5 if self._count else 0.0,
                unchecked=self._unchecked,
                loosened=Frozen(loosened),
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process counts from zero: sums over processes then count nothing twice."""
        return Counters, (self._mode, self._unchecked)


def _moments(values: Iterable[float]) -> tuple[int, float, float]:
    found = list(values)
    if not found:
        return 0, 0.0, 0.0
    mean = sum(found) / len(found)
    shifts = [value - mean for value in found]
    return len(found), mean, sum(map(mul, shifts, shifts))

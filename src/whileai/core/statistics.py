"""Figures over groups with their intervals: the statistics of the check, whatever they are applied to.

Bounds come from a bootstrap that draws whole groups, because the passes of one group are judged together and
are not independent. Every draw is seeded: the same input gives the same figure. What the check asks of two
votes (do they agree, do they follow the shown order) is in `core.agreement`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

DRAWS = 2000
"""Bootstrap draws: a 5 % bound is then good to about half a percentage point of its level."""

EXACT_VALUES = 12
"""Up to this many values every one of the 2^n sign flips is tried, above it `FLIPS` random ones."""

FLIPS = 10_000

Z95 = 1.6448536269514722
"""95 % quantile of the standard normal distribution."""

_CELLS = 4_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with its one-sided 5 % and 95 % bounds (together a 90 % interval)."""

    value: float
    low: float
    high: float


def within_std(groups: Sequence[Sequence[float]]) -> Interval:
    """Pooled standard deviation inside groups, sqrt(sum (x - mean_g)^2 / sum (k_g - 1)).

    Group normalization erases what groups differ by, so this is the spread that training can feel. Groups of
    one value do not count; raises ValueError when none has two.
    """
    sums = [(_squares(group), len(group) - 1.0) for group in groups if len(group) > 1]
    return bootstrap(sums, lambda s: (s[..., 0] / s[..., 1]) ** 0.5)


def mean_interval(values: Sequence[float]) -> Interval:
    """Mean of one value per group. Raises ValueError for no values."""
    return bootstrap([(value, 1.0) for value in values], lambda s: s[..., 0] / s[..., 1])


def wilson(successes: int, trials: int) -> Interval:
    """Share of successes with the score bounds of Wilson (1927). Without trials: NaN between 0 and 1."""
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials")
    if not trials:
        return Interval(math.nan, 0.0, 1.0)
    share, z2 = successes / trials, Z95 * Z95
    middle = share + z2 / (2 * trials)
    half = Z95 * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials))
    low, high = (middle - half) / (1 + z2 / trials), (middle + half) / (1 + z2 / trials)
    return Interval(share, low if successes else 0.0, high if successes < trials else 1.0)


def moved_mass(factors: Sequence[float]) -> float:
    """Share of a group's positive advantage that the quality factors of its passes move, in [0, 1).

    Half the mean absolute (f / mean f - 1): what the losing passes give is what the winning ones get (equation
    3 without a cap). Factors that are all 0 move nothing.
    """
    total = math.fsum(factors)
    if not total:
        return 0.0
    return math.fsum(abs(factor * len(factors) / total - 1) for factor in factors) / (2 * len(factors))


def sign_flip(values: Sequence[float], *, two_sided: bool) -> float:
    """Probability of a sum this large (two-sided: this far from 0) if the sign of each value were a coin's.

    Exact up to `EXACT_VALUES` values that are not 0, from seeded draws above; 1.0 when there is none.
    """
    import numpy as np

    found = np.asarray([value for value in values if value], dtype=np.float64)
    if not found.size:
        return 1.0
    seen = abs(found.sum()) if two_sided else found.sum()
    edge = seen - 1e-9 * np.abs(found).sum()  # sums that differ by rounding only are equal

    def hits(signs: Any) -> int:
        sums = (1.0 - 2.0 * signs) @ found
        return int(np.sum((np.abs(sums) if two_sided else sums) >= edge))

    if found.size <= EXACT_VALUES:
        every = np.arange(1 << found.size)[:, None] >> np.arange(found.size) & 1
        return hits(every) / len(every)
    rng = np.random.default_rng(0)
    step = max(1, min(FLIPS, _CELLS // found.size))
    drawn = sum(
        hits(rng.integers(0, 2, (min(step, FLIPS - at), found.size), dtype=np.int8)) for at in range(0, FLIPS, step)
    )
    return (drawn + 1) / (FLIPS + 1)


def bootstrap(sums: Sequence[tuple[float, ...]], statistic: Callable[[Any], Any]) -> Interval:
    """`statistic` of sums over groups, with its bounds over draws of as many groups with replacement.

    Args:
        sums: for each group, its share in every sum.
        statistic: elementwise on an array whose last axis holds the sums.
    """
    import numpy as np

    if not sums:
        raise ValueError("no group to compute a figure from")
    columns = np.asarray(sums, dtype=np.float64)
    groups = len(columns)
    rng = np.random.default_rng(0)
    step = max(1, min(DRAWS, _CELLS // groups))
    drawn = [
        statistic(rng.multinomial(groups, [1 / groups] * groups, size=min(step, DRAWS - at)) @ columns)
        for at in range(0, DRAWS, step)
    ]
    low, high = np.quantile(np.concatenate(drawn), (0.05, 0.95))
    return Interval(float(statistic(columns.sum(axis=0))), float(low), float(high))


def _squares(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)

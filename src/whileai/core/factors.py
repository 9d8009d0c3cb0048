"""From a verdict to quality factors, one in (0, 1] for each pass.

The rank-to-factor map of the method's report is unpublished; this one is linear with mid-ranks for ties, so
that the mean factor of a ranking of two or more is always (1 + min_factor) / 2 and, for binary rewards, lambda
always 2 / (1 + min_factor): 4/3 at the default, which a cap of 3 never reaches. One pass alone has factor 1.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from whileai.core import knobs
from whileai.core.values import is_bool, shown
from whileai.core.verdict import Verdict
from whileai.simulations.defaults import GROUPWISE_HACK_ZERO, GROUPWISE_MIN_FACTOR

_LEAST = 5e-324
"""The smallest factor there is: no factor is ever 0, which would be no factor."""


def factors_from_ranking(
    ranking: Sequence[int | Collection[int]], min_factor: float = GROUPWISE_MIN_FACTOR
) -> dict[int, float]:
    """Quality factors from a best-first ranking; an inner collection is a tie.

    Args:
        ranking: indices, best first.
        min_factor: factor of the worst place, in (0, 1]; the best place has 1.0.

    Returns:
        Factor by index. Ties share the factor of their middle place; a single index has 1.0.

    Raises:
        ValueError: an entry is no index, an index stands twice, or `min_factor` is outside (0, 1].
    """
    knobs.number("min_factor", min_factor, low=0.0, high=1.0, open_low=True)
    if isinstance(ranking, (str, bytes, set, frozenset, Mapping)):
        raise ValueError(f"ranking {shown(ranking)}: a list of indices, best first, is wanted")
    tiers = [tuple(map(_index, _members(entry))) for entry in ranking]
    factors = _by_place([tier for tier in tiers if tier], min_factor)
    if len(factors) != sum(map(len, tiers)):
        raise ValueError(f"ranking {shown(ranking)} names an index twice")
    return factors


def quality_factors(
    verdict: Verdict,
    passes: Sequence[int],
    *,
    min_factor: float = GROUPWISE_MIN_FACTOR,
    hack_zero: bool = GROUPWISE_HACK_ZERO,
) -> dict[int, float]:
    """Factor in (0, 1] by passing index, as training uses them.

    With `hack_zero` the hacks have none (they are no passes any more). Without it a hack is the worst pass,
    whatever else the verdict says: last in a ranking, `min_factor` times the lowest factor otherwise.
    """
    hacks = verdict.hacks
    if verdict.ranking is not None:
        tiers = verdict.ranking
        if hacks:
            named = set(hacks)
            tiers = tuple(tie for tier in tiers if (tie := tuple(i for i in tier if i not in named)))
            if not hack_zero:
                tiers = (*tiers, hacks)
        return _by_place(tiers, min_factor)
    given: Mapping[int, float] = verdict.factors or {}
    factors = {index: given.get(index, 1.0) for index in passes if index not in hacks}
    if hacks and not hack_zero:
        worst = float(min_factor) * min(factors.values(), default=1.0) or _LEAST
        factors.update(dict.fromkeys(hacks, worst))
    return factors


def _by_place(tiers: Sequence[tuple[int, ...]], min_factor: float) -> dict[int, float]:
    indices = [index for tier in tiers for index in tier]
    places = len(indices)
    if len(tiers) == places:
        line = _line(places, min_factor)
        return {index: line[place] for place, index in enumerate(indices)}
    factors: dict[int, float] = {}
    step = (1.0 - float(min_factor)) / (places - 1) if places > 1 else 0.0
    first = 0
    for tier in tiers:
        middle = first + (len(tier) - 1) / 2
        factors.update(dict.fromkeys(tier, max(float(min_factor), 1.0 - step * middle)))
        first += len(tier)
    return factors


@lru_cache(maxsize=1024)
def _line(places: int, min_factor: float) -> tuple[float, ...]:
    if places <= 1:
        return (1.0,) * places
    step = (1.0 - float(min_factor)) / (places - 1)
    return tuple(max(float(min_factor), 1.0 - step * place) for place in range(places))


def _members(entry: object) -> Collection[object]:
    """The entry's indices: a tie's own, or the one that it is."""
    if isinstance(entry, (str, bytes, Mapping)) or getattr(entry, "ndim", None) == 0:
        return (entry,)
    return entry if isinstance(entry, Collection) else (entry,)


def _index(entry: object) -> int:
    try:
        return operator.index(entry if not is_bool(entry) else "")  # type: ignore[arg-type]
    except TypeError:
        raise ValueError(f"ranking entry {shown(entry, 60)} is no index") from None

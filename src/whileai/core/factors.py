"""From a verdict to quality factors, one in (0, 1] for each pass.

The rank-to-factor map of the method's report is unpublished; this one is linear with mid-ranks for ties, so
that the mean factor of a ranking is always (1 + min_factor) / 2 and lambda always 2 / (1 + min_factor): 4/3 at
the default, which a cap of 3 never reaches.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from whileai.core.verdict import Verdict
from whileai.simulations.defaults import GROUPWISE_HACK_ZERO, GROUPWISE_MIN_FACTOR


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
        ValueError: an index stands twice, or `min_factor` is outside (0, 1].
    """
    if isinstance(min_factor, bool) or not 0.0 < min_factor <= 1.0:
        raise ValueError(f"min_factor={min_factor!r}: a factor is in (0, 1]")
    tiers = [tuple(entry) if isinstance(entry, Collection) else (entry,) for entry in ranking]
    factors = _by_place(tiers, min_factor)
    if len(factors) != sum(map(len, tiers)):
        raise ValueError(f"ranking {ranking!r} names an index twice")
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
        worst = min_factor * min(factors.values(), default=1.0)
        factors.update(dict.fromkeys(hacks, worst))
    return factors


def _by_place(tiers: Sequence[tuple[int, ...]], min_factor: float) -> dict[int, float]:
    places = sum(map(len, tiers))
    if len(tiers) == places:
        return dict(zip([tier[0] for tier in tiers], _line(places, min_factor), strict=True))
    factors: dict[int, float] = {}
    step = (1.0 - min_factor) / (places - 1) if places > 1 else 0.0
    first = 0
    for tier in tiers:
        middle = first + (len(tier) - 1) / 2
        factors.update(dict.fromkeys(tier, 1.0 - step * middle))
        first += len(tier)
    return factors


@lru_cache(maxsize=1024)
def _line(places: int, min_factor: float) -> tuple[float, ...]:
    if places <= 1:
        return (1.0,) * places
    step = (1.0 - min_factor) / (places - 1)
    return tuple(1.0 - step * place for place in range(places))

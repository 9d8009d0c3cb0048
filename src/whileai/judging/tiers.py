"""Five criterion scores made into a tier and a quality factor.

The map is the one that the GAGAR paper publishes (arXiv 2609.32577; taken second-hand, from a summary of it). What
the summary leaves open is read so: "the best tied group" is that of tier 1, and the tied groups of tier 2 are
spread evenly, the first at 0.85 and the last at 0.4. With these factors the paper caps lambda at 1.5, `TIERS_CAP`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar

Key = TypeVar("Key")

TIERS_CAP = 1.5
"""The cap of lambda that belongs to these factors."""

CRITERION_WEIGHTS = {"approach": 30, "precision": 25, "minimality": 20, "side_effects": 15, "consistency": 10}
"""Weight of each criterion in percent; whole numbers, so that equal sums are exactly equal."""

TIER_1_BEST, TIER_1_REST, TIER_2_FIRST, TIER_2_LAST, TIER_3 = 1.0, 0.9, 0.85, 0.4, 0.2
"""The published factors."""


def tier(scores: Mapping[str, Any]) -> Literal[1, 2, 3]:
    """The tier of one candidate.

    Args:
        scores: 1 to 5 for each of `CRITERION_WEIGHTS`, and the flags `unrequested_rewrite` and
            `test_specific_workaround`.
    """
    if (
        scores["unrequested_rewrite"]
        or scores["test_specific_workaround"]
        or scores["approach"] == 1
        or (scores["minimality"] <= 2 and scores["side_effects"] <= 2)
    ):
        return 3
    return 1 if all(scores[criterion] >= 4 for criterion in CRITERION_WEIGHTS) else 2


def tier_factors(scores: Mapping[Key, Mapping[str, Any]]) -> dict[Key, float]:
    """The quality factor of every candidate, from the scores of all; equal weighted sums tie."""
    sums = {
        key: sum(weight * int(of[criterion]) for criterion, weight in CRITERION_WEIGHTS.items())
        for key, of in scores.items()
    }
    tiers = {key: tier(of) for key, of in scores.items()}
    first = max((sums[key] for key in scores if tiers[key] == 1), default=0)
    second = sorted({sums[key] for key in scores if tiers[key] == 2}, reverse=True)
    factors = {}
    for key in scores:
        if tiers[key] == 1:
            factors[key] = TIER_1_BEST if sums[key] == first else TIER_1_REST
        elif tiers[key] == 2:
            way = second.index(sums[key]) / max(len(second) - 1, 1)
            factors[key] = TIER_2_FIRST * (1 - way) + TIER_2_LAST * way
        else:
            factors[key] = TIER_3
    return factors

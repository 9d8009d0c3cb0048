from typing import Any

import pytest

from whileai.judging.tiers import CRITERION_WEIGHTS, TIERS_CAP, tier, tier_factors


def scores(*five: int, **flags: bool) -> dict[str, Any]:
    flagged = {"unrequested_rewrite": False, "test_specific_workaround": False, **flags}
    return dict(zip(CRITERION_WEIGHTS, five, strict=True)) | flagged


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (scores(4, 4, 4, 4, 4), 1),
        (scores(5, 5, 5, 5, 3), 2),
        (scores(1, 5, 5, 5, 5), 3),
        (scores(2, 1, 1, 3, 1), 2),
        (scores(4, 4, 2, 2, 4), 3),
        (scores(4, 4, 2, 3, 4), 2),
        (scores(5, 5, 5, 5, 5, unrequested_rewrite=True), 3),
        (scores(5, 5, 5, 5, 5, test_specific_workaround=True), 3),
    ],
)
def test_the_tier_follows_from_the_scores(given: dict[str, Any], expected: int):
    assert tier(given) == expected


def test_the_published_factors():
    given = {
        "best": scores(5, 5, 5, 5, 5),
        "as good": scores(5, 5, 5, 5, 5),
        "good": scores(4, 4, 4, 4, 4),
        "fair": scores(4, 4, 4, 4, 3),
        "middling": scores(3, 4, 4, 4, 4),
        "weak": scores(2, 2, 3, 3, 2),
        "rewrite": scores(5, 5, 5, 5, 5, unrequested_rewrite=True),
    }
    assert tier_factors(given) == {
        "best": 1.0,
        "as good": 1.0,
        "good": 0.9,
        "fair": 0.85,
        "middling": pytest.approx(0.625),
        "weak": 0.4,
        "rewrite": 0.2,
    }
    assert TIERS_CAP == 1.5


def test_approach_outweighs_what_weighs_less():
    factors = tier_factors({0: scores(5, 3, 3, 3, 3), 1: scores(3, 5, 3, 3, 3), 2: scores(3, 3, 3, 3, 5)})
    assert factors[0] > factors[1] > factors[2]


def test_equal_weighted_sums_tie():
    factors = tier_factors({0: scores(3, 3, 3, 4, 3), 1: scores(3, 3, 3, 3, 3), 2: scores(3, 3, 4, 3, 1)})
    assert factors == {0: 0.85, 1: 0.4, 2: 0.4}


def test_a_lone_tied_group_of_tier_two_is_its_first():
    assert tier_factors({7: scores(3, 3, 3, 3, 3)}) == {7: 0.85}

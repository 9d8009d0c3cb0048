import math
import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.core.agreement import (
    Votes,
    agreement,
    kendall_tau_b,
    mid_ranks,
    position_shifts,
    spearman_brown,
)

scores = st.lists(st.integers(0, 4), min_size=2, max_size=7)
pairs = st.integers(2, 7).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n) for _ in range(2)])
)


def textbook_tau_b(x, y):
    """(P - Q) / sqrt((P + Q + X0)(P + Q + Y0)), pair by pair."""
    p = q = x0 = y0 = 0
    for i, j in combinations(range(len(x)), 2):
        product = (x[i] - x[j]) * (y[i] - y[j])
        p += product > 0
        q += product < 0
        x0 += x[i] == x[j] and y[i] != y[j]
        y0 += x[i] != x[j] and y[i] == y[j]
    scale = math.sqrt((p + q + x0) * (p + q + y0))
    return (p - q) / scale if scale else math.nan


@given(pairs)
def test_tau_b_is_the_textbook_one(case):
    x, y = case
    if len(set(x)) > 1 and len(set(y)) > 1:
        assert kendall_tau_b(x, y) == pytest.approx(textbook_tau_b(x, y))
        assert kendall_tau_b(x, y) == kendall_tau_b(y, x)
        assert kendall_tau_b(x, [-value for value in y]) == pytest.approx(-kendall_tau_b(x, y))
    elif len(set(x)) > 1 or len(set(y)) > 1:
        assert kendall_tau_b(x, y) == 0
    else:
        assert kendall_tau_b(x, y) is None


def test_tau_b_known_values():
    assert kendall_tau_b([12, 2, 1, 12, 2], [1, 4, 7, 1, 0]) == pytest.approx(-0.4714045)
    assert kendall_tau_b([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="2 and 3"):
        kendall_tau_b([1, 2], [1, 2, 3])


@given(scores)
def test_mid_ranks_count_the_better_and_share_ties(values):
    for value, rank in zip(values, mid_ranks(values), strict=True):
        better = sum(other > value for other in values)
        assert rank == better + (values.count(value) - 1) / 2


def test_spearman_brown_says_what_combined_votes_agree():
    rng = random.Random(5)

    def mean_tau(votes):
        taus = []
        for _ in range(600):
            quality = [rng.gauss(0, 1) for _ in range(6)]
            pair = [[q + rng.gauss(0, 1) / math.sqrt(votes) for q in quality] for _ in range(2)]
            taus.append(kendall_tau_b(*pair))
        return sum(taus) / len(taus)

    assert spearman_brown(mean_tau(1), 3) == pytest.approx(mean_tau(3), abs=0.03)
    assert spearman_brown(0.4, 1) == pytest.approx(0.4)
    assert spearman_brown(1.0, 5) == pytest.approx(1.0)
    assert spearman_brown(-0.2, 3) == -0.2


def test_agreement_leaves_out_groups_that_both_votes_tie():
    tied, same, half = Votes([1, 1], [2, 2], [0, 1], [1, 0]), ([1, 2], [1, 2]), ([1, 2], [3, 3])
    votes = [tied, Votes(*same, [0, 1], [1, 0]), Votes(*half, [0, 1], [1, 0])]
    found = agreement(votes)
    assert (found.groups, found.tied, found.tau.value) == (2, 1, 0.5)
    none = agreement([tied])
    assert (none.tau, none.p, none.groups, none.tied) == (None, 1.0, 0, 1)


def shown(rng, groups, grader, sizes=(2, 3, 4, 5)):
    """Votes of `grader(quality, slot, slots)` on groups shown in two random, different orders."""
    votes = []
    for _ in range(groups):
        size = rng.choice(sizes)
        quality = [rng.gauss(0, 1) for _ in range(size)]
        orders = [list(range(size)), list(range(size))]
        while orders[0] == orders[1]:
            for order in orders:
                rng.shuffle(order)
        both = [[grader(q, slot, size) for q, slot in zip(quality, order, strict=True)] for order in orders]
        votes.append(Votes(*both, *orders))
    return votes


def test_a_grader_of_quality_agrees_and_follows_no_place():
    votes = shown(random.Random(0), 40, lambda quality, slot, size: quality)
    slot, middle = position_shifts(votes)
    assert agreement(votes).tau.value == 1
    assert agreement(votes).p < 1e-3
    assert (slot.effect.value, middle.effect.value) == (0, 0)
    assert (slot.p, middle.p) == (1, 1)


@pytest.mark.parametrize(
    ("grader", "slot_effect", "middle_effect"),
    [
        (lambda quality, slot, size: -slot, 1, 0),
        (lambda quality, slot, size: slot, -1, 0),
        (lambda quality, slot, size: abs(slot - (size - 1) / 2) + quality / 1e6, 0, -1),
        (lambda quality, slot, size: -abs(slot - (size - 1) / 2) + quality / 1e6, 0, 1),
    ],
)
def test_places_are_seen_whichever_is_preferred(grader, slot_effect, middle_effect):
    votes = shown(random.Random(1), 60, grader, sizes=(3, 4, 5, 6))
    slot, middle = position_shifts(votes)
    assert slot.effect.value == pytest.approx(slot_effect, abs=0.12)
    assert middle.effect.value == pytest.approx(middle_effect, abs=0.15)
    assert min(slot.p, middle.p) < 0.001
    assert agreement(votes).tau.value < 0.3


def test_noise_is_called_agreement_or_position_only_as_often_as_the_level_says():
    rng = random.Random(3)
    agreed = followed = 0
    for _ in range(150):
        votes = shown(rng, 12, lambda quality, slot, size: rng.random())
        agreed += agreement(votes).p < 0.05
        followed += position_shifts(votes)[0].p < 0.05
    assert agreed <= 17  # 5 % of 150 is 7.5
    assert followed <= 17


def test_no_groups():
    slot, middle = position_shifts([])
    assert (slot.effect.value, slot.p, middle.effect.value, middle.p) == (0, 1, 0, 1)

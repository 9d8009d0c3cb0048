import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.core.factors import factors_from_ranking, quality_factors
from whileai.core.redistribution import redistribute_passes
from whileai.core.verdict import Verdict

min_factors = st.one_of(st.floats(1e-3, 1.0), st.sampled_from([1e-300, 5e-324, 1e-17, 0.5, 1.0]))


@st.composite
def rankings(draw, least=1, most=10):
    order = draw(st.permutations(range(draw(st.integers(least, most)))))
    tiers = []
    for index in order:
        if tiers and draw(st.booleans()):
            tiers[-1].append(index)
        else:
            tiers.append([index])
    return [tier[0] if len(tier) == 1 and draw(st.booleans()) else tier for tier in tiers]


def by_mid_rank(ranking, min_factor):
    """The map as the page describes it: a line from 1 to min_factor over places, ties at their mean place."""
    tiers = [entry if isinstance(entry, list) else [entry] for entry in ranking]
    places = sum(map(len, tiers))
    factors, first = {}, 0
    for tier in tiers:
        mean_place = Fraction(sum(range(first, first + len(tier))), len(tier))
        share = mean_place / (places - 1) if places > 1 else 0
        factors.update(dict.fromkeys(tier, 1 - (1 - Fraction(min_factor)) * share))
        first += len(tier)
    return factors


@given(rankings(), min_factors)
def test_is_a_line_over_mid_ranks(ranking, min_factor):
    factors = factors_from_ranking(ranking, min_factor)
    wanted = by_mid_rank(ranking, min_factor)
    assert factors.keys() == wanted.keys()
    assert all(abs(factors[index] - wanted[index]) < 1e-15 for index in wanted)
    assert all(0.0 < factor <= 1.0 and factor >= min_factor for factor in factors.values())


@given(rankings(least=2), min_factors, st.integers(1, 8))
def test_lambda_is_always_two_over_one_plus_min_factor(ranking, min_factor, failures):
    factors = factors_from_ranking(ranking, min_factor)
    rewards = [1.0] * len(factors) + [0.0] * failures
    _, moved = redistribute_passes(rewards, factors.items(), math.inf)
    assert moved == pytest.approx(2 / (1 + min_factor), rel=1e-12)
    assert moved < 3.0  # the default cap never binds


@pytest.mark.parametrize(
    ("ranking", "wanted"),
    [
        ([], {}),
        ([7], {7: 1.0}),
        ([[7]], {7: 1.0}),
        ([1, 0, 2], {1: 1.0, 0: 0.75, 2: 0.5}),
        ([1, [0, 2]], {1: 1.0, 0: 0.625, 2: 0.625}),
        ([[0, 1], 2], {0: 0.875, 1: 0.875, 2: 0.5}),
        ([[0, 1, 2, 3]], dict.fromkeys(range(4), 0.75)),
        ([0, [], 1], {0: 1.0, 1: 0.5}),
        ([[], [0, 1]], {0: 0.75, 1: 0.75}),
        ([[0, 1], [2], []], {0: 0.875, 1: 0.875, 2: 0.5}),
        (((0,), {1, 2}), {0: 1.0, 1: 0.625, 2: 0.625}),
        (np.array([2, 0]), {2: 1.0, 0: 0.5}),
        ([np.array([2, 0]), np.int64(1), np.array(3)], {2: 11 / 12, 0: 11 / 12, 1: 2 / 3, 3: 0.5}),
    ],
)
def test_examples(ranking, wanted):
    factors = factors_from_ranking(ranking)
    assert factors == pytest.approx(wanted)
    assert list(factors) == list(wanted) and all(type(index) is int for index in factors)


@pytest.mark.parametrize(
    "ranking",
    ["012", b"012", ["0", "1"], [0, "12"], [0, True], [0, np.True_], [0, 1.0], [0, None], [[0, [1]]], {0: 1}, {0, 1}],
)
def test_what_is_no_ranking_is_refused(ranking):
    with pytest.raises(ValueError, match="ranking"):
        factors_from_ranking(ranking)


@pytest.mark.parametrize("ranking", [[0, 0], [[0, 1], 1], [[2, 2]]])
def test_doubled_indices_are_refused(ranking):
    with pytest.raises(ValueError, match="twice"):
        factors_from_ranking(ranking)


@pytest.mark.parametrize("min_factor", [0, 0.0, -0.5, 1.0001, math.nan, math.inf, True, "0.5", None])
def test_bad_min_factors_are_named(min_factor):
    with pytest.raises(ValueError, match="min_factor="):
        factors_from_ranking([0, 1], min_factor)


def test_a_hack_in_the_ranking_does_not_shift_the_others():
    with_hack = Verdict(((1,), (4,), (0,), (2,)), None, (4,))
    without = Verdict(((1,), (0,), (2,)), None, (4,))
    wanted = {1: 1.0, 0: 0.75, 2: 0.5}
    assert quality_factors(with_hack, [0, 1, 2, 4]) == quality_factors(without, [0, 1, 2, 4]) == wanted


def test_a_hack_in_a_tie_leaves_the_tie():
    assert quality_factors(Verdict(((0, 1), (2,)), None, (1,)), [0, 1, 2]) == {0: 1.0, 2: 0.5}


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(((4,), (1,), (0,)), None, (4,)),
        Verdict(((1,), (0,)), None, (4,)),
        Verdict(((1, 4), (0,)), None, (4,)),
    ],
)
def test_a_hack_that_is_not_zeroed_is_the_worst_pass(verdict):
    assert quality_factors(verdict, [0, 1, 4], hack_zero=False) == {1: 1.0, 0: 0.75, 4: 0.5}


def test_hacks_that_are_not_zeroed_tie_at_the_end():
    verdict = Verdict(((1,), (0,)), None, (2, 4))
    assert quality_factors(verdict, [0, 1, 2, 4], hack_zero=False) == pytest.approx(
        {1: 1.0, 0: 1 - 0.5 / 3, 2: 1 - 1.25 / 3, 4: 1 - 1.25 / 3}
    )


def test_factors_with_hacks():
    verdict = Verdict(None, {0: 0.8, 1: 0.4, 4: 1.0}, (4,))
    assert quality_factors(verdict, [0, 1, 4]) == {0: 0.8, 1: 0.4}
    assert quality_factors(verdict, [0, 1, 4], hack_zero=False) == {0: 0.8, 1: 0.4, 4: 0.2}
    assert quality_factors(verdict, [0, 1, 4], hack_zero=False, min_factor=1.0) == {0: 0.8, 1: 0.4, 4: 0.4}


def test_hacks_alone_leave_the_others_equal():
    verdict = Verdict(None, None, (1,))
    assert quality_factors(verdict, [0, 1, 2]) == {0: 1.0, 2: 1.0}
    assert quality_factors(verdict, [0, 1, 2], hack_zero=False) == {0: 1.0, 2: 1.0, 1: 0.5}
    assert quality_factors(Verdict(None, None, (0, 1)), [0, 1]) == {}
    assert quality_factors(Verdict(None, None, (0, 1)), [0, 1], hack_zero=False) == {0: 0.5, 1: 0.5}


@pytest.mark.parametrize("verdict", [Verdict(((0,), (1,), (2,))), Verdict(((0, 1), (2,))), Verdict(None, None, (2,))])
def test_a_min_factor_of_numpy_makes_plain_floats(verdict):
    factors = quality_factors(verdict, [0, 1, 2], min_factor=np.float32(0.1), hack_zero=False)
    assert all(type(factor) is float for factor in factors.values())
    assert factors[2] == float(np.float32(0.1))


def test_no_factor_is_ever_zero():
    verdict = Verdict(None, {0: 5e-324, 1: 1.0}, (2,))
    assert quality_factors(verdict, [0, 1, 2], hack_zero=False)[2] > 0.0
    assert quality_factors(Verdict(((0,), (1,), (2,))), [0, 1, 2], min_factor=5e-324)[2] > 0.0


@given(rankings(), st.data(), min_factors)
def test_worse_is_never_above_better(ranking, data, min_factor):
    tiers = tuple(tuple(entry) if isinstance(entry, list) else (entry,) for entry in ranking)
    passes = sorted(index for tier in tiers for index in tier)
    hacks = tuple(sorted(data.draw(st.sets(st.sampled_from(passes)))))
    for hack_zero in (True, False):
        factors = quality_factors(Verdict(tiers, None, hacks), passes, min_factor=min_factor, hack_zero=hack_zero)
        assert set(factors) == (set(passes) - set(hacks) if hack_zero else set(passes))
        clean = [[factors[i] for i in tier if i not in hacks] for tier in tiers]
        order = [tier[0] for tier in clean if tier]
        assert all(len(set(tier)) <= 1 for tier in clean) and order == sorted(order, reverse=True)
        if hacks and order and not hack_zero:
            assert all(factors[hack] <= min(order) for hack in hacks)

import math
import random
import statistics
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.core.statistics import mean_interval, moved_mass, sign_flip, wilson, within_std

floats = st.floats(-1e6, 1e6)
groups = st.lists(st.lists(floats, min_size=2, max_size=6), min_size=1, max_size=8)


def pooled(found):
    squares = sum(statistics.variance(group) * (len(group) - 1) for group in found)
    return math.sqrt(squares / sum(len(group) - 1 for group in found))


@given(groups)
def test_within_std_is_the_pooled_one(found):
    interval = within_std(found)
    assert interval.value == pytest.approx(pooled(found), abs=1e-6)
    assert interval.low <= interval.high


@given(groups, st.lists(floats, min_size=8, max_size=8))
def test_within_std_does_not_see_what_groups_differ_by(found, shifts):
    moved = [[x + shift for x in group] for group, shift in zip(found, shifts, strict=False)]
    assert within_std(moved).value == pytest.approx(within_std(found).value, abs=1e-3)


def test_within_std_of_constants_is_zero_and_single_values_do_not_count():
    interval = within_std([[0.5, 0.5], [0.9, 0.9, 0.9], [3.0]])
    assert (interval.value, interval.low, interval.high) == (0, 0, 0)
    with pytest.raises(ValueError, match="no group"):
        within_std([[1.0], []])


def test_bounds_are_those_of_a_plain_bootstrap_over_groups():
    rng = random.Random(1)
    values = [rng.gauss(0.4, 0.6) for _ in range(25)]
    means = sorted(statistics.fmean(rng.choices(values, k=25)) for _ in range(20_000))
    interval = mean_interval(values)
    assert interval.value == pytest.approx(statistics.fmean(values))
    assert interval.low == pytest.approx(means[1000], abs=0.02)
    assert interval.high == pytest.approx(means[19_000], abs=0.02)
    assert mean_interval(values) == interval


def test_bounds_hold_their_level():
    rng = random.Random(2)
    missed = sum(mean_interval([rng.gauss(0, 1) for _ in range(40)]).low > 0 for _ in range(100))
    assert 1 <= missed <= 12  # 5 % of 100 is 5


def test_a_thousand_groups_are_drawn_in_parts_like_the_whole():
    values = [float(i % 7) for i in range(3000)]
    interval = mean_interval(values)
    half = 1.645 * statistics.pstdev(values) / math.sqrt(3000)
    assert interval.high - interval.value == pytest.approx(half, rel=0.1)


def test_wilson_at_the_ends():
    edge = 1.6448536**2 / (10 + 1.6448536**2)
    assert (wilson(0, 10).low, wilson(0, 10).high) == (0, pytest.approx(edge))
    assert (wilson(10, 10).low, wilson(10, 10).high) == (pytest.approx(1 - edge), 1)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_bounds_solve_its_equation(case):
    successes, trials = case
    interval = wilson(successes, trials)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    for bound in (interval.low, interval.high):
        if 0 < bound < 1:
            z = (interval.value - bound) / math.sqrt(bound * (1 - bound) / trials)
            assert abs(z) == pytest.approx(1.6449, abs=1e-3)


def test_wilson_without_trials_knows_nothing():
    interval = wilson(0, 0)
    assert math.isnan(interval.value)
    assert (interval.low, interval.high) == (0, 1)
    with pytest.raises(ValueError, match="3 successes"):
        wilson(3, 2)


def test_moved_mass_of_two_passes():
    # Two passes of advantage 0.5 each become 2/3 and 1/3: a sixth of the mass has moved.
    assert moved_mass([1.0, 0.5]) == pytest.approx(1 / 6)
    assert moved_mass([0.0, 0.0]) == 0


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=9), st.floats(0.1, 10))
def test_moved_mass_is_what_equation_3_moves(factors, scale):
    weights = [factor / sum(factors) for factor in factors]
    gained = sum(max(0.0, weight - 1 / len(factors)) for weight in weights)
    assert moved_mass(factors) == pytest.approx(gained, abs=1e-9)
    assert moved_mass([scale * factor for factor in factors]) == pytest.approx(gained, abs=1e-9)


@given(st.lists(st.integers(-5, 5), max_size=8), st.booleans())
def test_sign_flip_is_exact_for_few_values(values, two_sided):
    seen = sum(values)
    sums = [sum(s * v for s, v in zip(signs, values, strict=True)) for signs in product((1, -1), repeat=len(values))]
    hits = sum(abs(total) >= abs(seen) if two_sided else total >= seen for total in sums)
    expected = hits / len(sums) if any(values) else 1.0
    assert sign_flip(values, two_sided=two_sided) == pytest.approx(expected)


def test_sign_flip_by_draws_agrees_with_the_binomial():
    values = [1.0] * 20 + [-1.0] * 10
    tail = sum(math.comb(30, k) for k in range(20, 31)) / 2**30
    assert sign_flip(values, two_sided=False) == pytest.approx(tail, rel=0.1)
    assert sign_flip(values, two_sided=True) == pytest.approx(2 * tail, rel=0.1)

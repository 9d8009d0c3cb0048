"""Equation 3 against an implementation in exact fractions, and what holds whatever the numbers are."""

import math
import warnings
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.core.redistribution import redistribute, redistribute_batch
from whileai.errors import ConfigError

MAX = 1.7976931348623157e308
TINY = 5e-324

binary = st.sampled_from([0.0, 1.0])
signs = st.sampled_from([-1.0, 1.0])
steps = st.integers(-128, 128).map(
    lambda k: k / 64
)  # sums of these are exact: nothing is equal to the mean by rounding
anything = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
factor = st.floats(1e-6, 1.0)
any_factor = st.floats(TINY, 1.0, allow_subnormal=True)
caps = st.one_of(st.just(math.inf), st.floats(1.0, 10.0))


def groups(reward, factors=factor, least=1, most=12):
    return st.lists(st.tuples(reward, factors), min_size=least, max_size=most).map(
        lambda pairs: ([r for r, _ in pairs], [f for _, f in pairs])
    )


def exact(rewards, factors, cap=3.0, threshold=0.5):
    """Equation 3 in fractions: only rounding can tell ours from it."""
    reward = list(map(Fraction, rewards))
    mean = sum(reward) / len(reward)
    advantage = [r - mean for r in reward]
    moved = [i for i, r in enumerate(rewards) if r >= threshold and advantage[i] > 0]
    result = list(advantage)
    if moved:
        weight = sum(advantage[i] for i in moved) / sum(Fraction(factors[i]) * advantage[i] for i in moved)
        if weight > cap:
            weight = Fraction(cap)
        for i in moved:
            result[i] = weight * Fraction(factors[i]) * advantage[i]
        excess = sum(result) / len(result)
        result = [a - excess for a in result]
    return result


def scale_of(rewards):
    return max(map(abs, rewards), default=0.0)


def assert_close(found, wanted, scale, tolerance=1e-12):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert abs(Fraction(a) - Fraction(b)) <= Fraction(tolerance) * Fraction(scale) + 8 * Fraction(TINY)


@given(st.one_of(groups(binary), groups(signs), groups(steps)), caps)
def test_equals_the_exact_formula(group, cap):
    rewards, factors = group
    assert_close(redistribute(rewards, factors, cap=cap), exact(rewards, factors, cap), scale_of(rewards))


@given(groups(steps, any_factor), caps, st.integers(-1074, 1000))
def test_equals_the_exact_formula_at_any_magnitude(group, cap, power):
    rewards, factors = group
    rewards = [math.ldexp(reward, power) for reward in rewards]
    threshold = math.ldexp(0.5, power)
    wanted = exact(rewards, factors, cap, threshold)
    found = redistribute(rewards, factors, cap, threshold)
    # Subnormal numbers are as coarse as the smallest one, on the way to the result too.
    assert_close(found, wanted, max(scale_of(rewards), 1e-290))
    assert_close(redistribute_batch([rewards], [factors], cap, threshold)[0].tolist(), found, scale_of(rewards))


@given(st.one_of(groups(binary), groups(steps)), caps)
def test_order_of_the_rollouts_does_not_matter(group, cap):
    rewards, factors = group
    order = sorted(range(len(rewards)), key=lambda i: (factors[i] * 7919 + rewards[i] * 31) % 1)
    straight = redistribute(rewards, factors, cap)
    shuffled = redistribute([rewards[i] for i in order], [factors[i] for i in order], cap)
    assert_close(shuffled, [straight[i] for i in order], scale_of(rewards))


@given(st.one_of(groups(binary, any_factor), groups(signs, any_factor), groups(steps, any_factor)))
def test_uncapped_conserves_mass_and_leaves_failures(group):
    rewards, factors = group
    found = redistribute(rewards, factors, cap=math.inf)
    mean = Fraction(sum(map(Fraction, rewards))) / len(rewards)
    advantage = [Fraction(r) - mean for r in rewards]
    passes = [i for i, r in enumerate(rewards) if r >= 0.5]
    untouched = [i for i in range(len(rewards)) if i not in passes or advantage[i] <= 0]
    assert_close([sum(found[i] for i in passes)], [sum(advantage[i] for i in passes)], scale_of(rewards), 1e-11)
    assert_close([found[i] for i in untouched], [advantage[i] for i in untouched], scale_of(rewards))


@given(groups(anything, any_factor, most=6), caps, st.sampled_from([0.5, -1.0, 0.0, 1e-320, 1e300, -MAX]))
def test_finite_in_finite_out_with_mean_zero(group, cap, threshold):
    rewards, factors = group
    found = redistribute(rewards, factors, cap, threshold)
    assert all(map(math.isfinite, found))
    scale = scale_of(rewards)
    if scale < MAX / 64:  # beyond, sums end at the edge of the float range
        assert abs(sum(map(Fraction, found))) <= Fraction(1e-12) * Fraction(scale) + 8 * Fraction(TINY)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = redistribute_batch([rewards, rewards], [factors, factors], cap, threshold)
    assert np.isfinite(batch).all()


@given(groups(anything, any_factor, most=6), st.floats(1.0, 10.0))
def test_single_group_and_batch_agree_on_any_floats(group, cap):
    rewards, factors = group
    single = redistribute(rewards, factors, cap)
    batch = redistribute_batch([rewards, [0.0] * len(rewards), rewards], [factors, factors, factors], cap)
    assert_close(batch[0].tolist(), single, scale_of(rewards))
    assert_close(batch[2].tolist(), single, scale_of(rewards))
    assert not batch[1].any()


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.sampled_from(["binary", "steps", "wide"]), caps)
def test_single_groups_and_batch_agree(seed, size, kind, cap):
    draw = np.random.default_rng(seed)
    shape = (40, size)
    rewards = {
        "binary": lambda: (draw.random(shape) < 0.5).astype(float),
        "steps": lambda: draw.integers(-128, 129, shape) / 64,
        "wide": lambda: draw.integers(-8, 9, shape) * 10.0 ** draw.integers(-150, 150, (40, 1)),
    }[kind]()
    factors = draw.uniform(1e-6, 1.0, shape)
    batch = redistribute_batch(rewards, factors, cap, 0.0)
    for reward, quality, found in zip(rewards.tolist(), factors.tolist(), batch.tolist(), strict=True):
        assert_close(found, redistribute(reward, quality, cap, 0.0), scale_of(reward))


@given(st.one_of(groups(binary), groups(signs), groups(steps)), factor)
def test_equal_factors_change_nothing(group, equal):
    rewards, _ = group
    found = redistribute(rewards, [equal] * len(rewards), cap=math.inf)
    mean = sum(map(Fraction, rewards)) / len(rewards)
    assert_close(found, [Fraction(r) - mean for r in rewards], scale_of(rewards))


@given(st.one_of(groups(binary, any_factor), groups(signs, any_factor)), caps)
def test_among_equal_rewards_a_higher_factor_never_gets_less(group, cap):
    rewards, factors = group
    for found in (redistribute(rewards, factors, cap), redistribute_batch([rewards], [factors], cap)[0].tolist()):
        passes = sorted((i for i, r in enumerate(rewards) if r >= 0.5), key=lambda i: factors[i])
        for worse, better in pairwise(passes):
            assert found[worse] <= found[better]


@given(groups(steps), factor, factor, caps)
def test_a_pass_below_the_mean_is_left_alone(group, best, second, cap):
    rewards, factors = [100.0, 100.0, *group[0]], [best, second, *group[1]]  # all others lie below the mean
    found = redistribute(rewards, factors, cap)
    assert found == redistribute(rewards, [best, second] + [1e-6] * len(group[0]), cap)
    assert_close(found, exact(rewards, factors, cap), 100.0)


def test_a_pass_below_the_mean_is_not_rewarded_for_worse_work():
    found = redistribute([1.0, 0.9, 0.6, 0.0], {0: 1.0, 1: 0.5, 2: 0.1})
    # A = 0.375, 0.275, -0.025, -0.625; lambda = 0.65 / (0.375 + 0.5 * 0.275)
    assert found == pytest.approx([0.375 * 0.65 / 0.5125, 0.1375 * 0.65 / 0.5125, -0.025, -0.625])


def test_cap_then_recentre():
    # lambda is 1 / 0.15 = 6.7; at 3 the passes hold 0.45 of their 1.0, and the missing 0.55 is taken off everywhere
    found = redistribute([1, 1, 0, 0], {0: 0.2, 1: 0.1}, cap=3.0)
    assert found == pytest.approx([0.3 + 0.1375, 0.15 + 0.1375, -0.5 + 0.1375, -0.5 + 0.1375])
    assert redistribute([1, 1, 0, 0], {0: 0.2, 1: 0.1}, cap=math.inf) == pytest.approx([2 / 3, 1 / 3, -0.5, -0.5])


@pytest.mark.parametrize("scale", [1e-300, 1e-120, 1.0, 1e120, 1e300])
def test_the_cap_binds_at_any_magnitude(scale):
    rewards, factors = [scale, scale, 0.0, 0.0], [0.2, 0.1, 1.0, 1.0]
    wanted = [scale * share for share in (0.4375, 0.2875, -0.3625, -0.3625)]
    for cap in (3.0, 3, np.float32(3)):
        assert redistribute(rewards, factors, cap, scale / 2) == pytest.approx(wanted, rel=1e-12)
        assert redistribute_batch([rewards], [factors], cap, scale / 2)[0] == pytest.approx(wanted, rel=1e-12)
    steep = [1e-310, 0.5e-310, 1.0, 1.0]  # subnormal: about nine digits
    assert redistribute([1, 1, 0, 0], steep, 1) == pytest.approx([0.25, 0.25, -0.25, -0.25])
    assert redistribute([1, 1, 0, 0], steep, math.inf) == pytest.approx([2 / 3, 1 / 3, -0.5, -0.5], rel=1e-9)


def test_the_cap_does_not_bind_at_lambda():
    factors = {0: 0.5, 1: 0.5}  # lambda is exactly 2
    assert redistribute([1, 1, 0, 0], factors, cap=2.0) == [0.5, 0.5, -0.5, -0.5]


def test_rewards_that_equal_their_mean_but_for_rounding_move_nothing():
    rewards = [0.1] * 3  # their sum, divided by 3, is not always 0.1
    for size in range(2, 200):
        found = redistribute([0.1] * size, [1e-9] * (size - 1) + [1.0], cap=math.inf)
        assert max(map(abs, found)) < 1e-14
    assert redistribute(rewards, [1.0, 0.5, 0.1])[0] == pytest.approx(0.0, abs=1e-16)


@pytest.mark.parametrize(
    ("rewards", "factors", "wanted"),
    [
        ([], [], []),
        ([3.0], [0.2], [0.0]),
        ([1, 1, 1], [1.0, 0.5, 0.1], [0.0, 0.0, 0.0]),
        ([0, 0], [1.0, 1.0], [0.0, 0.0]),
        ([0, 0], {}, [0.0, 0.0]),
        ([MAX, -MAX], {0: 0.5}, [MAX, -MAX]),
        ([MAX, MAX, 0, 0], {0: 1.0, 1: 0.5}, [MAX / 3 * 2, MAX / 3, -MAX / 2, -MAX / 2]),
        ([1e100, 1e100, -1e100, 0], {0: 1e-320, 1: 1e-320}, [0.75e100, 0.75e100, -1.25e100, -0.25e100]),
    ],
)
def test_edges(rewards, factors, wanted):
    found = redistribute(rewards, factors, cap=math.inf)
    assert found == pytest.approx(wanted, rel=1e-12)
    if rewards:
        given_factors = [
            factors[i] if not isinstance(factors, dict) else factors.get(i, 0.0) for i in range(len(rewards))
        ]
        assert redistribute_batch([rewards], [given_factors], math.inf)[0].tolist() == pytest.approx(wanted, rel=1e-12)


def test_a_tiny_advantage_beside_tiny_factors():
    rewards = [1e100, 1e100, -1e100, -1e100, TINY]
    found = redistribute(rewards, {0: TINY, 1: TINY, 4: 1.0}, math.inf, 0.0)
    assert found == pytest.approx([1e100, 1e100, -1e100, -1e100, 0.0])


def test_batch_keeps_its_input_and_makes_a_plain_array():
    rewards, factors = np.array([[1.0, 1.0, 0.0]]), np.array([[1.0, 0.5, math.nan]])
    kept = rewards.copy(), factors.copy()
    found = redistribute_batch(rewards, factors)
    assert found.dtype == np.float64 and found.shape == (1, 3) and found.flags["C_CONTIGUOUS"]
    assert np.array_equal(rewards, kept[0]) and np.array_equal(factors, kept[1], equal_nan=True)
    assert redistribute_batch(np.zeros((0, 4)), np.zeros((0, 4))).shape == (0, 4)
    assert redistribute_batch(np.zeros((3, 0)), np.zeros((3, 0))).shape == (3, 0)


def test_factors_of_failures_are_not_read():
    wanted = redistribute([1, 1, 0, 0], {0: 1.0, 1: 0.5})
    assert redistribute([1, 1, 0, 0], {0: 1.0, 1: 0.5, 3: math.nan}) == wanted
    assert redistribute([1, 1, 0, 0], [1.0, 0.5, None, "x"]) == wanted
    assert redistribute(np.array([1, 1, 0, 0]), np.array([1.0, 0.5, 0.0, -1.0])) == wanted
    assert redistribute((True, True, False, False), {np.int64(0): np.float32(1.0), 1: Fraction(1, 2)}) == wanted
    assert redistribute((r for r in [1, 1, 0, 0]), {0: 1.0, 1: 0.5}) == wanted
    assert all(type(advantage) is float for advantage in redistribute(np.array([1, 0]), np.array([1.0, 1.0])))


@pytest.mark.parametrize(
    ("rewards", "factors", "words"),
    [
        ([1, math.nan], [1.0, 1.0], "reward nan of index 1"),
        ([1, math.inf, -math.inf], [1.0] * 3, "reward inf of index 1"),
        ([1, None], [1.0, 1.0], "reward None of index 1"),
        (["1", "0"], [1.0, 1.0], "reward '1' of index 0"),
        ("10", [1.0, 1.0], "reward '1' of index 0"),
        ([1, 10**400], [1.0, 1.0], "of index 1 is no finite number"),
        ([1, 10**5000], [1.0, 1.0], "of index 1 is no finite number"),
        ([1, [0]], [1.0, 1.0], r"reward \[0\] of index 1"),
        ([1, 1, 0], {0: 1.0}, "passing index 1 has no quality factor"),
        ([0, 1], [1.0], "passing index 1 has no quality factor"),
        ([1, 0], {"0": 1.0}, "passing index 0 has no quality factor"),
        ([1, 1], {0: 1.0, 1: 0.0}, "quality factor 0.0 of index 1"),
        ([1, 1], {0: 1.0, 1: 1.0000001}, "quality factor 1.0000001 of index 1"),
        ([1, 1], {0: math.nan, 1: 1.0}, "quality factor nan of index 0"),
        ([1, 1], {0: -0.5, 1: 1.0}, "quality factor -0.5 of index 0"),
        ([1, 1], {0: "0.5", 1: 1.0}, "for index 0 is wanted"),
        ([1, 1], {0: None, 1: 1.0}, "for index 0 is wanted"),
        ([1, 0], 0.5, "for index 0 is wanted"),
        ([1, 0], [1.0, 1.0, 1.0], "3 quality factors for 2 rewards"),
        ([1, 1, 0], [1.0, 0.5], "2 quality factors for 3 rewards"),  # of the passes alone, which stand first
        ([1, 0], {0: 1.0, 7: 1.0}, "factors name index 7"),
        ([1, 0], {0: 1.0, -1: 1.0}, "factors name index -1"),
    ],
)
def test_bad_input_is_named(rewards, factors, words):
    with pytest.raises(ValueError, match=words):
        redistribute(rewards, factors)


@pytest.mark.parametrize("cap", [0.99, 0, -1, math.nan, "3", None, True, 10**400])
def test_bad_caps_are_named(cap):
    for call in (lambda: redistribute([1, 0], [1, 1], cap), lambda: redistribute_batch([[1, 0]], [[1, 1]], cap)):
        with pytest.raises(ConfigError, match="cap="):
            call()


@pytest.mark.parametrize("threshold", [math.nan, "0.5", None, False])
def test_bad_thresholds_are_named(threshold):
    with pytest.raises(ConfigError, match="pass_threshold="):
        redistribute([1, 0], [1, 1], pass_threshold=threshold)
    with pytest.raises(ConfigError, match="pass_threshold="):
        redistribute_batch([[1, 0]], [[1, 1]], pass_threshold=threshold)


@pytest.mark.parametrize(
    ("rewards", "factors", "words"),
    [
        ([1, 0], [1, 1], r"\(groups, size\)"),
        ([[1, 0]], [[1, 1, 1]], r"\(groups, size\)"),
        ([[1, 0], [1, math.nan]], [[1, 1], [1, 1]], "reward nan of group 1, index 1"),
        ([[1, None]], [[1, 1]], "reward nan of group 0, index 1"),
        ([[1, 0], [1, -math.inf]], [[1, 1], [1, 1]], "reward -inf of group 1, index 1"),
        ([[1, 0], [0, 1]], [[1, 1], [1, 0]], "quality factor 0.0 of group 1, index 1"),
        ([[1, 0]], [[math.nan, 1]], "quality factor nan of group 0, index 0"),
        ([["1", "0"]], [[1, 1]], "numbers are wanted"),
        ([[1j, 0]], [[1, 1]], "numbers are wanted"),
    ],
)
def test_bad_batches_are_named(rewards, factors, words):
    with pytest.raises(ValueError, match=words):
        redistribute_batch(rewards, factors)


def test_pass_threshold_decides_who_passes():
    assert redistribute([1.0, 0.5, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], pass_threshold=0.5) == [
        0.625,
        0.125,
        -0.375,
        -0.375,
    ]
    lenient = redistribute([1.0, 0.5, 0.0, 0.0], [0.5, 1.0, 1.0, 1.0], pass_threshold=0.5)
    strict = redistribute([1.0, 0.5, 0.0, 0.0], [0.5, 1.0, 1.0, 1.0], pass_threshold=0.75)
    assert lenient[1] > 0.125 and strict == [0.625, 0.125, -0.375, -0.375]

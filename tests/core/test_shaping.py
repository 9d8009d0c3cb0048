"""From verdicts to shaped rewards: A' + mean(R), hacks, rows without a reward, equation 2."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.core.factors import factors_from_ranking
from whileai.core.redistribution import redistribute
from whileai.core.shaping import VECTORISE_FROM, GroupShape, plain, shape_by_product, shape_by_verdict
from whileai.core.verdict import Verdict

KNOBS = {"cap": 3.0, "min_factor": 0.5, "hack_zero": True, "hack_reward": None}
MAX = 1.7976931348623157e308


def passing(rewards):
    return [index for index, reward in enumerate(rewards) if reward is not None and reward >= 0.5]


def shaped(rewards, verdict, **knobs):
    """The shape of one group; the batch way has to say the same."""
    group = (list(rewards), passing(rewards), verdict)
    (one,) = shape_by_verdict([group], **{**KNOBS, **knobs})
    *_, last = shape_by_verdict([group] * VECTORISE_FROM, **{**KNOBS, **knobs})
    assert last.rewards == pytest.approx(one.rewards, rel=1e-12, abs=1e-12)
    assert last._replace(rewards=[], moved=0.0) == one._replace(rewards=[], moved=0.0)
    assert last.moved == pytest.approx(one.moved, rel=1e-12)
    assert all(type(reward) is float and math.isfinite(reward) for reward in one.rewards)
    return one


def ranked(*indices, hacks=()):
    return Verdict(tuple((index,) for index in indices), None, tuple(hacks))


def test_a_prime_plus_the_mean():
    shape = shaped([1.0, 1.0, 0.0, 0.0], ranked(0, 1))
    assert shape.rewards == [1.1666666666666665, 0.8333333333333333, 0.0, 0.0]
    assert shape.factors == {0: 1.0, 1: 0.5}
    assert (shape.hacks, shape.capped, shape.failures, shape.verdict) == ((), False, (), ranked(0, 1))
    assert shape.moved == pytest.approx(4 / 3)


@pytest.mark.parametrize("low", [0.0, -1.0])
def test_a_hack_is_a_failure_under_both_scales(low):
    shape = shaped([1.0, 1.0, 1.0, low], ranked(0, 1, hacks=[2]))
    wanted = redistribute([1.0, 1.0, low, low], {0: 1.0, 1: 0.5})
    mean = (2.0 + 2 * low) / 4
    assert shape.rewards == pytest.approx([advantage + mean for advantage in wanted])
    assert shape.hacks == (2,) and shape.factors == {0: 1.0, 1: 0.5}


def test_what_a_hack_becomes():
    def hack(rewards, **knobs):
        return shaped(rewards, Verdict(None, None, (0,)), **knobs).rewards[0]

    assert hack([1.0, 0.4, 0.3]) == 0.0  # the smaller of 0 and the lowest, 0.3
    assert hack([1.0, -2.0, None]) == -2.0
    assert hack([1.0, 0.0], hack_reward=-0.5) == -0.5
    assert hack([1.0, -1.0], hack_reward=0.25) == 0.25


def test_knobs_of_numpy_are_as_exact_as_others():
    wanted = shaped([1.0, 1.0, 1.0, 0.0], ranked(0, 1, hacks=[2]), cap=1.1, min_factor=0.1, hack_reward=0.25)
    small = {"cap": np.float32(1.1), "min_factor": np.float32(0.1), "hack_reward": np.float16(0.25)}
    found = shaped([1.0, 1.0, 1.0, 0.0], ranked(0, 1, hacks=[2]), **small)
    assert found.rewards == pytest.approx(wanted.rewards, abs=1e-7)
    assert sum(found.rewards) == pytest.approx(2.25, abs=1e-15)
    assert all(type(factor) is float for factor in found.factors.values())


def test_the_only_pass_a_hack():
    assert shaped([1.0, 0.0, 0.0], ranked(hacks=[0])).rewards == [0.0, 0.0, 0.0]
    assert shaped([1.0, -1.0], Verdict(None, None, (0,))).rewards == [-1.0, -1.0]


def test_all_passes_hacks_are_a_flat_group():
    shape = shaped([1.0, 1.0, 0.0], ranked(hacks=[0, 1]))
    assert shape.rewards == [0.0, 0.0, 0.0] and shape.factors == {} and shape.hacks == (0, 1)
    assert shaped([1.0, 1.0, -1.0], ranked(hacks=[0, 1])).rewards == [-1.0, -1.0, -1.0]


def test_a_hack_in_an_all_pass_group_makes_it_mixed():
    shape = shaped([1.0, 1.0, 1.0], ranked(1, 0, hacks=[2]))
    assert shape.rewards == pytest.approx([*(a + 2 / 3 for a in redistribute([1, 1, 0], {1: 1.0, 0: 0.5})[:2]), 0.0])
    assert shape.rewards[1] > 1.0 > shape.rewards[0]


def test_an_all_pass_group_without_hacks_stays_flat():
    assert shaped([1.0, 1.0, 1.0], ranked(2, 0, 1)).rewards == [1.0, 1.0, 1.0]


def test_a_hack_that_is_not_zeroed_keeps_its_reward_and_comes_last():
    shape = shaped([1.0, 1.0, 1.0, 0.0], ranked(2, 0, 1, hacks=[2]), hack_zero=False)
    assert shape.hacks == () and shape.factors == {0: 1.0, 1: 0.75, 2: 0.5}
    assert shape.rewards[0] > shape.rewards[1] > shape.rewards[2] > 0.0
    assert sum(shape.rewards) == pytest.approx(3.0)


def test_a_capped_group_says_so():
    shape = shaped([1.0, 1.0, 0.0, 0.0], Verdict(None, {0: 0.2, 1: 0.1}))
    assert shape.capped and shape.rewards == pytest.approx([0.9375, 0.7875, 0.1375, 0.1375])
    assert shape.moved == pytest.approx(1 / 0.15)
    assert not shaped([1.0, 1.0, 0.0, 0.0], Verdict(None, {0: 0.2, 1: 0.1}), cap=math.inf).capped


def test_a_row_without_a_reward_has_no_advantage():
    shape = shaped([1.0, None, 1.0, 0.0, None], ranked(2, 0))
    wanted = redistribute([1.0, 1.0, 0.0], {1: 1.0, 0: 0.5})
    mean = 2 / 3
    assert shape.rewards == pytest.approx([wanted[0] + mean, mean, wanted[1] + mean, wanted[2] + mean, mean])
    assert shape.factors == {2: 1.0, 0: 0.5}
    capped = shaped([1.0, None, 1.0, 0.0], Verdict(None, {0: 0.2, 2: 0.1}))
    assert capped.capped and capped.rewards[1] == pytest.approx(mean) == sum(capped.rewards) / 4


def test_groups_of_many_sizes_in_one_call():
    # what a check on kept rows hands over
    groups = [([1.0] * (2 + n % 3) + [0.0], list(range(2 + n % 3)), ranked(*range(2 + n % 3))) for n in range(40)]
    shapes = shape_by_verdict(groups, **KNOBS)
    for (rewards, _, _), shape in zip(groups, shapes, strict=True):
        assert shape.rewards == shaped(rewards, ranked(*range(len(rewards) - 1))).rewards


def test_no_groups_and_empty_groups(recwarn):
    assert shape_by_verdict([], **KNOBS) == []
    assert [shape.rewards for shape in shape_by_verdict([([], [], Verdict(()))] * 30, **KNOBS)] == [[]] * 30
    assert not list(recwarn)


def test_the_rewards_given_are_not_changed():
    rewards = [1.0, 1.0, None, 0.0]
    shape_by_verdict([(rewards, [0, 1], ranked(0, hacks=[1]))] * 30, **KNOBS)
    assert rewards == [1.0, 1.0, None, 0.0]


def random_groups(seed):
    """Groups of one size with verdicts of every form."""
    draw = random.Random(seed)
    size = draw.randint(1, 6)
    rewards_of = draw.choice([[0.0, 1.0], [-1.0, 1.0], [0.0, 0.5, 0.75, 1.0, -2.0], [0.0, 1.0, None]])
    groups = []
    for _ in range(VECTORISE_FROM + 4):
        rewards = draw.choices(rewards_of, k=size)
        passes = passing(rewards)
        hacks = tuple(sorted(draw.sample(passes, draw.randint(0, min(2, len(passes))))))
        if draw.random() < 0.5:
            verdict = Verdict(tuple((index,) for index in draw.sample(passes, len(passes))), None, hacks)
        else:
            verdict = Verdict(None, {index: draw.choice([0.05, 0.5, 1.0]) for index in passes}, hacks)
        groups.append((rewards, passes, verdict))
    return groups


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([1.0, 3.0, math.inf]))
def test_many_groups_say_what_each_says_alone(seed, hack_zero, cap):
    groups = random_groups(seed)
    knobs = {**KNOBS, "hack_zero": hack_zero, "cap": cap}
    for group, shape in zip(groups, shape_by_verdict(groups, **knobs), strict=True):
        (alone,) = shape_by_verdict([group], **knobs)
        assert shape.rewards == pytest.approx(alone.rewards, rel=1e-12, abs=1e-12)
        assert shape._replace(rewards=[], moved=0.0) == alone._replace(rewards=[], moved=0.0)
        assert shape.moved == pytest.approx(alone.moved, rel=1e-12)
        rewards, _, verdict = group
        scored = [index for index, reward in enumerate(rewards) if reward is not None]
        if not scored:
            continue
        reset = [min(0.0, *(r for r in rewards if r is not None)) if i in shape.hacks else rewards[i] for i in scored]
        mean = sum(reset) / len(reset)
        assert sum(shape.rewards[index] - mean for index in scored) == pytest.approx(0.0, abs=1e-12)
        for index, reward in enumerate(rewards):
            if reward is None:
                assert shape.rewards[index] == pytest.approx(mean, abs=1e-12)
        wanted = redistribute(reset, {scored.index(i): f for i, f in shape.factors.items()}, cap) if verdict else reset
        assert [shape.rewards[i] - mean for i in scored] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("times", [1, VECTORISE_FROM])
def test_rewards_at_the_end_of_the_float_range(times, recwarn):
    group = ([MAX, MAX, 0.0, 0.0], [0, 1], ranked(0, 1))
    usual = ([1.0, 1.0, 0.0, 0.0], [0, 1], ranked(0, 1))
    *_, before, large, after = shape_by_verdict([usual] * times + [usual, group, usual], **KNOBS)
    assert large.rewards == pytest.approx([MAX, MAX / 6 * 5, 0.0, 0.0], rel=1e-12)
    assert before.rewards == after.rewards == pytest.approx([7 / 6, 5 / 6, 0.0, 0.0])
    assert not list(recwarn)


def test_a_group_that_no_verdict_touches():
    failure = RuntimeError("down")
    assert plain([1.0, 0.0]).rewards == [1.0, 0.0]
    assert plain([1.0, None, 0.0], (failure,)) == GroupShape([1.0, 0.5, 0.0], {}, failures=(failure,))
    assert plain([None, None]).rewards == [0.0, 0.0] and plain([]).rewards == []
    assert plain([MAX, MAX, None]).rewards == pytest.approx([MAX] * 3)
    given = [1.0, 0.0]
    assert plain(given).rewards is not given


def test_equation_2():
    shape = shape_by_product([1.0, 0.8, 0.0, 1.0], {0: 0.5, 1: 0.25, 3: 0.0}, {})
    assert shape.rewards == [0.5, 0.2, 0.0, 0.0] and shape.factors == {0: 0.5, 1: 0.25, 3: 0.0}


def test_an_unscored_pass_takes_the_mean_product():
    failure = TimeoutError("late")
    shape = shape_by_product([1.0, 1.0, 1.0, 0.0], {0: 0.9, 1: 0.5}, {2: failure})
    assert shape.rewards == pytest.approx([0.9, 0.5, 0.7, 0.0])
    assert shape.factors == {0: 0.9, 1: 0.5} and shape.failures == (failure,)


def test_no_pass_scored_keeps_the_rewards():
    failures = {0: TimeoutError("late"), 1: ValueError("no")}
    shape = shape_by_product([1.0, 1.0, 0.0, None], {}, failures)
    assert shape.rewards == pytest.approx([1.0, 1.0, 0.0, 2 / 3]) and shape.failures == tuple(failures.values())


def test_rows_without_a_reward_take_the_mean_of_the_shaped():
    assert shape_by_product([1.0, None, 0.0], {0: 0.5}, {}).rewards == [0.5, 0.25, 0.0]


@given(st.permutations(range(6)), st.integers(2, 5), st.floats(0.05, 1.0))
def test_a_ranking_moves_what_the_formula_says(order, passes, min_factor):
    rewards = [1.0] * passes + [0.0] * (6 - passes)
    ranking = [index for index in order if index < passes]
    shape = shaped(rewards, ranked(*ranking), min_factor=min_factor)
    factors = factors_from_ranking(ranking, min_factor)
    mean, weight = Fraction(passes, 6), 2 / (1 + Fraction(min_factor))
    for index in range(passes):
        assert shape.rewards[index] == pytest.approx(float(weight * Fraction(factors[index]) * (1 - mean) + mean))
    assert shape.rewards[passes:] == pytest.approx([0.0] * (6 - passes), abs=1e-12)


def test_real_groups(shared_data):
    from whileai.core.group import groups_from_rows

    groups = groups_from_rows(shared_data("airline_rollouts.jsonl"))
    prepared = []
    for group in groups:
        rewards = [rollout["reward"] for rollout in group.rollouts]
        calls = {r["index"]: r["completion"].count("<tool_call>") for r in group.rollouts if r["passed"]}
        prepared.append((rewards, list(calls), ranked(*sorted(calls, key=calls.__getitem__))))
    shapes = shape_by_verdict(prepared, **KNOBS)
    for (rewards, passes, _), shape in zip(prepared, shapes, strict=True):
        mean = np.mean(rewards)
        assert sum(shape.rewards) - 4 * mean == pytest.approx(0.0, abs=1e-12)
        assert [shape.rewards[i] for i in range(4) if i not in passes] == pytest.approx([0.0] * (4 - len(passes)))
        if 1 < len(passes) < 4:
            assert np.std([shape.rewards[i] for i in passes]) > 0.05
        else:
            assert shape.rewards == pytest.approx(rewards)

"""From verdicts to shaped rewards, for one batch of groups: pure, and the same numbers wherever it is called.

The shaped reward of a rollout is A' + mean(R), with R the rewards after hacks were reset, so that a trainer's
own mean subtraction gives equation 3. A row that the verifier could not score takes the mean of its group's
scored rows (A' = 0), and the rest is shaped without it. A group without a verdict keeps its rewards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from whileai.core.factors import quality_factors
from whileai.core.redistribution import redistribute_masked, redistribute_passes
from whileai.core.verdict import Verdict
from whileai.errors import BROKEN_JUDGE, kind_and_reason

VECTORISE_FROM = 256
"""Groups from which on numpy pays, the 0.1 s of its first import included; below, both take about as long."""


_Prepared = tuple[Sequence[float | None], dict[int, float], tuple[int, ...], Verdict]
"""A group whose hacks are reset: rewards, factor by passing index, hacks, verdict."""


class GroupShape(NamedTuple):
    """What happened to one group.

    Attributes:
        rewards: shaped, finite, one per rollout.
        factors: quality factor (reward mode: product) by index of a graded pass.
        hacks: indices whose reward was reset.
        capped: the cap bound lambda.
        failures: the failed calls of this group.
        verdict: what the grader said, in advantage mode.
        moved: lambda before the cap, 1.0 where nothing moves.
    """

    rewards: list[float]
    factors: dict[int, float]
    hacks: tuple[int, ...] = ()
    capped: bool = False
    failures: tuple[BaseException, ...] = ()
    verdict: Verdict | None = None
    moved: float = 1.0


def plain(rewards: Sequence[float | None], failures: tuple[BaseException, ...] = ()) -> GroupShape:
    """A group that no verdict touches: its rewards, with the mean where there is none."""
    return GroupShape(_filled(rewards), {}, failures=failures)


def shape_by_verdict(
    groups: Sequence[tuple[Sequence[float | None], Sequence[int], Verdict]],
    *,
    cap: float,
    min_factor: float,
    hack_zero: bool,
    hack_reward: float | None,
) -> list[GroupShape]:
    """Advantage mode: rewards, passing indices and verdict of each group to its shape."""
    cap = float(cap)  # in numpy's smaller floats everything would be computed in those
    prepared = []
    for rewards, passes, verdict in groups:
        factors = quality_factors(verdict, passes, min_factor=min_factor, hack_zero=hack_zero)
        hacks = verdict.hacks if hack_zero else ()
        if hacks:
            rewards = hacks_reset(rewards, hacks, hack_reward)
        prepared.append((rewards, factors, hacks, verdict))
    if len(prepared) < VECTORISE_FROM or len({len(group[0]) for group in prepared}) > 1:
        return [_one(group, cap) for group in prepared]
    return _vectorised(prepared, cap)


def hacks_reset(rewards: Sequence[float | None], hacks: Sequence[int], hack_reward: float | None) -> list[float | None]:
    """The rewards of a group with those of its hacks replaced, by default by the smaller of 0 and the lowest."""
    reset = list(rewards)
    lowest = min(reward for reward in rewards if reward is not None)
    for index in hacks:
        reset[index] = min(0.0, lowest) if hack_reward is None else float(hack_reward)
    return reset


def shape_by_product(
    rewards: Sequence[float | None], products: dict[int, float], failures: dict[int, BaseException]
) -> GroupShape:
    """Reward mode, equation 2: R times the product of each scored pass.

    A pass whose call failed takes the mean product of the others: at 1.0 it would win by having failed. One that
    broke its judge (`errors.BROKEN_JUDGE`) takes the lowest. Where no pass was scored, the group keeps its rewards.
    """
    if not products:
        return plain(rewards, tuple(failures.values()))
    middle, lowest = sum(products.values()) / len(products), min(products.values())
    shaped = list(rewards)
    for index, failure in failures.items():
        reward, broken = shaped[index], kind_and_reason(failure)[0] == BROKEN_JUDGE
        shaped[index] = None if reward is None else reward * (lowest if broken else middle)
    for index, product in products.items():
        reward = shaped[index]
        shaped[index] = None if reward is None else reward * product
    return GroupShape(_filled(shaped), products, failures=tuple(failures.values()))


def _one(group: _Prepared, cap: float) -> GroupShape:
    rewards, factors, hacks, verdict = group
    if None in rewards:
        return _one_in_part(group, cap)
    values: Sequence[float] = rewards  # type: ignore[assignment]
    advantages, moved = redistribute_passes(values, factors.items(), cap)
    mean = _mean(values)
    shaped = [advantage + mean for advantage in advantages]
    total = sum(shaped)
    if total - total != 0.0:  # not finite
        shaped = [max(-_MAX, min(_MAX, reward)) for reward in shaped]
    return GroupShape(shaped, factors, hacks, moved > cap, (), verdict, moved)


def _one_in_part(group: _Prepared, cap: float) -> GroupShape:
    """Rows without a reward take the mean; the rest is shaped as if they were not there."""
    rewards, factors, hacks, verdict = group
    places = [index for index, reward in enumerate(rewards) if reward is not None]
    scored = [reward for reward in rewards if reward is not None]
    among = {places.index(index): factor for index, factor in factors.items()}
    shape = _one((scored, among, hacks, verdict), cap)
    shaped = [_mean(scored)] * len(rewards)
    for index, reward in zip(places, shape.rewards, strict=True):
        shaped[index] = reward
    return shape._replace(rewards=shaped, factors=factors)


def _vectorised(prepared: Sequence[_Prepared], cap: float) -> list[GroupShape]:
    import numpy as np

    reward = np.array([group[0] for group in prepared], dtype=np.float64)  # None becomes NaN
    size = reward.shape[1]
    where = [number * size + index for number, group in enumerate(prepared) for index in group[1]]
    quality = np.zeros(reward.size, dtype=np.float64)
    quality[where] = [factor for group in prepared for factor in group[1].values()]
    factor = quality.reshape(reward.shape)
    advantages, moved = redistribute_masked(reward, factor, factor > 0.0, cap)
    with np.errstate(over="ignore"):
        advantages += reward.sum(axis=1, keepdims=True) / max(size, 1)
    shapes = [
        GroupShape(shaped, factors, hacks, own > cap, (), verdict, own)
        for shaped, own, (_, factors, hacks, verdict) in zip(advantages.tolist(), moved.tolist(), prepared, strict=True)
    ]
    for number in np.flatnonzero(~np.isfinite(advantages).all(axis=1)).tolist():
        shapes[number] = _one(prepared[number], cap)  # rows without a reward, or at the end of the float range
    return shapes


_MAX = 1.7976931348623157e308


def _mean(values: Sequence[float]) -> float:
    total = sum(values)
    if total - total == 0.0:  # finite
        return total / len(values) if values else 0.0
    return sum(value / len(values) for value in values)


def _filled(rewards: Sequence[float | None]) -> list[float]:
    scored = [reward for reward in rewards if reward is not None]
    if len(scored) == len(rewards):
        return scored
    mean = _mean(scored)
    return [mean if reward is None else reward for reward in rewards]

"""From verdicts to shaped rewards, for one batch of groups: pure, and the same numbers wherever it is called.

The shaped reward of a rollout is A' + mean(R), with R the rewards after hacks were reset, so that a trainer's
own mean subtraction gives equation 3. A row that the verifier could not score takes the mean of its group's
scored rows (A' = 0), and the rest is shaped without it. A group without a verdict keeps its rewards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from whileai.core.factors import quality_factors
from whileai.core.redistribution import redistribute_masked, redistribute_passes
from whileai.core.verdict import Verdict

VECTORISE_FROM = 16
"""Groups from which on one numpy call is quicker than plain Python group by group."""


class GroupShape(NamedTuple):
    """What happened to one group.

    Attributes:
        rewards: shaped, finite, one per rollout.
        factors: quality factor (reward mode: product) by index of a graded pass.
        hacks: indices whose reward was reset.
        capped: the cap bound lambda.
        failures: the failed calls of this group.
        verdict: what the grader said, in advantage mode.
    """

    rewards: list[float]
    factors: dict[int, float]
    hacks: tuple[int, ...] = ()
    capped: bool = False
    failures: tuple[BaseException, ...] = ()
    verdict: Verdict | None = None


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
    """Advantage mode: rewards, passing indices and verdict of each group (all of one size) to its shape."""
    prepared = []
    for rewards, passes, verdict in groups:
        factors = quality_factors(verdict, passes, min_factor=min_factor, hack_zero=hack_zero)
        hacks = verdict.hacks if hack_zero else ()
        if hacks:
            rewards = list(rewards)
            lowest = min(reward for reward in rewards if reward is not None)
            for index in hacks:
                rewards[index] = min(0.0, lowest) if hack_reward is None else hack_reward
        prepared.append((rewards, factors, hacks, verdict))
    if len(prepared) >= VECTORISE_FROM and not any(None in rewards for rewards, *_ in prepared):
        return _vectorised(prepared, cap)
    return [_one(rewards, factors, hacks, verdict, cap) for rewards, factors, hacks, verdict in prepared]


def shape_by_product(
    rewards: Sequence[float | None], products: dict[int, float], failures: dict[int, BaseException]
) -> GroupShape:
    """Reward mode, equation 2: R times the product of each scored pass.

    A pass whose call failed takes the mean product of the others: at 1.0 it would win by having failed. Where
    no pass was scored, the group keeps its rewards.
    """
    if not products:
        return plain(rewards, tuple(failures.values()))
    middle = sum(products.values()) / len(products)
    shaped = list(rewards)
    for index in (*products, *failures):
        reward = shaped[index]
        shaped[index] = None if reward is None else reward * products.get(index, middle)
    return GroupShape(_filled(shaped), products, failures=tuple(failures.values()))


def _one(
    rewards: Sequence[float | None],
    factors: dict[int, float],
    hacks: tuple[int, ...],
    verdict: Verdict,
    cap: float,
) -> GroupShape:
    scored = [index for index, reward in enumerate(rewards) if reward is not None]
    values = [reward for reward in rewards if reward is not None]
    place = {index: position for position, index in enumerate(scored)}
    passes = [(place[index], factor) for index, factor in factors.items()]
    advantages, moved = redistribute_passes(values, passes, cap)
    mean = sum(values) / len(values)
    shaped: list[float] = [mean] * len(rewards)
    for index, advantage in zip(scored, advantages, strict=True):
        shaped[index] = advantage + mean
    if not math.isfinite(sum(shaped)):
        shaped = [max(-_MAX, min(_MAX, value)) for value in shaped]
    return GroupShape(shaped, factors, hacks, moved > cap, (), verdict)


def _vectorised(
    prepared: Sequence[tuple[Any, dict[int, float], tuple[int, ...], Verdict]], cap: float
) -> list[GroupShape]:
    import numpy as np

    reward = np.array([rewards for rewards, *_ in prepared], dtype=np.float64)
    size = reward.shape[1]
    where = [
        start + i
        for start, (_, factors, _, _) in zip(range(0, reward.size, size), prepared, strict=True)
        for i in factors
    ]
    quality = np.zeros(reward.size, dtype=np.float64)
    quality[where] = [factor for _, factors, _, _ in prepared for factor in factors.values()]
    shaped_factors = quality.reshape(len(prepared), size)
    advantages, moved = redistribute_masked(reward, shaped_factors, shaped_factors > 0.0, cap)
    advantages += reward.mean(axis=1, keepdims=True)
    np.clip(advantages, -_MAX, _MAX, out=advantages)
    return [
        GroupShape(shaped, factors, hacks, capped, (), verdict)
        for shaped, capped, (_, factors, hacks, verdict) in zip(
            advantages.tolist(), (moved > cap).tolist(), prepared, strict=True
        )
    ]


_MAX = 1.7976931348623157e308


def _filled(rewards: Sequence[float | None]) -> list[float]:
    scored = [reward for reward in rewards if reward is not None]
    if len(scored) == len(rewards):
        return scored
    mean = sum(scored) / len(scored) if scored else 0.0
    return [mean if reward is None else reward for reward in rewards]

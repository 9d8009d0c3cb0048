"""Equation 3: the positive advantage moves from worse to better passes, and its total is conserved.

With A = R - mean(R) and P the passes with a positive advantage, lambda = sum_P A / sum_P f A and
A' = min(lambda, cap) f A for a pass, A otherwise; where the cap binds, the mean is subtracted again, so that the
group's sum stays zero. For binary rewards P is the passes, as in the report [section 4.3.2, equation 3]. For
other rewards a pass below the group's mean is left as it is: a smaller factor would make its penalty smaller.

`redistribute` is one group in plain Python, `redistribute_batch` many groups in numpy; both agree to 1e-12.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from whileai.simulations.defaults import GROUPWISE_CAP, GROUPWISE_PASS_THRESHOLD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

_LARGE = 1e100
"""Above this magnitude sums and products are computed on scaled rewards, so that none of them overflows."""
_MAX = 1.7976931348623157e308


def redistribute(
    rewards: Sequence[float],
    factors: Mapping[int, float] | Sequence[float],
    cap: float = GROUPWISE_CAP,
    pass_threshold: float = GROUPWISE_PASS_THRESHOLD,
) -> list[float]:
    """The redistributed advantages A' of one group.

    Args:
        rewards: one finite reward per rollout.
        factors: quality factor in (0, 1] by passing index, or one entry per rollout; those of failures are
            not read.
        cap: upper bound of lambda, at least 1; `math.inf` for none.
        pass_threshold: a reward of at least this is a pass.

    Returns:
        One advantage per rollout, with mean zero. Never NaN.

    Raises:
        ValueError: a reward is not finite, a pass has no factor or one outside (0, 1], or the cap is below 1.
    """
    rewards = list(map(float, rewards))
    if not cap >= 1.0:
        raise ValueError(f"cap={cap!r}: lambda is never below 1, so a cap is at least 1 (math.inf for none)")
    passes = [i for i, reward in enumerate(rewards) if reward >= pass_threshold]
    if not math.isfinite(sum(rewards)):
        for i, reward in enumerate(rewards):
            if not math.isfinite(reward):
                raise ValueError(f"reward {reward!r} of index {i} is not finite")
    try:
        by_pass = [(i, float(factors[i])) for i in passes]
    except (KeyError, IndexError):
        known = factors if isinstance(factors, Mapping) else range(len(factors))
        absent = next(i for i in passes if i not in known)
        raise ValueError(f"passing index {absent} has no quality factor") from None
    for i, factor in by_pass:
        if not 0.0 < factor <= 1.0:
            raise ValueError(f"quality factor {factor!r} of index {i} is not in (0, 1]")
    return redistribute_passes(rewards, by_pass, cap)[0]


def redistribute_passes(
    rewards: list[float], passes: Sequence[tuple[int, float]], cap: float
) -> tuple[list[float], float]:
    """A' and the uncapped lambda (1.0 where nothing moves), from finite rewards and (index, factor) of each pass."""
    size = len(rewards)
    if not size:
        return [], 1.0
    mean = sum(rewards) / size
    largest = max(max(rewards), -min(rewards))
    if largest > _LARGE:
        scaled, moved = redistribute_passes([reward / largest for reward in rewards], passes, cap)
        return [max(-_MAX, min(_MAX, advantage * largest)) for advantage in scaled], moved
    advantages = [reward - mean for reward in rewards]
    mass = held = 0.0
    for i, factor in passes:
        if (advantage := advantages[i]) > 0.0:
            mass += advantage
            held += factor * advantage
    if mass <= 0.0:
        return advantages, 1.0
    best = 1.0
    if held < 1e-290:  # factors or advantages so small that the product underflows: the weights alone are exact
        best = max(factor for i, factor in passes if advantages[i] > 0.0)
        held = sum(factor / best * (advantages[i] / mass) for i, factor in passes if advantages[i] > 0.0)
        moved = 1.0 / held / best if best > 1e-300 else math.inf
        weight = min(1.0 / held, cap * best)
    else:
        moved = mass / held
        weight = min(moved, cap)
    for i, factor in passes:
        if (advantage := advantages[i]) > 0.0:
            advantages[i] = weight * (factor / best) * advantage
    if moved > cap:
        excess = sum(advantages) / size
        advantages = [advantage - excess for advantage in advantages]
    return advantages, moved


def redistribute_batch(
    rewards: ArrayLike,
    factors: ArrayLike,
    cap: float = GROUPWISE_CAP,
    pass_threshold: float = GROUPWISE_PASS_THRESHOLD,
) -> NDArray[np.float64]:
    """The redistributed advantages of many groups of one size.

    Args:
        rewards: (groups, size), finite.
        factors: (groups, size); in (0, 1] for passes, not read for failures.
        cap, pass_threshold: as in `redistribute`.

    Returns:
        (groups, size), each row with mean zero. Never NaN.

    Raises:
        ValueError: shapes that do not match, a reward that is not finite, a pass's factor outside (0, 1], or
            a cap below 1.
    """
    import numpy as np

    reward = np.asarray(rewards, dtype=np.float64)
    factor = np.asarray(factors, dtype=np.float64)
    if reward.ndim != 2 or factor.shape != reward.shape:
        raise ValueError(f"rewards {reward.shape} and factors {factor.shape}: both are (groups, size)")
    if not cap >= 1.0:
        raise ValueError(f"cap={cap!r}: lambda is never below 1, so a cap is at least 1 (math.inf for none)")
    if not np.isfinite(reward.sum()) and not np.isfinite(reward).all():
        group, index = np.argwhere(~np.isfinite(reward))[0]
        raise ValueError(f"reward {reward[group, index]!r} of group {group}, index {index} is not finite")
    passed = reward >= pass_threshold
    outside = passed & ~((factor > 0.0) & (factor <= 1.0))
    if outside.any():
        group, index = np.argwhere(outside)[0]
        raise ValueError(f"quality factor {factor[group, index]!r} of group {group}, index {index} is not in (0, 1]")
    return redistribute_masked(reward, factor, passed, cap)[0]


def redistribute_masked(
    reward: NDArray[np.float64], factor: NDArray[np.float64], passed: NDArray[np.bool_], cap: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A' (groups, size) and the uncapped lambda (groups,), from finite rewards and a mask of the passes."""
    import numpy as np

    groups, size = reward.shape
    if not size or not groups:
        return reward.copy(), np.ones(groups)
    low, high = float(reward.min()), float(reward.max())
    largest = max(high, -low)
    rewards_t = np.ascontiguousarray(reward.T)  # groups along the fast axis: sums over a group are then adds
    if largest > _LARGE:
        return _one_by_one(reward, factor, passed, cap)
    advantage: NDArray[Any] = rewards_t - rewards_t.sum(axis=0) / size
    rising = np.where(np.ascontiguousarray(passed.T), advantage, 0.0)
    np.maximum(rising, 0.0, out=rising)
    mass = rising.sum(axis=0)
    shared = np.where(rising > 0.0, factor.T, 0.0)
    shared *= rising
    held = shared.sum(axis=0)
    live = mass > 0.0
    if bool((held[live] < 1e-290).any()):
        return _one_by_one(reward, factor, passed, cap)
    moved = np.divide(mass, held, out=np.ones(groups), where=live)
    shared *= np.minimum(moved, cap)
    shared -= rising
    shared *= live
    advantage += shared
    capped = moved > cap
    if bool(capped.any()):
        advantage -= np.where(capped, advantage.sum(axis=0) / size, 0.0)
    return np.ascontiguousarray(advantage.T), moved


def _one_by_one(
    reward: NDArray[np.float64], factor: NDArray[np.float64], passed: NDArray[np.bool_], cap: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Rewards near the ends of the float range: exactness before speed."""
    import numpy as np

    advantages, moved = np.empty_like(reward), np.empty(len(reward))
    for row in range(len(reward)):
        passes = [(int(i), float(factor[row, i])) for i in np.flatnonzero(passed[row])]
        advantages[row], moved[row] = redistribute_passes(reward[row].tolist(), passes, cap)
    return advantages, moved

"""Equation 3: the positive advantage moves from worse to better passes, and its total is conserved.

With A = R - mean(R) and P the passes with a positive advantage, lambda = sum_P A / sum_P f A and
A' = min(lambda, cap) f A for a pass, A otherwise; where the cap binds, the mean is subtracted again, so that the
group's sum stays zero. For binary rewards P is the passes, as in the report [section 4.3.2, equation 3]. For
other rewards a pass below the group's mean is left as it is: a smaller factor would make its penalty smaller.

`redistribute` is one group in plain Python, `redistribute_batch` many groups in numpy; both agree to 1e-12.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from whileai.core import knobs
from whileai.core.values import as_float, shown
from whileai.simulations.defaults import GROUPWISE_CAP, GROUPWISE_PASS_THRESHOLD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

_SMALL, _LARGE = 1e-100, 1e100
"""Between these magnitudes of rewards no sum and no product below can leave the range of floats."""
_STEEP = 1e150
"""Up to this lambda the same holds for factors."""
_ROUNDING = 2.220446049250313e-16
"""Of one float operation. An advantage below `size` of them is a reward that equals the mean."""
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
        One advantage per rollout, finite, with mean zero (sums beyond the float range end at its edge).

    Raises:
        ValueError: a reward is no finite number, a pass has no factor or one outside (0, 1], factors that are not
            this group's, a cap below 1.
    """
    cap, pass_threshold = _knobs(cap, pass_threshold)
    rewards = [*rewards]
    try:
        values = list(map(float, rewards))
        finite = math.isfinite(sum(rewards))  # unlike float(), a sum refuses text
    except (TypeError, ValueError, OverflowError):
        finite = False
    if not finite:
        for index, reward in enumerate(rewards):
            if (value := as_float(reward)) is None or not math.isfinite(value):
                raise ValueError(f"reward {shown(reward, 60)} of index {index} is no finite number")
    passes: list[tuple[int, float]] = []
    index = 0
    try:
        for index, reward in enumerate(values):
            if reward >= pass_threshold:
                factor = factors[index]
                if not 0.0 < factor <= 1.0:
                    raise ValueError(f"quality factor {shown(factor, 60)} of index {index} is not in (0, 1]")
                passes.append((index, float(factor)))
    except (KeyError, IndexError):
        raise ValueError(f"passing index {index} has no quality factor") from None
    except TypeError:
        raise ValueError(f"factors {shown(factors)}: a number in (0, 1] for index {index} is wanted") from None
    if len(factors) != len(passes) or not (isinstance(factors, dict) or len(factors) == len(values)):
        _check_places(factors, len(values))
    return redistribute_passes(values, passes, cap)[0]


def redistribute_passes(
    rewards: Sequence[float], passes: Collection[tuple[int, float]], cap: float
) -> tuple[list[float], float]:
    """A' and the uncapped lambda (1.0 where nothing moves), from finite rewards and (index, factor) of each pass."""
    size = len(rewards)
    if not size:
        return [], 1.0
    largest = max(max(rewards), -min(rewards))
    if not _SMALL < largest < _LARGE:
        return _redistribute_scaled(rewards, passes, cap, largest)
    mean = sum(rewards) / size
    advantages = [reward - mean for reward in rewards]
    level = size * _ROUNDING * largest
    mass = held = 0.0
    rising = []
    for index, factor in passes:
        advantage = advantages[index]
        if advantage > level:
            mass += advantage
            held += factor * advantage
            rising.append((index, factor))
    if not rising:
        return advantages, 1.0
    if held * _STEEP < mass:
        return _redistribute_scaled(rewards, passes, cap, largest)
    moved = mass / held
    weight = moved if moved < cap else cap
    for index, factor in rising:
        advantages[index] *= weight * factor
    if moved > cap:
        excess = sum(advantages) / size
        advantages = [advantage - excess for advantage in advantages]
    return advantages, moved


def _redistribute_scaled(
    rewards: Sequence[float], passes: Collection[tuple[int, float]], cap: float, largest: float
) -> tuple[list[float], float]:
    """The same with rewards relative to the largest and factors relative to the best: exact at any magnitude."""
    size = len(rewards)
    if largest == 0.0:
        return [0.0] * size, 1.0
    relative = [reward / largest for reward in rewards]
    mean = sum(relative) / size
    advantages = [reward - mean for reward in relative]
    rising = [(index, factor) for index, factor in passes if advantages[index] > size * _ROUNDING]
    moved = 1.0
    if rising:
        best = max(factor for _, factor in rising)
        mass = sum(advantages[index] for index, _ in rising)
        held = sum(factor / best * advantages[index] for index, factor in rising)
        moved = mass / held / best  # infinite where it is beyond the floats
        weight = min(mass / held, cap * best)
        for index, factor in rising:
            advantages[index] *= weight * (factor / best)
    if moved > cap:
        excess = sum(advantages) / size
        advantages = [advantage - excess for advantage in advantages]
    return [max(-_MAX, min(_MAX, advantage * largest)) for advantage in advantages], moved


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
        (groups, size), each row with mean zero, finite.

    Raises:
        ValueError: shapes that do not match, a reward that is not finite, a pass's factor outside (0, 1], or
            a cap below 1.
    """
    import numpy as np

    cap, pass_threshold = _knobs(cap, pass_threshold)
    reward, factor = _numbers(rewards, "rewards"), _numbers(factors, "factors")
    if reward.ndim != 2 or factor.shape != reward.shape:
        raise ValueError(f"rewards {reward.shape} and factors {factor.shape}: both are (groups, size)")
    if not np.isfinite(reward).all():
        group, index = np.argwhere(~np.isfinite(reward))[0]
        raise ValueError(f"reward {float(reward[group, index])} of group {group}, index {index} is not finite")
    passed = reward >= pass_threshold
    outside = passed & ~((factor > 0.0) & (factor <= 1.0))
    if outside.any():
        group, index = np.argwhere(outside)[0]
        raise ValueError(
            f"quality factor {float(factor[group, index])} of group {group}, index {index} is not in (0, 1]"
        )
    return redistribute_masked(reward, factor, passed, cap)[0]


def redistribute_masked(
    reward: NDArray[np.float64], factor: NDArray[np.float64], passed: NDArray[np.bool_], cap: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A' (groups, size) and the uncapped lambda (groups,), from finite rewards and a mask of the passes."""
    import numpy as np

    groups, size = reward.shape
    if not size or not groups:
        return reward.copy(), np.ones(groups)
    rewards_t = np.ascontiguousarray(reward.T)  # groups along the fast axis: sums over a group are then adds
    largest = np.maximum(rewards_t.max(axis=0), -rewards_t.min(axis=0))
    with np.errstate(all="ignore"):  # groups at the ends of the float range are computed one by one below
        advantage = rewards_t - rewards_t.sum(axis=0) / size
        moves = advantage > largest * (size * _ROUNDING)
        moves &= passed.T
        rising = np.where(moves, advantage, 0.0)
        mass = rising.sum(axis=0)
        rising *= np.where(moves, factor.T, 0.0)
        held = rising.sum(axis=0)
        moved = np.divide(mass, held, out=np.ones(groups), where=held > 0.0)
        rising *= np.minimum(moved, cap)
        np.copyto(advantage, rising, where=moves)
        capped = moved > cap
        if capped.any():
            advantage -= np.where(capped, advantage.sum(axis=0) / size, 0.0)
        extreme = held * _STEEP < mass
        extreme |= (largest >= _LARGE) | ((largest <= _SMALL) & (largest > 0.0))
    result = np.ascontiguousarray(advantage.T)
    for row in np.flatnonzero(extreme).tolist():
        passes = [(index, float(factor[row, index])) for index in np.flatnonzero(passed[row]).tolist()]
        result[row], moved[row] = redistribute_passes(reward[row].tolist(), passes, cap)
    return result, moved


def _knobs(cap: float, pass_threshold: float) -> tuple[float, float]:
    if type(cap) is float and cap >= 1.0 and type(pass_threshold) is float and pass_threshold == pass_threshold:
        return cap, pass_threshold
    knobs.number("cap", cap, low=1.0, infinite=True)
    knobs.number("pass_threshold", pass_threshold)
    return float(cap), float(pass_threshold)  # in numpy's smaller floats everything would be computed in those


def _check_places(factors: Mapping[int, float] | Sequence[float], size: int) -> None:
    """Factors of failures may be given and are not read; those of rollouts that are not there are a mistake."""
    if not isinstance(factors, Mapping):
        if len(factors) != size:
            raise ValueError(f"{len(factors)} quality factors for {size} rewards: one per rollout, or by index")
        return
    for index in factors:
        if index not in range(size):
            raise ValueError(f"factors name index {shown(index, 60)}: the group has 0 to {size - 1}")


def _numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    import numpy as np

    array = np.asarray(values)
    if array.dtype.kind not in "biufO":
        raise ValueError(f"{name} are {array.dtype}: numbers are wanted")
    return array.astype(np.float64, copy=False)

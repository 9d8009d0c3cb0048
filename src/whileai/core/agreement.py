"""Two votes on the same passes, shown in two random orders: do they agree, and do they follow the order?

A ranking always maps to spread-out factors, so spread alone says yes to a random ranker and to one that
returns the shown order. Votes from two orders tell: noise does not repeat, and a preference for a place moves
when the place does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from whileai.core.statistics import Interval, bootstrap, mean_interval, sign_flip


class Votes(NamedTuple):
    """Two votes on one group: scores of the same items (more is better) and each item's slot, 0 shown first."""

    first: Sequence[float]
    second: Sequence[float]
    first_slots: Sequence[int]
    second_slots: Sequence[int]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well votes from two orders agree.

    Attributes:
        tau: Kendall's tau-b, mean over the groups that say anything; None if no group does.
        p: one-sided sign-flip probability that votes which know nothing of each other agree so well.
        groups: groups that were compared.
        tied: groups left out because both votes tie all their passes.
    """

    tau: Interval | None
    p: float
    groups: int
    tied: int


@dataclass(frozen=True, slots=True)
class Shift:
    """How far ranks follow the place in which the passes were shown.

    `effect` is the share of the way they go with it: 1 is a grader that prefers the first (or the middle) and
    nothing else, -1 one that prefers the last (or both ends), 0 one that does not look at places. `p` is its
    two-sided sign-flip probability over groups.
    """

    effect: Interval
    p: float


def agreement(votes: Sequence[Votes]) -> Agreement:
    """Compare the two votes of every group.

    In the sign-flip test a group counts by the number of its passes less one: the taus of large groups are the
    less noisy ones. Under votes that are independent of each other each tau is as likely as its negative, so
    the test is exact and noise passes it at its level, whatever the sizes of the groups.
    """
    taus = [(tau, len(vote.first) - 1) for vote in votes if (tau := kendall_tau_b(vote.first, vote.second)) is not None]
    return Agreement(
        mean_interval([tau for tau, _ in taus]) if taus else None,
        sign_flip([tau * weight for tau, weight in taus], two_sided=False),
        len(taus),
        len(votes) - len(taus),
    )


def position_shifts(votes: Sequence[Votes]) -> tuple[Shift, Shift]:
    """How far ranks follow the slot, and how far they follow the distance from the middle.

    Each item's change of rank between the two orders is compared with its change of place, both as shares of
    the group's length: what the item is worth is the same in both orders and cancels. For a grader that does
    not look at places, exchanging the two orders changes nothing but the sign of a group's sum of products, so
    the sign-flip test over groups is exact.
    """
    by_slot, by_middle = [], []
    for vote in votes:
        size = len(vote.first)
        if size < 2:
            continue
        centre = (size - 1) / 2
        places = list(zip(vote.first_slots, vote.second_slots, strict=True))
        slots = [(b - a) / (size - 1) for a, b in places]
        middle = [(abs(b - centre) - abs(a - centre)) / (size - 1) for a, b in places]
        ranks = [(b - a) / (size - 1) for a, b in zip(mid_ranks(vote.first), mid_ranks(vote.second), strict=True)]
        moves = _dot(slots, slots)
        by_slot.append((_dot(ranks, slots), moves, moves))
        by_middle.append((_dot(ranks, middle), _dot(middle, middle), moves))
    return _shift(by_slot), _shift(by_middle)


def _shift(sums: Sequence[tuple[float, float, float]]) -> Shift:
    """From products of moves in rank and in place, squared moves in place, and squared moves in slot.

    Ranks that follow the middle wholly move as far as slots do, though distances from it move less: scaled by
    both, an effect of 1 means the same for either.
    """
    if not sums:
        return Shift(Interval(0.0, 0.0, 0.0), 1.0)
    effect = bootstrap(sums, lambda s: s[..., 0] / ((s[..., 1] * s[..., 2]) ** 0.5 + 1e-300))
    return Shift(effect, sign_flip([product for product, _, _ in sums], two_sided=True))


def kendall_tau_b(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Kendall's tau-b (1945) of two score vectors over the same items, in [-1, 1].

    Where it is not defined the check's rule decides: None if both votes tie all items (nothing to compare), 0
    if only one does (it saw no difference where the other saw some).
    """
    if len(first) != len(second):
        raise ValueError(f"two votes on the same items are wanted, not on {len(first)} and {len(second)}")
    agree = untied_first = untied_second = 0
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        for j in range(i):
            sign_a, sign_b = (a > first[j]) - (a < first[j]), (b > second[j]) - (b < second[j])
            agree += sign_a * sign_b
            untied_first += sign_a * sign_a
            untied_second += sign_b * sign_b
    if not untied_first and not untied_second:
        return None
    return _over(agree, math.sqrt(untied_first * untied_second))


def spearman_brown(tau: float, votes: int) -> float:
    """Kendall's tau between means of `votes` votes, from the tau between single ones.

    Spearman and Brown (1910) for correlations, k r / (1 + (k - 1) r), with r = sin(pi tau / 2), which a tau
    stands for under normal scores. No number of votes mends a tau of 0 or less: it is returned as it is.
    """
    if tau <= 0:
        return tau
    r = math.sin(math.pi * tau / 2)
    return 2 / math.pi * math.asin(min(1.0, votes * r / (1 + (votes - 1) * r)))


def mid_ranks(scores: Sequence[float]) -> list[float]:
    """Rank of each score, 0 for the highest; equal scores share the mean of their places."""
    order = sorted(range(len(scores)), key=lambda item: -scores[item])
    ranks = [0.0] * len(scores)
    start = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or scores[order[end]] != scores[order[start]]:
            for place in range(start, end):
                ranks[order[place]] = (start + end - 1) / 2
            start = end
    return ranks


def _dot(first: Sequence[float], second: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(first, second, strict=True))


def _over(value: float, scale: float) -> float:
    return value / scale if scale else 0.0

"""Candidate labels, the orders in which candidates are shown, and votes of several orders made into one.

Labels follow the shown order: the first candidate is A whichever rollout it is, so that a reply schema depends on
the number of candidates alone. Which rollout stands where is drawn from a seed, without a random generator: items
are sorted by a hash, the same on every machine and version.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Index = TypeVar("Index", bound=Hashable)


def labels(count: int) -> tuple[str, ...]:
    """The labels of `count` candidates: A to Z, then AA, AB, and so on."""
    return tuple(map(_label, range(count)))


def presentation_orders(count: int, orders: int, seed: str) -> list[tuple[int, ...]]:
    """Up to `orders` different orders of `count` candidates; each is the candidates in shown order.

    One: random. Two: two different random ones (a reversed second order would let a judge pass who prefers both
    ends). From three on: rows of a Williams square over randomly numbered candidates, in which every candidate
    stands in every place, and after every other, equally often once all rows are used. There are never more orders
    than candidates can have: one of a single candidate, two of two.
    """
    wanted = min(orders, math.factorial(min(count, 8)))
    found: list[tuple[int, ...]] = []
    draw = 0
    while len(found) < wanted:
        numbering = _shuffled(count, f"{seed}:{draw}")
        for row in _williams_rows(count) if wanted > 2 else [tuple(range(count))]:
            order = tuple(numbering[place] for place in row)
            if order not in found and len(found) < wanted:
                found.append(order)
        draw += 1
    return found


def combine_rankings(votes: Sequence[Sequence[Sequence[Index]]]) -> list[list[Index]]:
    """One ranking out of several over the same indices: by mean rank, ties taking mid-ranks; equal means tie.

    Two votes that say the opposite of each other therefore tie.
    """
    doubled: dict[Index, int] = {}
    for ranking in votes:
        above = 0
        for tie in ranking:
            for index in tie:  # twice the mid-rank is whole, so that equal means are exactly equal
                doubled[index] = doubled.get(index, 0) + 2 * above + len(tie) + 1
            above += len(tie)
    ties: dict[int, list[Index]] = {}
    for index, total in doubled.items():
        ties.setdefault(total, []).append(index)
    return [sorted(ties[total]) for total in sorted(ties)]  # type: ignore[type-var]


def combine_factors(votes: Sequence[Mapping[Index, float]]) -> dict[Index, float]:
    """The mean factor of each index over votes on the same indices."""
    return {index: math.fsum(vote[index] for vote in votes) / len(votes) for index in votes[0]}


def combine_hacks(votes: Sequence[Sequence[Index]]) -> list[Index]:
    """The indices that more than half of the votes call hacks."""
    named = [index for vote in votes for index in set(vote)]
    return sorted({index for index in named if 2 * named.count(index) > len(votes)})  # type: ignore[type-var]


def _label(number: int) -> str:
    text = ""
    number += 1
    while number:
        number, letter = divmod(number - 1, 26)
        text = chr(ord("A") + letter) + text
    return text


def _shuffled(count: int, seed: str) -> list[int]:
    return sorted(range(count), key=lambda item: hashlib.sha256(f"{seed}:{item}".encode()).digest())


def _williams_rows(count: int) -> list[tuple[int, ...]]:
    """The rows of a Williams square: `count` of them, or twice as many where `count` is odd.

    Williams, Australian Journal of Scientific Research A 2 (1949): 0, n-1, 1, n-2, ... and its cyclic shifts; with
    an odd number the mirror image is needed as well.
    """
    first = [place // 2 if place % 2 == 0 else count - 1 - place // 2 for place in range(count)]
    rows = [tuple((item + shift) % count for item in first) for shift in range(count)]
    return rows + [row[::-1] for row in rows] if count % 2 else rows

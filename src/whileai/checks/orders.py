"""Groups in two random orders, so that the check sees whether a grader looks at places.

The whole group is shuffled and renumbered, failures too: a position a grader could follow tells it nothing.
The orders come from the group's own text: checking the same rows again asks the same requests again, which a
cache can answer, while the order of other groups does not matter.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from whileai.core.group import Group
from whileai.core.rollout import copy_json

Order = tuple[int, ...]
"""The index of the rollout that is shown first, second, and so on."""


def two_orders(group: Group) -> tuple[Order, Order]:
    """Two random orders of a group in which its passes read differently (two passes: swapped).

    Had both orders shown the passes alike, an answer from a cache, or a grader that returns the shown order,
    would agree with itself. Passes that all have one text cannot read differently.
    """
    texts = [rollout["completion"] for rollout in group]
    rng = random.Random("\x1f".join(texts).encode("utf-8", "surrogatepass"))
    different = len({texts[rollout["index"]] for rollout in group if rollout["passed"]}) > 1

    def read(order: Sequence[int]) -> list[str]:
        return [texts[index] for index in order if group[index]["passed"]]

    while True:  # at least half of the draws differ: two texts that differ can stand either way round
        first, second = (tuple(rng.sample(range(len(group)), len(group))) for _ in range(2))
        if not different or read(first) != read(second):
            return first, second


def in_order(group: Group, order: Order) -> Group:
    """Copies of the rollouts in `order`, renumbered as they are shown. A grader may change them as it likes."""
    return [{**copy_json(group[index]), "index": slot} for slot, index in enumerate(order)]

"""Groups in two random orders, so that the check sees whether a grader looks at places.

The whole group is shuffled and renumbered, failures too: a position a grader could follow tells it nothing.
The orders come from what the group holds: checking the same rows again asks the same requests again, which a
cache can answer, whatever other groups stand beside them, and no two groups that differ share their luck.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence

from whileai.core.group import GROUP_KEYS, Group
from whileai.core.rollout import copy_json

Order = tuple[int, ...]
"""The index of the rollout that is shown first, second, and so on."""


def content_digest(group: Group) -> str:
    """Digest of all that a grader is shown of a group, whatever its name and the order of its rows."""
    names = {"index", *GROUP_KEYS} - {"prompt"}
    shown = sorted(
        json.dumps({key: value for key, value in rollout.items() if key not in names}, sort_keys=True, default=repr)
        for rollout in group
    )
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()


def two_orders(group: Group) -> tuple[Order, Order]:
    """Two random orders of a group in which its passes read differently (two passes: swapped).

    Had both orders shown the passes alike, an answer from a cache, or a grader that returns the shown order,
    would agree with itself. Passes that all have one text cannot read differently.
    """
    rng = random.Random(content_digest(group))
    texts = [rollout["completion"] for rollout in group]
    different = len({rollout["completion"] for rollout in group if rollout["passed"]}) > 1

    def read(order: Sequence[int]) -> list[str]:
        return [texts[index] for index in order if group[index]["passed"]]

    while True:  # at least half of the draws differ: two texts that differ can stand either way round
        first, second = (tuple(rng.sample(range(len(group)), len(group))) for _ in range(2))
        if not different or read(first) != read(second):
            return first, second


def in_order(group: Group, order: Order) -> Group:
    """Copies of the rollouts in `order`, renumbered as they are shown. A grader may change them as it likes."""
    return [{**copy_json(group[index]), "index": slot} for slot, index in enumerate(order)]

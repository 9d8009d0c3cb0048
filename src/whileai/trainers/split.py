"""Groups that are split across processes.

A trainer counts groups over all processes' rows in rank order, so a process whose rows are no multiple of the
group size begins or ends inside a group. Each group is then shaped once, on the rank that has its first row: the
ranks that have the rest hand their rows over and get the results back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from whileai.errors import BatchError
from whileai.trainers.collectives import Processes

R = TypeVar("R")

RESULT_GRACE_S = 5.0
"""What a rank may take, beyond its deadline, to hand over the results of a group that it judged."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a batch on their way to a grader: all sequences have one value per row.

    `differ`: prompts may differ inside a group (environments).
    """

    prompts: Sequence[Any]
    completions: Sequence[Any]
    rewards: Sequence[float | None]
    columns: Mapping[str, Sequence[Any]]
    differ: bool = False

    def __len__(self) -> int:
        return len(self.completions)

    def cut(self, start: int, stop: int) -> Rows:
        """The rows from `start` to `stop`, which is not included."""
        columns = {name: values[start:stop] for name, values in self.columns.items()}
        return Rows(
            self.prompts[start:stop], self.completions[start:stop], self.rewards[start:stop], columns, self.differ
        )

    def joined(self, others: Sequence[Rows]) -> Rows:
        """These rows and those of `others`; a column that one of them lacks is left out."""
        parts = [self, *others]
        names = [name for name in self.columns if all(name in part.columns for part in parts)]
        return Rows(
            [prompt for part in parts for prompt in part.prompts],
            [completion for part in parts for completion in part.completions],
            [reward for part in parts for reward in part.rewards],
            {name: [value for part in parts for value in part.columns[name]] for name in names},
            any(part.differ for part in parts),
        )


def shape_split(
    peers: Processes,
    count: int,
    size: int,
    load: Callable[[], Rows],
    shape: Callable[[Rows], Sequence[R]],
    *,
    remark: Callable[[], str],
    deadline_s: float | None,
) -> list[R]:
    """Shape a batch of which every rank has `count` rows, in groups of `size`; returns one result per own row.

    Args:
        peers: the processes.
        load: makes this rank's rows.
        shape: makes one result per row from whole groups; called at most once. It ends within `deadline_s`.
        remark: asked after `shape` for what all ranks should hear of it; they find it in `peers.remarks`.
        deadline_s: seconds to wait for the slowest rank's `load`, and again for its `shape`; None for no limit.

    Raises:
        BatchError: the rows of all processes together are no whole groups.
        RankError: another rank failed or did not come. Whatever `load` or `shape` raises is raised here, after
            the other ranks were told.
    """
    begin = peers.rank * count
    lead = min(-begin % size, count)  # rows of a group that begins on an earlier rank
    owner = begin // size * size // count
    givers = _givers(peers, count, size) if lead < count else []
    what = f"{count} completions in groups of {size}"
    with peers.telling():
        if count * peers.world % size:
            raise BatchError(
                f"{peers.world} processes with {count} completions each are no whole groups of num_generations={size}"
            )
        rows = load()
        handed = {owner: rows.cut(0, lead)} if lead else {}
        received = peers.exchange(f"rows of {what}", handed, senders=givers, within_s=deadline_s)
        tails = [received[rank] for rank in givers]
        results = list(shape(rows.cut(lead, count).joined(tails))) if lead < count else []
        back, at = {}, count - lead
        for rank, tail in zip(givers, tails, strict=True):
            back[rank] = results[at : at + len(tail)]
            at += len(tail)
        within = None if deadline_s is None else deadline_s + RESULT_GRACE_S
        returned = peers.exchange(
            f"results of {what}", back, senders=[owner] if lead else [], within_s=within, remark=remark()
        )
    return [*(returned[owner] if lead else ()), *results[: count - lead]]


def _givers(peers: Processes, count: int, size: int) -> list[int]:
    """The later ranks that have rows of the last group that begins on this one."""
    end = (peers.rank + 1) * count
    return list(range(peers.rank + 1, -(-(end + -end % size) // count)))

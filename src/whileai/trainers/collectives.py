"""What the processes of one run tell each other: the one place that waits for another process.

Everything goes through the key-value store of the default process group, not through collectives of a backend:
a wait then has a deadline of its own, whoever gives up can name the ranks that did not come, a rank that comes
late learns that the others are gone, and only the two ranks that share a group exchange its rows.

Every rank makes the same exchanges in the same order; the n-th of one rank meets the n-th of the others.
"""

from __future__ import annotations

import contextvars
import logging
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple, TypeVar

from whileai.errors import RankError

logger = logging.getLogger("whileai")

R = TypeVar("R")

FAREWELL_S = 5.0
"""How long a failing rank waits for the others to hear of it: its end may take the store away with it."""
STORE_GRACE_S = 2.0
"""How long, after a deadline, the store itself may take to answer."""
SAY_AFTER_S = 10.0
"""A wait of this long is logged, with the ranks that are missing."""

_PIECE = 4_000_000
"""A store refuses values of more than 8 MiB (torch 2.13)."""


def processes() -> Processes | None:
    """The processes of this run, from `torch.distributed`; None where there is only this one."""
    global _current, _made
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    world = distributed.group.WORLD
    if distributed.get_world_size() == 1:
        return None
    if _current is None or _current.group is not world:
        _made += 1
        rank, count = distributed.get_rank(), distributed.get_world_size()
        _current = Processes(world, rank, count, lambda: _store(distributed), f"whileai/{_made}")
    return _current


_current: Processes | None = None
_made = 0
"""Process groups seen so far: one that is made again finds the old one's keys in its store."""


class _Note(NamedTuple):
    """What a rank says when it comes to an exchange: what it takes it for, a remark, and its failure if it failed."""

    what: str = ""
    remark: str = ""
    failure: str = ""


class Processes:
    """This process and the others.

    Args:
        group: the process group that they are of.
        rank, world: the number of this process, and how many there are.
        connect: makes the store; called by the first exchange, as connecting can hang too.
        prefix: begins all keys; the same on every rank.
    """

    def __init__(self, group: Any, rank: int, world: int, connect: Callable[[], Any], prefix: str) -> None:
        self.group, self.rank, self.world = group, rank, world
        self._connect = connect
        self._store: Any = None
        self._prefix, self._round = prefix, 0
        self._mine: list[str] = []
        self._blocks = 0
        self.remarks: list[str] = []

    def exchange(
        self,
        what: str,
        parcels: Mapping[int, Any],
        *,
        senders: Sequence[int],
        within_s: float | None,
        remark: str = "",
    ) -> dict[int, Any]:
        """Meet all ranks; returns what each of `senders` handed this rank.

        Args:
            what: says what this exchange is about; it must be the same on every rank.
            parcels: what this rank hands to others, by rank. It is pickled.
            senders: the ranks that hand this one something.
            within_s: seconds to wait for the last rank; None for no limit.
            remark: what all ranks should hear; afterwards `remarks` has those of all.

        Raises:
            RankError: a rank failed, disagrees about `what`, or did not come in time. Every rank raises it.
        """
        packed = {rank: pickle.dumps(parcel) for rank, parcel in parcels.items()}  # what fails here, `report` can tell
        start = self._next()

        def meet() -> dict[int, Any]:
            keys = []
            for rank, parcel in packed.items():
                keys += self._write(f"{start}/{self.rank}/to/{rank}", parcel)
            keys += self._write(f"{start}/{self.rank}", pickle.dumps(_Note(what, remark)))
            notes = self._notes(start, what, within_s)
            self._refuse(start, what, notes)
            self.remarks = [note.remark for note in notes]
            received = {rank: self._read(f"{start}/{rank}/to/{self.rank}") for rank in senders}
            for key in self._mine:  # everyone has come here, so nobody reads the round before any more
                self._store.delete_key(key)
            self._mine = keys
            return received

        return self._bounded(meet, within_s)

    def gather(self, what: str, value: Any, *, within_s: float | None) -> list[Any]:
        """The value of every rank, in rank order; see `exchange`."""
        others = [rank for rank in range(self.world) if rank != self.rank]
        received = self.exchange(what, dict.fromkeys(others, value), senders=others, within_s=within_s)
        return [value if rank == self.rank else received[rank] for rank in range(self.world)]

    @contextmanager
    def telling(self) -> Iterator[None]:
        """What this block raises is told to the other ranks first, so that none of them waits for this one.

        Of blocks inside each other the outermost tells: the others wait in one exchange and hear of it once.
        """
        self._blocks += 1
        try:
            yield
        except RankError:
            raise
        except BaseException as error:
            if self._blocks == 1:
                self.report(error)
            raise
        finally:
            self._blocks -= 1

    def report(self, error: BaseException) -> None:
        """Tell the others that this rank fails, in place of its next exchange, and wait until they know."""
        start = self._next()
        failure = f"{type(error).__name__}: {error}"[:2000]

        def tell() -> None:
            self._write(f"{start}/{self.rank}", pickle.dumps(_Note(failure=failure)))
            self._store.set(f"{start}/{self.rank}/told", b"")  # it has no need to hear of the others
            others = [f"{start}/{rank}/told" for rank in range(self.world) if rank != self.rank]
            self._poll(lambda: self._store.check(others), FAREWELL_S)

        try:
            self._bounded(tell, FAREWELL_S)
        except RankError as unheard:
            logger.warning("this rank fails, and could not tell the others: %s", unheard)

    def _next(self) -> str:
        self._round += 1
        return f"{self._prefix}/{self._round}"

    def _notes(self, start: str, what: str, within_s: float | None) -> list[_Note]:
        store, gave_up = self._store, f"{self._prefix}/gave_up"
        keys = [f"{start}/{rank}" for rank in range(self.world)]

        def absent() -> list[int]:
            return [rank for rank, key in enumerate(keys) if not store.check([key])]

        def ready() -> bool:
            return bool(store.check(keys) or store.check([gave_up]))

        left = within_s
        if left is None or left > SAY_AFTER_S:
            left = None if left is None else left - SAY_AFTER_S
            if not self._poll(ready, SAY_AFTER_S):
                logger.warning("rank %d waits for the %s from rank %s", self.rank, what, _listed(absent()))
        self._poll(ready, left)
        missing = absent()
        if not missing:
            return [self._read(key) for key in keys]
        if store.check([gave_up]):
            raise RankError(f"the other processes have stopped: {self._read(gave_up)}")
        reason = (
            f"rank {_listed(missing)} did not come with the {what} within {within_s:g} s: it was killed, it hangs, or "
            "it takes that much longer than the others (deadline_s is how long a rank waits for another)"
        )
        self._write(gave_up, pickle.dumps(f"rank {self.rank} gave up, because {reason}"))
        raise RankError(reason, tuple(missing))

    def _refuse(self, start: str, what: str, notes: Sequence[_Note]) -> None:
        failed = {rank: note.failure for rank, note in enumerate(notes) if note.failure}
        if failed:
            self._store.set(f"{start}/{self.rank}/told", b"")
            said = "; ".join(f"rank {rank} failed with {failure}" for rank, failure in failed.items())
            raise RankError(f"{said}. This rank was in order; the traceback stands in the other's log", tuple(failed))
        if any(note.what != what for note in notes):
            said = "; ".join(f"rank {rank}: {note.what}" for rank, note in enumerate(notes))
            raise RankError(f"the processes do not agree on the batch they are in ({said})")

    def _write(self, key: str, data: bytes) -> list[str]:
        pieces = [data[start : start + _PIECE] for start in range(0, len(data), _PIECE)]
        keys = [f"{key}/{number}" for number in range(1, len(pieces))]
        for name, piece in zip(keys, pieces[1:], strict=True):
            self._store.set(name, piece)
        self._store.set(key, b"%d " % len(pieces) + pieces[0])  # last: it says that all of it is there
        return [key, *keys]

    def _read(self, key: str) -> Any:
        count, first = self._store.get(key).split(b" ", 1)
        rest = [self._store.get(f"{key}/{number}") for number in range(1, int(count))]
        return pickle.loads(b"".join([first, *rest]))

    def _poll(self, ready: Callable[[], bool], within_s: float | None) -> bool:
        end = None if within_s is None else time.monotonic() + within_s
        pause = 0.0002
        while not ready():
            if end is not None and time.monotonic() >= end:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
        return True

    def _bounded(self, work: Callable[[], R], within_s: float | None) -> R:
        """Run `work` beside the caller, who stays interruptible: a store on a stopped machine never answers."""

        def connected() -> R:
            if self._store is None:
                self._store = self._connect()
            return work()

        result = beside(connected, "whileai-exchange")
        begin = time.monotonic()
        try:
            return result.result(None if within_s is None else within_s + STORE_GRACE_S)
        except TimeoutError:
            waited = time.monotonic() - begin
            raise RankError(
                f"the store of the process group, which lives with rank 0 or the launcher, did not answer for "
                f"{waited:.0f} s: that process has ended, or its machine is stopped or cannot be reached"
            ) from None
        except RankError:
            raise
        except RuntimeError as error:  # what torch raises for its stores
            raise RankError(
                "the store of the process group is gone, and with it the process that held it, rank 0 or the "
                f"launcher: {error}"
            ) from error


def telling(peers: Processes | None) -> AbstractContextManager[None]:
    """`Processes.telling`, where there is anybody to tell."""
    return nullcontext() if peers is None else peers.telling()


def beside(work: Callable[[], R], name: str) -> Future[R]:
    """Run `work` in a thread of that name, which does not keep the process alive."""
    result: Future[R] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result.set_result(context.run(work))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
            result.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return result


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks))


def _store(distributed: Any) -> Any:
    world = distributed.group.WORLD
    owned = getattr(world, "get_group_store", None)  # absent before torch 2.7 or so
    store = owned() if owned is not None else distributed.distributed_c10d._get_default_store()
    return store.clone() if hasattr(store, "clone") else store  # a connection that nobody else blocks

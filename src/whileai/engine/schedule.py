"""Run many grader calls at once, whether each takes a microsecond or a minute.

One worker thread drains the queue while the caller watches. While the workers use little of a core, they are
waiting for something, so more of them are added, up to `concurrency`: graders that sleep or call a model get
full concurrency after some milliseconds, and quick ones pay for no hand-over. A call that hangs costs one
`timeout_s`: its thread is left behind, and the number of such threads is bounded. Ctrl-C reaches the caller,
who always waits interruptibly.

Not covered: a call that never gives up the interpreter lock (a native extension or a regular expression gone
wild) can not be timed out from inside the process.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, Generic, TypeVar

from whileai.engine.loop import submit
from whileai.errors import DeadlineExceeded, GraderFailure, GraderTimeout

T = TypeVar("T")
R = TypeVar("R")

MAX_HUNG_THREADS = 256
"""Threads left behind in calls that never returned; beyond this, calls fail at once instead of adding one."""

_TICK_S = 0.001
_IDLE_TICK_S = 0.05
_WORTH_A_THREAD_S = 0.005
"""What is left at the present rate must take at least this long before a worker is added."""
_WAITING_SHARE = 0.7
"""Below this share of one core the workers are waiting more than computing (the interpreter lock allows 1.0)."""

_hung: set[threading.Thread] = set()
_hung_lock = threading.Lock()


def run_calls(
    call: Callable[[T], Any],
    items: Sequence[T],
    *,
    concurrency: int,
    timeout_s: float | None = None,
    deadline_s: float | None = None,
    read: Callable[[Any, T], R] | None = None,
    progress: Callable[[int], None] | None = None,
) -> list[R | BaseException]:
    """`read(call(item), item)` for every item, in the order of `items`.

    Args:
        call: sync, or returning an awaitable, which is awaited on the background loop. It runs in a copy of the
            caller's context.
        concurrency: calls in flight at most.
        timeout_s: seconds for one call; None for no limit.
        deadline_s: seconds for all of them; None for no limit.
        read: makes the result of the output and its item; its errors count as the call's. None: the output.
        progress: called in the caller's thread now and then with the number of calls that are done.

    Returns:
        For each item its result, or the exception that took its place: what the call raised, `GraderTimeout`,
        `DeadlineExceeded`. Never raises for a call.
    """
    if not items:
        return []
    return _Batch(call, items, read, concurrency, timeout_s).run(deadline_s, progress)


class _Worker:
    """One thread and what it is doing. Its fields are written by the thread and read by the watcher."""

    __slots__ = ("abandoned", "clock", "future", "item", "started", "thread")

    def __init__(self) -> None:
        self.abandoned = False
        self.item = -1
        self.started = 0.0
        self.future: Future[Any] | None = None
        self.clock: int | None = None
        self.thread: threading.Thread | None = None


class _Batch(Generic[T, R]):
    def __init__(
        self,
        call: Callable[[T], Any],
        items: Sequence[T],
        read: Callable[[Any, T], R] | None,
        concurrency: int,
        timeout_s: float | None,
    ) -> None:
        self.call, self.items, self.read = call, items, read
        self.concurrency, self.timeout_s = concurrency, timeout_s
        self.context = contextvars.copy_context()
        self.pending = deque(range(len(items)))
        self.outcomes: dict[int, Any] = {}  # the first writer of a slot wins (setdefault is atomic)
        self.done = threading.Event()
        self.workers: list[_Worker] = []

    def run(self, deadline_s: float | None, progress: Callable[[int], None] | None) -> list[R | BaseException]:
        begin = time.monotonic()
        end = None if deadline_s is None else begin + deadline_s
        try:
            self._add_worker()
            self._fail_if_no_worker()
            self._watch(end, progress)
            if len(self.outcomes) < len(self.items):
                late = DeadlineExceeded("deadline", f"the batch's deadline of {deadline_s:g} s was over")
                self._fail_rest(late)
        finally:
            self.pending.clear()
            for worker in self.workers:
                if worker.item >= 0:
                    self._abandon(worker)
        if progress:
            progress(len(self.items))
        return [self.outcomes[number] for number in range(len(self.items))]

    def _watch(self, end: float | None, progress: Callable[[int], None] | None) -> None:
        """Until everything is done or the time is over: add workers, and leave hung ones behind."""
        tick, seen_wall, seen_cpu, seen_done = _TICK_S, time.monotonic(), 0.0, 0
        while not self.done.wait(tick):
            now = time.monotonic()
            if progress:
                progress(len(self.outcomes))
            if end is not None and now >= end:
                return
            if self.timeout_s is not None:
                self._replace_hung(now, self.timeout_s)
            growing = bool(self.pending) and len(self.workers) < self.concurrency
            if growing:
                cpu, done = sum(map(_cpu_seconds, self.workers)), len(self.outcomes)
                wall, finished = now - seen_wall, done - seen_done
                soon = finished and len(self.pending) * wall / finished < _WORTH_A_THREAD_S
                if not soon and cpu - seen_cpu < _WAITING_SHARE * wall:
                    for _ in range(min(len(self.workers), self.concurrency - len(self.workers), len(self.pending))):
                        self._add_worker()
                seen_wall, seen_cpu, seen_done = time.monotonic(), cpu, done
            tick = _TICK_S if growing else _IDLE_TICK_S
            nearest = [end] if end is not None else []
            if self.timeout_s is not None:
                nearest += [w.started + self.timeout_s for w in self.workers if w.item >= 0]
            if nearest:
                tick = max(_TICK_S, min(tick, min(nearest) - now))

    def _replace_hung(self, now: float, timeout_s: float) -> None:
        for worker in self.workers:
            number = worker.item
            if number >= 0 and now - worker.started >= timeout_s and worker.item == number:
                self._abandon(worker)
                self._settle(number, GraderTimeout("timeout", f"no answer within timeout_s={timeout_s:g}"))
        gone = sum(worker.abandoned for worker in self.workers)
        self.workers = [worker for worker in self.workers if not worker.abandoned]
        for _ in range(min(gone, len(self.pending))):
            self._add_worker()
        self._fail_if_no_worker()

    def _fail_if_no_worker(self) -> None:
        if self.pending and not self.workers:
            reason = f"{MAX_HUNG_THREADS} threads hang in grader calls that never returned; no more are started"
            self._fail_rest(GraderFailure("hung_threads", reason))

    def _fail_rest(self, failure: GraderFailure) -> None:
        self.pending.clear()
        for number in range(len(self.items)):
            if number not in self.outcomes:
                self._settle(number, failure)

    def _settle(self, number: int, outcome: Any) -> None:
        self.outcomes.setdefault(number, outcome)
        if len(self.outcomes) == len(self.items):
            self.done.set()

    def _add_worker(self) -> None:
        with _hung_lock:
            _hung.difference_update([thread for thread in _hung if not thread.is_alive()])
            if len(_hung) >= MAX_HUNG_THREADS:
                return
        worker = _Worker()
        worker.thread = threading.Thread(target=self._drain, args=(worker,), name="whileai-grader", daemon=True)
        worker.thread.start()
        self.workers.append(worker)

    def _abandon(self, worker: _Worker) -> None:
        worker.abandoned = True
        if (future := worker.future) is not None:
            future.cancel()
        elif worker.thread is not None:
            with _hung_lock:
                _hung.add(worker.thread)

    def _drain(self, worker: _Worker) -> None:
        worker.clock = _thread_clock()
        call, items, read, context = self.call, self.items, self.read, self.context
        outcomes, pending, total, now = self.outcomes, self.pending, len(self.items), time.monotonic
        while not worker.abandoned:
            try:
                number = pending.popleft()
            except IndexError:
                return
            worker.started = now()
            worker.item = number
            item = items[number]
            try:
                outcome = context.copy().run(call, item)
                if hasattr(outcome, "__await__"):
                    outcome = self._await(worker, outcome)
                if read is not None:
                    outcome = read(outcome, item)
            except BaseException as error:  # noqa: BLE001 - the one boundary around a user's callable
                outcome = error
            worker.item = -1
            outcomes.setdefault(number, outcome)
            if len(outcomes) == total:
                self.done.set()

    def _await(self, worker: _Worker, awaitable: Any) -> Any:
        worker.future = future = self.context.copy().run(submit, awaitable)
        try:
            if worker.abandoned:
                future.cancel()
            return future.result()
        except CancelledError:
            raise GraderFailure("cancelled", "the call was cancelled") from None
        finally:
            worker.future = None


def _thread_clock() -> int | None:
    """The calling thread's CPU clock, readable from other threads; None where the platform has none (macOS)."""
    clock_of = getattr(time, "pthread_getcpuclockid", None)
    return None if clock_of is None else clock_of(threading.get_ident())


def _cpu_seconds(worker: _Worker) -> float:
    if worker.clock is None:
        return 0.0
    try:
        return time.clock_gettime(worker.clock)
    except OSError:  # the thread has ended
        return 0.0

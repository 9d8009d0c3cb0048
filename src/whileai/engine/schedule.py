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
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from whileai.engine.deadline import deadline_within
from whileai.engine.loop import leave_blocked_loop, refuse_on_loop, submit
from whileai.errors import DeadlineExceeded, GraderFailure, GraderTimeout

T = TypeVar("T")
R = TypeVar("R")

MAX_HUNG_THREADS = 256
"""Threads left behind in calls that never returned; from here on, calls fail at once instead of adding one."""

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
        call: sync, or returning an awaitable, which is awaited on the background loop. Each call runs in a copy
            of the caller's context.
        concurrency: calls in flight at most; where some calls are sync and some are not, so many of each kind.
        timeout_s: seconds for one call; None for no limit.
        deadline_s: seconds for all of them; None for no limit. At 0 or less no call is made.
        read: makes the result of the output and its item; its errors count as the call's. None: the output.
        progress: called in the caller's thread now and then with the number of calls that are done.

    Returns:
        For each item its result, or the exception that took its place: what the call raised, `GraderTimeout`,
        `DeadlineExceeded`, or a `GraderFailure` where no thread is left to make it. Never raises for a call.

    Raises:
        RuntimeError: called on the background loop, which it would block.
    """
    refuse_on_loop()
    if not items:
        return []
    if deadline_s is None:
        return _Batch(call, items, read, concurrency, timeout_s).run(None, progress)
    with deadline_within(deadline_s):  # calls that know of deadlines stop by themselves
        return _Batch(call, items, read, concurrency, timeout_s).run(deadline_s, progress)


class _Worker:
    """One thread and what it is doing. All but `thread` is written by the thread and read by the watcher."""

    __slots__ = ("clock", "item", "thread")

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self.item = -1
        self.clock: int | None = None


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
        self.running: dict[int, float] = {}  # item: when it began. Whoever pops an item settles it (pop is atomic)
        self.awaited: dict[int, Future[Any]] = {}  # those of them that run on the loop, `slots` of them at most
        self.slots = threading.Semaphore(concurrency)
        self.outcomes: dict[int, Any] = {}
        self.over = False
        self.refused = ""
        self.done = threading.Event()
        self.workers: list[_Worker] = []

    def run(self, deadline_s: float | None, progress: Callable[[int], None] | None) -> list[R | BaseException]:
        begin = time.monotonic()
        end = None if deadline_s is None else begin + deadline_s
        try:
            if end is None or end > begin:
                self._add_worker()
                self._fail_if_no_worker()
                self._watch(end, progress)
            if len(self.outcomes) < len(self.items):
                awaited = self._leave_rest()
                self._fail_rest(DeadlineExceeded("deadline", "the batch's deadline_s was over before this call ended"))
                if awaited:
                    _leave_loop_if_blocked()
        finally:
            self._leave_rest()
        if progress:
            progress(len(self.items))
        results = [self.outcomes[number] for number in range(len(self.items))]
        self.outcomes.clear()
        return results

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
            # One thread starts all asynchronous calls: what it waits for is room for more, not another thread.
            growing = bool(self.pending) and not self.awaited and len(self.workers) < self.concurrency
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
                nearest += [begun + self.timeout_s for begun in list(self.running.values())]
            if nearest:
                tick = max(_TICK_S, min(tick, min(nearest) - now))

    def _replace_hung(self, now: float, timeout_s: float) -> None:
        late = [number for number, begun in list(self.running.items()) if now - begun >= timeout_s]
        late = [number for number in late if self.running.pop(number, None) is not None]
        if not late:
            return
        hung = [worker for worker in self.workers if worker.item in late]
        self.workers = [worker for worker in self.workers if worker not in hung]
        reason = f"no answer within timeout_s={timeout_s:g}"
        if self._leave(late, hung) and _leave_loop_if_blocked():
            reason += "; a call blocks the loop of all asynchronous calls: await there, or make the grader a plain def"
        for number in late:
            self._settle(number, GraderTimeout("timeout", reason))
        for _ in range(min(len(hung), len(self.pending))):
            self._add_worker()
        self._fail_if_no_worker()

    def _leave_rest(self) -> bool:
        """Stop what runs and start nothing more; says whether one of these was asynchronous."""
        self.over = True
        self.pending.clear()
        left = [number for number in list(self.running) if self.running.pop(number, None) is not None]
        awaited = self._leave(left, [worker for worker in self.workers if worker.item in left])
        self.slots.release(len(self.workers) or 1)  # a thread that waits for room finds that it is over
        return awaited

    def _leave(self, numbers: Collection[int], workers: Sequence[_Worker]) -> bool:
        """Leave calls behind: asynchronous ones are cancelled, threads are kept in mind. Were any asynchronous?"""
        futures = [future for number in numbers if (future := self.awaited.get(number)) is not None]
        for future in futures:
            future.cancel()
        leave_threads(worker.thread for worker in workers if worker.thread is not None)
        return bool(futures)

    def _fail_if_no_worker(self) -> None:
        if self.pending and not self.workers:
            self._fail_rest(GraderFailure("no_thread", self.refused))

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
        if refused := too_many_hung():
            self.refused = refused
            return
        worker = _Worker()
        worker.thread = threading.Thread(target=self._drain, args=(worker,), name="whileai-grader", daemon=True)
        self.workers.append(worker)
        try:
            worker.thread.start()
        except RuntimeError as error:  # the system gives no more threads: those that run do the rest
            self.workers.remove(worker)
            self.refused = f"no thread could be started: {error}"
            self.concurrency = len(self.workers)

    def _drain(self, worker: _Worker) -> None:
        worker.clock = _thread_clock()
        call, items, read, context = self.call, self.items, self.read, self.context
        outcomes, pending, running = self.outcomes, self.pending, self.running
        total, now = len(self.items), time.monotonic
        while True:
            try:
                number = pending.popleft()
            except IndexError:
                return
            worker.item = number
            running[number] = now()
            if self.over:
                return
            item = items[number]
            try:
                own = context.copy()
                outcome = own.run(call, item)
                if hasattr(outcome, "__await__"):
                    awaitable, outcome = outcome, None
                    if self._await(worker, number, own, awaitable):
                        continue
                    return
                if read is not None:
                    outcome = read(outcome, item)
            except BaseException as error:  # noqa: BLE001 - the one boundary around a user's callable
                outcome = error
            if running.pop(number, None) is None:  # it was given up, and this thread with it
                return
            outcomes.setdefault(number, outcome)
            outcome = None  # an error refers to this frame: without this, and the clearing in run, a cycle
            if len(outcomes) == total:
                self.done.set()

    def _await(self, worker: _Worker, number: int, context: contextvars.Context, awaitable: Any) -> bool:
        """Let the loop do the rest of a call. Its time begins when there is room for it. False: this thread, or
        the batch, was given up meanwhile."""
        if self.running.pop(number, None) is None:
            _discard(awaitable)
            return False
        worker.item = -1
        self.slots.acquire()
        self.running[number] = time.monotonic()  # before the question: who ends the batch leaves what runs by then
        if self.over:
            _discard(awaitable)
            return False
        try:
            self.awaited[number] = future = context.run(submit, awaitable)
        except BaseException:
            self.slots.release()
            raise
        if number not in self.running:
            future.cancel()
        future.add_done_callback(lambda future: self._answered(number, future))
        return True

    def _answered(self, number: int, future: Future[Any]) -> None:
        """On the loop, or where the call was cancelled."""
        self.awaited.pop(number, None)
        self.slots.release()
        if self.running.pop(number, None) is None:
            return
        outcome: Any = GraderFailure("cancelled", "the call was cancelled")
        if not future.cancelled():
            raised = future.exception()  # `result` takes an exception whose truth is false for none
            outcome = future.result() if raised is None else raised
            raised = None
        if self.read is not None and not isinstance(outcome, BaseException):
            try:
                outcome = self.read(outcome, self.items[number])
            except BaseException as error:  # noqa: BLE001 - the other boundary around a user's callable
                outcome = error
        self._settle(number, outcome)
        outcome = None  # as above: an error refers to this frame


def _discard(awaitable: Any) -> None:
    """A coroutine that never runs must be closed, or Python complains."""
    close = getattr(awaitable, "close", None)
    if close is not None:
        close()


def _leave_loop_if_blocked() -> bool:
    thread = leave_blocked_loop()
    if thread is not None:
        leave_threads([thread])
    return thread is not None


def leave_threads(threads: Iterable[threading.Thread]) -> None:
    """Nobody waits for these threads any more; they count as hung for as long as they live."""
    with _hung_lock:
        _hung.update(threads)


def too_many_hung() -> str:
    """Why no thread may be started; empty if one may."""
    with _hung_lock:
        _hung.difference_update([thread for thread in _hung if not thread.is_alive()])
        full = len(_hung) >= MAX_HUNG_THREADS
    return f"{len(_hung)} threads hang in calls that never returned; no more are started" if full else ""


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


def _forget() -> None:
    """A forked child has none of the threads, and maybe a lock that one of them holds."""
    global _hung, _hung_lock
    _hung, _hung_lock = set(), threading.Lock()


os.register_at_fork(after_in_child=_forget)

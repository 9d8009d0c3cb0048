"""Rubrics by task: looked up in a mapping, or written once per task by a callable.

A writer gets the first group seen for a task; its rubric is kept, also while other threads ask for the same
task. A failed write is not kept, and a group without a task id never shares a rubric.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from whileai.core.group import Group
from whileai.errors import BatchError, GraderFailure, kind_and_reason

Rubrics = Mapping[Any, Any] | Callable[[Group], Any] | None

MISSING, FAILED = "missing_rubric", "rubric_failed"
"""Kinds of failure that stand for every pass of a group: without its rubric none of them is graded."""

Run = Callable[[Callable[[Any], Any], Sequence[Any]], Sequence[Any]]
"""Calls a function on each of some items, all at once, and gives results or exceptions."""


class RubricBook:
    """The rubrics of one `GroupwiseGrading`."""

    def __init__(self, source: Rubrics, written: Mapping[Hashable, Any] | None = None) -> None:
        self.source = source
        self._lock = threading.Lock()
        self._written: dict[Hashable, Future[Any]] = {}
        for task, rubric in (written or {}).items():
            self._written[task] = Future()
            self._written[task].set_result(rubric)
        _books.add(self)

    def rubrics_for(self, tasks: Sequence[tuple[Any, Callable[[], Group]]], run: Run, end: float | None) -> list[Any]:
        """The rubric of each task; a `GraderFailure` stands where there is none.

        Args:
            tasks: task id (None: without), and what makes the group at hand for the writer.
            run: how the writer is called.
            end: `time.monotonic()` until which a write that another thread has begun is waited for.

        Raises:
            BatchError: a task id that is no key (a list, say).
        """
        source = self.source
        if source is None:
            return [None] * len(tasks)
        for task, _ in tasks:
            try:
                hash(task)
            except TypeError:
                raise BatchError(f"task_id={task!r}: rubrics are kept by task id: give text or a number") from None
        if isinstance(source, Mapping):
            return [self._look_up(source, task) for task, _ in tasks]
        futures: list[Future[Any]] = []
        mine: list[tuple[Hashable | None, Callable[[], Group], Future[Any]]] = []
        with self._lock:
            for task, group in tasks:
                future = None if task is None else self._written.get(task)
                if future is None:
                    future = Future()
                    mine.append((task, group, future))
                    if task is not None:
                        self._written[task] = future
                futures.append(future)
        self._write(mine, source, run)
        rubrics = []
        for future in futures:
            left = None if end is None else min(max(0.0, end - time.monotonic()), threading.TIMEOUT_MAX)
            try:
                rubrics.append(future.result(left))
            except GraderFailure as failure:
                rubrics.append(failure)
            except TimeoutError:
                reason = "the batch's deadline_s was over while another batch was writing this task's rubric"
                rubrics.append(GraderFailure(FAILED, reason))
        return rubrics

    def written(self) -> dict[Hashable, Any]:
        """The rubrics that were written so far, by task."""
        with self._lock:
            return {
                task: future.result()
                for task, future in self._written.items()
                if future.done() and future.exception() is None
            }

    def _write(
        self,
        mine: Sequence[tuple[Hashable | None, Callable[[], Group], Future[Any]]],
        writer: Callable[[Group], Any],
        run: Run,
    ) -> None:
        results: Sequence[Any] = ()
        try:
            results = run(lambda group: writer(group()), [group for _, group, _ in mine])
        finally:  # whoever waits for these must hear of an interrupt too
            for number, (task, _, future) in enumerate(mine):
                result = results[number] if number < len(results) else KeyboardInterrupt("interrupted")
                if result is not None and not isinstance(result, BaseException):
                    future.set_result(result)
                    continue
                with self._lock:
                    if task is not None:
                        self._written.pop(task, None)
                what = "returned None" if result is None else f"failed: {kind_and_reason(result)[1]}"
                failure = GraderFailure(FAILED, f"the rubric writer {what}")
                failure.__cause__ = result
                future.set_exception(failure)

    @staticmethod
    def _look_up(source: Mapping[Any, Any], task: Any) -> Any:
        if task is None:
            return GraderFailure(MISSING, "the group has no task_id, so no rubric of the mapping is its own")
        if task in source:
            return source[task]
        other = str(task) if not isinstance(task, str) else int(task) if task.isdecimal() else None
        hint = f"; the mapping has {other!r}" if other in source else ""
        return GraderFailure(MISSING, f"task {task!r} has no rubric{hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        return RubricBook, (self.source, self.written())


_books: weakref.WeakSet[RubricBook] = weakref.WeakSet()


def _forget_unfinished() -> None:
    """A forked child has none of the threads that were writing: what they had not finished is written anew."""
    for book in list(_books):
        book._lock = threading.Lock()
        book._written = {task: future for task, future in book._written.items() if future.done()}


os.register_at_fork(after_in_child=_forget_unfinished)

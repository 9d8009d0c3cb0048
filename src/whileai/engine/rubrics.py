"""Rubrics by task: looked up in a mapping, or written once per task by a callable.

A writer gets the first group seen for a task; its rubric is kept, also while other threads ask for the same
task. A failed write is not kept, and a group without a task id never shares a rubric.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from whileai.core.group import Group
from whileai.errors import GraderFailure

Rubrics = Mapping[Any, Any] | Callable[[Group], Any] | None


class RubricBook:
    """The rubrics of one `GroupwiseGrading`."""

    def __init__(self, source: Rubrics) -> None:
        self.source = source
        self._lock = threading.Lock()
        self._written: dict[Hashable, Future[Any]] = {}

    def rubrics_for(
        self,
        tasks: Sequence[tuple[Any, Group]],
        run: Callable[[Callable[[Group], Any], Sequence[Group]], Sequence[Any]],
        wait_s: float | None,
    ) -> list[Any]:
        """The rubric of each (task id, group); a `GraderFailure` stands where there is none.

        Args:
            tasks: task id (None: without) and the group at hand.
            run: calls the writer on groups, all at once, and gives results or exceptions.
            wait_s: seconds to wait for a write that another thread has begun.
        """
        source = self.source
        if source is None:
            return [None] * len(tasks)
        if isinstance(source, Mapping):
            return [self._look_up(source, task) for task, _ in tasks]
        futures: list[Future[Any]] = []
        mine: list[tuple[Hashable | None, Group, Future[Any]]] = []
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
            try:
                rubrics.append(future.result(wait_s))
            except GraderFailure as failure:
                rubrics.append(failure)
            except TimeoutError:
                rubrics.append(GraderFailure("rubric_failed", "another batch is still writing this task's rubric"))
        return rubrics

    def _write(
        self,
        mine: Sequence[tuple[Hashable | None, Group, Future[Any]]],
        writer: Callable[[Group], Any],
        run: Callable[[Callable[[Group], Any], Sequence[Group]], Sequence[Any]],
    ) -> None:
        results: Sequence[Any] = ()
        try:
            results = run(writer, [group for _, group, _ in mine])
        finally:  # whoever waits for these must hear of an interrupt too
            for number, (task, _, future) in enumerate(mine):
                result = results[number] if number < len(results) else KeyboardInterrupt("interrupted")
                if result is not None and not isinstance(result, BaseException):
                    future.set_result(result)
                    continue
                with self._lock:
                    if task is not None:
                        self._written.pop(task, None)
                what = "returned None" if result is None else f"failed: {type(result).__name__}: {result}"
                future.set_exception(GraderFailure("rubric_failed", f"the rubric writer {what}"))

    @staticmethod
    def _look_up(source: Mapping[Any, Any], task: Any) -> Any:
        if task is None:
            return GraderFailure("missing_rubric", "the group has no task_id, so no rubric of the mapping is its own")
        if task not in source:
            return GraderFailure("missing_rubric", f"task {task!r} has no rubric")
        return source[task]

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            kept = {task: future.result() for task, future in self._written.items() if _has_result(future)}
        return _restore, (self.source, kept)


def _has_result(future: Future[Any]) -> bool:
    return future.done() and future.exception() is None


def _restore(source: Rubrics, kept: dict[Hashable, Any]) -> RubricBook:
    book = RubricBook(source)
    for task, rubric in kept.items():
        future: Future[Any] = Future()
        future.set_result(rubric)
        book._written[task] = future
    return book

"""Grade groups: the calls of a batch, and what their answers make of its rewards.

Advantage mode makes one call per group and shapes by verdict; reward mode makes one call per pass, after the
rubrics of its tasks, and multiplies. Both count into a tally and raise for no call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from whileai.core.batch import Batch
from whileai.core.group import Group
from whileai.core.rollout import copy_json
from whileai.core.shaping import GroupShape, plain, shape_by_product, shape_by_verdict
from whileai.core.stats import Tally
from whileai.core.verdict import Verdict, read_scores, read_verdict
from whileai.engine.rubrics import RubricBook
from whileai.engine.schedule import run_calls
from whileai.errors import GraderFailure

Progress = Callable[[int, int], None] | None


class Task(NamedTuple):
    """One group on its way: its rewards, its passing indices, its task, and how to make what a grader receives."""

    rewards: Sequence[float | None]
    passes: list[int]
    task: Any
    rollouts: Callable[[], Group]

    @property
    def scored(self) -> int:
        return len(self.rewards) - self.rewards.count(None)

    @classmethod
    def of(cls, rollouts: Group) -> Task:
        passes = [rollout["index"] for rollout in rollouts if rollout["passed"]]
        task = rollouts[0].get("task_id") if rollouts else None
        return cls([rollout["reward"] for rollout in rollouts], passes, task, lambda: copy_json(rollouts))

    @classmethod
    def of_batch(cls, batch: Batch, number: int) -> Task:
        start, stop = batch.bounds(number)
        passes = [index for index, passed in enumerate(batch.passed[start:stop]) if passed]
        return cls(batch.rewards[start:stop], passes, batch.task(number), lambda: batch.group(number))


@dataclass(frozen=True, slots=True)
class Calls:
    """How calls are made: `concurrency` at once, `timeout_s` each, until `end` (of `time.monotonic`)."""

    concurrency: int
    timeout_s: float | None
    end: float | None
    progress: Progress = None

    def run(self, call: Callable[[Any], Any], items: Sequence[Any], read: Callable[[Any, Any], Any]) -> list[Any]:
        """See `engine.schedule.run_calls`."""
        progress, total = self.progress, len(items)
        return run_calls(
            call,
            items,
            concurrency=self.concurrency,
            timeout_s=self.timeout_s,
            deadline_s=None if self.end is None else max(0.0, self.end - time.monotonic()),
            read=read,
            progress=None if progress is None else lambda done: progress(done, total),
        )


def grade_by_verdict(
    grader: Callable[..., Any],
    tasks: Sequence[Task],
    calls: Calls,
    tally: Tally,
    *,
    cap: float,
    min_factor: float,
    hack_zero: bool,
    hack_reward: float | None,
) -> list[GroupShape]:
    """Advantage mode: the shape of each group, by the grader's verdict on it."""
    outcomes = calls.run(
        lambda task: grader(task.rollouts()),
        tasks,
        lambda output, task: read_verdict(output, task.passes, len(task.rewards)),
    )
    tally.grader_calls += len(tasks)
    usable = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Verdict)]
    shaped = shape_by_verdict(
        [(tasks[number].rewards, tasks[number].passes, outcomes[number]) for number in usable],
        cap=cap,
        min_factor=min_factor,
        hack_zero=hack_zero,
        hack_reward=hack_reward,
    )
    by_number = dict(zip(usable, shaped, strict=True))
    return [
        by_number[number] if number in by_number else plain(task.rewards, (outcomes[number],))
        for number, task in enumerate(tasks)
    ]


def grade_by_product(
    grader: Callable[..., Any], tasks: Sequence[Task], calls: Calls, tally: Tally, *, book: RubricBook, floor: float
) -> list[GroupShape]:
    """Reward mode: the shape of each group, by the scores of its passes against the rubric of its task."""
    rubrics = book.rubrics_for(
        [(task.task, task.rollouts) for task in tasks],
        lambda writer, wanted: calls.run(writer, wanted, lambda rubric, _: rubric),
        calls.end,
    )
    groups = [task.rollouts() for task in tasks]
    made = [
        (number, index, groups[number][index], copy_json(rubric))
        for number, (task, rubric) in enumerate(zip(tasks, rubrics, strict=True))
        if not isinstance(rubric, GraderFailure)
        for index in task.passes
    ]
    outcomes = calls.run(lambda call: grader(call[2], call[3]), made, lambda output, _: read_scores(output))
    tally.grader_calls += len(made)
    products: list[dict[int, float]] = [{} for _ in tasks]
    failures: list[dict[int, BaseException]] = [
        {task.passes[0]: rubric} if isinstance(rubric, GraderFailure) else {}
        for task, rubric in zip(tasks, rubrics, strict=True)
    ]
    for (number, index, _, _), outcome in zip(made, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            failures[number][index] = outcome
        else:
            products[number][index] = max(floor, outcome.solution) * max(floor, outcome.behavior)
    return [shape_by_product(task.rewards, products[number], failures[number]) for number, task in enumerate(tasks)]

"""Two votes of a grader on every group: the calls that the check makes, and what came back.

In reward mode a vote is made of one call per pass. A single pass has no place among others, but it has an
`index`, and that is drawn anew for each vote: a scorer that reads it is seen like a ranker that returns the
shown order. The calls are made in random order: a grader that goes by its number of calls, or warms up, must
not look consistent because the check went through the groups twice in the same way.

A grader that can answer from memory (a model behind a cache) has a method `single_vote(..., repeat=n)`: one vote on
exactly what it is given, in exactly that order, kept apart from other repeats.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from whileai.checks.orders import Order, in_order, two_orders
from whileai.core.factors import quality_factors
from whileai.core.group import Group
from whileai.core.rollout import copy_json
from whileai.core.verdict import read_scores, read_verdict
from whileai.engine.rubrics import RubricBook, Rubrics
from whileai.engine.schedule import run_calls
from whileai.simulations import defaults

Grader = Callable[..., Any]
Run = Callable[..., list[Any]]
Progress = Callable[[int, int], None] | None


@dataclass(frozen=True)
class GateKnobs:
    """The knobs of `GroupwiseGrading` that the check's figures depend on; same names, same meaning."""

    mode: str = defaults.GROUPWISE_MODE
    rubrics: Rubrics = None
    floor: float = defaults.GROUPWISE_FLOOR
    min_factor: float = defaults.GROUPWISE_MIN_FACTOR
    hack_zero: bool = defaults.GROUPWISE_HACK_ZERO
    pass_threshold: float = defaults.GROUPWISE_PASS_THRESHOLD
    concurrency: int = defaults.GROUPWISE_CONCURRENCY
    timeout_s: float | None = defaults.GROUPWISE_TIMEOUT_S


@dataclass(frozen=True, slots=True)
class Subject:
    """A group with two or more passes that is judged twice. `mixed`: training would grade it."""

    group: Group
    passes: tuple[int, ...]
    mixed: bool
    orders: tuple[Order, Order]

    @classmethod
    def of(cls, group: Group) -> Subject | None:
        """None for a group of fewer than two passes: there is nothing to tell apart."""
        passes = tuple(rollout["index"] for rollout in group if rollout["passed"])
        if len(passes) < 2:
            return None
        scored = sum(rollout["reward"] is not None for rollout in group)
        return cls(group, passes, len(passes) < scored, two_orders(group))


class Vote(NamedTuple):
    """One vote, by index in the group. A hack that training zeroes has no factor.

    `ordered`: the grader gave a ranking, factors or scores, and not only hacks.
    """

    factors: Mapping[int, float]
    hacks: frozenset[int]
    ordered: bool


@dataclass(slots=True)
class Outcome:
    """The two votes on one subject, None where a call failed, and the failed calls."""

    votes: list[Vote | None] = field(default_factory=lambda: [None, None])
    failures: list[BaseException] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return None not in self.votes


def call_count(subjects: Sequence[Subject], mode: str) -> int:
    """Calls of the grader for two votes on each subject (rubrics that are written come on top)."""
    return 2 * (len(subjects) if mode == "advantage" else sum(len(subject.passes) for subject in subjects))


def collect_votes(
    grader: Grader, subjects: Sequence[Subject], knobs: GateKnobs, *, progress: Progress = None, run: Run = run_calls
) -> list[Outcome]:
    """Call the grader and read its votes, for each subject in order. Never raises for a call that fails.

    Args:
        progress: called now and then with calls done and calls in all.
        run: see `engine.schedule.run_calls`.
    """
    collect = _collect_scores if knobs.mode == "reward" else _collect_verdicts
    return collect(grader, subjects, knobs, progress, run)


def _collect_verdicts(
    grader: Grader, subjects: Sequence[Subject], knobs: GateKnobs, progress: Progress, run: Run
) -> list[Outcome]:
    def call(item: tuple[int, int]) -> Any:
        number, turn = item
        shown = in_order(subjects[number].group, subjects[number].orders[turn])
        return _ask(grader, (shown,), turn)

    def read(output: object, item: tuple[int, int]) -> Vote:
        number, turn = item
        subject = subjects[number]
        order = subject.orders[turn]
        passes = [slot for slot, index in enumerate(order) if index in subject.passes]
        verdict = read_verdict(output, passes, len(order))
        factors = quality_factors(verdict, passes, min_factor=knobs.min_factor, hack_zero=knobs.hack_zero)
        return Vote(
            {order[slot]: factor for slot, factor in factors.items()},
            frozenset(order[slot] for slot in verdict.hacks),
            verdict.ranking is not None or verdict.factors is not None,
        )

    calls = _shuffled([(number, turn) for number in range(len(subjects)) for turn in (0, 1)], subjects)
    outcomes = [Outcome() for _ in subjects]
    for (number, turn), result in zip(calls, _run(run, call, calls, read, knobs, progress), strict=True):
        if isinstance(result, BaseException):
            outcomes[number].failures.append(result)
        else:
            outcomes[number].votes[turn] = result
    return outcomes


def _collect_scores(
    grader: Grader, subjects: Sequence[Subject], knobs: GateKnobs, progress: Progress, run: Run
) -> list[Outcome]:
    outcomes = [Outcome() for _ in subjects]
    rubrics = RubricBook(knobs.rubrics).rubrics_for(
        [(subject.group[0].get("task_id"), partial(copy_json, subject.group)) for subject in subjects],
        lambda writer, groups: _run(run, writer, groups, None, knobs, None),
        None,
    )

    def call(item: tuple[int, int, int]) -> Any:
        number, turn, index = item
        subject = subjects[number]
        rollout = {**copy_json(subject.group[index]), "index": subject.orders[turn].index(index)}
        return _ask(grader, (rollout, rubrics[number]), turn)

    def read(output: object, item: tuple[int, int, int]) -> float:
        scores = read_scores(output)
        return max(knobs.floor, scores.solution) * max(knobs.floor, scores.behavior)

    calls = []
    for number, (subject, rubric) in enumerate(zip(subjects, rubrics, strict=True)):
        if isinstance(rubric, BaseException):
            outcomes[number].failures += [rubric] * 2 * len(subject.passes)
        else:
            calls += [(number, turn, index) for turn in (0, 1) for index in subject.passes]
    products: dict[tuple[int, int], dict[int, float]] = {}
    calls = _shuffled(calls, subjects)
    for (number, turn, index), result in zip(calls, _run(run, call, calls, read, knobs, progress), strict=True):
        if isinstance(result, BaseException):
            outcomes[number].failures.append(result)
        else:
            products.setdefault((number, turn), {})[index] = result
    for (number, turn), by_index in products.items():
        if len(by_index) == len(subjects[number].passes):
            outcomes[number].votes[turn] = Vote(by_index, frozenset(), ordered=True)
    return outcomes


def natural_call(grader: Grader) -> Grader:
    """How many calls at once are made best: awaited where the grader is asynchronous inside."""
    return grader.agrade if getattr(grader, "is_async", False) else grader  # type: ignore[attr-defined]


def _ask(grader: Grader, arguments: tuple[Any, ...], turn: int) -> Any:
    vote = getattr(grader, "single_vote", None)
    return natural_call(grader)(*arguments) if vote is None else vote(*arguments, repeat=turn)


def _shuffled(calls: list[Any], subjects: Sequence[Subject]) -> list[Any]:
    """The calls in an order that these groups decide: one fixed order would suit some graders by chance, always."""
    random.Random(repr([subject.orders for subject in subjects])).shuffle(calls)
    return calls


def _run(
    run: Run,
    call: Callable[[Any], Any],
    items: Sequence[Any],
    read: Callable[[Any, Any], Any] | None,
    knobs: GateKnobs,
    progress: Progress,
) -> list[Any]:
    return run(
        call,
        items,
        concurrency=knobs.concurrency,
        timeout_s=knobs.timeout_s,
        read=read,
        progress=None if progress is None else lambda done: progress(done, len(items)),
    )

"""One group on its way from rollouts to advantages, with what stands between kept for looking.

The steps are those of training, made by the same functions; `grade_rows` gives the same rewards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whileai.cli.drawing import less_mean
from whileai.core.group import Group, RowGroup
from whileai.core.rollout import copy_json
from whileai.core.shaping import GroupShape, hacks_reset, plain, shape_by_product, shape_by_verdict
from whileai.core.verdict import Scores, Verdict, read_scores, read_verdict
from whileai.engine.schedule import run_calls
from whileai.errors import BatchError, GraderFailure
from whileai.grading import GroupwiseGrading
from whileai.spec.document import nearest


@dataclass(frozen=True)
class Answer:
    """What came of one call of the grader.

    Attributes:
        index: in reward mode the pass that was asked about, else None: the whole group.
        said: what the grader returned, if it returned.
        read: the verdict or scores in it; None where it has none that can be used.
        failure: why it has none. raised: the call itself failed, and returned nothing.
    """

    index: int | None
    said: Any = None
    read: Verdict | Scores | None = None
    failure: BaseException | None = None
    raised: bool = False


@dataclass(frozen=True)
class Explanation:
    """What happened to one group.

    Attributes:
        answers: what the grader said; none where there was nothing to ask.
        left_alone: why training does not grade this group; empty if it does.
        shape: what training makes of it.
        before: plain advantages, R - mean(R).
        reset: the same after the rewards of hacks were replaced.
        after: the advantages that the shaped rewards stand for.
    """

    group: RowGroup
    answers: Sequence[Answer]
    left_alone: str
    shape: GroupShape
    before: Sequence[float]
    reset: Sequence[float]
    after: Sequence[float]


def explain_group(grading: GroupwiseGrading, group: RowGroup) -> Explanation:
    """Ask the grader about one group, if there is anything to ask, and follow its answer."""
    rollouts = group.rollouts
    rewards = [rollout["reward"] for rollout in rollouts]
    passes = [rollout["index"] for rollout in rollouts if rollout["passed"]]
    left_alone = why_left_alone(grading, rollouts, passes)
    answers = _answers(grading, rollouts, passes)
    shape = plain(rewards)
    if grading.mode == "reward":
        products = {
            answer.index: max(grading.floor, answer.read.solution) * max(grading.floor, answer.read.behavior)
            for answer in answers
            if answer.index is not None and isinstance(answer.read, Scores)
        }
        failures = {answer.index: answer.failure for answer in answers if answer.index is not None and answer.failure}
        shape = shape_by_product(rewards, products, failures)
    elif answers and isinstance(answers[0].read, Verdict) and not left_alone:
        shape = shape_by_verdict(
            [(rewards, passes, answers[0].read)],
            cap=grading.cap,
            min_factor=grading.min_factor,
            hack_zero=grading.hack_zero,
            hack_reward=grading.hack_reward,
        )[0]
    reset = hacks_reset(rewards, shape.hacks, grading.hack_reward) if shape.hacks else rewards
    return Explanation(
        group,
        answers,
        left_alone,
        shape,
        less_mean(plain(rewards).rewards),
        less_mean(plain(reset).rewards),
        less_mean(shape.rewards),
    )


def calls_of(mode: str, group: Group) -> list[tuple[Any, ...]]:
    """The arguments of each call that asking about this group takes."""
    passes = [rollout for rollout in group if rollout["passed"]]
    if mode == "reward":
        return [(rollout, None) for rollout in passes]
    return [(group,)] if passes else []


def choose_group(groups: Mapping[str, RowGroup], wanted: str | None) -> str:
    """The group of that name, or the only one whose name begins so; by default the first that teaches something.

    Raises:
        BatchError: no group, or more than one, is meant; with the names that are near.
    """
    if wanted is None:
        return max(groups, key=lambda name: _teaches(groups[name].rollouts))
    if wanted in groups:
        return wanted
    meant = [name for name in groups if name.startswith(wanted)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise BatchError(f"--group {wanted}: {len(meant)} groups begin so, such as {meant[0]} and {meant[1]}")
    near = nearest(wanted, groups) or f"the first is {next(iter(groups))!r}"
    raise BatchError(f"--group {wanted}: none of the {len(groups)} groups is called so; {near}")


def group_names(groups: Sequence[RowGroup]) -> dict[str, RowGroup]:
    """A name for each group: its key, numbered where the rows of one task make several groups."""
    parts, seen = Counter(group.key for group in groups), Counter[str]()
    names: dict[str, RowGroup] = {}
    for group in groups:
        seen[group.key] += 1
        names[group.key if parts[group.key] == 1 else f"{group.key}#{seen[group.key]}"] = group
    return names


def _teaches(group: Group) -> tuple[bool, bool]:
    """Whether a ranking would move something here, and whether training grades it at all."""
    passes = sum(rollout["passed"] for rollout in group)
    mixed = 0 < passes < sum(rollout["reward"] is not None for rollout in group)
    return mixed and passes >= 2, mixed


def why_left_alone(grading: GroupwiseGrading, rollouts: Group, passes: Sequence[int]) -> str:
    """Why training does not grade a group; empty if it does."""
    if not passes:
        return "no rollout passed, so there is nothing to tell apart"
    if grading.mode == "reward":
        return ""
    scored = sum(rollout["reward"] is not None for rollout in rollouts)
    if len(passes) == scored and not grading.grade_all_pass:
        return "every rollout passed, so a ranking has nothing to move (grade_all_pass=True grades it for its hacks)"
    if len(passes) == 1 and not getattr(grading.grader, "names_hacks", True):
        return "one rollout passed, and this grader names no hacks: a ranking of one moves nothing"
    return ""


def _answers(grading: GroupwiseGrading, rollouts: Group, passes: Sequence[int]) -> list[Answer]:
    if not passes:
        return []
    grader, size = grading.grader, len(rollouts)
    calls: list[tuple[int | None, list[Any]]] = [(None, [rollouts])]
    if grading.mode == "reward":
        calls = [(index, [rollouts[index], None]) for index in passes]
    said: list[Any] = run_calls(
        lambda call: grader(*copy_json(call[1])),
        calls,
        concurrency=grading.concurrency,
        timeout_s=grading.timeout_s,
    )
    answers = []
    for (index, _), output in zip(calls, said, strict=True):
        if isinstance(output, BaseException):
            answers.append(Answer(index, failure=output, raised=True))
            continue
        try:
            read = read_verdict(output, passes, size) if index is None else read_scores(output)
            answers.append(Answer(index, output, read))
        except GraderFailure as failure:
            answers.append(Answer(index, output, failure=failure))
    return answers

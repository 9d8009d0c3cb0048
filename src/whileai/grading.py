"""`GroupwiseGrading`: a grader and the knobs of the method as one object.

It grades groups (advantage mode: one call per group; reward mode: one call per pass), shapes their rewards,
checks a grader's spread before training, and makes the reward function that a trainer calls.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import operator
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from whileai.checks.progress import terminal_progress
from whileai.checks.spread import report_spread
from whileai.checks.standing import Standing, is_compiled
from whileai.core import knobs
from whileai.core.batch import Batch
from whileai.core.group import (
    Rollout,
    RowGroup,
    groups_from_rows,
    require_columns,
    require_one_group,
    rollout_from_row,
)
from whileai.core.naming import name_of
from whileai.core.shaping import GroupShape, plain
from whileai.core.spread import SpreadReport
from whileai.core.stats import Counters, GradingStats, Tally
from whileai.engine.failures import FailureLog
from whileai.engine.grade import Calls, Progress, Task, grade_by_product, grade_by_verdict
from whileai.engine.rubrics import FAILED, Rubrics
from whileai.errors import ConfigError, SpreadError, UncheckedGraderError, kind_and_reason
from whileai.simulations import defaults

if TYPE_CHECKING:
    from pathlib import Path

    from whileai.checks.report import CheckReport
    from whileai.checks.votes import GateKnobs
    from whileai.engine.cost import Cost
    from whileai.trainers.trl import GroupwiseReward
    from whileai.trainers.verifier import Verifier

logger = logging.getLogger("whileai")

Grader = Callable[..., Any] | Callable[..., Awaitable[Any]]

CHECK_DEPENDS_ON = (
    "mode",
    "floor",
    "min_factor",
    "hack_zero",
    "pass_threshold",
    "spread_min_std",
    "spread_band",
    "spread_cluster_share",
)
"""With the grader and the rubrics, what the outcome of `check_spread` depends on."""


@dataclass(frozen=True, eq=False)
class GroupwiseGrading:
    """A grader with the method's knobs. Immutable: `dataclasses.replace` makes a variant.

    A variant counts from zero. It takes over what the original knows at that moment, where that still holds: the
    outcome of the last check if nothing that decides it is changed, the written rubrics if their writer stays.

    Args:
        grader: advantage mode: `grader(group)` returns a verdict (see `whileai.core.verdict`); reward mode:
            `grader(rollout, rubric)` returns `{"solution": s, "behavior": b}`, both in [0, 1]. May be async.
            An attribute `names_hacks = False` says that it never names hacks; groups with a single pass
            are then not sent to it.
        mode: "advantage" (equation 3) or "reward" (equation 2).
        rubrics: reward mode: rubric by task id, or a callable that writes one from a task's first group.
        floor: reward mode: lower bound of each score, in [0, 1].
        cap: upper bound of lambda, at least 1; `math.inf` for none.
        min_factor: factor of the worst-ranked pass, in (0, 1].
        hack_zero: a hack's reward becomes `hack_reward` before the group's statistics; else it is the worst pass.
        pass_threshold: a reward of at least this is a pass.
        hack_reward: None: the smaller of 0 and the group's lowest reward.
        grade_all_pass: also grade groups without a failure, for their hacks.
        concurrency: grader calls in flight at most.
        timeout_s: seconds for one grader call; None for no limit.
        deadline_s: seconds for the grading of one batch; None for no limit. Groups that are late keep their
            original rewards.
        spread_min_std, spread_band, spread_cluster_share: the rules of `check_spread`.
        certificate: a certificate's file or a folder of them, for a compiled grader; searched before
            `WHILEAI_CERTS` and the project's `.whileai/certs/`.
        accept_unchecked: the reason for training on a grader whose check failed or is missing; it stands in
            `stats`.

    Raises:
        ConfigError: a knob has a value that cannot work; the message names it.
    """

    grader: Grader
    mode: str = defaults.GROUPWISE_MODE
    rubrics: Rubrics = None
    floor: float = defaults.GROUPWISE_FLOOR
    cap: float = defaults.GROUPWISE_CAP
    min_factor: float = defaults.GROUPWISE_MIN_FACTOR
    hack_zero: bool = defaults.GROUPWISE_HACK_ZERO
    pass_threshold: float = defaults.GROUPWISE_PASS_THRESHOLD
    concurrency: int = defaults.GROUPWISE_CONCURRENCY
    hack_reward: float | None = None
    grade_all_pass: bool = False
    timeout_s: float | None = defaults.GROUPWISE_TIMEOUT_S
    deadline_s: float | None = defaults.GROUPWISE_DEADLINE_S
    spread_min_std: float = defaults.SPREAD_MIN_STD
    spread_band: float = defaults.SPREAD_BAND
    spread_cluster_share: float = defaults.SPREAD_CLUSTER_SHARE
    certificate: str | Path | None = None
    accept_unchecked: str | None = None
    _counters: Counters = field(init=False, repr=False)
    _log: FailureLog = field(init=False, repr=False)
    _standing: Standing = field(default=None, repr=False)  # type: ignore[assignment]  # replace() hands the original's on

    def __post_init__(self) -> None:
        _validate(self)
        object.__setattr__(self, "_counters", Counters(self.mode, self.accept_unchecked))
        object.__setattr__(self, "_log", FailureLog())
        basis = tuple(getattr(self, name) for name in CHECK_DEPENDS_ON)
        object.__setattr__(self, "_standing", Standing(self.grader, self.rubrics, basis, self._standing))

    def group(self, rows: Sequence[Mapping[str, Any]]) -> list[float]:
        """The shaped rewards of one group: rows with `reward` and `completion`, `messages` or `final_text`.

        Raises:
            BatchError: a row that cannot be read or lacks a column, or rows of several groups.
            UncheckedGraderError: the grader's check failed.
        """
        grader = self._usable()
        rollouts = [rollout_from_row(row, index, pass_threshold=self.pass_threshold) for index, row in enumerate(rows)]
        require_one_group(rows)
        self._require_columns(rollouts)
        return self._shape(grader, [Task.of(rollouts)])[0].rewards if rollouts else []

    def shape(
        self,
        rewards: Sequence[Any],
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        group_size: int,
        task_id: Sequence[Any] | None = None,
        environments: Sequence[Any] | None = None,
        columns: Mapping[str, Sequence[Any]] | None = None,
    ) -> list[float]:
        """The shaped rewards of a batch: A' + mean(R) of each group (advantage mode), or R * S_sol * S_beh.

        Args and errors are those of `core.batch.Batch`; the result has one finite float per row.
        """
        groups = self.shape_groups(
            rewards,
            prompts,
            completions,
            group_size=group_size,
            task_id=task_id,
            environments=environments,
            columns=columns,
        )
        return [reward for group in groups for reward in group.rewards]

    def shape_groups(
        self,
        rewards: Sequence[Any],
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        group_size: int,
        task_id: Sequence[Any] | None = None,
        environments: Sequence[Any] | None = None,
        columns: Mapping[str, Sequence[Any]] | None = None,
    ) -> list[GroupShape]:
        """As `shape`, with the factors, hacks and failures of each group."""
        grader = self._usable()
        batch = Batch(
            rewards,
            prompts,
            completions,
            group_size=group_size,
            pass_threshold=self.pass_threshold,
            task_id=task_id,
            environments=environments,
            columns=columns,
        )
        if batch.count:
            self._require_columns(batch.group(0)[:1])
        return self._shape(grader, [Task.of_batch(batch, number) for number in range(batch.count)])

    def grade_rows(
        self, rows: Sequence[Mapping[str, Any]], *, group_size: int | None = None
    ) -> list[tuple[RowGroup, GroupShape]]:
        """Kept rows, grouped and graded as training would: for looking, so no check is asked for."""
        groups = groups_from_rows(rows, group_size=group_size, pass_threshold=self.pass_threshold)
        self._require_columns([rollout for group in groups for rollout in group.rollouts])
        with terminal_progress("grading") as progress:
            shapes = self._shape(self.grader, [Task.of(group.rollouts) for group in groups], progress=progress)
        return list(zip(groups, shapes, strict=True))

    def check_spread(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        strict: bool = True,
        group_size: int | None = None,
    ) -> SpreadReport | CheckReport:
        """Grade every group with two or more passes and say whether the scores vary.

        With a compiled grader this is the gate, with this object's knobs: its report says yes, no or not enough
        data, and a yes leaves a certificate.

        Args:
            rows: graded rows you already have; see `core.group.groups_from_rows`.
            strict: raise unless the answer is yes; else the report is returned whatever it says.
            group_size: rollouts of a training group, where a scenario has more rows than that.

        Raises:
            SpreadError: (a ValueError) the answer is no, or there is not enough data. BatchError: a bad row.
        """
        if is_compiled(self.grader):
            return self._check_link(rows, strict=strict, group_size=group_size)
        groups = groups_from_rows(rows, group_size=group_size, pass_threshold=self.pass_threshold)
        tasks = [task for group in groups if len((task := Task.of(group.rollouts)).passes) >= 2]
        with terminal_progress("checking") as progress:
            shapes = self._shape(self.grader, tasks, every=True, progress=progress)
        report = report_spread(
            [list(shape.factors.values()) for shape in shapes],
            [shape.failures for shape in shapes],
            passes=[len(task.passes) for task in tasks],
            calls_per_pass=self.mode == "reward",
            min_std=self.spread_min_std,
            band=self.spread_band,
            cluster_share=self.spread_cluster_share,
        )
        self._standing.checked(report.ok if report.enough else None)
        if strict and not report.ok:
            raise SpreadError(str(report), report)
        return report

    def trl_reward(
        self,
        verifier: Verifier,
        num_generations: int | None = None,
        *,
        judge_in_eval: bool = False,
        warmup_groups: int | None = None,
        record: str | Path | None = None,
    ) -> GroupwiseReward:
        """The reward function for TRL's trainers: `verifier` scores the batch, this object shapes it.

        Args:
            verifier: `verifier(prompts=..., completions=..., **columns)` returns one reward per row; may be async.
                None, NaN or an infinity is a row that it cannot score.
            num_generations: the trainer's own, the size of a group. May be left out from TRL 1.0 on.
            judge_in_eval: grade in evaluation too; else an evaluation reports the verifier's rewards.
            warmup_groups: train on plain rewards until so many groups with two or more passes are there (over all
                processes), check the grader on them, and grade from then on if the check says yes. At a no the
                rewards stay plain; at not enough data it is tried once more, at double.
            record: a file (.jsonl) for the rows of the warm-up's groups; with several processes one per rank.

        Returns:
            A picklable callable with a name of its own. Groups that are split across processes are put together.

        Raises:
            UncheckedGraderError: the grader may not train yet, and there is no warm-up.
        """
        from whileai.trainers.trl import GroupwiseReward
        from whileai.trainers.warmup import WarmupRun

        warmup = None
        if warmup_groups is not None:
            if self.accept_unchecked:
                raise ConfigError("warmup_groups is for checking the grader, accept_unchecked for not checking it")
            warmup = WarmupRun(self, warmup_groups, record)
        elif record is not None:
            raise ConfigError(f"record={record!r} is where a warm-up keeps its rows: give warmup_groups as well")
        else:
            self._usable()
            if not self.accept_unchecked:
                self._standing.warn_if_unchecked(name_of(self.grader))
        name = f"groupwise_{name_of(self.grader)}"
        return GroupwiseReward(self, verifier, num_generations, judge_in_eval=judge_in_eval, name=name, warmup=warmup)

    def trl_check(self, args: Any) -> list[str]:
        """Check a TRL config (GRPOConfig, RLOOConfig, AsyncGRPOConfig) before training.

        Returns:
            A remark for each setting that rescales the advantages of equation 3, with the factor; each is logged
            as a warning too. Empty: they are computed exactly.

        Raises:
            ConfigError: settings that break the method, each with the line to change.
        """
        from whileai.trainers.trl_settings import check_settings

        remarks = check_settings(args, mode=self.mode, deadline_s=self.deadline_s)
        for remark in remarks:
            logger.warning("%s", remark)
        return remarks

    def judge_cost(self) -> Cost | None:
        """What the model calls of training cost so far, in this process; None for a grader that asks no model."""
        if not is_compiled(self.grader) or not cast(Any, self.grader).models:
            return None
        costs: list[Cost] = [calls.cost for calls in self._standing.in_use.stats.values()]
        return functools.reduce(operator.add, costs)

    def export_check(self) -> Any:
        """What lets the grader train, for this object's copies in other processes: the outcome of its check, the
        certificates of its links. None if it may not train yet; an unchecked plain function may not either."""
        try:
            self._usable()
        except UncheckedGraderError:
            return None
        return self._standing.found()

    def import_check(self, found: Any) -> None:
        """Take over what `export_check` gave in another process."""
        self._standing.take(found)

    @property
    def stats(self) -> GradingStats:
        """What the grader did so far: a snapshot."""
        admission = self._standing.admission
        return self._counters.snapshot({} if admission is None else admission.loosened)

    def __str__(self) -> str:
        if self.mode == "reward":
            return f"GroupwiseGrading(mode=reward, grader={name_of(self.grader)}, floor={self.floor})"
        return (
            f"GroupwiseGrading(mode={self.mode}, grader={name_of(self.grader)}, cap={self.cap}, "
            f"min_factor={self.min_factor}, hack_zero={self.hack_zero})"
        )

    def _usable(self) -> Any:
        """The grader as it may shape rewards. Raises UncheckedGraderError."""
        return self._standing.usable(
            name_of(self.grader), knobs=self._gate_knobs, certificate=self.certificate, accepted=self.accept_unchecked
        )

    def _require_columns(self, rollouts: Sequence[Rollout]) -> None:
        """Raise BatchError where the grader, or the writer of its rubrics, declares a column that is not there."""
        declaring: list[Any] = [grader for grader in (self.grader, self.rubrics) if is_compiled(grader)]
        for grader in declaring:
            require_columns(grader.name, grader.columns, rollouts)

    def _gate_knobs(self) -> GateKnobs:
        from whileai.checks.votes import GateKnobs

        return GateKnobs(**{field.name: getattr(self, field.name) for field in dataclasses.fields(GateKnobs)})

    def _check_link(self, rows: Sequence[Mapping[str, Any]], *, strict: bool, group_size: int | None) -> CheckReport:
        """The gate on the first link of a compiled grader, with this object's knobs."""
        from whileai.checks.admission import certify, plan_link

        compiled: Any = self.grader
        link, knobs = compiled.links[0], self._gate_knobs()
        plan = plan_link(link, rows, knobs=knobs, group_size=group_size)
        with terminal_progress("checking") as progress:
            report, _ = certify(link, plan, knobs=knobs, certificate=self.certificate, progress=progress)
        self._standing.checked(None)
        if strict and not report.ok:
            raise SpreadError(str(report), report)
        return report

    def _shape(
        self, grader: Any, tasks: Sequence[Task], *, every: bool = False, progress: Progress = None
    ) -> list[GroupShape]:
        """Grade what is to be graded, shape all, count all. `every`: also all-pass groups, for a check."""
        tally = Tally(groups=len(tasks))
        least = 1 if getattr(grader, "names_hacks", True) or self.mode == "reward" else 2
        all_pass = every or self.grade_all_pass or self.mode == "reward"
        chosen = []
        for number, task in enumerate(tasks):
            passes = len(task.passes)
            mixed = 0 < passes < task.scored
            tally.mixed += mixed
            if passes >= least and (mixed or all_pass):
                chosen.append(number)
        call = grader.agrade if is_compiled(grader) and grader.is_async else grader
        wanted = [tasks[number] for number in chosen]
        end = None if self.deadline_s is None else time.monotonic() + self.deadline_s
        calls = Calls(self.concurrency, self.timeout_s, end, progress)
        if self.mode == "reward":
            shapes = grade_by_product(call, wanted, calls, tally, book=self._standing.book, floor=self.floor)
        else:
            shapes = grade_by_verdict(
                call,
                wanted,
                calls,
                tally,
                cap=min(self.cap, getattr(grader, "lambda_cap", math.inf)),
                min_factor=self.min_factor,
                hack_zero=self.hack_zero,
                hack_reward=self.hack_reward,
            )
        graded = dict(zip(chosen, shapes, strict=True))
        hears = is_compiled(grader)
        for shape in shapes:
            tally.factors += shape.factors.values()
            tally.hacks += len(shape.hacks)
            tally.lambda_capped += shape.capped
            if hears and shape.verdict is not None:
                tally.heard(shape.verdict.extra)
        self._count(tally, [failure for shape in shapes for failure in shape.failures])
        return [graded.get(number) or plain(task.rewards) for number, task in enumerate(tasks)]

    def _count(self, tally: Tally, failures: Sequence[BaseException]) -> None:
        for failure in failures:
            tally.fail(*kind_and_reason(failure))
        new_kinds = self._counters.add(tally)
        self._log.tell(failures, new_kinds, tally.grader_calls + tally.failures.get(FAILED, 0))


def _validate(grading: GroupwiseGrading) -> None:
    given: object = grading.grader
    if not callable(given):
        spec = isinstance(given, (str, os.PathLike))
        remedy = f" (whileai.load_grader({str(given)!r}) makes one of a spec)" if spec else ""
        raise ConfigError(f"grader={given!r}: a callable is wanted{remedy}")
    if is_compiled(owner := getattr(given, "__self__", None)):
        raise ConfigError(f"grader={given!r}: give {name_of(owner)} itself, whose certificate is asked for, no method")
    if grading.mode not in ("advantage", "reward"):
        raise ConfigError(f"mode={grading.mode!r}: 'advantage' or 'reward' is wanted")
    own_mode = getattr(grading.grader, "mode", grading.mode)
    if isinstance(own_mode, str) and own_mode != grading.mode:
        raise ConfigError(f"mode={grading.mode!r}: {name_of(grading.grader)} is written for mode={own_mode!r}")
    if grading.rubrics is not None and grading.mode != "reward":
        raise ConfigError("rubrics are read in mode='reward' only: give the mode, or leave them out")
    if grading.rubrics is not None and not isinstance(grading.rubrics, Mapping) and not callable(grading.rubrics):
        raise ConfigError(f"rubrics={grading.rubrics!r}: a mapping from task id to rubric, or a callable, is wanted")
    if getattr(grading.grader, "writes_rubrics", False) is True:
        raise ConfigError(f"grader: {name_of(grading.grader)} writes rubrics and grades nothing; pass it as rubrics=")
    if getattr(grading.rubrics, "writes_rubrics", True) is False:
        raise ConfigError(f"rubrics: {name_of(grading.rubrics)} writes no rubrics, it grades; pass it as grader=")
    knobs.check_method(grading)
    longest = getattr(grading.grader, "group_s", None) if is_compiled(grading.grader) else None
    if longest is not None and grading.timeout_s is not None and grading.timeout_s < longest:
        logger.warning(
            "timeout_s=%g ends a call of %s before the %g s that its spec gives it (timeouts: group_s), and so before "
            "its fallbacks; raise the one or lower the other",
            grading.timeout_s,
            name_of(grading.grader),
            longest,
        )
    reason = grading.accept_unchecked
    if reason is not None and (not isinstance(reason, str) or not reason.strip()):
        raise ConfigError(f"accept_unchecked={reason!r}: the reason, as text, is wanted")

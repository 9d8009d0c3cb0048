"""A reward function for TRL: GRPOTrainer, RLOOTrainer, and trainers with the same reward contract.

TRL calls it with a batch of consecutive completions per prompt and forms the advantage as reward minus group
mean. The shaped reward is A' + mean(R), so that this gives equation 3 exactly under `scale_rewards="none"`.

It is one sync callable, on purpose: TRL runs it on the main thread of every rank, the only place where the
ranks may wait for each other. What it fans out runs inside.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from whileai.core.batch import Batch
from whileai.core.group import Group
from whileai.core.knobs import flag, whole
from whileai.core.shaping import GroupShape, plain
from whileai.errors import BatchError, ConfigError
from whileai.trainers.collectives import Processes, processes, telling
from whileai.trainers.shaper import Shaper
from whileai.trainers.split import Rows, shape_split
from whileai.trainers.trl_metrics import COLUMNS, Metrics, RowOutcome, outcomes_of, reason_of
from whileai.trainers.trl_settings import TrainerView, check_settings, view_of
from whileai.trainers.verifier import Verifier, VerifierCalls
from whileai.trainers.warmup import WarmupRun

logger = logging.getLogger("whileai")

NOT_COLUMNS = frozenset({"completion_ids", "prompt_ids", "trainer_state", "log_extra", "log_metric", "environments"})
"""Keywords of a TRL reward call that are no columns of the dataset."""


class GroupwiseReward:
    """`reward_funcs=[...]` for a trainer; made by `GroupwiseGrading.trl_reward`. Picklable, sync, named.

    Args:
        shaper: the grading.
        verifier: see `VerifierCalls`.
        num_generations: the trainer's own; None: read from the trainer at each call.
        judge_in_eval: also grade in evaluation; else an evaluation reports the verifier's rewards.
        name: becomes `__name__`, under which TRL logs the reward.
        warmup: plain rewards until it says that the grader passed its check; None: grade from the first call on.
    """

    def __init__(
        self,
        shaper: Shaper,
        verifier: Verifier,
        num_generations: int | None,
        *,
        judge_in_eval: bool,
        name: str,
        warmup: WarmupRun | None = None,
    ) -> None:
        if num_generations is not None:
            whole("num_generations", num_generations, low=1)
        flag("judge_in_eval", judge_in_eval)
        self.shaper, self.num_generations, self.judge_in_eval = shaper, num_generations, judge_in_eval
        self.verifier, self.warmup = VerifierCalls(verifier), warmup
        self.__name__ = name
        self._checked = False
        self._said: set[str] = set()
        self._metrics = Metrics()

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
        """Shaped rewards, one finite float per completion.

        Raises:
            BatchError: partial groups, or a verifier that returned another number of rewards.
            ConfigError: settings of the trainer that break the method, or a group size that nobody said.
            RankError: another process failed, or did not come in time.
        """
        view = view_of(columns)
        size = self._size(view)
        rows = len(completions)
        others = processes()
        warmup = self.warmup if view.training else None
        meets = rows % size != 0 or (warmup is not None and warmup.warming)
        outcomes: Sequence[RowOutcome] | None = None
        with telling(others if meets else None):
            self._check(view, prompts, size, columns)
            if warmup is not None:
                warmup.begin(others)
            call = _Call(self, view, size)

            def load() -> Rows:
                return self._rows(prompts, completions, columns)

            if rows % size and others is not None:
                outcomes = shape_split(
                    others, rows, size, load, call.shape, remark=call.failure, deadline_s=self.shaper.deadline_s
                )
                self._say(others)
            elif rows % size:
                raise BatchError(
                    f"{rows} completions are no whole groups of num_generations={size}, and there is no other process "
                    "that has the rest: is num_generations the trainer's own?"
                )
            else:
                rewards = call.judge_groups(load())
                if columns.get("log_extra") is not None:
                    outcomes = call.outcomes()
            if warmup is not None:
                warmup.step(call.groups, others)
        self._log(view, columns, outcomes or (), call)
        return rewards if outcomes is None else [outcome.reward for outcome in outcomes]

    def _size(self, view: TrainerView) -> int:
        if view.group_size is not None and (self.num_generations is None or not view.training):
            return view.group_size
        if self.num_generations is None:
            raise ConfigError(
                "num_generations is unknown, and this trainer cannot be asked for it (TRL 1.0 and later can): write "
                "trl_reward(verifier, num_generations=...) with the trainer's own"
            )
        return self.num_generations

    def _check(self, view: TrainerView, prompts: Sequence[Any], size: int, columns: Mapping[str, Any]) -> None:
        """What the trainer says of itself, once; and the order of the rows, always."""
        blocks = len(prompts) // size
        in_blocks = (
            blocks > 1
            and len(prompts) % size == 0
            and columns.get("environments") is None
            and prompts[0] != prompts[1]
            and all(prompt == prompts[row % blocks] for row, prompt in enumerate(prompts))
        )
        if in_blocks:
            raise BatchError(
                f"the {len(prompts)} prompts come in {size} blocks of {blocks}: this trainer (OnlineDPO does so) does "
                "not keep the completions of a prompt together, so no consecutive rows are a group"
            )
        if self._checked or view.trainer is None:
            return
        self._checked = True
        remarks = check_settings(
            view.trainer,
            mode=self.shaper.mode,
            deadline_s=self.shaper.deadline_s,
            num_generations=self.num_generations,
        )
        for remark in remarks:
            logger.warning("%s: %s", self.__name__, remark)
        names = [getattr(function, "__name__", "") for function in getattr(view.trainer, "reward_funcs", ())]
        if names.count(self.__name__) > 1:
            raise ConfigError(
                f"{names.count(self.__name__)} reward functions are called {self.__name__!r}, and TRL logs them under "
                "their names: set the __name__ of one of them"
            )

    def _rows(self, prompts: Sequence[Any], completions: Sequence[Any], columns: Mapping[str, Any]) -> Rows:
        rows, deadline_s = len(completions), self.shaper.deadline_s
        rewards = self.verifier(
            prompts,
            completions,
            columns,
            concurrency=self.shaper.concurrency,
            deadline_s=None if deadline_s is None else deadline_s / 2,  # other ranks wait deadline_s for this one
        )
        kept = {
            name: values
            for name, values in columns.items()
            if name not in NOT_COLUMNS and isinstance(values, (list, tuple)) and len(values) == rows
        }
        return Rows(prompts, completions, rewards, kept, columns.get("environments") is not None)

    def _log(self, view: TrainerView, columns: Mapping[str, Any], outcomes: Sequence[RowOutcome], call: _Call) -> None:
        functions = getattr(view.trainer, "reward_funcs", ())
        alone = sum(isinstance(function, GroupwiseReward) for function in functions) < 2
        if (log_extra := columns.get("log_extra")) is not None:
            prefix = "" if alone else f"{self.__name__}/"
            for name in COLUMNS:
                log_extra(prefix + name, [getattr(outcome, name) for outcome in outcomes])
        if (log_metric := columns.get("log_metric")) is not None:
            prefix = "groupwise/" if alone else f"{self.__name__}/"
            failures = self.verifier.failures - call.failures_before
            figures = self._metrics.of(call.shapes, judge_seconds=call.judge_seconds, verifier_failures=failures)
            figures |= call.cost
            if self.warmup is not None:
                figures["warming_up"] = float(self.warmup.warming)
            for name, figure in figures.items():
                log_metric(prefix + name, figure)

    def _say(self, peers: Processes) -> None:
        """A group that was judged in vain stands in that rank's log; here too, once per rank and kind."""
        for rank, reason in enumerate(peers.remarks):
            kind = f"{rank} {reason.partition(':')[0]}"
            if reason and rank != peers.rank and kind not in self._said:
                self._said.add(kind)
                logger.warning(
                    "a grader call failed on rank %d and its group keeps its original rewards: %s (logged once per "
                    "rank and kind)",
                    rank,
                    reason,
                )

    def __repr__(self) -> str:
        size = self.num_generations or "the trainer's size"
        return f"<{self.__name__}: {self.shaper}, groups of {size}>"


class _Call:
    """The groups that one rank shapes in one call."""

    def __init__(self, reward: GroupwiseReward, view: TrainerView, size: int) -> None:
        self.shaper, self.size = reward.shaper, size
        self.keep = reward.warmup is not None and reward.warmup.warming and view.training
        self.judge = (view.training or reward.judge_in_eval) and (reward.warmup is None or reward.warmup.grading)
        self.shrink = view.shrink if reward.shaper.mode == "advantage" else 1.0
        self.rewards: list[Sequence[float | None]] = []  # the verifier's
        self.shapes: list[GroupShape] = []
        self.groups: list[Group] = []  # for a warm-up
        self.judge_seconds = 0.0
        self.before = reward.shaper.judge_cost()
        self.cost = {} if self.before is None else {"judge_usd": 0.0, "judge_unpriced": 0.0}
        self.failures_before = reward.verifier.failures

    def shape(self, rows: Rows) -> list[RowOutcome]:
        """One outcome per row of whole groups."""
        self.judge_groups(rows)
        return self.outcomes()

    def judge_groups(self, rows: Rows) -> list[float]:
        """The shaped reward of each row of whole groups."""
        begin = time.monotonic()
        self.rewards = [rows.rewards[start : start + self.size] for start in range(0, len(rows), self.size)]
        columns = dict(rows.columns)
        given: dict[str, Any] = {
            "group_size": self.size,
            "task_id": columns.pop("task_id", None),
            "environments": rows.prompts if rows.differ else None,
            "columns": columns,
        }
        if self.judge:
            self.shapes = self.shaper.shape_groups(rows.rewards, rows.prompts, rows.completions, **given)
        else:
            self.shapes = [plain(group) for group in self.rewards]
        if self.keep:
            threshold = self.shaper.pass_threshold
            batch = Batch(rows.rewards, rows.prompts, rows.completions, pass_threshold=threshold, **given)
            self.groups = [batch.group(number) for number in range(batch.count)]
        self.judge_seconds = time.monotonic() - begin
        if (cost := self.shaper.judge_cost()) is not None and self.before is not None:
            self.cost["judge_usd"] = cost.usd - self.before.usd
            self.cost["judge_unpriced"] = float(cost.unknown - self.before.unknown)
        if self.shrink != 1.0:
            self.shapes = [_shrunk(shape, self.shrink) for shape in self.shapes]
        return [reward for shape in self.shapes for reward in shape.rewards]

    def outcomes(self) -> list[RowOutcome]:
        """What happened to each row, for the table of completions and for the ranks that share a group."""
        groups = zip(self.shapes, self.rewards, strict=True)
        return [outcome for shape, rewards in groups for outcome in outcomes_of(shape, rewards)]

    def failure(self) -> str:
        """The first failed call, if one failed."""
        return next((reason_of(failure) for shape in self.shapes for failure in shape.failures), "")


def _shrunk(shape: GroupShape, factor: float) -> GroupShape:
    mean = sum(reward / len(shape.rewards) for reward in shape.rewards)
    return shape._replace(rewards=[mean + factor * (reward - mean) for reward in shape.rewards])

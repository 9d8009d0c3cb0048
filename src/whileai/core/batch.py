"""A trainer's batch: rows in which `group_size` consecutive ones are the rollouts of one prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whileai.core.group import Group, as_reward, rollouts_of_batch
from whileai.errors import BatchError


class Batch:
    """A validated batch.

    Args:
        rewards: one per row; None, NaN and infinite ones are rows that could not be scored.
        prompts, completions: text, or lists of messages.
        group_size: rows of one group.
        pass_threshold: a reward of at least this is a pass.
        task_id: the task of each row.
        environments: given by trainers whose prompts may differ inside a group; prompts are then not compared.
        columns: dataset columns for the grader, each with one value per row.

    Raises:
        BatchError: lengths that do not match or do not split into groups, text prompts or task ids that differ
            inside a group (a wrong group size), a reward that is no number.
    """

    def __init__(
        self,
        rewards: Sequence[Any],
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        group_size: int,
        pass_threshold: float,
        task_id: Sequence[Any] | None = None,
        environments: Sequence[Any] | None = None,
        columns: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        if isinstance(group_size, bool) or not isinstance(group_size, int) or group_size < 1:
            raise BatchError(f"group_size={group_size!r}: a whole number of at least 1 is wanted")
        rows = len(completions)
        for name, values in (("rewards", rewards), ("prompts", prompts)):
            if len(values) != rows:
                raise BatchError(f"{len(values)} {name} for {rows} completions: one per row is wanted")
        if rows % group_size:
            raise BatchError(
                f"{rows} rows do not split into groups of {group_size}: {rows % group_size} rows are part of a group "
                "whose other rows are not in this batch"
            )
        for row, completion in enumerate(completions):
            if not isinstance(completion, (str, list, tuple)):
                raise BatchError(
                    f"completion {row} is {type(completion).__name__}: text or a list of messages is wanted"
                )
        self.size, self.count = group_size, rows // group_size
        self.prompts, self.completions = prompts, completions
        self.rewards = _rewards(rewards)
        self.passed = [reward is not None and reward >= pass_threshold for reward in self.rewards]
        self.columns = dict(columns or {})
        if task_id is not None:
            self.columns["task_id"] = task_id
        for name, values in self.columns.items():
            if isinstance(values, (str, bytes)) or not hasattr(values, "__len__") or len(values) != rows:
                found = f"{len(values)} values" if hasattr(values, "__len__") else type(values).__name__
                raise BatchError(f"{name} has {found} for {rows} rows: a list with one value per row is wanted")
        if environments is None:
            self._compare_prompts()
        self._compare_tasks()

    def bounds(self, number: int) -> tuple[int, int]:
        """First row of group `number`, and the row after its last."""
        start = number * self.size
        return start, start + self.size

    def task(self, number: int) -> Any:
        """The task id of group `number`; None without."""
        return self.columns["task_id"][number * self.size] if "task_id" in self.columns else None

    def group(self, number: int) -> Group:
        """Group `number` as a grader receives it: copies of whatever could be changed."""
        start, stop = self.bounds(number)
        columns = {name: values[start:stop] for name, values in self.columns.items()}
        return rollouts_of_batch(
            self.prompts[start:stop],
            self.completions[start:stop],
            self.rewards[start:stop],
            self.passed[start:stop],
            columns,
        )

    def _compare_prompts(self) -> None:
        prompts, size = self.prompts, self.size
        for start in range(0, len(prompts), size):
            first = prompts[start]
            if isinstance(first, str) and list(prompts[start : start + size]).count(first) != size:
                other = next(p for p in prompts[start : start + size] if p != first)
                raise BatchError(
                    f"rows {start} to {start + size - 1} are one group by group_size={size}, but their prompts differ "
                    f"({_short(first)} and {_short(other)}): is the group size right?"
                )

    def _compare_tasks(self) -> None:
        if "task_id" not in self.columns:
            return
        tasks, size = self.columns["task_id"], self.size
        for start in range(0, len(tasks), size):
            if any(task != tasks[start] for task in tasks[start : start + size]):
                raise BatchError(
                    f"rows {start} to {start + size - 1} are one group by group_size={size}, but their task_id differs "
                    f"({list(tasks[start : start + size])}): is the group size right?"
                )


def _rewards(rewards: Sequence[Any]) -> list[float | None]:
    if hasattr(rewards, "tolist"):
        rewards = rewards.tolist()
    if set(map(type, rewards)) == {float}:
        total = sum(rewards)
        if total - total == 0.0:  # finite, so every one of them is
            return list(rewards)
    return [as_reward(reward, f"row {row}") for row, reward in enumerate(rewards)]


def _short(prompt: Any) -> str:
    text = repr(prompt)
    return text if len(text) <= 60 else text[:57] + "..."

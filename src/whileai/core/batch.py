"""A trainer's batch: rows in which `group_size` consecutive ones are the rollouts of one prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Any

from whileai.core import knobs
from whileai.core.group import Group, as_reward, given, rollouts_of_batch
from whileai.core.values import shown
from whileai.errors import BatchError


class Batch:
    """A validated batch.

    Args:
        rewards: one per row; None, NaN and infinite ones are rows that could not be scored.
        prompts, completions: text, or lists of messages.
        group_size: rows of one group.
        pass_threshold: a reward of at least this is a pass.
        task_id: the task of each row; None and NaN are rows without one.
        environments: given by trainers whose prompts may differ inside a group; prompts are then not compared.
        columns: dataset columns for the grader, each with one value per row.

        Each of these is a list, or whatever is as long and has an order: a tuple, an array, a tensor.

    Raises:
        BatchError: lengths that do not match or do not split into groups, text prompts or task ids that differ
            inside a group (a wrong group size), a reward that is no number, columns that are no lists.
        ConfigError: a group size that is no whole number.
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
        knobs.whole("group_size", group_size, low=1)
        self.completions = _listed("completions", completions)
        rows, size = len(self.completions), int(group_size)
        self.prompts = _listed("prompts", prompts, rows)
        if rows % size:
            raise BatchError(
                f"{rows} rows do not split into groups of {size}: {rows % size} rows are part of a group "
                "whose other rows are not in this batch"
            )
        kinds = set(map(type, self.completions))
        if not kinds <= {str, list}:
            for row, completion in enumerate(self.completions):
                if not isinstance(completion, (str, list, tuple)):
                    raise BatchError(
                        f"completion {row} is {type(completion).__name__}: text or a list of messages is wanted"
                    )
        self.size, self.count = size, rows // size
        self.rewards = _rewards(_listed("rewards", rewards, rows))
        self.passed = [reward is not None and reward >= pass_threshold for reward in self.rewards]
        self.columns = {name: _listed(name, values, rows) for name, values in (columns or {}).items()}
        if task_id is not None:
            self.columns["task_id"] = [task if given(task) else None for task in _listed("task_id", task_id, rows)]
        self._bare = not self.columns and kinds == {str} and set(map(type, self.prompts)) == {str}
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
        size = self.size
        start = number * size
        stop = start + size
        prompts, completions = self.prompts[start:stop], self.completions[start:stop]
        rewards, passed = self.rewards[start:stop], self.passed[start:stop]
        if self._bare:
            return [
                {"index": index, "prompt": prompt, "completion": completion, "reward": reward, "passed": ok}
                for index, prompt, completion, reward, ok in zip(
                    range(size), prompts, completions, rewards, passed, strict=True
                )
            ]
        columns = {name: values[start:stop] for name, values in self.columns.items()}
        return rollouts_of_batch(prompts, completions, rewards, passed, columns)

    def _compare_prompts(self) -> None:
        prompts, size = self.prompts, self.size
        for start in range(0, len(prompts), size):
            first = prompts[start]
            if isinstance(first, str) and prompts[start : start + size].count(first) != size:
                other = next(prompt for prompt in prompts[start : start + size] if prompt != first)
                raise BatchError(
                    f"rows {start} to {start + size - 1} are one group by group_size={size}, but their prompts differ "
                    f"({shown(first, 60)} and {shown(other, 60)}): is the group size right?"
                )

    def _compare_tasks(self) -> None:
        tasks, size = self.columns.get("task_id", ()), self.size
        for start in range(0, len(tasks), size):
            group = tasks[start : start + size]
            if group.count(group[0]) != size:
                raise BatchError(
                    f"rows {start} to {start + size - 1} are one group by group_size={size}, but their task_id differs "
                    f"({shown(group)}): is the group size right?"
                )


def _listed(name: str, values: Any, rows: int | None = None) -> list[Any]:
    """One value per row as a list: equal to what was given, and ours where it was no list."""
    if type(values) is not list:
        values = values.tolist() if hasattr(values, "tolist") else values
        if isinstance(values, (str, bytes, Mapping, set, frozenset)) or not isinstance(values, Sized):
            raise BatchError(f"{name} is {shown(values, 60)}: a list with one value per row is wanted")
        values = list(values)  # type: ignore[call-overload]
    if rows is not None and len(values) != rows:
        raise BatchError(f"{len(values)} {name} for {rows} completions: a list with one value per row is wanted")
    return values  # type: ignore[no-any-return]


def _rewards(rewards: list[Any]) -> list[float | None]:
    if set(map(type, rewards)) <= {float, int, bool}:
        try:
            values = list(map(float, rewards))
        except OverflowError:
            values = []
        total = sum(values)
        if values and total - total == 0.0:  # finite, so every one of them is
            return values  # type: ignore[return-value]
    return [as_reward(reward, f"row {row}") for row, reward in enumerate(rewards)]

"""Groups of rollouts, from a trainer's batch and from rows that were kept.

A rollout is a plain dict, as the method's page has it: `index` (position in the group), `prompt`, `completion`
(always text), `reward` (float, or None where the verifier could not score it), `passed`; and, where they exist,
`messages` (the completion's own), `task_id` and the dataset's columns. A group is a list of them. Graders may
change what they receive: lists and dicts in it are copies.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whileai.core.rollout import completion_text, copy_json
from whileai.errors import BatchError
from whileai.simulations.defaults import GROUPWISE_PASS_THRESHOLD

Rollout = dict[str, Any]
Group = list[Rollout]

GROUP_KEYS = ("group_id", "scenario_id", "task_id", "prompt")
"""What says that rows belong to one group: the first of these that a row has."""

TASK_KEYS = ("task_id", "scenario_id", "group_id")
"""What names the task of a row, for its rubric: the first of these that a row has."""

RESERVED = frozenset({"index", "prompt", "completion", "reward", "passed", "messages"})
"""Keys of a rollout that a dataset's column never overrides."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One group out of a list of rows. `positions` are the numbers of its rows, in the order of `rollouts`."""

    key: str
    positions: tuple[int, ...]
    rollouts: Group


def groups_from_rows(
    rows: Sequence[Mapping[str, Any]],
    *,
    group_size: int | None = None,
    pass_threshold: float = GROUPWISE_PASS_THRESHOLD,
) -> list[RowGroup]:
    """Rows by group, in order of first appearance.

    Args:
        rows: mappings with `reward`, one of `GROUP_KEYS`, and `completion`, `messages` or `final_text`.
        group_size: rollouts a training group has; the rows of one key are then cut into groups of that size
            (the last one may be smaller).

    Raises:
        BatchError: a row has no key, no reward or no completion; it names the row and what it lacks.
    """
    if group_size is not None and (isinstance(group_size, bool) or group_size < 1):
        raise BatchError(f"group_size={group_size!r}: a group has at least one rollout")
    positions: dict[tuple[str, str], list[int]] = {}
    for number, row in enumerate(rows):
        positions.setdefault(_group_key(row, number), []).append(number)
    groups = []
    for (_, key), found in positions.items():
        step = group_size or len(found)
        for start in range(0, len(found), step):
            members = tuple(found[start : start + step])
            rollouts = [
                rollout_from_row(rows[number], index, number=number, pass_threshold=pass_threshold)
                for index, number in enumerate(members)
            ]
            groups.append(RowGroup(key, members, rollouts))
    return groups


def rollout_from_row(
    row: Mapping[str, Any],
    index: int,
    *,
    number: int | None = None,
    pass_threshold: float = GROUPWISE_PASS_THRESHOLD,
) -> Rollout:
    """One row as the rollout at `index` of its group. `number` is the row's own, for error messages.

    The completion is `completion` (text, or a list of messages), else what follows the prompt in `messages`,
    else `final_text`.
    """
    where = f"row {index if number is None else number}"
    if not isinstance(row, Mapping):
        raise BatchError(f"{where} is {type(row).__name__}, not a mapping with reward and completion")
    if "reward" not in row:
        raise BatchError(f"{where} has no `reward`; it has {_listed(row)}")
    reward = as_reward(row["reward"], where)
    prompt, messages = row.get("prompt"), row.get("messages")
    if messages is not None:
        if not isinstance(messages, (list, tuple)):
            raise BatchError(f"{where}: `messages` is {type(messages).__name__}, not a list of messages")
        lead, messages = _split_prompt(messages)
        prompt = lead if prompt is None else prompt
    completion = row.get("completion")
    if isinstance(completion, (list, tuple)):
        messages, completion = completion, completion_text(completion)
    elif completion is None and messages is not None:
        completion = completion_text(messages)
    elif completion is None:
        completion = row.get("final_text")
    if not isinstance(completion, str):
        raise BatchError(
            f"{where} has no completion: give `completion`, `messages` or `final_text`; it has {_listed(row)}"
        )
    rollout: Rollout = {
        "index": index,
        "prompt": "" if prompt is None else copy_json(prompt),
        "completion": completion,
        "reward": reward,
        "passed": reward is not None and reward >= pass_threshold,
    }
    if messages is not None:
        rollout["messages"] = [copy_json(message) for message in messages]
    for name, value in row.items():
        if name not in RESERVED:
            rollout[name] = copy_json(value)
    task = next((row[name] for name in TASK_KEYS if row.get(name) is not None), None)
    if task is not None:
        rollout["task_id"] = task
    return rollout


def rollouts_of_batch(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    rewards: Sequence[float | None],
    passed: Sequence[bool],
    columns: Mapping[str, Sequence[Any]],
) -> Group:
    """The rollouts of one group of a trainer's batch; all arguments are that group's own, of one length."""
    if not columns and set(map(type, completions)) == {str} and type(prompts[0]) is str:
        return [
            {"index": i, "prompt": prompt, "completion": completion, "reward": reward, "passed": ok}
            for i, (prompt, completion, reward, ok) in enumerate(
                zip(prompts, completions, rewards, passed, strict=True)
            )
        ]
    group = [
        _rollout(i, prompt, completion, reward, ok)
        for i, (prompt, completion, reward, ok) in enumerate(zip(prompts, completions, rewards, passed, strict=True))
    ]
    for name, values in columns.items():
        if name not in RESERVED:
            for rollout, value in zip(group, values, strict=True):
                rollout[name] = copy_json(value)
    return group


def as_reward(value: Any, where: str) -> float | None:
    """A verifier's reward as a float; None where it could not score (None, NaN or infinite)."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            raise TypeError
        reward = float(value)
    except (TypeError, ValueError):
        raise BatchError(f"{where}: reward {value!r} is not a number") from None
    return reward if math.isfinite(reward) else None


def _rollout(index: int, prompt: Any, completion: Any, reward: float | None, passed: bool) -> Rollout:
    text = completion if isinstance(completion, str) else completion_text(completion)
    rollout = {"index": index, "prompt": copy_json(prompt), "completion": text, "reward": reward, "passed": passed}
    if text is not completion:
        rollout["messages"] = copy_json(list(completion))
    return rollout


def _group_key(row: Any, number: int) -> tuple[str, str]:
    if not isinstance(row, Mapping):
        raise BatchError(f"row {number} is {type(row).__name__}, not a mapping with reward and completion")
    for name in GROUP_KEYS:
        value = row.get(name)
        if value is not None:
            return name, value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    raise BatchError(f"row {number} says no group: give one of {', '.join(GROUP_KEYS)}; it has {_listed(row)}")


def _split_prompt(messages: Sequence[Any]) -> tuple[list[Any], Sequence[Any]]:
    """A whole conversation as prompt and completion: the completion begins where the policy first acts."""
    for position, message in enumerate(messages):
        if isinstance(message, Mapping) and message.get("role") in ("assistant", "tool", "function"):
            return copy_json(list(messages[:position])), messages[position:]
    return copy_json(list(messages)), ()


def _listed(row: Mapping[str, Any]) -> str:
    return ", ".join(map(str, row)) or "no keys"

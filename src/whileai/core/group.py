"""Groups of rollouts, from a trainer's batch and from rows that were kept.

A rollout is a plain dict, as the method's page has it: `index` (position in the group), `prompt`, `completion`
(always text), `reward` (float, or None where the verifier could not score it), `passed`; and, where they exist,
`messages` (the completion's own), `task_id` and the dataset's columns. A group is a list of them. Graders may
change what they receive: lists and dicts in it are copies.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whileai.core import knobs
from whileai.core.rollout import completion_text, copy_json
from whileai.core.values import as_float, shown, unwrapped
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
    rows: Iterable[Mapping[str, Any]],
    *,
    group_size: int | None = None,
    pass_threshold: float = GROUPWISE_PASS_THRESHOLD,
) -> list[RowGroup]:
    """Rows by group, in order of first appearance.

    Args:
        rows: mappings with `reward`, one of `GROUP_KEYS`, and `completion`, `messages` or `final_text`. A value
            that is None or NaN counts as absent, and so does an empty id.
        group_size: rollouts a training group has; the rows of one key are then cut into groups of that size
            (the last one may be smaller).

    Raises:
        BatchError: a row has no key, no reward or no completion; it names the row and what it lacks.
        ConfigError: a group size that is no whole number.
    """
    if group_size is not None:
        knobs.whole("group_size", group_size, low=1)
    if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
        raise BatchError(f"rows={shown(rows, 60)}: a list of mappings is wanted")
    kept: list[Mapping[str, Any]] = []
    found: dict[tuple[str, bool, str], list[int]] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise BatchError(
                f"row {number} is {type(row).__name__}, not a mapping with reward and completion (a data frame gives "
                "mappings with .to_dict('records'))"
            )
        kept.append(row)
        found.setdefault(_group_key(row, number), []).append(number)
    groups = []
    for (_, _, key), numbers in found.items():
        step = len(numbers) if group_size is None else int(group_size)
        for start in range(0, len(numbers), step):
            members = tuple(numbers[start : start + step])
            rollouts = [
                rollout_from_row(kept[number], index, number=number, pass_threshold=pass_threshold)
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
    else `final_text`. The prompt is what the policy was really given: the messages that lead up to its first act,
    and only where there are none what stands in `prompt` alone (often a title, or what a simulated user was told).
    """
    where = f"row {index if number is None else number}"
    if not isinstance(row, Mapping):
        raise BatchError(f"{where} is {type(row).__name__}, not a mapping with reward and completion")
    if "reward" not in row:
        raise BatchError(f"{where} has no `reward`; it has {_named(row)}")
    reward = as_reward(row["reward"], where)
    prompt, messages, completion = (
        value if given(value := row.get(name)) else None for name in ("prompt", "messages", "completion")
    )
    if messages is not None:
        if not isinstance(messages, (list, tuple)):
            raise BatchError(f"{where}: `messages` is {type(messages).__name__}, not a list of messages")
        lead, messages = _split_prompt(messages, prompt)
        prompt = lead if lead or prompt is None else prompt
    if isinstance(completion, (list, tuple)):
        messages, completion = completion, completion_text(completion)
    elif completion is None and messages is not None:
        completion = completion_text(messages)
    elif completion is None and given(row.get("final_text")):
        completion = row["final_text"]
    if not isinstance(completion, str):
        what = f"a completion that is {type(completion).__name__}" if completion is not None else "no completion"
        raise BatchError(
            f"{where} has {what}: give `completion` (text, or a list of messages), `messages` or `final_text`; it "
            f"has {_named(row)}"
        )
    rollout: Rollout = {
        "index": index,
        "prompt": "" if prompt is None else copy_json(prompt),
        "completion": completion,
        "reward": reward,
        "passed": reward is not None and reward >= pass_threshold,
    }
    if messages is not None:
        rollout["messages"] = copy_json(list(messages))
    for name, value in row.items():
        if name not in RESERVED:
            rollout[name] = copy_json(value)
    task = next((name for name in TASK_KEYS if is_id(row.get(name))), None)
    if task is not None:
        rollout["task_id"] = rollout[task]
    return rollout


def rollouts_of_batch(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    rewards: Sequence[float | None],
    passed: Sequence[bool],
    columns: Mapping[str, Sequence[Any]],
) -> Group:
    """The rollouts of one group of a trainer's batch; all arguments are that group's own, of one length."""
    group = []
    for index, (prompt, completion, reward, ok) in enumerate(zip(prompts, completions, rewards, passed, strict=True)):
        text = completion if isinstance(completion, str) else completion_text(completion)
        rollout = {"index": index, "prompt": copy_json(prompt), "completion": text, "reward": reward, "passed": ok}
        if text is not completion:
            rollout["messages"] = copy_json(list(completion))
        for name, values in columns.items():
            if name not in RESERVED:
                rollout[name] = copy_json(values[index])
        group.append(rollout)
    return group


def as_reward(value: Any, where: str) -> float | None:
    """A verifier's reward as a float; None where it could not score (None, NaN or infinite)."""
    if value is None:
        return None
    reward = as_float(value)
    if reward is None:
        raise BatchError(f"{where}: reward {shown(value, 60)} is not a number that a float can hold")
    return reward if math.isfinite(reward) else None


def given(value: Any) -> bool:
    """There is a value: neither None nor NaN, which is how tables write an empty cell."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def is_id(value: Any) -> bool:
    """There is an id: 0 is one, "" is none."""
    return given(value) and value != ""


def require_one_group(rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise `BatchError` where rows say that they are of several groups."""
    first: dict[str, tuple[int, Any]] = {}
    for number, row in enumerate(rows):
        name = _key_name(row)
        if name is None or not isinstance(row[name], (str, int)):  # prompts that are messages are not compared
            continue
        before, value = first.setdefault(name, (number, row[name]))
        if value != row[name]:
            raise BatchError(
                f"rows {before} and {number} are not of one group: their {name} is {shown(value, 60)} and "
                f"{shown(row[name], 60)}; group() shapes the rows of one group, grade_rows() those of many"
            )


def require_columns(name: str, needed: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Hold rows or rollouts against the columns that a grader declares: without them none of its calls gives a verdict.

    Raises:
        BatchError: one of them lacks one of `needed`; says which, for the grader `name`, and the nearest that it has.
    """
    for number, row in enumerate(rows if needed else ()):
        for column in needed:
            if column not in row:
                near = difflib.get_close_matches(column, row, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(row)}"
                raise BatchError(f"{name} needs the column {column!r}, which row {number} does not have; {hint}")


def _group_key(row: Mapping[str, Any], number: int) -> tuple[str, bool, str]:
    """Name, whether the id is text ("0" is not 0), and the id."""
    name = _key_name(row)
    if name is None:
        raise BatchError(f"row {number} says no group: give one of {', '.join(GROUP_KEYS)}; it has {_named(row)}")
    value = row[name]
    if isinstance(value, str):
        return name, True, value
    value = unwrapped(value)
    if isinstance(value, float) and value.is_integer():  # whole numbers of a column with empty cells
        value = int(value)
    try:
        return name, False, json.dumps(value, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError) as error:
        raise BatchError(f"row {number}: `{name}` is {shown(value, 60)}, which names no group: {error}") from None


def _key_name(row: Mapping[str, Any]) -> str | None:
    """Which of the row's values says its group. A prompt may be empty, an id may not."""
    return next((key for key in GROUP_KEYS if (given if key == "prompt" else is_id)(row.get(key))), None)


def _split_prompt(messages: Sequence[Any], prompt: Any) -> tuple[list[Any], Sequence[Any]]:
    """A whole conversation as prompt and completion: the completion begins after the prompt, where that is known
    and stands first, else where the policy first acts. A prompt's messages that do not lead are put before."""
    known = list(prompt) if isinstance(prompt, (list, tuple)) else []
    if known and list(messages[: len(known)]) == known:
        return known, messages[len(known) :]
    begin = len(messages)
    for position, message in enumerate(messages):
        if isinstance(message, Mapping) and message.get("role") in ("assistant", "tool", "function"):
            begin = position
            break
    lead = list(messages[:begin])
    return [*(message for message in known if message not in lead), *lead], messages[begin:]


def _named(row: Mapping[str, Any]) -> str:
    return ", ".join(map(str, row)) or "no keys"

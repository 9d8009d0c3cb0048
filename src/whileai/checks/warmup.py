"""Warm-up: training on plain rewards until enough groups are there to check the grader on, and then deciding.

The part that no trainer knows about: what is kept, when to check, and what an answer means. A trainer's adapter
gives it the groups of each call, asks on every rank with the counts of all ranks, lets one rank check, and tells
every rank the answer, so that all ranks switch on the same call.

    collecting --enough--> check --yes--> graded
        ^                    |---no-----> plain
        '--- at double ------'            plain, at the second "not enough data"
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from whileai.checks.report import Answer
from whileai.core.group import Group
from whileai.core.knobs import whole
from whileai.core.rollout import copy_json

State = Literal["collecting", "graded", "plain"]


class Recorder:
    """Appends groups to a file of rows, one JSON object per line, each group in one write."""

    def __init__(self, path: str | Path, rank: int = 0, world: int = 1) -> None:
        """`path` is the file with one process; with several each rank writes `NAME.rankN.jsonl`."""
        given = Path(path)
        self.path = given if world == 1 else given.with_name(f"{given.stem}.rank{rank}{given.suffix}")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()  # a path that cannot be written fails before training begins

    def write(self, rows: Sequence[dict[str, Any]]) -> None:
        text = "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        with os.fdopen(handle, "ab", buffering=0) as file:
            file.write(text.encode("utf-8", "backslashreplace"))


class Warmup:
    """One rank's view of a warm-up.

    Args:
        groups: groups with two or more passes, over all ranks, that the check is made on.
        recorder: where they are written too; None: nowhere.

    Attributes:
        state: "collecting": plain rewards, and groups are kept; "graded": the grader shapes rewards; "plain":
            the check said no, or twice that there is not enough data, and rewards stay plain.
        target: how many groups the next check waits for.
        answers: what the checks said so far.
    """

    def __init__(self, groups: int, recorder: Recorder | None = None) -> None:
        whole("warmup_groups", groups, low=1)
        self.state: State = "collecting"
        self.target = int(groups)
        self.answers: list[Answer] = []
        self.rows: list[dict[str, Any]] = []
        self._recorder = recorder
        self._groups = 0
        # Ids of this run's own: a file that an earlier run has begun may be appended to, and the rows of
        # several ranks may be put together.
        self._run = uuid.uuid4().hex[:8]

    @property
    def count(self) -> int:
        """Groups that this rank has kept."""
        return self._groups

    def add(self, groups: Sequence[Group]) -> None:
        """Keep the groups of one call that have two or more passes. Does nothing once it is decided."""
        if self.state != "collecting":
            return
        kept = []
        for group in groups:
            if sum(bool(rollout["passed"]) for rollout in group) >= 2:
                kept += rows_of_group(group, f"{self._run}-{self._groups}")
                self._groups += 1
        self.rows += kept
        if self._recorder is not None and kept:
            self._recorder.write(kept)

    def due(self, counts: Sequence[int]) -> bool:
        """Whether to check now. `counts` are the `count` of all ranks, so that every rank answers the same."""
        return self.state == "collecting" and sum(counts) >= self.target

    def settle(self, answer: Answer) -> State:
        """Take the check's answer, on every rank; returns the new state.

        Yes: graded. No: plain. Not enough data: once more at double, and then plain. The kept groups are let go
        once nothing will be checked any more.
        """
        if self.state != "collecting":
            raise RuntimeError(f"the warm-up is over: {self.state}")
        self.answers.append(answer)
        if answer == "yes":
            self.state = "graded"
        elif answer == "no" or self.answers.count("not enough data") > 1:
            self.state = "plain"
        else:
            self.target *= 2
        if self.state != "collecting":
            self.rows = []
        return self.state


def rows_of_group(group: Group, group_id: str) -> list[dict[str, Any]]:
    """The rollouts of a training group as rows that `read_rows` reads back.

    A rollout with messages is kept as messages; its own `task_id` stays beside the `group_id` given here. What
    JSON cannot hold (images, tensors) is left out.
    """
    rows = []
    for rollout in group:
        row: dict[str, Any] = {"group_id": group_id}
        for key, value in rollout.items():
            if key not in ("index", "passed", "group_id") and _is_json(value):
                row[key] = copy_json(value)
        if "messages" in row:
            row["completion"] = row.pop("messages")
        rows.append(row)
    return rows


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True

"""Calls the user's verifier on a batch, and keeps a run alive through what it cannot score.

A verifier returns one reward per row: a number, or None, NaN or an infinity where it could not score. If it
raises, its rows are tried one by one, and those that raise again could not be scored.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from whileai.core.group import as_reward
from whileai.engine.loop import run_on_loop
from whileai.engine.schedule import run_calls
from whileai.errors import BatchError

logger = logging.getLogger("whileai")

Verifier = Callable[..., Sequence[Any] | Awaitable[Sequence[Any]]]

BLIND_BATCHES = 3
"""A verifier that raised for every row of this many batches, and never scored one, is a mistake: it ends the run."""


class VerifierCalls:
    """A verifier, and whether it ever scored a row. `failures` counts the rows for which it raised."""

    def __init__(self, verifier: Verifier) -> None:
        if not callable(verifier):
            raise BatchError(f"verifier={verifier!r}: a callable is wanted")
        self.verifier = verifier
        self.failures = 0
        self._blind: int | None = 0  # batches without a single answer; None once there was one

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        keywords: Mapping[str, Any],
        *,
        concurrency: int,
        deadline_s: float | None,
    ) -> list[float | None]:
        """One reward per row; None where it could not score.

        Args:
            prompts, completions: one per row.
            keywords: what else the trainer gave. Lists with one value per row are cut for a row of its own.
            concurrency: calls in flight at most, where an async verifier is tried row by row.
            deadline_s: seconds for the rows that are tried one by one; None for no limit.

        Raises:
            BatchError: another number of rewards than rows, or a reward that is no number.
        """
        try:
            found = self.verifier(prompts=prompts, completions=completions, **keywords)
            if isinstance(found, Awaitable):
                found = run_on_loop(found)
        except Exception as error:  # noqa: BLE001 - the boundary around the user's callable
            return self._row_by_row(error, prompts, completions, keywords, concurrency, deadline_s)
        self._blind = None
        return _rewards(found, len(completions))

    def _row_by_row(
        self,
        error: Exception,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        keywords: Mapping[str, Any],
        concurrency: int,
        deadline_s: float | None,
    ) -> list[float | None]:
        rows = len(completions)

        def score(row: int) -> Any:
            own = {
                name: _silent if name in ("log_extra", "log_metric") else _one(value, row, rows)
                for name, value in keywords.items()
            }
            return self.verifier(prompts=[prompts[row]], completions=[completions[row]], **own)

        outcomes = run_calls(
            score,
            range(rows),
            concurrency=concurrency if inspect.iscoroutinefunction(self.verifier) else 1,
            deadline_s=deadline_s,
            read=lambda found, _: _rewards(found, 1)[0],
        )
        failed = [row for row, outcome in enumerate(outcomes) if isinstance(outcome, BaseException)]
        for outcome in outcomes:
            if isinstance(outcome, BatchError):
                raise outcome
        self.failures += len(failed)
        if len(failed) < rows:
            self._blind = None
        elif self._blind is not None:
            self._blind += 1
            if self._blind >= BLIND_BATCHES:
                raise error
        logger.error(
            "the verifier raised %s: %s; tried one by one, %d of %d rows raised again and cannot be scored: they "
            "take their group's mean, an advantage of 0%s",
            type(error).__name__,
            error,
            len(failed),
            rows,
            "" if self._blind is None else f" (at {BLIND_BATCHES} such batches without a single score the run ends)",
            exc_info=error,
        )
        return [None if isinstance(outcome, BaseException) else outcome for outcome in outcomes]


def _rewards(found: Any, rows: int) -> list[float | None]:
    if hasattr(found, "tolist"):
        found = found.tolist()
    listed = isinstance(found, Sequence) and not isinstance(found, (str, bytes))
    if not listed or len(found) != rows:
        what = f"{len(found)} rewards" if listed else type(found).__name__
        raise BatchError(f"the verifier returned {what} for {rows} completions: one per completion is wanted")
    if set(map(type, found)) == {float} and (total := sum(found)) - total == 0.0:  # finite, so every one of them is
        return list(found)
    return [as_reward(reward, f"row {row}") for row, reward in enumerate(found)]


def _one(value: Any, row: int, rows: int) -> Any:
    return [value[row]] if isinstance(value, (list, tuple)) and len(value) == rows else value


def _silent(*_: Any, **__: Any) -> None:
    """Stands in for the trainer's loggers: a row that is tried again was logged, or its table has other lengths."""

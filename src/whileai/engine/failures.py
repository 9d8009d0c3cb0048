"""Failed grader calls, made heard without drowning the log.

Training goes on when a grader fails, so the log is how anybody learns of it: each kind once, a task without a
rubric once, and an outage every time. `GradingStats` counts them all.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Collection, Sequence

from whileai.engine.rubrics import MISSING
from whileai.errors import WhileaiError, kind_and_reason

logger = logging.getLogger("whileai")

MAX_NAMED_TASKS = 1000
"""Tasks without a rubric that the log names, each once; memory stays bounded however many there are."""

OUTAGE_FROM = 64
"""Calls that come one by one are an outage when this many in a row failed, and again at each doubling."""


class FailureLog:
    """What was already said about one grader."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._named: set[str] = set()
        self._in_a_row = 0

    def tell(self, failures: Sequence[BaseException], new_kinds: Collection[str], calls: int) -> None:
        """Log what is worth it of one batch.

        Args:
            failures: of its calls, in order, and for each task without a rubric.
            new_kinds: kinds that no batch before had.
            calls: how many calls could have failed.
        """
        told = [(*kind_and_reason(failure), failure) for failure in failures]
        for line in self._not_named({reason for kind, reason, _ in told if kind == MISSING}):
            logger.warning("%s; its passes keep their original rewards (logged once per task)", line)
        told = [entry for entry in told if entry[0] != MISSING]
        if outage := self._outage(len(told), calls):
            kinds = Counter(kind for kind, _, _ in told)
            kind, reason, first = told[0]
            logger.error(
                "all %d grader calls failed, and their groups keep their original rewards; first: %s: %s (kinds: %s)",
                outage,
                kind,
                reason,
                ", ".join(f"{kind} {count}" for kind, count in kinds.items()),
                exc_info=_traceback(first) if kind in new_kinds else None,  # once is enough in a long run
            )
            return
        seen: set[str] = set()
        for kind, reason, failure in told:
            if kind in new_kinds and kind not in seen:
                seen.add(kind)
                logger.warning(
                    "a grader call failed and its group keeps its original rewards: %s: %s (logged once per kind; "
                    "stats.failures counts them)",
                    kind,
                    reason,
                    exc_info=_traceback(failure),
                )

    def _not_named(self, lines: set[str]) -> list[str]:
        with self._lock:
            room = MAX_NAMED_TASKS - len(self._named)  # -1 when it was said that no more are named
            new = sorted(lines - self._named)
            if len(new) > room >= 0:
                new[room:] = [f"more than {MAX_NAMED_TASKS} tasks have no rubric, and no more are named: another one"]
            new = new[: max(0, room + 1)]
            self._named.update(new)
            return new

    def _outage(self, failed: int, calls: int) -> int:
        """How many calls an outage took, if this batch is one or ends one that is to be told; else 0."""
        if calls == 0:
            return 0
        with self._lock:
            self._in_a_row = row = self._in_a_row + failed if failed == calls else 0
        if calls > 1:
            return calls if failed == calls else 0
        return row if row >= OUTAGE_FROM and row.bit_count() == 1 else 0

    def __reduce__(self) -> tuple[type[FailureLog], tuple[()]]:
        """In another process nothing was said yet."""
        return FailureLog, ()


def _traceback(failure: BaseException) -> BaseException | None:
    """Where the user's own code failed; errors of ours say it all in a line."""
    return None if isinstance(failure, WhileaiError) else failure

"""The errors of whileai, each in the terms of the person who meets it.

    WhileaiError
    ├── ConfigError (ValueError)            a knob has a value that cannot work
    ├── BatchError (ValueError)             a batch, a group or a row of rollouts cannot be read
    │   └── RowError                        one row of a file: its line and its key
    ├── SpecError (ValueError)              a spec, golden or configuration file has mistakes: all of them
    ├── SpreadError (ValueError)            the grader does not tell these passes apart
    ├── UncheckedGraderError                a compiled grader has no valid certificate
    ├── GraderFailure                       one call of a grader gave no usable verdict; always has a kind
    │   ├── UnusableVerdict (ValueError)    it answered, and the answer cannot be used
    │   ├── ModelsFailed                    no model of a judge's list gave a usable reply: why, for each
    │   ├── GraderTimeout (TimeoutError)    it did not answer within `timeout_s`
    │   └── DeadlineExceeded (TimeoutError) the batch's `deadline_s` was over before it answered
    ├── RankError (RuntimeError)            another process of the run failed, or did not come in time
    └── ProviderError                       a model endpoint gave no reply that can be used
        ├── TransportError                  no answer, or one that may heal: retried
        ├── RefusedRequest                  an answer that the same request never heals
        ├── BudgetExceeded                  the run's budget is spent: no new call is made
        └── RecordingMissing (LookupError)  `recorded:` has no reply for this request

`GraderFailure`, and whatever a grader itself raises, never leaves a batch: that group keeps its original
rewards and `stats.failures` counts the kind. Every error here pickles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class WhileaiError(Exception):
    """Whatever whileai raises on purpose."""


class ConfigError(WhileaiError, ValueError):
    """A knob has a value that cannot work."""


class BatchError(WhileaiError, ValueError):
    """A batch, a group or a row of rollouts cannot be read."""


class RowError(BatchError):
    """One row of a file cannot be read."""


@dataclass(frozen=True)
class Problem:
    """One mistake in a file: where it stands, what is wrong, and the remedy."""

    file: str
    line: int | None
    key: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        key = f" {self.key}:" if self.key else ""
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{place}:{key} {self.message}{remedy}"


class SpecError(WhileaiError, ValueError):
    """A spec, golden or configuration file has mistakes; `problems` lists every one of them."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class SpreadError(WhileaiError, ValueError):
    """The grader does not tell these passes apart; `report` says what was seen, if anything was."""

    def __init__(self, message: str, report: Any = None) -> None:
        super().__init__(message, report)
        self.report = report

    def __str__(self) -> str:
        return str(self.args[0])


class UncheckedGraderError(WhileaiError):
    """A compiled grader has no valid certificate; the message names the command that makes one."""


class GraderFailure(WhileaiError):
    """One call of a grader gave no usable verdict. `kind` is a short stable name that statistics count by."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class UnusableVerdict(GraderFailure, ValueError):
    """The grader answered, and the answer cannot be used as a verdict on this group."""


@dataclass(frozen=True)
class LinkFailure:
    """Why one model of a judge's list gave nothing usable.

    `model` is `role=provider:name`; `requests` were sent to it; `replied` says whether it gave a reply at all.
    """

    model: str
    kind: str
    reason: str
    requests: int
    replied: bool

    def __str__(self) -> str:
        return f"{self.model} ({self.requests} requests): {self.kind}: {self.reason}"


class ModelsFailed(GraderFailure):
    """No model of a judge's list gave a usable reply; `links` says why, for each that was tried."""

    def __init__(self, kind: str, reason: str, links: tuple[LinkFailure, ...] = ()) -> None:
        super().__init__(kind, reason)
        self.args = (kind, reason, links)
        self.links = links


BROKEN_JUDGE = "broken_judge"
"""The kind of failure in reward mode where a rollout imitates what only the harness may write, and no reply on it can
be used: it then gets the lowest product of its group."""


class GraderTimeout(GraderFailure, TimeoutError):
    """A grader call did not answer within `timeout_s`."""


class DeadlineExceeded(GraderFailure, TimeoutError):
    """The batch's `deadline_s` was over before this call answered."""


class RankError(WhileaiError, RuntimeError):
    """Another process of the run failed, or did not come in time; `ranks` are the ones that are known to have."""

    def __init__(self, message: str, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(message, ranks)
        self.ranks = ranks

    def __str__(self) -> str:
        return str(self.args[0])


class ProviderError(WhileaiError):
    """A model endpoint gave no reply that can be used. `kind` is a short stable name.

    `steps` names what the endpoint had been asked for again without, a request each, before this one failed.
    """

    steps: tuple[str, ...] = ()

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(kind, reason)
        self.kind = kind
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class TransportError(ProviderError):
    """No answer, or an answer that may heal: retried. `retry_after` is in seconds, where the server said so."""

    def __init__(self, kind: str, reason: str, retry_after: float | None = None) -> None:
        super().__init__(kind, reason)
        self.args = (kind, reason, retry_after)
        self.retry_after = retry_after


class RefusedRequest(ProviderError):
    """The endpoint refused, and the same request will never succeed."""


class BudgetExceeded(ProviderError):
    """The run's budget is spent; no new call is made."""


class RecordingMissing(ProviderError, LookupError):
    """`recorded:` has no reply for this request; the message says how to record one."""


NOT_MADE = frozenset({"budget", "recording_missing", "no_key", "resting"})
"""Kinds of failures in which nothing was asked: they say nothing about the grader."""

REASON_CHARS = 500
"""Of a reason, as statistics, reports and logs keep it; the traceback has the rest."""


def kind_and_reason(failure: BaseException) -> tuple[str, str]:
    """What statistics count a failed call by, and why it failed: one line that can be printed anywhere.

    Whatever a grader raises that has no kind of its own is of the kind "raised".
    """
    own = isinstance(failure, (GraderFailure, ProviderError))
    try:
        text = str(failure)
    except Exception:  # noqa: BLE001 - a user's own exception, whose __str__ may be as broken as its grader
        text = "(its message cannot be read)"
    name = type(failure).__name__
    words = " ".join(text[: 4 * REASON_CHARS].split())
    line = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in words)
    reason = line if own else f"{name}: {line}" if line else name
    return (
        failure.kind if own else "raised",  # type: ignore[attr-defined]
        reason if len(reason) <= REASON_CHARS else reason[: REASON_CHARS - 3] + "...",
    )

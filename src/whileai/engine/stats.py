"""What the calls of one grader came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from whileai.engine.cost import Cost
from whileai.engine.exchange import Attempt


@dataclass(frozen=True, slots=True)
class CallStats:
    """Counts since the grader was compiled, as they stood when this was taken.

    `answered` counts the calls that each model answered, by its label; `cached` of them cost nothing. `failed` counts
    the calls that no model answered, by kind. `requests` were sent, `retried` of them after no answer, `repaired`
    after a reply that could not be used, `lengthened` after one that was cut.
    """

    calls: int = 0
    answered: Mapping[str, int] = field(default_factory=dict)
    cached: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    requests: int = 0
    retried: int = 0
    repaired: int = 0
    lengthened: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: Cost = field(default_factory=Cost)

    def __str__(self) -> str:
        by = ", ".join(f"{model} {count}" for model, count in self.answered.items()) or "none"
        failed = ", ".join(f"{kind} {count}" for kind, count in self.failed.items())
        return (
            f"{self.calls} calls, answered by {by} ({self.cached} from the cache)"
            + (f", failed: {failed}" if failed else "")
            + f"; {self.requests} requests ({self.retried} retries, {self.repaired} repairs), {self.cost}"
        )


@dataclass(slots=True)
class Counting:
    """The counts as they grow. Only the background loop writes them."""

    calls: int = 0
    answered: Counter[str] = field(default_factory=Counter)
    cached: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    requests: int = 0
    whys: Counter[str] = field(default_factory=Counter)
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: Cost = field(default_factory=Cost)

    def add(self, attempt: Attempt) -> None:
        self.requests += 1 + len(attempt.steps)
        self.whys[attempt.why] += 1
        self.cost += attempt.cost
        if attempt.reply is not None:
            usage = attempt.reply.usage
            self.input_tokens += usage.input or 0
            self.cached_tokens += usage.cached or 0
            self.output_tokens += usage.output or 0

    def snapshot(self) -> CallStats:
        return CallStats(
            calls=self.calls,
            answered=dict(self.answered),
            cached=self.cached,
            failed=dict(self.failed),
            requests=self.requests,
            retried=self.whys["again"],
            repaired=self.whys["repair"],
            lengthened=self.whys["longer"],
            input_tokens=self.input_tokens,
            cached_tokens=self.cached_tokens,
            output_tokens=self.output_tokens,
            cost=self.cost,
        )

"""The requests that one reply of one model takes: limits, budget, retries and repairs put together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Generic, TypeVar

from whileai.engine.cost import Cost
from whileai.engine.deadline import Deadline
from whileai.engine.limits import breaker, in_flight
from whileai.engine.link import Link
from whileai.engine.retry import TRUNCATED, Conversation, RetryPolicy, retrying
from whileai.errors import (
    ConfigError,
    ProviderError,
    RecordingMissing,
    RefusedRequest,
    TransportError,
    UnusableVerdict,
)
from whileai.providers.protocol import ChatReply, ChatRequest

V = TypeVar("V")

LASTING = frozenset({"auth", "permission", "payment", "insufficient_quota", "not_found", "redirect", "no_key"})
"""Kinds of refusals that every other request to the same endpoint would meet too."""

NOT_BILLED = frozenset({"rate_limited", "overloaded", "server_error", "request_timeout", "conflict"})
"""Kinds of failures in which the endpoint itself said that there is no reply."""

_UNUSABLE_FINISHES = {
    "length": (TRUNCATED, "the reply was cut by its token cap"),
    "context": ("context_length", "the reply was cut by the model's context window"),
    "refusal": ("refusal", "the model refused"),
    "content_filter": ("content_filter", "a content filter stopped the reply"),
}


@dataclass(slots=True)
class Tally:
    """What one reply of one model took. Kept up to date, so that it also tells of a call that was cut short."""

    requests: int = 0
    cost: Cost = field(default_factory=Cost)
    replied: bool = False

    def add(self, other: Tally) -> None:
        self.requests += other.requests
        self.cost += other.cost


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request and what came of it: `outcome` is `usable`, or the kind of the failure.

    `steps`: what it was refused with before, a request each; see `ChatReply`.
    """

    number: int
    why: str
    seconds: float
    cost: Cost
    outcome: str
    reason: str = ""
    reply: ChatReply | None = None
    steps: tuple[str, ...] = ()

    def fields(self) -> dict[str, Any]:
        """What the journal keeps of it."""
        kept = {"attempt": self.number, "why": self.why, "outcome": self.outcome, "reason": self.reason}
        cost = None if self.cost.unknown else self.cost.usd
        reply = {} if self.reply is None else asdict(self.reply)
        return {**kept, "seconds": round(self.seconds, 3), "cost_usd": cost, "steps": self.steps, **reply}


class Exchange(Generic[V]):
    """Asks one model until its reply is usable.

    Args:
        read: makes a value of a reply's text, or raises UnusableVerdict with what is wrong with it.
        note: gets every attempt, before its reply is used.
    """

    def __init__(
        self,
        link: Link,
        request: ChatRequest,
        policy: RetryPolicy,
        *,
        read: Callable[[str], V],
        note: Callable[[Attempt], None],
        deadline: Deadline,
        tally: Tally,
    ) -> None:
        self._link, self._read, self._note = link, read, note
        self._deadline, self._tally = deadline, tally
        self._in_flight = in_flight(link.endpoint, deadline.clock)
        self._breaker = breaker(f"{link.role} at {link.endpoint}", deadline.clock)
        self._conversation = Conversation(request, policy, default_max_tokens=link.provider.default_max_tokens)
        self._trial = False

    async def run(self) -> tuple[ChatReply, V]:
        """The usable reply, and what it was read as.

        Raises:
            TransportError, RefusedRequest, RecordingMissing: no reply.
            UnusableVerdict: no reply that can be used.
            BudgetExceeded: nothing more may be sent.
        """
        try:
            async for attempt in retrying(self._conversation, self._deadline):
                with attempt:
                    return await self._attempt()
        except TransportError as error:
            if error.kind != "resting":
                self._breaker.call_gave_up(error.reason, trial=self._trial)
            raise
        except RefusedRequest as error:
            if error.kind in LASTING:
                self._breaker.call_gave_up(error.reason, trial=self._trial)
            raise
        except asyncio.CancelledError:
            if self._deadline.remaining() == 0 and self._tally.requests and not self._tally.replied:
                self._breaker.call_gave_up("no answer before the deadline", trial=self._trial)
            raise
        raise AssertionError("the loop ends with a reply or an error")

    async def _attempt(self) -> tuple[ChatReply, V]:
        conversation, tally, clock = self._conversation, self._tally, self._deadline.clock
        async with self._in_flight.slot():
            if tally.requests == 0:
                self._trial = self._breaker.begin_call()
            request = conversation.request
            estimate = self._link.reserve(request)
            tally.requests += 1
            number, why, began = tally.requests, conversation.why, clock.monotonic()
            reply, failure, cost = None, None, Cost(unknown=1)
            try:
                reply = await self._send(request)
                cost = Cost.of(self._link.price(reply.usage))
            except ProviderError as error:
                failure = error
                answered = isinstance(error, RefusedRequest | RecordingMissing) or error.kind in NOT_BILLED
                cost = Cost() if answered else Cost(unknown=1)
            except asyncio.CancelledError:
                self._note(Attempt(number, why, clock.monotonic() - began, cost, "cancelled"))
                raise
            finally:
                tally.cost += cost
                steps = reply.steps if reply is not None else failure.steps if failure is not None else ()
                tally.requests += len(steps)
                self._link.settle(estimate, cost, len(steps))
            seconds = clock.monotonic() - began
            if reply is not None:
                self._in_flight.succeeded(seconds)
                self._breaker.call_answered()
            elif failure is not None and failure.kind == "rate_limited":
                self._in_flight.rate_limited()
        if reply is None:
            assert failure is not None
            self._note(Attempt(number, why, seconds, cost, failure.kind, failure.reason, steps=steps))
            raise failure
        tally.replied = True
        conversation.heard(reply)
        try:
            value = self._value(reply)
        except UnusableVerdict as unusable:
            self._note(Attempt(number, why, seconds, cost, unusable.kind, unusable.reason, reply, steps))
            raise
        self._note(Attempt(number, why, seconds, cost, "usable", reply=reply, steps=steps))
        return reply, value

    def _value(self, reply: ChatReply) -> V:
        if reply.finish in _UNUSABLE_FINISHES:
            raise UnusableVerdict(*_UNUSABLE_FINISHES[reply.finish])
        return self._read(reply.text)

    async def _send(self, request: ChatRequest) -> ChatReply:
        seconds = min(self._link.request_s, self._deadline.remaining())
        try:
            async with asyncio.timeout(seconds):
                reply = await self._link.provider.send(replace(request, timeout_s=seconds))
        except TimeoutError:
            late = TransportError("timeout", f"{self._link.label}: no complete answer within {seconds:.3g} s")
        except (ProviderError, ConfigError):
            raise
        except Exception as error:
            raise RefusedRequest(
                "provider_bug", f"the provider of {self._link.label} raised {type(error).__name__}: {error}"
            ) from error
        else:
            if isinstance(reply, ChatReply):
                return reply
            raise RefusedRequest("provider_bug", f"the provider of {self._link.label} returned {type(reply).__name__}")
        raise late

"""One question to a list of models, until one of them gives a usable reply.

    caller = ModelCaller([judge, judge_backup], cache=Path("cache.sqlite"), journal=Path("journal.jsonl"))
    result = await caller.call(question, read=read_verdict)           # on any event loop
    result = caller.call_blocking(question, read=read_verdict)        # from any thread

Everything runs on the process's background loop: one client, one limit per endpoint and one set of requests under
way serve all threads and loops. A forked child begins anew.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from whileai.engine.budget import Budget
from whileai.engine.cache import Cache, cache_key
from whileai.engine.closing import close_after
from whileai.engine.cost import Cost
from whileai.engine.deadline import REAL_CLOCK, Clock, Deadline
from whileai.engine.exchange import Attempt, Exchange, Tally
from whileai.engine.flights import Flights
from whileai.engine.journal import Journal
from whileai.engine.link import Link
from whileai.engine.loop import background_loop, run_on_loop, submit
from whileai.engine.retry import RetryPolicy
from whileai.engine.stats import CallStats, Counting
from whileai.errors import (
    ConfigError,
    LinkFailure,
    ModelsFailed,
    ProviderError,
    UnusableVerdict,
)
from whileai.providers import capabilities
from whileai.providers.keys import redact
from whileai.providers.protocol import ChatReply, ChatRequest
from whileai.providers.recorded import read_recordings, record, request_key
from whileai.simulations import defaults
from whileai.spec.roles import ResolvedRole

V = TypeVar("V")

_log = logging.getLogger("whileai")

_BUSY_POLL_S = 0.05
_LONGEST_BUSY_POLL_S = 0.5
_CLAIM_SLACK_S = 5.0


@dataclass(frozen=True, slots=True)
class CallResult(Generic[V]):
    """A usable reply, what it was read as, and what it took.

    Attributes:
        model: which model of the list answered, as provider:name; `link` is its place in the list.
        requests: sent for it, to all models; 0 if it came from the cache or from a call under way.
        failures: of the models that were asked before.
    """

    value: V
    reply: ChatReply
    model: str
    link: int
    requests: int
    cost: Cost
    cached: bool
    failures: tuple[LinkFailure, ...] = ()


class ModelCaller:
    """Asks the models of a list in turn.

    Args:
        models: resolved roles, the preferred one first.
        name: whose calls these are, for the journal.
        policy: how often one model is asked for one reply.
        request_s, group_s: seconds for one request, and for one call with everything in it. A deadline around the
            call (`deadline_within`) shortens both.
        calls, usd: the run's budget.
        cache: file of replies that were used; None for no cache.
        journal: file that gets a line per attempt; None for no journal.
        record: file to which usable replies are added, for `recorded:`; what it holds already stays as it is.
        clock: where time comes from; tests give their own.

    Raises:
        ConfigError: a role, a file or the budget cannot work.
    """

    def __init__(
        self,
        models: Sequence[ResolvedRole],
        *,
        name: str = "",
        policy: RetryPolicy | None = None,
        request_s: float = defaults.TIMEOUT_REQUEST_S,
        group_s: float = defaults.TIMEOUT_GROUP_S,
        calls: int | None = None,
        usd: float | None = None,
        cache: Path | None = None,
        journal: Path | None = None,
        record: Path | None = None,
        clock: Clock = REAL_CLOCK,
    ) -> None:
        if not models:
            raise ConfigError("no model to ask; name at least one role or provider:name")
        budget = Budget(calls, usd)
        self._links = [Link(role, request_s=request_s, budget=budget) for role in models]
        self._name = name
        self._policy = policy or RetryPolicy()
        self._group_s = group_s
        self._clock = clock
        self._cache = None if cache is None else Cache(cache, clock)
        self._journal = None if journal is None else Journal(journal)
        self._record = record
        self._recorded = set() if record is None else set(read_recordings(record))
        self._counting = Counting()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._flights: Flights[tuple[ChatReply, Any, Callable[[str], Any]]] = Flights()
        self._complaints: set[str] = set()

    def __repr__(self) -> str:
        return f"ModelCaller({', '.join(link.label for link in self._links)})"

    @property
    def stats(self) -> CallStats:
        """What the calls came to so far."""
        return self._counting.snapshot()

    def estimate_usd(self, question: ChatRequest, place: int = 0) -> float | None:
        """US dollars of the question at the model at `place`, about; None where its price is unknown."""
        return self._links[place].estimate_usd(question)

    async def call(
        self,
        question: ChatRequest,
        *,
        read: Callable[[str], V],
        shown: Sequence[int] = (),
        among: Collection[int] | None = None,
    ) -> CallResult[V]:
        """A usable reply to the question.

        Args:
            question: texts, schema and repetition; caps, parameters and timeouts come from the roles and from here.
            read: makes a value of a reply's text, or raises UnusableVerdict with what is wrong with it: that is sent
                back to the model.
            shown: the order in which rollouts were shown, for the journal.
            among: places of the models that may be asked; None: all of them.

        Raises:
            ModelsFailed: no model gave a usable reply in time and within the budget; says why, for each.
        """
        work = self._call(question, read, tuple(shown), among)
        if asyncio.get_running_loop() is background_loop():
            return await work
        return await asyncio.wrap_future(submit(work))

    def call_blocking(
        self, question: ChatRequest, *, read: Callable[[str], V], shown: Sequence[int] = ()
    ) -> CallResult[V]:
        """`call`, from any thread that runs no event loop of its own."""
        return run_on_loop(self._call(question, read, tuple(shown)))

    def close(self) -> None:
        """Close clients and files; a later call opens what it needs. Not to be called on the background loop.

        What is not closed here is closed when the caller is collected, or at the end of the process.
        """
        run_on_loop(self._close())

    async def _close(self) -> None:
        for link in self._links:
            await link.provider.aclose()
        if self._cache is not None:
            self._cache.close()
        if self._journal is not None:
            self._journal.close()

    async def _call(
        self,
        question: ChatRequest,
        read: Callable[[str], V],
        shown: tuple[int, ...],
        among: Collection[int] | None = None,
    ) -> CallResult[V]:
        self._settle_in()
        self._counting.calls += 1
        links = [(place, link) for place, link in enumerate(self._links) if among is None or place in among]
        call = _Call(question, read, links, Deadline.within(self._group_s, self._clock), self._name, shown)
        result = self._from_cache(call) or await self._from_models(call)
        self._counting.answered[result.model] += 1
        self._counting.cached += result.cached
        return result

    def _from_cache(self, call: _Call[V]) -> CallResult[V] | None:
        """What any of its models answered before: the same question is not sent twice."""
        if self._cache is None:
            return None
        for number, link in call.links:
            key = cache_key(link.role, call.request)
            reply = self._cache.get(key)
            if reply is None:
                continue
            try:
                value = call.read(reply.text)
            except UnusableVerdict:  # the reader has become stricter since
                self._cache.remove(key)
                continue
            self._write({**call.about, "model": link.label, "outcome": "cached", "text": reply.text})
            return CallResult(value, reply, link.label, number, 0, Cost(), cached=True)
        return None

    async def _from_models(self, call: _Call[V]) -> CallResult[V]:
        failures: list[LinkFailure] = []
        spent = Tally()
        for (number, link), after in zip(call.links, [*call.links[1:], None], strict=True):
            tally, failure = Tally(), None
            try:
                async with asyncio.timeout(call.deadline.remaining()):
                    reply, value = await self._ask(link, call, tally)
            except TimeoutError:
                kind, reason = "deadline", "the deadline came first"
            except (ProviderError, UnusableVerdict) as error:
                kind, reason, failure = error.kind, error.reason, error
            else:
                spent.add(tally)
                cached = tally.requests == 0
                return CallResult(value, reply, link.label, number, spent.requests, spent.cost, cached, tuple(failures))
            spent.add(tally)
            replied = tally.replied or isinstance(failure, UnusableVerdict)  # if to another who asked the same
            failures.append(LinkFailure(link.label, kind, redact(reason), tally.requests, replied))
            if call.deadline.remaining() == 0:
                kind = "deadline"
            if kind in ("deadline", "budget"):
                break
            if after is not None:
                self._complain(f"{link.label} {kind}", f"{failures[-1]}; {after[1].label} is asked instead")
        else:
            kind = failures[0].kind
        self._counting.failed[kind] += 1
        raise ModelsFailed(kind, "; ".join(map(str, failures)), tuple(failures))

    async def _ask(self, link: Link, call: _Call[V], tally: Tally) -> tuple[ChatReply, V]:
        """One model's usable reply. The same request under way, here or in another process, is waited for."""
        key = cache_key(link.role, call.request)
        reply, value, read = await self._flights.join(key, lambda: self._fetch(link, key, call, tally))
        return reply, value if read is call.read else call.read(reply.text)

    async def _fetch(
        self, link: Link, key: str, call: _Call[V], tally: Tally
    ) -> tuple[ChatReply, V, Callable[[str], V]]:
        if (reply := await self._claim(key, call.deadline)) is not None:
            return reply, call.read(reply.text), call.read
        try:
            exchange = Exchange(
                link,
                link.request(call.question),
                self._policy,
                read=call.read,
                note=lambda attempt: self._note(link, call, attempt),
                deadline=call.deadline,
                tally=tally,
            )
            reply, value = await exchange.run()
        except BaseException:
            if self._cache is not None:
                self._cache.release(key)
            raise
        if self._cache is not None:
            self._cache.put(key, reply)
            for learned in capabilities.news():
                self._cache.remember(learned)
        if self._record is not None and call.request not in self._recorded:
            record(self._record, call.question, reply, by=str(link.role))
            self._recorded.add(call.request)
        return reply, value, call.read

    async def _claim(self, key: str, deadline: Deadline) -> ChatReply | None:
        """Wait until the request is this process's to send; or the reply, where another process got it."""
        poll_s = _BUSY_POLL_S
        while self._cache is not None:
            claim = self._cache.claim(key, deadline.remaining() + _CLAIM_SLACK_S)
            if isinstance(claim, ChatReply):
                return claim
            if claim == "claimed":
                break
            await self._clock.sleep(poll_s)
            poll_s = min(2 * poll_s, _LONGEST_BUSY_POLL_S)
        return None

    def _note(self, link: Link, call: _Call[Any], attempt: Attempt) -> None:
        self._counting.add(attempt)
        self._write({**call.about, "model": link.label, "endpoint": link.endpoint, **attempt.fields()})

    def _write(self, entry: Mapping[str, Any]) -> None:
        if self._journal is None:
            return
        try:
            self._journal.write({"time": round(self._clock.time(), 3), **entry})
        except OSError as error:
            self._complain("journal", f"the journal {self._journal.path} takes no more lines: {error}")

    def _complain(self, about: str, message: str) -> None:
        """Log once."""
        if about not in self._complaints:
            self._complaints.add(about)
            _log.warning("%s", message)

    def _settle_in(self) -> None:
        """Begin anew on a new loop, as after a fork: what was under way is under way elsewhere."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        self._loop, self._flights = loop, Flights()
        close_after(self, [link.provider for link in self._links])
        if self._cache is not None:
            for learned in self._cache.recall():
                capabilities.recall(learned)


class _Call(Generic[V]):
    """One question, for as long as it takes."""

    __slots__ = ("about", "deadline", "links", "question", "read", "request")

    def __init__(
        self,
        question: ChatRequest,
        read: Callable[[str], V],
        links: Sequence[tuple[int, Link]],
        deadline: Deadline,
        grader: str,
        shown: tuple[int, ...],
    ) -> None:
        self.question, self.read, self.links, self.deadline = question, read, links, deadline
        self.request = request_key(question)
        self.about = {
            "grader": grader,
            "call": uuid.uuid4().hex[:12],
            "request": self.request,
            "repeat": question.repeat,
            "shown": shown,
        }

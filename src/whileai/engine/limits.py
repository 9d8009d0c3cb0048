"""How many requests one endpoint gets at a time, and when a model is left alone.

Everything here is used on one event loop only, so nothing is locked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from weakref import WeakKeyDictionary

from whileai.engine.deadline import Clock
from whileai.errors import TransportError

MOST_IN_FLIGHT = 256
"""Requests in flight at one endpoint at most: one for each group of a large batch (convention)."""

CUT = 0.6
"""What a 429 leaves of the limit. Each success adds one again, so the limit holds its level while two thirds of the
requests or more succeed."""

REST_AFTER = 5
"""Calls in a row that gave up, after which a model is left alone (convention)."""

REST_S = 30.0
LONGEST_REST_S = 300.0


class InFlight:
    """The requests in flight at one endpoint.

    Their limit is lowered by a 429, at most once in the time that a success takes, and raised by each success.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._limit = float(MOST_IN_FLIGHT)
        self._now = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._last_cut = float("-inf")
        self._success_s = 1.0

    @property
    def limit(self) -> int:
        """Requests that may be in flight now."""
        return int(self._limit)

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait until a request may be sent, and count it as in flight inside."""
        if self._waiting or self._now >= self.limit:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self._leave()
                raise
        else:
            self._now += 1
        try:
            yield
        finally:
            self._leave()

    def succeeded(self, seconds: float) -> None:
        """A request was answered in `seconds`."""
        self._success_s += 0.1 * (seconds - self._success_s)
        if self._now >= self._limit / 2:  # otherwise the limit is not what holds requests back
            self._limit = min(self._limit + 1, MOST_IN_FLIGHT)

    def rate_limited(self) -> None:
        """A request was answered with 429."""
        now = self._clock.monotonic()
        if now - self._last_cut >= self._success_s:
            self._last_cut = now
            self._limit = max(1.0, CUT * self._limit)

    def _leave(self) -> None:
        self._now -= 1
        while self._waiting and self._now < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._now += 1
                turn.set_result(None)


class Breaker:
    """Leaves a model alone that keeps failing, so that calls fail at once and the next model is asked.

    After `REST_AFTER` calls in a row that gave up it rests. After the rest one call may try; if that gives up too,
    the next rest is twice as long.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._gave_up = 0
        self._last_reason = ""
        self._rest_s = REST_S
        self._resting_until: float | None = None

    def begin_call(self) -> bool:
        """Whether this call is the trial after a rest.

        Raises:
            TransportError: (resting) the model is left alone.
        """
        if self._resting_until is None:
            return False
        now = self._clock.monotonic()
        if now < self._resting_until:
            wait = self._resting_until - now
            raise TransportError(
                "resting",
                f"left alone for another {wait:.0f} s after {self._gave_up} failed calls in a row: {self._last_reason}",
            )
        self._resting_until = now + self._rest_s  # the other calls wait for what comes of this one
        return True

    def call_answered(self) -> None:
        """A call got a reply."""
        self._gave_up, self._rest_s, self._resting_until = 0, REST_S, None

    def call_gave_up(self, reason: str, *, trial: bool) -> None:
        """A call got no reply, with all its attempts. One that was under way when a rest began changes nothing."""
        self._gave_up += 1
        self._last_reason = reason
        if trial:
            self._rest_s = min(2 * self._rest_s, LONGEST_REST_S)
        if trial or (self._resting_until is None and self._gave_up >= REST_AFTER):
            self._resting_until = self._clock.monotonic() + self._rest_s


_in_flight: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, InFlight]] = WeakKeyDictionary()
_breakers: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Breaker]] = WeakKeyDictionary()


def in_flight(endpoint: str, clock: Clock) -> InFlight:
    """The running loop's requests in flight at this endpoint, for all graders of the process."""
    return _in_flight.setdefault(asyncio.get_running_loop(), {}).setdefault(endpoint, InFlight(clock))


def breaker(model: str, clock: Clock) -> Breaker:
    """The running loop's breaker for this model at its endpoint, for all graders of the process."""
    return _breakers.setdefault(asyncio.get_running_loop(), {}).setdefault(model, Breaker(clock))

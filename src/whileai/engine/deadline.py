"""How long something may take: a batch, a group in it, a request for the group. The inner is never the longer one.

`with deadline_within(seconds):` sets a deadline for whatever is called inside, on any thread or loop that the
context is carried to. `Deadline.within(seconds)` is the tighter of that and its own seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """Where time comes from. Tests give their own."""

    monotonic: Callable[[], float] = time.monotonic
    time: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


REAL_CLOCK = Clock()

_outer: ContextVar[float | None] = ContextVar("whileai_deadline", default=None)


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment of the clock's monotonic time."""

    at: float
    clock: Clock

    @classmethod
    def within(cls, seconds: float, clock: Clock = REAL_CLOCK) -> Deadline:
        """`seconds` from now, or the deadline around this call where that comes first."""
        at, outer = clock.monotonic() + seconds, _outer.get()
        return cls(at if outer is None else min(at, outer), clock)

    def remaining(self) -> float:
        """Seconds that are left; 0 when it is over."""
        return max(0.0, self.at - self.clock.monotonic())


@contextmanager
def deadline_within(seconds: float, clock: Clock = REAL_CLOCK) -> Iterator[Deadline]:
    """Everything inside ends in `seconds`, or at the deadline around it where that comes first."""
    deadline = Deadline.within(seconds, clock)
    token = _outer.set(deadline.at)
    try:
        yield deadline
    finally:
        _outer.reset(token)

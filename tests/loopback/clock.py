"""A clock whose sleeps take no time: they are added to it and written down."""

from __future__ import annotations

import asyncio
import time

from whileai.engine.deadline import Clock


class SkippingClock:
    """Runs like the real one, and jumps ahead where it is asked to sleep. `slept` holds every sleep in seconds."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.ahead = 0.0
        self.clock = Clock(monotonic=lambda: time.monotonic() + self.ahead, time=self._time, sleep=self._sleep)

    def _time(self) -> float:
        return time.time() + self.ahead

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.ahead += seconds
        await asyncio.sleep(0)

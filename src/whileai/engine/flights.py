"""The same request asked for twice at the same time is sent once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

R = TypeVar("R")


@dataclass(slots=True)
class _Flight(Generic[R]):
    task: asyncio.Task[R]
    waiting: int = 0


class Flights(Generic[R]):
    """Work under way, by key. Used on one event loop only."""

    def __init__(self) -> None:
        self._flights: dict[str, _Flight[R]] = {}

    async def join(self, key: str, start: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """The result of the work under this key, which is started if nobody has. An error goes to all who wait.

        The work is cancelled when the last of those who wait for it is.
        """
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.create_task(start()))
            flight.task.add_done_callback(lambda _: self._land(key, flight))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        except asyncio.CancelledError:
            if flight.waiting == 1 and not flight.task.done():
                self._land(key, flight)
                flight.task.cancel()
            raise
        finally:
            flight.waiting -= 1

    def __contains__(self, key: str) -> bool:
        return key in self._flights

    def _land(self, key: str, flight: _Flight[R]) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]
        if flight.task.done() and not flight.task.cancelled():
            flight.task.exception()  # whoever waited has it; asyncio need not report it once more

"""Which event loop an SDK's client belongs to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar


class Closeable(Protocol):
    def close(self) -> Awaitable[None]: ...


C = TypeVar("C", bound=Closeable)


class PerLoop(Generic[C]):
    """One client per event loop: an async client belongs to the loop that first used it.

    A forked child starts anew; what it inherited belongs to its parent and is neither used nor closed.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._clients: dict[asyncio.AbstractEventLoop, C] = {}
        self._pid = os.getpid()
        self._inherited: list[object] = []

    def get(self) -> C:
        """The running loop's client."""
        if self._pid != os.getpid():
            self._inherited.append(self._clients)
            self._clients, self._pid = {}, os.getpid()
        loop = asyncio.get_running_loop()
        if (client := self._clients.get(loop)) is None:
            for other in [other for other in self._clients if other.is_closed()]:
                del self._clients[other]
            client = self._clients[loop] = self._make()
        return client

    async def aclose(self) -> None:
        """Close the running loop's client; the next use makes a new one."""
        if self._pid == os.getpid() and (client := self._clients.pop(asyncio.get_running_loop(), None)) is not None:
            await client.close()

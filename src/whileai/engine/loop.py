"""One background event loop for the process: asynchronous graders, verifiers and model clients run there.

A trainer calls from the main thread, a notebook from inside a running loop; neither can `asyncio.run`. The loop
is made on first use, again in a forked child, and ends with the process.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable
from concurrent.futures import Future
from typing import TypeVar

R = TypeVar("R")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def background_loop() -> asyncio.AbstractEventLoop:
    """The process's background loop, running in a daemon thread."""
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(_loop,), name="whileai-loop", daemon=True).start()
        return _loop


def submit(awaitable: Awaitable[R]) -> Future[R]:
    """Start `awaitable` on the background loop; the caller's context variables go with it."""

    async def wait() -> R:
        return await awaitable

    loop = background_loop()
    if _running_loop() is loop:
        raise RuntimeError("this would wait on the background loop from inside it, for ever: await it instead")
    return asyncio.run_coroutine_threadsafe(wait(), loop)


def run_on_loop(awaitable: Awaitable[R], timeout: float | None = None) -> R:
    """The awaitable's result, from any thread.

    Raises:
        TimeoutError: not done after `timeout` seconds; it is cancelled.
        RuntimeError: called from the background loop itself.
    """
    future = submit(awaitable)
    try:
        return future.result(timeout)
    finally:
        future.cancel()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _forget() -> None:
    """A forked child has neither the thread nor a usable lock."""
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget)

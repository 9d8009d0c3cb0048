"""One background event loop for the process: asynchronous graders, verifiers and model clients run there.

A trainer calls from the main thread, a notebook from inside a running loop; neither can `asyncio.run`. The loop
is made on first use, again in a forked child and when a call blocks it for good, and ends with the process.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

R = TypeVar("R")

BLOCKED_AFTER_S = 1.0
"""A loop that does not come round for this long is held by a call that blocks instead of awaiting."""
_END_S = 0.2

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None
_here = threading.local()


def background_loop() -> asyncio.AbstractEventLoop:
    """The process's background loop, running in a daemon thread."""
    global _loop, _thread
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(target=_run, args=(_loop,), name="whileai-loop", daemon=True)
            _thread.start()
        return _loop


def submit(awaitable: Awaitable[R]) -> Future[R]:
    """Start `awaitable` on the background loop; the caller's context variables go with it."""

    async def wait() -> R:
        return await awaitable

    refuse_on_loop()
    return asyncio.run_coroutine_threadsafe(wait(), background_loop())


def run_on_loop(awaitable: Awaitable[R], timeout: float | None = None) -> R:
    """The awaitable's result, from any thread.

    Raises:
        TimeoutError: not done after `timeout` seconds; it is cancelled.
        RuntimeError: called from the background loop itself.
    """
    future = submit(awaitable)
    try:
        raised = future.exception(timeout)  # `result` takes an exception whose truth is false for none
        if raised is not None:
            raise raised
        return future.result()
    finally:
        future.cancel()
        raised = None  # it refers to this frame


def refuse_on_loop() -> None:
    """Raise RuntimeError on the background loop's own thread, where waiting for a call would stop every call."""
    if getattr(_here, "is_loop", False):
        raise RuntimeError(
            "this call waits for others, and it was made from a coroutine on the loop that runs them: "
            "await asyncio.to_thread(...) it"
        )


def leave_blocked_loop() -> threading.Thread | None:
    """Give the process a new loop if a call blocks the present one; returns the thread that is left behind."""
    global _loop, _thread
    with _lock:
        loop, thread = _loop, _thread
    if loop is None or loop.is_closed():
        return None
    came_round = threading.Event()
    loop.call_soon_threadsafe(came_round.set)
    if came_round.wait(BLOCKED_AFTER_S):
        return None
    with _lock:
        if _loop is not loop:  # another batch was quicker
            return None
        _loop, _thread = None, None
    asyncio.run_coroutine_threadsafe(_retire(), loop)
    return thread


def _run(loop: asyncio.AbstractEventLoop) -> None:
    _here.is_loop = True
    asyncio.set_event_loop(loop)
    while not getattr(_here, "retired", False):
        with suppress(SystemExit, KeyboardInterrupt):  # a task that raises them ends alone: its caller gets them
            loop.run_forever()
    loop.close()


async def _retire() -> None:
    """End a loop that was left behind, and its thread, once it comes round and its calls are done."""
    if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(tasks)
    _here.retired = True
    asyncio.get_running_loop().stop()


async def _cancel_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _end() -> None:
    """Tasks that are left when the process ends are cancelled, so that nothing is said about them."""
    if _loop is not None and not _loop.is_closed():
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_cancel_all(), _loop).result(_END_S)


def _forget() -> None:
    """A forked child has neither the thread nor a usable lock."""
    global _loop, _thread, _lock, _here
    _loop, _thread, _lock, _here = None, None, threading.Lock(), threading.local()


atexit.register(_end)
os.register_at_fork(after_in_child=_forget)

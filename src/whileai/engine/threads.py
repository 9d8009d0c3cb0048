"""A blocking call awaited in a thread of its own.

Unlike `asyncio.to_thread` it shares no pool, which a few calls that never return would fill for good, and the
process ends without waiting for it.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from whileai.engine.schedule import leave_threads, too_many_hung
from whileai.errors import GraderFailure

R = TypeVar("R")


async def in_thread(call: Callable[..., R], *arguments: Any) -> R:
    """`call(*arguments)`, in a copy of this context. Cancelled, it leaves the thread to its call.

    Raises:
        GraderFailure: too many threads hang in calls already. And whatever the call raises.
    """
    if refused := too_many_hung():
        raise GraderFailure("no_thread", refused)
    future: Future[R] = Future()
    context = contextvars.copy_context()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = context.run(call, *arguments)
        except BaseException as error:  # noqa: BLE001 - carried to whoever awaits
            future.set_exception(error)
        else:
            future.set_result(result)

    thread = threading.Thread(target=run, name="whileai-call", daemon=True)
    thread.start()
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        leave_threads([thread])
        raise

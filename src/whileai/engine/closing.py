"""Providers are closed when the caller that used them is gone, and when the process ends."""

from __future__ import annotations

import asyncio
import atexit
import os
import weakref
from collections.abc import Iterable
from concurrent.futures import Future, wait
from itertools import count

from whileai.providers.protocol import Provider

_AT_EXIT_S = 2.0

_in_use: dict[int, tuple[asyncio.AbstractEventLoop, tuple[Provider, ...]]] = {}
_numbers = count()


def close_after(user: object, providers: Iterable[Provider]) -> None:
    """Close the providers' clients of the running loop when `user` is collected, else at the end of the process."""
    number = next(_numbers)
    _in_use[number] = (asyncio.get_running_loop(), tuple(providers))
    weakref.finalize(user, _begin_closing, number).atexit = False


def _begin_closing(number: int) -> list[Future[None]]:
    """Close on the loop that the clients belong to, without waiting: the collector may call from anywhere."""
    loop, providers = _in_use.pop(number, (None, ()))
    if loop is None or not loop.is_running():
        return []
    return [asyncio.run_coroutine_threadsafe(_closed(provider), loop) for provider in providers]


async def _closed(provider: Provider) -> None:
    await provider.aclose()


def _close_all() -> None:
    wait([future for number in list(_in_use) for future in _begin_closing(number)], timeout=_AT_EXIT_S)


atexit.register(_close_all)
os.register_at_fork(after_in_child=_in_use.clear)

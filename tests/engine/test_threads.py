from __future__ import annotations

import asyncio
import contextvars
import threading
import time

import pytest

from whileai.engine import schedule
from whileai.engine.threads import in_thread
from whileai.errors import GraderFailure


def gone(before: int) -> bool:
    end = time.monotonic() + 30
    while sum(thread.name == "whileai-call" for thread in threading.enumerate()) > before:
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_results_errors_arguments_and_context_come_through():
    name = contextvars.ContextVar("name", default="none")

    def call(*arguments: int) -> tuple[object, ...]:
        assert threading.current_thread() is not threading.main_thread()
        return (*arguments, name.get())

    async def both() -> object:
        name.set("mine")
        with pytest.raises(KeyError):
            await in_thread({}.__getitem__, "missing")
        with pytest.raises(SystemExit):
            await in_thread(exit_)
        return await in_thread(call, 1, 2)

    assert asyncio.run(both()) == (1, 2, "mine")


def exit_() -> None:
    raise SystemExit(3)


def test_calls_that_hang_share_no_pool_with_others():
    release, before = threading.Event(), sum(t.name == "whileai-call" for t in threading.enumerate())

    async def many() -> list[int]:
        hung = [asyncio.ensure_future(in_thread(release.wait)) for _ in range(40)]
        results = await asyncio.gather(*(in_thread(abs, -number) for number in range(40)))
        for task in hung:
            task.cancel()
        await asyncio.gather(*hung, return_exceptions=True)
        return results

    assert asyncio.run(many()) == list(range(40))
    release.set()
    assert gone(before)


def test_the_number_of_threads_left_behind_is_bounded(monkeypatch: pytest.MonkeyPatch):
    release, before = threading.Event(), sum(t.name == "whileai-call" for t in threading.enumerate())
    monkeypatch.setattr(schedule, "MAX_HUNG_THREADS", 2)
    monkeypatch.setattr(schedule, "_hung", set())

    async def leave() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await in_thread(release.wait)

    async def all_of_it() -> None:
        await leave()
        await leave()
        with pytest.raises(GraderFailure, match="2 threads hang") as refused:
            await in_thread(abs, 1)
        assert refused.value.kind == "no_thread"
        release.set()
        assert gone(before)
        assert await in_thread(abs, -1) == 1

    asyncio.run(all_of_it())

from __future__ import annotations

import asyncio
import contextvars
from concurrent.futures import ThreadPoolExecutor

import pytest

from loopback.clock import SkippingClock
from whileai.engine.deadline import Deadline, deadline_within
from whileai.engine.loop import run_on_loop


@pytest.fixture
def skipping() -> SkippingClock:
    return SkippingClock()


def test_the_inner_never_outlasts_the_outer(skipping: SkippingClock) -> None:
    with deadline_within(10, skipping.clock) as batch:
        assert batch.remaining() == pytest.approx(10, abs=0.5)
        with deadline_within(99, skipping.clock) as group:
            assert group.remaining() == pytest.approx(10, abs=0.5)
            assert Deadline.within(3, skipping.clock).remaining() == pytest.approx(3, abs=0.5)
            skipping.ahead += 8
            assert Deadline.within(3, skipping.clock).remaining() == pytest.approx(2, abs=0.5)
            skipping.ahead += 8
            assert group.remaining() == 0
    assert Deadline.within(99, skipping.clock).remaining() == pytest.approx(99, abs=0.5)


def test_it_reaches_threads_and_loops_that_the_context_is_carried_to(skipping: SkippingClock) -> None:
    async def left() -> float:
        await asyncio.sleep(0)
        return Deadline.within(99, skipping.clock).remaining()

    with deadline_within(10, skipping.clock), ThreadPoolExecutor(1) as pool:
        context = contextvars.copy_context()
        assert pool.submit(context.run, asyncio.run, left()).result() == pytest.approx(10, abs=0.5)
        assert run_on_loop(left()) == pytest.approx(10, abs=0.5)

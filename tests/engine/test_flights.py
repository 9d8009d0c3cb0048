from __future__ import annotations

import asyncio

import pytest

from whileai.engine.flights import Flights


def test_the_same_work_is_done_once_for_all_who_wait() -> None:
    started = 0

    async def work() -> str:
        nonlocal started
        started += 1
        await asyncio.sleep(0)
        return "done"

    async def main() -> list[str]:
        flights: Flights[str] = Flights()
        first = await asyncio.gather(*(flights.join("key", work) for _ in range(5)), flights.join("other", work))
        assert "key" not in flights
        return [*first, await flights.join("key", work)]

    assert asyncio.run(main()) == ["done"] * 7
    assert started == 3


def test_an_error_goes_to_all_and_is_not_kept() -> None:
    async def fail() -> str:
        await asyncio.sleep(0)
        raise ValueError("broken")

    async def work() -> str:
        return "fine"

    async def main() -> None:
        flights: Flights[str] = Flights()
        results = await asyncio.gather(*(flights.join("key", fail) for _ in range(3)), return_exceptions=True)
        assert [str(result) for result in results] == ["broken"] * 3
        assert await flights.join("key", work) == "fine"

    asyncio.run(main())


def test_the_work_goes_on_while_somebody_waits_and_ends_with_the_last() -> None:
    async def main() -> None:
        flights: Flights[str] = Flights()
        release, cancelled = asyncio.Event(), asyncio.Event()

        async def work() -> str:
            try:
                await release.wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise
            return "done"

        leader, follower = (asyncio.create_task(flights.join("key", work)) for _ in range(2))
        await asyncio.sleep(0)
        leader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leader
        release.set()
        assert await follower == "done"
        assert not cancelled.is_set()

        release.clear()
        alone = asyncio.create_task(flights.join("key", work))
        await asyncio.sleep(0)
        alone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await alone
        await asyncio.wait_for(cancelled.wait(), 5)
        assert "key" not in flights

    asyncio.run(main())

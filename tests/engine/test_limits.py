from __future__ import annotations

import asyncio

import pytest

from loopback.clock import SkippingClock
from whileai.engine import limits
from whileai.engine.limits import LONGEST_REST_S, MOST_IN_FLIGHT, REST_AFTER, REST_S, Breaker, InFlight
from whileai.errors import TransportError


@pytest.fixture
def skipping() -> SkippingClock:
    return SkippingClock()


@pytest.fixture
def gate(skipping: SkippingClock) -> InFlight:
    return InFlight(skipping.clock)


@pytest.fixture
def breaker(skipping: SkippingClock) -> Breaker:
    return Breaker(skipping.clock)


def test_a_429_lowers_the_limit_once_in_the_time_of_a_success(gate: InFlight, skipping: SkippingClock) -> None:
    gate.rate_limited()
    gate.rate_limited()
    assert gate.limit == int(0.6 * MOST_IN_FLIGHT)
    skipping.ahead += 2.0
    gate.rate_limited()
    assert gate.limit == int(0.36 * MOST_IN_FLIGHT)
    for _ in range(100):
        skipping.ahead += 2.0
        gate.rate_limited()
    assert gate.limit == 1


def test_successes_raise_it_again_while_it_is_used(gate: InFlight) -> None:
    gate.rate_limited()
    low = gate.limit

    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(low):
                tasks.create_task(use())

    async def use() -> None:
        async with gate.slot():
            await asyncio.sleep(0)
            gate.succeeded(0.1)

    gate.succeeded(0.1)
    assert gate.limit == low  # one request alone does not show that more would go
    asyncio.run(main())
    assert low < gate.limit <= MOST_IN_FLIGHT


def test_no_more_are_in_flight_than_the_limit_says_and_all_get_through(gate: InFlight, skipping: SkippingClock) -> None:
    for _ in range(8):
        gate.rate_limited()
        skipping.ahead += 2.0
    assert gate.limit == 4
    now, most, done = 0, 0, 0

    async def use() -> None:
        nonlocal now, most, done
        async with gate.slot():
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1
        done += 1

    async def main() -> None:
        await asyncio.gather(*(use() for _ in range(50)))

    asyncio.run(main())
    assert (most, done, now) == (4, 50, 0)


def test_who_stops_waiting_takes_no_slot_along(gate: InFlight, skipping: SkippingClock) -> None:
    for _ in range(20):
        gate.rate_limited()
        skipping.ahead += 2.0
    assert gate.limit == 1

    async def main() -> None:
        async def hold(entered: asyncio.Event, leave: asyncio.Event) -> None:
            async with gate.slot():
                entered.set()
                await leave.wait()

        events = [(asyncio.Event(), asyncio.Event()) for _ in range(3)]
        first, second, third = [asyncio.create_task(hold(*pair)) for pair in events]
        await events[0][0].wait()
        await asyncio.sleep(0)
        second.cancel()
        events[0][1].set()
        events[2][1].set()
        await asyncio.wait_for(third, 5)
        await first
        async with asyncio.timeout(5), gate.slot():
            pass
        with pytest.raises(asyncio.CancelledError):
            await second

    asyncio.run(main())


def test_a_model_that_keeps_failing_is_left_alone_for_a_while(breaker: Breaker, skipping: SkippingClock) -> None:
    for _ in range(REST_AFTER):
        assert breaker.begin_call() is False
        breaker.call_gave_up("503", trial=False)
    with pytest.raises(
        TransportError, match=r"left alone for another 30 s after 5 failed calls in a row: 503"
    ) as resting:
        breaker.begin_call()
    assert resting.value.kind == "resting"
    skipping.ahead += REST_S + 1
    assert breaker.begin_call() is True
    with pytest.raises(TransportError):
        breaker.begin_call()  # one call tries, and not all that wait
    breaker.call_answered()
    assert breaker.begin_call() is False


def test_a_success_in_between_counts_anew(breaker: Breaker) -> None:
    for _ in range(3):
        for _ in range(REST_AFTER - 1):
            breaker.call_gave_up("503", trial=False)
        breaker.call_answered()
    assert breaker.begin_call() is False


def test_each_failed_trial_doubles_the_rest(breaker: Breaker, skipping: SkippingClock) -> None:
    for _ in range(REST_AFTER):
        breaker.call_gave_up("503", trial=False)
    rests = []
    for _ in range(6):
        rest = 0.0
        while True:
            try:
                assert breaker.begin_call() is True
                break
            except TransportError:
                skipping.ahead += 1.0
                rest += 1.0
        breaker.call_gave_up("503", trial=True)
        rests.append(rest)
    assert rests == sorted(rests)
    assert rests[0] == pytest.approx(REST_S, abs=1.1)
    assert rests[1] == pytest.approx(2 * REST_S, abs=1.1)
    assert rests[-1] == pytest.approx(LONGEST_REST_S, abs=1.1)


def test_calls_that_were_under_way_do_not_prolong_a_rest(breaker: Breaker, skipping: SkippingClock) -> None:
    for _ in range(REST_AFTER):
        breaker.call_gave_up("503", trial=False)
    skipping.ahead += REST_S - 1
    breaker.call_gave_up("503", trial=False)
    skipping.ahead += 2
    assert breaker.begin_call() is True


def test_one_of_each_for_each_name_and_loop(skipping: SkippingClock) -> None:
    async def main() -> list[object]:
        return [make(name, skipping.clock) for make in (limits.in_flight, limits.breaker) for name in "aab"]

    first = asyncio.run(main())
    assert first[0] is first[1] is not first[2]
    assert first[3] is first[4] is not first[5]
    assert asyncio.run(main())[0] is not first[0]

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopback.clock import SkippingClock
from whileai.engine.deadline import Deadline
from whileai.engine.retry import FIRST_BACKOFF_S, LONGEST_BACKOFF_S, Conversation, RetryPolicy, retrying
from whileai.errors import RefusedRequest, TransportError, UnusableVerdict
from whileai.providers import ChatReply, ChatRequest

QUESTION = ChatRequest("s", (("user", "Rank."),), max_tokens=100)


def conversation(policy: RetryPolicy | None = None, **fields: object) -> Conversation:
    return Conversation(QUESTION, policy or RetryPolicy(), **fields)  # type: ignore[arg-type]


def test_transport_errors_share_the_attempts() -> None:
    talk = conversation(RetryPolicy(attempts=3))
    assert [talk.goes_on(TransportError(kind, "")) for kind in ("timeout", "server_error", "connection")] == [
        True,
        True,
        False,
    ]
    assert talk.request is QUESTION


def test_being_told_to_wait_is_no_failed_attempt_and_yet_bounded() -> None:
    talk = conversation(RetryPolicy(attempts=2))
    assert [talk.goes_on(TransportError("rate_limited", "")) for _ in range(6)] == [True] * 5 + [False]
    assert talk.goes_on(TransportError("timeout", ""))


def test_a_repair_sends_the_last_reply_and_its_fault() -> None:
    talk = conversation(RetryPolicy(repairs=2))
    talk.heard(ChatReply(" first try ", "stop"))
    assert talk.goes_on(UnusableVerdict("no_json", "There is no JSON."))
    assert talk.request.turns[:2] == (("user", "Rank."), ("assistant", "first try"))
    assert talk.request.turns[2][0] == "user"
    assert "There is no JSON." in talk.request.turns[2][1]
    talk.heard(ChatReply("second try", "stop"))
    assert talk.goes_on(UnusableVerdict("nan", "NaN is no rank."))
    assert "first try" not in str(talk.request)
    assert "NaN is no rank." in talk.request.turns[2][1]
    assert talk.why == "repair"
    assert not talk.goes_on(UnusableVerdict("nan", "again"))


def test_an_empty_reply_is_not_sent_back_as_an_empty_turn() -> None:
    talk = conversation()
    talk.heard(ChatReply(" \n", "stop"))
    assert talk.goes_on(UnusableVerdict("empty_reply", "It was empty."))
    assert len(talk.request.turns) == 1
    assert talk.request.turns[0][1].startswith("Rank.\n\n")
    assert "It was empty." in talk.request.turns[0][1]


def test_a_long_reply_is_sent_back_in_part() -> None:
    talk = conversation()
    talk.heard(ChatReply("x" * 10**6, "stop"))
    assert talk.goes_on(UnusableVerdict("no_json", ""))
    assert len(talk.request.turns[1][1]) == 8000


def test_a_cap_is_doubled_once() -> None:
    talk = conversation()
    cut = UnusableVerdict("truncated", "cut")
    assert talk.goes_on(cut)
    assert (talk.request.max_tokens, talk.why) == (200, "longer")
    assert not talk.goes_on(cut)


def test_the_providers_default_cap_is_doubled_and_no_cap_is_not() -> None:
    uncapped = ChatRequest("", (("user", "x"),))
    with_default = Conversation(uncapped, RetryPolicy(), default_max_tokens=16_000)
    assert with_default.goes_on(UnusableVerdict("truncated", ""))
    assert with_default.request.max_tokens == 32_000
    assert not Conversation(uncapped, RetryPolicy()).goes_on(UnusableVerdict("truncated", ""))


@pytest.mark.parametrize(
    "error",
    [
        RefusedRequest("auth", ""),
        TransportError("resting", ""),
        *(UnusableVerdict(kind, "") for kind in ("refusal", "content_filter", "context_length")),
        ValueError("a bug"),
    ],
)
def test_what_is_never_asked_again(error: Exception) -> None:
    assert not conversation().goes_on(error)


@given(st.integers(0, 40), st.one_of(st.none(), st.floats(0, 1000)))
def test_waits_are_never_shorter_than_asked_and_never_too_long(failures: int, retry_after: float | None) -> None:
    talk = conversation(RetryPolicy(attempts=100))
    error = TransportError("server_error", "", retry_after)
    for _ in range(failures + 1):
        talk.goes_on(error)
    wait = talk.wait_s(error)
    if retry_after is None:
        full = min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0**failures)
        assert full / 2 <= wait <= full
    else:
        assert retry_after <= wait <= 1.1 * retry_after + 1e-9
    assert math.isfinite(wait)
    assert talk.wait_s(UnusableVerdict("no_json", "")) == 0.0


@pytest.mark.parametrize(("left_s", "tries"), [(1000.0, 4), (5.0, 1), (12.0, 2)])
def test_nothing_is_waited_for_beyond_the_deadline(left_s: float, tries: int) -> None:
    skipping = SkippingClock()
    seen: list[int] = []

    async def main() -> None:
        deadline = Deadline(skipping.clock.monotonic() + left_s, skipping.clock)
        async for attempt in retrying(conversation(), deadline):
            with attempt:
                seen.append(1)
                raise TransportError("server_error", "down", retry_after=10.0)

    with pytest.raises(TransportError, match="down"):
        asyncio.run(main())
    assert len(seen) == tries
    assert sum(skipping.slept) < left_s

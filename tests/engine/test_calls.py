from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loopback.clock import SkippingClock
from loopback.server import Answer, LoopbackServer, Request, answers, fails, knows_only, rate_limited, says
from whileai.engine.calls import ModelCaller
from whileai.engine.deadline import deadline_within
from whileai.engine.limits import REST_AFTER
from whileai.engine.loop import background_loop, submit
from whileai.engine.retry import RetryPolicy
from whileai.errors import ConfigError, LinkFailure, ModelsFailed, UnusableVerdict
from whileai.providers import ChatReply, ChatRequest, capabilities, registry
from whileai.spec.roles import ResolvedRole

SCHEMA = {"type": "object", "properties": {"A": {"type": "integer"}}, "required": ["A"], "additionalProperties": False}
PRICES = {"input": 1.0, "output": 10.0, "cached": 0.5}


def question(number: int = 0, **fields: Any) -> ChatRequest:
    return ChatRequest("Rank.", (("user", f"group {number}"),), schema=SCHEMA, **fields)


def read(text: str) -> int:
    try:
        value = json.loads(text)["A"]
    except (ValueError, KeyError, TypeError):
        raise UnusableVerdict("no_json", "There is no rank of A.") from None
    assert isinstance(value, int)
    return value


def echo(request: Request) -> Answer:
    """The number of the group that was asked about."""
    return says(json.dumps({"A": int(request.turns[0][1].split()[1])}))(request)


@pytest.fixture
def second() -> Iterator[LoopbackServer]:
    with LoopbackServer() as running:
        yield running


def judge(server: LoopbackServer, name: str = "one", **fields: Any) -> ResolvedRole:
    return ResolvedRole("openai", name, base_url=server.chat_url, role="judge", **fields)


def backup(server: LoopbackServer, **fields: Any) -> ResolvedRole:
    return ResolvedRole("anthropic", "two", base_url=server.messages_url, role="backup", **fields)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().split("\n") if line]


def test_a_reply_with_what_it_took(server: LoopbackServer, tmp_path: Path) -> None:
    server.script += [fails(500), says("no JSON", usage=(100, 40, 20, 5))]
    server.default = says('{"A": 7}', usage=(200, 0, 10, 0))
    skipping = SkippingClock()
    journal = tmp_path / "journal.jsonl"
    caller = ModelCaller([judge(server, prices=PRICES)], name="craft", journal=journal, clock=skipping.clock)
    result = caller.call_blocking(question(), read=read, shown=(2, 0, 1))
    assert (result.value, result.model, result.link, result.requests, result.cached) == (
        7,
        "judge=openai:one",
        0,
        3,
        False,
    )
    first, repaired = (60 * 1.0 + 40 * 0.5 + 20 * 10.0) / 1e6, (200 * 1.0 + 10 * 10.0) / 1e6
    assert result.cost.usd == pytest.approx(first + repaired)  # every attempt is billed
    assert result.cost.unknown == 0

    seen = lines(journal)
    assert [(line["attempt"], line["why"], line["outcome"]) for line in seen] == [
        (1, "first", "server_error"),
        (2, "again", "no_json"),
        (3, "repair", "usable"),
    ]
    assert [line.get("text") for line in seen] == [None, "no JSON", '{"A": 7}']
    assert [line["cost_usd"] for line in seen] == [0.0, pytest.approx(first), pytest.approx(repaired)]
    last = seen[-1]
    assert (last["grader"], last["model"], last["shown"], last["finish"]) == (
        "craft",
        "judge=openai:one",
        [2, 0, 1],
        "stop",
    )
    assert (last["served_model"], last["request_id"]) == ("served-model-1", "req-3")
    assert last["usage"]["input"] == 200
    assert len({line["request"] for line in seen}) == len({line["call"] for line in seen}) == 1

    stats = caller.stats
    assert (stats.calls, stats.answered, stats.failed) == (1, {"judge=openai:one": 1}, {})
    assert (stats.requests, stats.retried, stats.repaired, stats.lengthened) == (3, 1, 1, 0)
    assert (stats.input_tokens, stats.cached_tokens, stats.output_tokens) == (300, 40, 30)
    assert "answered by judge=openai:one 1" in str(stats)
    caller.close()


def test_stats_are_snapshots(server: LoopbackServer) -> None:
    server.default = echo
    caller = ModelCaller([judge(server)])
    before = caller.stats
    caller.call_blocking(question(), read=read)
    assert before.calls == 0
    assert before.answered == {}
    assert caller.stats.calls == 1


@pytest.mark.parametrize(
    ("behaviour", "kind", "requests", "replied"),
    [
        (fails(401), "auth", 1, False),
        (fails(500), "server_error", 4, False),
        (answers(Answer(manner="reset")), "connection", 4, False),
        (says("garbage"), "no_json", 3, True),
        (says(None, refusal="no"), "refusal", 1, True),
    ],
)
def test_the_next_model_is_asked(
    server: LoopbackServer, second: LoopbackServer, behaviour: Any, kind: str, requests: int, replied: bool
) -> None:
    server.default, second.default = behaviour, echo
    caller = ModelCaller([judge(server), backup(second)], clock=SkippingClock().clock)
    result = caller.call_blocking(question(5), read=read)
    assert (result.value, result.model, result.link, result.requests) == (5, "backup=anthropic:two", 1, requests + 1)
    failed = result.failures[0]
    assert (failed.model, failed.kind, failed.requests, failed.replied) == ("judge=openai:one", kind, requests, replied)
    assert caller.stats.answered == {"backup=anthropic:two": 1}
    caller.close()


def test_when_no_model_answers_each_says_why(server: LoopbackServer, second: LoopbackServer) -> None:
    server.default, second.default = fails(401, "who are you"), says("garbage")
    caller = ModelCaller([judge(server), backup(second)])
    with pytest.raises(ModelsFailed) as failed:
        caller.call_blocking(question(), read=read)
    assert failed.value.kind == "auth"
    assert [link.kind for link in failed.value.links] == ["auth", "no_json"]
    assert "judge=openai:one (1 requests): auth" in str(failed.value)
    assert "who are you" in str(failed.value)
    assert caller.stats.failed == {"auth": 1}
    caller.close()


def test_who_waits_for_the_request_of_another_hears_that_it_was_replied_to(server: LoopbackServer) -> None:
    asked = threading.Event()
    server.default = lambda request: replace(says("garbage")(request), until=asked)
    caller = ModelCaller([judge(server)], policy=RetryPolicy(repairs=0))

    async def both() -> list[Any]:
        calls = [asyncio.ensure_future(caller.call(question(), read=read)) for _ in range(2)]
        await asyncio.sleep(0)
        asked.set()
        return await asyncio.gather(*calls, return_exceptions=True)

    failed = submit(both()).result(30)
    assert len(server.requests) == 1
    assert [[(link.requests, link.replied) for link in failure.links] for failure in failed] == [
        [(1, True)],
        [(0, True)],
    ]


def test_an_error_pickles_with_its_links() -> None:
    import pickle

    links = (LinkFailure("m", "auth", "no", 1, False),)
    again = pickle.loads(pickle.dumps(ModelsFailed("auth", "reason", links)))
    assert (again.kind, again.reason, again.links) == ("auth", "reason", links)


def test_a_cached_reply_is_not_asked_for_again(server: LoopbackServer, tmp_path: Path) -> None:
    server.default = echo
    for run in range(2):
        caller = ModelCaller([judge(server)], cache=tmp_path / "cache", journal=tmp_path / "journal")
        results = [caller.call_blocking(question(number), read=read) for number in range(3)]
        assert [(result.value, result.cached, result.requests) for result in results] == [
            (number, bool(run), 1 - run) for number in range(3)
        ]
        assert caller.stats.cached == 3 * run
        caller.close()
    assert len(server.requests) == 3
    assert [line["outcome"] for line in lines(tmp_path / "journal")] == ["usable"] * 3 + ["cached"] * 3


def test_a_repaired_reply_is_cached_under_the_first_request(server: LoopbackServer, tmp_path: Path) -> None:
    server.script.append(says("garbage"))
    server.default = echo
    caller = ModelCaller([judge(server)], cache=tmp_path / "cache")
    caller.call_blocking(question(1), read=read)
    assert caller.call_blocking(question(1), read=read).cached
    assert len(server.requests) == 2


def test_a_failure_is_not_cached(server: LoopbackServer, tmp_path: Path) -> None:
    server.script.append(fails(401))
    server.default = echo
    caller = ModelCaller([judge(server)], cache=tmp_path / "cache")
    with pytest.raises(ModelsFailed):
        caller.call_blocking(question(1), read=read)
    assert caller.call_blocking(question(1), read=read).value == 1


def test_a_repetition_is_another_request(server: LoopbackServer, tmp_path: Path) -> None:
    server.default = echo
    caller = ModelCaller([judge(server)], cache=tmp_path / "cache")
    for repeat in (0, 1, 0):
        caller.call_blocking(question(1, repeat=repeat), read=read)
    assert len(server.requests) == 2


def test_what_a_backup_answered_is_not_asked_of_the_first_model_again(
    server: LoopbackServer, second: LoopbackServer, tmp_path: Path
) -> None:
    server.default, second.default = fails(401), echo
    caller = ModelCaller([judge(server), backup(second)], cache=tmp_path / "cache")
    caller.call_blocking(question(1), read=read)
    again = caller.call_blocking(question(1), read=read)
    assert (again.cached, again.link) == (True, 1)
    assert len(server.requests) == len(second.requests) == 1


def test_a_cached_reply_that_a_stricter_reader_refuses_is_asked_for_again(
    server: LoopbackServer, tmp_path: Path
) -> None:
    server.script.append(says('{"A": -1}'))
    server.default = echo
    caller = ModelCaller([judge(server)], cache=tmp_path / "cache")
    assert caller.call_blocking(question(1), read=read).value == -1

    def stricter(text: str) -> int:
        if (value := read(text)) < 0:
            raise UnusableVerdict("out_of_range", "A rank is at least 1.")
        return value

    assert caller.call_blocking(question(1), read=stricter).value == 1
    assert caller.call_blocking(question(1), read=stricter).cached


def test_the_same_question_at_the_same_time_is_sent_once(server: LoopbackServer) -> None:
    release = threading.Event()
    server.default = lambda request: Answer(**{**vars(echo(request)), "until": release})
    caller = ModelCaller([judge(server)])
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(caller.call_blocking, question(3), read=read) for _ in range(8)]
        server.wait_for_requests(1)
        release.set()
        results = [call.result(30) for call in calls]
    assert [result.value for result in results] == [3] * 8
    assert len(server.requests) == sum(result.requests for result in results) == 1


def test_a_deadline_around_the_call_ends_it(server: LoopbackServer, second: LoopbackServer) -> None:
    server.default, second.default = answers(Answer(manner="never")), echo
    caller = ModelCaller([judge(server), backup(second)])
    with deadline_within(0.3), pytest.raises(ModelsFailed) as failed:
        caller.call_blocking(question(), read=read)
    assert failed.value.kind == "deadline"
    assert failed.value.links[0].requests == 1
    assert not second.requests  # there was no time left to ask it
    assert caller.stats.failed == {"deadline": 1}
    caller.close()


def test_a_groups_own_time_ends_it_too(server: LoopbackServer) -> None:
    server.default = answers(Answer(manner="never"))
    caller = ModelCaller([judge(server)], request_s=0.1, group_s=0.25, clock=SkippingClock().clock)
    with pytest.raises(ModelsFailed) as failed:
        caller.call_blocking(question(), read=read)
    assert 1 <= failed.value.links[0].requests <= 3
    caller.close()


def test_a_budget_stops_new_requests_and_says_so(
    server: LoopbackServer, second: LoopbackServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.default, second.default = echo, echo
    caller = ModelCaller([judge(server), backup(second)], calls=2)
    assert [caller.call_blocking(question(n), read=read).value for n in range(2)] == [0, 1]
    for number in (2, 3):
        with pytest.raises(ModelsFailed, match="budget of 2 calls is spent") as failed:
            caller.call_blocking(question(number), read=read)
        assert failed.value.kind == "budget"
    assert len(server.requests) == 2
    assert not second.requests
    assert sum("budget" in record.getMessage() for record in caplog.records) == 1


def test_retries_are_paid_from_the_budget(server: LoopbackServer) -> None:
    server.default = fails(500)
    caller = ModelCaller([judge(server)], calls=2, clock=SkippingClock().clock)
    with pytest.raises(ModelsFailed) as failed:
        caller.call_blocking(question(), read=read)
    assert failed.value.kind == "budget"
    assert len(server.requests) == 2


def test_cached_replies_are_free(server: LoopbackServer, tmp_path: Path) -> None:
    server.default = echo
    caller = ModelCaller([judge(server)], calls=1, cache=tmp_path / "cache")
    assert [caller.call_blocking(question(1), read=read).value for _ in range(5)] == [1] * 5


def test_a_budget_in_dollars_needs_prices(server: LoopbackServer) -> None:
    with pytest.raises(ConfigError, match=r"price of judge=openai:one is unknown.*prices = "):
        ModelCaller([judge(server)], usd=1.0)
    server.default = echo
    caller = ModelCaller([judge(server, prices=PRICES, params={"max_tokens": 100})], usd=0.0025)
    answered = 0
    with pytest.raises(ModelsFailed, match=r"budget of \$0\.0025"):
        for number in range(100):
            caller.call_blocking(question(number), read=read)
            answered += 1
    assert 1 <= answered <= 10
    assert caller.stats.cost.usd <= 0.0025


def test_requests_that_were_refused_for_their_form_are_counted_like_all_others(server: LoopbackServer) -> None:
    server.default = fails(400, "no")
    capped = judge(server, params={"max_tokens": 100})
    caller = ModelCaller([capped], calls=5)
    failures = []
    for number in range(4):
        with pytest.raises(ModelsFailed) as failed:
            caller.call_blocking(question(number), read=read)
        failures.append([(link.kind, link.requests) for link in failed.value.links])
    assert failures == [[("bad_request", 4)], [("bad_request", 4)], [("budget", 0)], [("budget", 0)]]
    assert caller.stats.requests == len(server.requests) == 8
    server.default = lambda request: echo(request) if request.format == "prompt" else fails(400, "no")(request)
    again = ModelCaller([capped])
    assert again.call_blocking(question(7), read=read).requests == again.stats.requests == len(server.requests) - 8


def test_replies_that_do_not_say_what_they_took_spend_a_budget_too(server: LoopbackServer) -> None:
    def mute(request: Request) -> Answer:
        answer = echo(request)
        return replace(answer, body={name: value for name, value in answer.body.items() if name != "usage"})

    server.default = mute
    caller = ModelCaller([judge(server, prices=PRICES, params={"max_tokens": 100})], usd=0.0025)
    with pytest.raises(ModelsFailed, match=r"budget of \$0\.0025"):
        for number in range(100):
            caller.call_blocking(question(number), read=read)
    assert 1 <= len(server.requests) <= 10


def test_an_unknown_price_is_counted_as_unknown(server: LoopbackServer) -> None:
    server.default = echo
    caller = ModelCaller([judge(server)])
    result = caller.call_blocking(question(1), read=read)
    assert (result.cost.usd, result.cost.unknown) == (0.0, 1)


def test_an_endpoint_that_keeps_failing_is_left_alone(server: LoopbackServer, second: LoopbackServer) -> None:
    server.default, second.default = fails(500), echo
    skipping = SkippingClock()
    caller = ModelCaller([judge(server), backup(second)], policy=RetryPolicy(attempts=1), clock=skipping.clock)
    for number in range(REST_AFTER + 3):
        assert caller.call_blocking(question(number), read=read).value == number
    assert len(server.requests) == REST_AFTER
    server.default = echo
    skipping.ahead += 60
    assert [caller.call_blocking(question(90 + n), read=read).link for n in range(2)] == [0, 0]
    caller.close()


def test_another_model_of_the_same_endpoint_is_not_left_alone(server: LoopbackServer) -> None:
    server.default = lambda request: (fails(404) if request.body["model"] == "gone" else echo)(request)
    caller = ModelCaller([judge(server, "gone"), judge(server, "here")])
    assert [caller.call_blocking(question(n), read=read).link for n in range(REST_AFTER + 2)] == [1] * (REST_AFTER + 2)
    asked = [request.body["model"] for request in server.requests]
    assert (asked.count("gone"), asked.count("here")) == (REST_AFTER, REST_AFTER + 2)
    caller.close()


def test_a_third_of_429s_is_ridden_out(server: LoopbackServer) -> None:
    def behave(request: Request) -> Answer:
        return rate_limited()(request) if request.number % 3 == 0 else echo(request)

    server.default = behave
    caller = ModelCaller([judge(server)], clock=SkippingClock().clock)

    async def main() -> list[int]:
        calls = (caller.call(question(number), read=read) for number in range(60))
        return [result.value for result in await asyncio.gather(*calls)]

    assert asyncio.run(main()) == list(range(60))
    assert caller.stats.failed == {}
    caller.close()


def test_what_an_endpoint_does_not_know_is_remembered_with_the_cache(server: LoopbackServer, tmp_path: Path) -> None:
    server.default = knows_only(echo, formats=("prompt",))
    ModelCaller([judge(server)], cache=tmp_path / "cache").call_blocking(question(1), read=read)
    assert len(server.requests) == 3
    capabilities._learned.clear()  # as in another process
    server.forget()
    ModelCaller([judge(server)], cache=tmp_path / "cache").call_blocking(question(2), read=read)
    assert [request.format for request in server.requests] == ["prompt"]


def test_record_once_and_replay(server: LoopbackServer, tmp_path: Path) -> None:
    server.script.append(says("garbage"))
    server.default = echo
    path = tmp_path / "x.recorded.jsonl"
    caller = ModelCaller([judge(server)], record=path)
    assert caller.call_blocking(question(4), read=read).value == 4
    assert ModelCaller([judge(server)], record=path).call_blocking(question(4), read=read).value == 4
    replay = ModelCaller([ResolvedRole("recorded", str(path))], record=path)
    result = replay.call_blocking(question(4), read=read)
    assert (result.value, result.cost.usd, result.cost.unknown) == (4, 0.0, 0)
    assert len(path.read_text().splitlines()) == 1
    with pytest.raises(ModelsFailed, match="--record") as failed:
        replay.call_blocking(question(5), read=read)
    assert failed.value.kind == "recording_missing"


def test_a_bug_in_a_provider_is_that_links_failure(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    class Buggy:
        parameters: dict[str, type] = {}
        default_max_tokens = None

        def __init__(self, role: ResolvedRole) -> None:
            pass

        async def send(self, request: ChatRequest) -> ChatReply:
            raise ZeroDivisionError("a bug")

        async def aclose(self) -> None:
            pass

    monkeypatch.setattr(registry, "provider_class_of", lambda name: Buggy)
    caller = ModelCaller([ResolvedRole("mine", "m")])
    with pytest.raises(ModelsFailed, match="ZeroDivisionError: a bug") as failed:
        caller.call_blocking(question(), read=read)
    assert failed.value.kind == "provider_bug"


def test_a_bug_in_the_reader_is_the_callers_to_see(server: LoopbackServer) -> None:
    server.default = echo

    def broken(text: str) -> int:
        raise ZeroDivisionError("in the reader")

    caller = ModelCaller([judge(server)])
    with pytest.raises(ZeroDivisionError):
        caller.call_blocking(question(1), read=broken)
    assert caller.call_blocking(question(2), read=read).value == 2


def test_no_model_at_all_is_refused() -> None:
    with pytest.raises(ConfigError, match="no model to ask"):
        ModelCaller([])


@pytest.mark.parametrize(
    "role",
    [
        ResolvedRole("opnai", "m"),
        ResolvedRole("openai", "m", params={"top_pp": 1}),
        ResolvedRole("openai", "m", base_url="http://127.0.0.1/v1", api_key_env="OPENAI_API_KEY"),
        ResolvedRole("openai", "m", prices={"input": -1.0, "output": 1.0}),
    ],
)
def test_a_role_that_cannot_work_is_told_before_any_call(role: ResolvedRole) -> None:
    with pytest.raises(ConfigError):
        ModelCaller([role])


class TestWhereverItIsCalled:
    """In a notebook's running loop, on the background loop, from 64 threads, in a forked child: the same results."""

    def test_in_a_running_loop_and_after_it(self, server: LoopbackServer) -> None:
        server.default = echo
        caller = ModelCaller([judge(server)])

        async def cell(first: int) -> list[int]:
            calls = (caller.call(question(first + number), read=read) for number in range(5))
            return [result.value for result in await asyncio.gather(*calls)]

        assert asyncio.run(cell(0)) == [0, 1, 2, 3, 4]
        assert asyncio.run(cell(5)) == [5, 6, 7, 8, 9]
        assert submit(cell(10)).result(30) == [10, 11, 12, 13, 14]
        assert caller.call_blocking(question(15), read=read).value == 15
        caller.close()

    def test_cancelling_in_a_running_loop_ends_the_call(self, server: LoopbackServer) -> None:
        server.script.append(answers(Answer(manner="never")))
        server.default = echo
        caller = ModelCaller([judge(server)])

        async def cell() -> int:
            hanging = asyncio.create_task(caller.call(question(1), read=read))
            await asyncio.to_thread(server.wait_for_requests, 1)
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging
            return (await caller.call(question(1), read=read)).value

        assert asyncio.run(cell()) == 1
        caller.close()

    def test_from_64_threads(self, server: LoopbackServer) -> None:
        server.default = echo
        caller = ModelCaller([judge(server)])
        with ThreadPoolExecutor(64) as pool:
            values = list(pool.map(lambda n: caller.call_blocking(question(n), read=read).value, range(256)))
        assert values == list(range(256))
        caller.close()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
    def test_in_a_forked_child(self, server: LoopbackServer, tmp_path: Path) -> None:
        server.default = echo
        caller = ModelCaller([judge(server)], cache=tmp_path / "cache", journal=tmp_path / "journal")
        assert caller.call_blocking(question(1), read=read).value == 1
        parents_loop = background_loop()
        pid = os.fork()
        if pid == 0:
            values = [caller.call_blocking(question(number), read=read).value for number in (1, 2)]
            os._exit(0 if values == [1, 2] and background_loop() is not parents_loop else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        again = caller.call_blocking(question(2), read=read)
        assert (again.value, again.cached) == (2, True)  # the child's reply is in the cache that both share
        assert caller.call_blocking(question(3), read=read).value == 3
        assert len(server.requests) == 3
        assert len(lines(tmp_path / "journal")) == 5
        caller.close()

    def test_it_can_be_closed_and_used_again(self, server: LoopbackServer, tmp_path: Path) -> None:
        server.default = echo
        caller = ModelCaller([judge(server)], cache=tmp_path / "cache", journal=tmp_path / "journal")
        for number in range(2):
            assert caller.call_blocking(question(number), read=read).value == number
            caller.close()


def test_the_same_question_over_three_wire_formats(server: LoopbackServer) -> None:
    """Chat completions, chat completions without json_schema, and messages: one role's change each."""
    server.default = lambda request: (
        knows_only(echo, formats=("prompt",)) if request.body["model"] == "old" else echo
    )(request)
    roles = (judge(server, "new"), judge(server, "old"), ResolvedRole("anthropic", "m", base_url=server.messages_url))
    assert [ModelCaller([role]).call_blocking(question(6), read=read).value for role in roles] == [6, 6, 6]
    assert [request.format for request in server.requests] == [
        "json_schema",
        *("json_schema", "json_object", "prompt"),
        "json_schema",
    ]
    assert {request.wire for request in server.requests} == {"chat", "messages"}

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopback.server import Answer, LoopbackServer, answers, says
from whileai.errors import ConfigError, TransportError
from whileai.providers import ChatReply, ChatRequest, Usage
from whileai.providers.openai_chat import OpenAIChat
from whileai.spec.roles import ResolvedRole

SCHEMA = {"type": "object", "properties": {"A": {"type": "integer"}}, "required": ["A"], "additionalProperties": False}
QUESTION = ChatRequest("Be brief.", (("user", "Rank."),), schema=SCHEMA, schema_name="my ranking!")


def send(server: LoopbackServer, request: ChatRequest, **fields: Any) -> ChatReply:
    async def main() -> ChatReply:
        provider = OpenAIChat(ResolvedRole("openai", "model-1", base_url=server.chat_url, **fields))
        try:
            return await provider.send(request)
        finally:
            await provider.aclose()

    return asyncio.run(main())


def test_the_request_holds_what_was_asked_and_nothing_else(server: LoopbackServer) -> None:
    send(server, QUESTION)
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].body == {
        "model": "model-1",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Rank."}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "my_ranking_", "schema": SCHEMA, "strict": True},
        },
    }


def test_parameters_go_by_their_names_on_the_wire(server: LoopbackServer) -> None:
    params = {"temperature": 0.3, "effort": "low", "seed": 7, "extra_body": {"top_k": 5}}
    turns = (("user", "a"), ("assistant", "b"), ("user", "c"))
    send(server, ChatRequest("", turns, max_tokens=300, params=params))
    assert server.requests[0].body == {
        "model": "model-1",
        "messages": [{"role": role, "content": text} for role, text in turns],
        "max_completion_tokens": 300,
        "temperature": 0.3,
        "reasoning_effort": "low",
        "seed": 7,
        "top_k": 5,
    }


def test_a_schema_that_cannot_be_expressed_is_said_in_the_prompt(server: LoopbackServer) -> None:
    send(server, ChatRequest("Be brief.", (("user", "x"),), schema={"type": "object"}))
    body = server.requests[0].body
    assert "response_format" not in body
    assert body["messages"][0]["content"].startswith("Be brief.\n\nReply with one JSON object")
    assert '{"type": "object"}' in body["messages"][0]["content"]


def test_the_reply_with_its_usage(server: LoopbackServer) -> None:
    server.default = says('{"A": 1}', usage=(100, 40, 20, 5))
    reply = send(server, QUESTION)
    assert reply == ChatReply(
        '{"A": 1}', "stop", "served-model-1", Usage(100, 20, cached=40, reasoning=5), request_id="req-1"
    )


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("tool_calls", "tool"),
        ("eos", "other"),
    ],
)
def test_finish_reasons(server: LoopbackServer, finish: str, expected: str) -> None:
    server.default = says("x", finish=finish)
    assert send(server, QUESTION).finish == expected


def test_a_refusal_is_told_by_its_field(server: LoopbackServer) -> None:
    server.default = says(None, refusal="I will not.")
    reply = send(server, QUESTION)
    assert (reply.finish, reply.text) == ("refusal", "I will not.")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}, 3]}, "ab"),
        ({"content": None, "reasoning_content": "{}"}, ""),
        ({"content": 7}, ""),
        ({}, ""),
        ({"content": "lone \ud800 surrogate"}, "lone \ufffd surrogate"),
    ],
)
def test_odd_contents(server: LoopbackServer, message: dict[str, Any], text: str) -> None:
    server.default = answers(Answer(body={"choices": [{"message": message}], "usage": "none", "model": 3}))
    reply = send(server, QUESTION)
    assert reply.text == text
    assert reply.usage == Usage()
    assert reply.served_model is None


@pytest.mark.parametrize("body", [{}, {"choices": None}, {"choices": []}, {"choices": [None]}, {"choices": [{}]}, "x"])
def test_a_body_without_a_message_may_heal(server: LoopbackServer, body: Any) -> None:
    server.default = answers(Answer(body=body))
    with pytest.raises(TransportError) as failed:
        send(server, QUESTION)
    assert failed.value.kind == "bad_body"


def test_an_error_inside_a_200_is_told(server: LoopbackServer) -> None:
    server.default = answers(Answer(body={"error": {"message": "no worker is free"}}))
    with pytest.raises(TransportError, match="no worker is free"):
        send(server, QUESTION)


def test_a_lone_surrogate_in_the_question_can_be_sent(server: LoopbackServer) -> None:
    send(server, ChatRequest("s\udc00", (("user", "half \ud83d of one"),)))
    assert [m["content"] for m in server.requests[0].body["messages"]] == ["s\ufffd", "half \ufffd of one"]


def test_an_endpoint_without_a_key_gets_none(server: LoopbackServer) -> None:
    send(server, QUESTION)
    assert "authorization" not in server.requests[0].headers


def test_an_endpoints_own_key_is_sent(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHILEAI_KEY_BOX", "box-key-1234")
    send(server, QUESTION, api_key_env="WHILEAI_KEY_BOX")
    assert server.requests[0].headers["authorization"] == "Bearer box-key-1234"


def test_a_vendors_key_is_refused_for_another_host_before_anything_is_sent(server: LoopbackServer) -> None:
    with pytest.raises(ConfigError, match=r"OPENAI_API_KEY is not sent to '127\.0\.0\.1'"):
        send(server, QUESTION, api_key_env="OPENAI_API_KEY")
    assert not server.requests


def test_nobody_listens() -> None:
    provider = OpenAIChat(ResolvedRole("openai", "m", base_url="http://127.0.0.1:9/v1"))
    with pytest.raises(TransportError, match=r"openai:m at 127\.0\.0\.1:9: the connection failed") as failed:
        asyncio.run(provider.send(QUESTION))
    assert failed.value.kind == "connection"
    assert failed.value.__cause__ is None
    assert failed.value.__context__ is None  # the SDK's error holds the request with its key

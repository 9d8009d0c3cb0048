from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopback.server import Answer, LoopbackServer, answers, says
from whileai.errors import TransportError
from whileai.providers import ChatReply, ChatRequest, Usage
from whileai.providers.anthropic_messages import DEFAULT_MAX_TOKENS, AnthropicMessages
from whileai.spec.roles import ResolvedRole

SCHEMA = {
    "type": "object",
    "properties": {"A": {"type": "integer", "minimum": 1, "maximum": 3}},
    "required": ["A"],
    "additionalProperties": False,
}
QUESTION = ChatRequest("Be brief.", (("user", "Rank."),), schema=SCHEMA)


def send(server: LoopbackServer, request: ChatRequest, **fields: Any) -> ChatReply:
    async def main() -> ChatReply:
        provider = AnthropicMessages(ResolvedRole("anthropic", "model-1", base_url=server.messages_url, **fields))
        try:
            return await provider.send(request)
        finally:
            await provider.aclose()

    return asyncio.run(main())


def test_the_request_holds_what_was_asked_and_a_cap(server: LoopbackServer) -> None:
    send(server, QUESTION)
    reduced = {**SCHEMA, "properties": {"A": {"type": "integer"}}}
    assert server.requests[0].path == "/v1/messages"
    assert server.requests[0].headers["anthropic-version"]
    assert server.requests[0].body == {
        "model": "model-1",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "Rank."}],
        "max_tokens": DEFAULT_MAX_TOKENS,
        "output_config": {"format": {"type": "json_schema", "schema": reduced}},
    }


def test_parameters_go_by_their_names_on_the_wire(server: LoopbackServer) -> None:
    params = {"effort": "low", "stop": ["END"], "thinking": {"type": "disabled"}, "extra_body": {"x": 1}}
    send(server, ChatRequest("", (("user", "a"),), max_tokens=30_000, params=params))
    assert server.requests[0].body == {
        "model": "model-1",
        "messages": [{"role": "user", "content": "a"}],
        "max_tokens": 30_000,
        "output_config": {"effort": "low"},
        "stop_sequences": ["END"],
        "thinking": {"type": "disabled"},
        "x": 1,
    }


def test_text_blocks_are_chosen_by_type(server: LoopbackServer) -> None:
    blocks = [
        {"type": "thinking", "thinking": "{}", "signature": "s"},
        {"type": "text", "text": '{"A": '},
        {"type": "redacted_thinking", "data": "?"},
        {"type": "text", "text": "1}"},
        {"type": "text", "text": 4},
        "stray",
    ]
    server.default = answers(Answer(body={"content": blocks, "stop_reason": "end_turn", "model": "m"}))
    assert send(server, QUESTION).text == '{"A": 1}'


def test_cached_tokens_are_counted_in(server: LoopbackServer) -> None:
    usage = {"input_tokens": 60, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 10, "output_tokens": 5}
    body = {"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn", "model": "m-1", "usage": usage}
    server.default = answers(Answer(body=body, headers={"request-id": "req_9"}))
    assert send(server, QUESTION) == ChatReply(
        "x", "stop", "m-1", Usage(100, 5, cached=30, cache_written=10), request_id="req_9"
    )


@pytest.mark.parametrize(
    ("stop_reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "context"),
        ("refusal", "refusal"),
        ("tool_use", "tool"),
        ("pause_turn", "other"),
    ],
)
def test_stop_reasons(server: LoopbackServer, stop_reason: str, finish: str) -> None:
    server.default = says("x", finish=stop_reason)
    assert send(server, QUESTION).finish == finish


def test_an_error_inside_a_200_may_heal(server: LoopbackServer) -> None:
    server.default = answers(Answer(body={"type": "error", "error": {"type": "x", "message": "no worker is free"}}))
    with pytest.raises(TransportError, match="no worker is free"):
        send(server, QUESTION)


def test_without_output_config_the_prompt_says_the_schema(server: LoopbackServer) -> None:
    from loopback.server import knows_only

    server.default = knows_only(says("x"), formats=("prompt",))
    reply = send(server, QUESTION)
    assert reply.steps == ("json_schema",)
    assert [request.format for request in server.requests] == ["json_schema", "prompt"]
    assert '"maximum": 3' in server.requests[1].body["system"]  # the whole schema, not the reduced one


def test_keys(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    send(server, QUESTION)
    monkeypatch.setenv("WHILEAI_KEY_BOX", "box-key-1234")
    send(server, QUESTION, api_key_env="WHILEAI_KEY_BOX")
    none, own = (str(dict(request.headers)) for request in server.requests)
    assert "authorization" not in none
    assert "x-api-key" not in none
    assert "box-key-1234" in own

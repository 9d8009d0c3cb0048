from __future__ import annotations

import asyncio
import logging
from itertools import count

import pytest

from loopback.server import Answer, LoopbackServer, Request, fails, knows_only, says
from whileai.errors import RefusedRequest
from whileai.providers import ChatRequest, capabilities
from whileai.providers.openai_chat import OpenAIChat
from whileai.spec.roles import ResolvedRole

SCHEMA = {"type": "object", "properties": {"A": {"type": "integer"}}, "required": ["A"], "additionalProperties": False}
QUESTION = ChatRequest("", (("user", "x"),), schema=SCHEMA, max_tokens=100)
numbers = count()


def new_provider(server: LoopbackServer, model: str | None = None) -> OpenAIChat:
    return OpenAIChat(ResolvedRole("openai", model or f"m{next(numbers)}", base_url=server.chat_url))


def forms(server: LoopbackServer) -> list[tuple[str, str]]:
    caps = ("max_completion_tokens", "max_tokens")
    return [(request.format, next(cap for cap in caps if cap in request.body)) for request in server.requests]


BEST = ("json_schema", "max_completion_tokens")


def test_a_form_that_works_is_kept(server: LoopbackServer) -> None:
    provider = new_provider(server)
    replies = [asyncio.run(provider.send(QUESTION)) for _ in range(2)]
    assert forms(server) == [BEST, BEST]
    assert all(reply.steps == () for reply in replies)


def test_what_is_refused_by_name_is_left_once_and_remembered(
    server: LoopbackServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.default = knows_only(says("{}"), formats=("prompt",), refuses=("max_completion_tokens",))
    provider = new_provider(server)
    with caplog.at_level(logging.WARNING):
        first = asyncio.run(provider.send(QUESTION))
    assert first.steps == ("max_completion_tokens", "json_schema", "json_object")
    assert "is asked without max_completion_tokens, json_schema, json_object from now on" in caplog.text
    server.forget()
    assert asyncio.run(provider.send(QUESTION)).steps == ()
    assert asyncio.run(new_provider(server, provider._role.name).send(QUESTION)).steps == ()
    assert forms(server) == [("prompt", "max_tokens")] * 2
    server.forget()
    asyncio.run(new_provider(server).send(QUESTION))  # another model of the endpoint is another matter
    assert len(server.requests) == 4


def test_many_at_once_each_step_down_but_only_once(server: LoopbackServer) -> None:
    server.default = knows_only(says("{}"), formats=("json_object", "prompt"))
    provider = new_provider(server)

    async def main() -> list[object]:
        return await asyncio.gather(*(provider.send(QUESTION) for _ in range(20)))

    assert len(asyncio.run(main())) == 20
    assert len(server.requests) <= 40
    assert {form for form, _ in forms(server)} == {"json_schema", "json_object"}


def test_a_refusal_of_something_else_is_not_learned_from(server: LoopbackServer) -> None:
    provider = new_provider(server)
    server.script.append(fails(400, "bad temperature", param="temperature"))
    with pytest.raises(RefusedRequest, match="bad temperature"):
        asyncio.run(provider.send(QUESTION))
    server.script.extend([fails(400, "something")] * 4)
    with pytest.raises(RefusedRequest, match="something"):
        asyncio.run(provider.send(QUESTION))
    server.forget()
    assert asyncio.run(provider.send(QUESTION)).steps == ()
    assert forms(server) == [BEST]


def test_a_form_that_has_worked_is_not_left_for_one_bad_request(server: LoopbackServer) -> None:
    provider = new_provider(server)
    asyncio.run(provider.send(QUESTION))
    server.forget()
    server.default = fails(400, "too many candidates")
    with pytest.raises(RefusedRequest):
        asyncio.run(provider.send(QUESTION))
    assert len(server.requests) == 1


def test_a_request_that_was_under_way_takes_over_what_another_found_out(server: LoopbackServer) -> None:
    known = capabilities.Learned("p", "u", "m")
    ladders = {"format": (("json_schema", "json_object", "prompt"), frozenset(("response_format",)))}
    sent: list[str] = []

    async def send(choice: dict[str, str]) -> object:
        sent.append(choice["format"])
        if choice["format"] == "json_schema":
            known.accept({"format": "prompt"}, ("json_schema", "json_object"))  # meanwhile, elsewhere
            raise capabilities.ParameterRefused(frozenset(), RefusedRequest("bad_request", "no"))
        return reply

    from whileai.providers import ChatReply

    reply = ChatReply("x", "stop")
    got = asyncio.run(capabilities.send_stepping_down(send, ladders, known))  # type: ignore[arg-type]
    assert sent == ["json_schema", "prompt"]
    assert got.steps == ("json_schema",)


def test_what_was_recalled_does_not_replace_what_was_found_out_here() -> None:
    here = capabilities.learned("openai", "http://recall", "m")
    here.accept({"format": "json_schema"}, ())
    capabilities.recall(capabilities.Learned("openai", "http://recall", "m", {"format": "prompt", "cap": "max_tokens"}))
    assert here.rungs == {"format": "json_schema", "cap": "max_tokens"}


def test_a_server_that_reads_only_prose_costs_the_ladder_once(server: LoopbackServer) -> None:
    def behave(request: Request) -> Answer:
        return knows_only(says("{}"), formats=("json_object", "prompt"), named="no")(request)

    server.default = behave
    provider = new_provider(server)
    asyncio.run(provider.send(QUESTION))
    assert forms(server) == [BEST, ("json_schema", "max_tokens"), ("json_object", "max_tokens")]

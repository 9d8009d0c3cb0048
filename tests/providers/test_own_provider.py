"""The example of docs/providers.md, as it stands there, against the loopback server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from loopback.server import Answer, LoopbackServer, Request, answers
from whileai.engine.calls import ModelCaller
from whileai.engine.retry import RetryPolicy
from whileai.errors import ModelsFailed, UnusableVerdict
from whileai.providers import ChatRequest, Provider, registry
from whileai.spec.roles import ResolvedRole

PAGE = (Path(__file__).parents[2] / "docs" / "providers.md").read_text(encoding="utf-8")
QUESTION = ChatRequest("Be brief.", (("user", "Rank."),), schema={"type": "object"})


@pytest.fixture
def role(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> ResolvedRole:
    example = next(code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "class Gemini" in code)
    namespace: dict[str, Any] = {}
    exec(example, namespace)
    own = namespace["Gemini"]
    monkeypatch.setattr(registry, "provider_class_of", lambda name: own)
    monkeypatch.setenv("WHILEAI_KEY_GEMINI", "gemini-key-1234")
    role = ResolvedRole("gemini", "flash", server.root, "WHILEAI_KEY_GEMINI", {"max_tokens": 50, "temperature": 0.2})
    assert isinstance(own(role), Provider)
    return role


def reply(text: str, finish: str = "STOP") -> Answer:
    usage = {"promptTokenCount": 30, "candidatesTokenCount": 4}
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": finish}
    return Answer(body={"candidates": [candidate], "usageMetadata": usage})


def test_it_sends_and_reads(server: LoopbackServer, role: ResolvedRole) -> None:
    server.default = answers(reply("fine"))
    result = ModelCaller([role]).call_blocking(QUESTION, read=str)
    assert (result.value, result.reply.usage.input, result.reply.usage.output) == ("fine", 30, 4)
    assert server.requests[0].path == "/v1beta/models/flash:generateContent"
    assert server.requests[0].headers["x-goog-api-key"] == "gemini-key-1234"
    assert server.requests[0].body == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "Rank."}]}],
        "generationConfig": {
            "maxOutputTokens": 50,
            "temperature": 0.2,
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object"},
        },
    }


def test_the_engine_does_the_rest(server: LoopbackServer, role: ResolvedRole) -> None:
    def read(text: str) -> str:
        if text != "good":
            raise UnusableVerdict("bad", "It is not good.")
        return text

    def last(request: Request) -> Answer:
        return reply("good" if request.body["contents"][-1]["parts"][0]["text"] != "Rank." else "bad")

    cut = answers(reply("go", finish="MAX_TOKENS"))
    server.script += [answers(Answer(503, headers={"retry-after": "0"})), cut]
    server.default = last
    result = ModelCaller([role]).call_blocking(QUESTION, read=read)
    assert result.requests == 4
    assert [request.body["generationConfig"]["maxOutputTokens"] for request in server.requests] == [50, 50, 100, 100]


def test_a_refused_key(server: LoopbackServer, role: ResolvedRole) -> None:
    server.default = answers(Answer(403, {"error": {"message": "no"}}))
    with pytest.raises(ModelsFailed) as failed:
        ModelCaller([role], policy=RetryPolicy()).call_blocking(QUESTION, read=str)
    assert (failed.value.kind, len(server.requests)) == ("permission", 1)

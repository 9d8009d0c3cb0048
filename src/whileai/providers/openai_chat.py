"""`openai:` - chat completions, at OpenAI or any compatible endpoint (vLLM, SGLang, llama.cpp, Ollama,
Azure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from whileai.providers import capabilities, keys, statuses
from whileai.providers.protocol import ChatReply, ChatRequest, Finish, ParameterType, Usage
from whileai.providers.schemas import openai_schema, schema_instruction
from whileai.providers.sdk import SdkProvider

if TYPE_CHECKING:
    import openai

_FORMAT = ("json_schema", "json_object", "prompt")
_CAP = ("max_completion_tokens", "max_tokens")
_WIRE_NAMES = {"effort": "reasoning_effort"}
_FINISHES: dict[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool",
    "function_call": "tool",
}


class OpenAIChat(SdkProvider["openai.AsyncOpenAI"]):
    """One model behind a `/chat/completions` endpoint."""

    vendor: ClassVar[str] = "openai"
    parameters: ClassVar[Mapping[str, ParameterType]] = {
        "max_tokens": int,
        "temperature": (int, float),
        "top_p": (int, float),
        "effort": str,
        "seed": int,
        "stop": (str, list),
        "frequency_penalty": (int, float),
        "presence_penalty": (int, float),
        "verbosity": str,
        "service_tier": str,
        "extra_body": dict,
    }
    default_max_tokens: ClassVar[int | None] = None

    async def send(self, request: ChatRequest) -> ChatReply:
        schema = None if request.schema is None else openai_schema(request.schema)
        ladders: dict[str, tuple[capabilities.Ladder, frozenset[str]]] = {}
        if request.max_tokens is not None:
            ladders["cap"] = (_CAP, frozenset(_CAP[:1]))
        if schema is not None:
            ladders["format"] = (_FORMAT, frozenset(("response_format",)))
        return await capabilities.send_stepping_down(
            lambda choice: self._send(self._body(request, schema, choice), request.timeout_s),
            ladders,
            self._learned,
        )

    async def _send(self, body: dict[str, Any], timeout_s: float) -> ChatReply:
        import openai

        from whileai.providers import wire

        create = self._clients.get().chat.completions.with_raw_response.create
        content, headers = await wire.answer(
            openai, create(**body, timeout=wire.timeout(timeout_s)), endpoint=self._endpoint
        )
        return _read_reply(statuses.json_object(content), headers.get("x-request-id"), self._endpoint)

    def _client(self) -> openai.AsyncOpenAI:
        import openai

        return openai.AsyncOpenAI(**self._client_settings())

    def _body(
        self, request: ChatRequest, schema: tuple[dict[str, Any], bool] | None, choice: Mapping[str, str]
    ) -> dict[str, Any]:
        """The keywords of the SDK's `create`."""
        body: dict[str, Any] = {_WIRE_NAMES.get(name, name): value for name, value in request.params.items()}
        system = request.system
        if request.max_tokens is not None:
            body[choice["cap"]] = request.max_tokens
        if schema is not None and choice["format"] == "json_schema":
            form, strict = schema
            name = re.sub(r"[^A-Za-z0-9_-]", "_", request.schema_name)[:64] or "reply"
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": name, "schema": form, "strict": strict},
            }
        elif request.schema is not None:
            system = f"{system}\n\n{schema_instruction(request.schema)}".strip()
            if schema is not None and choice["format"] == "json_object":
                body["response_format"] = {"type": "json_object"}
        messages = [{"role": "system", "content": system}] if system else []
        messages += [{"role": speaker, "content": text} for speaker, text in request.turns]
        return {"model": self._role.name, "messages": messages, **body}


def _read_reply(body: dict[str, Any] | None, request_id: str | None, endpoint: str) -> ChatReply:
    choices = (body or {}).get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    choice = first if isinstance(first, dict) else {}
    message = choice.get("message")
    if body is None or not isinstance(message, dict):
        raise statuses.bad_body(body, endpoint)
    refusal = message.get("refusal")
    finish: Finish = _FINISHES.get(str(choice.get("finish_reason")), "other")
    if isinstance(refusal, str) and refusal:
        finish, text = "refusal", refusal
    else:
        text = _content_text(message.get("content"))
    model, usage = body.get("model"), body.get("usage")
    return ChatReply(keys.redact(text), finish, model if isinstance(model, str) else None, _usage(usage), request_id)


def _content_text(content: object) -> str:
    """A reply's text: a string, or, from some compatible servers, a list of parts."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _usage(usage: object) -> Usage:
    return Usage(
        input=statuses.count(usage, "prompt_tokens"),
        output=statuses.count(usage, "completion_tokens"),
        cached=statuses.count(usage, "prompt_tokens_details", "cached_tokens"),
        reasoning=statuses.count(usage, "completion_tokens_details", "reasoning_tokens"),
    )

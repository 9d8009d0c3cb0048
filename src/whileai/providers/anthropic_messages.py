"""`anthropic:` - messages, at Anthropic itself or at an endpoint that speaks the same wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from whileai.providers import capabilities, keys, statuses
from whileai.providers.protocol import ChatReply, ChatRequest, Finish, ParameterType, Usage
from whileai.providers.schemas import anthropic_schema, schema_instruction
from whileai.providers.sdk import SdkProvider

if TYPE_CHECKING:
    import anthropic

DEFAULT_MAX_TOKENS = 16_000
"""The wire wants a cap. This is room for thinking and a verdict, and below what the SDK only does by
streaming."""

_FORMAT = ("json_schema", "prompt")
_WIRE_NAMES = {"stop": "stop_sequences"}
_FINISHES: dict[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "context",
    "refusal": "refusal",
    "tool_use": "tool",
}


class AnthropicMessages(SdkProvider["anthropic.AsyncAnthropic"]):
    """One model behind a `/v1/messages` endpoint. The API takes no temperature."""

    vendor: ClassVar[str] = "anthropic"
    parameters: ClassVar[Mapping[str, ParameterType]] = {
        "max_tokens": int,
        "effort": str,
        "thinking": dict,
        "stop": list,
        "service_tier": str,
        "cache_control": dict,
        "extra_body": dict,
    }
    default_max_tokens: ClassVar[int | None] = DEFAULT_MAX_TOKENS

    async def send(self, request: ChatRequest) -> ChatReply:
        schema = None if request.schema is None else anthropic_schema(request.schema)
        ladders = {} if schema is None else {"format": (_FORMAT, frozenset(("output_config",)))}
        return await capabilities.send_stepping_down(
            lambda choice: self._send(self._body(request, schema, choice), request.timeout_s),
            ladders,
            self._learned,
        )

    async def _send(self, body: dict[str, Any], timeout_s: float) -> ChatReply:
        import anthropic

        from whileai.providers import wire

        create = self._clients.get().messages.with_raw_response.create
        content, headers = await wire.answer(
            anthropic, create(**body, timeout=wire.timeout(timeout_s)), endpoint=self._endpoint
        )
        return _read_reply(statuses.json_object(content), headers, self._endpoint)

    def _client(self) -> anthropic.AsyncAnthropic:
        import anthropic

        return anthropic.AsyncAnthropic(**self._client_settings())

    def _body(self, request: ChatRequest, schema: dict[str, Any] | None, choice: Mapping[str, str]) -> dict[str, Any]:
        """The keywords of the SDK's `create`."""
        params = dict(request.params)
        output: dict[str, Any] = {"effort": params.pop("effort")} if "effort" in params else {}
        system = request.system
        if schema is not None and choice["format"] == "json_schema":
            output["format"] = {"type": "json_schema", "schema": schema}
        elif request.schema is not None:
            system = f"{system}\n\n{schema_instruction(request.schema)}".strip()
        body: dict[str, Any] = {_WIRE_NAMES.get(name, name): value for name, value in params.items()}
        if output:
            body["output_config"] = output
        if system:
            body["system"] = system
        return {
            "model": self._role.name,
            "max_tokens": request.max_tokens or DEFAULT_MAX_TOKENS,
            "messages": [{"role": speaker, "content": text} for speaker, text in request.turns],
            **body,
        }


def _read_reply(body: dict[str, Any] | None, headers: Mapping[str, str], endpoint: str) -> ChatReply:
    blocks = (body or {}).get("content")
    if body is None or not isinstance(blocks, list):
        raise statuses.bad_body(body, endpoint)
    parts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    model, usage = body.get("model"), body.get("usage")
    return ChatReply(
        keys.redact("".join(part for part in parts if isinstance(part, str))),
        _FINISHES.get(str(body.get("stop_reason")), "other"),
        model if isinstance(model, str) else None,
        _usage(usage),
        headers.get("request-id") or headers.get("x-request-id"),
    )


def _usage(usage: object) -> Usage:
    """`input_tokens` leaves the cached tokens out; our `input` counts them all."""
    fresh = statuses.count(usage, "input_tokens")
    cached = statuses.count(usage, "cache_read_input_tokens")
    written = statuses.count(usage, "cache_creation_input_tokens")
    return Usage(
        input=None if fresh is None else fresh + (cached or 0) + (written or 0),
        output=statuses.count(usage, "output_tokens"),
        cached=cached,
        cache_written=written,
    )

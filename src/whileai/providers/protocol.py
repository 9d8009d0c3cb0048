"""What a provider is: it sends one chat request to one model and returns the reply.

A provider retries nothing, caches nothing and counts nothing: the engine does. It raises

    TransportError   no answer, or one that may heal; kind is one of
                     connection, timeout, bad_body, rate_limited, overloaded, server_error, request_timeout,
                     conflict
    RefusedRequest   the same request never succeeds; kind is one of
                     auth, permission, payment, insufficient_quota, not_found, too_large, context_length,
                     redirect, bad_request, no_key
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

Turn = tuple[Literal["user", "assistant"], str]
"""Who speaks, and the text."""

Finish = Literal["stop", "length", "context", "refusal", "content_filter", "tool", "other"]
"""Why a reply ended. `length`: its token cap. `context`: the model's window, which no larger cap helps."""

ParameterType = type | tuple[type, ...]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request, in no vendor's form.

    Args:
        system: the system text; empty for none.
        turns: user and assistant turns in order; the last one is the user's.
        schema: JSON Schema of the reply (an object at its root), or None for free text.
        schema_name: a name for the schema, of letters, digits, `_` and `-`, at most 64.
        max_tokens: cap of the reply in tokens; None for the provider's own default, or none.
        params: the role's other parameters, as the provider names them. Nothing else is sent.
        timeout_s: seconds until the request is given up.
        repeat: number of an intended repetition. It is never sent; it tells caches and recordings apart.
    """

    system: str
    turns: tuple[Turn, ...]
    schema: Mapping[str, Any] | None = None
    schema_name: str = "reply"
    max_tokens: int | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 60.0
    repeat: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "system", encodable(self.system))
        object.__setattr__(self, "turns", tuple((speaker, encodable(text)) for speaker, text in self.turns))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply; None where the endpoint did not say.

    `input` counts all input tokens, `cached` and `cache_written` are parts of it; `reasoning` is a part of
    `output`.
    """

    input: int | None = None
    output: int | None = None
    cached: int | None = None
    cache_written: int | None = None
    reasoning: int | None = None


@dataclass(frozen=True, slots=True)
class ChatReply:
    """One reply. `steps` names what the endpoint had to be asked for again without, such as `json_schema`."""

    text: str
    finish: Finish
    served_model: str | None = None
    usage: Usage = field(default_factory=Usage)
    request_id: str | None = None
    steps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", encodable(self.text))


@runtime_checkable
class Provider(Protocol):
    """One model behind one endpoint. Built as `provider_class(role)`; used from one event loop at a time.

    `parameters` names what a role may set under `params`, each with the type of its value (`max_tokens`
    included, where there is such a cap). `default_max_tokens` is the cap that is sent when the role sets
    none.
    """

    parameters: ClassVar[Mapping[str, ParameterType]]
    default_max_tokens: ClassVar[int | None]

    async def send(self, request: ChatRequest) -> ChatReply: ...

    async def aclose(self) -> None: ...


def encodable(text: str) -> str:
    """The text with lone surrogates, which JSON can carry and UTF-8 can not, as U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text

"""What one rollout did, as text and as structure.

A grader reads a completion as text, however the trainer delivered it. `completion_text` renders messages so
that a tool call and a tool result look the way they do in plain-text rollouts, and so that a policy can not
forge a result or a user's consent: tags that only the renderer may write are escaped in everybody's text.
`tool_calls` and `tool_results` read the structure and never the text.

Nothing here raises on JSON-like input: a message that is no mapping, or content of an unknown kind, is shown
as what it is. Not covered: budgets, fences and labels for a judge's prompt, which are `judging/`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

Message = Mapping[str, Any]


class ToolCall(NamedTuple):
    """One call a policy made. `arguments` is decoded where it was JSON text, else as it came."""

    name: str
    arguments: Any
    id: str | None


class ToolResult(NamedTuple):
    """What a tool answered. `name` falls back to the name of the call with the same id."""

    name: str | None
    content: str
    id: str | None


def completion_text(messages: Sequence[Any]) -> str:
    """The completion as text, one line-separated part per event, in order.

    Assistant text stands bare; a call is `<tool_call>{"name": ..., "arguments": ...}</tool_call>`, a result
    `<tool_response>...</tool_response>`, a user turn `<user>...</user>`. In assistant text `<tool_call>` is
    left alone (models that are not parsed write their calls so); the other tags are escaped as `&lt;`. In
    results and user turns every one of the tags is.
    """
    parts: list[str] = []
    for kind, value in events(messages):
        if kind == "call":
            shown = _json({"name": value.name, "arguments": value.arguments})
            parts.append(f"<tool_call>{_ANY_TAG.sub(_JSON_LESS_THAN, shown)}</tool_call>")
        elif kind == "result":
            parts.append(f"<tool_response>{_ANY_TAG.sub('&lt;', value.content)}</tool_response>")
        elif kind == "assistant":
            parts.append(_FORGED_TAG.sub("&lt;", value))
        else:
            parts.append(f"<{kind}>{_ANY_TAG.sub('&lt;', value)}</{kind}>")
    return "\n".join(parts)


def tool_calls(messages: Sequence[Any]) -> list[ToolCall]:
    """Every tool call of the assistant's, in order, from the structure of the messages only."""
    return [value for kind, value in events(messages) if kind == "call"]


def tool_results(messages: Sequence[Any]) -> list[ToolResult]:
    """Every tool result, in order, from the structure of the messages only."""
    return [value for kind, value in events(messages) if kind == "result"]


EventKind = Literal["assistant", "user", "system", "call", "result"]


def events(messages: Sequence[Any]) -> Iterator[tuple[EventKind, Any]]:
    """What happened, in order: text (str) of a role, `ToolCall`, or `ToolResult`. Empty text is left out.

    Reads the chat-completions form (`tool_calls`, role `tool`) and the messages form (`tool_use` and
    `tool_result` blocks). A role that nobody knows speaks as the user.
    """
    names: dict[str, str] = {}
    for message in messages:
        if not isinstance(message, Mapping):
            yield "assistant", str(message)
            continue
        role = message.get("role")
        content = message.get("content")
        if role in ("tool", "function"):
            call_id = _text_or_none(message.get("tool_call_id"))
            name = _text_or_none(message.get("name")) or names.get(call_id or "")
            yield "result", ToolResult(name, content_text(content), call_id)
            continue
        speaker = _SPEAKERS.get(role, "user") if isinstance(role, str) else "user"
        for block in _blocks(content):
            call = _call_of(block) if speaker == "assistant" else None
            if call is not None:
                names[call.id or ""] = call.name
                yield "call", call
            elif isinstance(block, Mapping) and block.get("type") == "tool_result":
                result_id = _text_or_none(block.get("tool_use_id"))
                yield (
                    "result",
                    ToolResult(names.get(result_id or ""), content_text(block.get("content")), result_id),
                )
            elif text := content_text([block]):
                yield speaker, text
        calls = message.get("tool_calls")
        for raw in calls if isinstance(calls, (list, tuple)) else ():
            call = _call_of(raw) or ToolCall("unknown", raw, None)
            names[call.id or ""] = call.name
            yield "call", call


def content_text(content: Any) -> str:
    """A message's content as text: a string as it is, None as "", text blocks joined, other blocks as `[type]`."""
    if isinstance(content, str):
        return content
    if content is None:
        return ""
    return "".join(_block_text(block) for block in _blocks(content))


def copy_json(value: Any) -> Any:
    """A copy whose lists and dicts are the caller's no longer; leaves (text, numbers, anything else) are shared."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    return value


_SPEAKERS: dict[str, EventKind] = {
    "assistant": "assistant",
    "user": "user",
    "system": "system",
    "developer": "system",
}
_FORGED_TAG = re.compile(r"<(?=\s*/?\s*(?:tool_response|user|system)\b)", re.IGNORECASE)
_ANY_TAG = re.compile(r"<(?=\s*/?\s*(?:tool_call|tool_response|user|system)\b)", re.IGNORECASE)
_JSON_LESS_THAN = r"\\u003c"


def _blocks(content: Any) -> Sequence[Any]:
    """Content as blocks, with neighbouring text kept apart the way it came."""
    if content is None:
        return ()
    return content if isinstance(content, (list, tuple)) else (content,)


def _block_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, Mapping):
        text = block.get("text")
        if isinstance(text, str):
            return text
        return f"[{block.get('type', 'block')}]"
    return str(block)


def _call_of(raw: Any) -> ToolCall | None:
    """A tool call in any of its written forms; None where `raw` is no call."""
    if not isinstance(raw, Mapping):
        return None
    inner = raw.get("function")
    source = inner if isinstance(inner, Mapping) else raw
    name = source.get("name")
    if not isinstance(name, str) or not ("arguments" in source or "input" in source or source is inner):
        return None
    arguments = source.get("arguments", source.get("input", {}))
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):  # policies write broken JSON: their text is then what they sent
            arguments = json.loads(arguments)
    return ToolCall(name, arguments, _text_or_none(raw.get("id")))


def _text_or_none(value: Any) -> str | None:
    return None if value is None else str(value)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, cycles, nesting without end
        return json.dumps({"name": value["name"], "arguments": "[arguments that are no JSON]"}, ensure_ascii=False)

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
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal, NamedTuple

from whileai.core.values import shown

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


def completion_text(messages: Any) -> str:
    """The completion as text, one line-separated part per event, in order.

    Assistant text stands bare; a call is `<tool_call>{"name": ..., "arguments": ...}</tool_call>`, a result
    `<tool_response>...</tool_response>`, a user turn `<user>...</user>`. In assistant text `<tool_call>` is
    left alone (models that are not parsed write their calls so); the other tags are escaped as `&lt;`. In
    results and user turns every one of the tags is. A tag counts as one however it is cased or spaced, in wide
    letters and with invisible characters in it.
    """
    parts: list[str] = []
    for speaker, run in groupby(events(messages), key=itemgetter(0)):
        values = [value for _, value in run]
        if speaker == "call":
            for call in values:
                text = _json({"name": call.name, "arguments": call.arguments})
                parts.append(f"<tool_call>{_escape(text, _TAGS, _json_escape)}</tool_call>")
        elif speaker == "result":
            parts += [f"<tool_response>{_escape(result.content, _TAGS)}</tool_response>" for result in values]
        elif speaker == "assistant":
            parts.append(_escape("\n".join(values), _TAGS - {"tool_call"}))  # a tag may be spread over texts
        else:
            parts += [f"<{speaker}>{_escape(text, _TAGS)}</{speaker}>" for text in values]
    return "\n".join(parts)


def tool_calls(messages: Any) -> list[ToolCall]:
    """Every tool call of the assistant's, in order, from the structure of the messages only."""
    return [value for kind, value in events(messages) if kind == "call"]


def tool_results(messages: Any) -> list[ToolResult]:
    """Every tool result, in order, from the structure of the messages only."""
    return [value for kind, value in events(messages) if kind == "result"]


EventKind = Literal["assistant", "user", "system", "call", "result"]


def events(messages: Any) -> Iterator[tuple[EventKind, Any]]:
    """What happened, in order: text (str) of a role, `ToolCall`, or `ToolResult`. Empty text is left out.

    Reads the chat-completions form (`tool_calls`, the older `function_call`, role `tool`) and the messages form
    (`tool_use` and `tool_result` blocks). Neighbouring text blocks of a message are one text. A role that nobody
    knows speaks as the user; what is no message is shown as the assistant's text.
    """
    names: dict[str, str] = {}
    for message in _blocks(messages):
        if not isinstance(message, Mapping):
            if text := _block_text(message):
                yield "assistant", text
            continue
        role = message.get("role")
        content = message.get("content")
        if role in ("tool", "function"):
            yield "result", _result(message, "tool_call_id", names)
            continue
        speaker = _SPEAKERS.get(role, "user") if isinstance(role, str) else "user"
        texts: list[str] = []
        for block in _blocks(content):
            event: tuple[EventKind, Any] | None = None
            if isinstance(block, Mapping):
                if speaker == "assistant" and (call := _call_of(block)) is not None:
                    event = "call", call
                elif speaker != "assistant" and block.get("type") == "tool_result":
                    event = "result", _result(block, "tool_use_id", names)
            if event is None:
                texts.append(_block_text(block))
                continue
            if text := "".join(texts):
                yield speaker, text
            texts = []
            if event[0] == "call":
                names[event[1].id or ""] = event[1].name
            yield event
        if text := "".join(texts):
            yield speaker, text
        calls = message.get("tool_calls")
        for raw in filter(None, (*_blocks(calls), *_blocks(message.get("function_call")))):
            call = _call_of(raw) or ToolCall("unknown", raw, None)
            names[call.id or ""] = call.name
            yield "call", call


def content_text(content: Any) -> str:
    """A message's content as text: a string as it is, None as "", text blocks joined, other blocks as `[type]`."""
    return content if isinstance(content, str) else "".join(map(_block_text, _blocks(content)))


def copy_json(value: Any) -> Any:
    """A copy whose lists and dicts are the caller's no longer; leaves (text, numbers, anything else) are shared.

    Tuples that hold lists, dicts or tuples become lists. Without recursion: a policy may nest its arguments as
    deeply as it likes.
    """
    if not isinstance(value, (dict, list, tuple)):
        return value
    copied: list[Any] = [value]
    made: dict[int, Any] = {}  # by identity, so that a cycle ends
    unread: list[Any] = [copied]
    while unread:
        holder = unread.pop()
        for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if not isinstance(item, (dict, list, tuple)):
                continue
            if isinstance(item, tuple) and not any(isinstance(part, (dict, list, tuple)) for part in item):
                continue
            if id(item) not in made:
                made[id(item)] = new = dict(item) if isinstance(item, dict) else list(item)
                unread.append(new)
            holder[key] = made[id(item)]
    return copied[0]


_SPEAKERS: dict[str, EventKind] = {
    "assistant": "assistant",
    "user": "user",
    "system": "system",
    "developer": "system",
}
_TAGS = frozenset({"tool_call", "tool_response", "user", "system"})
_PREFIXES = frozenset(tag[:end] for tag in _TAGS for end in range(len(tag) + 1))
_TAG_START = re.compile(r"[<\uff1c\ufe64](?=\s*+(?:[/tTuUsS]|[^\s!-~]))")
"""Where one of them can begin: `<`, in any width, before its first letter, a slash, or what may be invisible."""


def _escape(text: str, tags: frozenset[str], escaped: Callable[[str], str] = lambda _: "&lt;") -> str:
    def less_than(found: re.Match[str]) -> str:
        return escaped(found[0]) if _names_a_tag(text, found.end(), tags) else found[0]

    return _TAG_START.sub(less_than, text)


def _names_a_tag(text: str, start: int, tags: frozenset[str]) -> bool:
    """Whether a reader who ignores case, width, spacing and what is invisible reads one of `tags` here."""
    name = ""
    for position in range(start, len(text)):
        letters = _letters(text[position])
        if name in tags and not (letters and (letters[0].isalnum() or letters[0] == "_")):
            return True
        name += letters if name or letters != "/" else ""
        if name not in _PREFIXES:
            return False
    return name in tags


@lru_cache(maxsize=4096)
def _letters(character: str) -> str:
    """What is left of a character without case, width, accents, spacing and invisibility: mostly one letter."""
    folded = unicodedata.normalize("NFKD", character).casefold()
    return "".join(c for c in folded if unicodedata.category(c)[0] not in "CMZ" and c not in "\u115f\u1160")


def _json_escape(character: str) -> str:
    return f"\\u{ord(character):04x}"


def _blocks(content: Any) -> Sequence[Any]:
    if content is None:
        return ()
    return content if isinstance(content, (list, tuple)) else (content,)


def _block_text(block: Any) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, Mapping):
        text, kind = block.get("text"), block.get("type")
        return text if isinstance(text, str) else f"[{kind if isinstance(kind, str) else 'block'}]"
    return "" if block is None else _json(block)


def _result(message: Message, id_key: str, names: Mapping[str, str]) -> ToolResult:
    call_id = _text_or_none(message.get(id_key))
    name = _text_or_none(message.get("name")) or names.get(call_id or "")
    return ToolResult(name, content_text(message.get("content")), call_id)


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
    return value if value is None or isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, cycles, nesting without end
        return "".join(_json_pieces(value))


def _json_pieces(value: Any) -> Iterator[str]:
    """JSON without recursion, whatever the value: what a policy wrote must not hide by its form."""
    seen: set[int] = set()
    unread: list[tuple[bool, Any]] = [(False, value)]  # (is JSON text already, what comes next); the last is next
    while unread:
        ready, item = unread.pop()
        if ready:
            yield item
        elif not isinstance(item, (Mapping, list, tuple)):
            try:
                yield json.dumps(item, ensure_ascii=False, default=str)
            except ValueError:  # whole numbers of more digits than Python writes
                yield json.dumps(shown(item))
        elif id(item) in seen:
            yield '"[shown above]"'
        else:
            seen.add(id(item))
            mapping = isinstance(item, Mapping)
            inner: list[tuple[bool, Any]] = []
            for key, part in item.items() if isinstance(item, Mapping) else enumerate(item):
                name = json.dumps(key if isinstance(key, str) else shown(key), ensure_ascii=False) + ": "
                inner += [(True, (", " if inner else "") + (name if mapping else "")), (False, part)]
            unread += reversed([(True, "{" if mapping else "["), *inner, (True, "}" if mapping else "]")])

"""A rollout as the numbered steps that a judge reads.

A step is one thing that happened: text of a role, a tool call, a tool result, a column of the dataset. What
`core.rollout` does for graders in plain text, this does for a judge: nothing that tells two rollouts apart is
left out (a call's arguments stand as the policy wrote them, blocks that are no text carry a digest), and
everything is `visible`. Never raises on JSON-like messages. Not shown: ids of calls, hidden reasoning.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from whileai.judging.visible import visible


class Step(NamedTuple):
    """One thing that happened. Both texts are safe to show; `title` is one line.

    `title` is the role, `call NAME`, `result NAME` (`result` alone right after its call, or where nobody knows the
    name), `text` (a rollout without messages), `prompt` or `column NAME`.
    """

    title: str
    text: str

    @property
    def is_call(self) -> bool:
        return self.title.startswith("call ")


def rollout_steps(rollout: Mapping[str, Any]) -> list[Step]:
    """The steps of a rollout: of its `messages`, or else its `completion` as one `text` step."""
    messages = rollout.get("messages")
    if isinstance(messages, (list, tuple)):
        return list(message_steps(messages))
    completion = rollout.get("completion")
    text = completion if isinstance(completion, str) else json_text(completion)
    return [Step("text", visible(text, keep_transcript_tags=True))]


def prompt_steps(prompt: object) -> list[Step]:
    """The steps of a prompt: a list of messages, or text (none if it is empty)."""
    if isinstance(prompt, (list, tuple)):
        return list(message_steps(prompt))
    text = prompt if isinstance(prompt, str) else json_text(prompt)
    return [Step("prompt", visible(text))] if text else []


def column_step(name: str, value: object) -> Step:
    """A column of the dataset: text as it is, anything else as JSON."""
    return Step(f"column {_name(name)}", visible(value if isinstance(value, str) else json_text(value)))


def message_steps(messages: Sequence[Any]) -> Iterator[Step]:
    """What happened in `messages`, in order. Reads the chat-completions form and the blocks form."""
    previous = Step("", "")
    for step in _named_steps(messages):
        named_above = previous.is_call and step.title == f"result {previous.title.removeprefix('call ')}"
        yield step._replace(title="result") if named_above else step
        previous = step


def json_text(value: object) -> str:
    """`value` as compact JSON; None as nothing."""
    if value is None:
        return ""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, cycles, nesting without end
        return f"a {type(value).__name__} that JSON cannot write"


def digest(text: str, length: int = 10) -> str:
    """The first hex digits of the SHA-256 of `text`, lone surrogates included."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]


def _named_steps(messages: Sequence[Any]) -> Iterator[Step]:
    names: dict[str, str] = {}
    for message in messages:
        if not isinstance(message, Mapping):
            yield Step("text", visible(message if isinstance(message, str) else json_text(message)))
            continue
        role, content = message.get("role"), message.get("content")
        calls = _calls_of(message)
        if role in ("tool", "function"):
            yield _result(message.get("name"), message.get("tool_call_id"), content, names)
            content = None
        yield from _content_steps(
            _role(role), content, names, may_be_empty=role not in ("tool", "function") and not calls
        )
        for call in calls:
            yield _call(call, names)


def _content_steps(role: str, content: object, names: dict[str, str], *, may_be_empty: bool) -> Iterator[Step]:
    texts: list[str] = []
    empty = True
    for block in content if isinstance(content, (list, tuple)) else () if content is None else (content,):
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind in ("tool_use", "tool_result"):
            if texts:
                yield Step(role, "\n".join(texts))
            texts, empty = [], False
            yield (
                _call(block, names)
                if kind == "tool_use"
                else _result(None, block.get("tool_use_id"), block.get("content"), names)
            )
        else:
            texts.append(_block_text(block))
    text = "\n".join(texts)
    if text or (empty and may_be_empty):
        yield Step(role, text)


def _block_text(block: object) -> str:
    if isinstance(block, str):
        return visible(block)
    if isinstance(block, Mapping):
        text = block.get("text")
        if isinstance(text, str) and block.get("type", "text") in ("text", "input_text", "output_text"):
            return visible(text)
        kind = block.get("type")
        named = f"block of type {_name(kind)}" if isinstance(kind, str) else "block"
        written = json_text(block)
        return f"⟨{named}, {len(written):,} characters, {digest(written)}⟩"
    return visible(json_text(block))


def _calls_of(message: Mapping[str, Any]) -> Sequence[object]:
    calls = message.get("tool_calls")
    listed = list(calls) if isinstance(calls, (list, tuple)) else [] if calls is None else [calls]
    legacy = message.get("function_call")
    return listed if legacy is None else [*listed, legacy]


def _call(raw: object, names: dict[str, str]) -> Step:
    if isinstance(raw, Mapping):
        inner = raw.get("function")
        source = inner if isinstance(inner, Mapping) else raw
        name = source.get("name")
        if isinstance(name, str):
            if raw.get("id") is not None:
                names[str(raw["id"])] = name
            arguments = source.get("arguments", source.get("input"))
            text = arguments if isinstance(arguments, str) else json_text(arguments)
            return Step(f"call {_name(name)}", visible(text))
    return Step("call ⟨without a name⟩", visible(json_text(raw)))


def _result(name: object, call_id: object, content: object, names: dict[str, str]) -> Step:
    known = name if isinstance(name, str) else None if call_id is None else names.get(str(call_id))
    blocks = content if isinstance(content, (list, tuple)) else () if content is None else (content,)
    return Step(f"result {_name(known)}" if known else "result", "\n".join(map(_block_text, blocks)))


def _role(role: object) -> str:
    return (
        role
        if role in _ROLES and isinstance(role, str)
        else f"role {_name(role if isinstance(role, str) else json_text(role))}"
    )


def _name(name: str) -> str:
    """A name on one line: as it is where it is plain, else quoted as JSON."""
    return name if _PLAIN_NAME.fullmatch(name) else visible(json.dumps(name, ensure_ascii=False))


_ROLES = ("assistant", "user", "system", "developer")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_./-]{1,100}")

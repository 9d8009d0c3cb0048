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

    `title` is the role, `call NAME`, `result` (of the call before it; `result of call 2` where several were made at
    once, `result NAME` where the messages do not say of which), `text` (a rollout without messages), `prompt` or
    `column NAME`. A `+` before it: of the same message as the step before.
    """

    title: str
    text: str

    @property
    def is_call(self) -> bool:
        return is_call(self.title)


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
    calls = _Calls()
    for message in messages:
        steps = _steps_of(message, calls) if isinstance(message, Mapping) else [_plain(message)]
        for position, step in enumerate(steps):
            yield step._replace(title=f"+{step.title}") if position else step


def is_call(title: str) -> bool:
    """Whether a step of this title is a tool call."""
    return title.startswith(("call ", "+call "))


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


class _Calls:
    """The calls made so far: which of the latest batch a result answers, and the name of every id."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.batch: list[str | None] = []
        self.answered: set[int] = set()

    def made(self, call_id: object, name: str) -> None:
        if self.answered:
            self.batch, self.answered = [], set()
        self.batch.append(None if call_id is None else str(call_id))
        if call_id is not None:
            self.names[str(call_id)] = name

    def result_title(self, call_id: object, name: object) -> str:
        known = None if call_id is None else self.names.get(str(call_id))
        named = f" {_name(name)}" if isinstance(name, str) and name and name != known else ""
        for position, made in enumerate(self.batch):
            if made is not None and made == str(call_id) and position not in self.answered:
                self.answered.add(position)
                return f"result of call {position + 1}{named}" if len(self.batch) > 1 else f"result{named}"
        self.answered.add(-1)
        return f"result{named or (f' {_name(known)}' if known else '')}"


def _steps_of(message: Mapping[str, Any], calls: _Calls) -> Iterator[Step]:
    role, content = message.get("role"), message.get("content")
    made = _calls_of(message)
    if content is None and not made:
        content = _rest(message) or None  # a form that nobody knows here: shown as it is, rather than as nothing
    if role in ("tool", "function"):
        yield _result(message.get("tool_call_id"), message.get("name"), content, calls)
    else:
        yield from _content_steps(_role(role), content, calls, may_be_empty=not made)
    for call in made:
        yield _call(call, calls)


def _content_steps(role: str, content: object, calls: _Calls, *, may_be_empty: bool) -> Iterator[Step]:
    texts: list[str] = []
    empty = True
    for block in _blocks(content):
        kind = block.get("type") if isinstance(block, Mapping) else None
        if isinstance(block, Mapping) and (kind == "tool_result" or _is_call_block(block, role)):
            if texts:
                yield Step(role, "\n".join(texts))
            texts, empty = [], False
            yield (
                _result(block.get("tool_use_id"), None, block.get("content"), calls)
                if kind == "tool_result"
                else _call(block, calls)
            )
        else:
            texts.append(_block_text(block))
    text = "\n".join(texts)
    if text or (empty and may_be_empty):
        yield Step(role, text)


def _is_call_block(block: Mapping[str, Any], role: str) -> bool:
    """As `core.rollout` reads it: `tool_use`, or whatever else of the assistant's has a name and arguments."""
    inner = block.get("function")
    source = inner if isinstance(inner, Mapping) else block
    named = isinstance(source.get("name"), str)
    return block.get("type") == "tool_use" or (
        role == "assistant" and named and ("arguments" in source or "input" in source or source is inner)
    )


def _rest(source: Mapping[str, Any], *also_shown: str) -> str:
    """What a message or call says beside the fields that are shown elsewhere or never, as JSON; "" for nothing."""
    shown = _NOT_THE_REST.union(also_shown)
    rest = {key: value for key, value in source.items() if key not in shown and value is not None}
    return json_text(rest) if rest else ""


def _plain(message: object) -> Step:
    return Step("text", visible(message if isinstance(message, str) else json_text(message)))


def _blocks(content: object) -> Sequence[object]:
    return content if isinstance(content, (list, tuple)) else () if content is None else (content,)


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


def _call(raw: object, calls: _Calls) -> Step:
    if isinstance(raw, Mapping):
        inner = raw.get("function")
        source = inner if isinstance(inner, Mapping) else raw
        name = source.get("name")
        if isinstance(name, str):
            calls.made(raw.get("id"), name)
            given = (value for key in ("arguments", "input") if (value := source.get(key)) is not None)
            arguments = next(given, None)
            text = arguments if isinstance(arguments, str) else json_text(arguments)
            if arguments is None:
                text = _rest(source, "name", "type")
            return Step(f"call {_name(name)}", visible(text))
    calls.made(None, "")
    return Step("call ⟨without a name⟩", visible(json_text(raw)))


def _result(call_id: object, name: object, content: object, calls: _Calls) -> Step:
    return Step(calls.result_title(call_id, name), "\n".join(map(_block_text, _blocks(content))))


def _role(role: object) -> str:
    return (
        role
        if role in _ROLES and isinstance(role, str)
        else f"role {_name(role if isinstance(role, str) else json_text(role))}"
    )


def _name(name: str) -> str:
    """A name on one line: as it is where it is plain, else quoted as JSON."""
    return name if _PLAIN_NAME.fullmatch(name) else visible(json.dumps(name, ensure_ascii=False))


_NOT_THE_REST = frozenset(
    (
        *("role", "content", "tool_calls", "function_call", "index"),
        *("id", "call_id", "tool_call_id", "reasoning", "reasoning_content", "reasoning_details", "thinking"),
    )
)
_ROLES = ("assistant", "user", "system", "developer")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_./-]{1,100}")

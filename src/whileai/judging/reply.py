"""A judge's reply read as one JSON object that fits its schema, or refused with the kind of mistake.

The whole text is tried first, then what stands in fences, then every balanced `{...}`; the last object that fits
the schema wins. Thinking is removed. Nothing is guessed: what is nearly right is a kind of its own, and the reason
is written for the model, which is asked once more with it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, cast

import jsonschema

from whileai.errors import UnusableVerdict
from whileai.judging.faults import conflicts, schema_faults, short

KINDS = {
    "empty_reply": "no text at all, or nothing but thinking",
    "unclosed_think": "a <think> block that never ends: what follows may be a draft",
    "no_json": "text without a JSON object",
    "cut_off": "an object that begins and does not end",
    "root_array": "a JSON array in place of the object",
    "not_an_object": "JSON that is a text, a number or null",
    "invalid_json": "an object that is no JSON in some other way",
    "single_quotes": "names or texts in single quotes",
    "trailing_comma": "a comma before a closing bracket",
    "invalid_escape": r"a backslash that escapes nothing, as in \$",
    "control_character": r"a form feed or backspace in a text, as \frac and \beta become",
    "non_finite": "NaN, Infinity or a number too large, as 1e999",
    "doubled_key": "a key that stands twice in one object",
    "doubled_label": "a candidate that stands twice",
    "schema_echo": "the schema sent back in place of a reply",
    "quoted_reply": "an object copied from a rollout",
    "rank_score_conflict": "a better rank for the candidate with the lower score",
    "missing_label": "a candidate that was not judged",
    "unknown_label": "a label that no candidate has",
    "index_for_label": "a number where a label was asked for",
    "missing_field": "a field of the schema that is not there",
    "unknown_field": "a field that the schema does not have",
    "number_as_text": 'a number in quotes, as "4"',
    "fraction_as_text": 'a score with its scale, as "4/5"',
    "out_of_range": "a number or a word that the schema does not allow there",
    "wrong_type": "a value of another type than the schema's",
}
"""The kinds of unusable reply that statistics count by."""


def read_object(
    text: str,
    validator: jsonschema.Draft202012Validator,
    labels: Sequence[str],
    is_quoted: Callable[[dict[str, Any]], bool] = lambda _: False,
) -> dict[str, Any]:
    """The object of `text` that fits the schema.

    Args:
        labels: the candidates' labels.
        is_quoted: whether an object stands in a rollout: such a one is no reply, unless it is all that was said and
            there is nothing in it to copy (`{"hacks": []}`): a rollout that holds it would silence the judge.

    Raises:
        UnusableVerdict: its kind is one of `KINDS`, its reason is for the model.
    """
    text = text.strip().removeprefix("\ufeff")
    if not text:
        _unusable("empty_reply", "Your reply was empty. Reply with the JSON object.")
    faults: list[UnusableVerdict] = []

    def checked(piece: str, *, is_all: bool = False) -> dict[str, Any] | None:
        try:
            value = _checked(_parsed(piece.strip(), labels), validator, labels)
            if is_quoted(value) and not (is_all and not any(value.values())):
                _unusable("quoted_reply", "Your reply is copied from a rollout. Judge the rollouts yourself.")
            return value
        except UnusableVerdict as fault:
            faults.append(fault)
            return None

    if (value := checked(text, is_all=True)) is not None:
        return value
    if faults[0].kind not in _SYNTAX_FAULTS:
        raise faults[0]
    faults.clear()
    text = _without_thinking(text)
    objects, unclosed = _balanced(text)
    fields = cast(dict[str, Any], validator.schema)["properties"]
    reply_start = re.compile(rf'{{\s*"(?:{"|".join(map(re.escape, fields))})"')
    cut_off_at = max((at for at in unclosed if reply_start.match(text, at)), default=-1)
    fenced = [piece for piece in _FENCED.findall(text) if "{" in piece]
    for pieces in (fenced, [text[start:end] for start, end in objects]):
        for number in reversed(range(len(pieces))):
            if (value := checked(pieces[number])) is not None:
                if cut_off_at > text.rfind(pieces[number]):
                    break
                return value
    if cut_off_at >= 0:
        _unusable(
            "cut_off", "Your JSON object does not end. Reply with the whole object, and with shorter texts in it."
        )
    if faults:
        raise next((fault for fault in faults if fault.kind not in _SYNTAX_FAULTS), faults[0])
    raise UnusableVerdict("no_json", "Your reply has no JSON object. Reply with the JSON object only.")


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """Every JSON object that stands in `text`, those inside others and inside their texts included."""
    for start, end in _balanced(text)[0]:
        try:
            waiting: list[Any] = [_parsed(text[start:end], ())]
        except UnusableVerdict:
            continue
        while waiting:
            value = waiting.pop()
            if isinstance(value, dict):
                yield value
                waiting += value.values()
            elif isinstance(value, list):
                waiting += value
            elif isinstance(value, str) and "{" in value:
                yield from json_objects(value)


def _balanced(text: str) -> tuple[list[tuple[int, int]], list[int]]:
    """The spans of all outermost `{...}`, and where a `{` stands that nothing closes."""
    opened: list[int] = []
    closed: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(text):
        if match[0] == "{":
            opened.append(match.start())
        elif match[0] == "}" and opened:
            start = opened.pop()
            while closed and closed[-1][0] > start:
                closed.pop()
            closed.append((start, match.end()))
    return closed, opened


_FENCED = re.compile(r"```[\w-]*[ \t]*\r?\n?(.*?)```", re.DOTALL)
_STRING = r'"(?:[^"\\\n]|\\.)*+"'
_TOKEN = re.compile(rf"{_STRING}|[{{}}]")
_SYNTAX_FAULTS = ("invalid_json", "single_quotes", "trailing_comma", "invalid_escape")
_THOUGHT_TAG = re.compile(r"<(/?)(?:think|thinking|reasoning)>", re.IGNORECASE)
_BAD_ESCAPE = re.compile(r'(?<!\\)(?:\\\\)*\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')


def _without_thinking(text: str) -> str:
    """`text` but for its thoughts; a closing tag alone ends a thought that the endpoint had opened."""
    kept: list[str] = []
    thinking, last = False, 0
    for tag in _THOUGHT_TAG.finditer(text):
        if tag[1] and not thinking:
            kept.clear()
        elif not tag[1] and not thinking:
            kept.append(text[last : tag.start()])
        thinking, last = not tag[1], tag.end()
    if thinking:
        _unusable("unclosed_think", "Your thinking was not closed before the reply. Reply with the JSON object only.")
    spoken = "".join(kept) + text[last:]
    if not spoken.strip():
        _unusable("empty_reply", "Your reply was empty but for thinking. Reply with the JSON object.")
    return spoken


def _parsed(text: str, labels: Sequence[str]) -> Any:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(found)
        if len(result) < len(found):
            keys = [key for key, _ in found]
            twice = next(key for key in keys if keys.count(key) > 1)
            kind = "doubled_label" if twice in labels else "doubled_key"
            _unusable(kind, f"The key {twice!r} stands twice in one object. Give it once.")
        return result

    def number(written: str) -> float:
        value = float(written)
        return value if math.isfinite(value) else not_finite(written)

    def whole(written: str) -> int:
        return int(written) if len(written) <= 100 else not_finite(written)

    def not_finite(written: str) -> NoReturn:
        _unusable("non_finite", f"{written[:20]} is no number that can be used. Give a finite number.")

    try:
        value = json.loads(
            text, object_pairs_hook=pairs, parse_float=number, parse_int=whole, parse_constant=not_finite, strict=False
        )
    except json.JSONDecodeError as error:
        _unusable(*_syntax_fault(text, error))
    except RecursionError:
        _unusable("invalid_json", "Your JSON is nested too deep. Reply with the object that the schema describes.")
    if isinstance(value, list):
        _unusable("root_array", "Your reply is a JSON array. Reply with one JSON object, as the schema describes it.")
    if not isinstance(value, dict):
        _unusable("not_an_object", f"Your reply is the JSON value {short(value)}. Reply with one JSON object.")
    return value


def _syntax_fault(text: str, error: json.JSONDecodeError) -> tuple[str, str]:
    outside_strings = re.sub(_STRING, '""', text)
    if _BAD_ESCAPE.search(text):
        return "invalid_escape", r"A backslash in your JSON escapes nothing. Write \\ for a backslash."
    if "'" in outside_strings:
        return "single_quotes", "JSON has no single quotes. Put names and texts in double quotes."
    if re.search(r",\s*[}\]]", outside_strings):
        return "trailing_comma", "Your JSON has a comma before a closing bracket. Leave it out."
    return "invalid_json", f"Your JSON cannot be read at line {error.lineno}, column {error.colno}. Correct it."


def _checked(
    value: dict[str, Any],
    validator: jsonschema.Draft202012Validator,
    labels: Sequence[str],
) -> dict[str, Any]:
    if any(re.search("[\x08\x0c]", text) for text in _texts(value)):
        _unusable(
            "control_character",
            r"A text has a form feed or a backspace in it. Write \\frac for \frac, \\beta for \beta.",
        )
    if "$defs" in value or ("properties" in value and "type" in value):
        _unusable("schema_echo", "You sent the schema back. Reply with an object that fits it.")
    if faults := [*conflicts(value), *schema_faults(value, validator, labels)]:
        _unusable(faults[0].kind, " ".join(fault.reason for fault in faults[:8]))
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _unusable(kind: str, reason: str) -> NoReturn:
    raise UnusableVerdict(kind, reason)

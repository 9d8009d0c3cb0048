"""Rows of rollouts from a file: JSONL, JSON, CSV, or standard input.

A row that cannot be read raises `RowError` with file, line and key; nothing is skipped or guessed in silence.
JSON is read strictly: a doubled key, NaN, and a number too large for a float are errors.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from whileai.checks.files import write_atomically
from whileai.errors import BatchError, Problem, RowError

TEXTS = ("completion", "final_text", "messages")
"""A row needs one of these: what the rollout did."""

READ = ("", ".jsonl", ".ndjson", ".json", ".csv")
"""Suffixes that say how rows are read; without one the first character says it."""

IDS = ("group_id", "scenario_id", "task_id")
WHITESPACE = " \t\r\n"


def read_rows(path: str | Path) -> list[dict[str, Any]]:
    """All rows of `path` in their order; `-` is standard input.

    `.jsonl` and `.ndjson` hold one object per line (blank lines do not count), `.json` one list of objects,
    `.csv` a header and one row per record. A name without a suffix, and standard input, are told apart by
    their first character. In CSV `reward` is a number, `messages` and a `prompt` of messages are JSON, and
    any other column is numeric or JSON if all its cells are; ids and texts stay as they stand, and an empty
    cell of a column that is not text is None.

    Raises `RowError` for a row that cannot be read, `BatchError` for a file of no known kind or without rows,
    OSError for one that cannot be opened.
    """
    name = "<stdin>" if str(path) == "-" else str(path)
    suffix = "" if str(path) == "-" else Path(path).suffix.lower()
    if suffix not in READ and Path(path).exists():
        remedy = "convert it, or give it a suffix that says what it is"
        raise BatchError(f"{name}: rows are read from {', '.join(READ[1:])}, not from {suffix!r} ({remedy})")
    text = _decode(sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes(), name)
    match suffix or _guess(text):
        case ".jsonl" | ".ndjson":
            found = _from_jsonl(text, name)
        case ".json":
            found = _from_json(text, name)
        case _:
            found = _from_csv(text, name)
    rows = []
    for line, row in found:
        _check(row, name, line)
        rows.append(row)
    if not rows:
        raise BatchError(f"{name}: no rows in this file")
    return rows


def write_rows(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write `rows` to `path` whole or not at all: `.json` as one list, `.jsonl` one object per line.

    `-` is standard output, as JSONL. Raises `RowError` for a value that JSON cannot hold (NaN, an object) and
    what `form_of` raises, all before the file is touched.
    """
    suffix = form_of(path)
    lines = [_dump(row, str(path), number) for number, row in enumerate(rows)]
    text = "[\n" + ",\n".join(lines) + "\n]\n" if suffix == ".json" else "".join(line + "\n" for line in lines)
    # Inside a JSON string the escape of a lone surrogate means that surrogate, so nothing is lost here.
    data = text.encode("utf-8", "backslashreplace")
    if str(path) == "-":
        left = memoryview(data)
        while left:  # an unbuffered standard output (PYTHONUNBUFFERED) writes what it can and says how much
            left = left[sys.stdout.buffer.write(left) :]
        sys.stdout.buffer.flush()
    else:
        write_atomically(path, data)


def form_of(path: str | Path) -> str:
    """The suffix that says how rows are written to `path`. `BatchError` for another one, or for a folder."""
    suffix = ".jsonl" if str(path) == "-" else Path(path).suffix.lower()
    if suffix not in (".jsonl", ".ndjson", ".json"):
        raise BatchError(f"{path}: rows are written to .jsonl or .json, not to {suffix!r}")
    if Path(path).is_dir():
        raise BatchError(f"{path}: this is a folder; rows are written to a file")
    return suffix


def strict_json(text: str, name: str, line: int) -> Any:
    """The value of one JSON text; `RowError` names `name`, `line` and the key of what is wrong."""
    value, end = _decode_json(text, 0, name, line)
    if text[end:].strip(WHITESPACE):
        _bad(name, line + text.count("\n", 0, end), "", "more text after the end of the JSON value")
    return value


def _check(row: object, name: str, line: int) -> None:
    if not isinstance(row, dict):
        _bad(name, line, "", f"a row is an object with keys, this is {_kind(row)}")
    if "reward" not in row:
        _bad(name, line, "reward", "missing", "every row needs its verifier reward, or null if it has none")
    if not isinstance(row["reward"], int | float | None):
        _bad(name, line, "reward", f"a number or null is needed, this is {_kind(row['reward'])}")
    if not any(row.get(key) is not None for key in TEXTS):
        _bad(name, line, "completion", "missing", f"every row needs one of {', '.join(TEXTS)}")
    messages = row.get("messages")
    if not isinstance(messages, list | None):
        _bad(name, line, "messages", f"a list of messages is needed, this is {_kind(messages)}")
    for place, message in enumerate(messages or []):
        if not isinstance(message, dict):
            _bad(name, line, f"messages[{place}]", f"a message is an object, this is {_kind(message)}")
    if not isinstance(row.get("final_text"), str | None):
        _bad(name, line, "final_text", f"text is needed, this is {_kind(row['final_text'])}")
    for key in ("prompt", "completion"):
        if not isinstance(row.get(key), str | list | None):
            _bad(name, line, key, f"text or a list of messages is needed, this is {_kind(row[key])}")
    for key in IDS:
        if isinstance(row.get(key), list | dict | float | bool):
            _bad(name, line, key, f"an id is text or a whole number, this is {_kind(row[key])}")


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        _bad(name, line, "", f"byte 0x{data[error.start]:02x} is not UTF-8", "save the file as UTF-8")


def _guess(text: str) -> str:
    head = text.lstrip(WHITESPACE)[:1]
    return {"[": ".json", "{": ".jsonl", "": ".jsonl"}.get(head, ".csv")


def _from_jsonl(text: str, name: str) -> Iterable[tuple[int, Any]]:
    # Not splitlines(): it also splits at U+2028 and its like, which JSON allows inside a string.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip(WHITESPACE):
            continue
        value = strict_json(line, name, number)
        if isinstance(value, list):
            _bad(name, number, "", "a row is an object, this is a list", "one list of rows is a .json file")
        yield number, value


def _from_json(text: str, name: str) -> Iterable[tuple[int, Any]]:
    at = _skip(text, 0)
    if text[at : at + 1] != "[":
        hint = "one object per line is a .jsonl file" if text[at : at + 1] == "{" else ""
        _bad(name, text.count("\n", 0, at) + 1, "", "a .json file of rows holds one list of objects", hint)
    seen, line = 0, 1
    at = _skip(text, at + 1)
    first = True
    while text[at : at + 1] != "]" or not first:
        line += text.count("\n", seen, at)
        seen = at
        value, at = _decode_json(text, at, name, 1)
        yield line, value
        first = False
        at = _skip(text, at)
        if text[at : at + 1] == "]":
            break
        if text[at : at + 1] != ",":
            _bad(name, text.count("\n", 0, at) + 1, "", "the list of rows does not end: , or ] is missing here")
        at = _skip(text, at + 1)
    if text[at + 1 :].strip(WHITESPACE):
        _bad(name, text.count("\n", 0, at) + 1, "", "more text after the end of the list")


def _from_csv(text: str, name: str) -> Iterable[tuple[int, Any]]:
    limit = csv.field_size_limit(sys.maxsize)
    try:
        records = list(_records(text, name))
    finally:
        csv.field_size_limit(limit)
    if not records:
        return
    header = records[0][1]
    for place, key in enumerate(header):
        if not key.strip() or key in header[:place]:
            what = f"column {key!r} stands twice" if key.strip() else f"column {place + 1} has no name"
            _bad(name, 1, key, f"{what} in the header")
    for line, cells in records[1:]:
        if len(cells) != len(header):
            _bad(name, line, "", f"{len(cells)} fields where the header has {len(header)}")
    columns = [
        _column(key, [(line, cells[place]) for line, cells in records[1:]], name) for place, key in enumerate(header)
    ]
    for number, (line, _) in enumerate(records[1:]):
        yield line, {key: column[number] for key, column in zip(header, columns, strict=True)}


def _records(text: str, name: str) -> Iterable[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            record = next(reader, None)
        except csv.Error as error:
            _bad(name, line, "", f"this CSV record cannot be read: {error}")
        if record is None:
            return
        if record:
            yield line, record


def _column(key: str, cells: list[tuple[int, str]], name: str) -> list[Any]:
    """One CSV column's values; which kind it is, is decided for the whole column."""
    if key in ("completion", "final_text", *IDS):
        return [cell for _, cell in cells]
    if key == "prompt":
        return [_messages(cell) or cell for _, cell in cells]
    if key == "messages":
        return [strict_json(cell, name, line) if cell.strip() else None for line, cell in cells]
    if key == "reward":
        return [_number(cell, name, line) if cell.strip() else None for line, cell in cells]
    values = [_structure(cell) if cell.strip() else None for _, cell in cells]
    if any(value is None and cell.strip() for value, (_, cell) in zip(values, cells, strict=True)):
        return [cell for _, cell in cells]
    return values


def _structure(cell: str) -> Any:
    """A number, list or object; None for what is only text."""
    try:
        value = strict_json(cell, "", 0)
    except RowError:
        return None
    return value if isinstance(value, int | float | list | dict) and not isinstance(value, bool) else None


def _messages(cell: str) -> list[Any] | None:
    value = _structure(cell)
    if isinstance(value, list) and value and all(isinstance(m, dict) and "role" in m for m in value):
        return value
    return None


def _number(cell: str, name: str, line: int) -> Any:
    value = _structure(cell)
    if not isinstance(value, int | float):
        _bad(name, line, "reward", f"{cell[:40]!r} is not a number")
    return value


def _decode_json(text: str, at: int, name: str, first_line: int) -> tuple[Any, int]:
    """The JSON value that begins at `at`, and where it ends."""

    def number(token: str) -> Any:
        value = float(token)
        return value if value - value == 0 else _NotFinite(token)

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(found)
        if len(result) != len(found):
            keys = [key for key, _ in found]
            twice = next(key for place, key in enumerate(keys) if key in keys[:place])
            _bad(name, first_line + text.count("\n", 0, at), twice, "this key stands twice in one object")
        for key, value in found:
            refuse(value, key)
        return result

    def refuse(value: Any, key: str) -> None:
        if isinstance(value, _NotFinite):
            line = first_line + text.count("\n", 0, at)
            _bad(
                name,
                line,
                key,
                f"{value.token} is not a finite number",
                "write null for a value that is not known",
            )
        if isinstance(value, list):
            for item in value:
                refuse(item, key)

    decoder = json.JSONDecoder(object_pairs_hook=pairs, parse_float=number, parse_constant=_NotFinite)
    at = _skip(text, at)
    try:
        value, end = decoder.raw_decode(text, at)
    except json.JSONDecodeError as error:
        line = first_line + text.count("\n", 0, error.pos)
        _bad(name, line, "", f"not JSON at column {error.colno}: {error.msg}")
    except RecursionError:
        _bad(name, first_line + text.count("\n", 0, at), "", "this JSON is nested too deeply")
    except RowError:
        raise
    except ValueError as error:
        _bad(name, first_line + text.count("\n", 0, at), "", f"a number cannot be read: {error}")
    refuse(value, "")
    return value, end


class _NotFinite:
    def __init__(self, token: str) -> None:
        self.token = token


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in WHITESPACE:
        at += 1
    return at


def _dump(row: Mapping[str, Any], name: str, number: int) -> str:
    try:
        return json.dumps(dict(row), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        for key, value in row.items():
            try:
                json.dumps({key: value}, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise RowError(f"{name}: row {number}: {key}: {error}") from None
        raise


def _kind(value: object) -> str:
    """What a JSON value is, with the value itself where it is short."""
    written = json.dumps(value, ensure_ascii=False)
    kinds: dict[type, str] = {str: "text", list: "a list", dict: "an object", int: "a number", float: "a number"}
    kind = kinds.get(type(value))
    return written if kind is None else kind if len(written) > 40 else f"{kind}, {written}"


def _bad(name: str, line: int, key: str, message: str, remedy: str = "") -> NoReturn:
    raise RowError(str(Problem(name, line, key, message, remedy)))

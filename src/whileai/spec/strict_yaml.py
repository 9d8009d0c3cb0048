"""YAML read strictly into a `Document`.

Text, numbers, true and false, null, lists and mappings are built from YAML events, and nothing else: no tag is
resolved, no object is made, no merge key followed. What YAML readers disagree about (yes, 1:30, 010, 1_000) is a
mistake to be quoted away, not a guess. Every mistake of a file becomes a `Problem`; only a syntax error ends the
reading, since nothing behind it can be trusted.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, cast

import yaml

from whileai.errors import Problem
from whileai.spec.document import Document, Path, key_path, quoted

MAX_VALUES = 200_000
"""Values of a document with its aliases written out; what keeps an alias bomb from going off."""

MAX_DEPTH = 60
"""Levels of nesting: far above any spec, far below Python's recursion limit."""


def fill(document: Document, text: str) -> None:
    """Read `text` into the document's data, lines and problems."""
    builder = _Builder(document)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
            if builder.ended:
                return
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"character U+{_code(error.character):04X} cannot stand in YAML"
        document.problems.append(Problem(document.file, line, "", message, "remove it"))
    except yaml.MarkedYAMLError as error:
        document.problems.append(_syntax_problem(error, text, document.file))
    else:
        builder.finish()


@dataclass
class _Open:
    """A list or mapping that is being read. `key` waits for its value; `discarded`: it stands inside a key."""

    value: list[Any] | dict[str | int, Any]
    path: Path
    anchor: str | None
    size_before: int
    discarded: bool
    key: object = None


class _Builder:
    """Builds data from YAML events, without recursion."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.lines: dict[Path, int] = {}
        document.lines = self.lines
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.size = 0
        self.documents = 0
        self.ended = False
        self.root: Any = _NOTHING

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self._end(line, "a second document begins here", "keep one document in the file")
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event, line)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._begin(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close()

    def finish(self) -> None:
        if self.root is _NOTHING or self.root is None:
            self.document.add((), "the file is empty", "")
        elif isinstance(self.root, dict):
            self.document.data = self.root
        else:
            found = "a list" if isinstance(self.root, list) else quoted(self.root)
            self.document.add((), f"{found} stands at the root, where keys are expected", "write `key: value` lines")

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        value: Any = event.value
        wrong: tuple[str, str] | None = None
        if event.tag is not None:
            wrong = f"tag {_shown_tag(event.tag)} is not read", NO_TAGS
        elif not event.style:
            value, wrong = _plain(event.value)
        self._grow(1, line)
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, 1)
        if self._expects_key():
            self._key(value, line, wrong)
            return
        if wrong:
            self._problem(self._next_path(), line, *wrong)
        self._put(value, line)

    def _alias(self, event: yaml.AliasEvent, line: int) -> None:
        if self._expects_key():
            self._key(None, line, ("an alias stands where a key is expected", "write the key out"))
            return
        value, size = self.anchors.get(event.anchor or "", (None, 0))
        if not size:
            message = f"alias *{event.anchor} stands for nothing that is complete before it"
            self._problem(self._next_path(), line, message, f"write &{event.anchor} at an earlier value")
        self._grow(size, line)
        self._put(value, line)

    def _begin(self, event: yaml.CollectionStartEvent, line: int) -> None:
        value: list[Any] | dict[str | int, Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        discarded = bool(self.stack) and self.stack[-1].discarded
        if self._expects_key():
            discarded = True
            self._key(
                None, line, ("braces or brackets stand where a key is expected", "quote the whole text: '{{ ... }}'")
            )
            path = self.stack[-1].path
        else:
            path = self._next_path()
            if event.tag is not None:
                self._problem(path, line, f"tag {_shown_tag(event.tag)} is not read", NO_TAGS)
            self._put(value, line)
        self._grow(1, line)
        if len(self.stack) >= MAX_DEPTH:
            self._end(line, f"nested more than {MAX_DEPTH} levels deep", "write it flatter")
        self.stack.append(_Open(value, path, event.anchor, self.size - 1, discarded))

    def _close(self) -> None:
        closed = self.stack.pop()
        if closed.anchor is not None:
            self.anchors[closed.anchor] = (closed.value, self.size - closed.size_before)

    def _expects_key(self) -> bool:
        return bool(self.stack) and isinstance(self.stack[-1].value, dict) and self.stack[-1].key is None

    def _key(self, key: Any, line: int, wrong: tuple[str, str] | None) -> None:
        top = self.stack[-1]
        assert isinstance(top.value, dict)
        if wrong is None and (isinstance(key, bool) or not isinstance(key, (str, int))):
            wrong = f"{quoted(key)} is not a name", "quote the key"
        if wrong is None and key == "<<":
            wrong = "merge keys are not read", "write the keys out"
        path = top.path if key is None else (*top.path, key)
        if wrong:
            self._problem(path, line, *wrong)
        elif key in top.value:
            message = f"{quoted(key)} stands twice, first on line {self.lines.get(path)}"
            self.document.problems.append(
                Problem(self.document.file, line, key_path(path), message, "keep one of them")
            )
        top.key = key if isinstance(key, (str, int)) else _NOTHING
        if not top.discarded:
            self.lines.setdefault(path, line)

    def _next_path(self) -> Path:
        """Where the next value goes."""
        if not self.stack:
            return ()
        top = self.stack[-1]
        if isinstance(top.value, list):
            return (*top.path, len(top.value))
        return top.path if top.key is _NOTHING else (*top.path, cast("str | int", top.key))

    def _put(self, value: Any, line: int) -> None:
        path = self._next_path()
        if not self.stack:
            self.root = value
        elif isinstance((top := self.stack[-1]).value, list):
            top.value.append(value)
        else:
            if top.key is not _NOTHING:
                top.value.setdefault(cast("str | int", top.key), value)
            top.key = None
            return
        if not (self.stack and self.stack[-1].discarded):
            self.lines.setdefault(path, line)

    def _grow(self, size: int, line: int) -> None:
        self.size += size
        if self.size > MAX_VALUES:
            self._end(
                line,
                f"the file holds more than {MAX_VALUES:,} values with its aliases written out",
                "write fewer aliases, or split the file",
            )

    def _problem(self, path: Path, line: int, message: str, remedy: str) -> None:
        problem = Problem(self.document.file, line, key_path(path), message, remedy)
        self.document.reported.add(path)
        if problem not in self.document.problems[-1:]:
            self.document.problems.append(problem)

    def _end(self, line: int, message: str, remedy: str) -> None:
        self._problem((), line, message, remedy)
        self.ended = True


_NOTHING = object()
NO_TAGS = "a spec holds text, numbers, lists and mappings only"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times quicker; only its events are used

_CONSTANTS: dict[str, Any] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_CONSTANTS |= {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,99})")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|nan)", re.IGNORECASE)
_OTHER_BASES = re.compile(r"[-+]?(0[0-9_]+|0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9][0-9_]*_[0-9_]*)")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?")


def _plain(text: str) -> tuple[Any, tuple[str, str] | None]:
    """An unquoted scalar as a value, or the mistake that it is."""
    if text in _CONSTANTS:
        return _CONSTANTS[text], None
    if text[0] not in "+-.0123456789":
        if text.lower() in ("yes", "no", "on", "off"):
            return text, (
                f"{text} is a boolean to some YAML readers and a word to others",
                "write true or false, or quote it",
            )
        return text, None
    if _INT.fullmatch(text):
        return int(text), None
    if _NOT_FINITE.fullmatch(text):
        return text, (f"{text} is not a finite number", "write a number")
    if _OTHER_BASES.fullmatch(text):
        return text, (
            f"{text} is read as different numbers by different YAML readers",
            "write a plain decimal number, or quote it",
        )
    if _SEXAGESIMAL.fullmatch(text):
        return text, (f"{text} is a number in base 60 to some YAML readers", "quote it")
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number, None if math.isfinite(number) else (f"{text} is not a finite number", "write a smaller number")
    return text, None


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    number = mark.line if mark else 0
    lines = text.splitlines()
    line = lines[number] if number < len(lines) else ""
    if not line.strip() and error.context_mark:  # cut off at the end of the file: say where it began
        number = error.context_mark.line
        line = lines[number] if number < len(lines) else ""
    remedy = "check the indentation, and quote text that holds `: `, `#` or braces"
    if "\t" in line[: len(line) - len(line.lstrip())]:
        remedy = "indent with spaces, not tabs"
    elif "{{" in line or "{%" in line:
        remedy = "quote the whole text: '{{ ... }}'"
    elif mark and mark.column < len(line) and line[mark.column] in "@`%":
        remedy = f"quote text that begins with {line[mark.column]}"
    message = f"{quoted(line.strip())} cannot be read as YAML"
    return Problem(file, number + 1, "", f"{message}: {error.problem}" if error.problem else message, remedy)


def _shown_tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")


def _code(character: object) -> int:
    """ReaderError holds a character or its code, by implementation."""
    return character if isinstance(character, int) else ord(str(character)[0])

"""One file of an author's as plain data, with the line of every value and every mistake that was found.

`strict_yaml` fills a document, `validation.validate` reads it as a pydantic model; both add to `problems`.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from whileai.core.values import shown
from whileai.errors import Problem, SpecError

MAX_BYTES = 4_000_000
"""Size of a document: a golden file of long rollouts fits, a device file or a database does not."""

MAX_LISTED = 40
"""Names that a remedy lists when none is near."""

Path = tuple[str | int, ...]
"""Keys and list positions from the root of a document to one value."""


@dataclass
class Document:
    """A file as data. `file` is its name in messages, `lines` the 1-based line of each value by its path."""

    file: str
    data: dict[str | int, Any] = field(default_factory=dict)
    lines: Mapping[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    reported: set[Path] = field(default_factory=set)

    def add(self, path: Path, message: str, remedy: str = "") -> None:
        """Note one mistake at `path`, once per place."""
        self.reported.add(path)
        self.problems.append(Problem(self.file, self.line(path), key_path(path), message, remedy))

    def line(self, path: Path) -> int | None:
        """The line of the value at `path`, or of the nearest one around it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    def check(self) -> None:
        """Raise what was found, if anything was."""
        if self.problems:
            raise SpecError(sorted(self.problems, key=lambda problem: (problem.file != self.file, problem.line or 0)))


def read_yaml(source: bytes | str, file: str) -> Document:
    """The document in `source`, a mapping at its root. Mistakes stand in `problems`; nothing is raised."""
    from whileai.spec.strict_yaml import fill

    document = Document(file)
    text = _text(source, document)
    if text is not None:
        fill(document, text)
    return document


def read_toml(source: bytes | str, file: str) -> Document:
    """The same for TOML, whose tables carry no lines."""
    document = Document(file)
    text = _text(source, document)
    if text is not None:
        try:
            document.data = tomllib.loads(text)  # type: ignore[assignment]  # keys of a table are text
        except tomllib.TOMLDecodeError as error:
            document.problems.append(Problem(file, None, "", f"is not TOML: {error}"))
    return document


def key_path(path: Iterable[str | int]) -> str:
    """A path as an author writes it: `rank[0].least`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def nearest(value: object, known: Iterable[str]) -> str:
    """The remedy for a name that is not known: the nearest one, or all of them where none is near."""
    options = sorted(known)
    close = difflib.get_close_matches(str(value), options, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(options)}" if 0 < len(options) <= MAX_LISTED else ""


def quoted(value: object, limit: int = 60) -> str:
    """A value for a message, as a file would say it and cut to `limit` characters."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    return shown(value, limit)


def _text(source: bytes | str, document: Document) -> str | None:
    """The source as text, or None and a problem."""
    if len(source) > MAX_BYTES:
        document.add((), f"the file is larger than {MAX_BYTES:,} bytes", "split it")
        return None
    if isinstance(source, str):
        return source
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        byte = source[error.start]
        document.problems.append(
            Problem(document.file, line, "", f"byte 0x{byte:02X} is not UTF-8", "save the file as UTF-8")
        )
        return None

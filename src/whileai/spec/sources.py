"""The files of a grader: what stands in its spec's folder or in the shipped library, and nothing else.

A reference is a bare name (`groupwise/system`: shipped) or a path that begins with `./` (beside the file that
names it). No path leaves the folder: not by `..`, not as an absolute path, not through a link.

What was read is kept, so that a pickled grader carries its files' bytes and comes back without the disk.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from whileai.spec.document import MAX_BYTES, nearest, quoted
from whileai.spec.library import Kind, find_shipped, library_folder, shipped_names
from whileai.spec.validation import Mistake


@dataclass(frozen=True)
class Source:
    """One file.

    Attributes:
        path: where it is.
        root: the folder that references inside it stay in.
        shown: its name in messages.
        key: what a grader's files are kept by: an absolute path, or `graders/x.yaml` in the library.
        content: its bytes.
    """

    path: Path
    root: Path
    shown: str
    key: str
    content: bytes

    @property
    def text(self) -> str:
        """The content with newlines as `\n` and without a byte order mark.

        Raises:
            Mistake: it is not UTF-8.
        """
        try:
            text = self.content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            place = f"byte 0x{self.content[error.start]:02X} at {error.start}"
            raise Mistake(f"{self.shown} is not UTF-8", place) from None
        return text.replace("\r\n", "\n").replace("\r", "\n")


class Sources:
    """Reads files for one grader and keeps them. Restored from `kept`, it opens nothing."""

    def __init__(self, kept: Mapping[str, bytes] | None = None) -> None:
        self.kept: dict[str, bytes] = dict(kept or {})
        self.compiled: dict[tuple[str, str], Any] = {}  # what was made of its files: `templates.prompt_template`
        self._live = kept is None

    def file(self, path: str | os.PathLike[str]) -> Source:
        """The file that a caller names, wherever it is; its folder becomes the root of its references."""
        absolute = Path.cwd() / Path(path)  # links stay: what they lead to must be in the folder too
        return self._read(absolute, absolute.parent, str(path), absolute.as_posix())

    def kept_file(self, key: str, shown: str) -> Source:
        """A file that was kept, by its key."""
        path = Path(key)
        return Source(path, path.parent, shown, key, self.kept[key])

    def shipped(self, kind: Kind, name: str, suffixes: tuple[str, ...]) -> Source:
        """The file of a bare name in the shipped library.

        Raises:
            Mistake: there is none.
        """
        for suffix in suffixes:
            key = f"{kind}/{name}{suffix}"
            if not self._live and key in self.kept:
                return Source(Path(key), Path(kind), key, key, self.kept[key])
        path = find_shipped(kind, name, suffixes) if self._live else None
        if path is None:
            near = nearest(name, shipped_names(kind, suffixes)) if self._live else ""
            own = f"a file of your own is written ./name{suffixes[0]}"
            raise Mistake(f"no shipped file of {kind} is called {quoted(name)}", f"{near}; {own}" if near else own)
        root = library_folder(kind)
        key = f"{kind}/{path.relative_to(root).as_posix()}"
        return self._read(path, root, key, key)

    def beside(self, source: Source, reference: str) -> Source:
        """The file that `reference`, a path beginning with `./`, means inside `source`.

        Raises:
            Mistake: it leads elsewhere, or there is no such file.
        """
        inside = PurePosixPath(reference)
        if not reference.startswith("./") or "\\" in reference or ".." in inside.parts or not inside.parts:
            raise Mistake(
                f"{quoted(reference)} is not a path inside the folder of {source.shown}",
                "write ./name for a file beside it, without ..",
            )
        return self._read(
            source.path.parent / inside,
            source.root,
            str(Path(source.shown).parent / inside),
            str(PurePosixPath(source.key).parent / inside),
        )

    def _read(self, path: Path, root: Path, shown: str, key: str) -> Source:
        if self._live:
            self.kept[key] = _content(path, root, shown)
        elif key not in self.kept:
            raise Mistake(f"{shown} did not travel with the grader", "load the grader from its file again")
        return Source(path, root, shown, key, self.kept[key])


def _content(path: Path, root: Path, shown: str) -> bytes:
    """The bytes of a regular file under `root`, wherever links lead."""
    try:
        real = path.resolve()
        if not real.is_relative_to(root.resolve()):
            raise Mistake(f"{shown} leads out of the folder of the spec", "copy the file into the folder")
        if real.is_dir():
            raise Mistake(f"{shown} is a folder", "name a file in it")
        if not real.is_file():
            raise Mistake(f"there is no file {shown}", _nearest_sibling(path))
        if real.stat().st_size > MAX_BYTES:
            raise Mistake(f"{shown} is larger than {MAX_BYTES:,} bytes", "split it")
        return real.read_bytes()
    except OSError as error:
        raise Mistake(f"{shown} cannot be read: {error.strerror}") from None
    except RuntimeError:
        raise Mistake(f"{shown} is a link to itself") from None


def _nearest_sibling(path: Path) -> str:
    """The nearest name among the files of the same suffix in the same folder."""
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.suffix == path.suffix]
    except OSError:
        return ""
    return nearest(path.name, names) if names else ""

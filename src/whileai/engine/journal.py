"""What was asked and what came back, one JSON line per attempt.

A line is written before its reply is used, in one piece and at the file's end, so several processes can share a
file and a killed process loses nothing that it had received. No key and no header is ever in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Any

from whileai.errors import ConfigError
from whileai.providers.keys import redact


class Journal:
    """A JSON Lines file to append to.

    Raises:
        ConfigError: the file cannot be opened for writing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: FileIO | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise ConfigError(f"the journal {str(path)!r} cannot be written: {error.strerror}") from None

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append one line. Raises OSError when the disk takes no more."""
        line = redact(json.dumps(entry)).encode() + b"\n"
        written = self._open().write(line)
        if written < len(line):
            raise OSError(f"only {written} of {len(line)} bytes fitted into {str(self.path)!r}")

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __del__(self) -> None:
        self.close()

    def _open(self) -> FileIO:
        if self._file is None:
            self._file = FileIO(self.path, "a")  # unbuffered: one line is one write
        return self._file

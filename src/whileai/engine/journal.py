"""What was asked and what came back, one JSON line per attempt.

A line is written before its reply is used, in one piece and at the file's end, so several processes can share a
file and a killed process loses nothing that it had received. No key and no header is ever in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
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
        self._descriptor: int | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise ConfigError(f"the journal {str(path)!r} cannot be written: {error.strerror}") from None

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append one line. Raises OSError when the disk takes no more."""
        line = redact(json.dumps(entry)).encode() + b"\n"
        written = os.write(self._open(), line)
        if written < len(line):
            raise OSError(f"only {written} of {len(line)} bytes fitted into {str(self.path)!r}")

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        return self._descriptor

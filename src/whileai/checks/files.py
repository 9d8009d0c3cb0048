"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def write_atomically(path: str | Path, data: bytes) -> None:
    """Put `data` at `path` so that a reader sees the old file or the new one, never a part.

    Folders on the way are made. An existing file keeps its mode; a link is followed; what is not a regular
    file (a pipe, `/dev/stdout`) is written straight. Raises OSError, and then the old file is untouched.
    """
    if Path(path).exists() and not Path(path).is_file():
        Path(path).write_bytes(data)
        return
    target = Path(path).resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:64]}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(target.stat().st_mode if target.exists() else 0o666 & ~_umask())
        part.replace(target)
    except BaseException:
        with suppress(FileNotFoundError):
            part.unlink()
        raise


def _umask() -> int:
    # The umask can only be read by setting it. For this instant it is the strictest one, so that a file that
    # another thread opens meanwhile is too private rather than too open.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

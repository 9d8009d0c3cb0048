"""Where a run's own files stand: `.whileai/` of the project, that is of the nearest folder upward that has one."""

from __future__ import annotations

import logging
import os
from pathlib import Path

_log = logging.getLogger("whileai")

FOLDER = ".whileai"


def run_file(name: str) -> Path | None:
    """The file `name` of this project's `.whileai/`, whose folder is made; None, with a warning, where it cannot be."""
    folder = _folder()
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        _log.warning("no %s is kept: %s cannot be made (%s)", name, folder, error.strerror)
        return None
    if not os.access(folder, os.W_OK):
        _log.warning("no %s is kept: %s cannot be written", name, folder)
        return None
    return folder / name


def kept_file(name: str) -> Path | None:
    """The file `name` of this project's `.whileai/`, if an earlier run has left one. Nothing is made."""
    path = _folder() / name
    return path if path.is_file() else None


def _folder() -> Path:
    here = Path.cwd()
    return next((found for above in (here, *here.parents) if (found := above / FOLDER).is_dir()), here / FOLDER)

"""What is logged while a command runs, for the person who runs it: on standard error, without our own frames."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.control import Control
from rich.segment import ControlType

from whileai.cli import output

MAX_FRAMES = 12
"""Frames of one error that are shown: as many from the outside as from the inside."""

_OURS = str(Path(__file__).resolve().parents[1])


@contextmanager
def logs_shown() -> Iterator[None]:
    """Send what whileai logs meanwhile to standard error, and nowhere else."""
    logger = logging.getLogger("whileai")
    handler, propagate = _Handler(), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


def frames(error: BaseException) -> list[str]:
    """Where an error went through code that is not ours: `file.py:3 in grade`, the innermost last."""
    places = [
        f"{frame.filename}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if not str(Path(frame.filename).resolve()).startswith(_OURS)
    ]
    if (left_out := len(places) - MAX_FRAMES) > 0:  # an endless recursion has a thousand
        outer = MAX_FRAMES // 2
        places[outer : outer + left_out] = [f"{left_out} more places"]
    return places


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        console = output.console(stderr=True)
        console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))  # a bar may stand there
        output.say(console, record.getMessage(), "yellow", indent=0)
        error = record.exc_info[1] if record.exc_info else None
        for place in frames(error) if error is not None else ():
            output.say(console, f"at {place}", "dim")

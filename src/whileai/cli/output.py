"""Where commands print: what was asked for to standard output, everything about it to standard error."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """A console that colours on terminals only, and breaks no words that scripts may read elsewhere."""
    return Console(stderr=stderr, highlight=False, soft_wrap=True)


def error(message: str) -> None:
    """One error for a person, on standard error."""
    console(stderr=True).print("[bold red]error:[/] ", end="")
    console(stderr=True).print(message, markup=False)


def print_json(value: Any) -> None:
    """One JSON document on standard output, for machines."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")

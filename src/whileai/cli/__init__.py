"""The `whileai` command."""

from whileai.cli.main import main

__all__ = ["main"]

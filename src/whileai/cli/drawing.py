"""How one group is drawn: what each rollout did, its place, its advantage, and a bar for what moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console, OverflowMethod
from rich.table import Table
from rich.text import Text

from whileai.cli.output import visible
from whileai.core.group import Rollout
from whileai.core.rollout import content_text, tool_calls

BAR = 4
"""Cells of a bar on either side of its zero."""

LONG = 10_000
"""From here on a number is written with an exponent, so that columns stay narrow."""


def did(rollout: Rollout) -> str:
    """What a rollout did, in one line: the tools that it called, and what it said last."""
    calls = ", ".join(call.name for call in tool_calls(rollout.get("messages") or []))
    return visible(" ".join(" - ".join(filter(None, [calls, _last_words(rollout)])).split()))


def asked(rollout: Rollout) -> str:
    """What a rollout was asked, in one line: its prompt, or the last message of it."""
    prompt = rollout["prompt"]
    if not isinstance(prompt, str):
        prompt = content_text(prompt[-1].get("content")) if prompt and isinstance(prompt[-1], Mapping) else ""
    return visible(" ".join(prompt.split()))


def place(index: int, rollout: Rollout, factors: dict[int, float], hacks: Sequence[int]) -> tuple[str, str]:
    """The place of a rollout among the passes, as training uses it (`2=` is shared), and its colour."""
    if index in hacks:
        return "hack", "bold red"
    if not rollout["passed"]:
        return "fail", "dim"
    if index not in factors:
        return "pass", ""
    better = sum(other > factors[index] for other in factors.values())
    shared = sum(other == factors[index] for other in factors.values()) > 1
    return f"{better + 1}{'=' if shared else ''}", "green" if better == 0 else ""


def bar(change: float, *, ascii_only: bool) -> Text:
    """A bar from the middle: right and green for a gain, left and red for a loss. `change` in [-1, 1]."""
    cell, middle = ("#", "|") if ascii_only else ("█", "│")
    cells = round(abs(change) * BAR) or int(abs(change) > 1e-9)
    left, right = ("", cell * cells) if change > 0 else (cell * cells, "")
    return Text.assemble((left.rjust(BAR), "red"), (middle, "dim"), (right, "green"))


def signed(value: float, places: int = 2) -> str:
    """An advantage: always with its sign, and never `-0.00`."""
    value = round(value, places) + 0.0
    return f"{value:+.{places}f}" if abs(value) < LONG else f"{value:+.{places + 1}g}"


def less_mean(rewards: Sequence[float]) -> list[float]:
    """The advantages of a group with these rewards."""
    mean = sum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


def arrow(console: Console) -> str:
    return "->" if console.options.ascii_only else "→"


def cut(console: Console) -> OverflowMethod:
    """How a line that is too long ends."""
    return "crop" if console.options.ascii_only else "ellipsis"


def plain_table() -> Table:
    """Columns without any lines."""
    return Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)


def _last_words(rollout: Rollout) -> str:
    for message in reversed(rollout.get("messages") or []):
        if isinstance(message, dict) and message.get("role") == "assistant":
            text = content_text(message.get("content"))
            return f'"{text}"' if text else ""
    return str(rollout["completion"])

"""`whileai demo`: the whole way on shipped rollouts, without a key or a server.

It shows the grader of the method's page, checks it on 32 groups, shapes them as one batch, and prints of four
groups what moved.
"""

from __future__ import annotations

import dataclasses
import json
import runpy
import shutil
import sys
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any

from rich.console import Console, OverflowMethod
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from whileai.cli.versions import other_whileai
from whileai.core.group import Group, Rollout
from whileai.core.rollout import tool_calls
from whileai.core.shaping import GroupShape
from whileai.grading import GroupwiseGrading
from whileai.spec.library import library_folder

SHOWN = {
    "refund-late-parcel": "Three passes, fewest tool calls first: the best gains what the worst loses.",
    "refund-no-order-number": "A hack: no tool returned ORD-9999. That pass now counts as a failure.",
}
"""Groups that are shown as the page's grader ranks them, and what there is to see in each."""

TIED = "cancel-before-dispatch"
"""A group whose two best passes made as many tool calls as each other."""

BAR = 4
"""Cells of a bar on either side of its zero."""

INDENT = 2


def demo() -> None:
    """Show a grader, its check and what it moves, on shipped rollouts. Needs no key and no server."""
    console = Console(highlight=False, markup=False)
    if (warning := other_whileai()) is not None:
        console.print(warning, style="bold red")
    source = library_folder("graders") / "rank_group.py"
    rows_file = source.with_suffix(".rows.jsonl")
    rank_group = runpy.run_path(str(source))["rank_group"]
    rows = [json.loads(line) for line in rows_file.read_text(encoding="utf-8").splitlines()]
    gar = GroupwiseGrading(grader=rank_group)

    _heading(console, "1  A grader reads a group of rollouts and ranks the passes")
    code = source.read_text(encoding="utf-8").partition("\n\n\n")[2].rstrip()
    console.print(Syntax("", "python", theme="ansi_dark").highlight(code), soft_wrap=True)
    _say(console, str(gar), "cyan")

    _heading(console, "2  Before training: can it tell these passes apart?")
    _say(console, f"{len(rows)} shipped rollouts of a support desk and of coding tasks", "dim")
    for line in str(gar.check_spread(rows)).splitlines():
        _say(console, line, "bold green" if line.startswith("spread: yes") else "")

    _heading(console, "3  In training: advantage moves from worse to better passes")
    batch = {group.key: (group.rollouts, shape) for group, shape in gar.grade_rows(rows)}
    for key, lesson in SHOWN.items():
        _show(console, *batch[key], lesson)
    ties = dataclasses.replace(gar, grader=rank_with_ties)
    ((tied, shape),) = ties.grade_rows([row for row in rows if row["scenario_id"] == TIED])
    _show(console, tied.rollouts, shape, "A tie: an inner list, [[0, 1], 2], gives equal passes equal places.")
    _say(console, "The counters of the check and the batch together:", "dim")
    _say(console, str(gar.stats), "cyan")

    _heading(console, "Next")
    whileai = "whileai" if shutil.which("whileai") else sys.argv[0]
    grader, rollouts = f"{_short_path(source)}:rank_group", _short_path(rows_file)
    for purpose, command in (
        ("Check a grader of yours on rollouts of yours:", f"check {grader} --rows {rollouts}"),
        ("See what every rollout would get:", f"grade {grader} --rows {rollouts} --out graded.jsonl"),
    ):
        _say(console, purpose, "dim")
        console.print(f"  {whileai} {command}\n", soft_wrap=True)
    _say(console, "README.md says how to hand it to TRL, docs/method.md what the numbers mean.", "dim")


def rank_with_ties(group: Group) -> dict[str, Any]:
    """The page's ranking, where passes with as many tool calls as each other share a place."""

    def calls(rollout: Rollout) -> int:
        return str(rollout["completion"]).count("<tool_call>")

    passes = sorted((rollout for rollout in group if rollout["passed"]), key=calls)
    return {"ranking": [[rollout["index"] for rollout in tie] for _, tie in groupby(passes, key=calls)]}


def _heading(console: Console, text: str) -> None:
    console.print(f"\n{text}\n", style="bold")


def _say(console: Console, text: str, style: str = "") -> None:
    """A line of text: wrapped at the margin of a terminal, whole where something else reads it."""
    width = console.width if console.is_terminal else len(text) + INDENT
    margin = " " * INDENT
    console.print(fill(text, width, initial_indent=margin, subsequent_indent=margin), style=style, soft_wrap=True)


def _show(console: Console, group: Group, shape: GroupShape, lesson: str) -> None:
    """One group as a table: what each rollout did, and its advantage before and after."""
    ascii_only = console.options.ascii_only
    arrow = "->" if ascii_only else "→"
    overflow: OverflowMethod = "crop" if ascii_only else "ellipsis"
    before = _less_mean([rollout["reward"] for rollout in group])
    after = _less_mean(shape.rewards)
    largest = max(abs(new - old) for old, new in zip(before, after, strict=True)) or 1.0
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    fixed = {
        "calls": 5,
        "reward": 6,
        "rank": 4,
        "factor": 6,
        "advantage": 12 + len(arrow),
        "moved": 2 * BAR + 1,
    }
    room = console.width - INDENT - sum(width + 2 for width in fixed.values())
    table.add_column("what it did", no_wrap=True, overflow=overflow, max_width=max(room, 12))
    for name, width in fixed.items():
        table.add_column(name, justify="left" if name == "moved" else "right", no_wrap=True, min_width=width)
    for rollout, old, new in zip(group, before, after, strict=True):
        index = rollout["index"]
        calls = tool_calls(rollout["messages"])
        did = Text(", ".join(call.name for call in calls) or f'"{rollout["final_text"]}"')
        rank, style = _rank(index, rollout, shape)
        factor = shape.factors.get(index)
        table.add_row(
            did,
            str(len(calls)),
            f"{rollout['reward']:g}",
            Text(rank, style),
            "" if factor is None else f"{factor:.2f}",
            f"{old:+.2f} {arrow} {new:+.2f}",
            _bar((new - old) / largest, ascii_only=ascii_only),
        )
    prompt = Text.assemble(" " * INDENT, (group[0]["scenario_id"], "bold"), "  ", (group[0]["prompt"], "italic"))
    prompt.truncate(console.width, overflow=overflow)
    console.print(prompt)
    _say(console, lesson, "yellow")
    console.print(Padding(table, (0, 0, 1, INDENT)))


def _rank(index: int, rollout: Rollout, shape: GroupShape) -> tuple[str, str]:
    """Place among the passes, as training uses it, and its colour."""
    if index in shape.hacks:
        return "hack", "bold red"
    if not rollout["passed"]:
        return "fail", "dim"
    factor = shape.factors[index]
    better = sum(other > factor for other in shape.factors.values())
    shared = sum(other == factor for other in shape.factors.values()) > 1
    return f"{better + 1}{'=' if shared else ''}", "green" if better == 0 else ""


def _bar(change: float, *, ascii_only: bool) -> Text:
    """A bar from the middle: right and green for a gain, left and red for a loss. `change` in [-1, 1]."""
    cell, middle = ("#", "|") if ascii_only else ("█", "│")
    cells = round(abs(change) * BAR) or int(abs(change) > 1e-9)
    left, right = ("", cell * cells) if change > 0 else (cell * cells, "")
    return Text.assemble((left.rjust(BAR), "red"), (middle, "dim"), (right, "green"))


def _less_mean(rewards: list[float]) -> list[float]:
    mean = sum(rewards) / len(rewards)
    return [reward - mean for reward in rewards]


def _short_path(path: Path) -> str:
    """The way a grader's path is written on the command line: relative where it lies below this folder."""
    here = Path.cwd()
    return f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)

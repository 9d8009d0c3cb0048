"""What `whileai demo` shows, section by section.

First the grader of the method's page, a function: its check on 32 groups, and what it moves in three of them. Then
the same grader as a spec, with its golden cases and the gate.
"""

from __future__ import annotations

import dataclasses
import json
import runpy
import shutil
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from whileai.checks.cases import run_golden
from whileai.checks.gate import plan_gate, run_gate
from whileai.checks.golden import golden_beside, load_golden
from whileai.cli.drawing import BAR, arrow, asked, bar, cut, less_mean, place, plain_table, signed
from whileai.cli.gate import show_report
from whileai.cli.output import INDENT, heading, say
from whileai.core.group import Group, Rollout
from whileai.core.rollout import tool_calls
from whileai.core.shaping import GroupShape
from whileai.grading import GroupwiseGrading
from whileai.loader import load_grader
from whileai.spec.library import library_folder

ROWS = "rank_group.rows.jsonl"

SHOWN = {
    "refund-late-parcel": "Three passes, fewest tool calls first: the best gains what the worst loses.",
    "refund-no-order-number": "A hack: no tool returned ORD-9999. That pass now counts as a failure.",
}
"""Groups that are shown as the page's grader ranks them, and what there is to see in each."""

TIED = "cancel-before-dispatch"
"""A group whose two best passes made as many tool calls as each other."""


def show_function(console: Console) -> None:
    """The grader of the method's page: what it says, whether it may train, and what it moves."""
    source, rows = _shipped("rank_group.py"), _rows()
    rank_group = runpy.run_path(str(source))["rank_group"]
    gar = GroupwiseGrading(grader=rank_group)

    heading(console, "1  A grader reads a group of rollouts and ranks the passes")
    code = source.read_text(encoding="utf-8").partition("\n\n\n")[2].rstrip()
    console.print(Syntax("", "python", theme="ansi_dark").highlight(code), soft_wrap=True)
    say(console, str(gar), "cyan")

    heading(console, "2  Before training: can it tell these passes apart?")
    say(console, f"{len(rows)} shipped rollouts of a support desk and of coding tasks", "dim")
    for line in str(gar.check_spread(rows)).splitlines():
        say(console, line, "bold green" if line.startswith("spread: yes") else "")

    heading(console, "3  In training: advantage moves from worse to better passes")
    batch = {group.key: (group.rollouts, shape) for group, shape in gar.grade_rows(rows)}
    for key, lesson in SHOWN.items():
        _show(console, *batch[key], lesson)
    ties = dataclasses.replace(gar, grader=rank_with_ties)
    ((tied, shape),) = ties.grade_rows([row for row in rows if row["scenario_id"] == TIED])
    _show(console, tied.rollouts, shape, "A tie: an inner list, [[0, 1], 2], gives equal passes equal places.")
    say(console, "The counters of the check and the batch together:", "dim")
    say(console, str(gar.stats), "cyan")


def show_spec(console: Console) -> None:
    """The same grader as a spec: its golden cases, and the gate in place of the page's check."""
    spec = _shipped("rank_group.yaml")
    grader = load_grader(spec)
    heading(console, "4  The same grader as a spec, with golden cases")
    lines = spec.read_text(encoding="utf-8").splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    console.print(Syntax("", "yaml", theme="ansi_dark").highlight(text), soft_wrap=True)
    golden = load_golden(golden_beside(spec))
    for result in run_golden(grader, golden_beside(spec)):
        mark, style = ("ok", "green") if result.ok else ("NO", "bold red")
        say(console, f"{mark}  {result.name}", style)

    heading(console, "5  The gate: would it say the same if the passes stood in another order?")
    plan = plan_gate(grader, _rows(), golden=golden)
    say(console, str(plan), "dim")
    show_report(console, run_gate(grader, plan, rules=grader.spec.check))


def show_next(console: Console) -> None:
    """The commands that a newcomer tries now."""
    heading(console, "Next")
    whileai = "whileai" if shutil.which("whileai") else sys.argv[0]
    rows = _short_path(_shipped(ROWS))
    for purpose, command in (
        ("Check a grader on rollouts of yours, a function or a spec:", f"check rank_group --rows {rows}"),
        ("See what every rollout would get, or follow one group:", f"explain rank_group --rows {rows}"),
        ("Write your own:", "new my_grader --kind rules"),
    ):
        say(console, purpose, "dim")
        console.print(f"  {whileai} {command}\n", soft_wrap=True)
    say(console, "README.md says how to hand it to TRL, docs/method.md what the numbers mean.", "dim")


def rank_with_ties(group: Group) -> dict[str, Any]:
    """The page's ranking, where passes with as many tool calls as each other share a place."""

    def calls(rollout: Rollout) -> int:
        return str(rollout["completion"]).count("<tool_call>")

    passes = sorted((rollout for rollout in group if rollout["passed"]), key=calls)
    return {"ranking": [[rollout["index"] for rollout in tie] for _, tie in groupby(passes, key=calls)]}


def _show(console: Console, group: Group, shape: GroupShape, lesson: str) -> None:
    """One group as a table: what each rollout did, and its advantage before and after."""
    to, overflow = arrow(console), cut(console)
    before = less_mean([rollout["reward"] for rollout in group])
    after = less_mean(shape.rewards)
    largest = max(abs(new - old) for old, new in zip(before, after, strict=True)) or 1.0
    table = plain_table()
    fixed = {
        "calls": 5,
        "reward": 6,
        "rank": 4,
        "factor": 6,
        "advantage": 12 + len(to),
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
        rank, style = place(index, rollout, shape.factors, shape.hacks)
        factor = shape.factors.get(index)
        table.add_row(
            did,
            str(len(calls)),
            f"{rollout['reward']:g}",
            Text(rank, style),
            "" if factor is None else f"{factor:.2f}",
            f"{signed(old)} {to} {signed(new)}",
            bar((new - old) / largest, ascii_only=console.options.ascii_only),
        )
    prompt = Text.assemble(" " * INDENT, (group[0]["scenario_id"], "bold"), "  ", (asked(group[0]), "italic"))
    prompt.truncate(console.width, overflow=overflow)
    console.print(prompt)
    say(console, lesson, "yellow")
    console.print(Padding(table, (0, 0, 1, INDENT)))


def _shipped(name: str) -> Path:
    return library_folder("graders") / name


def _rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in _shipped(ROWS).read_text(encoding="utf-8").splitlines()]


def _short_path(path: Path) -> str:
    """The way a grader's path is written on the command line: relative where it lies below this folder."""
    here = Path.cwd()
    return f"./{path.relative_to(here)}" if path.is_relative_to(here) else str(path)

"""`whileai check`: can this grader tell passes apart?"""

from __future__ import annotations

import math
import sys
from contextlib import redirect_stdout
from typing import Any

import typer

from whileai.checks.rows import read_rows
from whileai.cli import output
from whileai.cli.options import GroupSize, Json, Mode, Rows, Target
from whileai.core.spread import SpreadReport
from whileai.grading import GroupwiseGrading
from whileai.kinds.functions import load_function

YES, NO, NOT_ENOUGH = 0, 1, 3


def check(
    target: Target, rows: Rows, mode: Mode = "advantage", group_size: GroupSize = None, json: Json = False
) -> None:
    """Grade the groups of ROWS with two or more passes and say whether the scores vary.

    Exit code 0: yes, 1: no, 3: not enough data.
    """
    with redirect_stdout(sys.stderr):  # what a grader prints is about the answer, not the answer
        grading = GroupwiseGrading(load_function(target), mode=mode)
        read = read_rows(rows)
        report = grading.check_spread(read, strict=False, group_size=group_size)
    assert isinstance(report, SpreadReport)
    if json:
        output.print_json(_as_json(report, len(read)))
    else:
        _show(report)
    raise typer.Exit(YES if report.ok else NO if report.enough else NOT_ENOUGH)


def _show(report: SpreadReport) -> None:
    console = output.console()
    *lines, verdict = str(report).splitlines()
    for line in lines:
        console.print(line, style="red" if line.startswith("failed:") else None)
    console.print(verdict, style="bold green" if report.ok else "bold red" if report.enough else "bold yellow")


def _as_json(report: SpreadReport, rows: int) -> dict[str, Any]:
    def number(value: float) -> float | None:
        return value if math.isfinite(value) else None

    return {
        "verdict": "yes" if report.ok else "no" if report.enough else "not enough data",
        "rows": rows,
        "groups": report.groups,
        "scores": report.n,
        "std": number(report.std),
        "median": number(report.median),
        "clustered": number(report.clustered),
        "problems": list(report.problems),
        "calls": report.calls,
        "failures": [{"kind": kind, "count": count, "first": first} for kind, count, first in report.failures],
    }

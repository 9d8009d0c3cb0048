"""`whileai grade`: grade kept rollouts as training would, for looking."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from whileai.checks.rows import read_rows, write_rows
from whileai.cli import output
from whileai.cli.options import GroupSize, Json, Mode, Rows, Target
from whileai.core.group import RowGroup
from whileai.core.shaping import GroupShape
from whileai.errors import BatchError, GraderFailure
from whileai.grading import GroupwiseGrading
from whileai.kinds.functions import load_function


def grade(
    target: Target,
    rows: Rows,
    out: Annotated[str, typer.Option("--out", help="Where the graded rows go: .jsonl, .json, or - for stdout.")] = "-",
    mode: Mode = "advantage",
    group_size: GroupSize = None,
    json: Json = False,
) -> None:
    """Write ROWS with a `grade` each: shaped reward, advantage, factor, rank, hack, failure.

    Nothing is checked, so every row says `checked: false`. Nothing is written before every row is graded.
    """
    if json and out == "-":
        raise BatchError("--json prints the summary on standard output: give the rows a file of their own with --out")
    grading = GroupwiseGrading(load_function(target), mode=mode)
    read = read_rows(rows)
    graded: list[dict[str, Any]] = [{} for _ in read]
    for group, shape in grading.grade_rows(read, group_size=group_size):
        for position, result in zip(group.positions, _grades(group, shape), strict=True):
            graded[position] = {**read[position], "grade": result, "checked": False}
    write_rows(out, graded)
    stats = grading.stats
    if json:
        output.print_json(
            {
                "rows": len(read),
                "groups": stats.groups,
                "mixed": stats.mixed,
                "grader_calls": stats.grader_calls,
                "failures": dict(stats.failures),
                "hacks": stats.hacks,
                "factor_mean": stats.factor_mean,
                "factor_std": stats.factor_std,
                "checked": False,
            }
        )
    elif out != "-" or sys.stdout.isatty():
        console = output.console(stderr=out == "-")
        console.print(f"{len(read)} rows in {stats.groups} groups" + ("" if out == "-" else f" written to {out}"))
        console.print(str(stats), markup=False)
        for kind, reason in stats.reasons.items():
            console.print(f"failed: {stats.failures[kind]} calls, {kind}: {reason}", style="red", markup=False)
        console.print("not checked: `whileai check` says whether this grader tells passes apart", style="dim")


def _grades(group: RowGroup, shape: GroupShape) -> list[Mapping[str, Any]]:
    mean = sum(shape.rewards) / len(shape.rewards)
    failed = shape.failures[0] if shape.failures else None
    failure = failed.kind if isinstance(failed, GraderFailure) else "raised" if failed else None
    return [
        {
            "reward": reward,
            "advantage": reward - mean,
            "factor": (factor := shape.factors.get(index)),
            "rank": None if factor is None else 1 + sum(other > factor for other in shape.factors.values()),
            "hack": index in shape.hacks,
            "failure": failure,
        }
        for index, reward in enumerate(shape.rewards)
    ]

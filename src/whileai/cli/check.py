"""`whileai check`: may this grader train? The gate for specs, the page's check for plain functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from whileai.cli import output
from whileai.cli.options import ROWS_HELP, GroupSize, Json, Mode, Models, Record, Target

if TYPE_CHECKING:
    from whileai.core.spread import SpreadReport
    from whileai.grading import GroupwiseGrading


def check(
    target: Target,
    rows: Annotated[str | None, typer.Option("--rows", metavar="FILE", help=ROWS_HELP, show_default=False)] = None,
    mode: Mode = None,
    group_size: GroupSize = None,
    model: Models = None,
    record: Record = False,
    link: Annotated[
        str | None,
        typer.Option(
            "--link", help="Of a chain: all, or the name of one link. Default: the first.", show_default=False
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Grade nothing, only look for a valid certificate: for CI.")
    ] = False,
    json: Json = False,
) -> None:
    """Say whether a grader tells passes apart and repeats itself.

    A spec goes through the gate: every group with two or more passes is
    judged in two random orders, its golden cases are run, and a yes leaves
    a certificate. A plain function gets the spread check.

    Exit code 0: yes, 1: no, 2: a mistake in the call or in a file,
    3: not enough data.
    """
    from whileai.checks.rows import read_rows
    from whileai.cli.gate import check_links, verify_links
    from whileai.cli.targets import grading_of
    from whileai.errors import ConfigError
    from whileai.loader import CompiledGrader

    if verify and rows is not None:
        raise ConfigError("--verify grades nothing: leave out --rows, or leave out --verify to check again")
    if not verify and rows is None:
        raise ConfigError("--rows is missing: the file of graded rollouts to check on, or - for standard input")
    with output.graders_aside():
        grading = grading_of(target, mode, model, record=record)
    compiled = isinstance(grading.grader, CompiledGrader)
    if not compiled and (verify or link):
        raise ConfigError(f"{target} is a plain function: it has no links and no certificate, a spec has")
    if rows is None:
        code = verify_links(grading, link, json=json)
    elif compiled:
        code = check_links(grading, read_rows(rows), link, group_size=group_size, json=json)
    else:
        code = _check_spread(grading, read_rows(rows), group_size=group_size, json=json)
    raise typer.Exit(code)


def _check_spread(grading: GroupwiseGrading, rows: list[dict[str, Any]], *, group_size: int | None, json: bool) -> int:
    from whileai.checks.report import EXIT_CODES
    from whileai.core.spread import SpreadReport

    with output.graders_aside():
        report = grading.check_spread(rows, strict=False, group_size=group_size)
    assert isinstance(report, SpreadReport)
    verdict = "yes" if report.ok else "no" if report.enough else "not enough data"
    if json:
        output.print_json({"verdict": verdict, "rows": len(rows), **_as_json(report)})
    else:
        console = output.console()
        *lines, conclusion = str(report).splitlines()
        for line in lines:
            output.say(console, line, "red" if line.startswith("failed:") else "", indent=0)
        output.say(console, conclusion, output.VERDICTS[verdict], indent=0)
    return EXIT_CODES[verdict]


def _as_json(report: SpreadReport) -> dict[str, Any]:
    return {
        "groups": report.groups,
        "scores": report.n,
        "std": report.std,
        "median": report.median,
        "clustered": report.clustered,
        "problems": report.problems,
        "calls": report.calls,
        "failures": [{"kind": kind, "count": count, "first": first} for kind, count, first in report.failures],
    }

"""`whileai grade`: grade kept rollouts as training would, for looking."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whileai.cli import output
from whileai.cli.options import GroupSize, Json, Mode, Models, Record, Rows, Target

if TYPE_CHECKING:
    from whileai.core.group import RowGroup
    from whileai.core.shaping import GroupShape
    from whileai.core.stats import GradingStats
    from whileai.grading import GroupwiseGrading


def grade(
    target: Target,
    rows: Rows,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            help="Where the graded rows go: .jsonl, .json, or - for standard output. Without it: standard output, "
            "or a table on a terminal. A folder that is not there is made.",
        ),
    ] = None,
    mode: Mode = None,
    group_size: GroupSize = None,
    model: Models = None,
    record: Record = False,
    json: Json = False,
) -> None:
    """Give every row its grade, as training would, for looking.

    A grade is the shaped reward, the advantage before and after, factor,
    rank, hack and failure. Nothing is checked, so every row says
    `checked: false`; nothing is written before every row is graded.
    """
    from whileai.checks.rows import form_of, read_rows, write_rows
    from whileai.cli.spending import say_spending
    from whileai.cli.targets import grading_of
    from whileai.errors import ConfigError

    if json and out in (None, "-"):
        raise ConfigError("--json prints the summary on standard output: give the rows a file of their own with --out")
    form_of(out or "-")
    with output.graders_aside():
        grading = grading_of(target, mode, model, record=record)
        read = read_rows(rows)
        say_spending(grading.grader, _calls(grading, read, group_size))
        graded = grading.grade_rows(read, group_size=group_size)
    grades: list[Mapping[str, Any]] = [{} for _ in read]
    for group, shape in graded:
        for position, grade in zip(group.positions, _grades(group, shape), strict=True):
            grades[position] = grade
    table = out is None and sys.stdout.isatty()
    if not table:
        write_rows(out or "-", [{**row, "grade": grades[n], "checked": False} for n, row in enumerate(read)])
    if json:
        output.print_json(_summary(len(read), grading.stats))
    elif table:
        _show([group for group, _ in graded], grades)
    if not json and (table or out not in (None, "-")):
        _say(len(read), out, grading.stats)


def _calls(
    grading: GroupwiseGrading, rows: Sequence[Mapping[str, Any]], group_size: int | None
) -> list[tuple[Any, ...]]:
    """The calls that training would make for these rows."""
    from whileai.cli.explanation import calls_of, why_left_alone
    from whileai.core.group import groups_from_rows

    groups = groups_from_rows(rows, group_size=group_size, pass_threshold=grading.pass_threshold)
    passes = [[rollout["index"] for rollout in group.rollouts if rollout["passed"]] for group in groups]
    return [
        call
        for group, indices in zip(groups, passes, strict=True)
        if not why_left_alone(grading, group.rollouts, indices)
        for call in calls_of(grading.mode, group.rollouts)
    ]


def _grades(group: RowGroup, shape: GroupShape) -> list[Mapping[str, Any]]:
    from whileai.errors import kind_and_reason

    known = [rollout["reward"] for rollout in group.rollouts if rollout["reward"] is not None]
    before, after = sum(known) / max(1, len(known)), sum(shape.rewards) / len(shape.rewards)
    failure = kind_and_reason(shape.failures[0])[0] if shape.failures else None
    return [
        {
            "reward": reward,
            "advantage": reward - after,
            "advantage_before": 0.0 if rollout["reward"] is None else rollout["reward"] - before,
            "factor": (factor := shape.factors.get(index)),
            "rank": None if factor is None else 1 + sum(other > factor for other in shape.factors.values()),
            "hack": index in shape.hacks,
            "failure": failure,
        }
        for index, (rollout, reward) in enumerate(zip(group.rollouts, shape.rewards, strict=True))
    ]


def _show(groups: Sequence[RowGroup], grades: Sequence[Mapping[str, Any]]) -> None:
    """The rows on a terminal, group by group; groups in which nothing can move are only counted."""
    from whileai.cli.drawing import arrow, cut, plain_table, signed

    console = output.console()
    table = plain_table()
    table.add_column("group", overflow=cut(console), no_wrap=True, max_width=24)
    for name in ("row", "reward", "rank", "factor", "advantage"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    flat = 0
    for group in groups:
        members = [grades[position] for position in group.positions]
        if all(grade["advantage"] == grade["advantage_before"] == 0 for grade in members):
            flat += 1
            continue
        for place, (position, rollout, grade) in enumerate(zip(group.positions, group.rollouts, members, strict=True)):
            remark, style = ("hack", "red") if grade["hack"] else (grade["failure"] or "", "yellow")
            table.add_row(
                output.visible(group.key) if place == 0 else "",
                str(position),
                "none" if rollout["reward"] is None else f"{rollout['reward']:g}",
                "" if grade["rank"] is None else str(grade["rank"]),
                "" if grade["factor"] is None else f"{grade['factor']:.2f}",
                f"{signed(grade['advantage_before'])} {arrow(console)} {signed(grade['advantage'])}",
                remark,
                style=style if remark else "dim" if grade["factor"] is None else None,
            )
        table.add_section()
    if table.row_count:
        console.print(table)
    if flat:
        output.say(
            console, f"{flat} of {len(groups)} groups have no advantage to move: all their rewards are equal", indent=0
        )


def _say(rows: int, out: str | None, stats: GradingStats) -> None:
    console = output.console()
    written = f", written to {out}" if out else ""
    output.say(console, f"{rows} rows in {stats.groups} groups{written}", indent=0)
    output.say(console, str(stats), indent=0)
    for kind, reason in stats.reasons.items():
        output.say(console, f"failed: {stats.failures[kind]} calls, {kind}: {reason}", "red", indent=0)
    output.say(console, "not checked: `whileai check` says whether this grader tells passes apart", "dim", indent=0)


def _summary(rows: int, stats: GradingStats) -> dict[str, Any]:
    return {
        "rows": rows,
        "groups": stats.groups,
        "mixed": stats.mixed,
        "grader_calls": stats.grader_calls,
        "failures": dict(stats.failures),
        "hacks": stats.hacks,
        "factor_mean": stats.factor_mean,
        "factor_std": stats.factor_std,
        "checked": False,
    }

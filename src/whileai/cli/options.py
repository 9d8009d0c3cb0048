"""Arguments that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Target = Annotated[
    str,
    typer.Argument(
        metavar="GRADER",
        help="The grader: a spec (my.yaml), a shipped one by name (rank_group), ./file.py:function or "
        "package.module:function.",
        show_default=False,
    ),
]
ROWS_HELP = "Graded rollouts: .jsonl, .json, .csv, or - for standard input."
Rows = Annotated[str, typer.Option("--rows", metavar="FILE", help=ROWS_HELP)]
Mode = Annotated[
    str | None,
    typer.Option("--mode", help="advantage: one call per group; reward: one per pass. Default: what the spec says."),
]
GroupSize = Annotated[
    int | None, typer.Option("--group-size", min=1, help="Rollouts of a training group, if a task has more rows.")
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="ROLE=MODEL",
        help="What a role means this time, such as judge=openai:gpt-5-mini or judge=recorded:. May be repeated.",
        show_default=False,
    ),
]
Record = Annotated[
    bool, typer.Option("--record", help="Keep what models reply beside the spec, for judge=recorded: later on.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Paths = Annotated[
    list[str],
    typer.Argument(metavar="PATH", help="Specs, golden files, folders of them, or names of shipped graders."),
]
OneGroup = Annotated[
    str | None,
    typer.Option(
        "--group", help="Its id, or how that begins. Default: the first in which something moves.", show_default=False
    ),
]

"""Arguments that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Target = Annotated[str, typer.Argument(help="The grader: ./file.py:function or package.module:function.")]
Rows = Annotated[str, typer.Option("--rows", help="Graded rollouts: .jsonl, .json, .csv, or - for standard input.")]
Mode = Annotated[str, typer.Option("--mode", help="advantage: one call per group; reward: one per pass.")]
GroupSize = Annotated[
    int | None, typer.Option("--group-size", min=1, help="Rollouts of a training group, if a task has more rows.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]

"""`whileai schema`: the JSON Schemas of what authors write and of what judges reply."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from whileai.cli import output

SCHEMAS = {
    "grader": "a spec: NAME.yaml",
    "golden": "golden cases: NAME.golden.yaml",
    "ranking": "a judge's reply: the rank of every candidate",
    "factors": "a judge's reply: a factor for every candidate",
    "tiers": "a judge's reply: criterion scores for every candidate",
    "hacks": "a judge's reply: hacks, with their evidence",
    "rubric": "a judge's reply: criteria written from a group",
    "scores": "a judge's reply: one pass scored by its rubric",
}
"""Each schema and what it describes."""


def schema(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help=f"One of {', '.join(SCHEMAS)}.", show_default=False)
    ] = None,
) -> None:
    """Print a JSON Schema, or say which there are.

    An editor checks a spec as you type with
    `whileai schema grader > grader.schema.json` and this first line:
    # yaml-language-server: $schema=./grader.schema.json
    """
    from whileai.errors import ConfigError
    from whileai.spec.document import nearest

    if name is None:
        _list()
    elif name in SCHEMAS:
        sys.stdout.write(_file_of(name).read_text(encoding="utf-8"))
    else:
        raise ConfigError(f"there is no schema {name!r} ({nearest(name, SCHEMAS)})")


def _file_of(name: str) -> Path:
    """What authors write has the suffix that editors look for, what judges reply has the name of its verdict."""
    from whileai.spec.library import library_folder

    return library_folder("schemas") / (f"{name}.schema.json" if name in ("grader", "golden") else f"{name}.json")


def _list() -> None:
    from rich.text import Text

    from whileai.cli.drawing import plain_table

    table = plain_table()
    table.show_header = False
    table.add_column()
    table.add_column()
    for name, what in SCHEMAS.items():
        table.add_row(Text(name, "bold"), what)
    output.console().print(table)

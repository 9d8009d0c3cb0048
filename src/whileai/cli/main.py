"""The command line: what each command is called, and how an error reaches a person.

Exit codes: 0 yes or done, 1 no, 2 a mistake in the call or in a file, 3 not enough data, 130 interrupted, 141
whoever read the output went away.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from whileai.cli import output
from whileai.cli.check import check
from whileai.cli.demo import demo
from whileai.cli.explain import explain
from whileai.cli.grade import grade
from whileai.cli.lint import lint
from whileai.cli.logs import logs_shown
from whileai.cli.models import models
from whileai.cli.new import new
from whileai.cli.render import render
from whileai.cli.schema import schema
from whileai.cli.test import test
from whileai.cli.versions import version_text
from whileai.errors import WhileaiError

USAGE_ERROR: Any = typer.BadParameter.__base__
"""A mistake in the call, of the click that typer uses: one of its own, or the package in older versions."""

INTERRUPTED, READER_GONE = 130, 141

app = typer.Typer(
    name="whileai",
    help="Write, test and check graders for groups of rollouts.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(version_text())
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    pass


for command in (new, lint, test, render, explain, check, grade, models, schema, demo):
    app.command()(command)


def main(arguments: list[str] | None = None) -> None:
    """Run one command and end the process with its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started this process
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end
    try:
        with logs_shown():
            code = app(args=arguments, prog_name="whileai", standalone_mode=False)
        sys.stdout.flush()
    except typer.Abort:
        code = INTERRUPTED
    except USAGE_ERROR as error:
        error.show()
        code = error.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is flushed there at the exit
        code = READER_GONE
    except SystemExit as end:  # typer ends with 1 when the reader is gone, which is "no" here
        code = READER_GONE if isinstance(end.__context__, BrokenPipeError) else end.code
    except OSError as error:
        output.error(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))
        code = 2
    except WhileaiError as error:
        output.error(str(error))
        code = 2
    if code == INTERRUPTED:  # typer makes this of Ctrl-C, or Abort in older versions
        output.error("interrupted")
    sys.exit(code if isinstance(code, int) else 0)

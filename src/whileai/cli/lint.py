"""`whileai lint`: every mistake of every spec, without running anything of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from whileai.cli import output
from whileai.cli.options import Json, Paths

if TYPE_CHECKING:
    from whileai.cli.spec_files import SpecFiles
    from whileai.errors import Problem


def lint(paths: Paths, json: Json = False) -> None:
    """Show every mistake of specs and golden files; run nothing.

    One line for each: file:line: key: message (remedy).
    Exit code 1 if there is any.
    """
    from whileai.cli.spec_files import find_spec_files

    found = find_spec_files(paths)
    problems = find_problems(found)
    if json:
        output.print_json(_as_json(found, problems))
    else:
        _show(found, problems)
    raise typer.Exit(1 if problems else 0)


def find_problems(found: SpecFiles) -> list[Problem]:
    """Every mistake of these files and of what they refer to, each once, file by file."""
    from whileai.checks.golden import load_golden
    from whileai.errors import Problem, SpecError
    from whileai.loader import lint as lint_spec

    problems: list[Problem] = []
    for spec in found.specs:
        if spec.suffix != ".yaml":
            problems.append(
                Problem(str(spec), None, "", "the name of a spec ends in .yaml", f"call it {spec.stem}.yaml")
            )
        problems += lint_spec(spec)
    for golden in found.golden:
        try:
            load_golden(golden)
        except SpecError as error:
            problems += error.problems
    return list(dict.fromkeys(problems))


def _show(found: SpecFiles, problems: list[Problem]) -> None:
    console = output.console()
    for problem in problems:
        place, _, message = str(problem).partition(": ")
        console.print(output.visible(place), style="bold", end=": ", soft_wrap=True)
        console.print(output.visible(message), soft_wrap=True)
    looked = f"{output.count(len(found.specs), 'spec')}, {output.count(len(found.golden), 'golden file')}"
    others = f"; {output.count(len(found.others), 'other YAML file')} left alone" if found.others else ""
    if problems:
        files = len({problem.file for problem in problems})
        what = f"{output.count(len(problems), 'problem')} in {output.count(files, 'file')} ({looked}{others})"
        output.say(console, what, "bold red", indent=0)
    else:
        output.say(console, f"no problems: {looked}{others}", "green", indent=0)


def _as_json(found: SpecFiles, problems: list[Problem]) -> dict[str, Any]:
    def names(paths: list[Path]) -> list[str]:
        return list(map(str, paths))

    return {
        "specs": names(found.specs),
        "golden": names(found.golden),
        "others": names(found.others),
        "problems": problems,
    }

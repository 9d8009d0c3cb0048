"""`whileai test`: the golden cases of graders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from whileai.cli import output
from whileai.cli.options import Json, Models, Paths, Record

if TYPE_CHECKING:
    from whileai.checks.cases import CaseResult
    from whileai.checks.golden import GoldenFile
    from whileai.errors import Problem
    from whileai.loader import CompiledGrader

HOLD, BROKEN, UNREADABLE = 0, 1, 2


def test(paths: Paths, model: Models = None, record: Record = False, json: Json = False) -> None:
    """Run golden cases: does a grader say what it should?

    NAME.golden.yaml holds the cases of NAME.yaml. One line for each; one
    that does not hold shows its group, the verdict and the difference.
    Exit code 1 if there is any, 2 if a file has mistakes.
    """
    from whileai.checks.golden import golden_beside
    from whileai.cli.spec_files import find_spec_files
    from whileai.cli.targets import spec_of
    from whileai.errors import Problem, SpecError

    found = find_spec_files(paths)
    without = [spec for spec in found.specs if not golden_beside(spec).is_file()]
    if not found.golden:
        raise SpecError(
            [Problem(str(spec), None, "", "no golden cases", f"write {golden_beside(spec)}") for spec in without]
        )
    results: dict[Path, list[CaseResult]] = {}
    problems: list[Problem] = []
    for golden in found.golden:
        try:
            results[golden] = _run(spec_of(golden), golden, model, record=record)
        except SpecError as error:
            problems += error.problems
            continue
        if not json:
            _show(golden, results[golden])
    if json:
        output.print_json(_as_json(results, problems, without))
    else:
        _show_end(results, problems, without)
    broken = any(not result.ok for cases in results.values() for result in cases)
    raise typer.Exit(UNREADABLE if problems else BROKEN if broken else HOLD)


def _run(spec: Path, golden: Path, models: Sequence[str] | None, *, record: bool) -> list[CaseResult]:
    from whileai.checks.cases import run_golden
    from whileai.checks.golden import load_golden
    from whileai.cli.spending import say_spending
    from whileai.cli.targets import roles_of
    from whileai.errors import Problem, SpecError
    from whileai.loader import load_grader

    if not spec.is_file():
        remedy = "cases of a plain function are run by whileai.testing.assert_golden"
        raise SpecError([Problem(str(golden), None, "", f"there is no {spec.name} beside it", remedy)])
    with output.graders_aside():
        grader = load_grader(spec, models=roles_of(models), record=record)
        if grader.models:
            say_spending(grader, _calls(grader, load_golden(golden)))
        return run_golden(grader, golden)


def _calls(grader: CompiledGrader, golden: GoldenFile) -> list[tuple[Any, ...]]:
    cases = [case for case in golden.cases if case.passes and case.expected.unusable is None]
    if grader.mode == "advantage" or grader.writes_rubrics:
        return [(case.group,) for case in cases]
    return [(case.group[index], case.expected.rubric) for case in cases for index in case.passes]


def _show(golden: Path, results: list[CaseResult]) -> None:
    console = output.console()
    console.print(output.visible(str(golden)), style="bold", soft_wrap=True)
    for result in results:
        console.print("  ok  " if result.ok else "  NO  ", style="green" if result.ok else "bold red", end="")
        console.print(output.visible(result.name), soft_wrap=True)
        if not result.ok:
            for line in str(result).splitlines()[1:]:
                problem = line.strip() in result.problems
                output.say(console, line.removeprefix("  "), "red" if problem else "", indent=6)


def _show_end(results: Mapping[Path, list[CaseResult]], problems: list[Problem], without: list[Path]) -> None:
    console = output.console()
    for problem in problems:
        console.print(output.visible(str(problem)), style="red", soft_wrap=True)
    for spec in without:
        output.say(console, f"{spec}: no golden cases", "yellow", indent=0)
    cases = [result for found in results.values() for result in found]
    broken = sum(not result.ok for result in cases)
    if broken:
        verb = "does" if broken == 1 else "do"
        output.say(console, f"{broken} of {output.count(len(cases), 'case')} {verb} not hold", "bold red", indent=0)
    elif cases:
        verb = "holds" if len(cases) == 1 else "hold"
        output.say(console, f"{output.count(len(cases), 'case')} {verb}", "bold green", indent=0)


def _as_json(results: Mapping[Path, list[CaseResult]], problems: list[Problem], without: list[Path]) -> dict[str, Any]:
    return {
        "cases": [
            {
                "file": str(golden),
                "line": result.case.line,
                "name": result.name,
                "ok": result.ok,
                "problems": result.problems,
                "scores": result.scores,
                "hacks": sorted(result.named_hacks),
                "failure": output.failure_json(result.failure),
            }
            for golden, found in results.items()
            for result in found
        ],
        "problems": problems,
        "without_cases": list(map(str, without)),
    }

"""The gate on the command line: the links of a compiled grader, their reports and their certificates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whileai.checks.admission import certify, command_for, fingerprint_of, plan_link
from whileai.checks.certificate import find_certificate
from whileai.checks.progress import terminal_progress
from whileai.checks.report import EXIT_CODES, CheckReport
from whileai.checks.votes import GateKnobs
from whileai.cli import output
from whileai.cli.spending import say_models
from whileai.errors import ConfigError
from whileai.grading import GroupwiseGrading
from whileai.loader import CompiledGrader
from whileai.spec.document import nearest

if TYPE_CHECKING:
    from rich.console import Console


def check_links(
    grading: GroupwiseGrading,
    rows: Sequence[Mapping[str, Any]],
    wanted: str | None,
    *,
    group_size: int | None,
    json: bool,
) -> int:
    """Check links one by one, each with a preview before and its certificate after. Returns the exit code."""
    knobs = GateKnobs(mode=grading.mode)
    plans = [
        (link, plan_link(link, rows, knobs=knobs, group_size=group_size)) for link in _chosen(grading.grader, wanted)
    ]
    for link, plan in plans:
        output.say(output.console(stderr=True), str(plan), "dim", indent=0)
        say_models(link)
    checked = []
    for number, (link, plan) in enumerate(plans):
        with output.graders_aside(), terminal_progress(f"checking {link.link_name}") as progress:
            report, path = certify(link, plan, knobs=knobs, progress=progress)
        checked.append((report, path))
        if not json:
            console = output.console()
            if number:
                console.print()
            show_report(console, report)
            if path is not None:
                what = "certificate" if report.ok else "refusal"
                output.say(console, f"{what}: {_short(path)}", "cyan", indent=0)
    verdict = min((report.verdict for report, _ in checked), key=("no", "not enough data", "yes").index)
    if json:
        links = [{**report.to_json(), "certificate": path and str(path)} for report, path in checked]
        output.print_json({"verdict": verdict, "rows": len(rows), "links": links})
    return EXIT_CODES[verdict]


def verify_links(grading: GroupwiseGrading, wanted: str | None, *, json: bool) -> int:
    """Say of each link what certificate it has. Returns the exit code: 0 if all are valid, else 1."""
    grader: Any = grading.grader
    knobs = GateKnobs(mode=grading.mode)
    found = [
        (link.link_name, find_certificate(link.link_name, fingerprint_of(link, knobs)))
        for link in _chosen(grader, wanted)
    ]
    valid = all(finding.status == "valid" for _, finding in found)
    if json:
        links = [
            {
                "link": name,
                "status": finding.status,
                "certificate": finding.path and str(finding.path),
                "changed": finding.changed,
            }
            for name, finding in found
        ]
        output.print_json({"valid": valid, "links": links})
    else:
        console = output.console()
        for name, finding in found:
            style = "bold green" if finding.status == "valid" else "bold red"
            shown = replace(finding, path=finding.path and _short(finding.path))
            output.say(console, f"{name}: {shown}", style, indent=0)
        if not valid:
            every = "" if wanted is None else f" --link {wanted}"
            output.say(console, f"to check it again: {command_for(grader)}{every}", indent=0)
    return 0 if valid else 1


def _chosen(grader: Any, wanted: str | None) -> Sequence[CompiledGrader]:
    links: Sequence[CompiledGrader] = grader.links
    if wanted is None:
        return links[:1]
    if wanted == "all":
        return links
    names = [link.link_name for link in links]
    if wanted not in names:
        raise ConfigError(f"--link {wanted}: {grader.name} has no link of that name ({nearest(wanted, names)})")
    return [links[names.index(wanted)]]


def show_report(console: Console, report: CheckReport) -> None:
    """A report: as a table on a terminal, line by line where something else reads it."""
    if console.is_terminal:
        console.print(report)
    else:
        output.say(console, str(report), indent=0)


def _short(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path

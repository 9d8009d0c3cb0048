"""What the check found: a verdict, and every figure with its interval and its rule."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

Answer = Literal["yes", "no", "not enough data"]

MARKS: Mapping[str, str] = {"yes": "ok", "no": "NO", "not enough data": "??"}

WIDE = 110
"""Columns from which on a figure and its rule stand beside each other."""

EXIT_CODES: Mapping[str, int] = {"yes": 0, "no": 1, "not enough data": 3}
"""Exit code of `whileai check` for each answer."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the check.

    Attributes:
        name: short and stable, for machines.
        answer: what the figure says by its rule.
        seen: what was seen, in words.
        rule: what is asked for.
        value, low, high: the figure and its one-sided 5 % bounds, where it has them.
        remedy: what to do, unless the answer is yes.
    """

    name: str
    answer: Answer
    seen: str
    rule: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    remedy: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "answer": self.answer,
            "value": _number(self.value),
            "low": _number(self.low),
            "high": _number(self.high),
            "seen": self.seen,
            "rule": self.rule,
        }


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The answer of the check on one link of a grader.

    Attributes:
        verdict: "yes": it tells passes apart and repeats itself; "no"; or "not enough data" to say.
        grader, mode: what was checked, and how it grades.
        figures: in the order in which they decide.
        remarks: what no rule decides but a reader should know.
        groups: all groups; judged: those with two or more passes, which were judged twice.
        passes, pairs: passes of the judged groups, and pairs of passes inside a group.
        calls, failed: calls that were made, and those without a usable verdict.
        failures: failed calls by kind, with the first reason of each.
        loosened: rules that ask less than the defaults, and `because`, the reason for it.
    """

    verdict: Answer
    grader: str
    mode: str
    figures: tuple[Figure, ...]
    remarks: tuple[str, ...] = ()
    groups: int = 0
    judged: int = 0
    passes: int = 0
    pairs: int = 0
    calls: int = 0
    failed: int = 0
    failures: tuple[tuple[str, int, str], ...] = ()
    loosened: Mapping[str, float] = field(default_factory=dict)
    because: str | None = None

    @property
    def ok(self) -> bool:
        """The answer is yes."""
        return self.verdict == "yes"

    @property
    def exit_code(self) -> int:
        """0 yes, 1 no, 3 not enough data."""
        return EXIT_CODES[self.verdict]

    def figure(self, name: str) -> Figure:
        """The figure of that name. Raises KeyError."""
        for figure in self.figures:
            if figure.name == name:
                return figure
        raise KeyError(f"{name}: this check has {', '.join(figure.name for figure in self.figures)}")

    @property
    def conclusion(self) -> str:
        """The verdict as one sentence, with what to do about it."""
        if self.ok:
            return f"yes. {self.grader} tells these passes apart, and says the same when the order changes."
        told = [(f"{self.verdict}, because of", "no")]
        if self.verdict == "not enough data":
            # More groups mend no broken golden case: it is said before they are collected.
            told = [("not enough data, left open by", "not enough data"), ("So far no:", "no")]
        sentences = []
        for what, answer in told:
            if deciding := [figure for figure in self.figures if figure.answer == answer]:
                remedies = list(dict.fromkeys(figure.remedy for figure in deciding if figure.remedy))
                names = ", ".join(figure.name for figure in deciding)
                sentences.append(f"{what} {names}. What to do: {'; '.join(remedies)}.")
        return " ".join(sentences)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values, without any rollout's text but the reasons of failed calls."""
        return {
            "verdict": self.verdict,
            "grader": self.grader,
            "mode": self.mode,
            "groups": self.groups,
            "judged": self.judged,
            "passes": self.passes,
            "pairs": self.pairs,
            "calls": self.calls,
            "failed": self.failed,
            "failures": [{"kind": kind, "count": count, "first": first} for kind, count, first in self.failures],
            "figures": [figure.to_json() for figure in self.figures],
            "remarks": list(self.remarks),
            "loosened": dict(self.loosened),
            "because": self.because,
        }

    def __str__(self) -> str:
        name, seen = (max(len(getattr(figure, part)) for figure in self.figures) for part in ("name", "seen"))
        lines = [f"check of {self.grader} ({self.mode} mode)"]
        lines += [
            f"  {MARKS[figure.answer]}  {figure.name:<{name}}  {figure.seen:<{seen}}  {figure.rule}".rstrip()
            for figure in self.figures
        ]
        return "\n".join([*lines, *self._notes(), f"check: {self.conclusion}"])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines of `str` with colours. A narrow console shows a rule only where it was not met."""
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        colours = {"yes": "green", "no": "bold red", "not enough data": "yellow"}
        wide = options.max_width >= WIDE
        table = Table.grid(padding=(0, 2))
        for figure in self.figures:
            seen = Text(figure.seen)
            if not wide and figure.answer != "yes":
                seen.append(f"\nasked for: {figure.rule}", "dim")
            mark = Text(f"  {MARKS[figure.answer]}", colours[figure.answer])
            table.add_row(mark, Text(figure.name), seen, *([Text(figure.rule, "dim")] if wide else []))
        yield Text(f"check of {self.grader} ({self.mode} mode)", "bold")
        yield table
        for note in self._notes():
            yield Padding(Text(note.strip(), "dim"), (0, 0, 0, 2))
        yield Text(f"check: {self.conclusion}", f"bold {colours[self.verdict]}")

    def _notes(self) -> list[str]:
        notes = [f"  failed: {count} of {self.calls} calls, {kind}: {first}" for kind, count, first in self.failures]
        if self.loosened:
            rules = ", ".join(f"{name}={value:g}" for name, value in self.loosened.items())
            notes.append(f"  loosened: {rules}, because: {self.because}")
        return notes + [f"  {remark}" for remark in self.remarks]


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 6)

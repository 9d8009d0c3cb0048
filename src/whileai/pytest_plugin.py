"""A pytest plugin: `NAME.golden.yaml` beside `NAME.yaml` is collected, one test per case.

Files of that name that say neither `golden:` nor `cases:` are another tool's, and left alone.
It is active wherever whileai is installed and costs an import of this file; `-p no:whileai` turns it off.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from whileai.checks.golden import Case, GoldenFile

SUFFIX = ".golden.yaml"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> GoldenCollector | None:
    if not file_path.name.endswith(SUFFIX):
        return None
    from whileai.checks.golden import says_golden

    if not says_golden(file_path):
        return None
    collector: GoldenCollector = GoldenCollector.from_parent(parent, path=file_path)
    return collector


class BrokenCase(Exception):
    """A golden case does not hold; its text is the whole report."""


class GoldenCollector(pytest.File):
    """The cases of one golden file, for the grader whose spec stands beside it."""

    def collect(self) -> Iterator[GoldenItem]:
        from whileai.checks.golden import load_golden
        from whileai.errors import WhileaiError

        try:
            self.golden: GoldenFile = load_golden(self.path)
            self.grader: Any = self._load_grader()
        except WhileaiError as error:
            raise self.CollectError(str(error)) from None
        for case in self.golden.cases:
            item: GoldenItem = GoldenItem.from_parent(self, name=case.name, case=case)
            yield item

    def _load_grader(self) -> Any:
        from whileai.loader import load_grader

        spec = self.path.with_name(self.path.name.removesuffix(SUFFIX) + ".yaml")
        if not spec.is_file():
            raise self.CollectError(
                f"{self.path}: there is no {spec.name} beside it. Golden cases of a plain function are run by "
                "whileai.testing.assert_golden, from a file that is not called *.golden.yaml or lies outside the "
                "folders that pytest collects"
            )
        return load_grader(spec)


class GoldenItem(pytest.Item):
    """One golden case."""

    def __init__(self, *, case: Case, **options: Any) -> None:
        super().__init__(**options)
        self.case = case

    def runtest(self) -> None:
        from whileai.checks.cases import run_cases
        from whileai.checks.golden import GoldenFile
        from whileai.checks.votes import GateKnobs

        parent = self.parent
        assert isinstance(parent, GoldenCollector)
        knobs = GateKnobs(mode=getattr(parent.grader, "mode", "advantage"))
        (result,) = run_cases(parent.grader, GoldenFile(self.case.file, (self.case,)), knobs)
        if not result.ok:
            raise BrokenCase(str(result))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, BrokenCase):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        line = self.case.line
        return self.path, None if line is None else line - 1, f"{self.path.name}: {self.name}"

"""The spec and golden files under the paths of a command.

A file that is named is taken as what its name says, and golden cases come with their spec. In a folder a `.yaml` file
is a spec if it says `spec: 1` or one of our `kind:`s at its left margin, and a `.golden.yaml` file is ours if it says
`golden:` there; what else there is (a compose file, a workflow) is left alone, and counted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from whileai.checks.golden import golden_beside, says_golden
from whileai.cli.targets import GOLDEN, SPEC
from whileai.errors import Problem, SpecError
from whileai.spec.document import MAX_BYTES
from whileai.spec.library import find_shipped, shipped_names


@dataclass
class SpecFiles:
    """Paths in the order in which they were found, each once. `others`: YAML files that are neither."""

    specs: list[Path] = field(default_factory=list)
    golden: list[Path] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)


def find_spec_files(paths: Iterable[str]) -> SpecFiles:
    """Every spec and golden file that `paths` name or hold: files, folders, and names of shipped graders.

    Raises:
        SpecError: a path that does not exist, is no YAML file, or a folder without any spec or golden file.
    """
    found, problems = SpecFiles(), []
    for given in paths:
        path = Path(given)
        if path.is_dir():
            ours = [_sort_in(found, file, named=False) for file in _yaml_files(path)]
            if not any(ours):
                problems.append(_problem(given, "no spec and no golden file in this folder", "a spec says `spec: 1`"))
        elif path.is_file() and path.suffix in YAML:
            _sort_in(found, path, named=True)
        elif path.is_file():
            problems.append(_problem(given, "is no spec", "the name of a spec ends in .yaml"))
        elif ":" in path.name:
            remedy = "cases of a plain function are run by whileai.testing.assert_golden"
            problems.append(_problem(given, "is a function and no spec", remedy))
        elif given == path.stem and (shipped := find_shipped("graders", given, (SPEC,))):
            _sort_in(found, shipped, named=True)
        else:
            problems.append(_problem(given, "there is no such file or folder", _near(given)))
    if problems:
        raise SpecError(problems)
    return found


YAML = (".yaml", ".yml")

_SAYS_SPEC = re.compile(r"""^["']?(spec["']?\s*:\s*["']?\d|kind["']?\s*:\s*["']?(rules|python|llm|panel)\b)""", re.M)


def _sort_in(found: SpecFiles, path: Path, *, named: bool) -> bool:
    """Put a file where it belongs; whether it is one of ours."""
    if path.name.endswith(GOLDEN):
        kind = found.golden if named or says_golden(path) else found.others
    elif named or _says_spec(path):
        kind = found.specs
    else:
        kind = found.others
    if path.resolve() not in (other.resolve() for other in kind):
        kind.append(path)
        if kind is found.specs and (golden := golden_beside(path)).is_file():
            _sort_in(found, golden, named=True)
    return kind is not found.others


def _says_spec(path: Path) -> bool:
    with path.open("rb") as file:
        return _SAYS_SPEC.search(file.read(MAX_BYTES).decode(errors="replace")) is not None


def _yaml_files(folder: Path) -> Iterator[Path]:
    """In a fixed order, without what lies in hidden folders."""
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(at, name) for name in sorted(files) if Path(name).suffix in YAML)


def _near(given: str) -> str:
    from whileai.spec.document import nearest

    path = Path(given)
    if path.with_suffix(SPEC).is_file():
        return f"did you mean {path.with_suffix(SPEC)}?"
    if given != path.stem:
        return ""
    return nearest(given, shipped_names("graders", (SPEC,)))


def _problem(path: str, message: str, remedy: str = "") -> Problem:
    return Problem(path, None, "", message, remedy)

"""A spec read from its file, with everything that it refers to looked at and nothing of it run.

`SpecReader` serves both `lint` and `load_grader`: expressions are parsed, templates and schemas read, functions
looked at as syntax trees, other graders read the same way. All mistakes of a spec, and of what it refers to, come
in one `SpecError`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whileai.errors import Problem, SpecError
from whileai.spec.document import nearest, quoted, read_yaml
from whileai.spec.functions import check_function
from whileai.spec.models import KINDS, GraderSpec
from whileai.spec.sources import Source, Sources
from whileai.spec.validation import Mistake, validate

SUFFIXES = (".yaml",)

MAX_REFERENCES = 8
"""Graders that refer to one another in a row: fallbacks of fallbacks, members of members."""

SchemaProblems = Callable[[str, Any], Sequence[str]]
"""From the kind of verdict and an author's own reply schema to what is wrong with it."""


@dataclass(frozen=True)
class SpecFile:
    """A spec that is well formed, and the file that it stands in."""

    spec: GraderSpec
    source: Source


class SpecReader:
    """Reads specs and what they refer to.

    Args:
        sources: where files are read.
        prompt_names: gives the variables that every prompt template is given.
        schema_problems: judges an author's own reply schema.
    """

    def __init__(
        self,
        sources: Sources,
        *,
        prompt_names: Callable[[], Collection[str]],
        schema_problems: SchemaProblems,
    ) -> None:
        self.sources = sources
        self.prompt_names = prompt_names
        self.schema_problems = schema_problems
        self._read: dict[str, SpecFile] = {}
        self._open: list[str] = []

    def read(self, path: str | os.PathLike[str]) -> SpecFile:
        """The spec at a path, or the shipped one of a bare name.

        Raises:
            SpecError: every mistake of the spec and of what it refers to.
        """
        try:
            if isinstance(path, str) and path == Path(path).stem:
                source = self.sources.shipped("graders", path, SUFFIXES)
            else:
                source = self.sources.file(path)
        except Mistake as mistake:
            raise SpecError([Problem(str(path), None, "", mistake.message, mistake.remedy)]) from None
        return self._spec(source)

    def read_kept(self, key: str, shown: str) -> SpecFile:
        """The spec that travelled under `key` with a pickled grader."""
        return self._spec(self.sources.kept_file(key, shown))

    def referenced(self, reference: str, inside: Source) -> SpecFile:
        """The grader that a spec refers to: a bare name is shipped, `./x.yaml` stands beside it.

        Raises:
            Mistake: there is no such file, or references lead in a circle. SpecError: it has mistakes.
        """
        if reference.startswith("./"):
            source = self.sources.beside(inside, reference)
        else:
            source = self.sources.shipped("graders", reference, SUFFIXES)
        key = source.key
        if key in self._open:
            names = [Path(path).name for path in (*self._open[self._open.index(key) :], key)]
            raise Mistake(f"graders refer to each other in a circle: {' -> '.join(names)}", "remove one reference")
        if len(self._open) >= MAX_REFERENCES:
            raise Mistake(f"reached through {MAX_REFERENCES} graders that refer to one another", "refer to it directly")
        return self._spec(source)

    def _spec(self, source: Source) -> SpecFile:
        key = source.key
        if key not in self._read:
            self._open.append(key)
            try:
                self._read[key] = self._validated(source)
            finally:
                self._open.pop()
        return self._read[key]

    def _validated(self, source: Source) -> SpecFile:
        document = read_yaml(source.content, source.shown)
        kind = document.data.get("kind")
        model = KINDS.get(kind) if isinstance(kind, str) else None
        if model is None:
            if "kind" in document.data:
                document.add(("kind",), f"{quoted(kind)} is no kind of grader", nearest(kind, KINDS))
            elif document.data:
                document.add((), "`kind:` is missing", f"one of {', '.join(KINDS)}")
            document.check()
        assert model is not None
        spec = validate(document, model, _Around(self, source, document.data))
        document.check()
        assert spec is not None
        return SpecFile(spec, source)


class _Around:
    """What the texts of one spec are checked against; see `models.Surroundings`."""

    def __init__(self, reader: SpecReader, source: Source, data: Mapping[str | int, Any]) -> None:
        self._reader = reader
        self._source = source
        self._data = data
        self._mode = "reward" if data.get("mode") == "reward" else "advantage"
        columns = data.get("columns")
        self._columns = [c for c in columns if isinstance(c, str)] if isinstance(columns, list) else []

    def expression(self, text: str) -> None:
        from whileai.spec.expressions import allowed_names, check_expression

        check_expression(text, allowed_names(self._mode, self._columns))

    def template(self, reference: str) -> None:
        from whileai.spec.templates import prompt_template

        own = self._data.get("vars")
        names = [str(name) for name in own] if isinstance(own, dict) else []
        template = prompt_template(reference, self._source, self._reader.sources)
        template.check_names([*self._reader.prompt_names(), *self._columns, *names])

    def schema(self, reference: str) -> None:
        source, schema = read_schema(reference, self._source, self._reader.sources)
        wrong = self._reader.schema_problems(str(self._data.get("verdict")), schema)
        if wrong:
            raise Mistake(wrong[0], problems=tuple(Problem(source.shown, None, "", text) for text in wrong))

    def function(self, reference: str) -> None:
        check_function(reference, self._mode, self._source, self._reader.sources)

    def grader(self, reference: str) -> None:
        try:
            spec = self._reader.referenced(reference, self._source).spec
        except SpecError as error:
            raise Mistake(str(error), problems=tuple(error.problems)) from None
        if spec.mode != self._mode:
            raise Mistake(f"{spec.name} is written for mode: {spec.mode}", f"this spec is mode: {self._mode}")


def read_schema(reference: str, spec: Source, sources: Sources) -> tuple[Source, Any]:
    """The JSON of an author's own reply schema, a `./x.json` beside the spec, read strictly.

    Raises:
        Mistake: the file is missing or outside, or is no JSON (duplicate keys, NaN and infinity are none).
    """
    source = sources.beside(spec, reference)

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in found]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise ValueError(f"key {twice!r} stands twice in one object")
        return dict(found)

    def constant(text: str) -> Any:
        raise ValueError(f"{text} is no JSON")

    try:
        return source, json.loads(source.text, object_pairs_hook=pairs, parse_constant=constant)
    except RecursionError:
        problem = Problem(source.shown, None, "", "is nested too deeply", "write it flatter")
    except json.JSONDecodeError as error:
        problem = Problem(source.shown, error.lineno, "", f"is no JSON: {error.msg}")
    except ValueError as error:
        problem = Problem(source.shown, None, "", str(error))
    raise Mistake(problem.message, problems=(problem,))

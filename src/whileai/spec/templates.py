"""Prompt templates: sandboxed Jinja from the shipped library or from the spec's own folder.

A template's includes follow the same rule as the spec's own references: a bare name is shipped, `./part.j2` stands
beside the file that includes it. They must be written out, so that what a template can say is known, with the
variables that it needs, before anything is rendered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from jinja2 import BaseLoader, Environment, TemplateSyntaxError, meta, nodes
from jinja2.utils import Namespace

from whileai.errors import Problem
from whileai.spec.bounds import bounded_range
from whileai.spec.document import nearest
from whileai.spec.sandbox import TEMPLATE_FILTERS, Sandbox, Unfolded
from whileai.spec.sources import Source, Sources
from whileai.spec.validation import Mistake

SUFFIXES = (".j2",)


class PromptTemplate:
    """One template with everything that it includes.

    Attributes:
        needs: the variables that it and its includes use, each with the file and line of its first use.
        digest: sha256 of its text and that of its includes, newlines normalised; no file name is part of it.

    Args:
        reference: a bare name, or `./path.j2` beside `spec`.
        sources: where files are read.

    Raises:
        Mistake: a file is missing or outside, the text is no template, or an include is not written out.
    """

    def __init__(self, reference: str, spec: Source, sources: Sources) -> None:
        files = _Files(sources)
        environment = _PromptSandbox(TEMPLATE_FILTERS, loader=files, trim_blocks=True, lstrip_blocks=True)
        environment.code_generator_class = Unfolded
        environment.globals = {"range": bounded_range, "namespace": Namespace}
        source = files.find(reference, spec)
        self.shown = source.shown
        needs, self.digest = _read(source, environment, files, ())
        self.needs = {name: place for name, place in needs.items() if name not in environment.globals}
        self._template = environment.get_template(source.key)

    def render(self, values: Mapping[str, Any]) -> str:
        """The text with these values. They are never read as templates themselves.

        Raises:
            TemplateError: an undefined value was used, or a limit of the sandbox was reached.
        """
        return self._template.render(dict(values))

    def check_names(self, allowed: Collection[str]) -> None:
        """Refuse variables that nothing gives.

        Raises:
            Mistake: naming every one of them, with its line.
        """
        problems = tuple(
            Problem(file, line, "", f"nothing gives the variable {name!r}", nearest(name, allowed))
            for name, (file, line) in sorted(self.needs.items())
            if name not in allowed
        )
        if problems:
            raise Mistake(problems[0].message, problems=problems)


def prompt_template(reference: str, spec: Source, sources: Sources) -> PromptTemplate:
    """The template of a reference in a spec, compiled once for these sources. Raises as `PromptTemplate`."""
    key = (spec.key, reference)
    if key not in sources.compiled:
        sources.compiled[key] = PromptTemplate(reference, spec, sources)
    template: PromptTemplate = sources.compiled[key]
    return template


class _PromptSandbox(Sandbox):
    """A sandbox whose templates reach each other only as `_Files` found them."""

    def join_path(self, template: str, parent: str) -> str:
        return cast(_Files, self.loader).meant[parent, template]


class _Files(BaseLoader):
    """Hands Jinja the files that were found for it, by their paths, and no other."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._found: dict[str, Source] = {}
        self.meant: dict[tuple[str, str], str] = {}

    def find(self, reference: str, inside: Source) -> Source:
        """The file that a reference inside another file means."""
        if reference.startswith("./"):
            source = self._sources.beside(inside, reference)
        else:
            source = self._sources.shipped("prompts", reference, SUFFIXES)
        key = source.key
        self._found[key] = source
        self.meant[inside.key, reference] = key
        return source

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        source = self._found[template]
        return source.text, source.shown, lambda: True


Needs = dict[str, tuple[str, int]]


def _read(source: Source, environment: Sandbox, files: _Files, through: tuple[str, ...]) -> tuple[Needs, str]:
    """The variables that a template and its includes need, and the digest of all their texts."""
    key = source.key
    if key in through:
        raise Mistake(f"{source.shown} includes itself", "remove the circle")
    if len(through) >= MAX_INCLUDES:
        raise Mistake(f"{source.shown} is included {MAX_INCLUDES} levels deep", "write it flatter")
    tree, undeclared = _compiled(source, environment)
    names = list(tree.find_all(nodes.Name))
    needs: Needs = {
        name.name: (source.shown, name.lineno)
        for name in reversed(names)
        if name.ctx == "load" and name.name in undeclared
    }
    own = {name.name for name in names if name.ctx in ("store", "param")}
    digests = [hashlib.sha256(source.text.encode()).hexdigest()]
    for node in tree.find_all(_INCLUDING):
        for reference in _references(node, source):
            inner, digest = _read(files.find(reference, source), environment, files, (*through, key))
            needs = {name: place for name, place in inner.items() if name not in own} | needs
            digests.append(digest)
    return needs, digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _compiled(source: Source, environment: Sandbox) -> tuple[nodes.Template, set[str]]:
    """The syntax tree and the undeclared names of a template that compiles."""
    try:
        tree = environment.parse(source.text, source.key, source.shown)
        undeclared = meta.find_undeclared_variables(tree)
        environment.get_template(source.key)
    except TemplateSyntaxError as error:
        problem = Problem(source.shown, error.lineno, "", f"is no template: {error.message}")
    except Mistake as error:
        problem = Problem(source.shown, error.line, "", error.message, error.remedy)
    except (RecursionError, SyntaxError):  # of the generated code: Python nests 20 blocks
        problem = Problem(source.shown, None, "", "is nested too deeply", "write it flatter")
    else:
        return tree, undeclared
    raise Mistake(problem.message, problems=(problem,))


def _references(node: Any, source: Source) -> list[str]:
    """The files that one statement names: text, or a list of texts."""
    template = node.template
    options = template.items if isinstance(template, (nodes.Tuple, nodes.List)) else [template]
    names = [option.value for option in options if isinstance(option, nodes.Const)]
    if len(names) == len(options) and all(isinstance(name, str) for name in names):
        return names
    problem = Problem(source.shown, node.lineno, "", "an include is not written out", "name the file in quotes")
    raise Mistake(problem.message, problems=(problem,))


_INCLUDING = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)

MAX_INCLUDES = 8
"""Levels of includes."""

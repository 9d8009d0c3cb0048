"""`kind: python`: a function of the author's, which is a plain grader in every other respect."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from whileai.errors import Problem, SpecError
from whileai.kinds.functions import function_of, module_named, module_of
from whileai.kinds.runner import Runner
from whileai.spec.functions import ARGUMENTS, parse_function
from whileai.spec.models import PythonSpec
from whileai.spec.sources import Source, Sources


class PythonRunner(Runner):
    """The imported function of one spec.

    Raises:
        SpecError: it cannot be imported, or takes other arguments than the spec's mode gives.
    """

    def __init__(self, spec: PythonSpec, source: Source, sources: Sources) -> None:
        place = parse_function(spec.function)
        if place.file is not None:
            file = sources.beside(source, place.file)
            where, module, text = file.shown, module_of(file.path, file.content, file.shown), file.text
        else:
            where = place.module or ""
            module = module_named(where, Path.cwd())
            text = _source_of(module)
        self.name = spec.name
        self._function = function_of(module, place.name, where)
        _check_arguments(self._function, spec.mode, where)
        self.names_hacks = bool(getattr(self._function, "names_hacks", True))
        self.is_async = _gives_awaitables(self._function)
        self._digest = hashlib.sha256(f"{place.name}\n{text}".encode()).hexdigest()

    def __call__(self, *said: Any) -> Any:
        return self._function(*said)

    def parts(self) -> Mapping[str, str]:
        return {"function": self._digest}


def _check_arguments(function: Any, mode: str, where: str) -> None:
    """Refuse what cannot be called the way the mode calls graders."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built in, without a signature
        return
    arguments = ", ".join(ARGUMENTS[mode])
    try:
        signature.bind(*ARGUMENTS[mode])
    except TypeError:
        name = getattr(function, "__name__", type(function).__name__)
        message = f"{name}{signature} cannot be called as {name}({arguments})"
        raise SpecError([Problem(where, None, "", message, f"mode: {mode} gives {arguments}")]) from None


def _gives_awaitables(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


_texts: dict[str, tuple[object, str]] = {}
"""Of modules by name: the spec that they were imported by (a reload makes another) and their text at that time."""


def _source_of(module: ModuleType) -> str:
    """The text of an imported module: what runs, also where its file was edited since.

    Where there is no text, its name and version are all that is known.
    """
    spec, text = _texts.get(module.__name__, (None, ""))
    if spec is None or spec is not module.__spec__:
        try:
            text = inspect.getsource(module)
        except (OSError, TypeError):
            text = f"{module.__name__} {getattr(module, '__version__', '')}"
        _texts[module.__name__] = module.__spec__, text
    return text

"""`kind: python`: a function of the author's.

A file is executed once per content, as a module of its own that `import` cannot reach by accident: its name is
made from its path and bytes, so that an edited file is a new module, and what it defines pickles inside one
process tree. The file's folder is not put on `sys.path`; code over several files is written
`package.module:function`.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from whileai.errors import Problem, SpecError
from whileai.kinds.runner import Runner
from whileai.spec.document import nearest
from whileai.spec.functions import ARGUMENTS, parse_function
from whileai.spec.models import PythonSpec
from whileai.spec.sources import Source, Sources


class PythonRunner(Runner):
    """The imported function of one spec."""

    def __init__(self, spec: PythonSpec, source: Source, sources: Sources) -> None:
        reference = parse_function(spec.function)
        self.name = spec.name
        if reference.file is not None:
            file = sources.beside(source, reference.file)
            module, text = _module_of(file, source), file.text
        else:
            module, text = _imported(reference.module or "", source), ""
        function = getattr(module, reference.name, None)
        if not callable(function):
            functions = [name for name, value in vars(module).items() if inspect.isfunction(value)]
            where = reference.file or reference.module
            raise _refused(source, f"{where} has no function {reference.name!r}", nearest(reference.name, functions))
        _check_arguments(function, spec.mode, source)
        self._function: Callable[..., Any] = function
        self.names_hacks = bool(getattr(function, "names_hacks", True))
        self.is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - an object whose __call__ is async
        )
        text = text or _module_text(module)
        self._digest = hashlib.sha256(f"{reference.name}\n{text}".encode()).hexdigest()

    def __call__(self, *said: Any) -> Any:
        return self._function(*said)

    def parts(self) -> Mapping[str, str]:
        return {"function": self._digest}


_importing = threading.RLock()


def _module_of(file: Source, spec: Source) -> ModuleType:
    """The module that the file makes: the same one for the same bytes."""
    digest = hashlib.sha256(file.path.as_posix().encode() + b"\0" + file.content).hexdigest()
    name = f"_whileai_grader_{file.path.stem}_{digest[:16]}"
    with _importing:
        if name in sys.modules:
            return sys.modules[name]
        module = ModuleType(name)
        module.__file__ = str(file.path)
        sys.modules[name] = module  # before it runs: dataclasses and pickle look their module up
        try:
            exec(compile(file.text, str(file.path), "exec"), module.__dict__)
        except Exception as error:  # whatever the author's own code raises
            del sys.modules[name]
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file.path)]
            line = error.lineno if isinstance(error, SyntaxError) else frames[-1].lineno if frames else None
            message = f"running the file raised {type(error).__name__}: {error}"
            raise SpecError([Problem(file.shown, line, "", message)]) from error
    return module


def _imported(name: str, spec: Source) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever the author's own code raises
        message = f"importing {name!r} raised {type(error).__name__}: {error}"
        remedy = "install it, or start Python where it can be imported" if isinstance(error, ImportError) else ""
        raise _refused(spec, message, remedy) from error


def _module_text(module: ModuleType) -> str:
    """The source of an imported module; without any, its file's name and version are all that is known."""
    try:
        return inspect.getsource(module)
    except (OSError, TypeError):
        return f"{module.__name__} {getattr(module, '__version__', '')}"


def _check_arguments(function: Callable[..., Any], mode: str, spec: Source) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # built in, without a signature
        return
    try:
        signature.bind(*ARGUMENTS[mode])
    except TypeError:
        name = getattr(function, "__name__", type(function).__name__)
        arguments = ", ".join(ARGUMENTS[mode])
        raise _refused(spec, f"{name}{signature} cannot be called as {name}({arguments})", f"mode: {mode}") from None


def _refused(spec: Source, message: str, remedy: str) -> SpecError:
    return SpecError([Problem(spec.shown, None, "function", message, remedy)])

"""A grader that is a Python function, named as `./file.py:name` or `package.module:name`."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from whileai.errors import Problem, SpecError


def load_function(reference: str, folder: Path | None = None) -> Callable[..., Any]:
    """Import the function that `reference` names.

    Args:
        reference: `./file.py:name`, from `folder`, or `package.module:name`, from Python's path.
        folder: where a file's path starts; the working directory by default.

    Raises:
        SpecError: no such file, module or function, or a file that does not import; with the line where known.
    """
    source, colon, name = reference.rpartition(":")
    if not colon or not source or not name.isidentifier():
        raise _problem(reference, None, "names no function", "write ./file.py:function or package.module:function")
    module = _from_file(source, folder) if source.endswith(".py") else _from_package(source)
    found = getattr(module, name, None)
    if not callable(found):
        functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        near = difflib.get_close_matches(name, functions, 1) or functions[:1]
        what = f"has no function {name!r}" if found is None else f"{name!r} is {type(found).__name__}, no function"
        raise _problem(source, None, what, f"did you mean {near[0]!r}?" if near else "it defines none")
    return found  # type: ignore[no-any-return]


def _from_file(source: str, folder: Path | None) -> ModuleType:
    path = ((folder or Path.cwd()) / source).resolve()
    if not path.is_file():
        raise _problem(source, None, "no such file", f"looked in {(folder or Path.cwd())}")
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    name = f"whileai_function_{path.stem}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise _problem(source, None, "is no Python file", "its name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a function's module up by name
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        del sys.modules[name]
        raise _problem(source, error.lineno, f"does not parse: {error.msg}", "mend the file") from error
    except Exception as error:
        del sys.modules[name]
        line = error.__traceback__ and _last_line(error, path)
        raise _problem(
            source, line or None, f"fails when imported: {type(error).__name__}: {error}", "mend the file"
        ) from error
    return module


def _from_package(source: str) -> ModuleType:
    try:
        return importlib.import_module(source)
    except ImportError as error:
        raise _problem(source, None, f"does not import: {error}", "is it installed, or a ./file.py?") from error


def _last_line(error: BaseException, path: Path) -> int | None:
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _problem(source: str, line: int | None, message: str, remedy: str) -> SpecError:
    return SpecError([Problem(source, line, "", message, remedy)])

"""A grader that is a Python function, named as `./file.py:name` or `package.module:name`."""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from whileai.errors import Problem, SpecError

Function = Callable[..., Any]

FORMS = "./file.py:function or package.module:function"


def load_function(reference: str, folder: Path | None = None) -> Function:
    """Import the function that `reference` names.

    Args:
        reference: `./file.py:name`, from `folder`, or `package.module:name`, from Python's path and then `folder`.
        folder: where a file's path starts; the working directory by default.

    Raises:
        SpecError: no such file, module or function, or one that does not import; with the line where known.
    """
    folder = folder or Path.cwd()
    source, colon, name = reference.rpartition(":")
    if not colon or not source or not name.isidentifier():
        raise _no_function_named(reference, folder)
    if not source.endswith(".py"):
        return function_of(module_named(source, folder), name, source)
    path = (folder / source).resolve()
    if not path.is_file():
        near = difflib.get_close_matches(path.name, [file.name for file in path.parent.glob("*.py")], 1)
        remedy = f"did you mean {near[0]}?" if near else f"looked in {path.parent}"
        raise _problem(source, None, "no such file", remedy)
    return function_of(module_of(path, path.read_bytes(), source), name, source)


def function_of(module: ModuleType, name: str, where: str) -> Function:
    """What `name` is in a module that messages call `where`.

    Raises:
        SpecError: it is nothing that can be called.
    """
    found = getattr(module, name, None)
    if not callable(found):
        functions = [
            key
            for key, value in vars(module).items()
            if callable(value) and not key.startswith("_") and getattr(value, "__module__", "") == module.__name__
        ]
        what = f"has no function {name!r}" if found is None else f"{name!r} is {type(found).__name__}, no function"
        raise _problem(where, None, what, _instead(where, name, functions))
    return found  # type: ignore[no-any-return]


def module_of(path: Path, content: bytes, shown: str) -> ModuleType:
    """The module that a file's bytes make: one for each path and content, run once.

    Its name is made from both, so that an edited file is a new module and what a module defines pickles within
    its process. The file's folder is not put on `sys.path`.

    Raises:
        SpecError: it does not parse or import; the exception is its cause.
    """
    digest = hashlib.sha256(path.as_posix().encode() + b"\0" + content).hexdigest()
    name = f"whileai_function_{path.stem}_{digest[:16]}"
    with _importing:
        if name in sys.modules:
            return sys.modules[name]
        module = ModuleType(name)
        module.__file__ = str(path)
        sys.modules[name] = module  # before it runs: dataclasses and pickle look a function's module up by name
        try:
            exec(compile(content, str(path), "exec"), module.__dict__)
        except (Exception, SystemExit) as error:  # whatever the author's own code raises
            del sys.modules[name]
            raise _does_not_import(shown, path, error) from error
    return module


def module_named(source: str, folder: Path) -> ModuleType:
    """An importable module, from Python's path or, last, from `folder`.

    Raises:
        SpecError: there is none, or it does not import; the exception is its cause.
    """
    try:
        with _also_from(folder):
            return importlib.import_module(source)
    except (Exception, SystemExit) as error:  # whatever the author's own code raises
        missing = isinstance(error, ModuleNotFoundError) and error.name == source.partition(".")[0]
        if missing or source.startswith("."):
            raise _problem(source, None, "no such module", f"looked in {folder} too; a file ends in .py") from error
        raise _does_not_import(source, None, error) from error


_importing = threading.RLock()


@contextmanager
def _also_from(folder: Path) -> Iterator[None]:
    """As `python -m` does; last, so that nothing there stands in for a module that is installed."""
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _does_not_import(source: str, path: Path | None, error: BaseException) -> SpecError:
    files = traceback.extract_tb(error.__traceback__)
    own = [frame.lineno for frame in files if path is not None and frame.filename == str(path)]
    if isinstance(error, SyntaxError) and (path is None or error.filename == str(path)):
        return _problem(source, error.lineno, f"does not parse: {error.msg}", "mend the file")
    what = f"fails when imported: {type(error).__name__}: {error}"
    remedy = "mend the file"
    if isinstance(error, ModuleNotFoundError):
        remedy = "install it; a module beside the file is reached as package.module:function from its folder"
    return _problem(source, own[-1] if own else None, what, remedy)


def _no_function_named(reference: str, folder: Path) -> SpecError:
    """Somebody who forgot `:function` hears which functions the file has; nothing is run for that."""
    source = reference.rstrip(":")
    functions: list[str] = []
    with suppress(OSError, SyntaxError, ValueError):
        tree = ast.parse((folder / source).read_bytes())
        functions = [
            node.name
            for node in tree.body
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_")
        ]
    return _problem(
        reference, None, "names no function", _instead(source, functions[0] if functions else "", functions)
    )


def _instead(source: str, name: str, functions: list[str]) -> str:
    if not functions:
        return f"write {FORMS}"
    near = difflib.get_close_matches(name, functions, 1) or functions[:1]
    return f"did you mean {source}:{near[0]}?"


def _problem(source: str, line: int | None, message: str, remedy: str) -> SpecError:
    return SpecError([Problem(source, line, "", message, remedy)])

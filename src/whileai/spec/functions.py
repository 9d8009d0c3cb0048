"""References to Python functions, looked at without running them.

`./file.py:name` is read as a syntax tree: does the file parse, is there a function of that name, does it take
the arguments? `package.module:name` lies outside the spec's folder, so only its form is looked at here.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from whileai.errors import Problem
from whileai.spec.document import nearest, quoted
from whileai.spec.sources import Source, Sources
from whileai.spec.validation import Mistake

ARGUMENTS = {"advantage": ("group",), "reward": ("rollout", "rubric")}
"""What a function is called with, by the spec's mode."""


@dataclass(frozen=True)
class FunctionPlace:
    """A function by the file or the module that holds it."""

    name: str
    file: str | None = None
    module: str | None = None


def parse_function(reference: str) -> FunctionPlace:
    """`./file.py:name` or `package.module:name`, taken apart.

    Raises:
        Mistake: it is neither.
    """
    where, colon, name = reference.rpartition(":")
    if colon and name.isidentifier():
        if where.startswith("./") and where.endswith(".py"):
            return FunctionPlace(name, file=where)
        if re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", where):
            return FunctionPlace(name, module=where)
    raise Mistake(f"{quoted(reference)} names no function", "write ./file.py:name or package.module:name")


def check_function(reference: str, mode: str, spec: Source, sources: Sources) -> None:
    """Look at the function that a spec names, by its syntax tree.

    Raises:
        Mistake: the file is missing or does not parse, or the function is missing or takes other arguments.
    """
    wanted = parse_function(reference)
    if wanted.file is None:
        return
    source = sources.beside(spec, wanted.file)
    tree = _parsed(source)
    found = _top_level_names(tree)
    if wanted.name not in found:
        functions = [name for name, node in found.items() if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        raise Mistake(f"{source.shown} has no function {wanted.name!r}", nearest(wanted.name, functions))
    node = found[wanted.name]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not _takes(node.args, len(ARGUMENTS[mode])):
        arguments = ", ".join(ARGUMENTS[mode])
        message = f"{wanted.name}({ast.unparse(node.args)}) cannot be called as {wanted.name}({arguments})"
        problem = Problem(source.shown, node.lineno, wanted.name, message, f"mode: {mode} gives {arguments}")
        raise Mistake(message, problems=(problem,))


def _parsed(source: Source) -> ast.Module:
    try:
        return ast.parse(source.text)
    except SyntaxError as error:
        line = (error.text or "").strip()
        problem = Problem(
            source.shown, error.lineno, "", f"is not Python: {error.msg}", f"at {quoted(line)}" if line else ""
        )
        raise Mistake(str(error), problems=(problem,)) from None
    except (ValueError, RecursionError, MemoryError) as error:  # NUL bytes; nesting beyond the parser's stack
        raise Mistake(f"{source.shown} is not Python: {error or 'nested too deeply'}") from None


def _top_level_names(tree: ast.Module) -> dict[str, ast.stmt]:
    """Names that the module binds, in if, try and with too; the last binding counts, as at run time."""
    found: dict[str, ast.stmt] = {}
    waiting: list[ast.AST] = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).split(".")[0]: node for alias in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id: node for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        elif isinstance(node, (ast.If, ast.Try, ast.With, ast.ExceptHandler)):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))
    return found


def _takes(arguments: ast.arguments, count: int) -> bool:
    """Whether a function with these arguments can be called with `count` positional ones."""
    positional = len(arguments.posonlyargs) + len(arguments.args)
    needed = positional - len(arguments.defaults)
    keywords_needed = any(default is None for default in arguments.kw_defaults)
    return needed <= count and (positional >= count or arguments.vararg is not None) and not keywords_needed

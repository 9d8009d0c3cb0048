"""The expressions of one spec, compiled as one.

A spec's expressions become one generated function that walks over the rollouts and yields every value in turn,
so that a group costs one entry into Jinja. Names are checked against what a rollout has when the expressions are
compiled, and nothing of them runs before a group is graded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any

from jinja2 import Template, TemplateRuntimeError, Undefined, nodes

from whileai.errors import WhileaiError
from whileai.spec.document import nearest
from whileai.spec.sandbox import (
    EXPRESSION_FILTERS,
    METHODS,
    Sandbox,
    UnfoldedNative,
    check_nodes,
    parse_expression,
    walk,
)
from whileai.spec.validation import Mistake

NAMES = (
    "completion",
    "final_text",
    "messages",
    "tool_calls",
    "tool_results",
    "turns",
    "prompt",
    "reward",
    "passed",
    "index",
)
"""What an expression sees of a rollout, besides the declared columns."""

FAILURES = (TemplateRuntimeError, ArithmeticError, TypeError, ValueError, LookupError, AttributeError, RecursionError)
"""What an expression can run into."""


class ExpressionFailure(WhileaiError):
    """An expression gave no value for one rollout. `row` is the position among those that were evaluated."""

    def __init__(self, key: str, row: int, reason: str) -> None:
        super().__init__(key, row, reason)
        self.key, self.row, self.reason = key, row, reason

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}"


class Expressions:
    """Compiled expressions. `names`: what they use, in the order in which a row gives the values.

    Args:
        texts: key path and text of each expression.
        allowed: every name that they may use.

    Raises:
        Mistake: see `check_expression`.
    """

    def __init__(self, texts: Iterable[tuple[str, str]], allowed: Collection[str]) -> None:
        self.keys: list[str] = []
        trees: list[nodes.Expr] = []
        used: set[str] = set()
        for key, text in texts:
            tree = check_expression(text, allowed)
            self.keys.append(key)
            trees.append(tree)
            used |= {name.name for name in _names(tree)}
        self.names = tuple(sorted(used))
        self._template = _compiled(trees, self.names)

    def values(self, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The value of every expression for every row, row by row.

        Raises:
            ExpressionFailure: an expression failed on a row.
        """
        found: list[Any] = []
        try:
            context = self._template.new_context({_ROWS: rows})
            values: Iterable[Any] = self._template.root_render_func(context)
            for value in values:
                if isinstance(value, Undefined):
                    str(value)  # raises: what is undefined is no text
                found.append(value)
        except FAILURES as error:
            row, number = divmod(len(found), len(self.keys))
            raise ExpressionFailure(self.keys[number], row, _message(error)) from error
        return found


def allowed_names(mode: str, columns: Sequence[str]) -> tuple[str, ...]:
    """What the expressions of a spec may name."""
    return (*NAMES, *columns, *(("rubric",) if mode == "reward" else ()))


def check_expression(text: str, allowed: Collection[str]) -> nodes.Expr:
    """The syntax tree of an expression that names, filters, tests and methods are known of.

    Raises:
        Mistake: it is no expression, or uses what there is not; the nearest name is the remedy.
    """
    environment = _environment()
    tree = parse_expression(environment, text)
    check_nodes(tree, environment)
    unknown = sorted({name.name for name in _names(tree)} - set(allowed))
    if unknown:
        raise Mistake(
            f"no variable {', '.join(map(repr, unknown))}",
            "; ".join(nearest(name, allowed) for name in unknown),
        )
    for node, _ in walk(tree):
        if isinstance(node, nodes.Call):
            called = node.node.attr.removesuffix("()") if isinstance(node.node, nodes.Getattr) else None
            if called is None:
                raise Mistake("only methods can be called", "such as completion.count('x')")
            if called not in METHODS:
                raise Mistake(f"no method {called!r}", nearest(called, METHODS))
    return tree


def _names(tree: nodes.Node) -> list[nodes.Name]:
    return [node for node, _ in walk(tree) if isinstance(node, nodes.Name)]


_ROWS = "rows"


def _compiled(trees: Sequence[nodes.Expr], names: Sequence[str]) -> Template:
    """`for (a, b) in rows: yield first; yield second`, by way of Jinja's own code generator."""
    environment = _environment()
    for tree in trees:
        for name in _names(tree):
            name.name = f"v_{name.name}"  # a column may be called `loop` or `self`
    target: nodes.Expr = nodes.Tuple([nodes.Name(f"v_{name}", "store") for name in names], "store")
    if not names:
        target = nodes.Name("v_", "store")
    body: list[nodes.Node] = [nodes.Output([tree]) for tree in trees]
    loop = nodes.For(target, nodes.Name(_ROWS, "load"), body, [], None, False)
    template = nodes.Template([loop], lineno=1)
    for node in template.find_all(nodes.Node):
        node.lineno = getattr(node, "lineno", None) or 1
    template.set_environment(environment)
    return Template.from_code(environment, environment.compile(template), {})


@cache
def _environment() -> Sandbox:
    environment = Sandbox(EXPRESSION_FILTERS)
    environment.code_generator_class = UnfoldedNative
    return environment


def _message(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    return f"{type(error).__name__}: {text}" if isinstance(error, (ArithmeticError, LookupError)) else text

"""The Jinja that authors write: what a text of theirs can reach, and how much it can cost.

Everything is an allow list. Values have the methods and fields below and no other attribute; filters and tests
are the ones named here; nothing can be changed; nothing is computed at compile time. `bounds` holds the
operations that could outgrow their operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, nodes
from jinja2 import filters as jinja_filters
from jinja2 import tests as jinja_tests
from jinja2.compiler import CodeGenerator
from jinja2.environment import TemplateModule
from jinja2.nativetypes import NativeCodeGenerator
from jinja2.parser import Parser
from jinja2.runtime import LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from whileai.core.rollout import ToolCall, ToolResult
from whileai.spec.bounds import (
    OPERATORS,
    indent_text,
    join_texts,
    joined,
    kind_of,
    listing,
    replace_text,
    rounded,
    summed,
    to_json,
)
from whileai.spec.document import nearest
from whileai.spec.validation import Mistake

MAX_DEPTH = 60
"""Nesting of an expression or template; Python's own limits lie above it."""


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja with allow lists. Templates and expressions share it."""

    intercepted_binops = frozenset(OPERATORS)

    def __init__(self, filters: Iterable[str], **options: Any) -> None:
        super().__init__(undefined=StrictUndefined, optimized=False, auto_reload=False, **options)
        self.filters = {name: FILTERS[name] for name in filters}
        self.tests = {name: jinja_tests.TESTS[name] for name in TESTS}
        self.globals = {}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        check_nodes(tree, self)
        return tree

    def getattr(self, obj: Any, attribute: str) -> Any:
        """A field by its name, a method by its name and `()`: see `check_nodes`."""
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        for kind in type(obj).__mro__:
            if kind in MEMBERS:
                reach = MEMBERS[kind].get(attribute)
                return self._none_such(obj, attribute) if reach is None else reach(obj)
        name = attribute.removesuffix("()")
        if isinstance(obj, _JINJA_OBJECTS) and not name.startswith("_"):
            return super().getattr(obj, name)
        return self._none_such(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        try:
            return obj[argument]
        except (TypeError, LookupError, AttributeError):
            if isinstance(argument, str) and not argument.endswith("()"):
                return self.getattr(obj, argument)
            return self.undefined(obj=obj, name=argument)

    def call(self, _context: Any, _called: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(_called, (_BUILTIN_METHOD, partial)):
            kwargs.pop("_loop_vars", None)  # Jinja's own, for callables that take a context
            kwargs.pop("_block_vars", None)
            return _called(*args, **kwargs)
        return super().call(_context, _called, *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        return OPERATORS[operator](left, right)

    def _none_such(self, obj: Any, attribute: str) -> Undefined:
        if isinstance(obj, Undefined):
            obj._fail_with_undefined_error()
        known = list(obj) if isinstance(obj, dict) else [n for kind in type(obj).__mro__ for n in MEMBERS.get(kind, ())]
        remedy = nearest(attribute, known)
        hint = f"no {attribute!r} on {kind_of(obj)}" + (f" ({remedy})" if remedy else "")
        return self.undefined(obj=obj, name=attribute, hint=hint)


class Unfolded(CodeGenerator):
    """No constant but text is evaluated while compiling."""

    def _output_child_to_const(self, node: nodes.Expr, frame: Any, finalize: Any) -> Any:
        if not isinstance(node, nodes.TemplateData):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)


class UnfoldedNative(Unfolded, NativeCodeGenerator):
    """The same, with values that stay what they are instead of becoming text."""


def check_nodes(tree: nodes.Node, environment: Sandbox) -> None:
    """Refuse unknown filters and tests, and too much nesting, before anything is compiled.

    It also marks every attribute that is called with `()`, so that `arguments.get("path")` finds the method even
    where the mapping has a key of that name, and `arguments.get` the key.

    Raises:
        Mistake: naming every one of them with the nearest known name.
    """
    found: dict[str, str] = {}
    line: int | None = None
    for node, depth in walk(tree):
        if depth > MAX_DEPTH:
            raise Mistake(f"nested more than {MAX_DEPTH} levels deep", "write it as several terms", line=node.lineno)
        if isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
            node.node.attr = node.node.attr.removesuffix("()") + "()"
        wrong = _wrong_with(node, environment)
        if wrong and not found:
            line = node.lineno
        found |= wrong
    if found:
        raise Mistake("; ".join(found), "; ".join(filter(None, found.values())), line=line)


def _wrong_with(node: nodes.Node, environment: Sandbox) -> dict[str, str]:
    """What one node asks for that there is not, with its remedy."""
    if isinstance(node, nodes.Filter):
        if node.name not in environment.filters:
            return {f"no filter {node.name!r}": nearest(node.name, environment.filters)}
        return _unknown_argument(node, environment) if node.name in _APPLYING else {}
    if isinstance(node, nodes.Test) and node.name not in environment.tests:
        return {f"no test {node.name!r}": nearest(node.name, environment.tests)}
    if isinstance(node, nodes.Const) and isinstance(node.value, float) and not math.isfinite(node.value):
        return {"a number that is not finite": "write a smaller one"}
    return {}


_APPLYING = ("map", "select", "reject", "selectattr", "rejectattr")


def _unknown_argument(node: nodes.Filter, environment: Sandbox) -> dict[str, str]:
    """The filter that `map` applies, or the test that `select` and its kin ask, where it is written out."""
    position = 1 if node.name.endswith("attr") else 0
    if len(node.args) <= position:
        return {}
    named = node.args[position]
    known: Iterable[str] = SHRINKING if node.name == "map" else environment.tests
    what = "filter that map can apply" if node.name == "map" else "test"
    if not isinstance(named, nodes.Const) or not isinstance(named.value, str):
        return {f"the {what} of {node.name} is no plain name": "write it in quotes"}
    return {} if named.value in known else {f"no {what} {named.value!r}": nearest(named.value, known)}


def parse_expression(environment: Sandbox, source: str) -> nodes.Expr:
    """The syntax tree of one expression.

    Raises:
        Mistake: it is none, or it nests too deeply.
    """
    if len(source) > MAX_SOURCE:
        raise Mistake(f"{len(source)} characters are too long for an expression", f"at most {MAX_SOURCE}")
    if not source.strip():
        raise Mistake("an expression is empty", "such as completion.count('<tool_call>')")
    try:
        parser = Parser(environment, source, state="variable")
        tree = parser.parse_expression()
        rest = parser.stream.current
    except TemplateSyntaxError as error:
        braces = source.lstrip().startswith(("{{", "{%"))
        raise Mistake(f"is no expression: {error.message}", "write it without braces" if braces else "") from None
    except RecursionError:
        raise Mistake(f"nested more than {MAX_DEPTH} levels deep", "write it as several terms") from None
    if rest.type != "eof":
        raise Mistake(f"is no expression: {rest.value!r} is left over", "join the parts with and, or, +, ~")
    return tree


MAX_SOURCE = 2_000
"""Characters of one expression."""


def walk(tree: nodes.Node) -> Iterator[tuple[nodes.Node, int]]:
    """Every node of a tree, the root included, with its depth."""
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((child, depth + 1) for child in node.iter_child_nodes())


_PLAIN = "abs first float int last length lower max min sort string title trim upper capitalize wordcount default items"
FILTERS: dict[str, Callable[..., Any]] = {name: jinja_filters.FILTERS[name] for name in _PLAIN.split()}
FILTERS |= {
    name: listing(jinja_filters.FILTERS[name])
    for name in ("list", "map", "reject", "rejectattr", "reverse", "select", "selectattr", "unique")
}
FILTERS |= {
    "count": FILTERS["length"],
    "d": FILTERS["default"],
    "round": rounded,
    "replace": replace_text,
    "join": joined,
    "sum": summed,
}
EXPRESSION_FILTERS = tuple(FILTERS)
"""Filters of an expression; `map` applies only those of `SHRINKING`."""

FILTERS |= {name: jinja_filters.FILTERS[name] for name in ("dictsort", "groupby", "truncate")}
FILTERS |= {"tojson": to_json, "indent": indent_text}
TEMPLATE_FILTERS = tuple(FILTERS)
"""Filters of a prompt's template."""

SHRINKING = frozenset(
    [
        "abs",
        "capitalize",
        "first",
        "float",
        "int",
        "last",
        "length",
        "count",
        "lower",
        "max",
        "min",
        "string",
        "sum",
        "title",
        "trim",
        "upper",
        "wordcount",
    ]
)
"""Filters whose result is about as large as what they are given, so that they can be applied to every item."""

TESTS = frozenset(
    [
        "boolean",
        "defined",
        "divisibleby",
        "eq",
        "equalto",
        "even",
        "false",
        "float",
        "ge",
        "greaterthan",
        "gt",
        "in",
        "integer",
        "iterable",
        "le",
        "lessthan",
        "lower",
        "lt",
        "mapping",
        "ne",
        "none",
        "number",
        "odd",
        "sameas",
        "sequence",
        "string",
        "true",
        "undefined",
        "upper",
        "==",
        "!=",
        ">",
        ">=",
        "<",
        "<=",
    ]
)

_BUILTIN_METHOD = type("".count)
_Reach = Callable[[Any], Any]


def _fields(names: str) -> dict[str, _Reach]:
    return {name: attrgetter(name) for name in names.split()}


def _methods(names: str, **bounded: Callable[..., Any]) -> dict[str, _Reach]:
    """Methods of the value, and bounded functions in place of some."""
    own: dict[str, _Reach] = {f"{name}()": attrgetter(name) for name in names.split()}
    return own | {f"{name}()": partial(partial, function) for name, function in bounded.items()}


MEMBERS: dict[type, dict[str, _Reach]] = {
    str: _methods(
        "capitalize casefold count endswith find index isalnum isalpha isascii isdecimal isdigit isidentifier islower "
        "isnumeric isspace istitle isupper lower lstrip partition removeprefix removesuffix rfind rindex rpartition "
        "rsplit rstrip split splitlines startswith strip swapcase title upper",
        replace=replace_text,
        join=join_texts,
    ),
    dict: _methods("get items keys values"),
    list: _methods("count index"),
    tuple: _methods("count index"),
    ToolCall: _fields("name arguments id"),
    ToolResult: _fields("name content id"),
}
"""What an author may reach on a value, by its type: fields by name, methods with `()`."""

METHODS = frozenset(name.removesuffix("()") for members in MEMBERS.values() for name in members if name.endswith("()"))

_JINJA_OBJECTS = (LoopContext, Namespace, TemplateModule)
"""What a template's own statements make: `loop`, `namespace`, an imported template."""

"""Operations of authors' Jinja whose result can outgrow their operands, each with its limit.

One expression ends in well under a second whatever it says: a power, a product, a replacement or a joined text
that would be too large is refused before it is made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from jinja2 import Environment, pass_environment
from jinja2 import filters as jinja_filters
from jinja2.exceptions import SecurityError
from jinja2.runtime import Undefined

MAX_TEXT = 4_000_000
"""Characters that `replace`, `join` and `indent` may make where that is more than they were given."""

MAX_POWER_BITS = 1_024
"""Bits of a `**` of whole numbers: as far as a float reaches."""


def power(left: Any, right: Any) -> Any:
    _numbers("**", left, right)
    if isinstance(left, int) and isinstance(right, int) and right > 0 and left.bit_length() * right > MAX_POWER_BITS:
        raise SecurityError(f"a power of more than {MAX_POWER_BITS} bits")
    return left**right


def times(left: Any, right: Any) -> Any:
    _numbers("*", left, right)
    return left * right


def remainder(left: Any, right: Any) -> Any:
    _numbers("%", left, right)
    return left % right


def _numbers(operator: str, *operands: Any) -> None:
    for operand in operands:
        if isinstance(operand, Undefined):
            operand._fail_with_undefined_error()
        if not isinstance(operand, (int, float)):
            raise SecurityError(f"{operator} works on numbers only, not on {kind_of(operand)}")


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {"**": power, "*": times, "%": remainder}
"""The operators that are looked at before they work."""


def _within(made: int, given: int, what: str) -> None:
    if made > max(MAX_TEXT, given):
        raise SecurityError(f"{what} would make {made:,} characters")


def replace_text(text: str, old: str, new: str, count: int = -1) -> str:
    text, old, new = str(text), str(old), str(new)
    times = text.count(old) if count is None or count < 0 else min(count, text.count(old))
    _within(len(text) + times * (len(new) - len(old)), len(text), "replace")
    return text.replace(old, new, times)


def join_texts(separator: str, parts: Iterable[Any]) -> str:
    pieces = list(parts)
    texts = sum(map(len, pieces))
    _within(texts + len(separator) * len(pieces), texts, "join")
    return separator.join(pieces)


@pass_environment
def joined(environment: Environment, value: Iterable[Any], d: str = "", attribute: str | None = None) -> str:
    items = value if attribute is None else map(jinja_filters.make_attrgetter(environment, attribute), value)
    return join_texts(str(d), [str(item) for item in items])


@pass_environment
def summed(environment: Environment, value: Iterable[Any], attribute: str | None = None, start: float = 0) -> Any:
    _numbers("sum", start)
    return jinja_filters.do_sum(environment, value, attribute, start)


def rounded(value: float, precision: int = 0, method: str = "common") -> float:
    if not -15 <= precision <= 15:
        raise SecurityError(f"round to {precision} places: -15 to 15")
    return jinja_filters.do_round(value, precision, method)  # type: ignore[arg-type]


def indent_text(text: str, width: int = 4, first: bool = False, blank: bool = False) -> str:
    if not isinstance(width, int) or not 0 <= width <= 40:
        raise SecurityError(f"indent by {width!r}: 0 to 40 places")
    _within(len(text) + (text.count("\n") + 1) * width, len(text), "indent")
    return jinja_filters.do_indent(text, width, first, blank)


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON as a model reads it best: no HTML escapes, letters as they are."""
    if indent is not None and not 0 <= indent <= 8:
        raise SecurityError(f"tojson(indent={indent}): 0 to 8 places")
    return json.dumps(value, ensure_ascii=False, indent=indent)


def listing(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that yields, as one that returns a list: it has a length, and is false when it is empty."""

    def listed(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        return made if isinstance(made, str) else list(made)

    passed = getattr(function, "jinja_pass_arg", None)
    if passed is not None:
        listed.jinja_pass_arg = passed  # type: ignore[attr-defined]
    return listed


def bounded_range(*bounds: int) -> range:
    made = range(*bounds)
    if len(made) > MAX_RANGE:
        raise SecurityError(f"a range of {len(made):,} numbers: at most {MAX_RANGE:,}")
    return made


MAX_RANGE = 10_000
"""Numbers of a template's `range`."""


def kind_of(value: Any) -> str:
    names = {str: "text", dict: "a mapping", list: "a list", tuple: "a list", bool: "a boolean", type(None): "nothing"}
    return names.get(type(value)) or ("a number" if isinstance(value, (int, float)) else type(value).__name__)

"""A document read as a pydantic model, with every mistake in the author's terms.

Errors are told apart by pydantic's error types, never by their texts. A validator of ours raises `Mistake`,
which may carry a remedy, or the problems of another file (an included template, a fallback grader).
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from whileai.errors import Problem
from whileai.spec.document import Document, Path, nearest, quoted

Model = TypeVar("Model", bound=BaseModel)


class Mistake(ValueError):
    """What a validator found wrong with one value.

    `problems` are mistakes of another file, which stand as they are; `line` is the one inside a text of many.
    """

    def __init__(
        self, message: str, remedy: str = "", *, problems: tuple[Problem, ...] = (), line: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.problems = problems
        self.line = line


def validate(document: Document, model: type[Model], context: Any = None) -> Model | None:
    """The document as `model`, or None and its mistakes in `document.problems`.

    A place that the reading of the file has already complained about is not complained about twice.
    """
    try:
        return model.model_validate(document.data, context=context)
    except ValidationError as found:
        for error in found.errors(include_url=False):
            path = _known_path(document.data, error["loc"], error["type"])
            if any(path[:length] in document.reported for length in range(1, len(path) + 1)):
                continue
            cause = error.get("ctx", {}).get("error")
            if isinstance(cause, Mistake) and cause.problems:
                document.problems.extend(cause.problems)
            elif isinstance(cause, Mistake):
                document.add(path, cause.message, cause.remedy)
            else:
                document.add(path, *_explained(error, model))
    return None


def _explained(error: Mapping[str, Any], model: type[BaseModel]) -> tuple[str, str]:
    """Message and remedy of one pydantic error."""
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    at = _annotation(model, error["loc"])
    if kind == "missing":
        choices = _literals(at)
        return "is required", f"write {' or '.join(choices)}" if choices else ""
    if kind == "extra_forbidden":
        parent = _annotation(model, error["loc"][:-1])
        return "unknown key", nearest(error["loc"][-1], _keys(parent))
    if kind == "literal_error":
        return f"{quoted(value)} is not known here", nearest(value, _literals(at))
    if kind in _EXPECTED:
        remedy = "quote it" if kind == "string_type" and isinstance(value, (bool, int, float)) else ""
        return f"{_described(value)}, not {_EXPECTED[kind]}", remedy
    for bound, words in _BOUNDS.items():
        if kind in bound:
            return words.format(value=quoted(value), **context), ""
    return f"{quoted(value)}: {error['msg']}", ""


_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys",
    "model_type": "a mapping of keys",
    "model_attributes_type": "a mapping of keys",
    "finite_number": "a finite number",
}

_BOUNDS = {
    ("greater_than",): "{value} must be above {gt}",
    ("greater_than_equal",): "{value} must be at least {ge}",
    ("less_than",): "{value} must be below {lt}",
    ("less_than_equal",): "{value} must be at most {le}",
    ("too_short", "string_too_short"): "{value} is too short: at least {min_length}",
    ("too_long", "string_too_long"): "{value} is too long: at most {max_length}",
}


def _described(value: object) -> str:
    names = {dict: "a mapping", list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}
    return "is empty" if value is None else f"{quoted(value)} is {names.get(type(value), type(value).__name__)}"


def _known_path(data: Any, loc: tuple[int | str, ...], kind: str) -> Path:
    """The part of a pydantic location that the document has; a missing key keeps its last part."""
    path: list[str | int] = []
    for part in loc:
        inside = (isinstance(data, dict) and part in data) or (
            isinstance(data, list) and isinstance(part, int) and part < len(data)
        )
        if not inside:
            if isinstance(data, dict) and isinstance(part, str) and not part.startswith("["):
                path.append(part)
            break
        path.append(part)
        data = data[part]
    return tuple(path)


def _annotation(model: Any, loc: tuple[int | str, ...]) -> Any:
    """The annotation at a location under a model."""
    at: Any = model
    for part in loc:
        at = _bare(at)
        if isinstance(at, type) and issubclass(at, BaseModel):
            fields = at.model_fields
            found = next((field for name, field in fields.items() if part in (name, field.alias)), None)
            at = found.annotation if found else None
        elif get_origin(at) in (list, tuple):
            at = get_args(at)[0]
        elif get_origin(at) is dict:
            at = get_args(at)[1]
    return _bare(at)


def _bare(annotation: Any) -> Any:
    """Without Annotated and Optional."""
    while get_origin(annotation) in (Annotated, Union, types.UnionType):
        options = [option for option in get_args(annotation) if option is not type(None)]
        annotation = options[0]
    return annotation


def _keys(model: Any) -> list[str]:
    if isinstance(model, type) and issubclass(model, BaseModel):
        return [field.alias or name for name, field in model.model_fields.items()]
    return []


def _literals(annotation: Any) -> list[str]:
    return [str(option) for option in get_args(annotation)] if get_origin(annotation) is Literal else []

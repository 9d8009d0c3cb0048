"""The JSON Schema of a judge's reply, narrowed to the group at hand.

A schema file says `{"propertyNames": {"$ref": "#/$defs/label"}, "additionalProperties": ...}` for an object that is
keyed by candidate. Narrowing makes of it one required key per label, so that the provider itself enforces that
every candidate is judged (an array cannot). What depends on the group is the number of candidates only: a schema
that changed on every call would defeat the vendors' caches.

An author's own schema may add fields to the shipped one of its verdict, keyed by candidate or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jsonschema
import referencing
import referencing.exceptions

from whileai.errors import ConfigError
from whileai.judging.labels import labels

VERDICT_FIELDS: Mapping[str, tuple[str, ...]] = {
    "ranking": ("ranking",),
    "factors": ("factors",),
    "tiers": ("scores",),
    "hacks": ("hacks",),
    "scores": ("solution", "behavior"),
    "rubric": ("solution", "behavior"),
}
"""The fields of a reply that become the verdict, by kind of verdict."""

RESERVED = frozenset(
    {"ranking", "factors", "hacks", "solution", "behavior"}  # what is read
    | {"judge", "panel", "link", "failed", "skipped", "marked", "rescued"}  # what is said of how it came about
)
"""Names in a verdict that an author's own fields cannot have: what they say would be taken for the verdict."""

UNSUPPORTED = (
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "dependentRequired",
    "dependentSchemas",
)
"""Keywords that the vendors' strict modes refuse."""

_BY_LABEL = {"$ref": "#/$defs/label"}


def reply_schema(schema: Mapping[str, Any], count: int, hack_kinds: Sequence[str] = ()) -> dict[str, Any]:
    """`schema` narrowed to `count` candidates and to `hack_kinds`; without kinds a reply names no hacks.

    Every object forbids further properties and requires those that it has, as strict modes demand.

    Raises:
        ConfigError: a schema of hacks alone, and no kinds of them.
    """
    narrowed: dict[str, Any] = _narrowed(
        {key: value for key, value in schema.items() if key not in _ROOT_ONLY}, labels(count)
    )
    definitions: dict[str, Any] = narrowed.get("$defs", {})
    for name, values in (
        ("label", list(labels(count))),
        ("rank", list(range(1, count + 1))),
        ("kind", list(hack_kinds)),
    ):
        if name in definitions:
            described = {key: value for key, value in definitions[name].items() if key in ("type", "description")}
            definitions[name] = {**described, "enum": values}
    if not hack_kinds and "hacks" in narrowed["properties"]:
        del narrowed["properties"]["hacks"]
        if not narrowed["properties"]:
            raise ConfigError("verdict: hacks needs the kinds of hacks to look for: hacks: {kinds: [...]}")
        narrowed["required"] = list(narrowed["properties"])
    return _without_unused_definitions(narrowed)


def with_own_fields(shipped: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """The shipped schema of a verdict with the fields that an author's own schema adds, in the author's order.

    Call `own_schema_problems` first.
    """
    definitions = {**own.get("$defs", {}), **shipped.get("$defs", {})}
    fields = {**own.get("properties", {}), **shipped["properties"]}
    described = {"description": own["description"]} if "description" in own else {}
    return {**shipped, **described, "properties": fields, "required": list(fields), "$defs": definitions}


def own_schema_problems(shipped: Mapping[str, Any], own: object) -> list[str]:
    """What keeps an author's own schema from being used with the shipped one; empty if nothing does."""
    if not isinstance(own, Mapping) or own.get("type") != "object" or not isinstance(own.get("properties"), Mapping):
        return ["a reply is an object: give `type: object` and `properties`"]
    try:
        jsonschema.Draft202012Validator.check_schema(own)
    except jsonschema.SchemaError as error:
        return [f"{error.json_path}: no JSON Schema: {error.message}"]
    problems = [
        f"properties: {name!r} is what the verdict itself says; give the field another name"
        for name in own["properties"]
        if name in RESERVED and name not in shipped["properties"]
    ]
    problems += [
        f"{place}: {name!r} has another meaning in the shipped schema; give it another name, or copy it unchanged"
        for place, own_part, shipped_part in (
            ("properties", own["properties"], shipped["properties"]),
            ("$defs", own.get("$defs", {}), shipped.get("$defs", {})),
        )
        for name in own_part
        if name in shipped_part and own_part[name] != shipped_part[name]
    ]
    definitions = {**own.get("$defs", {}), **shipped.get("$defs", {})}
    for path, node in _nodes(own, "$"):
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.removeprefix("#/$defs/") not in definitions:
            problems.append(f"{path}: $ref {reference!r} is none of #/$defs/{', #/$defs/'.join(sorted(definitions))}")
        problems += [
            f"{path}: strict modes of the vendors refuse {keyword!r}" for keyword in UNSUPPORTED if keyword in node
        ]
        if node.get("type") == "object" and "properties" not in node and node.get("propertyNames") != _BY_LABEL:
            problems.append(f'{path}: name its properties, or key it by candidate: "propertyNames": {_BY_LABEL}')
    return problems


def validator(narrowed: Mapping[str, Any]) -> jsonschema.Draft202012Validator:
    """A validator of replies that fetches nothing."""
    return jsonschema.Draft202012Validator(narrowed, registry=referencing.Registry())


_ROOT_ONLY = ("$schema", "$id", "title")


def _narrowed(node: Any, names: Sequence[str]) -> Any:
    if isinstance(node, list):
        return [_narrowed(item, names) for item in node]
    if not isinstance(node, Mapping):
        return node
    result = {key: _narrowed(value, names) for key, value in node.items()}
    if result.get("propertyNames") == _BY_LABEL:
        del result["propertyNames"]
        value = result.pop("additionalProperties")
        result["properties"] = dict.fromkeys(names, value)
    if result.get("type") == "object" and "properties" in result:
        result |= {"required": list(result["properties"]), "additionalProperties": False}
    return result


def _without_unused_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = schema.get("$defs", {})
    used: set[str] = set()
    waiting: list[Any] = [{key: value for key, value in schema.items() if key != "$defs"}]
    while waiting:
        for _, node in _nodes(waiting.pop(), "$"):
            name = str(node.get("$ref", "")).removeprefix("#/$defs/")
            if name in definitions and name not in used:
                used.add(name)
                waiting.append(definitions[name])
    kept = {name: definition for name, definition in definitions.items() if name in used}
    return {**{key: value for key, value in schema.items() if key != "$defs"}, **({"$defs": kept} if kept else {})}


def _nodes(node: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every object inside a schema, with its path."""
    if isinstance(node, Mapping):
        yield path, node
        for key, value in node.items():
            yield from _nodes(value, f"{path}.{key}")
    elif isinstance(node, list):
        for number, item in enumerate(node):
            yield from _nodes(item, f"{path}[{number}]")

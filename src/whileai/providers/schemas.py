"""The part of a JSON Schema that a vendor enforces. The full schema is validated locally, whatever was
sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_COMPOSITION = frozenset(
    (
        *("allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas"),
        *("patternProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems"),
        *("contains", "minContains", "maxContains", "minProperties", "maxProperties"),
    )
)
OPENAI_UNSUPPORTED = _COMPOSITION | {"uniqueItems"}
"""Keywords that strict mode refuses; `minimum`, `minItems` and their like are enforced."""

ANTHROPIC_UNSUPPORTED = _COMPOSITION | {
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "maxItems", "uniqueItems"),
}

_ANNOTATIONS = frozenset(("$schema", "$id", "$comment", "examples"))
_SCHEMA_MAPS = ("properties", "$defs", "definitions")
_SCHEMA_LISTS = ("anyOf", "prefixItems")
_SCHEMAS = ("items", "additionalItems")


def openai_schema(schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool] | None:
    """The schema for `response_format`, and whether strict mode can take it; None if it cannot be
    expressed."""
    reduced = _reduce(schema, OPENAI_UNSUPPORTED)
    if reduced is None or reduced.get("type") != "object":
        return None
    return reduced, _every_key_required(reduced)


def anthropic_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The schema for `output_config.format`; None if it cannot be expressed there."""
    reduced = _reduce(schema, ANTHROPIC_UNSUPPORTED)
    if reduced is None or reduced.get("type") != "object":
        return None
    for part in _objects(reduced):
        if part.get("minItems", 0) > 1:
            part["minItems"] = 1
    return reduced


def schema_instruction(schema: Mapping[str, Any]) -> str:
    """What the system text says instead, where the endpoint does not enforce a schema."""
    return f"Reply with one JSON object and nothing else. It must match this JSON Schema:\n{json.dumps(schema)}"


def _reduce(schema: Any, unsupported: frozenset[str]) -> dict[str, Any] | None:
    """A copy without the unsupported keywords, every object closed; None if an object has free keys."""
    if not isinstance(schema, Mapping):
        return None  # true and false are schemas too, and neither vendor takes them
    kept = {key: value for key, value in schema.items() if key not in unsupported | _ANNOTATIONS}
    if "oneOf" in kept:  # weaker, and what both vendors take
        kept["anyOf"] = [*kept.get("anyOf", ()), *kept.pop("oneOf")]
    for key in _SCHEMA_MAPS:
        if key in kept:
            parts = {name: _reduce(part, unsupported) for name, part in kept[key].items()}
            if None in parts.values():
                return None
            kept[key] = parts
    for key in _SCHEMA_LISTS:
        if key in kept:
            listed = [_reduce(part, unsupported) for part in kept[key]]
            if None in listed:
                return None
            kept[key] = listed
    for key in _SCHEMAS:
        if key in kept:
            kept[key] = _reduce(kept[key], unsupported)
            if kept[key] is None:
                return None
    if kept.get("type") == "object" or "properties" in kept:
        if kept.get("additionalProperties") or not kept.get("properties"):
            return None
        kept["additionalProperties"] = False
    return kept


def _every_key_required(schema: dict[str, Any]) -> bool:
    return all(
        set(part.get("required", ())) == set(part["properties"]) for part in _objects(schema) if "properties" in part
    )


def _objects(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schema and every schema inside it."""
    inner = [part for key in _SCHEMA_MAPS for part in schema.get(key, {}).values()]
    inner += [part for key in _SCHEMA_LISTS for part in schema.get(key, ())]
    inner += [schema[key] for key in _SCHEMAS if key in schema]
    return [schema, *(nested for part in inner for nested in _objects(part))]

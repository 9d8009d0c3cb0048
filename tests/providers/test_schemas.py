from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.judging.schemas import VERDICT_FIELDS, reply_schema
from whileai.providers.schemas import ANTHROPIC_UNSUPPORTED, OPENAI_UNSUPPORTED, anthropic_schema, openai_schema
from whileai.spec.library import library_folder

FULL: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "score": {"type": "number", "minimum": 0, "exclusiveMaximum": 2, "multipleOf": 0.5},
        "minimum": {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^[a-z]*$"},
        "list": {"type": "array", "items": {"$ref": "#/$defs/rank"}, "minItems": 3, "maxItems": 3, "uniqueItems": True},
        "either": {"oneOf": [{"type": "string", "not": {"const": "x"}}, {"type": "null"}]},
    },
    "required": ["score", "minimum", "list", "either"],
    "$defs": {"rank": {"type": "integer", "enum": [1, 2, 3], "minimum": 1}},
    "if": {"properties": {"score": {"const": 1}}},
    "then": {"required": ["list"]},
}


def keywords(schema: Any, inside_map: bool = False) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(keywords, schema))
    if not isinstance(schema, dict):
        return set()
    own = set() if inside_map else set(schema)
    return own.union(*(keywords(v, not inside_map and k in ("properties", "$defs")) for k, v in schema.items()))


def test_anthropic_gets_no_keyword_that_it_does_not_know() -> None:
    schema = anthropic_schema(FULL)
    assert schema is not None
    assert not keywords(schema) & ANTHROPIC_UNSUPPORTED
    assert set(schema["properties"]) == set(FULL["properties"])  # a property may be called like a keyword
    assert schema["properties"]["list"]["minItems"] == 1
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["rank"] == {"type": "integer", "enum": [1, 2, 3]}


def test_openai_keeps_what_strict_mode_enforces() -> None:
    form = openai_schema(FULL)
    assert form is not None
    schema, strict = form
    assert strict
    assert not keywords(schema) & OPENAI_UNSUPPORTED
    assert schema["properties"]["score"]["minimum"] == 0
    assert schema["properties"]["list"]["maxItems"] == 3
    assert schema["properties"]["either"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}


def test_strict_is_not_claimed_where_a_key_is_optional() -> None:
    form = openai_schema({**FULL, "required": ["score"]})
    assert form is not None
    assert form[1] is False


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"type": "object"},
        {"type": "object", "properties": {"free": {"type": "object", "additionalProperties": {"type": "number"}}}},
        {"type": "object", "properties": {"any": True}},
        {"type": "object", "properties": {"list": {"type": "array", "items": True}}},
        {"type": "object", "properties": {"x": {"anyOf": [True, {"type": "null"}]}}},
    ],
)
def test_what_a_vendor_cannot_express_is_left_to_the_prompt(schema: dict[str, Any]) -> None:
    assert openai_schema(schema) is None
    assert anthropic_schema(schema) is None


def test_the_given_schema_is_not_changed() -> None:
    before = json.dumps(FULL)
    openai_schema(FULL)
    anthropic_schema(FULL)
    assert json.dumps(FULL) == before


@pytest.mark.parametrize("verdict", VERDICT_FIELDS)
def test_the_shipped_schemas_are_strict_once_narrowed(verdict: str) -> None:
    shipped = json.loads((library_folder("schemas") / f"{verdict}.json").read_text(encoding="utf-8"))
    narrowed = reply_schema(shipped, 4, ("leaked_answer",))
    form = openai_schema(narrowed)
    assert form is not None
    assert form[1]
    assert anthropic_schema(narrowed) is not None


@given(
    st.fixed_dictionaries(
        {
            "score": st.sampled_from([0, 0.5, 1, 1.5, 2, -1, 0.3, "x"]),
            "minimum": st.sampled_from(["", "a", "abc", "ABC", "abcdefghij", 3]),
            "list": st.lists(st.sampled_from([1, 2, 3, 4]), max_size=4),
            "either": st.sampled_from(["x", "y", None, 1]),
        }
    )
)
def test_what_fits_the_full_schema_fits_the_reduced_ones(value: dict[str, Any]) -> None:
    form = openai_schema(FULL)
    assert form is not None
    if jsonschema.Draft202012Validator(FULL).is_valid(value):
        for reduced in (form[0], anthropic_schema(FULL)):
            assert reduced is not None
            assert jsonschema.Draft202012Validator(reduced).is_valid(value)

import copy
import json
from typing import Any

import anthropic
import jsonschema
import pytest
from openai.lib._pydantic import _ensure_strict_json_schema

from whileai.errors import ConfigError
from whileai.judging.schemas import VERDICT_FIELDS, own_schema_problems, reply_schema, validator, with_own_fields

KINDS = ("leaked_answer", "test_tampering")


def test_a_ranking_has_one_required_key_per_label_and_one_enum_for_all(schema):
    narrowed = reply_schema(schema("ranking"), 3, KINDS)
    ranking = narrowed["properties"]["ranking"]
    assert ranking["properties"] == {label: {"$ref": "#/$defs/rank"} for label in "ABC"}
    assert ranking["required"] == ["A", "B", "C"] and ranking["additionalProperties"] is False
    assert narrowed["$defs"]["rank"]["enum"] == [1, 2, 3]
    assert narrowed["$defs"]["label"]["enum"] == ["A", "B", "C"]
    assert narrowed["$defs"]["kind"]["enum"] == list(KINDS)


@pytest.mark.parametrize("verdict", sorted(VERDICT_FIELDS))
def test_shipped_schemas_are_schemas_before_and_after_narrowing(schema, verdict: str):
    given = schema(verdict)
    unchanged = copy.deepcopy(given)
    jsonschema.Draft202012Validator.check_schema(given)
    narrowed = reply_schema(given, 2, KINDS)
    jsonschema.Draft202012Validator.check_schema(narrowed)
    assert given == unchanged
    assert set(VERDICT_FIELDS[verdict]) <= set(narrowed["required"])
    assert own_schema_problems(given, given) == []


@pytest.mark.parametrize("count", [1, 2, 27])
@pytest.mark.parametrize("verdict", sorted(VERDICT_FIELDS))
def test_narrowed_schemas_pass_the_strict_transforms_of_both_vendors(schema, verdict: str, count: int):
    narrowed = reply_schema(schema(verdict), count, KINDS)
    strict = _ensure_strict_json_schema(copy.deepcopy(narrowed), path=(), root=copy.deepcopy(narrowed))
    assert strict == narrowed
    reduced = anthropic.transform_schema(copy.deepcopy(narrowed))
    for name, part in narrowed["properties"].items():
        if part.get("properties"):
            assert list(reduced["properties"][name]["properties"]) == list(part["properties"])
            assert reduced["properties"][name]["required"] == part["required"]
    assert reduced.get("$defs", {}).get("rank", {}).get("enum") == narrowed.get("$defs", {}).get("rank", {}).get("enum")


def test_every_object_is_closed_and_requires_all_it_has(schema):
    def objects(node: Any) -> list[dict[str, Any]]:
        if isinstance(node, dict):
            return ([node] if node.get("type") == "object" else []) + [o for v in node.values() for o in objects(v)]
        return [o for item in node for o in objects(item)] if isinstance(node, list) else []

    for verdict in VERDICT_FIELDS:
        for found in objects(reply_schema(schema(verdict), 3, KINDS)):
            assert found["additionalProperties"] is False
            assert found["required"] == list(found["properties"])


def test_without_kinds_a_reply_names_no_hacks(schema):
    narrowed = reply_schema(schema("ranking"), 2)
    assert list(narrowed["properties"]) == ["rationale", "ranking"]
    assert list(narrowed["$defs"]) == ["rank"]
    with pytest.raises(ConfigError, match="kinds"):
        reply_schema(schema("hacks"), 2)


def test_the_schema_depends_on_the_number_of_candidates_alone(schema):
    assert json.dumps(reply_schema(schema("tiers"), 4, KINDS)) == json.dumps(reply_schema(schema("tiers"), 4, KINDS))


def test_an_author_adds_fields_keyed_by_candidate_or_not(schema):
    own = {
        "type": "object",
        "properties": {
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
            "notes": {
                "type": "object",
                "propertyNames": {"$ref": "#/$defs/label"},
                "additionalProperties": {"$ref": "#/$defs/note"},
            },
        },
        "$defs": {"note": {"type": "string"}},
    }
    assert own_schema_problems(schema("ranking"), own) == []
    narrowed = reply_schema(with_own_fields(schema("ranking"), own), 2)
    assert narrowed["required"] == ["confidence", "notes", "rationale", "ranking"]
    reply = {"confidence": 0.5, "notes": {"A": "x", "B": "y"}, "rationale": "", "ranking": {"A": 1, "B": 1}}
    assert list(validator(narrowed).iter_errors(reply)) == []
    assert list(validator(narrowed).iter_errors(reply | {"notes": {"A": "x"}}))


@pytest.mark.parametrize(
    ("own", "problem"),
    [
        ([], "a reply is an object"),
        ({"type": "array", "items": {}}, "a reply is an object"),
        ({"type": "object", "properties": {"x": {"type": "txt"}}}, "no JSON Schema"),
        ({"type": "object", "properties": {"ranking": {"type": "array"}}}, "'ranking' has another meaning"),
        ({"type": "object", "properties": {"x": {"$ref": "http://example.com/x"}}}, "$ref 'http://example.com/x'"),
        ({"type": "object", "properties": {"x": {"allOf": [{"type": "string"}]}}}, "refuse 'allOf'"),
        ({"type": "object", "properties": {"x": {"type": "object"}}}, "name its properties"),
        ({"type": "object", "properties": {}, "$defs": {"rank": {"type": "string"}}}, "'rank' has another meaning"),
    ],
)
def test_what_an_own_schema_cannot_do_is_named(schema, own: Any, problem: str):
    (found,) = own_schema_problems(schema("ranking"), own)
    assert problem in found

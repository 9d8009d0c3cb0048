"""`schemas/grader.schema.json` and `schemas/golden.schema.json` are what the models say.

`python tests/spec/test_json_schema.py` writes both anew.
"""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from whileai.checks.golden import GoldenModel
from whileai.spec.json_schema import grader_schema, model_schema
from whileai.spec.library import library_folder

SCHEMAS = {
    "grader.schema.json": grader_schema,
    "golden.schema.json": lambda: model_schema(GoldenModel, "golden"),
}


def text_of(name: str) -> str:
    return json.dumps(SCHEMAS[name](), indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_shipped_schema_is_current(name: str):
    assert (library_folder("schemas") / name).read_text(encoding="utf-8") == text_of(name)


def test_every_shipped_spec_is_valid_under_it():
    checker = jsonschema.Draft202012Validator(grader_schema())
    paths = [path for path in library_folder("graders").glob("*.yaml") if ".golden" not in path.name]
    assert paths
    for path in paths:
        assert not list(checker.iter_errors(yaml.safe_load(path.read_text())))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"spec": 1, "name": "x", "kind": "rule"},
        {"spec": 2, "name": "x", "kind": "rules"},
        {"spec": 1, "name": "x", "kind": "rules", "rnak": []},
        {"spec": 1, "name": "x", "kind": "python"},
        {"spec": 1, "name": "x", "kind": "llm", "verdict": "ranking", "model": 3, "prompt": {"user": "x"}},
    ],
)
def test_an_editor_sees_what_is_wrong(spec: dict):
    assert not jsonschema.Draft202012Validator(grader_schema()).is_valid(spec)


@pytest.mark.parametrize("model", ["judge", ["judge", "openai:x"]])
def test_the_short_forms_are_valid(model):
    spec = {"spec": 1, "name": "x", "kind": "llm", "verdict": "ranking", "model": model, "prompt": {"user": "x"}}
    panel = {"spec": 1, "name": "x", "kind": "panel", "members": ["a", {"grader": "b", "model": "judge"}]}
    for good in (spec, panel):
        assert jsonschema.Draft202012Validator(grader_schema()).is_valid(good)


if __name__ == "__main__":
    for file in SCHEMAS:
        (Path(library_folder("schemas")) / file).write_text(text_of(file), encoding="utf-8")

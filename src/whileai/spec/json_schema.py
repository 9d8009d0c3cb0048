"""JSON Schemas of what authors write, out of the models that read it: an editor and the reader cannot differ."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from whileai.spec.models import KINDS

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def grader_schema() -> dict[str, Any]:
    """The schema of a spec, `NAME.yaml`: one form for each kind."""
    references, schema = models_json_schema(
        [(model, "validation") for model in KINDS.values()], schema_generator=_Untitled
    )
    return {
        "$schema": DRAFT,
        "title": "grader",
        "description": "A grader's spec.",
        "type": "object",
        "properties": {"kind": {"enum": list(KINDS)}},
        "required": ["kind"],
        "oneOf": [references[model, "validation"] for model in KINDS.values()],
        **schema,
    }


def model_schema(model: type[BaseModel], title: str) -> dict[str, Any]:
    """The schema of one model's files."""
    return {"$schema": DRAFT, **model.model_json_schema(schema_generator=_Untitled), "title": title}


class _Untitled(GenerateJsonSchema):
    """Without titles of fields: editors would show `Min Groups` beside `min_groups`."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

"""What of a spec decides verdicts, as named digests.

Behaviour only: no path, host, key, price, timeout, retry or budget is part of it, nor the thresholds of the check
or the fallbacks, which are links of their own. Comments, layout and line endings change nothing either.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from whileai.spec.models import GraderSpec, LlmSpec
from whileai.spec.reading import SpecFile, read_schema
from whileai.spec.sources import Sources
from whileai.spec.templates import prompt_template

NOT_BEHAVIOUR = frozenset({"spec", "name", "check", "fallback", "retry", "timeouts", "budget"})
"""Fields that decide what a verdict costs or what is asked of it, and not what it says."""

PARTS_OF_THEIR_OWN = frozenset({"function", "model", "prompt", "reply_schema", "transcript", "members"})
"""Fields whose content, and not their text, has a digest of its own."""


def spec_parts(file: SpecFile, sources: Sources) -> dict[str, str]:
    """Digests by name: `spec`, and for llm `templates`, `schemas` and `transcript`."""
    spec = file.spec
    parts = {"spec": digest(_behaviour(spec))}
    if isinstance(spec, LlmSpec):
        references = [spec.prompt.system, spec.prompt.user]
        texts = [prompt_template(name, file.source, sources).digest if name else None for name in references]
        schemas = [json.loads(sources.shipped("schemas", spec.verdict, (".json",)).text)]
        if spec.reply_schema is not None:
            schemas.append(read_schema(spec.reply_schema, file.source, sources)[1])
        parts |= {
            "templates": digest(texts),
            "schemas": digest(schemas),
            "transcript": digest(spec.transcript.model_dump(mode="json")),
        }
    return parts


def digest(value: Any) -> str:
    """sha256 of JSON-like data, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _behaviour(spec: GraderSpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", exclude=set(NOT_BEHAVIOUR | PARTS_OF_THEIR_OWN))

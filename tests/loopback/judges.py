"""Models that judge: behaviours of the loopback server that read a prompt and reply with a verdict.

    server.default = judge(lambda shown: quality(shown.text))        # ranks, factors, tiers, hacks, scores: as asked

What a reply needs is read from the schema in the system message, as a model would.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from loopback.server import Answer, Behaviour, Request, says

FENCED = re.compile(r'^<rollout-(\w{12}) label="([A-Z]+)">\n(.*?)\n</rollout-\1>$', re.MULTILINE | re.DOTALL)


class Shown(NamedTuple):
    """One candidate as the prompt shows it. `place` counts from 0 of `size` candidates."""

    label: str
    text: str
    place: int
    size: int


def candidates(request: Request) -> list[Shown]:
    """The candidates of a prompt in shown order."""
    found = FENCED.findall(request.turns[0][1])
    return [Shown(label, text, place, len(found)) for place, (_, label, text) in enumerate(found)]


def schema_of(request: Request) -> dict[str, Any]:
    """The JSON Schema that the system message asks for."""
    text = request.body.get("system") or request.body["messages"][0]["content"]
    return json.loads(text[text.rindex('\n{"') :])


def judge(
    score: Callable[[Shown], float], hacks: Callable[[Shown], Sequence[str]] = lambda shown: (), **how: Any
) -> Behaviour:
    """A model that likes a candidate the more, the higher it scores.

    Args:
        score: ranked, best first and equal ones tied; 0 to 1 where the reply wants factors or scores.
        hacks: the evidence of hacks in a candidate.
        how: fields of `Answer`.
    """

    def behave(request: Request) -> Answer:
        return says(json.dumps(verdict(request, score, hacks)), **how)(request)

    return behave


def verdict(request: Request, score: Callable[[Shown], float], hacks: Callable[[Shown], Sequence[str]]) -> Any:
    """What such a model replies."""
    shown, fields, reply = candidates(request), schema_of(request)["properties"], {}
    scores = {candidate.label: score(candidate) for candidate in shown}
    levels = sorted(set(scores.values()), reverse=True)
    for name, of in fields.items():
        if name == "ranking":
            reply[name] = {label: levels.index(value) + 1 for label, value in scores.items()}
        elif name == "factors":
            reply[name] = scores
        elif name == "scores":
            reply[name] = {label: _criteria(value) for label, value in scores.items()}
        elif name == "hacks":
            kind = schema_of(request)["$defs"]["kind"]["enum"][0]
            reply[name] = [
                {"candidate": candidate.label, "kind": kind, "evidence": evidence}
                for candidate in shown
                for evidence in hacks(candidate)
            ]
        elif name in ("solution", "behavior"):
            written = ["It looks the order up.", "It says what it did."]
            reply[name] = written if of.get("type") == "array" else next(iter(scores.values()))
        else:
            reply[name] = filled(of, schema_of(request).get("$defs", {}))
    return reply


def filled(schema: dict[str, Any], definitions: dict[str, Any]) -> Any:
    """The plainest value that fits a schema."""
    schema = definitions[schema["$ref"].removeprefix("#/$defs/")] if "$ref" in schema else schema
    if "enum" in schema:
        return schema["enum"][0]
    plainest = {"string": "what the candidates did", "integer": 1, "number": 1, "boolean": False, "array": []}
    if schema.get("type") == "object":
        return {name: filled(of, definitions) for name, of in schema.get("properties", {}).items()}
    return plainest[schema["type"]]


def _criteria(value: float) -> dict[str, Any]:
    """Five criterion scores from a quality between 0 and 1."""
    score = 1 + round(4 * value)
    names = ("approach", "precision", "minimality", "side_effects", "consistency")
    return {**dict.fromkeys(names, score), "unrequested_rewrite": False, "test_specific_workaround": False}


def quality(shown: Shown) -> float:
    """The true quality that a rollout's text says, as in `q=0.25`."""
    return float(re.findall(r"q=(-?[\d.]+)", shown.text)[-1])

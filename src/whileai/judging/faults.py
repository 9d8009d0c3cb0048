"""What is wrong with an object that a judge sent: one fault for each thing to correct, worded for the model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jsonschema


class Fault(NamedTuple):
    """One thing to correct. `kind` is one of `reply.KINDS`."""

    kind: str
    reason: str


def conflicts(value: dict[str, Any]) -> Iterator[Fault]:
    """Ranks that contradict scores or factors which stand beside them."""
    ranking = value.get("ranking")
    for name in ("scores", "factors"):
        scores = value.get(name)
        if not isinstance(ranking, dict) or not isinstance(scores, dict):
            continue
        both = [label for label in ranking if _is_number(ranking[label]) and _is_number(scores.get(label))]
        for better in both:
            for worse in both:
                if ranking[better] < ranking[worse] and scores[better] < scores[worse]:
                    reason = f"You rank {better} above {worse} and score it lower. Make ranks and {name} agree."
                    yield Fault("rank_score_conflict", reason)


def schema_faults(
    value: dict[str, Any], validator: jsonschema.Draft202012Validator, labels: Sequence[str]
) -> list[Fault]:
    """Where an object does not fit its schema, in the order of the paths, each reason once."""
    errors = sorted(validator.iter_errors(value), key=_place_of)
    return list(dict.fromkeys(_fault(error, labels) for error in errors))


def short(value: object) -> str:
    """A JSON value as text that a message can quote."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _place_of(error: jsonschema.ValidationError) -> tuple[str, bool, str]:
    """By path; a wrong type before what follows from it."""
    return error.json_path, error.validator != "type", str(error.validator)


def _fault(error: jsonschema.ValidationError, labels: Sequence[str]) -> Fault:
    where = error.json_path.removeprefix("$").removeprefix(".") or "the reply"
    schema: Any = error.schema
    rule: Any = error.validator_value
    given: Any = error.instance
    known = list(schema.get("properties", ()))
    by_label = bool(known) and known == list(labels)
    if error.validator == "required":
        missing = [name for name in known if name not in given]
        reason = f"{where}: {', '.join(missing)} is missing; give every one of {', '.join(known)}."
        return Fault("missing_label" if by_label else "missing_field", reason)
    if error.validator == "additionalProperties":
        strange = [name for name in given if name not in known]
        if by_label:
            return _label_fault(where, strange, labels)
        reason = f"{where}: there is no field {', '.join(map(short, strange))}; the fields are {', '.join(known)}."
        return Fault("unknown_field", reason)
    if schema.get("enum") == list(labels):
        return _label_fault(where, [given], labels)
    if error.validator == "type":
        if isinstance(given, str) and rule in ("integer", "number"):
            if _NUMBER.fullmatch(given):
                return Fault("number_as_text", f"{where}: {short(given)} is a text. Give the number without quotes.")
            if _FRACTION.fullmatch(given):
                return Fault("fraction_as_text", f"{where}: {short(given)} is a text. Give the number alone, unscaled.")
        if isinstance(given, list) and by_label:
            return _list_fault(where, given, labels)
        return Fault("wrong_type", f"{where}: {short(given)} is no {rule}.")
    if error.validator == "enum":
        return Fault("out_of_range", f"{where}: {short(given)} is none of {', '.join(map(str, rule))}.")
    return Fault("out_of_range", f"{where}: {short(given)} breaks the rule {error.validator}: {rule}.")


def _label_fault(where: str, strange: Sequence[Any], labels: Sequence[str]) -> Fault:
    if all(_is_number(name) or (isinstance(name, str) and _DIGITS.fullmatch(name)) for name in strange):
        kind, what = "index_for_label", "a number, not a label"
    else:
        kind, what = "unknown_label", "no label"
    return Fault(kind, f"{where}: {', '.join(map(short, strange))} is {what}; the labels are {', '.join(labels)}.")


def _list_fault(where: str, given: Sequence[Any], labels: Sequence[str]) -> Fault:
    shape = f"Give an object with one key for each of {', '.join(labels)}."
    if given and all(map(_is_number, given)):
        return Fault("index_for_label", f"{where}: a list of numbers. {shape}")
    twice = [item for item in given if isinstance(item, str) and given.count(item) > 1]
    if twice:
        return Fault("doubled_label", f"{where}: a list in which {short(twice[0])} stands twice. {shape}")
    return Fault("wrong_type", f"{where}: a list. {shape}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_FRACTION = re.compile(r"\s*-?\d+(?:\.\d+)?\s*(?:/|out of|of|%)\s*\d*(?:\.\d+)?\s*", re.IGNORECASE)
_NUMBER = re.compile(r"\s*-?\d+(?:\.\d+)?\s*")
_DIGITS = re.compile(r"\s*\d+\s*")

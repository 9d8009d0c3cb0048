"""A judge's reply as a verdict on the group: labels become indices, hacks are held against the text shown.

`ReplyForm` is what a reply must look like for one verdict and one number of candidates; `read` makes of a reply a
`Reading`, whose `verdict` `core.verdict` reads like any grader's output. `combine` makes one reading out of
the readings of several orders. Free text is passed on and decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from whileai.judging.budget import Line
from whileai.judging.labels import combine_factors, combine_hacks, combine_rankings, labels
from whileai.judging.reply import json_objects, read_object
from whileai.judging.schemas import VERDICT_FIELDS, reply_schema, validator
from whileai.judging.tiers import tier, tier_factors
from whileai.judging.transcript import Shown
from whileai.judging.visible import original

MIN_EVIDENCE = 12
"""Characters of evidence, spaces between words counted once: fewer stand in every rollout by chance (convention)."""


class Reading(NamedTuple):
    """What a judge said about a group.

    Attributes:
        verdict: `ranking`, `factors` or `hacks` by index of the group (`solution` and `behavior` for the verdicts of
            reward mode), and whatever else the reply says (`rationale`, an author's own fields) as it came.
        record: JSON-like, for journals and for `explain`: `candidates` (label to indices, in shown order), `said`
            (the free fields), `hacks` and `unconfirmed` (index, kind, evidence), `omissions` (what was not shown:
            index, or None for the task data, first and last step, characters), `scores` and `tiers` by index.
            Of several orders: `votes`, the record of each.
    """

    verdict: dict[str, Any]
    record: dict[str, Any]


class ReplyForm:
    """What a reply must look like.

    Args:
        kind: one of `VERDICT_FIELDS`.
        schema: the schema of such replies, shipped or with own fields.
        count: candidates shown.
        hack_kinds: the kinds of hacks that the judge may name; none: it names no hacks.
    """

    def __init__(self, kind: str, schema: Mapping[str, Any], count: int, hack_kinds: Sequence[str] = ()) -> None:
        self.kind = kind
        self.labels = labels(count)
        self.schema = reply_schema(schema, count, hack_kinds)
        self._validator = validator(self.schema)

    def read(self, text: str, shown: Shown) -> Reading:
        """Read a reply on the group as it was shown.

        Raises:
            UnusableVerdict: its kind is one of `reply.KINDS`, its reason is for the model.
        """
        reply = read_object(text, self._validator, self.labels, lambda value: _is_quoted(value, self.kind, shown))
        indices = {label: list(of.indices) for label, of in zip(shown.labels, shown.candidates, strict=True)}
        fields = VERDICT_FIELDS[self.kind]
        said = {name: value for name, value in reply.items() if name not in (*fields, "hacks")}
        verdict = dict(said)
        record: dict[str, Any] = {"candidates": indices, "said": said, "omissions": list(_omissions(shown))}
        if self.kind == "ranking":
            verdict["ranking"] = _by_rank(reply["ranking"], indices)
        elif self.kind == "factors":
            verdict["factors"] = _by_index(reply["factors"], indices)
        elif self.kind == "tiers":
            verdict["factors"] = _by_index(tier_factors(reply["scores"]), indices)
            record["scores"] = _by_index(reply["scores"], indices)
            record["tiers"] = _by_index({label: tier(scores) for label, scores in reply["scores"].items()}, indices)
        else:
            verdict |= {name: reply[name] for name in fields if name != "hacks"}
        if "hacks" in self.schema["properties"]:
            record |= _held_against_text(reply["hacks"], shown)
            verdict["hacks"] = sorted({hack["index"] for hack in record["hacks"]})
        return Reading(verdict, record)


def combine(readings: Sequence[Reading]) -> Reading:
    """One reading of a group out of the readings of several orders (at least one).

    Ranks are combined by mean rank and factors and scores by their mean; a hack needs more than half of the votes.
    Of other fields the first reading's are kept.
    """
    first = readings[0]
    if len(readings) == 1:
        return first
    verdict = dict(first.verdict)
    if "ranking" in verdict:
        verdict["ranking"] = combine_rankings([reading.verdict["ranking"] for reading in readings])
    if "factors" in verdict:
        verdict["factors"] = combine_factors([reading.verdict["factors"] for reading in readings])
    if "hacks" in verdict:
        verdict["hacks"] = combine_hacks([reading.verdict["hacks"] for reading in readings])
    for name in ("solution", "behavior"):
        if isinstance(verdict.get(name), (int, float)):
            verdict[name] = sum(reading.verdict[name] for reading in readings) / len(readings)
    return Reading(verdict, {"votes": [reading.record for reading in readings]})


def _by_rank(ranks: Mapping[str, Any], indices: Mapping[str, Sequence[int]]) -> list[list[int]]:
    ties: dict[int, list[int]] = {}
    for label, rank in ranks.items():
        ties.setdefault(int(rank), []).extend(indices[label])
    return [sorted(ties[rank]) for rank in sorted(ties)]


def _by_index(values: Mapping[str, Any], indices: Mapping[str, Sequence[int]]) -> dict[int, Any]:
    return {index: value for label, value in values.items() for index in indices[label]}


def _held_against_text(hacks: Sequence[Mapping[str, str]], shown: Shown) -> dict[str, list[dict[str, Any]]]:
    """Hacks by whether their evidence stands in what was shown of the rollout."""
    by_label = dict(zip(shown.labels, shown.candidates, strict=True))
    found: dict[str, list[dict[str, Any]]] = {"hacks": [], "unconfirmed": []}
    for hack in hacks:
        candidate = by_label[hack["candidate"]]
        where = "hacks" if _stands_in(hack["evidence"], list(shown.lines_of(candidate))) else "unconfirmed"
        found[where] += [
            {"index": index, "kind": hack["kind"], "evidence": hack["evidence"]} for index in candidate.indices
        ]
    return found


def _stands_in(evidence: str, lines: Sequence[Line]) -> bool:
    """Whether a quotation stands word for word in the text shown; line ends and their marks count as spaces."""
    quoted = _collapsed(re.sub(r"\n\| ?", "\n", evidence))
    if len(quoted) < MIN_EVIDENCE:
        return bool(quoted) and quoted == _collapsed("\n".join(line.text for line in lines))
    return quoted in _collapsed("\n".join(f"#{line.number} {line.title}: {line.text}" for line in lines))


def _collapsed(text: str) -> str:
    return " ".join(original(text).split())


def _is_quoted(value: dict[str, Any], kind: str, shown: Shown) -> bool:
    """Whether exactly this object stands in a rollout, plainly or inside another JSON text."""
    name = f'"{VERDICT_FIELDS[kind][0]}"'
    for line in shown.lines:
        text = original(line.text)
        is_named = name in text.replace('\\"', '"') or "\\u00" in text  # JSON can spell a name in escapes
        if is_named and any(found == value for found in json_objects(text)):
            return True
    return False


def _omissions(shown: Shown) -> Iterator[dict[str, Any]]:
    for first, last, characters in shown.task_omissions:
        yield {"index": None, "first": first, "last": last, "characters": characters}
    for candidate in (*shown.candidates, *shown.failures):
        for first, last, characters in candidate.omissions:
            for index in candidate.indices:
                yield {"index": index, "first": first, "last": last, "characters": characters}

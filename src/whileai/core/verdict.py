"""The one reader of what graders say, scripted or model.

A grader returns a mapping, a `Verdict`, a pydantic model, a dataclass or JSON text with `ranking` (best first
over the passing indices, an inner list is a tie) or `factors` ((0, 1] by index) or, if it only hunts hacks,
`hacks` alone. `read_verdict` turns it into a `Verdict`, or raises `UnusableVerdict` whose `kind` is one of
`KINDS`. Nothing is guessed: what is not a verdict on exactly this group is unusable, and never a score of 0.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from whileai.core.values import as_float, is_bool, shown
from whileai.errors import UnusableVerdict

KINDS = {
    "no_verdict": "the output is no mapping, or has neither ranking nor factors nor hacks",
    "invalid_json": "text that is no JSON object, or that names a key twice",
    "conflict": "ranking and factors together",
    "bad_ranking": "a ranking that is no list, or nested more than once",
    "bad_index": "an index that is no whole number (a bool, a fraction, NaN, a name)",
    "unknown_index": "an index that no rollout of the group has",
    "doubled_index": "an index that stands twice in a ranking",
    "missing_pass": "a passing index without rank or factor",
    "bad_factor": "a factor that is no number in (0, 1]",
    "bad_hacks": "hacks that are no list of indices",
    "unreadable": "an object whose own conversion, iteration or attributes raised",
    "bad_scores": "reward mode: solution or behavior is no number in [0, 1]",
}
"""The kinds of unusable output that statistics count by."""


class Verdict(NamedTuple):
    """What a grader said about one group, validated.

    Attributes:
        ranking: passing indices best first, in ties; hacks may stand in it. None if the grader gave none.
        factors: quality factor in (0, 1] by passing index. None if the grader gave none.
        hacks: passing indices, ascending, each once.
        extra: whatever else the grader said (reasons, evidence), as it came.
    """

    ranking: tuple[tuple[int, ...], ...] | None = None
    factors: Mapping[int, float] | None = None
    hacks: tuple[int, ...] = ()
    extra: Mapping[str, Any] = {}


class Scores(NamedTuple):
    """What a grader said about one pass in reward mode: both in [0, 1]."""

    solution: float
    behavior: float


def read_verdict(output: object, passes: Sequence[int], size: int) -> Verdict:
    """Read a grader's output on a group of `size` rollouts of which `passes` (ascending) passed.

    Failing indices are dropped and the order of the passes is kept. Numpy integers, whole floats and digits
    ("10") are indices.

    Raises:
        UnusableVerdict: with the kind and the reason. Whatever the output, nothing else is raised.
    """
    try:
        if type(output) is dict and type(ranking := output.get("ranking")) is list:
            hacks = output.get("hacks")
            bare = (hacks is None or (type(hacks) is list and not hacks)) and len(output) == 1 + ("hacks" in output)
            if bare and set(map(type, ranking)) == {int} and sorted(ranking) == passes:
                return Verdict(tuple([(index,) for index in ranking]), None, (), {})
        return _read(_mapping_of(output), frozenset(passes), size)
    except UnusableVerdict:
        raise
    except Exception as error:
        raise _unreadable(error) from error


def read_scores(output: object) -> Scores:
    """Read a grader's output on one pass in reward mode: `solution` and `behavior`, each in [0, 1]."""
    try:
        said = _mapping_of(output)
        values = []
        for name in ("solution", "behavior"):
            if said.get(name) is None:
                _unusable("bad_scores", f"no {name} in {_short(said)}")
            value = _number(said[name])
            if value is None or not 0.0 <= value <= 1.0:
                _unusable("bad_scores", f"{name} is {shown(said[name])}, not a number in [0, 1]")
            values.append(value)
        return Scores(*values)
    except UnusableVerdict:
        raise
    except Exception as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> UnusableVerdict:
    """An object that a grader made has conversions, iterations and attributes of its own, which may raise anything."""
    return UnusableVerdict("unreadable", f"reading the output raised {shown(error)}")


def _read(said: Mapping[str, Any], passing: frozenset[int], size: int) -> Verdict:
    ranking, factors, hacks = said.get("ranking"), said.get("factors"), said.get("hacks")
    if ranking is None and factors is None and hacks is None:
        _unusable("no_verdict", f"neither ranking nor factors nor hacks in {_short(said)}")
    if ranking is not None and factors is not None:
        _unusable("conflict", "ranking and factors together; give one of them")
    extra = {key: value for key, value in said.items() if key not in ("ranking", "factors", "hacks")}
    named = _read_hacks(hacks, passing, size)
    if ranking is not None:
        tiers = _read_ranking(ranking, passing, size)
        _complete(passing, [index for tier in tiers for index in tier], named, "ranking")
        return Verdict(tiers, None, named, extra)
    if factors is not None:
        by_index = _read_factors(factors, passing, size)
        _complete(passing, by_index, named, "factors")
        return Verdict(None, by_index, named, extra)
    return Verdict(None, None, named, extra)


def _mapping_of(output: object) -> Mapping[str, Any]:
    if isinstance(output, Verdict):
        return {**output.extra, "ranking": output.ranking, "factors": output.factors, "hacks": output.hacks}
    if isinstance(output, Scores):
        return output._asdict()
    if isinstance(output, (str, bytes, bytearray)):
        return _from_json(output)
    if isinstance(output, Mapping):
        return output
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return {field.name: getattr(output, field.name) for field in dataclasses.fields(output)}
    dump = getattr(output, "model_dump", None)
    if callable(dump) and not isinstance(output, type):
        dumped = dump()
        if isinstance(dumped, Mapping):
            return dumped
    return _unusable("no_verdict", f"{shown(output)} is no verdict: return a mapping with ranking, factors or hacks")


def _from_json(text: str | bytes | bytearray) -> Mapping[str, Any]:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in found:
            if key in result:
                raise ValueError(f"key {shown(key, 60)} stands twice")
            result[key] = value
        return result

    try:
        said = json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        _unusable("invalid_json", f"text that is no JSON: {error}")
    if not isinstance(said, dict):
        _unusable("invalid_json", f"JSON {type(said).__name__}, not an object")
    return said


def _read_ranking(ranking: object, passing: frozenset[int], size: int) -> tuple[tuple[int, ...], ...]:
    tiers: list[tuple[int, ...]] = []
    seen: set[int] = set()
    for entry in _items(ranking, "bad_ranking", "ranking", ordered=True):
        members = _items(entry, "bad_ranking", "a tie", ordered=False) if _is_list(entry) else [entry]
        tie = []
        for member in members:
            if _is_list(member):
                _unusable("bad_ranking", f"{shown(member)} inside a tie: a ranking nests once")
            index = _index(member, size, "ranking")
            if index in seen:
                _unusable("doubled_index", f"index {index} stands twice in the ranking")
            seen.add(index)
            if index in passing:
                tie.append(index)
        if tie:
            tiers.append(tuple(tie))
    return tuple(tiers)


def _read_factors(factors: object, passing: frozenset[int], size: int) -> dict[int, float]:
    if isinstance(factors, Mapping):
        pairs: Iterable[tuple[Any, Any]] = factors.items()
    else:
        values = _items(factors, "bad_factor", "factors", ordered=True)
        if len(values) != size:
            _unusable(
                "bad_factor",
                f"a list of {len(values)} factors for a group of {size}: one per rollout, or a mapping",
            )
        pairs = enumerate(values)
    result: dict[int, float] = {}
    seen: set[int] = set()
    for key, value in pairs:
        index = _index(key, size, "factors")
        if index in seen:
            _unusable("doubled_index", f"index {index} stands twice in the factors")
        seen.add(index)
        if index not in passing:
            continue
        factor = _number(value)
        if factor is None or not 0.0 < factor <= 1.0:
            _unusable("bad_factor", f"factor {shown(value)} of index {index} is no number in (0, 1]")
        result[index] = factor
    return result


def _read_hacks(hacks: object, passing: frozenset[int], size: int) -> tuple[int, ...]:
    if hacks is None:
        return ()
    named = {_index(item, size, "hacks") for item in _items(hacks, "bad_hacks", "hacks", ordered=False)}
    return tuple(sorted(named & passing))


def _complete(passing: frozenset[int], given: Iterable[int], hacks: tuple[int, ...], what: str) -> None:
    missing = passing.difference(given, hacks)
    if missing:
        _unusable("missing_pass", f"passing index {', '.join(map(str, sorted(missing)))} has no place in the {what}")


def _index(value: object, size: int, what: str) -> int:
    if isinstance(value, str):
        digits = value.strip()
        number: float | None = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None
    else:
        number = _number(value)
    if number is None or number != int(number):
        _unusable("bad_index", f"{shown(value)} in the {what} is no index")
    index = int(number)
    if not 0 <= index < size:
        _unusable("unknown_index", f"index {shown(value, 40)} in the {what}: the group has 0 to {size - 1}")
    return index


def _number(value: object) -> float | None:
    """A finite number; None for everything else: bools, text, NaN, arrays."""
    number = None if is_bool(value) else as_float(value)
    return number if number is not None and math.isfinite(number) else None


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple, set, frozenset)) or (
        hasattr(value, "tolist") and getattr(value, "ndim", 0) > 0
    )


def _items(value: Any, kind: str, what: str, *, ordered: bool) -> list[Any]:
    if not _is_list(value) or (ordered and isinstance(value, (set, frozenset))):
        _unusable(kind, f"{what} is {shown(value)}, not a list")
    return list(value.tolist() if hasattr(value, "tolist") else value)


def _short(said: Mapping[str, Any]) -> str:
    return shown(dict(said))


def _unusable(kind: str, reason: str) -> NoReturn:
    raise UnusableVerdict(kind, reason)

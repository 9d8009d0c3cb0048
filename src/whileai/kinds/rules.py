"""`kind: rules`: expressions over one rollout rank the passes, or score them.

Advantage mode: each `rank` term is a number per pass, least or most first, compared lexicographically; passes
that are equal in every term tie. A pass for which a `hacks` expression holds is named as a hack, and the rules
that held stand under `reasons` in the verdict. Reward mode: `solution` and `behavior` are numbers in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from operator import itemgetter
from typing import Any

from whileai.core.group import Group, Rollout
from whileai.core.rollout import content_text, tool_calls, tool_results
from whileai.errors import UnusableVerdict
from whileai.kinds.runner import Runner
from whileai.spec.document import quoted
from whileai.spec.expressions import ExpressionFailure, Expressions, allowed_names
from whileai.spec.models import RulesSpec


class RulesRunner(Runner):
    """The compiled expressions of one spec."""

    def __init__(self, spec: RulesSpec) -> None:
        self.name = spec.name
        self.names_hacks = spec.names_hacks
        self._reward_mode = spec.mode == "reward"
        self._expressions = Expressions(spec.expressions(), allowed_names(spec.mode, spec.columns))
        self._row = _row_reader(self._expressions.names)
        self._signs = [1 if term.least is not None else -1 for term in spec.rank]
        self._hacks = [rule.name for rule in spec.hacks]

    def __call__(self, *said: Any) -> dict[str, Any]:
        return self._scores(*said) if self._reward_mode else self._verdict(*said)

    def _verdict(self, group: Group) -> dict[str, Any]:
        passes = [rollout for rollout in group if rollout["passed"]]
        values = self._values(passes)
        terms, width = len(self._signs), len(self._expressions.keys)
        order: list[tuple[list[Any], int]] = []
        reasons: dict[int, list[str]] = {}
        for position, rollout in enumerate(passes):
            own = values[position * width : (position + 1) * width]
            index = rollout["index"]
            for number, value in enumerate(own[terms:], terms):
                if self._truth(value, number, index):
                    reasons.setdefault(index, []).append(self._hacks[number - terms])
            if index not in reasons:
                keys = [sign * self._number(own[n], n, index) for n, sign in enumerate(self._signs)]
                order.append((keys, index))
        verdict: dict[str, Any] = {"ranking": _ranking(order)} if terms else {}
        if self._hacks:
            verdict["hacks"] = sorted(reasons)
        if reasons:
            verdict["reasons"] = reasons
        return verdict

    def _scores(self, rollout: Rollout, rubric: Any = None) -> dict[str, float]:
        index, scores = rollout["index"], {}
        values = self._values([{**rollout, "rubric": rubric}])
        for number, (key, value) in enumerate(zip(self._expressions.keys, values, strict=True)):
            try:
                scores[key] = float(self._number(value, number, index))
            except OverflowError:  # a whole number beyond the floats
                raise self._refused(value, number, index, "a number in [0, 1]", "divide it") from None
        return scores

    def _values(self, rollouts: Sequence[Rollout]) -> list[Any]:
        try:
            return self._expressions.values([self._row(rollout) for rollout in rollouts])
        except KeyError as error:
            raise UnusableVerdict("missing_column", f"{self.name}: a rollout has no {error.args[0]!r}") from None
        except ExpressionFailure as error:
            index = rollouts[error.row]["index"]
            raise UnusableVerdict(
                "expression", f"{self.name}: {error.key} on rollout {index}: {error.reason}"
            ) from error

    def _number(self, value: Any, number: int, index: int) -> Any:
        if not (isinstance(value, int) or (isinstance(value, (float, Real)) and math.isfinite(value))):
            raise self._refused(value, number, index, "a finite number", "count with |length")
        return value

    def _truth(self, value: Any, number: int, index: int) -> bool:
        if not isinstance(value, (bool, int)):
            raise self._refused(value, number, index, "true or false", "compare it: |length > 0")
        return bool(value)

    def _refused(self, value: Any, number: int, index: int, wanted: str, remedy: str) -> UnusableVerdict:
        reason = f"the value is {quoted(value)}, not {wanted} ({remedy})"
        return UnusableVerdict(
            "expression", f"{self.name}: {self._expressions.keys[number]} on rollout {index}: {reason}"
        )


def _ranking(order: list[tuple[list[Any], int]]) -> list[Any]:
    """Indices best first; equal keys tie."""
    order.sort(key=itemgetter(0))
    ranking: list[Any] = []
    previous: list[Any] | None = None
    for keys, index in order:
        if keys != previous:
            ranking.append(index)
        elif isinstance(ranking[-1], list):
            ranking[-1].append(index)
        else:
            ranking[-1] = [ranking[-1], index]
        previous = keys
    return ranking


def _row_reader(names: Sequence[str]) -> Callable[[Rollout], tuple[Any, ...]]:
    """From a rollout to the values of these names, in order. A missing key is a KeyError."""
    if not any(name in _DERIVED for name in names):
        if len(names) > 1:
            return itemgetter(*names)
        return (lambda rollout: (rollout[names[0]],)) if names else (lambda _: ())
    readers = [_DERIVED.get(name, itemgetter(name)) for name in names]
    return lambda rollout: tuple([read(rollout) for read in readers])


def _messages(rollout: Rollout) -> Sequence[Any]:
    messages = rollout.get("messages")
    if messages is None:
        reason = f"rollout {rollout['index']} has no messages: tool calls, results and turns are not read out of text"
        raise UnusableVerdict("no_messages", reason)
    return messages  # type: ignore[no-any-return]


def _final_text(rollout: Rollout) -> str:
    given = rollout.get("final_text")
    if isinstance(given, str):
        return given
    for message in reversed(rollout.get("messages") or ()):
        own = isinstance(message, Mapping) and message.get("role") == "assistant"
        if own and (text := content_text(message.get("content"))):
            return text
    return str(rollout["completion"])


def _turns(rollout: Rollout) -> int:
    return sum(isinstance(message, Mapping) and message.get("role") == "assistant" for message in _messages(rollout))


_DERIVED: dict[str, Callable[[Rollout], Any]] = {
    "messages": _messages,
    "tool_calls": lambda rollout: tool_calls(_messages(rollout)),
    "tool_results": lambda rollout: tool_results(_messages(rollout)),
    "turns": _turns,
    "final_text": _final_text,
}

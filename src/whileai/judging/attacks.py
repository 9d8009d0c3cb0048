"""Rollouts that imitate what only the harness or the judge may write, marked by fixed rules.

Only what the policy itself wrote counts: text of the assistant and arguments of calls, or the whole text of a rollout
without messages. A marked rollout is still judged with the others, its imitations made `visible`. Marks matter when
the judge's replies stay unusable: the group is judged once more `without` the marked rollouts, and `rank_last` puts
them behind the rest. So a rollout cannot gain by breaking the judge, and one marked by mistake loses nothing as long
as the judge works.

Not covered: plain words ("rank me first"). They are shown as data, and the judge is told what they are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from whileai.judging.reply import json_objects
from whileai.judging.steps import message_steps
from whileai.judging.visible import look_alikes, original, without_unseen


class Forgery(NamedTuple):
    """Something that a rollout imitates. `kind` is one of `KINDS`; `excerpt` is where it stands, safe to print."""

    kind: str
    excerpt: str


KINDS = {
    "fence": "a fence around a rollout or the task, begun or closed",
    "label": "a heading that lets another rollout begin, or a step's header",
    "verdict": "a JSON object that reads as a judge's reply",
    "tool_result": "a tool's answer or another speaker's turn in the assistant's own text",
}


def forgeries(rollout: Mapping[str, Any]) -> tuple[Forgery, ...]:
    """What a rollout imitates, each kind once. Without messages, transcript tags are the rollout's structure and no
    imitation."""
    found: dict[str, Forgery] = {}
    for text, is_speech in _policy_texts(rollout):
        for kind, excerpt in _imitations(without_unseen(text), is_speech=is_speech):
            found.setdefault(kind, Forgery(kind, excerpt))
    return tuple(found[kind] for kind in KINDS if kind in found)


def marked(group: Sequence[Mapping[str, Any]]) -> dict[int, tuple[Forgery, ...]]:
    """The rollouts of a group that imitate something, by index."""
    return {rollout["index"]: found for rollout in group if (found := forgeries(rollout))}


def without(group: Sequence[Mapping[str, Any]], indices: Collection[int]) -> list[Mapping[str, Any]]:
    """The rollouts of a group but those at `indices`."""
    return [rollout for rollout in group if rollout["index"] not in indices]


def rank_last(verdict: Mapping[str, Any], indices: Sequence[int]) -> dict[str, Any]:
    """A verdict on the rest of a group with the passes at `indices` behind them all, tied.

    With factors they get half of the lowest one. A verdict of hacks alone has no places and stays as it is.
    """
    last = sorted(indices)
    if not last:
        return dict(verdict)
    if "ranking" in verdict:
        return {**verdict, "ranking": [*verdict["ranking"], last]}
    if "factors" in verdict:
        lowest = min(verdict["factors"].values(), default=1.0) / 2
        return {**verdict, "factors": {**verdict["factors"], **dict.fromkeys(last, lowest)}}
    return dict(verdict)


def _policy_texts(rollout: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Texts that the policy wrote, as it wrote them, and whether the text is speech in a rollout with messages."""
    messages = rollout.get("messages")
    if not isinstance(messages, (list, tuple)):
        completion = rollout.get("completion")
        yield completion if isinstance(completion, str) else "", False
        return
    for step in message_steps(messages):
        if step.is_call:
            yield original(f"{step.title} {step.text}"), False
        elif step.title in ("assistant", "+assistant"):
            yield original(step.text), True


def _imitations(text: str, *, is_speech: bool) -> Iterator[tuple[str, str]]:
    for found in look_alikes(text):
        if found.kind == "fence":
            yield "fence", _excerpt(text, found.start)
        elif found.kind == "step":
            yield "label", _excerpt(text, found.start)
        elif is_speech and (found.word in _NEVER_SPOKEN or _OTHERS_TURN.match(found.word)):
            yield "tool_result", _excerpt(text, found.start)
    for match in _ROLLOUT_HEADING.finditer(text):
        yield "label", _excerpt(text, match.start())
    named = _VERDICT_FIELD.search(text)
    if named and any(map(_is_verdict, json_objects(text))):
        yield "verdict", _excerpt(text, named.start())


def _is_verdict(value: Mapping[str, Any]) -> bool:
    """Whether an object has a verdict in it: a value for each label, or hacks that name candidates."""
    for name in ("ranking", "factors", "scores"):
        by_label = value.get(name)
        if isinstance(by_label, dict) and by_label and all(_LABEL.fullmatch(label) for label in by_label):
            return True
    hacks = value.get("hacks")
    if isinstance(hacks, list) and any(isinstance(hack, dict) and "candidate" in hack for hack in hacks):
        return True
    return "solution" in value and "behavior" in value


def _excerpt(text: str, start: int) -> str:
    return ascii(text[start : start + 60])[1:-1]


_LABEL = re.compile(r"[A-Z]{1,2}")
_VERDICT_FIELD = re.compile(
    r'\\?"(?:ranking|factors|scores|hacks|behavior)\\?"\s*:|\\u00[2-7][0-9a-fA-F]'  # JSON can spell a name in escapes
)
_ROLLOUT_HEADING = re.compile(
    r"^[^\w\n]{0,8}(?i:(?:failed[ -])?rollout)[ \t]+[A-Z]{1,2}[ \t]*[^\w\n]{0,8}$", re.MULTILINE
)
_NEVER_SPOKEN = frozenset(
    f"{word}{plural}"
    for word in (
        "tool_response",
        "tool_result",
        "tool_output",
        "function_result",
        "user",
        "system",
        "developer",
        "human",
    )
    for plural in ("", "s")
)
_OTHERS_TURN = re.compile(
    r"<\|(?:(?:im_start|start_header_id)\|>\s*(?:user|system|tool|ipython)|(?:user|system|observation|ipython)\|>"
    r"|tool_(?:response|output|result))|<<sys>>|<start_of_turn>\s*user|\[(?:inst|tool_results|system_prompt)\]"
)

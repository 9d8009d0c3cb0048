"""Steps cut to a budget of characters: head and tail kept, what is left out marked and counted.

A rollout within its budget is shown whole. Above it, long texts lose their middle first (the longest most), the
arguments of calls only when that is not enough, and whole steps from the middle last. Every mark carries a
digest of what it stands for, so that two rollouts which differ only there are still shown differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from whileai.judging.steps import Step, digest, is_call
from whileai.judging.visible import original

MIN_BUDGET = 500
"""Characters that a fence needs to show anything: a mark and the ends of two steps (convention)."""

SHORTEST_CUT = 160
"""No text is cut below this: what is left would not be read as a sentence (convention)."""


class Line(NamedTuple):
    """One step as shown. `number` counts from 1 in its fence; `whole` is False where anything is left out."""

    number: int
    title: str
    text: str
    whole: bool = True

    @property
    def is_call(self) -> bool:
        return is_call(self.title)

    def __str__(self) -> str:
        body = self.text.replace("\n", "\n| ")
        return f"#{self.number} {self.title}: {body}" if self.title else body


class Omission(NamedTuple):
    """What a judge was not shown: `characters` of the rollout's own, in steps `first` to `last`."""

    first: int
    last: int
    characters: int


def fit(steps: Sequence[Step], budget: int) -> tuple[list[Line], list[Omission]]:
    """`steps` as lines of at most `budget` characters, newlines between them included."""
    heads = [len(f"#{number} {step.title}: \n") for number, step in enumerate(steps, 1)]
    bodies = [_width(step.text) for step in steps]
    if sum(heads) + sum(bodies) <= budget:
        return [Line(number, *step) for number, step in enumerate(steps, 1)], []
    room = budget - sum(heads)
    calls = sum(body for step, body in zip(steps, bodies, strict=True) if step.is_call)
    others = [body for step, body in zip(steps, bodies, strict=True) if not step.is_call]
    cap = level(others, room - calls)
    if cap >= SHORTEST_CUT:
        return _cut(steps, [body if step.is_call else cap for step, body in zip(steps, bodies, strict=True)])
    cap = level(bodies, room)
    if cap >= SHORTEST_CUT:
        return _cut(steps, [cap] * len(steps))
    return _ends(steps, heads, budget)


def level(sizes: Sequence[int], room: int) -> int:
    """The largest cap under which `sizes` come to at most `room` in all."""
    left = room
    ordered = sorted(sizes)
    for taken, size in enumerate(ordered):
        share = left // (len(ordered) - taken)
        if size > share:
            return share
        left -= size
    return max(ordered, default=0)


def _cut(steps: Sequence[Step], caps: Sequence[int]) -> tuple[list[Line], list[Omission]]:
    lines, omissions = [], []
    for number, (step, cap) in enumerate(zip(steps, caps, strict=True), 1):
        line, omission = _cut_step(number, step, cap)
        lines.append(line)
        omissions += [omission] if omission else []
    return lines, omissions


def _cut_step(number: int, step: Step, cap: int) -> tuple[Line, Omission | None]:
    text = step.text
    if _width(text) <= cap:
        return Line(number, *step), None
    room = cap - len(_mark("", len(text), text))
    head = _end_of_head(text, (room + 1) // 2)
    tail = _start_of_tail(text, room // 2)
    omitted = text[head:tail]
    characters = len(original(omitted))
    shown = text[:head] + _mark("", characters, omitted) + text[tail:]
    return Line(number, step.title, shown, whole=False), Omission(number, number, characters)


def _ends(steps: Sequence[Step], heads: Sequence[int], budget: int) -> tuple[list[Line], list[Omission]]:
    """Steps from both ends, each cut to the shortest, as many as the budget holds."""
    cut = [_cut_step(number, step, SHORTEST_CUT) for number, step in enumerate(steps, 1)]
    widths = [head + _width(line.text) for head, (line, _) in zip(heads, cut, strict=True)]
    everything = "\n".join(f"{step.title}: {step.text}" for step in steps)
    room = budget - len(_mark(f"steps #{len(steps)} to #{len(steps)}, ", len(everything), everything)) - 1
    first, last = 0, len(steps)
    while first < last:
        from_head = first <= len(steps) - last
        width = widths[first if from_head else last - 1]
        if width > room:
            break
        room -= width
        first, last = (first + 1, last) if from_head else (first, last - 1)
    if first == last:  # the cut steps fit after all
        return [line for line, _ in cut], [omission for _, omission in cut if omission]
    missing = "\n".join(f"{step.title}: {step.text}" for step in steps[first:last])
    characters = sum(len(original(step.text)) for step in steps[first:last])
    gap = Line(first + 1, "", _mark(f"steps #{first + 1} to #{last}, ", characters, missing), whole=False)
    kept = [omission for _, omission in (*cut[:first], *cut[last:]) if omission]
    return (
        [*(line for line, _ in cut[:first]), gap, *(line for line, _ in cut[last:])],
        sorted([*kept, Omission(first + 1, last, characters)]),
    )


def _mark(what: str, characters: int, omitted: str) -> str:
    return f"⟨{what}{characters:,} characters left out, {digest(omitted)}⟩"


def _width(text: str) -> int:
    return len(text) + 2 * text.count("\n")


def _end_of_head(text: str, room: int) -> int:
    end = max(room, 0)
    while end > 0 and (excess := end + 2 * text.count("\n", 0, end) - room) > 0:
        end -= (excess + 2) // 3
    open_mark = text.rfind("⟨", 0, end)
    return end if text.rfind("⟩", 0, end) >= open_mark else open_mark


def _start_of_tail(text: str, room: int) -> int:
    start = len(text) - max(room, 0)
    while start < len(text) and (excess := len(text) - start + 2 * text.count("\n", start) - room) > 0:
        start += (excess + 2) // 3
    close_mark = text.find("⟩", start)
    open_mark = text.find("⟨", start)
    return start if close_mark < 0 or 0 <= open_mark < close_mark else close_mark + 1

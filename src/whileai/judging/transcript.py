"""What a judge is shown of a group: the task once, then every distinct rollout in a fence of its own.

`Material` is what does not depend on the order: the steps of every rollout, cut to their budgets. `Material.show`
renders one order of it:

    <task-data-6d0e9f1a2b3c>
    #1 system: ...                              what all rollouts share, once
    </task-data-6d0e9f1a2b3c>

    <rollout-9c41b7a0d2e8 label="A">
    #1 assistant: Let me look that up.
    #2 call get_order: {"id": "ORD-7"}
    #3 result get_order: ⟨same text as B #3⟩    a long text already shown is referred to
    #4 assistant: First line
    | and the second: lines that go on are marked
    </rollout-9c41b7a0d2e8>

    <failed-rollout-9c41b7a0d2e8 number="1">    context, without a label
    ...

Passing rollouts with the same text are one candidate, and so tie. The fence's nonce is a hash of the spec, all
rollouts' text, the order and the repeat: no rollout can know it, and one that quotes it changes it. The task's fence
has a nonce of spec and task alone, so that what stands before the rollouts is the same in every order.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from whileai.errors import BatchError, ConfigError
from whileai.judging.budget import MIN_BUDGET, Line, Omission, fit, level
from whileai.judging.labels import labels
from whileai.judging.steps import Step, column_step, digest, json_text, prompt_steps, rollout_steps
from whileai.judging.visible import original

REFER_FROM = 120
"""A text of at least this many characters is referred to when it comes again (convention)."""


class Candidate(NamedTuple):
    """A distinct rollout. `indices` are the rollouts of the group that have exactly these steps, ascending."""

    indices: tuple[int, ...]
    steps: tuple[Step, ...]
    lines: tuple[Line, ...]
    omissions: tuple[Omission, ...]


class Shown(NamedTuple):
    """One order of a group as a judge sees it.

    Attributes:
        task: the fenced task data, "" if there is none.
        rollouts: the fenced rollouts, candidates first.
        labels: A, B, ... in shown order.
        candidates: what each label stands for.
        failures: the failed rollouts, shown or not.
        task_lines, task_omissions: what stands in the task data, and what was left out of it.
        shared_from: number of the first line of the task data that is a step of the rollouts themselves.
    """

    task: str
    rollouts: str
    labels: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    failures: tuple[Candidate, ...]
    task_lines: tuple[Line, ...]
    task_omissions: tuple[Omission, ...]
    shared_from: int

    @property
    def lines(self) -> Iterator[Line]:
        """Every line shown."""
        yield from self.task_lines
        for rollout in (*self.candidates, *self.failures):
            yield from rollout.lines

    def lines_of(self, candidate: Candidate) -> Iterator[Line]:
        """The lines shown of one rollout, those that it shares with all others first."""
        yield from (line for line in self.task_lines if line.number >= self.shared_from)
        yield from candidate.lines


class Material:
    """A group read for a judge.

    Args:
        group: rollouts as graders receive them.
        columns: dataset columns to show: in the task data where all rollouts have the same value, else in the
            rollout's own fence.
        max_chars_per_rollout: budget of each fence, the task data's included. At least `MIN_BUDGET`.
        max_chars_per_group: budget of all fences together, counted before long texts are referred to. The task
            data may take a quarter; the candidates come next, each with `MIN_BUDGET` whatever the budget; failed
            rollouts share what is left.

    Raises:
        BatchError: a rollout lacks one of `columns`.
        ConfigError: a budget under which nothing could be shown.

    Attributes:
        candidates: distinct passing rollouts, in order of their first index.
        failures: distinct failing rollouts, likewise; those that the budget has no room for have no lines.
        digest: hash of everything the group says, cut or not.
    """

    def __init__(
        self,
        group: Sequence[Mapping[str, Any]],
        *,
        columns: Sequence[str] = (),
        max_chars_per_rollout: int,
        max_chars_per_group: int,
    ) -> None:
        for name, budget in (
            ("max_chars_per_rollout", max_chars_per_rollout),
            ("max_chars_per_group", max_chars_per_group),
        ):
            if budget < MIN_BUDGET:
                raise ConfigError(f"{name}={budget!r}: a judge needs at least {MIN_BUDGET} characters")
        given, prefix, own = _shared_and_own(group, columns)
        shared = [*given, *prefix]
        self.shared_from = len(given) + 1
        self.digest = digest(json_text([shared, own, [bool(rollout["passed"]) for rollout in group]]), 64)
        lines, omissions = fit(shared, max(MIN_BUDGET, min(max_chars_per_rollout, max_chars_per_group // 4)))
        self.task_lines, self.task_omissions = tuple(lines), tuple(omissions)
        room = max_chars_per_group - sum(len(str(line)) + 1 for line in lines)
        passed = _distinct(group, own, passed=True)
        failed = _distinct(group, own, passed=False)
        self.candidates = _fitted(passed, max_chars_per_rollout, room, least=MIN_BUDGET)
        room -= sum(len(str(line)) + 1 for candidate in self.candidates for line in candidate.lines)
        self.failures = _fitted(failed, max_chars_per_rollout, room, least=0)

    def show(self, order: Sequence[int], *, spec_digest: str, repeat: int = 0) -> Shown:
        """The group with its candidates in `order` (positions in `candidates`)."""
        task_nonce = self._nonce(spec_digest, "task", json_text(self.task_lines))
        nonce = self._nonce(spec_digest, self.digest, json_text([list(order), repeat]))
        names = labels(len(order))
        seen: dict[str, str] = {}
        task = _fence("task-data", task_nonce, "", _referred(self.task_lines, "task-data", seen))
        shown = tuple(self.candidates[position] for position in order)
        fences = [
            _fence("rollout", nonce, f' label="{name}"', _referred(candidate.lines, name, seen))
            for name, candidate in zip(names, shown, strict=True)
        ]
        fences += [
            _fence("failed-rollout", nonce, f' number="{number}"', _referred(failure.lines, f"failed {number}", seen))
            for number, failure in enumerate((failure for failure in self.failures if failure.lines), 1)
        ]
        return Shown(
            task if self.task_lines else "",
            "\n\n".join(fences),
            names,
            shown,
            self.failures,
            self.task_lines,
            self.task_omissions,
            self.shared_from,
        )

    def _nonce(self, *parts: str) -> str:
        """Twelve hex digits that stand nowhere in the group."""
        texts = [line.text for line in self.task_lines]
        texts += [step.text for candidate in (*self.candidates, *self.failures) for step in candidate.steps]
        salt = 0
        while any((nonce := digest("\x00".join((*parts, str(salt))), 12)) in text for text in texts):
            salt += 1
        return nonce


def _shared_and_own(
    group: Sequence[Mapping[str, Any]], columns: Sequence[str]
) -> tuple[list[Step], list[Step], list[list[Step]]]:
    """What all rollouts were given, the first steps that all of them took, and the steps of each rollout's own."""
    prompts = [prompt_steps(rollout.get("prompt")) for rollout in group]
    own = [rollout_steps(rollout) for rollout in group]
    same = 0  # a rollout keeps its last step, so that no fence is empty
    while own and all(len(steps) > same + 1 and steps[same] == own[0][same] for steps in own):
        same += 1
    if len(own) == 1:  # nothing is shared: what a rollout did stands in its own fence
        begin = len(prompts[0])
        same = begin if begin < len(own[0]) and own[0][:begin] == prompts[0] else 0
    prefix = own[0][:same] if own else []
    own = [steps[same:] for steps in own]
    shared: list[Step] = []
    if all(prompt == prompts[0] for prompt in prompts):
        given = prompts[0] if prompts else []
        led = _leading(given, prefix)
        shared, prefix = (prefix[:led], prefix[led:]) if led else (given, prefix)
    else:  # a policy is shared, and the turns of simulated users are not
        common = 0
        while all(len(prompt) > common and prompt[common] == prompts[0][common] for prompt in prompts):
            common += 1
        shared = prompts[0][:common]
        own = [[*prompt[common:], *prefix, *steps] for prompt, steps in zip(prompts, own, strict=True)]
        prefix = []
    for name in columns:
        values = [column_step(name, _column(rollout, name)) for rollout in group]
        if all(value == values[0] for value in values):
            shared = [*shared, *values[:1]]
        else:
            own = [[*steps, value] for steps, value in zip(own, values, strict=True)]
    return shared, prefix, own


def _leading(prompt: Sequence[Step], prefix: Sequence[Step]) -> int:
    """How many of the rollouts' first steps are their prompt: its messages, or all up to its text as a user turn."""
    if len(prompt) == 1 and prompt[0].title == "prompt":
        turns = (number for number, step in enumerate(prefix, 1) if step == Step("user", prompt[0].text))
        return next(turns, 0)
    return len(prompt) if list(prefix[: len(prompt)]) == list(prompt) else 0


def _column(rollout: Mapping[str, Any], name: str) -> object:
    if name in rollout:
        return rollout[name]
    near = difflib.get_close_matches(name, map(str, rollout), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(str, rollout))}"
    raise BatchError(f"rollout {rollout.get('index')} has no column {name!r}; {hint}")


def _distinct(
    group: Sequence[Mapping[str, Any]], own: Sequence[Sequence[Step]], *, passed: bool
) -> dict[tuple[Step, ...], list[int]]:
    found: dict[tuple[Step, ...], list[int]] = {}
    for rollout, steps in zip(group, own, strict=True):
        if bool(rollout["passed"]) is passed:
            found.setdefault(tuple(steps), []).append(rollout["index"])
    return found


def _fitted(
    distinct: Mapping[tuple[Step, ...], Sequence[int]], budget: int, room: int, *, least: int
) -> tuple[Candidate, ...]:
    """Each within `budget` and all within `room`, but for `least` of each. What fits too little has no lines."""
    whole = {
        steps: sum(len(str(Line(number, *step))) + 1 for number, step in enumerate(steps, 1)) for steps in distinct
    }
    share = max(level([min(width, budget) for width in whole.values()], max(room, 0)), least)
    candidates = []
    for steps, indices in distinct.items():
        allowed = budget if whole[steps] <= share else min(budget, share)
        if allowed < MIN_BUDGET and whole[steps] > allowed:
            characters = sum(len(original(step.text)) for step in steps)
            candidates.append(Candidate(tuple(indices), steps, (), (Omission(1, len(steps), characters),)))
            continue
        lines, omissions = fit(steps, allowed)
        candidates.append(Candidate(tuple(indices), steps, tuple(lines), tuple(omissions)))
    return tuple(candidates)


def _referred(lines: Iterable[Line], place: str, seen: dict[str, str]) -> list[str]:
    """Lines as text; a long whole text that was `seen` before is referred to, and otherwise noted. Arguments of calls
    always stand where the call does."""
    shown = []
    for line in lines:
        if line.whole and not line.is_call and len(line.text) >= REFER_FROM:
            if line.text in seen:
                line = line._replace(text=f"⟨same text as {seen[line.text]}⟩")
            else:
                seen[line.text] = f"{place} #{line.number}"
        shown.append(str(line))
    return shown


def _fence(name: str, nonce: str, attributes: str, lines: Sequence[str]) -> str:
    return "\n".join([f"<{name}-{nonce}{attributes}>", *lines, f"</{name}-{nonce}>"])

"""The messages that ask a model for a verdict on one group, and the reader of what it replies.

`Judge` is what of a spec decides a prompt; `Judge.prompts` makes one `JudgePrompt` for each presentation order. The
part that is the same for every group of a spec and number of candidates comes first (the system message: rules,
criteria, schema), then the task, then the fenced rollouts, so that vendors' prompt caches are of use.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from whileai.errors import BatchError
from whileai.judging.labels import presentation_orders
from whileai.judging.reading import Reading, ReplyForm
from whileai.judging.transcript import Material, Shown
from whileai.judging.visible import visible
from whileai.simulations.defaults import TRANSCRIPT_MAX_CHARS_PER_GROUP

CRITERIA = ("approach", "precision", "minimality", "side effects", "craftsmanship")
"""What passes are ranked on in the MiMo-V2.6 report, section 4.3.2; `vars: {criteria: [...]}` takes its place."""

Render = Callable[[Mapping[str, Any]], str]

TEMPLATE_NAMES: Mapping[str, str] = {
    "verdict": "the kind of verdict asked for",
    "criteria": "what passes are compared on, unless `vars` says otherwise",
    "labels": "the candidates' labels, in shown order",
    "failed_count": "how many failed rollouts are shown as context",
    "hack_kinds": "the kinds of hacks to look for; empty if the judge names none",
    "schema": "the JSON Schema of the reply, as text",
    "task": "the fenced task data: what all rollouts share; may be empty",
    "rollouts": "the fenced rollouts",
    "rubric": "the criteria to score against, as text; empty but in reward mode",
}
"""What a template may use besides the spec's `vars`, and besides a variable for each declared column, which says
where the column is to be found. Everything that a rollout or a column says stands in `task` and `rollouts` and
nowhere else."""


@dataclass(frozen=True)
class JudgePrompt:
    """One request to a judge.

    Attributes:
        system: the system message; the same for every group of a spec with as many candidates.
        user: the user message, with the data.
        form: what the reply must look like; `form.schema` goes to the provider.
        shown: which rollout stands where, and what was left out.
    """

    system: str
    user: str
    form: ReplyForm
    shown: Shown

    def read(self, reply: str) -> Reading:
        """The verdict that a reply gives.

        Raises:
            UnusableVerdict: its kind is one of `reply.KINDS`, its reason is written for the model.
        """
        return self.form.read(reply, self.shown)


@dataclass(frozen=True)
class Judge:
    """What of a spec decides what a judge is shown and what it may reply.

    Args:
        verdict: one of `schemas.VERDICT_FIELDS`.
        schema: the schema of its replies, shipped or `schemas.with_own_fields`.
        render_system, render_user: the templates; each is given `TEMPLATE_NAMES` and `vars`.
        spec_digest: identifies the spec's behaviour; the fence's nonce and the orders depend on it.
        vars: the author's own variables.
        columns: dataset columns to show.
        hack_kinds: kinds of hacks that the judge may name.
        max_chars_per_rollout, max_chars_per_group: see `transcript.Material`.
    """

    verdict: str
    schema: Mapping[str, Any]
    render_system: Render
    render_user: Render
    spec_digest: str
    max_chars_per_rollout: int
    vars: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    hack_kinds: tuple[str, ...] = ()
    max_chars_per_group: int = TRANSCRIPT_MAX_CHARS_PER_GROUP

    def prompts(
        self,
        group: Sequence[Mapping[str, Any]],
        *,
        orders: int = 1,
        repeat: int = 0,
        rubric: object = None,
    ) -> list[JudgePrompt]:
        """One prompt for each presentation order, at most `orders` of them (two candidates have two orders).

        Args:
            group: rollouts as graders receive them; in reward mode the one that is scored.
            repeat: counts further requests about the same group, so that none is answered from the cache.
            rubric: reward mode: text, a list of criteria, or `{"solution": [...], "behavior": [...]}`.

        Raises:
            BatchError: no rollout passed, or one lacks a column.
        """
        material = self._material(group)
        drawn = presentation_orders(len(material.candidates), orders, f"{self.spec_digest}:{material.digest}")
        return [self._prompt(material, order, repeat, rubric) for order in drawn]

    def prompt_as_given(
        self, group: Sequence[Mapping[str, Any]], *, repeat: int = 0, rubric: object = None
    ) -> JudgePrompt:
        """One prompt that shows the group in exactly the order in which it is given. Arguments as for `prompts`."""
        material = self._material(group)
        return self._prompt(material, range(len(material.candidates)), repeat, rubric)

    def form(self, count: int) -> ReplyForm:
        """What replies about `count` candidates must look like."""
        if count not in self._forms:
            self._forms[count] = ReplyForm(self.verdict, self.schema, count, self.hack_kinds)
        return self._forms[count]

    @cached_property
    def _forms(self) -> dict[int, ReplyForm]:
        return {}

    def _material(self, group: Sequence[Mapping[str, Any]]) -> Material:
        material = Material(
            group,
            columns=self.columns,
            max_chars_per_rollout=self.max_chars_per_rollout,
            max_chars_per_group=self.max_chars_per_group,
        )
        if not material.candidates:
            raise BatchError(f"none of {len(group)} rollouts passed: there is nothing to judge")
        return material

    def _prompt(self, material: Material, order: Sequence[int], repeat: int, rubric: object) -> JudgePrompt:
        shown = material.show(order, spec_digest=self.spec_digest, repeat=repeat)
        form = self.form(len(order))
        values = {
            "criteria": list(CRITERIA),
            **{name: f"the column {name}" for name in self.columns},
            **self.vars,
            "verdict": self.verdict,
            "labels": list(shown.labels),
            "failed_count": sum(bool(failure.lines) for failure in shown.failures),
            "hack_kinds": list(self.hack_kinds),
            "schema": json.dumps(form.schema, ensure_ascii=False),
            "task": shown.task,
            "rollouts": shown.rollouts,
            "rubric": rubric_text(rubric),
        }
        return JudgePrompt(self.render_system(values), self.render_user(values), form, shown)


def rubric_text(rubric: object) -> str:
    """A rubric as lines of text, safe to show: a criterion a line, under the name of its part where it has one."""
    if rubric is None:
        return ""
    if isinstance(rubric, str):
        return visible(rubric)
    if isinstance(rubric, Mapping):
        return "\n".join(f"{visible(str(name))}:\n{rubric_text(part)}" for name, part in rubric.items())
    if isinstance(rubric, Sequence):
        return "\n".join(f"- {rubric_text(criterion)}" for criterion in rubric)
    return visible(str(rubric))

"""Running golden cases: what a grader says to each, and in what that differs from what is expected.

Orders are read from the factors that training would use, and a hack stands below every other pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from whileai.checks.golden import Case, GoldenFile, load_golden
from whileai.checks.standing import is_compiled
from whileai.checks.votes import GateKnobs, Run, natural_call
from whileai.core.factors import quality_factors
from whileai.core.rollout import copy_json
from whileai.core.verdict import Verdict, read_scores, read_verdict
from whileai.engine.schedule import run_calls
from whileai.errors import NOT_MADE, UnusableVerdict, kind_and_reason
from whileai.judging.prompt import rubric_text

HACK = -1.0
"""Where a hack stands in a golden order: below every factor."""

WHOLE_GROUP = -1
"""In place of the index of a pass: the grader is given the group, to write its rubric."""


@dataclass(frozen=True)
class CaseResult:
    """What a grader said to one case. Printing it shows the group, the verdict and the difference.

    Attributes:
        problems: what does not hold; empty when the case holds.
        scores: factor (reward mode: product) by passing index, `HACK` for a named hack.
        named_hacks: passes that the grader called hacks.
        failure: why there is no usable verdict.
        rubric: the rubric that the grader wrote, as text, where the case asks for one.
    """

    case: Case
    problems: tuple[str, ...]
    scores: Mapping[int, float]
    named_hacks: frozenset[int] = frozenset()
    failure: BaseException | None = None
    rubric: str = ""

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def was_asked(self) -> bool:
        """False where nothing was asked: the budget was spent, say, or there is no key."""
        return self.failure is None or kind_and_reason(self.failure)[0] not in NOT_MADE

    @property
    def name(self) -> str:
        return self.case.name

    @property
    def failure_expected(self) -> bool:
        return self.case.expected.unusable is not None

    @property
    def labelled_hacks(self) -> frozenset[int]:
        return frozenset(self.case.expected.hacks or ())

    @property
    def labelled_clean(self) -> frozenset[int]:
        labelled = self.case.expected.hacks is not None
        return frozenset(self.case.passes) - self.labelled_hacks if labelled else frozenset()

    @property
    def only_pairs(self) -> bool:
        """The case says which pass is better, and nothing else."""
        said = self.case.expected.model_fields_set & {"ranking", "better", "ties", "hacks", "factors", "unusable"}
        return said == {"better"}

    @property
    def pairs(self) -> int:
        return len(self.case.expected.better)

    @property
    def pairs_right(self) -> int:
        return sum(
            self.scores.get(better, -math.inf) > self.scores.get(worse, math.inf)
            for better, worse in self.case.expected.better
        )

    def __str__(self) -> str:
        case = self.case
        place = case.file if case.line is None else f"{case.file}:{case.line}"
        lines = [f"{place}: {case.name}: {'holds' if self.ok else 'does not hold'}"]
        for rollout in case.group:
            index = rollout["index"]
            score = self.scores.get(index)
            said = "" if score is None else "  hack" if score == HACK else f"  {score:.3f}"
            lines.append(
                f"  {index} {'pass' if rollout['passed'] else 'fail'}{said:<7}  {_short(rollout['completion'])}"
            )
        if self.failure is not None:
            lines.append("  said: nothing usable, {}: {}".format(*kind_and_reason(self.failure)))
        elif self.rubric:
            lines += ["  said:", *(f"    {line}" for line in self.rubric.splitlines())]
        else:
            hacks = f"; hacks {_listed(self.named_hacks)}" if self.named_hacks else ""
            lines.append(f"  said: {_order(_tiers(self.scores))}{hacks}")
        return "\n".join(lines + [f"  {problem}" for problem in self.problems])


def run_golden(grader: Callable[..., Any], path: str | Path, knobs: GateKnobs | None = None) -> list[CaseResult]:
    """Run every case of the golden file `path`. Raises `SpecError` for a file that cannot be read.

    Args:
        knobs: those of the training; default: the defaults, with the grader's own mode.
    """
    knobs = knobs or GateKnobs(mode=getattr(grader, "mode", "advantage"))
    return run_cases(grader, load_golden(path), knobs)


def run_cases(
    grader: Callable[..., Any], golden: GoldenFile, knobs: GateKnobs, *, run: Run = run_calls
) -> list[CaseResult]:
    """What the grader says to every case, in order. Never raises for a call that fails.

    Of a compiled grader its first link answers alone, as in the gate: what a fallback says proves nothing about it.
    """
    links = getattr(grader, "links", ()) if is_compiled(grader) else ()
    call = natural_call(links[0] if links else grader)
    limits: dict[str, Any] = {"concurrency": knobs.concurrency, "timeout_s": knobs.timeout_s}
    if knobs.mode != "reward":
        said = run(
            lambda case: call(copy_json(case.group)),
            golden.cases,
            read=lambda output, case: read_verdict(output, case.passes, len(case.group)),
            **limits,
        )
        return [
            _compare(case, *_scores_of(outcome, case, knobs)) for case, outcome in zip(golden.cases, said, strict=True)
        ]
    calls = [
        (case, index) for case in golden.cases for index in ([WHOLE_GROUP] if case.expected.criteria else case.passes)
    ]
    said = run(
        lambda item: _call_in_reward_mode(call, *item),
        calls,
        read=lambda output, item: _written(output) if item[1] == WHOLE_GROUP else read_scores(output),
        **limits,
    )
    results = []
    for case in golden.cases:
        outcomes = {index: outcome for (owner, index), outcome in zip(calls, said, strict=True) if owner is case}
        failure = next((outcome for outcome in outcomes.values() if isinstance(outcome, BaseException)), None)
        if failure is not None:
            results.append(_compare(case, {}, frozenset(), failure))
        elif WHOLE_GROUP in outcomes:
            results.append(_compare_rubric(case, outcomes[WHOLE_GROUP]))
        else:
            products = {
                index: max(knobs.floor, scores.solution) * max(knobs.floor, scores.behavior)
                for index, scores in outcomes.items()
            }
            results.append(_compare(case, products, frozenset(), None))
    return results


def _call_in_reward_mode(call: Callable[..., Any], case: Case, index: int) -> Any:
    """The scores of one pass by the case's rubric, or a rubric for the whole group."""
    if index == WHOLE_GROUP:
        return call(copy_json(case.group))
    return call(copy_json(case.group[index]), copy_json(case.expected.rubric))


def _written(output: Any) -> str:
    """A rubric as text: of text, a list of criteria, or `{"solution": [...], "behavior": [...]}`."""
    text = rubric_text(output) if isinstance(output, (str, list, tuple, Mapping)) else ""
    if not text.strip():
        raise UnusableVerdict("no_rubric", f"{output!r:.120} is no rubric: text, a list of criteria, or lists by part")
    return text


def _compare_rubric(case: Case, rubric: str) -> CaseResult:
    missing = [word for word in case.expected.criteria if word.casefold() not in rubric.casefold()]
    problems = tuple(f"criteria: none says {word!r}" for word in missing)
    return CaseResult(case, problems, {}, rubric=rubric)


def _scores_of(
    outcome: Verdict | BaseException, case: Case, knobs: GateKnobs
) -> tuple[dict[int, float], frozenset[int], BaseException | None]:
    if isinstance(outcome, BaseException):
        return {}, frozenset(), outcome
    factors = quality_factors(outcome, case.passes, min_factor=knobs.min_factor, hack_zero=knobs.hack_zero)
    return {**factors, **dict.fromkeys(outcome.hacks, HACK)}, frozenset(outcome.hacks), None


def _compare(
    case: Case, scores: Mapping[int, float], named: frozenset[int], failure: BaseException | None
) -> CaseResult:
    """The result of one case, with everything in which the verdict differs from what is expected."""
    result = CaseResult(case, (), scores, named, failure)
    expected = case.expected
    if failure is not None or expected.unusable is not None:
        kind = None if failure is None else kind_and_reason(failure)[0]
        if kind == expected.unusable:
            return result
        wanted = "a usable verdict" if expected.unusable is None else f"unusable, {expected.unusable}"
        return replace(result, problems=(f"expected {wanted}; got {kind or 'a usable verdict'}",))
    problems = []
    if expected.hacks is not None and set(expected.hacks) != named:
        problems.append(f"hacks: expected {_listed(expected.hacks)}; got {_listed(named)}")
    if expected.ranking is not None:
        wanted_tiers = [sorted(tier) if isinstance(tier, list) else [tier] for tier in expected.ranking]
        ranked = {index for tier in wanted_tiers for index in tier}
        got = _tiers({index: score for index, score in scores.items() if index in ranked})
        if got != wanted_tiers:
            problems.append(f"ranking: expected {_order(wanted_tiers)}; got {_order(got)}")
    for better, worse in expected.better:
        if not scores[better] > scores[worse]:
            problems.append(f"better: expected {better} > {worse}; got {_order(_tiers(scores, (better, worse)))}")
    for tie in expected.ties:
        if len({scores[index] for index in tie}) > 1:
            problems.append(f"ties: expected {_order([tie])}; got {_order(_tiers(scores, tie))}")
    for index, factor in expected.factors.items():
        if scores[index] == HACK or abs(scores[index] - factor) > expected.tolerance + 1e-12:
            got_factor = "a hack" if scores[index] == HACK else f"{scores[index]:.3f}"
            problems.append(
                f"factors: expected {factor:g} for {index}, to within {expected.tolerance:g}; got {got_factor}"
            )
    return replace(result, problems=tuple(problems))


def _tiers(scores: Mapping[int, float], among: Sequence[int] | None = None) -> list[list[int]]:
    """Indices by score, best first, equal ones together."""
    kept = {index: scores[index] for index in (scores if among is None else among)}
    return [
        sorted(index for index, score in kept.items() if score == value)
        for value in sorted(set(kept.values()), reverse=True)
    ]


def _order(tiers: Sequence[Sequence[int]]) -> str:
    return " > ".join(" = ".join(map(str, tier)) for tier in tiers) or "no pass is ranked"


def _listed(indices: Sequence[int] | frozenset[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(indices))) or "none"


def _short(text: str, limit: int = 90) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit // 2]} ... {line[-limit // 2 + 5 :]}"

"""The gate: does this grader tell passes apart, and does it say the same when they are shown in another order?

`plan_gate` says what a check will take, `run_gate` makes it. Each group with two or more passes is judged in
two random orders; the chain is off, so that the answer is about this grader and no fallback of its own. Three
answers are possible, because "too little data to say" must not pass for either of the others. What is
reliable is not yet right: without golden cases a grader that sorts by a hash passes, and the report says so.

Not covered: whether a cheap proxy (length, turns, calls) would do as well; it would be one more figure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whileai.checks import figures, labelled
from whileai.checks.cases import CaseResult, run_cases
from whileai.checks.golden import GoldenFile
from whileai.checks.orders import content_digest
from whileai.checks.report import Answer, CheckReport, Figure
from whileai.checks.votes import GateKnobs, Grader, Outcome, Progress, Run, Subject, call_count, collect_votes
from whileai.core.group import Group, groups_from_rows
from whileai.core.naming import name_of
from whileai.engine.schedule import run_calls
from whileai.errors import NOT_MADE, ConfigError, kind_and_reason
from whileai.spec.models import CheckRules

UNTESTED = (
    "validity untested: no golden cases. A grader that sorts by a hash repeats itself as well; golden cases say "
    "whether the better pass wins"
)


@dataclass(frozen=True)
class GatePlan:
    """What a check will take. Printing it gives the line that is said before anything is spent.

    Attributes:
        groups: all groups of the rows; subjects: those that are judged; copies: groups left out because they
            hold the same rollouts as another one.
        calls: calls of the grader, golden cases included.
        usd: what they will cost about; None where no price is known. priced: a price was asked for.
    """

    grader: str
    mode: str
    groups: int
    subjects: tuple[Subject, ...]
    copies: int
    golden: GoldenFile | None
    calls: int
    usd: float | None = None
    priced: bool = False

    def __str__(self) -> str:
        cost = "" if not self.priced else ", price unknown" if self.usd is None else f", about ${self.usd:.2f}"
        cases = len(self.golden.cases) if self.golden else 0
        golden = f" and {cases} golden case{'' if cases == 1 else 's'}" if cases else ""
        return (
            f"check of {self.grader}: {self.calls} calls for {len(self.subjects)} of {self.groups} groups "
            f"(two or more passes, each in two random orders){golden}{cost}"
        )


def plan_gate(
    grader: Grader,
    rows: Sequence[Mapping[str, Any]],
    *,
    knobs: GateKnobs = GateKnobs(),  # noqa: B008 - immutable
    group_size: int | None = None,
    golden: GoldenFile | None = None,
    name: str | None = None,
    price: Callable[[Group], float | None] | None = None,
) -> GatePlan:
    """Group the rows and count the calls; nothing is called.

    Args:
        rows: see `core.group.groups_from_rows`, whose errors are raised.
        group_size: rollouts of a training group, where a task has more rows than that.
        golden: the grader's golden cases.
        name: what the report calls the grader; default: its own name.
        price: US dollars of one call on a group (about), None if that is not known.
    """
    groups = [
        group.rollouts for group in groups_from_rows(rows, group_size=group_size, pass_threshold=knobs.pass_threshold)
    ]
    found = [subject for group in groups if (subject := Subject.of(group))]
    # Copies of a group would count its luck several times.
    subjects = tuple({content_digest(subject.group): subject for subject in reversed(found)}.values())[::-1]
    calls = call_count(subjects, knobs.mode)
    priced: list[tuple[Group, float]] = [(subject.group, calls / len(subjects)) for subject in subjects]
    for case in golden.cases if golden else ():
        priced.append((case.group, getattr(grader, "orders", 1) * (len(case.passes) if knobs.mode == "reward" else 1)))
    return GatePlan(
        grader=name or name_of(grader),
        mode=knobs.mode,
        groups=len(groups),
        subjects=subjects,
        copies=len(found) - len(subjects),
        golden=golden,
        calls=calls + (golden.call_count(knobs.mode) if golden else 0),
        usd=None if price is None else _cost(price, [(group, times) for group, times in priced if _passes(group)]),
        priced=price is not None,
    )


def _cost(price: Callable[[Group], float | None], asked: Sequence[tuple[Group, float]]) -> float | None:
    """US dollars of asking about each group so many times; None where a price is unknown."""
    total = 0.0
    for group, times in asked:
        if (each := price(group)) is None:
            return None
        total += each * times
    return total


def _passes(group: Group) -> bool:
    return any(rollout["passed"] for rollout in group)


def run_gate(
    grader: Grader,
    plan: GatePlan | Sequence[Mapping[str, Any]],
    *,
    rules: CheckRules = CheckRules(),  # noqa: B008 - immutable
    knobs: GateKnobs = GateKnobs(),  # noqa: B008 - immutable
    progress: Progress = None,
    run: Run = run_calls,
) -> CheckReport:
    """Check a grader on a plan, or on rows that are planned with the defaults.

    Args:
        grader: called as training calls it; where it has `single_vote`, that is called (see `checks.votes`).
        rules: what is asked, the `check:` of a spec.
        knobs: those of the training.
        progress: called now and then with calls done and calls in all.
        run: see `engine.schedule.run_calls`.

    Raises:
        ConfigError: the plan was made for another mode.
    """
    if not isinstance(plan, GatePlan):
        plan = plan_gate(grader, plan, knobs=knobs)
    if plan.mode != knobs.mode:
        raise ConfigError(f"mode={knobs.mode!r}: the check was planned for mode={plan.mode!r}")
    outcomes = collect_votes(grader, plan.subjects, knobs, progress=progress, run=run)
    cases = run_cases(grader, plan.golden, knobs, run=run) if plan.golden else None
    return judge(plan, outcomes, cases, rules=rules, knobs=knobs, orders=getattr(grader, "orders", 1))


def judge(
    plan: GatePlan,
    outcomes: Sequence[Outcome],
    cases: Sequence[CaseResult] | None,
    *,
    rules: CheckRules,
    knobs: GateKnobs,
    orders: int = 1,
) -> CheckReport:
    """The report on votes that were collected. Pure."""
    failed = [failure for outcome in outcomes for failure in outcome.failures if _was_made(failure)]
    failed += [case.failure for case in cases or () if case.failure and case.was_asked and not case.failure_expected]
    unmade = [failure for outcome in outcomes for failure in outcome.failures if not _was_made(failure)]
    unmade += [case.failure for case in cases or () if case.failure and not case.was_asked]
    judged = [
        (subject, outcome)
        for subject, outcome in zip(plan.subjects, outcomes, strict=True)
        if all(map(_was_made, outcome.failures))
    ]
    calls = plan.calls - len(unmade)
    hunts_only = any(any(outcome.votes) for outcome in outcomes) and not any(
        vote.ordered for outcome in outcomes for vote in outcome.votes if vote
    )
    found = [figures.failures(len(failed), calls, rules)]
    if hunts_only:
        found += [labelled.size(cases, rules), *labelled.hack_rates(cases, rules)]
    else:
        found += [
            figures.size(judged, rules),
            *figures.spread(judged, rules),
            figures.retest(judged, rules, orders),
            *figures.position(judged, rules),
            figures.moved(judged, rules),
        ]
    found += figures.hack_agreement(judged)
    if cases is not None:
        found += labelled.golden(cases, rules)
    remarks = [] if hunts_only else figures.remarks(judged)
    if plan.copies:
        remarks.append(f"{plan.copies} groups hold the same rollouts as another group and were left out")
    if unmade:
        remarks.append(f"{len(unmade)} calls were not made: {unmade[0]}")
    if cases is None:
        remarks.append(UNTESTED)
    kinds = Counter(kind_and_reason(failure)[0] for failure in failed)
    reasons = dict(map(kind_and_reason, reversed(failed)))
    return CheckReport(
        verdict=_verdict(found),
        grader=plan.grader,
        mode=plan.mode,
        figures=tuple(found),
        remarks=tuple(remarks),
        groups=plan.groups,
        judged=len(judged),
        passes=sum(len(subject.passes) for subject, _ in judged),
        pairs=figures.pair_count(judged),
        calls=calls,
        failed=len(failed),
        failures=tuple((kind, count, reasons[kind]) for kind, count in kinds.most_common()),
        loosened=rules.loosened,
        because=rules.because if rules.loosened else None,
    )


def _was_made(failure: BaseException) -> bool:
    return kind_and_reason(failure)[0] not in NOT_MADE


def _verdict(found: Sequence[Figure]) -> Answer:
    """Failures are a no at any size; then size decides; then any no; then anything that is left open."""
    failures, size, *rest = (figure.answer for figure in found)
    if failures == "no":
        return "no"
    if size != "yes":
        return size
    if "no" in rest:
        return "no"
    return "not enough data" if "not enough data" in rest else "yes"

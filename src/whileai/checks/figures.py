"""The figures of the gate, each with its interval and its rule."""

from __future__ import annotations

import math
from collections.abc import Sequence

from whileai.checks.report import Answer, Figure
from whileai.checks.votes import Outcome, Subject
from whileai.core.agreement import Votes, agreement, position_shifts, spearman_brown
from whileai.core.spread import judge_spread
from whileai.core.statistics import mean_interval, moved_mass, wilson, within_std
from whileai.simulations import defaults
from whileai.spec.models import CheckRules

NOISE_LEVEL = 0.01
"""A grader whose votes know nothing of each other, or of the places, is found out in 99 of 100 checks."""

MIN_HACK_AGREEMENT = 0.5
"""Of the passes that one vote calls a hack the other must name at least this share (convention)."""

MORE_GROUPS = "give more groups in which passes differ"

Judged = Sequence[tuple[Subject, Outcome]]


def size(judged: Judged, rules: CheckRules) -> Figure:
    """Groups with two or more passes, and pairs of passes inside them."""
    groups, pairs = len(judged), pair_count(judged)
    wanting = []
    if groups < rules.min_groups:
        wanting.append(f"{_more(rules.min_groups - groups, 'group')} with two or more passes")
    if pairs < rules.min_pairs:
        wanting.append(f"{_more(rules.min_pairs - pairs, 'pair')} of passes")
    return Figure(
        "size",
        "not enough data" if wanting else "yes",
        f"{_of(groups, rules.min_groups)} groups with two or more passes, {_of(pairs, rules.min_pairs)} pairs",
        f"{rules.min_groups} groups and {rules.min_pairs} pairs",
        value=groups,
        remedy=f"give {' and '.join(wanting)}",
    )


def _more(number: int, what: str) -> str:
    return f"{number} more {what}" if number == 1 else f"{number} more {what}s"


def pair_count(judged: Judged) -> int:
    return sum(math.comb(len(subject.passes), 2) for subject, _ in judged)


def failures(failed: int, calls: int, rules: CheckRules) -> Figure:
    """Calls without a usable verdict."""
    share = wilson(failed, calls)
    return Figure(
        "failures",
        "no" if failed > rules.max_failures * calls else "yes",
        f"{failed} of {calls} calls",
        f"at most {rules.max_failures:.0%}",
        *(share.value, share.low, share.high),
        remedy="mend the calls that fail: their groups would train ungraded",
    )


def spread(judged: Judged, rules: CheckRules) -> list[Figure]:
    """The page's two rules on pooled scores, and the standard deviation inside groups."""
    scores = [list(_combined(outcome).values()) for _, outcome in judged]
    ungraded = sum(len(subject.passes) for subject, outcome in judged if not any(outcome.votes))
    report = judge_spread(
        scores,
        groups=len(judged),
        min_std=defaults.SPREAD_MIN_STD,
        band=defaults.SPREAD_BAND,
        cluster_share=defaults.SPREAD_CLUSTER_SHARE,
        ungraded=ungraded,
    )
    rule = f"std {defaults.SPREAD_MIN_STD:g} or more, at most {defaults.SPREAD_CLUSTER_SHARE:.0%} in the band"
    inside_rule = f"above {rules.min_std:g} with its lower bound"
    remedy = "ask for differences that passes can have, or choose tasks where passes differ"
    if not report.enough:
        nothing = "no scores"
        return [
            Figure("spread", "not enough data", nothing, rule, remedy="give groups that the grader can score"),
            Figure("within groups", "not enough data", nothing, inside_rule, remedy=MORE_GROUPS),
        ]
    pooled = Figure(
        "spread",
        "yes" if report.ok else "no",
        f"std {report.std:.3f}, {report.clustered:.0%} within {report.band:g} of the median {report.median:.2f}",
        rule,
        value=report.std,
        remedy=remedy,
    )
    if not any(len(group) > 1 for group in scores):
        one = "one score a group at most"
        return [pooled, Figure("within groups", "not enough data", one, inside_rule, remedy=MORE_GROUPS)]
    inside = within_std(scores)
    answer: Answer = (
        "yes" if inside.low > rules.min_std else "no" if inside.high <= rules.min_std else "not enough data"
    )
    return [
        pooled,
        Figure(
            "within groups",
            answer,
            f"std {inside.value:.3f} ({inside.low:.3f} to {inside.high:.3f})",
            inside_rule,
            *(inside.value, inside.low, inside.high),
            remedy=remedy if answer == "no" else MORE_GROUPS,
        ),
    ]


def retest(judged: Judged, rules: CheckRules, orders: int) -> Figure:
    """Kendall's tau-b between the votes from two random orders."""
    found = agreement(_both_votes(judged))
    rule = f"{rules.min_retest:g} or more, better than chance (p < {NOISE_LEVEL:g})"
    tied = f", {found.tied} completely tied" if found.tied else ""
    if found.tau is None:
        return Figure("retest", "not enough data", f"nothing to compare{tied}", rule, remedy=MORE_GROUPS)
    tau = found.tau
    answer: Answer = "not enough data"
    if tau.high < rules.min_retest:
        answer = "no"
    elif tau.value >= rules.min_retest and tau.low > 0 and found.p < NOISE_LEVEL:
        answer = "yes"
    seen = f"tau {tau.value:.2f} ({tau.low:.2f} to {tau.high:.2f}) over {found.groups} groups{tied}, p {_p(found.p)}"
    if orders > 1:
        seen += f"; {orders} votes combined about {spearman_brown(tau.value, orders):.2f}"
    return Figure(
        "retest",
        answer,
        seen,
        rule,
        *(tau.value, tau.low, tau.high),
        remedy="the verdicts do not repeat: sharpen the criteria, tie what does not differ, combine more orders"
        if answer == "no"
        else MORE_GROUPS,
    )


def position(judged: Judged, rules: CheckRules) -> list[Figure]:
    """How far ranks follow the slot, and the distance from the middle, in which a pass was shown."""
    found = zip(("order", "middle"), position_shifts(_both_votes(judged)), strict=True)
    return [
        Figure(
            name,
            "no" if shift.p < NOISE_LEVEL and abs(shift.effect.value) > rules.max_position else "yes",
            f"{_preference(name, shift.effect.value)}, p {_p(shift.p)}",
            f"at most {rules.max_position:.0%}, or no effect (p {NOISE_LEVEL:g} or more)",
            *(shift.effect.value, shift.effect.low, shift.effect.high),
            remedy="it looks at where a pass stands: combine several orders, or judge passes one by one",
        )
        for name, shift in found
    ]


def moved(judged: Judged, rules: CheckRules) -> Figure:
    """Share of the positive advantage that the verdicts move: what training will feel."""
    mixed = [outcome for subject, outcome in judged if subject.mixed]
    what = "mixed groups" if mixed else "groups (none is mixed)"
    rule = f"{rules.min_moved:.0%} or more"
    masses = [
        moved_mass(list(_with_hacks(outcome).values()))
        for outcome in mixed or [outcome for _, outcome in judged]
        if any(outcome.votes)
    ]
    if not masses:
        return Figure("moved mass", "not enough data", "no graded group", rule, remedy=MORE_GROUPS)
    mean = mean_interval(masses)
    answer: Answer = (
        "yes" if mean.value >= rules.min_moved else "no" if mean.high < rules.min_moved else "not enough data"
    )
    return Figure(
        "moved mass",
        answer,
        f"{mean.value:.1%} ({mean.low:.1%} to {mean.high:.1%}) over {len(masses)} {what}",
        rule,
        *(mean.value, mean.low, mean.high),
        remedy="training would hardly feel it: lower min_factor, or break more ties" if answer == "no" else MORE_GROUPS,
    )


def hack_agreement(judged: Judged) -> list[Figure]:
    """Whether both votes call the same passes hacks; no figure where none is named."""
    named = both = 0
    for _, outcome in judged:
        first, second = outcome.votes
        if first is not None and second is not None:
            named += len(first.hacks | second.hacks)
            both += len(first.hacks & second.hacks)
    if not named:
        return []
    share = wilson(both, named)
    return [
        Figure(
            "hacks repeat",
            "no" if share.high < MIN_HACK_AGREEMENT else "yes",
            f"{both} of {named} hacks named in both orders",
            f"upper bound of the share {MIN_HACK_AGREEMENT:g} or more",
            *(share.value, share.low, share.high),
            remedy="the hacks are guesses: ask for evidence",
        )
    ]


def remarks(judged: Judged) -> list[str]:
    """Where the grader can change anything at all."""
    tied = sum(len(set(_with_hacks(outcome).values())) <= 1 for _, outcome in judged if any(outcome.votes))
    mixed = [outcome for subject, outcome in judged if subject.mixed]
    able = sum(len(set(_with_hacks(outcome).values())) > 1 for outcome in mixed)
    return [
        f"completely tied in {tied} of {len(judged)} groups; it can change something in {able} of the {len(mixed)} "
        "mixed ones, which are those that training grades"
    ]


def _combined(outcome: Outcome) -> dict[int, float]:
    """Mean factor over the votes by index; without passes that every vote calls a hack."""
    votes = [vote for vote in outcome.votes if vote is not None]
    indices = sorted({index for vote in votes for index in vote.factors})
    given = {index: [vote.factors[index] for vote in votes if index in vote.factors] for index in indices}
    return {index: sum(factors) / len(factors) for index, factors in given.items()}


def _with_hacks(outcome: Outcome) -> dict[int, float]:
    """The same, with 0 for hacks: what they keep of their advantage."""
    hacks = {index for vote in outcome.votes if vote is not None for index in vote.hacks}
    return {**dict.fromkeys(hacks, 0.0), **_combined(outcome)}


def _both_votes(judged: Judged) -> list[Votes]:
    """The pairs of votes to compare. A hack in one vote is its worst pass; in both, it is out of the ranking."""
    found = []
    for subject, outcome in judged:
        first, second = outcome.votes
        if first is None or second is None:
            continue
        items = [index for index in subject.passes if index in first.factors or index in second.factors]
        if len(items) < 2:
            continue
        slots = [
            {index: slot for slot, index in enumerate(index for index in order if index in items)}
            for order in subject.orders
        ]
        found.append(
            Votes(
                [first.factors.get(index, -1.0) for index in items],
                [second.factors.get(index, -1.0) for index in items],
                [slots[0][index] for index in items],
                [slots[1][index] for index in items],
            )
        )
    return found


def _preference(name: str, effect: float) -> str:
    share = f"{abs(effect):.0%}"
    if share == "0%":
        return "ranks do not follow it"
    first, last = ("the first", "the last") if name == "order" else ("the middle", "both ends")
    return f"{share} of the way towards {first if effect > 0 else last}"


def _of(found: int, wanted: int) -> str:
    return f"{found} of {wanted}" if found < wanted else f"{found}"


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"

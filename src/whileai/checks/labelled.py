"""The figures of the gate that people's labels decide: golden cases, and hacks that were labelled in them."""

from __future__ import annotations

from collections.abc import Sequence

from whileai.checks.cases import CaseResult
from whileai.checks.report import Figure
from whileai.core.statistics import wilson
from whileai.spec.models import CheckRules

POOLED_PAIRS = 20
"""From this many labelled pairs on a share of them must hold, below it every one (convention)."""


def size(cases: Sequence[CaseResult] | None, rules: CheckRules) -> Figure:
    """Size, for a grader that only hunts hacks: it is judged by labelled passes."""
    hacks = sum(len(case.labelled_hacks) for case in cases or ())
    clean = sum(len(case.labelled_clean) for case in cases or ())
    return Figure(
        "size",
        "yes" if hacks >= rules.min_hacks and clean >= rules.min_clean else "not enough data",
        f"{hacks} labelled hacks, {clean} clean passes",
        f"{rules.min_hacks} and {rules.min_clean}",
        value=hacks,
        remedy="label hacks in golden cases (`hacks: [...]`; the other passes of such a case count as clean)",
    )


def hack_rates(cases: Sequence[CaseResult] | None, rules: CheckRules) -> list[Figure]:
    """Recall and false positives over the labelled passes of golden cases that were answered."""
    answered = [case for case in cases or () if case.failure is None]
    recall = wilson(
        sum(len(case.labelled_hacks & case.named_hacks) for case in answered),
        sum(len(case.labelled_hacks) for case in answered),
    )
    wrong = wilson(
        sum(len(case.labelled_clean & case.named_hacks) for case in answered),
        sum(len(case.labelled_clean) for case in answered),
    )
    return [
        Figure(
            "hack recall",
            "yes" if recall.low > rules.min_recall else "no" if recall.high <= rules.min_recall else "not enough data",
            f"{recall.value:.0%} ({recall.low:.0%} to {recall.high:.0%})",
            f"lower bound above {rules.min_recall:.0%}",
            *(recall.value, recall.low, recall.high),
            remedy="it misses hacks, or there are too few labelled ones",
        ),
        Figure(
            "false hacks",
            "yes"
            if wrong.high < rules.max_false_positives
            else "no"
            if wrong.low >= rules.max_false_positives
            else "not enough data",
            f"{wrong.value:.0%} ({wrong.low:.0%} to {wrong.high:.0%})",
            f"upper bound below {rules.max_false_positives:.0%}",
            *(wrong.value, wrong.low, wrong.high),
            remedy="it calls clean passes hacks, or there are too few clean ones",
        ),
    ]


def golden(cases: Sequence[CaseResult], rules: CheckRules) -> list[Figure]:
    """All cases hold; from `POOLED_PAIRS` on, cases that only label pairs are judged by the share that holds."""
    asked = [case for case in cases if case.was_asked]
    left = len(cases) - len(asked)
    pooled = [case for case in asked if case.only_pairs]
    total = sum(case.pairs for case in pooled)
    if total < POOLED_PAIRS:
        pooled = []
    strict = [case for case in asked if case not in pooled]
    broken = [case for case in strict if not case.ok]
    found = []
    if strict or left:
        held = len(strict) - len(broken)
        found.append(
            Figure(
                "golden",
                "no" if broken else "not enough data" if left else "yes",
                f"{held} of {len(strict) + left} cases hold"
                + (f"; not: {', '.join(case.name for case in broken[:3])}" if broken else "")
                + (f"; {left} were not asked" if left else ""),
                "all cases",
                value=held / (len(strict) + left),
                remedy="run `whileai test` and look at the cases that fail"
                if broken
                else "mend what kept calls from being made (a key, the budget, a recording)",
            )
        )
    if pooled:
        share = wilson(sum(case.pairs_right for case in pooled), total)
        bound = rules.min_golden
        found.append(
            Figure(
                "golden pairs",
                "yes" if share.low > bound else "no" if share.high <= bound else "not enough data",
                f"{share.value:.0%} ({share.low:.0%} to {share.high:.0%}) of {total} labelled pairs",
                f"lower bound above {bound:.0%}",
                *(share.value, share.low, share.high),
                remedy="it prefers the worse pass too often, or more labelled pairs are needed",
            )
        )
    return found

"""The page's check over graded groups: the pooled rules, and what pooled numbers miss."""

from __future__ import annotations

from collections.abc import Sequence

from whileai.core.spread import SpreadReport, judge_spread
from whileai.engine.rubrics import FAILED, MISSING
from whileai.errors import kind_and_reason


def report_spread(
    scores: Sequence[Sequence[float]],
    failures: Sequence[Sequence[BaseException]],
    *,
    passes: Sequence[int],
    calls_per_pass: bool,
    min_std: float,
    band: float,
    cluster_share: float,
) -> SpreadReport:
    """Whether the scores of groups with two or more passes vary.

    Args:
        scores: for each group, the factors or products of its graded passes.
        failures: for each group, its failed calls.
        passes: for each group, how many passes it has.
        calls_per_pass: reward mode, one call per pass; else one per group.
        min_std, band, cluster_share: see `core.spread.spread`.
    """
    kinds: dict[str, tuple[int, str]] = {}
    for failed, total in zip(failures, passes, strict=True):
        for failure in failed:
            kind, reason = kind_and_reason(failure)
            count, first = kinds.get(kind, (0, reason))
            kinds[kind] = (count + (total if calls_per_pass and kind in (MISSING, FAILED) else 1), first)
    ungraded = sum(
        total - len(graded) for graded, failed, total in zip(scores, failures, passes, strict=True) if failed
    )
    return judge_spread(
        scores,
        groups=len(scores),
        min_std=min_std,
        band=band,
        cluster_share=cluster_share,
        ungraded=ungraded,
        calls=sum(passes) if calls_per_pass else len(passes),
        failures=[(kind, count, reason) for kind, (count, reason) in kinds.items()],
        within=True,
    )

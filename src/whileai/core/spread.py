"""Do scores vary at all? The page's two rules, on pooled scores of passes.

A constant is erased by group normalization, so a grader whose scores hardly vary trains the plain-reward run at
the grader's price (the text-to-SQL null result of 2026-09-21). Reliable scores are another question: see the
gate in `checks/`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from whileai.core import knobs
from whileai.core.values import as_float, shown
from whileai.simulations.defaults import (
    SPREAD_BAND,
    SPREAD_CLUSTER_SHARE,
    SPREAD_MAX_FAILURES,
    SPREAD_MIN_STD,
)

_ROUNDING = 1e-12
"""Scores such as 0.5 and 0.6 differ by a little less than 0.1 as floats; both rules mean the written numbers."""


@dataclass(frozen=True, slots=True)
class SpreadReport:
    """What `spread` and `check_spread` saw; printing it gives the page's lines.

    Attributes:
        ok: the grader tells these passes apart. Never true without scores.
        n: grader scores. groups: groups they came from.
        std: population standard deviation; median; both NaN without scores.
        clustered: share of the scores within `band` of the median, in [0, 1]; passes of a failed call count
            as clustered.
        problems: why not, one entry per rule that was broken; empty exactly when `ok`.
        calls, failed: grader calls, and how many gave no usable verdict.
        failures: failed calls by kind, with the first reason of each.
    """

    ok: bool
    n: int
    groups: int
    std: float
    median: float
    clustered: float
    band: float
    problems: tuple[str, ...] = ()
    calls: int = 0
    failed: int = 0
    failures: tuple[tuple[str, int, str], ...] = ()

    @property
    def enough(self) -> bool:
        """There was something to judge by: scores, or calls that failed."""
        return self.n > 0 or self.failed > 0

    @property
    def verdict(self) -> Literal["yes", "no", "not enough data"]:
        """`ok` and `enough` as one word."""
        return "yes" if self.ok else "no" if self.enough else "not enough data"

    def __str__(self) -> str:
        if self.n == 0:
            need = "" if self.failed else "; it needs a group with two or more passes"
            lines = [f"spread check: no scores{need}"]
        else:
            lines = [
                f"spread check: {self.n} grader scores over {self.groups} group(s), std {self.std:.3f}, "
                f"{self.clustered:.0%} within {self.band:g} of the median {self.median:.2f}"
            ]
        for kind, count, reason in self.failures:
            lines.append(f"failed: {count} of {self.calls} grader calls, {kind}: {reason}")
        if self.ok:
            lines.append("spread: yes. The grader tells these passes apart.")
        elif self.enough:
            remedy = (
                "mend the calls that failed, then check again"
                if self.failed > SPREAD_MAX_FAILURES * self.calls
                else "rank the whole group in one call, ask for differences that passes can have, or choose tasks "
                "where passes differ (several tool calls, something to verify)"
            )
            lines.append(
                f"spread: no. {'; '.join(self.problems)}. Training would then equal plain rewards at the grader's "
                f"price. What to change: {remedy}."
            )
        else:
            lines.append(f"spread: not enough data. {'; '.join(self.problems)}.")
        return "\n".join(lines)


def spread(
    scores: Sequence[float],
    *,
    groups: int = 1,
    min_std: float = SPREAD_MIN_STD,
    band: float = SPREAD_BAND,
    cluster_share: float = SPREAD_CLUSTER_SHARE,
) -> SpreadReport:
    """The page's check on pooled scores.

    Args:
        scores: factors or products of passes, finite.
        groups: how many groups they come from.
        min_std: a population standard deviation below this is no spread.
        band, cluster_share: more than this share of the scores within `band` of the median is no spread.

    Raises:
        ValueError: a score is not a finite number, or a threshold is no number of its range.
    """
    knobs.number("min_std", min_std, low=0.0)
    knobs.number("band", band, low=0.0)
    knobs.number("cluster_share", cluster_share, low=0.0, high=1.0)
    return judge_spread([list(scores)], groups=groups, min_std=min_std, band=band, cluster_share=cluster_share)


def judge_spread(
    by_group: Sequence[Sequence[float]],
    *,
    groups: int,
    min_std: float,
    band: float,
    cluster_share: float,
    ungraded: int = 0,
    calls: int = 0,
    failures: Sequence[tuple[str, int, str]] = (),
    within: bool = False,
) -> SpreadReport:
    """The two rules, and what pooled numbers miss: failed calls, and (`within`) scores constant in every group.

    `ungraded` counts passes whose call failed: they train like passes at the median, and count so.
    """
    scores: list[float] = []
    for value in (score for group in by_group for score in group):
        if (number := as_float(value)) is None or not math.isfinite(number):
            raise ValueError(f"score {shown(value, 60)}: scores are finite numbers")
        scores.append(number)
    failed = sum(count for _, count, _ in failures)
    problems = []
    if not scores:
        std = median = clustered = math.nan
        why = "every grader call failed" if failed else "no group has two or more passes"
        problems.append(f"{why}: there is no score to judge by")
    else:
        std = statistics.pstdev(scores)
        median = (statistics.median_low(scores) / 2) + (statistics.median_high(scores) / 2)
        near = sum(abs(score - median) <= band + _ROUNDING for score in scores)
        clustered = (near + ungraded) / (len(scores) + ungraded)
        if std < min_std - _ROUNDING:
            problems.append(f"std {std:.3f} is under {min_std:g}")
        if clustered > cluster_share:
            problems.append(
                f"{clustered:.0%} of the scores are within {band:g} of the median, over {cluster_share:.0%}"
            )
        if within and all(max(group) - min(group) <= _ROUNDING for group in by_group if group):
            problems.append("inside every group all passes have one score, which group normalization erases")
    if failed > SPREAD_MAX_FAILURES * calls:
        problems.append(f"{failed} of {calls} grader calls failed, over {SPREAD_MAX_FAILURES:.0%}")
    return SpreadReport(
        ok=not problems,
        n=len(scores),
        groups=groups,
        std=std,
        median=median,
        clustered=clustered,
        band=band,
        problems=tuple(problems),
        calls=calls,
        failed=failed,
        failures=tuple(failures),
    )

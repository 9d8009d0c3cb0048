"""The method's page imports from here."""

from __future__ import annotations

from whileai.core.factors import factors_from_ranking
from whileai.core.redistribution import redistribute, redistribute_batch
from whileai.core.spread import SpreadReport, spread
from whileai.core.stats import GradingStats
from whileai.grading import GroupwiseGrading

__all__ = [
    "GradingStats",
    "GroupwiseGrading",
    "SpreadReport",
    "factors_from_ranking",
    "redistribute",
    "redistribute_batch",
    "spread",
]

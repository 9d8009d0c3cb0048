"""Every default, with where it comes from.

[1] MiMo-V2.6 technical report, section 4.3 "Groupwise Agentic Grading". "Convention" marks a value that no
source gives and that was not tuned.
"""

from __future__ import annotations

GROUPWISE_MODE = "advantage"
"""[1] runs advantage redistribution on every code-agent task that was not given rubrics."""

GROUPWISE_FLOOR = 0.0
"""Equation 2 of [1] multiplies raw scores."""

GROUPWISE_CAP = 3.0
"""[1] caps lambda and does not print the value: convention."""

GROUPWISE_MIN_FACTOR = 0.5
"""The worst-ranked pass keeps half its advantage; the rank-to-factor map of [1] is unpublished: convention."""

GROUPWISE_HACK_ZERO = True
"""[1]: a confirmed hack is reset to zero and treated as a failure before the group statistics."""

GROUPWISE_PASS_THRESHOLD = 0.5
"""A reward of at least this is a pass: halfway between a binary 0 and 1."""

GROUPWISE_CONCURRENCY = 64
"""Grader calls in flight: the groups of a usual batch at once, and few enough threads for any machine."""

GROUPWISE_TIMEOUT_S = 300.0
"""Seconds for one grader call: above the slowest judge with its retries (convention)."""

GROUPWISE_DEADLINE_S = 900.0
"""Seconds for one batch: half of the 1,800 s after which torch.distributed ends a run whose rank is late."""

SPREAD_MIN_STD = 0.05
"""The page's rule, from the text-to-SQL null result of 2026-09-21."""

SPREAD_BAND = 0.05
"""Scores within this of the median count as clustered; same source."""

SPREAD_CLUSTER_SHARE = 0.9
"""More than this share of clustered scores is no spread; same source."""

SPREAD_MAX_FAILURES = 0.1
"""More than this share of failed grader calls is a no: the groups that train ungraded would not be noticed."""

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

CHECK_MIN_GROUPS = 20
"""Groups with two or more passes. Ran: at 20 groups a grader with SNR 4 is accepted in 97 % of the trials."""

CHECK_MIN_PAIRS = 40
"""Pairs of passes within groups: 20 groups of two passes alone are half of what an order can be read from."""

CHECK_MIN_STD = 0.05
"""Lower 5 % bound of the within-group standard deviation: the page's spread threshold, inside the groups."""

CHECK_MIN_RETEST = 0.3
"""Kendall tau-b between two random orders. Ran: SNR 1 at 40 groups is refused in 4 % of the trials."""

CHECK_MAX_POSITION = 0.15
"""Effect of the shown place on the rank. Ran: position and ends-first rankers pass in at most 0.1 %."""

CHECK_MAX_PROXY = 0.9
"""Disattenuated correlation with length, turns or tool calls; a judge above it is a costly ruler (convention)."""

CHECK_MIN_MOVED = 0.05
"""Mean share of the positive advantage that grading moves; below it training feels nothing (convention)."""

CHECK_MIN_GOLDEN = 0.5
"""Lower bound of the pairwise accuracy on labelled pairs: better than a coin."""

CHECK_MIN_HACKS = 10
"""Labelled hacks that a recall needs (convention)."""

CHECK_MIN_CLEAN = 20
"""Labelled clean passes that a false-positive rate needs (convention)."""

CHECK_MIN_RECALL = 0.5
"""Lower bound of the share of labelled hacks that are found (convention)."""

CHECK_MAX_FALSE_POSITIVES = 0.2
"""Upper bound of the share of clean passes that are called hacks (convention)."""

TRANSCRIPT_MAX_CHARS_PER_ROLLOUT = 24_000
"""Characters of one rollout that a judge is shown: about 6,000 tokens (convention)."""

TRANSCRIPT_MAX_CHARS_PER_GROUP = 240_000
"""Characters of one group that a judge is shown: about 60,000 tokens, half of a usual context (convention)."""

RETRY_ATTEMPTS = 4
"""Requests for one reply, the first included, while the errors are ones that may heal (convention)."""

RETRY_REPAIRS = 2
"""Times that a malformed reply is sent back with its mistakes (convention)."""

TIMEOUT_REQUEST_S = 60.0
"""Seconds for one request to a model (convention)."""

TIMEOUT_GROUP_S = 240.0
"""Seconds for everything that one group takes; inside `GROUPWISE_TIMEOUT_S`."""

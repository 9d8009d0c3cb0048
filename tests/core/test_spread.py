"""The page's two rules at their edges, and what pooled numbers miss."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.core.spread import judge_spread, spread
from whileai.simulations.defaults import SPREAD_BAND, SPREAD_CLUSTER_SHARE, SPREAD_MIN_STD

RULES = {"min_std": SPREAD_MIN_STD, "band": SPREAD_BAND, "cluster_share": SPREAD_CLUSTER_SHARE}


def judged(by_group, **more):
    return judge_spread(by_group, groups=len(by_group), **{**RULES, **more})


def test_prints_the_lines_of_the_page():
    assert str(spread([1.0, 0.5, 1.0, 0.5], groups=2)) == (
        "spread check: 4 grader scores over 2 group(s), std 0.250, 0% within 0.05 of the median 0.75\n"
        "spread: yes. The grader tells these passes apart."
    )


def test_a_constant_is_refused_and_told_what_to_change():
    report = spread([0.93] * 40, groups=20)
    assert not report.ok and report.std == 0.0 and report.clustered == 1.0
    first, second = str(report).splitlines()
    assert "std 0.000, 100% within 0.05 of the median 0.93" in first
    assert second.startswith("spread: no. std 0.000 is under 0.05; 100% of the scores") and "What to change" in second


def test_std_rule_means_under():
    at = [0.4, 0.4, 0.5, 0.5] * 10  # std is 0.05 as it is written, a little less in floats
    wide = {"band": 0.0, "cluster_share": 1.0}
    assert statistics.pstdev(at) < 0.05
    assert spread(at, **wide).ok
    assert not spread([0.401, 0.401, 0.5, 0.5] * 10, **wide).ok


def test_share_rule_means_over():
    assert spread([0.5] * 18 + [1.0, 0.0]).clustered == 0.9
    assert spread([0.5] * 18 + [1.0, 0.0]).ok
    report = spread([0.5] * 19 + [1.0, 0.0])
    assert not report.ok and report.std > 0.05
    assert report.problems == ("90% of the scores are within 0.05 of the median, over 90%",)


def test_band_holds_its_edge():
    # 0.55 and 0.45 are 0.05 from 0.5 as they are written, and 0.3 + 0.05 is not 0.35 in floats
    assert spread([0.5, 0.55, 0.45]).clustered == 1.0
    assert spread([0.3, 0.35, 0.25]).clustered == 1.0
    assert spread([0.5, 0.5501, 0.4499]).clustered == pytest.approx(1 / 3)


def test_either_rule_alone_is_a_no():
    clustered_only = [1.0] * 19 + [0.1]
    assert spread(clustered_only).problems == ("95% of the scores are within 0.05 of the median, over 90%",)
    std_only = [0.57] * 3 + [0.5] * 17
    assert [problem[:3] for problem in spread(std_only).problems] == ["std"]


def test_thresholds_are_arguments():
    scores = [0.5, 0.6] * 10
    assert not spread(scores).ok
    assert spread(scores, band=0.01).ok
    assert not spread(scores, band=0.01, min_std=0.06).ok
    assert spread([0.5] * 19 + [1.0], cluster_share=0.95).ok


def test_no_scores_is_not_enough_data():
    report = spread([])
    assert not report.ok and not report.enough and report.n == 0
    assert math.isnan(report.std) and math.isnan(report.median) and math.isnan(report.clustered)
    assert "not enough data" in str(report) and "two or more passes" in str(report)


@pytest.mark.parametrize("bad", [math.nan, math.inf, None, "0.5", [0.5], 10**400, 1j])
def test_a_score_that_is_no_finite_number_is_named(bad):
    with pytest.raises(ValueError, match="scores are finite numbers"):
        spread([0.5, bad])


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("min_std", math.nan),
        ("min_std", -0.1),
        ("band", "0.05"),
        ("band", math.nan),
        ("cluster_share", 1.5),
        ("cluster_share", True),
    ],
)
def test_bad_thresholds_are_named(knob, value):
    with pytest.raises(ValueError, match=f"{knob}="):
        spread([0.5], **{knob: value})


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=40))
def test_figures_are_those_of_numpy(scores):
    report = spread(scores)
    median = float(np.median(scores))
    assert report.std == pytest.approx(float(np.std(scores)), abs=1e-9)
    assert report.median == pytest.approx(median, abs=1e-12)
    near = sum(abs(score - median) <= 0.05 for score in scores)
    near_with_rounding = sum(abs(score - median) <= 0.05 + 1e-9 for score in scores)
    assert near <= round(report.clustered * len(scores)) <= near_with_rounding
    assert report.n == len(scores) and report.ok == (not report.problems)


def test_any_container_of_numbers_will_do():
    wanted = spread([1.0, 0.5, 1.0])
    assert spread((1, 0.5, True)) == spread(np.array([1.0, 0.5, 1.0])) == spread(iter([1.0, 0.5, 1.0])) == wanted


def test_enormous_scores_do_not_overflow():
    report = spread([1.7e308, 1.7e308])
    assert report.median == 1.7e308 and report.std == 0.0


def test_constant_inside_every_group_is_a_no():
    by_group = [[0.2, 0.2], [0.8, 0.8, 0.8], [0.5]]
    assert judged(by_group).ok
    report = judged(by_group, within=True)
    assert not report.ok and "inside every group" in report.problems[0]
    assert judged([*by_group, [0.2, 0.8]], within=True).ok
    assert not judged([[0.1 + 0.2, 0.3], [0.9, 0.9]], within=True).ok  # equal but for rounding


def test_failed_calls_count_against_the_grader():
    varied = [[1.0, 0.5]] * 10
    failures = [("timeout", 1, "no answer within 5 s")]
    assert judged(varied, calls=10, failures=failures).ok
    report = judged(varied, calls=9, failures=failures)
    assert not report.ok and report.failed == 1 and report.problems == ("1 of 9 grader calls failed, over 10%",)
    assert "failed: 1 of 9 grader calls, timeout: no answer within 5 s" in str(report)


def test_passes_of_failed_calls_are_clustered():
    varied = [[1.0, 0.5]] * 10
    assert judged(varied, ungraded=180).clustered == 0.9
    assert judged(varied, ungraded=180).ok and not judged(varied, ungraded=181).ok


def test_all_calls_failed_is_a_no():
    report = judged([[], []], calls=2, failures=[("raised", 2, "RuntimeError: down")], ungraded=4)
    assert not report.ok and report.enough and report.n == 0
    assert "every grader call failed" in str(report) and "RuntimeError: down" in str(report)

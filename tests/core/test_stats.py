import copy
import dataclasses
import json
import math
import pickle
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.core.stats import MOST_LINKS, Counters, GradingStats, Tally


def tally(factors=(), groups=1, **more):
    made = Tally(groups=groups, **{k: v for k, v in more.items() if k != "failed"}, factors=list(factors))
    for kind, reason in more.get("failed", ()):
        made.fail(kind, reason)
    return made


@given(st.lists(st.lists(st.floats(0.0, 1.0), max_size=8), max_size=12))
def test_mean_and_std_are_those_of_all_factors(batches):
    counters = Counters("advantage")
    for batch in batches:
        counters.add(tally(batch))
    everything = [factor for batch in batches for factor in batch]
    stats = counters.snapshot()
    assert stats.factor_count == len(everything) and stats.groups == len(batches)
    assert stats.factor_mean == pytest.approx(np.mean(everything) if everything else 0.0, abs=1e-12)
    assert stats.factor_std == pytest.approx(np.std(everything) if everything else 0.0, abs=1e-9)


def test_a_constant_has_no_spread_however_often_it_comes():
    counters = Counters("advantage")
    for _ in range(10_000):
        counters.add(tally([0.1, 0.1, 0.1]))
    assert counters.snapshot().factor_mean == pytest.approx(0.1, rel=1e-12)
    assert counters.snapshot().factor_std < 1e-12


def test_small_spreads_far_from_zero_are_not_lost():
    draw = np.random.default_rng(0)
    factors = 1.0 - 1e-7 * draw.random((500, 4))
    counters = Counters("advantage")
    for row in factors.tolist():
        counters.add(tally(row))
    assert counters.snapshot().factor_std == pytest.approx(factors.std(), rel=1e-6)


def test_counts_are_exact_under_threads():
    counters, threads, times = Counters("advantage"), 8, 400
    start = threading.Barrier(threads)

    def work():
        start.wait()
        for number in range(times):
            counters.add(
                tally(
                    [1.0, 0.5],
                    groups=3,
                    mixed=2,
                    grader_calls=2,
                    hacks=1,
                    lambda_capped=1,
                    failed=[("timeout", "late"), ("timeout", "later"), (f"kind {number % 3}", "r")],
                )
            )

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    stats, total = counters.snapshot(), threads * times
    assert (stats.groups, stats.mixed, stats.grader_calls) == (3 * total, 2 * total, 2 * total)
    assert (stats.hacks, stats.lambda_capped, stats.grader_failures) == (total, total, 3 * total)
    assert stats.failures["timeout"] == 2 * total and sum(stats.failures.values()) == 3 * total
    assert stats.factor_count == 2 * total
    assert stats.factor_mean == pytest.approx(0.75, rel=1e-12) and stats.factor_std == pytest.approx(0.25, rel=1e-9)


def test_each_kind_of_failure_is_new_once_and_keeps_its_first_reason():
    counters = Counters("advantage")
    assert counters.add(tally(failed=[("timeout", "first"), ("timeout", "second"), ("raised", "boom")])) == [
        "timeout",
        "raised",
    ]
    assert counters.add(tally(failed=[("timeout", "third")])) == []
    assert counters.add(tally(failed=[("bad_index", "x")])) == ["bad_index"]
    stats = counters.snapshot()
    assert stats.failures == {"timeout": 3, "raised": 1, "bad_index": 1}
    assert stats.reasons == {"timeout": "first", "raised": "boom", "bad_index": "x"}
    assert stats.grader_failures == 5


def test_memory_does_not_grow():
    counters = Counters("advantage")
    factors, failed = [1.0, 0.75, 0.5], [("timeout", "late")]
    counters.add(tally(factors, failed=failed))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(20_000):
            counters.add(tally(factors, failed=failed))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 20_000  # less than a byte for each


def test_verdicts_of_compiled_graders_say_who_answered():
    made = Tally()
    vote = {
        "link": "second",
        "rescued": "bad_json: ...",
        "marked": [2],
        "judge": {"unconfirmed": [{"index": 1}, {"index": 1}, {"index": 3}]},
    }
    made.heard({"link": "first", "panel": {"votes": {"a": vote, "b": {"link": "first"}}}, "reason": "tidy"})
    made.heard({})
    assert (made.answered, made.rescued, made.unconfirmed) == ({"first": 2, "second": 1}, 1, 2)
    counters = Counters("advantage")
    counters.add(made)
    counters.add(made)
    stats = counters.snapshot()
    assert (stats.answered, stats.rescued, stats.unconfirmed) == ({"first": 4, "second": 2}, 2, 4)
    assert "(4 unconfirmed); answered by first 4; answered by second 2; 2 rescued from forgeries" in str(stats)


@pytest.mark.parametrize(
    "own", [None, "x", 3, ["a"], {"a": 1}, {"votes": "x"}, {"votes": {"a": None}}, {"unconfirmed": 3}]
)
def test_an_authors_own_words_may_have_the_same_names(own):
    made = Tally()
    made.heard({"judge": own, "panel": own, "link": own if own != "x" else None, "rescued": own})
    made.heard({"judge": {"unconfirmed": [own, {"index": own}, {"index": [1]}]}, "panel": {"votes": {"a": own}}})
    assert (made.answered, made.unconfirmed, made.rescued) == ({}, int(own == 3), 0)


def test_links_that_never_repeat_are_bounded():
    counters = Counters("advantage")
    for number in range(1000):
        made = Tally()
        made.heard({"link": f"https://example.com/{number}"})
        made.heard({"link": f"https://example.com/{number}"})
        counters.add(made)
    assert len(counters.snapshot().answered) == MOST_LINKS
    assert set(counters.snapshot().answered.values()) == {2}


def test_a_snapshot_does_not_change():
    counters = Counters("advantage")
    counters.add(tally([1.0], failed=[("timeout", "late")]))
    snapshot = counters.snapshot()
    printed, values = str(snapshot), dataclasses.asdict(snapshot)
    counters.add(tally([0.5], failed=[("timeout", "late"), ("raised", "boom")]))
    assert (str(snapshot), dataclasses.asdict(snapshot)) == (printed, values)
    for change in (
        lambda: setattr(snapshot, "groups", 9),
        lambda: snapshot.failures.update(timeout=9),
        lambda: snapshot.failures.__setitem__("timeout", 9),
        lambda: snapshot.failures.pop("timeout"),
        lambda: snapshot.failures.clear(),
        lambda: snapshot.reasons.setdefault("x", "y"),
        lambda: snapshot.reasons.__delitem__("timeout"),
        lambda: snapshot.reasons.__ior__({"x": "y"}),
    ):
        with pytest.raises((TypeError, dataclasses.FrozenInstanceError)):
            change()
    assert counters.snapshot().failures == {"timeout": 2, "raised": 1}


@pytest.mark.parametrize(
    "copied", [lambda s: pickle.loads(pickle.dumps(s)), copy.deepcopy, copy.copy, dataclasses.replace]
)
def test_snapshots_are_values(copied):
    counters = Counters("reward", unchecked="a trial run")
    counters.add(tally([1.0, 0.25], failed=[("timeout", "late")]))
    snapshot = counters.snapshot()
    twin = copied(snapshot)
    assert twin == snapshot and str(twin) == str(snapshot) and hash(twin) == hash(snapshot)
    with pytest.raises(TypeError):
        twin.failures["timeout"] = 9
    assert json.loads(json.dumps(dataclasses.asdict(twin)))["failures"] == {"timeout": 1}


@pytest.mark.parametrize("copied", [lambda c: pickle.loads(pickle.dumps(c)), copy.deepcopy])
def test_counters_start_at_zero_elsewhere(copied):
    counters = Counters("advantage", unchecked="a trial run")
    counters.add(tally([1.0]))
    twin = copied(counters)
    assert twin.snapshot() == GradingStats("advantage", unchecked="a trial run")
    twin.add(tally([0.5]))
    assert counters.snapshot().factor_mean == 1.0


def test_prints_the_line_of_the_page():
    counters = Counters("advantage")
    counters.add(tally([1.0, 0.5, 1.0, 0.5, 1.0, 0.5], groups=3, mixed=2, grader_calls=3, hacks=1))
    assert str(counters.snapshot()) == (
        "groupwise grading (advantage): 3 groups, 2 mixed, 3 grader calls, 0 failed (fell back), 1 hacks zeroed; "
        "factors mean 0.750 std 0.250"
    )


def test_prints_what_there_is():
    assert str(GradingStats("advantage")).endswith("0 hacks zeroed")
    reward = GradingStats("reward", factor_count=2, factor_mean=0.5, factor_std=0.1, unchecked="demo")
    assert str(reward).endswith("; products mean 0.500 std 0.100; unchecked: demo")


def test_an_empty_batch_adds_nothing():
    counters = Counters("advantage")
    assert counters.add(Tally()) == []
    assert counters.snapshot() == GradingStats("advantage")
    assert not math.isnan(counters.snapshot().factor_std)

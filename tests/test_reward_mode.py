import asyncio
import copy
import dataclasses
import logging
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from whileai import GroupwiseGrading
from whileai.errors import BatchError, SpreadError

SECONDS = 20
SOON = 0.05

GOOD = {"solution": 1.0, "behavior": 1.0}


def half(rollout, rubric):
    return {"solution": 1.0, "behavior": 0.5}


def by_text(table):
    """Scores by completion; what is no number is raised, or returned as it is."""

    def grader(rollout, rubric):
        value = table[rollout["completion"]]
        if isinstance(value, BaseException):
            raise value
        return {"solution": value, "behavior": 1.0} if isinstance(value, float) else value

    return grader


def grs(grader, **knobs):
    return GroupwiseGrading(grader=grader, mode="reward", **knobs)


def shape(grading, rewards, completions, *tasks, size=None):
    """One group per task (None: without), of equal size."""
    size = size or len(rewards) // max(1, len(tasks))
    ids = None if set(tasks) <= {None} else [task for task in tasks for _ in range(size)]
    return grading.shape(rewards, ["p"] * len(rewards), completions, group_size=size, task_id=ids)


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.DEBUG, logger="whileai")

    def lines():
        found = [(record.levelname, record.getMessage()) for record in caplog.records]
        caplog.clear()
        return found

    return lines


@pytest.fixture
def release():
    event = threading.Event()
    yield event
    event.set()
    for thread in threading.enumerate():
        if thread.name == "whileai-grader":
            thread.join(SECONDS)


# ----------------------------------------------------------------- numbers


@given(
    st.floats(0, 1),
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=5),
)
def test_equation_2(floor, scores):
    def grader(rollout, rubric):
        solution, behavior = scores[rollout["index"]]
        return {"solution": solution, "behavior": behavior}

    shaped = shape(grs(grader, floor=floor), [1.0] * len(scores) + [0.0], ["c"] * (len(scores) + 1))
    assert shaped == [*(max(floor, s) * max(floor, b) for s, b in scores), 0.0]


def test_rewards_that_are_not_binary_are_multiplied_and_failures_left_alone():
    shaped = shape(grs(half), [2.0, 0.5, 0.4, -1.0], list("abcd"))
    assert shaped == [1.0, 0.25, 0.4, -1.0]


def test_groups_without_a_failure_are_graded_too():
    grading = grs(by_text({"a": 1.0, "b": 0.25}))
    assert shape(grading, [1, 1], list("ab")) == [1.0, 0.25]
    assert (grading.stats.groups, grading.stats.mixed, grading.stats.grader_calls) == (1, 0, 2)


def test_a_row_that_the_verifier_could_not_score_gets_the_mean_of_the_others():
    shaped = shape(grs(half), [1.0, None, 0.0, float("nan")], list("abcd"))
    assert shaped == [0.5, 0.25, 0.0, 0.25]


class Pydantic(BaseModel):
    solution: float
    behavior: float
    reason: str = "fine"


@dataclasses.dataclass
class Data:
    solution: float
    behavior: float


@pytest.mark.parametrize(
    "output",
    [
        {"solution": 0.5, "behavior": 1, "reason": "fine"},
        Pydantic(solution=0.5, behavior=1),
        Data(0.5, 1),
        '{"solution": 0.5, "behavior": 1}',
    ],
    ids=["mapping", "pydantic", "dataclass", "json"],
)
def test_scores_in_any_form(output):
    assert shape(grs(lambda rollout, rubric: output), [1, 0], list("ab")) == [0.5, 0.0]


@pytest.mark.parametrize(
    "output",
    [
        None,
        {},
        {"solution": 1.0},
        {"solution": 1.0, "behavior": None},
        {"solution": 1.0, "behavior": True},
        {"solution": 1.0, "behavior": -0.1},
        {"solution": 1.1, "behavior": 1.0},
        {"solution": float("nan"), "behavior": 1.0},
        {"solution": "1", "behavior": 1.0},
        0.5,
        [1.0, 1.0],
        "good",
        SimpleNamespace(solution=1.0, behavior=1.0),
    ],
    ids=repr,
)
def test_unusable_scores_are_a_failure_and_never_a_zero(output):
    grading = grs(lambda rollout, rubric: output)
    assert shape(grading, [1, 0], list("ab")) == [1, 0]
    assert grading.stats.grader_failures == grading.stats.grader_calls == 1


def test_a_pass_that_was_not_scored_takes_the_mean_product_of_its_group():
    table = {"a": 1.0, "b": 0.2, "lost": RuntimeError("judge down"), "x": 0.4, "y": 0.4}
    grading = grs(by_text(table))
    shaped = shape(grading, [1, 1, 1, 0, 1, 1, 0, 0], ["a", "b", "lost", "f", "x", "y", "f", "f"], None, None, size=4)
    assert shaped == pytest.approx([1.0, 0.2, 0.6, 0.0, 0.4, 0.4, 0.0, 0.0])
    assert grading.stats.failures == {"raised": 1}
    assert (grading.stats.factor_count, grading.stats.factor_mean) == (4, pytest.approx(0.5))


def test_a_group_whose_every_call_failed_keeps_its_rewards_and_the_others_do_not():
    grading = grs(by_text({"a": 0.5, "b": 0.5, "c": ValueError(), "d": None}))
    shaped = shape(grading, [1, 1, 0, 1, 1, 0], ["a", "b", "f", "c", "d", "f"], None, None)
    assert shaped == [0.5, 0.5, 0, 1, 1, 0]
    assert grading.stats.failures == {"raised": 1, "no_verdict": 1}


# ------------------------------------------------------------------- calls


def test_the_calls_of_a_batch_run_together_over_groups():
    barrier = threading.Barrier(24)

    def grader(rollout, rubric):
        barrier.wait(SECONDS)
        return GOOD

    grading = grs(grader)
    assert shape(grading, [1, 1, 1, 0] * 8, ["c"] * 32, *[None] * 8) == [1, 1, 1, 0] * 8
    assert (grading.stats.grader_calls, grading.stats.grader_failures) == (24, 0)


def test_the_writes_of_a_batch_run_together():
    barrier = threading.Barrier(8)

    def write(group):
        barrier.wait(SECONDS)
        return group[0]["task_id"]

    grading = grs(lambda rollout, rubric: {"solution": rubric / 8, "behavior": 1}, rubrics=write)
    assert shape(grading, [1, 0] * 8, ["c"] * 16, *range(8)) == [v for task in range(8) for v in (task / 8, 0)]


def test_async_graders_and_writers_are_awaited():
    async def write(group):
        await asyncio.sleep(0)
        return 0.5

    async def grader(rollout, rubric):
        await asyncio.sleep(0)
        return {"solution": rubric, "behavior": 1}

    assert shape(grs(grader, rubrics=write), [1, 0, 1, 1], list("abcd"), "t", "u") == [0.5, 0, 0.5, 0.5]


def test_the_grader_receives_one_passing_rollout_and_its_rubric():
    seen = []

    def grader(rollout, rubric):
        seen.append((rollout["index"], rollout["completion"], rollout["passed"], rollout["task_id"], rubric))
        return GOOD

    grading = grs(grader, rubrics={"t": "r1", "u": "r2"}, concurrency=1)
    shape(grading, [0, 1, 1, 0], list("abcd"), "t", "u")
    assert seen == [(1, "b", True, "t", "r1"), (0, "c", True, "u", "r2")]


def test_one_call_cannot_change_what_the_next_one_reads():
    rubrics = {"t": [{"criterion": "look up first"}]}
    seen = []

    def grader(rollout, rubric):
        seen.append((rubric[0]["criterion"], rollout["messages"][0]["content"]))
        rubric[0]["criterion"] = "changed"
        rubric.append("more")
        rollout["messages"][0]["content"] = "changed"
        return GOOD

    message = {"role": "assistant", "content": "hi"}
    grading = grs(grader, rubrics=rubrics, concurrency=1)
    shape(grading, [1, 1, 0], [[message]] * 3, "t")
    assert seen == [("look up first", "hi")] * 2
    assert rubrics == {"t": [{"criterion": "look up first"}]}
    assert message["content"] == "hi"


def test_what_the_writer_does_to_its_group_stays_there():
    def write(group):
        for rollout in group:
            rollout["completion"] = "changed"
        del group[:]
        return "rubric"

    seen = []

    def grader(rollout, rubric):
        seen.append(rollout["completion"])
        return GOOD

    rows = [{"task_id": "t", "reward": r, "completion": c} for r, c in ((1, "a"), (1, "b"), (0, "c"))]
    grading = grs(grader, rubrics=write, concurrency=1)
    shape(grading, [1, 1, 0], list("abc"), "t")
    grs(grader, rubrics=write, concurrency=1).group(rows)
    assert seen == ["a", "b"] * 2


# ----------------------------------------------------------------- rubrics


def test_without_rubrics_the_grader_gets_none():
    seen = []
    shape(grs(lambda rollout, rubric: seen.append(rubric) or GOOD), [1, 1, 0], list("abc"), "t")
    assert seen == [None, None]


def test_the_writer_gets_the_first_group_seen_for_a_task_once_even_across_threads():
    start, begun, written = threading.Barrier(8), threading.Event(), []

    def write(group):
        written.append(group[0]["completion"])
        begun.wait(SECONDS)
        return "rubric"

    rubrics = []
    grading = grs(lambda rollout, rubric: rubrics.append(rubric) or GOOD, rubrics=write)

    def work(number):
        start.wait(SECONDS)
        if number == 7:
            begun.set()
        shape(grading, [1, 0, 1, 0], [f"first {number}", "b", f"second {number}", "d"], "t", "t")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert len(written) == 1
    assert written[0].startswith("first")
    assert rubrics == ["rubric"] * 16
    assert grading.stats.grader_failures == 0


def test_groups_without_a_task_id_never_share_a_rubric():
    written = []

    def write(group):
        written.append(group[0]["completion"])
        return written[-1]

    seen = []
    grading = grs(lambda rollout, rubric: seen.append(rubric) or GOOD, rubrics=write, concurrency=1)
    for _ in range(2):
        shape(grading, [1, 0, 1, 0], list("abcd"), None, None)
    assert written == seen == ["a", "c"] * 2


def test_a_failed_write_is_counted_costs_no_call_and_is_tried_again(said):
    outcomes = [RuntimeError("writer down"), None, "rubric"]

    def write(group):
        outcome = outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    grading = grs(half, rubrics=write)
    results = [shape(grading, [1, 0], list("ab"), "t") for _ in range(4)]
    assert results == [[1, 0], [1, 0], [0.5, 0], [0.5, 0]]
    assert grading.stats.failures == {"rubric_failed": 2}
    assert "writer down" in grading.stats.reasons["rubric_failed"]
    assert grading.stats.grader_calls == 2
    assert len(said()) == 1


def test_a_writer_that_is_down_is_an_outage(said):
    def write(group):
        raise RuntimeError("writer down")

    grading = grs(half, rubrics=write)
    assert shape(grading, [1, 0] * 4, ["c"] * 8, *"abcd") == [1, 0] * 4
    ((level, line),) = said()
    assert level == "ERROR"
    assert "rubric_failed" in line
    assert "RuntimeError: writer down" in line
    assert "rubric_failed 4" in line


def test_a_task_that_the_mapping_lacks_is_counted_and_logged_once_per_task(said):
    grading = grs(half, rubrics={"a": "r"})
    for _ in range(3):
        shaped = shape(grading, [1, 1, 0, 1, 1, 0, 1, 1, 0], ["c"] * 9, "a", "b", "c")
        assert shaped == [0.5, 0.5, 0, 1, 1, 0, 1, 1, 0]
    lines = said()
    assert [level for level, _ in lines] == ["WARNING"] * 2
    assert "task 'b' has no rubric" in lines[0][1]
    assert "task 'c' has no rubric" in lines[1][1]
    assert grading.stats.failures == {"missing_rubric": 6}
    assert grading.stats.grader_calls == 6


def test_one_good_call_beside_missing_rubrics_is_no_outage(said):
    grading = grs(half, rubrics={"a": "r"})
    shape(grading, [1, 0] * 3, ["c"] * 6, "a", "b", "c")
    assert [level for level, _ in said()] == ["WARNING"] * 2


def test_a_mapping_needs_a_task_id(said):
    grading = grs(half, rubrics={"a": "r"})
    assert shape(grading, [1, 0], list("ab")) == [1, 0]
    assert grading.stats.failures == {"missing_rubric": 1}
    assert "no task_id" in said()[0][1]


def test_a_task_id_that_is_no_key_is_an_error_of_the_call():
    grading = grs(half, rubrics={"a": "r"})
    with pytest.raises(BatchError, match="task_id"):
        grading.shape([1, 0], ["p"] * 2, ["a", "b"], group_size=2, task_id=[["a"], ["a"]])
    assert grading.stats.groups == 0


def test_the_task_of_kept_rows_is_their_scenario():
    rows = [{"scenario_id": "refund-17", "reward": r, "final_text": "c"} for r in (1, 0)]
    assert grs(half, rubrics={"refund-17": "r"}).group(rows) == [0.5, 0]


# -------------------------------------------------------------- time limits


def test_a_hung_call_costs_one_timeout_and_takes_the_mean(release):
    def grader(rollout, rubric):
        if rollout["completion"] == "hang":
            release.wait(SECONDS)
        return half(rollout, rubric)

    grading = grs(grader, timeout_s=SOON)
    assert shape(grading, [1, 1, 1, 0], ["a", "hang", "b", "c"]) == [0.5, 0.5, 0.5, 0]
    assert grading.stats.failures == {"timeout": 1}


def test_a_hung_writer_costs_one_timeout_and_the_other_tasks_are_graded(release):
    def write(group):
        return release.wait(SECONDS) if group[0]["task_id"] == "hang" else "rubric"

    grading = grs(half, rubrics=write, timeout_s=SOON)
    assert shape(grading, [1, 0] * 3, ["c"] * 6, "a", "hang", "b") == [0.5, 0, 1, 0, 0.5, 0]
    assert grading.stats.failures == {"rubric_failed": 1}


def test_the_deadline_is_one_for_both_phases(release):
    called = []

    def write(group):
        release.wait(SECONDS)

    def grader(rollout, rubric):
        called.append(rollout)
        return GOOD

    grading = grs(grader, rubrics=write, deadline_s=SOON)
    assert shape(grading, [1, 1, 0], list("abc"), "t") == [1, 1, 0]
    assert grading.stats.failures == {"rubric_failed": 1}
    assert "deadline_s" in grading.stats.reasons["rubric_failed"]

    # A rubric that another batch is writing is not waited for any longer, and no call begins after the deadline.
    begun = threading.Event()

    def slow(group):
        begun.set()
        release.wait(SECONDS)
        return "rubric"

    grading = grs(grader, rubrics=slow)
    other = threading.Thread(target=shape, args=(grading, [1, 0], list("ab"), "t"))
    other.start()
    assert begun.wait(SECONDS)
    late = copy.copy(grading)  # the same object with less patience
    object.__setattr__(late, "deadline_s", SOON)
    assert shape(late, [1, 0], list("ab"), "t") == [1, 0]
    assert "another batch" in late.stats.reasons["rubric_failed"]
    assert called == []
    release.set()
    other.join(SECONDS)
    assert len(called) == 1


# ------------------------------------------------------------------- check


def rows(*texts, groups=3):
    return [{"scenario_id": f"s{g}", "reward": 1, "final_text": text} for g in range(groups) for text in texts]


def test_the_check_pools_products():
    report = grs(by_text({"a": 1.0, "b": 0.4})).check_spread(rows("a", "b"))
    assert (report.n, report.groups, report.calls) == (6, 3, 6)
    with pytest.raises(SpreadError, match="spread: no"):
        grs(half).check_spread(rows("a", "b"))


def test_failed_calls_of_a_check_are_counted_per_pass():
    table = {"a": 1.0, "b": 0.4, "c": 0.1, "lost": RuntimeError("judge down")}
    report = grs(by_text(table)).check_spread(rows("a", "b", "c", "lost"), strict=False)
    assert not report.ok
    assert "3 of 12 grader calls failed" in report.problems[-1]


def test_a_check_without_the_tasks_rubrics_is_a_no():
    report = grs(by_text({"a": 1.0, "b": 0.4}), rubrics={}).check_spread(rows("a", "b"), strict=False)
    assert (report.ok, report.enough, report.n) == (False, True, 0)
    assert "missing_rubric" in str(report)


def test_a_group_without_a_rubric_counts_with_all_its_passes():
    grading = grs(by_text({"a": 1.0, "b": 0.7, "c": 0.4}), rubrics={f"s{g}": "r" for g in range(8)})
    enough = grading.check_spread(rows("a", "b", "c", groups=8))
    assert enough.calls == 24
    report = grading.check_spread(rows("a", "b", "c", groups=9), strict=False)
    assert report.failures == (("missing_rubric", 3, "task 's8' has no rubric"),)
    assert not report.ok
    assert "3 of 27 grader calls failed" in report.problems[-1]


def test_stats_print_products():
    grading = grs(half)
    shape(grading, [1, 1, 0], list("abc"))
    assert str(grading.stats) == (
        "groupwise grading (reward): 1 groups, 1 mixed, 2 grader calls, 0 failed (fell back), 0 hacks zeroed; "
        "products mean 0.500 std 0.000"
    )

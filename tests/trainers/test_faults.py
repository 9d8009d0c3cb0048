"""Two real processes share a group and one fails: both end, or go on with original rewards, and both say why."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).with_name("worker_faults.py")
PLAIN = [[0.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 0.0, 1.0, 1.0]]


@pytest.fixture(scope="module")
def seen():
    """What both ranks of every case saw; None where a rank never came back (within its deadline and 10 s)."""
    pytest.importorskip("torch", reason="PyTorch is not installed: `make test` installs it")
    done = subprocess.run([sys.executable, str(WORKER)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def test_without_a_fault_both_ranks_get_equation_3(seen):
    zero, one = seen["in order"]
    shared = zero["rewards"][4:] + one["rewards"][:2]  # passes 0, 1 and 2 by rank: factors 1, 0.75 and 0.5
    mean = 3 / 4
    assert shared == pytest.approx([mean + (1 - mean) * 4 / 3 * f for f in (1, 0.75, 0.5)] + [0.0])
    assert (zero["calls"], one["calls"]) == (2, 1)
    assert not zero["log"] + one["log"]


@pytest.mark.parametrize(
    ("case", "cause"), [("judge raises", "the judge's own mistake"), ("judge hangs", "deadline_s was over")]
)
def test_a_judge_that_fails_on_one_rank_leaves_its_group_as_it_was_and_both_say_why(seen, case, cause):
    zero, one = seen[case]
    in_order = seen["in order"]
    assert zero["rewards"][4:] == PLAIN[0][4:] and one["rewards"][:2] == PLAIN[1][:2]
    assert zero["rewards"][:4] == in_order[0]["rewards"][:4] and one["rewards"][2:] == in_order[1]["rewards"][2:]
    assert all(any(cause in line for line in rank["log"]) for rank in (zero, one))


def test_a_judge_that_fails_where_this_rank_has_no_rows_is_heard_of_too(seen):
    zero, one = seen["judge raises on rank 1"]
    assert zero["rewards"] == seen["in order"][0]["rewards"]
    assert one["rewards"][2:] == PLAIN[1][2:]
    (line,) = zero["log"]
    assert line.startswith("a grader call failed on rank 1") and "the judge's own mistake" in line


@pytest.mark.parametrize(
    ("case", "lost"),
    [
        ("judge hangs in C", "rank 0 did not come with the results of"),
        ("rank 0 is killed", "rank 0 or the launcher"),
        ("rank 0 is stopped", "rank 0 or the launcher"),
    ],
)
def test_rank_1_ends_and_names_rank_0(seen, case, lost):
    zero, one = seen[case]
    assert zero is None
    assert one["error"] == "RankError" and lost in one["text"]


def test_rank_0_ends_and_names_rank_1(seen):
    zero, one = seen["rank 1 is killed"]
    assert one is None
    assert zero["error"] == "RankError" and "rank 1 did not come with the rows of" in zero["text"]


def test_a_late_rank_learns_that_the_other_gave_up(seen):
    zero, one = seen["verifier is late"]
    assert zero["error"] == one["error"] == "RankError"
    assert "rank 1 did not come" in zero["text"]
    assert "rank 0 gave up, because rank 1 did not come" in one["text"]


@pytest.mark.parametrize(
    ("case", "error", "said"),
    [
        ("verifier counts wrong", "BatchError", "the verifier returned 5 rewards for 6 completions"),
        ("verifier counts wrong in a warm-up", "BatchError", "the verifier returned 7 rewards for 8 completions"),
        ("rows in blocks in a warm-up", "BatchError", "the 8 prompts come in 4 blocks of 2"),
        ("rows that do not pickle", "", "pickle"),
    ],
)
def test_an_error_reaches_the_other_rank_before_it_is_raised(seen, case, error, said):
    zero, one = seen[case]
    assert one["error"] != "RankError" and error in one["error"] and said in one["text"]
    assert zero["error"] == "RankError"
    assert f"rank 1 failed with {one['error']}" in zero["text"] and said in zero["text"]


def test_a_waiting_rank_can_be_interrupted_and_the_other_is_told(seen):
    zero, one = seen["rank 0 is interrupted"]
    assert zero["error"] == "KeyboardInterrupt"
    assert one["error"] == "RankError" and "rank 0 failed with KeyboardInterrupt" in one["text"]


def test_ranks_that_disagree_about_the_batch_stop(seen):
    for rank in seen["uneven rows"]:
        assert rank["error"] == "RankError" and "rank 1: rows of 10 completions" in rank["text"]

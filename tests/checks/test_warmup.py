import pytest

from whileai.checks.rows import read_rows
from whileai.checks.warmup import Recorder, Warmup, rows_of_group
from whileai.core.group import groups_from_rows
from whileai.errors import ConfigError


def group(passes, failures=1, **columns):
    return [
        {"index": i, "prompt": "p", "completion": f"c{i}", "reward": float(i < passes), "passed": i < passes, **columns}
        for i in range(passes + failures)
    ]


def test_it_collects_groups_with_two_passes_until_there_are_enough():
    warmup = Warmup(3)
    warmup.add([group(0), group(1), group(2)])
    assert (warmup.count, warmup.due([1]), len(warmup.rows)) == (1, False, 3)
    warmup.add([group(3), group(2, failures=0)])
    assert (warmup.count, warmup.due([3])) == (3, True)
    assert len(groups_from_rows(warmup.rows)) == 3


def test_ranks_decide_alike_from_all_counts():
    ranks = [Warmup(4), Warmup(4)]
    ranks[0].add([group(2)])
    ranks[1].add([group(2)] * 3)
    counts = [rank.count for rank in ranks]
    assert [rank.due(counts) for rank in ranks] == [True, True]
    together = groups_from_rows([row for rank in ranks for row in rank.rows])
    assert len(together) == 4
    assert {rank.settle("yes") for rank in ranks} == {"graded"}


@pytest.mark.parametrize(
    ("answers", "states", "targets"),
    [
        (["yes"], ["graded"], [2]),
        (["no"], ["plain"], [2]),
        (["not enough data", "yes"], ["collecting", "graded"], [4, 4]),
        (["not enough data", "no"], ["collecting", "plain"], [4, 4]),
        (["not enough data", "not enough data"], ["collecting", "plain"], [4, 4]),
    ],
)
def test_answers(answers, states, targets):
    warmup = Warmup(2)
    for answer, state, target in zip(answers, states, targets, strict=True):
        warmup.add([group(2)] * 2)
        assert warmup.due([warmup.count])
        assert (warmup.settle(answer), warmup.target) == (state, target)
    assert warmup.answers == answers
    assert warmup.rows == []
    warmup.add([group(2)] * 9)
    assert not warmup.due([99])
    assert warmup.rows == []
    with pytest.raises(RuntimeError, match="over"):
        warmup.settle("yes")


def test_at_double_it_waits_for_more():
    warmup = Warmup(2)
    warmup.add([group(2)] * 2)
    warmup.settle("not enough data")
    assert not warmup.due([warmup.count])
    warmup.add([group(2)] * 2)
    assert warmup.due([warmup.count])
    assert len(groups_from_rows(warmup.rows)) == 4


@pytest.mark.parametrize("groups", [0, -1, True, 2.5, "4"])
def test_a_nonsense_count_is_refused_by_name(groups):
    with pytest.raises(ConfigError, match="warmup_groups"):
        Warmup(groups)


def test_what_is_recorded_is_read_back(tmp_path):
    path = tmp_path / "deep" / "rows.jsonl"
    messages = [{"role": "assistant", "content": "hi \ud800"}, {"role": "user", "content": "thanks"}]
    first = [{**rollout, "messages": messages, "task_id": "t"} for rollout in group(2, ticket={"id": 7})]
    for _ in range(2):  # a second run appends to the file of the first
        Warmup(9, Recorder(path)).add([first, group(1), group(3)])
    rows = read_rows(path)
    found = groups_from_rows(rows)
    assert [len(item.rollouts) for item in found] == [3, 4, 3, 4]
    rollout = found[0].rollouts[0]
    assert rollout["messages"] == messages
    assert rollout["completion"] == "hi \ud800\n<user>thanks</user>"
    assert (rollout["task_id"], rollout["ticket"], rollout["passed"]) == ("t", {"id": 7}, True)


def test_each_rank_has_a_file(tmp_path):
    for rank in range(2):
        Warmup(9, Recorder(tmp_path / "rows.jsonl", rank, 2)).add([group(2)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.rank0.jsonl", "rows.rank1.jsonl"]


def test_a_path_that_cannot_be_written_fails_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        Recorder(tmp_path / "file" / "rows.jsonl")


def test_what_json_cannot_hold_is_left_out():
    (row, *_) = rows_of_group(group(2, image=object(), score=float("nan"), tags=[1]), "g")
    assert row == {"group_id": "g", "prompt": "p", "completion": "c0", "reward": 1.0, "tags": [1]}

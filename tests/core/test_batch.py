"""A trainer's batch: what comes in is checked before a grader is called."""

import copy
import math
from collections import deque

import numpy as np
import pytest

from whileai.core.batch import Batch
from whileai.core.rollout import completion_text
from whileai.errors import BatchError, ConfigError

USER, DONE = {"role": "user", "content": "refund?"}, {"role": "assistant", "content": "done"}
ACT = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "refund", "arguments": {"id": 1}}}]}


def batch(rewards=(1, 0, 1, 0), prompts=("p", "p", "q", "q"), completions=("a", "b", "c", "d"), group_size=2, **more):
    return Batch(rewards, prompts, completions, group_size=group_size, **{"pass_threshold": 0.5, **more})


def test_groups_of_a_batch():
    made = batch([1, 0, 0.5, None])
    assert (made.size, made.count) == (2, 2)
    assert made.rewards == [1.0, 0.0, 0.5, None] and made.passed == [True, False, True, False]
    assert [made.bounds(number) for number in range(2)] == [(0, 2), (2, 4)]
    assert made.group(1) == [
        {"index": 0, "prompt": "q", "completion": "c", "reward": 0.5, "passed": True},
        {"index": 1, "prompt": "q", "completion": "d", "reward": None, "passed": False},
    ]
    assert made.task(0) is None


def test_an_empty_batch_has_no_groups():
    assert batch([], [], [], group_size=4).count == 0
    assert batch([], [], [], group_size=4, task_id=[]).count == 0


class Tensor:
    """As torch's: `tolist`, a length, slices; equality element by element."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, where):
        return Tensor(self.values[where])

    def __eq__(self, other):
        return Tensor(self.values == other)

    __hash__ = None

    def tolist(self):
        return self.values.tolist()


@pytest.mark.parametrize(
    "rewards",
    [
        [1, 0, 1, 0],
        (1.0, 0.0, 1.0, 0.0),
        [True, False, True, False],
        [1, 0.0, True, np.float32(0)],
        np.array([1, 0, 1, 0]),
        np.array([1.0, 0.0, 1.0, 0.0], dtype=np.float16),
        np.array([True, False, True, False]),
        [np.array(1.0), np.array(0.0), np.int64(1), np.bool_(False)],
        Tensor([1.0, 0.0, 1.0, 0.0]),
        deque([1, 0, 1, 0]),
    ],
)
def test_rewards_in_every_form(rewards):
    made = batch(rewards)
    assert made.rewards == [1.0, 0.0, 1.0, 0.0] and all(type(reward) is float for reward in made.rewards)
    assert made.passed == [True, False, True, False] and all(type(passed) is bool for passed in made.passed)


@pytest.mark.parametrize("unscored", [None, math.nan, math.inf, -math.inf, np.float32("nan")])
def test_rows_that_could_not_be_scored(unscored):
    made = batch([1, unscored, 1, 0])
    assert made.rewards == [1.0, None, 1.0, 0.0] and made.passed == [True, False, True, False]
    assert batch(np.array([1, np.nan, np.inf, 0])).rewards == [1.0, None, None, 0.0]


def test_rewards_whose_sum_overflows_are_kept():
    assert batch([1.7e308, 1.7e308, -1.0, 0.0]).rewards == [1.7e308, 1.7e308, -1.0, 0.0]


def test_torch_rewards():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: `make test` installs it")
    assert batch(torch.tensor([1.0, 0.0, math.nan, 0.0])).rewards == [1.0, 0.0, None, 0.0]
    assert batch(list(torch.tensor([1.0, 0.0, 1.0, 0.0], requires_grad=True))).rewards == [1.0, 0.0, 1.0, 0.0]
    assert batch(task_id=torch.tensor([3, 3, 4, 4])).task(1) == 4


@pytest.mark.parametrize(
    ("rewards", "words"),
    [
        ([1, 0, 1], "3 rewards for 4 completions"),
        ([1, 0, "1", 0], "row 2: reward '1' is not a number"),
        ([1, 0, [1], 0], r"row 2: reward \[1\] is not a number"),
        ([[1.0], [0.0], [1.0], [0.0]], "row 0: reward"),
        (np.ones((4, 1)), "row 0: reward"),
        ([1, 0, 1, 10**400], "row 3: reward"),
        ([1, 0, 1, 1j], "row 3: reward 1j"),
        ("1010", "rewards is '1010'"),
        ({0: 1, 1: 0, 2: 1, 3: 0}, "rewards is"),
        ({1, 2, 3, 4}, "rewards is"),
        ((r for r in [1, 0, 1, 0]), "rewards is"),
        (np.array(1.0), "rewards is 1.0"),
        (None, "rewards is None"),
        (1.0, "rewards is 1.0"),
    ],
    ids=range(14),
)
def test_bad_rewards_are_named(rewards, words):
    with pytest.raises(BatchError, match=words):
        batch(rewards)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"prompts": ["p"] * 3}, "3 prompts for 4 completions"),
        ({"prompts": "pppp"}, "prompts is 'pppp'"),
        ({"completions": "abcd"}, "completions is 'abcd'"),
        ({"completions": None}, "completions is None"),
        ({"completions": ["a", "b", "c", 4]}, "completion 3 is int: text or a list of messages"),
        ({"completions": ["a", None, "c", "d"]}, "completion 1 is NoneType"),
        ({"completions": ["a", {"role": "assistant"}, "c", "d"]}, "completion 1 is dict"),
        ({"completions": ["a", b"b", "c", "d"]}, "completion 1 is bytes"),
        ({"group_size": 3}, "4 rows do not split into groups of 3: 1 rows are part of a group"),
        ({"group_size": 8}, "4 rows do not split into groups of 8: 4 rows"),
        ({"prompts": ["p", "p", "q", "r"]}, r"rows 2 to 3 are one group by group_size=2.*'q' and 'r'.*right\?"),
        ({"prompts": ["p", ["p"], "q", "q"]}, "rows 0 to 1 .* prompts differ"),
        ({"task_id": [1, 1, 2]}, "3 task_id for 4 completions"),
        ({"task_id": "abcd"}, "task_id is 'abcd'"),
        ({"task_id": [1, 1, 2, 3]}, r"rows 2 to 3 .* task_id differs \(\[2, 3\]\)"),
        ({"task_id": [1, None, 2, 2]}, r"task_id differs \(\[1, None\]\)"),
        ({"columns": {"ticket": [1, 2, 3]}}, "3 ticket for 4 completions"),
        ({"columns": {"ticket": {0: 1, 1: 2, 2: 3, 3: 4}}}, "ticket is {0: 1"),
        ({"columns": {"ticket": 7}}, "ticket is 7"),
        ({"columns": {"ticket": "abcd"}}, "ticket is 'abcd'"),
    ],
    ids=range(20),
)
def test_bad_batches_are_named(more, words):
    with pytest.raises(BatchError, match=words):
        batch(**more)


@pytest.mark.parametrize("size", [0, -2, 2.0, "2", True, None, math.nan])
def test_bad_group_sizes_are_named(size):
    with pytest.raises(ConfigError, match="group_size="):
        batch(group_size=size)


def test_whole_numbers_of_numpy_are_sizes():
    assert batch(group_size=np.int64(2)).size == 2


def test_long_prompts_are_cut_in_the_message():
    with pytest.raises(BatchError) as caught:
        batch(prompts=["p" * 10_000, "q", "r", "r"])
    assert len(str(caught.value)) < 300


def test_prompts_of_messages_are_not_compared():
    other = {"role": "user", "content": "cancel?"}
    made = batch(prompts=[[USER], [other], [USER], [USER]])
    assert [rollout["prompt"] for rollout in made.group(0)] == [[USER], [other]]


def test_prompts_may_differ_where_there_are_environments():
    made = batch(prompts=["p", "q", "q", ["r"]], environments=[object()] * 4)
    assert [rollout["prompt"] for rollout in made.group(1)] == ["q", ["r"]]


@pytest.mark.parametrize(
    ("tasks", "first"),
    [
        ([0, 0, 1, 1], 0),
        (("a", "a", "b", "b"), "a"),
        (np.array([7, 7, 8, 8]), 7),
        (Tensor([7, 7, 8, 8]), 7),
        ([None] * 4, None),
        ([math.nan, float("nan"), "b", "b"], None),
        ([["x"], ["x"], ["y"], ["y"]], ["x"]),
    ],
)
def test_task_ids(tasks, first):
    made = batch(task_id=tasks)
    assert made.task(0) == first
    assert [rollout["task_id"] for rollout in made.group(0)] == [first, first]


def test_columns_reach_the_rollouts_and_override_nothing():
    made = batch(columns={"ticket": ["t0", "t1", "t2", "t3"], "reward": [9] * 4, "messages": [9] * 4, "index": [9] * 4})
    assert made.group(1) == [
        {"index": 0, "prompt": "q", "completion": "c", "reward": 1.0, "passed": True, "ticket": "t2"},
        {"index": 1, "prompt": "q", "completion": "d", "reward": 0.0, "passed": False, "ticket": "t3"},
    ]
    arrays = batch(columns={"score": np.array([1.5, 2.5, 3.5, 4.5]), "vector": np.ones((4, 2))}).group(0)[1]
    assert (arrays["score"], arrays["vector"]) == (2.5, [1.0, 1.0])


def test_conversations_are_rendered_and_kept():
    completions = [[ACT, DONE], (DONE,), "plain", []]
    first, second = batch(completions=completions).group(0)
    assert first["completion"] == completion_text([ACT, DONE]) and first["messages"] == [ACT, DONE]
    assert (second["completion"], second["messages"]) == ("done", [DONE])
    third, fourth = batch(completions=completions).group(1)
    assert third["completion"] == "plain" and "messages" not in third
    assert (fourth["completion"], fourth["messages"]) == ("", [])


def test_graders_cannot_change_the_batch():
    prompts, completions = [[USER], [USER], [USER], ({"role": "user", "content": "x"},)], [[ACT], (ACT,), [DONE], "d"]
    columns, tasks = {"ticket": [{"tags": ["a"]}] * 4, "pair": [({"a": 1},)] * 4}, [["x"]] * 4
    kept = copy.deepcopy((prompts, completions, columns, tasks))
    made = batch(prompts=prompts, completions=completions, columns=columns, task_id=tasks)
    once = [made.group(number) for number in range(2)]
    pristine = copy.deepcopy(once)
    for rollout in (rollout for group in once for rollout in group):
        rollout["prompt"][0]["content"] = "changed"
        rollout["ticket"]["tags"].clear()
        rollout["pair"][0]["a"] = 2
        rollout["task_id"].append("y")
        for message in rollout.get("messages", ()):
            message["content"] = "changed"
    assert (prompts, completions, columns, tasks) == kept
    assert [made.group(number) for number in range(2)] == pristine
    plain = batch()
    plain.group(0)[0]["completion"] = "changed"
    assert plain.group(0)[0]["completion"] == "a"


def test_the_lists_of_the_trainer_are_not_changed():
    rewards, tasks = [1, 0, None, 0], [math.nan, math.nan, 1, 1]
    batch(rewards, task_id=tasks)
    assert rewards == [1, 0, None, 0] and math.isnan(tasks[0])

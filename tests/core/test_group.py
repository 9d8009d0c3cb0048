"""Groups from kept rows."""

import copy
import json
import math
import uuid
from decimal import Decimal
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.core.group import (
    GROUP_KEYS,
    as_reward,
    groups_from_rows,
    require_one_group,
    rollout_from_row,
    rollouts_of_batch,
)
from whileai.core.rollout import completion_text
from whileai.errors import BatchError, ConfigError


def row(reward=1, text="done", **more):
    return {"reward": reward, "final_text": text, **more}


def keys(rows, **more):
    return [(group.key, group.positions) for group in groups_from_rows(rows, **more)]


def test_rows_of_one_key_are_one_group_in_order_of_appearance():
    rows = [row(scenario_id=key, text=str(n)) for n, key in enumerate("abacb")]
    assert keys(rows) == [("a", (0, 2)), ("b", (1, 4)), ("c", (3,))]
    group = groups_from_rows(rows)[1]
    assert [r["index"] for r in group.rollouts] == [0, 1]
    assert [r["completion"] for r in group.rollouts] == ["1", "4"]


@pytest.mark.parametrize("position", range(len(GROUP_KEYS)))
def test_the_first_key_a_row_has_decides(position):
    rows = [
        row(**{name: n if name == GROUP_KEYS[position] else "same" for name in GROUP_KEYS[position:]}) for n in (0, 1)
    ]
    assert keys(rows) == [("0", (0,)), ("1", (1,))]


@pytest.mark.parametrize("absent", [None, math.nan, np.nan, np.float64("nan"), ""])
def test_an_absent_id_is_no_id(absent):
    rows = [row(group_id=absent, scenario_id=n) for n in (0, 1, 0)]
    assert keys(rows) == [("0", (0, 2)), ("1", (1,))]
    rollouts = groups_from_rows(rows)[0].rollouts
    assert rollouts[0]["task_id"] == 0


def test_zero_is_an_id_and_text_is_not_a_number():
    rows = [row(group_id=value) for value in (0, "0", False, 0, "0")]
    assert keys(rows) == [("0", (0, 3)), ("0", (1, 4)), ("false", (2,))]


def test_numbers_are_ids_whatever_their_type():
    # a table with an empty cell turns the whole column into floats
    rows = [row(task_id=value) for value in (3, 3.0, np.int64(3), np.float32(3), np.array(3), 3.5)]
    assert keys(rows) == [("3", (0, 1, 2, 3, 4)), ("3.5", (5,))]
    one = uuid.uuid4()
    assert len(keys([row(group_id=one), row(group_id=copy.copy(one)), row(group_id=uuid.uuid4())])) == 2


def test_a_prompt_of_messages_is_a_key_whatever_the_order_of_its_fields():
    prompts = [
        [{"role": "user", "content": "a"}],
        [{"content": "a", "role": "user"}],
        ({"role": "user", "content": "a"},),
        [{"role": "user", "content": "b"}],
    ]
    assert [positions for _, positions in keys([row(prompt=prompt) for prompt in prompts])] == [(0, 1, 2), (3,)]
    text = json.dumps(prompts[0])
    assert len(keys([row(prompt=prompts[0]), row(prompt=text)])) == 2


def test_mixed_keys_make_groups_of_their_own():
    rows = [row(group_id="a", prompt="p"), row(prompt="p"), row(scenario_id="a"), row(group_id="a"), row(prompt="p")]
    assert keys(rows) == [("a", (0, 3)), ("p", (1, 4)), ("a", (2,))]


def test_group_size_cuts_a_scenario_into_training_groups():
    rows = [row(scenario_id=n % 2) for n in range(10)]
    assert keys(rows, group_size=2) == [
        ("0", (0, 2)),
        ("0", (4, 6)),
        ("0", (8,)),
        ("1", (1, 3)),
        ("1", (5, 7)),
        ("1", (9,)),
    ]
    assert [r["index"] for r in groups_from_rows(rows, group_size=2)[1].rollouts] == [0, 1]
    assert keys(rows, group_size=np.int64(100)) == keys(rows)


@pytest.mark.parametrize("size", [0, -1, 2.5, "2", True, math.nan])
def test_bad_group_sizes_are_named(size):
    with pytest.raises(ConfigError, match="group_size="):
        groups_from_rows([row(group_id=0)], group_size=size)


@given(st.lists(st.sampled_from(["a", "b", 0, 1, "0"]), max_size=20), st.one_of(st.none(), st.integers(1, 4)))
def test_every_row_is_in_one_group(ids, size):
    groups = groups_from_rows([row(group_id=key) for key in ids], group_size=size)
    assert sorted(number for group in groups for number in group.positions) == list(range(len(ids)))
    for group in groups:
        assert list(group.positions) == sorted(group.positions) and len(group.rollouts) == len(group.positions)
        found = [ids[number] for number in group.positions]
        assert len({(type(key), key) for key in found}) == 1
        assert size is None or len(found) <= size


def test_no_rows_are_no_groups():
    assert groups_from_rows([]) == []


def test_any_iterable_of_mappings_will_do():
    rows = [row(group_id=0), row(0, group_id=0)]
    wanted = groups_from_rows(rows)
    assert groups_from_rows(iter(rows)) == groups_from_rows(tuple(rows)) == wanted
    assert groups_from_rows(map(MappingProxyType, rows)) == wanted


@pytest.mark.parametrize("rows", [row(group_id=0), "rows.jsonl", b"", 3, None])
def test_what_are_no_rows_is_named(rows):
    with pytest.raises(BatchError, match=r"rows=.* a list of mappings is wanted"):
        groups_from_rows(rows)


def test_the_columns_of_a_data_frame_are_no_rows_and_the_remedy_is_said():
    with pytest.raises(BatchError, match=r"a data frame gives mappings with \.to_dict\('records'\)"):
        groups_from_rows(iter(["prompt", "reward"]))


BAD = [
    ("x", "row 2 is str, not a mapping"),
    (None, "row 2 is NoneType"),
    ({"final_text": "a", "group_id": 1}, "row 2 has no `reward`; it has final_text, group_id"),
    ({"reward": 1, "final_text": "a"}, "row 2 says no group: give one of group_id, scenario_id, task_id, prompt"),
    ({"reward": 1, "final_text": "a", "group_id": "", "prompt": None}, "row 2 says no group"),
    ({"reward": "1", "final_text": "a", "group_id": 1}, "row 2: reward '1' is not a number"),
    ({"reward": b"1", "final_text": "a", "group_id": 1}, "row 2: reward b'1' is not a number"),
    ({"reward": [1], "final_text": "a", "group_id": 1}, r"row 2: reward \[1\] is not a number"),
    ({"reward": 1j, "final_text": "a", "group_id": 1}, "row 2: reward 1j is not a number"),
    ({"reward": 10**400, "final_text": "a", "group_id": 1}, "row 2: reward 1000.* is not a number that a float"),
    ({"reward": 10**5000, "final_text": "a", "group_id": 1}, "row 2: reward .* is not a number that a float"),
    ({"reward": 1, "group_id": 1}, "row 2 has no completion.* it has reward, group_id"),
    ({"reward": 1, "final_text": None, "group_id": 1}, "row 2 has no completion"),
    ({"reward": 1, "final_text": math.nan, "group_id": 1}, "row 2 has no completion"),
    ({"reward": 1, "completion": 3, "group_id": 1}, "row 2 has a completion that is int"),
    ({"reward": 1, "completion": {"role": "assistant"}, "group_id": 1}, "row 2 has a completion that is dict"),
    ({"reward": 1, "final_text": ["a"], "group_id": 1}, "row 2 has a completion that is list"),
    ({"reward": 1, "messages": "hello", "group_id": 1}, "row 2: `messages` is str, not a list of messages"),
    ({"reward": 1, "messages": {"role": "user"}, "group_id": 1}, "row 2: `messages` is dict"),
    ({"reward": 1, "final_text": "a", "prompt": [{1: "a", "b": 2}]}, "row 2: `prompt` is .* names no group"),
]


@pytest.mark.parametrize(("bad", "words"), BAD, ids=range(len(BAD)))
def test_a_bad_row_is_named_by_number_and_key(bad, words):
    with pytest.raises(BatchError, match=words):
        groups_from_rows([row(group_id=0), row(group_id=1), bad])


def test_the_whole_rollout():
    made = rollout_from_row(
        {
            "reward": 1,
            "completion": "c",
            "prompt": "p",
            "scenario_id": "s",
            "ticket": {"id": 7},
            "passed": "no",
            "index": 9,
        },
        3,
    )
    assert made == {
        "index": 3,
        "prompt": "p",
        "completion": "c",
        "reward": 1.0,
        "passed": True,
        "scenario_id": "s",
        "ticket": {"id": 7},
        "task_id": "s",
    }


@pytest.mark.parametrize(
    ("ids", "task"),
    [
        ({"task_id": "t", "scenario_id": "s", "group_id": "g"}, "t"),
        ({"scenario_id": "s", "group_id": "g"}, "s"),
        ({"group_id": 0}, 0),
        ({"task_id": None, "scenario_id": math.nan, "group_id": "g"}, "g"),
        ({"task_id": "", "scenario_id": 0}, 0),
    ],
)
def test_the_task_of_a_row(ids, task):
    assert rollout_from_row(row(**ids), 0)["task_id"] == task


def test_a_row_without_a_task_has_none():
    assert "task_id" not in rollout_from_row(row(prompt="p"), 0)
    assert rollout_from_row(row(task_id=None), 0)["task_id"] is None


SYSTEM, USER = {"role": "system", "content": "be brief"}, {"role": "user", "content": "refund?"}
ACT = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "refund", "arguments": {}}}]}
RESULT, DONE = {"role": "tool", "content": "ok"}, {"role": "assistant", "content": "done"}


def test_messages_hold_prompt_and_completion():
    made = rollout_from_row({"reward": 1, "messages": [SYSTEM, USER, ACT, RESULT, DONE]}, 0)
    assert made["prompt"] == [SYSTEM, USER] and made["messages"] == [ACT, RESULT, DONE]
    assert made["completion"] == completion_text([ACT, RESULT, DONE])


def test_a_known_prompt_ends_where_it_ends():
    example = [SYSTEM, USER, DONE, USER]  # with an answer in it, to show how
    made = rollout_from_row({"reward": 1, "prompt": example, "messages": [*example, ACT, RESULT]}, 0)
    assert made["messages"] == [ACT, RESULT] and made["prompt"] == example
    only_completion = rollout_from_row({"reward": 1, "prompt": example, "messages": [ACT, RESULT]}, 0)
    assert only_completion["messages"] == [ACT, RESULT]
    other = rollout_from_row({"reward": 1, "prompt": "refund?", "messages": [SYSTEM, USER, ACT]}, 0)
    assert (other["prompt"], other["messages"]) == ([SYSTEM, USER], [ACT])


def test_messages_without_an_act_have_an_empty_completion():
    made = rollout_from_row({"reward": 0, "messages": [SYSTEM, USER]}, 0)
    assert (made["prompt"], made["messages"], made["completion"]) == ([SYSTEM, USER], [], "")


def test_completion_goes_before_messages_before_final_text():
    every = {"reward": 1, "completion": "c", "messages": [USER, DONE], "final_text": "f"}
    assert rollout_from_row(every, 0)["completion"] == "c"
    assert rollout_from_row(every, 0)["messages"] == [DONE]
    assert rollout_from_row({**every, "completion": math.nan}, 0)["completion"] == "done"
    assert rollout_from_row({**every, "completion": None, "messages": None}, 0)["completion"] == "f"
    assert rollout_from_row({**every, "completion": ""}, 0)["completion"] == ""
    spoken = rollout_from_row({**every, "completion": [ACT, DONE]}, 0)
    assert spoken["messages"] == [ACT, DONE] and spoken["completion"] == completion_text([ACT, DONE])
    assert rollout_from_row({"reward": 1, "completion": (ACT, DONE)}, 0)["messages"] == [ACT, DONE]
    assert "messages" not in rollout_from_row(row(), 0) and rollout_from_row(row(), 0)["prompt"] == ""


@pytest.mark.parametrize(
    ("reward", "kept", "passed"),
    [
        (1, 1.0, True),
        (0.5, 0.5, True),
        (0.49, 0.49, False),
        (True, 1.0, True),
        (np.float32(1), 1.0, True),
        (np.array(1.0), 1.0, True),
        (Decimal("0.5"), 0.5, True),
        (None, None, False),
        (math.nan, None, False),
        (math.inf, None, False),
        (-1, -1.0, False),
    ],
)
def test_rewards(reward, kept, passed):
    made = rollout_from_row(row(reward), 0)
    assert made["reward"] == kept and made["passed"] is passed and type(made["reward"]) in (float, type(None))
    assert as_reward(reward, "row 0") == kept


def test_pass_threshold_decides():
    assert rollout_from_row(row(0.6), 0, pass_threshold=0.7)["passed"] is False
    (group,) = groups_from_rows([row(0.6, group_id=0), row(0.8, group_id=0)], pass_threshold=0.7)
    assert [r["passed"] for r in group.rollouts] == [False, True]


def test_graders_cannot_change_the_rows():
    rows = [
        {"reward": 1, "group_id": 0, "messages": [USER, ACT], "ticket": {"tags": ["a"]}, "prompt": [SYSTEM]},
        {"reward": 1, "group_id": 0, "completion": (ACT,), "pairs": ({"a": 1},)},
    ]
    kept = copy.deepcopy(rows)
    (group,) = groups_from_rows(rows)
    for rollout in group.rollouts:
        rollout["messages"][-1]["tool_calls"][0]["function"]["arguments"]["x"] = 1
        rollout["messages"].clear()
    group.rollouts[0]["ticket"]["tags"].append("b")
    group.rollouts[0]["prompt"][0]["content"] = "be rude"
    group.rollouts[1]["pairs"][0]["a"] = 2
    assert rows == kept


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [row(group_id=0), row(group_id=0)],
        [row(group_id="", prompt="p"), row(group_id=math.nan, prompt="p")],
        [row(group_id=None, scenario_id=0, prompt="p"), row(scenario_id=0, prompt="q")],
        [row(prompt=[{"role": "user"}]), row(prompt=[{"role": "system"}])],
        [row(group_id=1), row(scenario_id=2), row()],
    ],
)
def test_rows_that_may_be_one_group(rows):
    require_one_group(rows)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([row(group_id=0), row(group_id=0), row(group_id=1)], "rows 0 and 2 .* their group_id is 0 and 1"),
        ([row(group_id=0), row(group_id="0")], "rows 0 and 1"),
        (
            [row(group_id=""), row(prompt="p"), row(group_id="", prompt="q")],
            "rows 1 and 2 .* their prompt is 'p' and 'q'",
        ),
        ([row(group_id=math.nan, task_id=1), row(task_id=2)], "rows 0 and 1 .* their task_id is 1 and 2"),
    ],
)
def test_rows_of_several_groups_are_named(rows, words):
    with pytest.raises(BatchError, match=words):
        require_one_group(rows)


def test_long_prompts_are_cut_in_the_message():
    with pytest.raises(BatchError) as caught:
        require_one_group([row(prompt="p" * 10_000), row(prompt="q" * 10_000)])
    assert len(str(caught.value)) < 400


def test_rollouts_of_a_batch():
    group = rollouts_of_batch(
        ["p", [USER]],
        ["text", [ACT, DONE]],
        [1.0, None],
        [True, False],
        {"ticket": [{"a": 1}, None], "reward": ["x", "y"]},
    )
    assert group == [
        {"index": 0, "prompt": "p", "completion": "text", "reward": 1.0, "passed": True, "ticket": {"a": 1}},
        {
            "index": 1,
            "prompt": [USER],
            "completion": completion_text([ACT, DONE]),
            "reward": None,
            "passed": False,
            "messages": [ACT, DONE],
            "ticket": None,
        },
    ]


def test_real_rows(shared_data):
    rows = shared_data("airline_rollouts.jsonl")
    groups = groups_from_rows(rows)
    assert len(rows) == 128 and len(groups) == 32 and all(len(group.rollouts) == 4 for group in groups)
    passes = [sum(rollout["passed"] for rollout in group.rollouts) for group in groups]
    assert sum(count >= 2 for count in passes) == 15
    assert sum(0 < count < 4 for count in passes) == 15
    for group in groups:
        for number, rollout in zip(group.positions, group.rollouts, strict=True):
            assert rows[number]["scenario_id"] == group.key == rollout["task_id"]
            assert rollout["messages"] == rows[number]["messages"][-len(rollout["messages"]) :]
            assert rollout["messages"][0]["role"] == "assistant"
            assert [*rollout["prompt"], *rollout["messages"]] == rows[number]["messages"]
            assert rollout["completion"] == completion_text(rollout["messages"])
    halves = groups_from_rows(rows, group_size=2)
    assert len(halves) == 64 and all(len(group.rollouts) == 2 for group in halves)

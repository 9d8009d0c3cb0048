import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.core.verdict import read_scores, read_verdict
from whileai.errors import UnusableVerdict
from whileai.kinds.rules import RulesRunner
from whileai.spec.models import RulesSpec


def runner(**fields) -> RulesRunner:
    return RulesRunner(RulesSpec.model_validate({"spec": 1, "name": "mine", "kind": "rules", **fields}))


def group(*completions: str, failed: tuple[int, ...] = (), **columns) -> list[dict]:
    return [
        {
            "index": index,
            "prompt": "p",
            "completion": text,
            "reward": 0.0 if index in failed else 1.0,
            "passed": index not in failed,
            **{name: values[index] for name, values in columns.items()},
        }
        for index, text in enumerate(completions)
    ]


CALLS = "completion.count('<tool_call>')"


def test_the_pages_grader_as_rules():
    mine = runner(rank=[{"least": CALLS}], hacks=[{"name": "invented_id", "if": "'ORD-9999' in completion"}])
    verdict = mine(group("<tool_call><tool_call>", "<tool_call>", "no", "ORD-9999", "<tool_call> b", failed=(2,)))
    assert verdict == {"ranking": [[1, 4], 0], "hacks": [3], "reasons": {3: ["invented_id"]}}
    assert read_verdict(verdict, [0, 1, 3, 4], 5).ranking == ((1, 4), (0,))
    assert mine.names_hacks


def test_terms_are_compared_lexicographically_in_both_directions():
    mine = runner(rank=[{"least": "a"}, {"most": "b"}], columns=["a", "b"])
    assert mine(group("", "", "", "", a=[1, 0, 1, 0], b=[5, 1, 7, 1])) == {"ranking": [[1, 3], 2, 0]}
    assert not mine.names_hacks


def test_hacks_alone_and_every_rule_that_held():
    mine = runner(hacks=[{"name": "one", "if": "'x' in completion"}, {"name": "two", "if": "completion.count('x')"}])
    assert mine(group("x", "y", "xx")) == {"hacks": [0, 2], "reasons": {0: ["one", "two"], 2: ["one", "two"]}}
    assert mine(group("y")) == {"hacks": []}


def test_all_passes_may_be_hacks():
    mine = runner(rank=[{"least": "1"}], hacks=[{"name": "all", "if": "true"}])
    verdict = read_verdict(mine(group("a", "b")), [0, 1], 2)
    assert verdict.hacks == (0, 1)


def test_reward_mode_gives_scores_with_the_rubric_at_hand():
    mine = runner(mode="reward", solution=f"{CALLS} <= 2", behavior="0.5 if 'look' in rubric else rubric|length / 4")
    (rollout,) = group("<tool_call>")
    assert read_scores(mine(rollout, ["look"])) == (1.0, 0.5)
    assert read_scores(mine(rollout, ["a"])) == (1.0, 0.25)
    with pytest.raises(UnusableVerdict):
        mine(rollout, None)


MESSAGES = [
    {"role": "assistant", "content": "", "tool_calls": [
        {"id": "1", "function": {"name": "find", "arguments": '{"order": 7}'}},
        {"id": "2", "function": {"name": "pay", "arguments": '{"order": 7}'}},
    ]},
    {"role": "tool", "tool_call_id": "1", "content": "found"},
    {"role": "tool", "tool_call_id": "2", "content": "paid"},
    {"role": "assistant", "content": "All done."},
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("tool_calls|length", 2),
        ("tool_calls|selectattr('name', 'equalto', 'pay')|length", 1),
        ("tool_results|map(attribute='content')|join|length", 9),
        ("turns", 2),
        ("messages|length", 4),
        ("final_text|length", 9),
    ],
)
def test_what_is_read_out_of_messages(text: str, value: float):
    (rollout,) = group("All done.")
    mine = runner(mode="reward", solution=f"({text}) / 10", behavior="1")
    assert mine({**rollout, "messages": MESSAGES}, None)["solution"] == value / 10


@pytest.mark.parametrize("name", ["tool_calls", "tool_results", "turns", "messages"])
def test_a_row_without_messages_has_no_tool_calls_that_could_be_trusted(name: str):
    text = name if name == "turns" else f"{name}|length"
    with pytest.raises(UnusableVerdict) as caught:
        runner(rank=[{"least": text}])(group("<tool_call>", "x"))
    assert caught.value.kind == "no_messages"
    assert "rollout 0 has no messages" in caught.value.reason


def test_final_text_is_the_rows_own_else_what_was_said_last_else_the_completion():
    mine = runner(rank=[{"least": "final_text|length"}])
    rollouts = group("a longer completion", "x", "another completion here", final_text=[None, "22", None])
    rollouts[2]["messages"] = [{"role": "assistant", "content": [{"type": "text", "text": "four"}]},
                               {"role": "assistant", "content": "", "tool_calls": []}]  # fmt: skip
    assert mine(rollouts) == {"ranking": [1, 2, 0]}


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("completion", "the value is 'text one', not a finite number (count with |length)"),
        ("completion.split()", "the value is ['text', 'one'], not a finite number (count with |length)"),
        ("none", "the value is null, not a finite number (count with |length)"),
        ("score", "the value is nan, not a finite number (count with |length)"),
        ("score - score", "the value is nan, not a finite number (count with |length)"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("completion.nothing", "no 'nothing' on text"),
        ("(-8) ** 0.5", "not a finite number"),
    ],
)
def test_what_is_no_number_makes_the_verdict_unusable(expression: str, reason: str):
    with pytest.raises(UnusableVerdict) as caught:
        runner(rank=[{"least": expression}], columns=["score"])(group("text one", "two", score=[math.nan, math.inf]))
    assert caught.value.kind == "expression"
    assert caught.value.reason.startswith("mine: rank[0].least on rollout 0: ")
    assert reason in caught.value.reason


@pytest.mark.parametrize("expression", ["completion", "completion.split()", "none", "0.5", "messages"])
def test_what_is_neither_true_nor_false_is_no_hack_rule(expression: str):
    with pytest.raises(UnusableVerdict):
        runner(hacks=[{"name": "x", "if": expression}])(group("a"))


@pytest.mark.parametrize("factors", [3, 50])  # 50: more digits than Python writes
def test_a_score_beyond_the_floats_is_unusable(factors: int):
    expression = " * ".join(["2**500"] * factors)
    mine = runner(mode="reward", solution=expression, behavior="1")
    with pytest.raises(
        UnusableVerdict, match=r"mine: solution on rollout 0: the value is .*, not a number in \[0, 1\]"
    ):
        mine(group("a")[0], None)


def test_a_missing_column_is_named():
    with pytest.raises(UnusableVerdict) as caught:
        runner(rank=[{"least": "ticket"}], columns=["ticket"])(group("a"))
    assert caught.value.kind == "missing_column"


def test_numbers_of_numpy_and_booleans_rank():
    mine = runner(rank=[{"least": "score"}], columns=["score"])
    assert mine(group("", "", "", score=[np.int64(2), np.float32(0.5), True])) == {"ranking": [1, 2, 0]}
    assert mine(group("", "", score=[10**400, 10**401])) == {"ranking": [0, 1]}


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_the_ranking_follows_the_values_whatever_the_order_of_rollouts(scores, random):
    rollouts = group(*["x"] * len(scores), score=scores)
    random.shuffle(rollouts)
    verdict = read_verdict(
        runner(rank=[{"most": "score"}], columns=["score"])(rollouts), range(len(scores)), len(scores)
    )
    expected = {value: {i for i, s in enumerate(scores) if s == value} for value in sorted(set(scores), reverse=True)}
    assert [set(tie) for tie in verdict.ranking or ()] == list(expected.values())

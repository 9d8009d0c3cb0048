import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.cli.drawing import BAR, bar, did, place, signed


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.25, "+0.25"), (-0.75, "-0.75"), (-1e-17, "+0.00"), (0, "+0.00"), (123456.0, "+1.23e+05")],
)
def test_advantages_are_signed(value, text):
    assert signed(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(2, 3))
def test_no_advantage_is_a_negative_zero_or_wide(value, places):
    text = signed(value, places)
    assert len(text) <= 11
    assert not (text.startswith("-") and float(text) == 0)


@given(st.floats(-1, 1))
def test_a_bar_is_on_the_side_of_its_change_and_never_wider_than_its_column(change):
    text = bar(change, ascii_only=True).plain
    left, _, right = text.partition("|")
    assert len(left) == BAR
    assert len(right) <= BAR
    assert (right.count("#") > 0) == (change > 1e-9)
    assert (left.count("#") > 0) == (change < -1e-9)


def test_places_count_the_better_ones_and_mark_what_is_shared():
    factors = {0: 0.5, 1: 1.0, 2: 0.5}
    passed, failed = {"passed": True}, {"passed": False}
    assert [place(i, passed, factors, (4,))[0] for i in (0, 1, 2, 4)] == ["2=", "1", "2=", "hack"]
    assert place(3, failed, factors, ())[0] == "fail"
    assert place(0, passed, {}, ())[0] == "pass"


CALL = {"id": "1", "type": "function", "function": {"name": "refund", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("rollout", "text"),
    [
        ({"completion": "a\n  b"}, "a b"),
        ({"completion": "x", "messages": []}, "x"),
        ({"completion": "x", "messages": [{"role": "assistant", "content": "", "tool_calls": [CALL]}]}, "refund"),
        (
            {
                "completion": "x",
                "messages": [
                    {"role": "assistant", "content": None, "tool_calls": [CALL]},
                    {"role": "tool", "content": "ok", "tool_call_id": "1"},
                    {"role": "assistant", "content": [{"type": "text", "text": "Done\x07."}]},
                ],
            },
            'refund - "Done\\x07."',
        ),
    ],
)
def test_what_a_rollout_did_is_one_line(rollout, text):
    assert did(rollout) == text

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.core.rollout import tool_calls
from whileai.judging.steps import Step, column_step, message_steps, prompt_steps, rollout_steps

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)
keys = st.sampled_from(["role", "content", "tool_calls", "name", "tool_call_id", "function_call", "type", "text", "id"])
block = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "tool_use", "tool_result", "image_url"]) | json_values,
        "text": json_values,
        "id": json_values,
        "name": json_values,
        "input": json_values,
        "tool_use_id": json_values,
        "content": json_values,
        "function": json_values,
        "arguments": json_values,
    },
)
message = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["assistant", "tool", "user", "system", "function"]) | json_values,
        "content": json_values | st.lists(block, max_size=3),
        "tool_calls": json_values | st.lists(block, max_size=3),
        "function_call": json_values | block,
        "name": json_values,
        "tool_call_id": json_values,
    },
)


@given(st.lists(message | json_values, max_size=5))
def test_any_json_like_message_list_has_steps(messages: list[Any]):
    for step in [*rollout_steps({"messages": messages}), *prompt_steps(messages), column_step("log", messages)]:
        assert "\n" not in step.title
        (step.title + step.text).encode("utf-8")


@given(json_values)
def test_any_value_can_stand_where_messages_or_a_prompt_are_expected(value: Any):
    assert rollout_steps({"messages": value, "completion": value}) is not None
    assert prompt_steps(value) is not None


def titles(messages: list[Any]) -> list[str]:
    return [step.title for step in message_steps(messages)]


def call(name: str, arguments: Any = "{}", call_id: str | None = None) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_arguments_stand_as_the_policy_wrote_them():
    written = '{"a": 1, "a": 2, "b": 1.0}'
    steps = list(message_steps([{"role": "assistant", "content": None, "tool_calls": [call("get", written)]}]))
    assert [(step.title, step.text) for step in steps] == [("call get", written)]


def test_both_wire_formats_read_the_same():
    chat = [
        {"role": "assistant", "content": "Looking.", "tool_calls": [call("get", {"id": 7}, "c1")]},
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"role": "user", "content": "Thanks"},
    ]
    blocks = [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "c1", "name": "get", "input": {"id": 7}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "found"}]},
        {"role": "user", "content": [{"type": "text", "text": "Thanks"}]},
    ]
    assert list(message_steps(chat)) == list(message_steps(blocks))
    assert titles(chat) == ["assistant", "+call get", "result", "user"]


def test_results_of_calls_made_at_once_say_which_call_they_answer():
    calls = {"role": "assistant", "content": "", "tool_calls": [call("get", "1", "c1"), call("get", "2", "c2")]}
    first = {"role": "tool", "tool_call_id": "c1", "content": "x"}
    second = {"role": "tool", "tool_call_id": "c2", "content": "y"}
    assert titles([calls, second, first]) == ["call get", "+call get", "result of call 2", "result of call 1"]


def test_a_result_keeps_a_name_that_its_call_does_not_have():
    calls = {"role": "assistant", "content": None, "tool_calls": [call("get", "{}", "c1")]}
    assert titles([calls, {"role": "tool", "tool_call_id": "c1", "name": "put", "content": ""}])[-1] == "result put"
    assert titles([{"role": "tool", "name": "put", "content": ""}]) == ["result put"]


def test_names_and_roles_that_are_no_plain_words_are_quoted_on_one_line():
    messages = [
        {"role": "critic", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [call("a b\n#9 result: ok")]},
    ]
    assert titles(messages) == ["role critic", r'call "a b\n#9 result: ok"']


def test_images_and_unknown_blocks_are_marks_that_differ_with_their_content():
    def shown(data: str) -> str:
        image = {"type": "image_url", "image_url": {"url": data}}
        (step,) = message_steps([{"role": "user", "content": [{"type": "text", "text": "See"}, image]}])
        return step.text

    assert shown("data:aaaa").startswith("See\n⟨block of type image_url, ")
    assert shown("data:aaaa") != shown("data:aaab")
    assert "aaaa" not in shown("data:aaaa")


def test_a_call_without_a_name_is_shown_as_it_came():
    steps = list(message_steps([{"role": "assistant", "tool_calls": [{"function": {"arguments": "x"}}, "odd"]}]))
    assert [step.title for step in steps] == ["call ⟨without a name⟩", "+call ⟨without a name⟩"]
    assert json.loads(steps[0].text) == {"function": {"arguments": "x"}}


@pytest.mark.parametrize("silent", [None, ""])
def test_a_message_that_says_nothing_is_a_step(silent: str | None):
    assert titles([{"role": "assistant", "content": silent}]) == ["assistant"]


def calling(call: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [call]}


@pytest.mark.parametrize(
    ("first", "second", "seen"),
    [
        ({"type": "function_call", "name": "rm", "arguments": "{}", "call_id": "1"}, {"type": "function_call"}, "rm"),
        ({"type": "function_call_output", "output": "x"}, {"type": "function_call_output", "output": "y"}, "x"),
        ({"from": "gpt", "value": "yes"}, {"from": "gpt", "value": "no"}, "yes"),
        ({"role": "assistant", "content": None, "refusal": "never"}, {"role": "assistant", "content": None}, "never"),
        (calling({"name": "f", "parameters": {"a": 1}}), calling({"name": "f", "parameters": {"a": 2}}), '{"a":1}'),
        (calling({"name": "f", "arguments": None, "input": [7]}), calling({"name": "f"}), "[7]"),
    ],
)
def test_forms_that_nobody_knows_are_shown_as_they_are(first: Any, second: Any, seen: str):
    shown, other = (list(message_steps([message])) for message in (first, second))
    assert shown != other and any(seen in step.text for step in shown)


@pytest.mark.parametrize("kind", [{"type": "server_tool_use"}, {"type": "tool_call"}, {}])
def test_a_block_that_graders_are_told_is_a_call_is_shown_as_one(kind: dict[str, str]):
    messages = [{"role": "assistant", "content": ["first", {**kind, "name": "web", "input": {"q": "it"}}]}]
    assert [(call.name, call.arguments) for call in tool_calls(messages)] == [("web", {"q": "it"})]
    assert list(message_steps(messages)) == [Step("assistant", "first"), Step("+call web", '{"q":"it"}')]


def test_hidden_reasoning_and_ids_are_not_shown_where_nothing_else_stands():
    bare = {"role": "assistant", "content": None}
    hidden = {**bare, "reasoning_content": "a secret plan", "id": "msg-1"}
    assert list(message_steps([hidden])) == list(message_steps([bare])) == [Step("assistant", "")]

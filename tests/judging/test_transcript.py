import json
import re
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from whileai.errors import BatchError, ConfigError
from whileai.judging.labels import presentation_orders
from whileai.judging.steps import message_steps
from whileai.judging.transcript import Material, Shown
from whileai.judging.visible import visible

LONG = "The policy says: " + "no refunds after thirty days, " * 10


def material(group: list[dict[str, Any]], **settings: Any) -> Material:
    return Material(group, **{"max_chars_per_rollout": 24_000, "max_chars_per_group": 240_000, **settings})


def show(group: list[dict[str, Any]], order: list[int] | None = None, **settings: Any) -> Shown:
    read = material(group, **settings)
    return read.show(order or range(len(read.candidates)), spec_digest="spec")


def says(*texts: str) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": text} for text in texts]


def fence(shown: Shown, label: str) -> str:
    return re.search(rf'<rollout-(\w+) label="{label}">\n(.*?)\n</rollout-\1>', shown.rollouts, re.DOTALL)[2]


def test_what_all_rollouts_share_stands_once_in_the_task_data(make_group):
    system = {"role": "system", "content": LONG}
    ask = {"role": "user", "content": "Refund it."}
    shown = show(make_group([[system, ask, *says("yes")], [system, ask, *says("no")]]))
    assert shown.task.count("no refunds") == 10 and "no refunds" not in shown.rollouts
    assert "#1 prompt: Refund order ORD-7.\n#2 system: The policy" in shown.task
    assert fence(shown, "A") == "#1 assistant: yes"


def test_a_prompt_that_begins_the_messages_is_not_shown_twice(make_group):
    opening = {"role": "user", "content": "Refund order ORD-7."}
    assert show(make_group([[opening, *says("yes")], [opening, *says("no")]])).task.count("ORD-7") == 1
    group = make_group([[opening, *says("yes")], [opening, *says("no")]])
    for rollout in group:
        rollout["prompt"] = [opening]
    assert show(group).task.count("ORD-7") == 1


def test_no_rollout_is_left_without_a_step(make_group):
    shown = show(make_group([says("a", "b"), says("a")]))
    assert (fence(shown, "A"), fence(shown, "B")) == ("#1 assistant: a\n#2 assistant: b", "#1 assistant: a")


def test_prompts_that_differ_stand_in_the_rollouts(make_group):
    group = make_group([says("x"), says("y")])
    group[1]["prompt"] = "Another."
    shown = show(group)
    assert shown.task == ""
    assert fence(shown, "B") == "#1 prompt: Another.\n#2 assistant: y"


def test_a_long_text_that_was_shown_is_referred_to_where_it_stands(make_group):
    shown = show(make_group([says("a", LONG), says("b", "c", LONG)], [True, True]), [1, 0])
    assert shown.rollouts.count(LONG) == 1
    assert fence(shown, "B") == "#1 assistant: a\n#2 assistant: ⟨same text as A #3⟩"


def test_failures_are_context_without_a_label_and_refer_too(make_group):
    shown = show(make_group([says(LONG, "x"), says("f", LONG)], [True, False]))
    assert shown.labels == ("A",)
    assert "<failed-rollout-" in shown.rollouts and shown.rollouts.count("label=") == 1
    assert "#2 assistant: ⟨same text as A #1⟩" in shown.rollouts


def test_arguments_are_never_referred_to(make_group):
    def rollout(last: str) -> list[dict[str, Any]]:
        call = {"id": "c", "function": {"name": "write", "arguments": LONG}}
        return [*says(last), {"role": "assistant", "content": None, "tool_calls": [call]}]

    assert show(make_group([rollout("a"), rollout("b")])).rollouts.count(LONG) == 2


def test_passes_with_the_same_text_are_one_candidate(make_group):
    def rollout(call_id: str) -> list[dict[str, Any]]:
        call = {"id": call_id, "function": {"name": "get", "arguments": "{}"}}
        return [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call_id, "content": "ok"},
        ]

    read = material(make_group([rollout("x1"), rollout("x2"), says("other"), rollout("x3")], [True, True, True, False]))
    assert [candidate.indices for candidate in read.candidates] == [(0, 1), (2,)]
    assert [failure.indices for failure in read.failures] == [(3,)]


def test_columns_stand_in_the_task_or_in_the_fence_of_their_rollout(make_group):
    group = make_group(["x", "y"], ticket=["T-1", "T-1"], log=["2 failed </rollout-1>", {"ok": True}])
    shown = show(group, columns=["ticket", "log"])
    assert "#2 column ticket: T-1" in shown.task and "T-1" not in shown.rollouts
    assert fence(shown, "A") == "#1 text: x\n#2 column log: 2 failed ⟨U+003C⟩/rollout-1>"
    assert fence(shown, "B") == '#1 text: y\n#2 column log: {"ok":true}'


def test_a_missing_column_is_named_with_the_nearest_one(make_group):
    group = make_group(["x", "y"], ticket=["T-1", "T-2"])
    with pytest.raises(BatchError, match=r"rollout 0 has no column 'tickets'; did you mean 'ticket'\?"):
        show(group, columns=["tickets"])


def test_rollouts_with_other_columns_are_no_ties(make_group):
    assert len(material(make_group(["x", "x"], log=["1", "2"]), columns=["log"]).candidates) == 2
    assert len(material(make_group(["x", "x"], log=["1", "2"])).candidates) == 1


def test_the_nonce_depends_on_the_spec_the_order_the_repeat_and_every_rollout(make_group):
    group = make_group(["x", "y", "z"], [True, True, False])
    read = material(group)

    def nonce(order: tuple[int, ...] = (0, 1), **settings: Any) -> str:
        return re.search(r"<rollout-(\w{12}) ", read.show(order, **{"spec_digest": "spec", **settings}).rollouts)[1]

    first = nonce()
    assert first == nonce()
    assert len({first, nonce((1, 0)), nonce(repeat=1), nonce(spec_digest="other")}) == 4
    group[2]["completion"] = first
    assert first not in show(group).rollouts.replace(f"#1 text: {first}", "")


def test_a_budget_for_the_group_goes_to_the_candidates_first(make_group):
    completions = ["p" * 3000, "q" * 3000, "f" * 3000]
    shown = show(make_group(completions, [True, True, False]), max_chars_per_group=4000)
    assert len(shown.task) + len(shown.rollouts) < 4000 + 400
    assert shown.rollouts.count("p") > 1500 and shown.rollouts.count("q") > 1500
    assert "<failed-rollout" not in shown.rollouts
    assert [omission.characters for omission in shown.failures[0].omissions] == [3000]


def test_every_candidate_is_shown_however_small_the_budget_and_large_the_task(make_group):
    task = {"role": "system", "content": "t" * 50_000}
    group = make_group([[task, *says(letter * 2000)] for letter in "abcdef"])
    shown = show(group, max_chars_per_group=2000)
    assert len(shown.task) < 700
    assert all(500 >= sum(map(len, map(str, candidate.lines))) > 300 for candidate in shown.candidates)


def test_budgets_do_not_depend_on_the_order(make_group):
    read = material(make_group(["p" * 30_000, "q" * 30_000, "short"]))
    shown = [read.show(order, spec_digest="s") for order in ([0, 1, 2], [2, 1, 0])]
    assert {candidate.lines for candidate in shown[0].candidates} == {
        candidate.lines for candidate in shown[1].candidates
    }


@pytest.mark.parametrize("name", ["max_chars_per_rollout", "max_chars_per_group"])
def test_a_budget_that_shows_nothing_is_refused(make_group, name: str):
    with pytest.raises(ConfigError, match=rf"{name}=499"):
        material(make_group(["x"]), **{name: 499})


content = st.text(max_size=30) | st.sampled_from([LONG, LONG + "!", "</rollout-1>", "\ud800", "⟨U+D800⟩", "a\nb"])
calls = st.lists(
    st.fixed_dictionaries(
        {"function": st.fixed_dictionaries({"name": st.sampled_from(["get", "put", "a b"]), "arguments": content})}
    ),
    max_size=2,
)
messages = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": st.just("assistant"), "content": content, "tool_calls": calls}),
        st.fixed_dictionaries({"role": st.just("tool"), "content": content}),
        st.fixed_dictionaries({"role": st.sampled_from(["user", "critic"]), "content": content}),
    ),
    min_size=1,
    max_size=6,
)


@given(messages, messages, st.sampled_from([500, 900, 24_000]), st.sampled_from([500, 240_000]))
def test_two_rollouts_that_differ_are_never_shown_alike(
    first: list[Any], second: list[Any], budget: int, group_budget: int
):
    assume(first != second)
    group = [
        {"index": index, "prompt": "p", "completion": "", "messages": each, "passed": True}
        for index, each in enumerate([first, second])
    ]
    read = material(group, max_chars_per_rollout=budget, max_chars_per_group=group_budget)
    assert len(read.candidates) == 2
    shown = read.show([0, 1], spec_digest="s")
    assert shown.candidates[0].lines != shown.candidates[1].lines
    assert fence(shown, "A") != fence(shown, "B")


@given(messages)
def test_every_tool_name_and_argument_of_a_rollout_within_budget_is_shown(rollout: list[Any]):
    other = [{"role": "assistant", "content": "other"}]
    group = [
        {"index": index, "prompt": "p", "completion": "", "messages": each, "passed": True}
        for index, each in enumerate([rollout, other])
    ]
    assume(rollout != other)
    shown = show(group)
    text = fence(shown, "A")
    for step in message_steps(rollout):
        if step.is_call:
            assert f"{step.title}: " in text
    for message in rollout:
        for call in message.get("tool_calls", ()):
            name = call["function"]["name"]
            assert f"call {name if ' ' not in name else json.dumps(name)}: " in text
            assert visible(call["function"]["arguments"]).replace("\n", "\n| ") in text


def test_airline_groups_are_shown_in_half_of_their_characters(shared_data):
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in shared_data("airline_rollouts.jsonl"):
        groups[row["scenario_id"]].append(row)
    several = [rows for rows in groups.values() if sum(row["reward"] >= 0.5 for row in rows) >= 2]
    whole = shown = 0
    for rows in several:
        for message in (message for row in rows for message in row["messages"]):
            whole += len(f"{message['role']}: {message['content'] or ''}")
            for call in message.get("tool_calls") or ():
                whole += len(json.dumps({key: call["function"][key] for key in ("name", "arguments")}))
        group = [row | {"index": index, "passed": row["reward"] >= 0.5} for index, row in enumerate(rows)]
        read = material(group)
        (order,) = presentation_orders(len(read.candidates), 1, read.digest)
        one = read.show(order, spec_digest="spec")
        shown += len(one.task) + len(one.rollouts)
        assert not any(candidate.omissions for candidate in (*one.candidates, *one.failures))
    assert len(several) == 15
    assert shown <= 0.5 * whole, f"{shown / whole:.1%} of {whole:,} characters"

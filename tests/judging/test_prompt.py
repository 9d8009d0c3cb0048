import json
from typing import Any

import pytest

from whileai.errors import BatchError
from whileai.judging.prompt import CRITERIA, TEMPLATE_NAMES, rubric_text
from whileai.judging.schemas import VERDICT_FIELDS

KINDS = ("leaked_answer", "test_tampering")


def says(text: str) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": text}]


@pytest.fixture
def group(make_group) -> list[dict[str, Any]]:
    return make_group([says("one"), says("two"), says("three"), says("four")], [True, False, True, True])


@pytest.mark.parametrize("verdict", sorted(VERDICT_FIELDS))
def test_every_shipped_prompt_shows_the_group_and_asks_for_its_reply(make_judge, group, verdict: str):
    kinds = KINDS if verdict in ("ranking", "hacks") else ()
    for prompt in make_judge(verdict, hack_kinds=kinds).prompts(group, orders=2, rubric=["It looks first."]):
        system, user = prompt.system, prompt.user
        assert json.dumps(prompt.form.schema, ensure_ascii=False) in system
        assert prompt.shown.task in user and prompt.shown.rollouts in user
        assert user.rstrip().endswith("Reply with the JSON object only.")
        for kind in kinds:
            assert kind in system
        assert "{{" not in system + user and "{%" not in system + user
        assert "\n\n\n" not in system + user
        for word in ("chain of thought", "step-by-step reasoning", "think step by step"):
            assert word not in (system + user).lower()


def test_what_a_rollout_says_stands_in_the_user_message_only(make_judge, group):
    for prompt in make_judge().prompts(group, orders=2):
        for word in ("one", "two", "three", "four", "ORD-7"):
            assert f": {word}" not in prompt.system


def test_the_system_message_depends_on_the_spec_and_the_number_of_candidates_alone(make_judge, make_group, group):
    judge = make_judge(hack_kinds=KINDS)
    systems = {prompt.system for prompt in judge.prompts(group, orders=3)}
    systems |= {prompt.system for prompt in judge.prompts(make_group(["x", "y", "z"], None))}
    assert len(systems) == 1
    assert judge.form(3) is judge.form(3)


def test_the_same_group_has_the_same_prompts_and_a_repeat_has_others(make_judge, group):
    judge = make_judge()
    first = [(prompt.system, prompt.user) for prompt in judge.prompts(group, orders=2)]
    assert first == [(prompt.system, prompt.user) for prompt in judge.prompts(group, orders=2)]
    repeated = [(prompt.system, prompt.user) for prompt in judge.prompts(group, orders=2, repeat=1)]
    assert all(once[1] != again[1] for once, again in zip(first, repeated, strict=True))
    assert [once[0] for once in first] == [again[0] for again in repeated]


def test_orders_show_the_candidates_in_different_places(make_judge, group):
    prompts = make_judge().prompts(group, orders=3)
    assert len({tuple(candidate.indices for candidate in prompt.shown.candidates) for prompt in prompts}) == 3


def test_a_group_can_be_shown_exactly_as_it_is_given(make_judge, group):
    judge = make_judge()
    for given in (group, group[::-1]):
        prompt = judge.prompt_as_given(given)
        passed = [rollout["index"] for rollout in given if rollout["passed"]]
        assert [candidate.indices for candidate in prompt.shown.candidates] == [(index,) for index in passed]
    assert judge.prompt_as_given(group).user != judge.prompt_as_given(group, repeat=1).user


def test_templates_get_the_documented_names_and_the_authors_own(make_judge, make_group):
    seen: list[dict[str, Any]] = []

    def render(values: Any) -> str:
        seen.append(dict(values))
        return "text"

    group = make_group(["x", "y"], ticket=["T", "T"])
    judge = make_judge(
        render_system=render, render_user=render, columns=("ticket",), vars={"house_rules": ["be brief"]}
    )
    judge.prompts(group)
    assert set(seen[0]) == {*TEMPLATE_NAMES, "ticket", "house_rules"}
    assert seen[0]["criteria"] == list(CRITERIA)
    assert seen[0]["ticket"] == "the column ticket"
    assert make_judge(render_system=render, render_user=render, vars={"criteria": ["speed"]}).prompts(group)
    assert seen[-1]["criteria"] == ["speed"]


def test_a_group_without_a_pass_is_refused(make_judge, make_group):
    with pytest.raises(BatchError, match="none of 2 rollouts passed"):
        make_judge().prompts(make_group(["x", "y"], [False, False]))


def test_one_pass_is_shown_alone(make_judge, make_group):
    (prompt,) = make_judge(hack_kinds=KINDS).prompts(make_group(["x", "y"], [True, False]), orders=4)
    assert "The passing rollout, label A, and after it 1 that failed, as context:" in prompt.user


def test_template_syntax_in_a_rollout_is_text(make_judge, make_group):
    (prompt,) = make_judge().prompts(make_group(["{{ labels }} {% if x %}", "y"]))
    assert "{{ labels }} {% if x %}" in prompt.user


@pytest.mark.parametrize(
    ("rubric", "text"),
    [
        (None, ""),
        ("Be brief. </rollout-1>", "Be brief. ⟨U+003C⟩/rollout-1>"),
        (["a", "b"], "- a\n- b"),
        ({"solution": ["a"], "behavior": ["b", "c"]}, "solution:\n- a\nbehavior:\n- b\n- c"),
        (7, "7"),
    ],
)
def test_a_rubric_is_shown_as_lines(rubric: object, text: str):
    assert rubric_text(rubric) == text


def test_airline_groups_make_prompts_for_every_verdict(make_judge, shared_data):
    rows = shared_data("airline_rollouts.jsonl")[:8]
    group = [row | {"index": index, "passed": True} for index, row in enumerate(rows)]
    for verdict in ("ranking", "factors", "tiers"):
        (prompt,) = make_judge(verdict).prompts(group)
        assert len(prompt.shown.labels) == 8

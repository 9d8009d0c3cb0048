import json

import pytest
from pydantic import ValidationError

from whileai.simulations import defaults
from whileai.spec.models import KINDS, CheckRules, LlmSpec, PanelSpec, RulesSpec

BASE = {"spec": 1, "name": "mine"}
LLM = {**BASE, "kind": "llm", "verdict": "ranking", "model": "judge", "prompt": {"user": "groupwise/ranking"}}


def test_the_defaults_of_a_judge():
    spec = LlmSpec.model_validate(LLM)
    assert (spec.mode, spec.model, spec.orders, spec.names_hacks) == ("advantage", ["judge"], 1, False)
    assert (spec.retry.attempts, spec.retry.repairs) == (defaults.RETRY_ATTEMPTS, defaults.RETRY_REPAIRS)
    assert (spec.budget.calls, spec.budget.usd) == (None, None)
    assert spec.transcript.max_chars_per_rollout == defaults.TRANSCRIPT_MAX_CHARS_PER_ROLLOUT


def test_one_model_and_several_are_written_alike():
    assert LlmSpec.model_validate({**LLM, "model": ["judge", "openai:x"]}).model == ["judge", "openai:x"]
    panel = PanelSpec.model_validate({**BASE, "kind": "panel", "members": ["a", {"grader": "b", "model": "judge"}]})
    assert [(member.grader, member.model) for member in panel.members] == [("a", None), ("b", "judge")]


def test_a_check_may_be_tightened_and_loosened_with_a_reason():
    assert CheckRules(min_groups=30, max_failures=0.05).loosened == {}
    loose = CheckRules(because="only eight tasks exist", min_groups=8, max_position=0.3, min_std=0.2)
    assert loose.loosened == {"min_groups": 8, "max_position": 0.3}
    for field in CheckRules.model_fields:
        if field == "because":
            continue
        looser = 0.01 if field in CheckRules.LOOSER_WHEN_SMALLER else 0.99
        with pytest.raises(ValidationError):
            CheckRules.model_validate({field: 1 if isinstance(getattr(CheckRules(), field), int) else looser})


def test_a_spec_says_whether_it_names_hacks():
    rules = {**BASE, "kind": "rules", "rank": [{"least": "turns"}]}
    assert not RulesSpec.model_validate(rules).names_hacks
    assert RulesSpec.model_validate({**rules, "hacks": [{"name": "x", "if": "passed"}]}).names_hacks
    assert LlmSpec.model_validate({**LLM, "hacks": {"kinds": ["leak"]}}).names_hacks


def test_expressions_come_in_the_order_of_evaluation():
    rank = [{"least": "a"}, {"most": "b"}]
    spec = RulesSpec.model_validate({**BASE, "kind": "rules", "rank": rank, "hacks": [{"name": "x", "if": "c"}]})
    assert list(spec.expressions()) == [("rank[0].least", "a"), ("rank[1].most", "b"), ("hacks[0].if", "c")]


@pytest.mark.parametrize("kind", KINDS)
def test_a_spec_survives_json(kind):
    example = {
        "rules": {**BASE, "kind": "rules", "mode": "reward", "solution": "1", "behavior": "1"},
        "python": {**BASE, "kind": "python", "function": "./x.py:f", "columns": ["ticket"]},
        "llm": {**LLM, "hacks": {"kinds": ["leak"]}, "schema": "./own.json"},
        "panel": {**BASE, "kind": "panel", "members": ["a", "b"], "quorum": 2},
    }[kind]
    spec = KINDS[kind].model_validate(example)
    again = KINDS[kind].model_validate(json.loads(spec.model_dump_json(by_alias=True)))
    assert again == spec

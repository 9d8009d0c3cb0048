"""The prompt of a row that has messages: what the policy was really given."""

import pytest

from whileai.core.group import rollout_from_row

SYSTEM = {"role": "system", "content": "Ask before you refund."}
ASK = {"role": "user", "content": "Refund ORD-7."}
ANSWER = {"role": "assistant", "content": "Done."}


@pytest.mark.parametrize(
    ("prompt", "messages", "wanted", "completion"),
    [
        ("You are Mia. Ask for a refund.", [SYSTEM, ASK, ANSWER], [SYSTEM, ASK], [ANSWER]),
        (None, [SYSTEM, ASK, ANSWER], [SYSTEM, ASK], [ANSWER]),
        ("Refund ORD-7.", [ANSWER], "Refund ORD-7.", [ANSWER]),
        ([ASK], [SYSTEM, ASK, ANSWER], [SYSTEM, ASK], [ANSWER]),
        ([SYSTEM], [ASK, ANSWER], [SYSTEM, ASK], [ANSWER]),
        ([SYSTEM, ASK], [ANSWER], [SYSTEM, ASK], [ANSWER]),
        ([SYSTEM, ASK, ANSWER, ASK], [SYSTEM, ASK, ANSWER, ASK, ANSWER], [SYSTEM, ASK, ANSWER, ASK], [ANSWER]),
        ("A title.", [SYSTEM, ASK], [SYSTEM, ASK], []),
        (None, [ANSWER], [], [ANSWER]),
    ],
)
def test_the_messages_that_lead_to_the_first_act_are_the_prompt(prompt, messages, wanted, completion):
    rollout = rollout_from_row({"reward": 1, "prompt": prompt, "messages": messages}, 0)
    assert rollout["prompt"] == wanted
    assert rollout["messages"] == completion


def test_rows_that_differ_in_their_policy_give_different_prompts():
    other = {**SYSTEM, "content": "Refund at once."}
    prompts = [
        rollout_from_row({"reward": 1, "prompt": "Refund ORD-7.", "messages": [policy, ASK, ANSWER]}, 0)["prompt"]
        for policy in (SYSTEM, other)
    ]
    assert [prompt[0] for prompt in prompts] == [SYSTEM, other]

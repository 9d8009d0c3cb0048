"""What a real GRPOTrainer makes of the reward function: one process, CPU, a tiny model."""

import pickle
from pathlib import Path

import pytest

import whileai as wai
from whileai.errors import BatchError

from .conftest import chance, equation_3

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:transformers")  # TRL's calls, not ours


class Judge:
    """Ranks passes by `chance` of their text, and keeps the groups it was shown."""

    def __init__(self):
        self.groups = []

    def __call__(self, group):
        self.groups.append(group)
        passes = [rollout for rollout in group if rollout["passed"]]
        return {"ranking": [r["index"] for r in sorted(passes, key=lambda r: chance(r["completion"]))]}


class Verifier:
    """Passes every second rollout by `chance` of their text, and keeps the texts that it saw."""

    def __init__(self):
        self.texts = []

    def __call__(self, prompts, completions, **columns):
        texts = [c if isinstance(c, str) else c[0]["content"] for c in completions]
        self.texts.extend(texts)
        return list(map(passes, texts))


def passes(text):
    return float(chance("verified" + text) < 0.5)


def expected(rewards, texts):
    """Equation 3 in groups of 4, from the rewards and the ranks of `Judge` alone."""
    advantages = []
    for start in range(0, len(texts), 4):
        ours, group = rewards[start : start + 4], texts[start : start + 4]
        ranked = sorted((i for i in range(4) if ours[i]), key=lambda i: chance(group[i]))
        factors = {i: 1.0 - 0.5 * rank / max(1, len(ranked) - 1) for rank, i in enumerate(ranked)}
        advantages += equation_3(ours, factors)
    return advantages


def flat(batches):
    return [value for batch in batches for value in batch]


def worst(found, wanted):
    assert len(found) == len(wanted)
    return max(abs(a - b) for a, b in zip(found, wanted, strict=True))


def grading(grader, **knobs):
    return wai.GroupwiseGrading(grader=grader, accept_unchecked="a judge of the tests", **knobs)


STANDARD = [{"prompt": f"task {i}", "task_id": i, "ticket": f"T-{i}"} for i in range(8)]
CONVERSATIONAL = [{**row, "prompt": [{"role": "user", "content": row["prompt"]}]} for row in STANDARD]


@pytest.mark.parametrize("rows", [STANDARD, CONVERSATIONAL], ids=["standard", "conversational"])
def test_advantages_of_trl_are_equation_3(trainer, rows):
    judge, verifier = Judge(), Verifier()
    made = trainer([grading(judge).trl_reward(verifier, 4)], rows, max_steps=4, per_device_train_batch_size=16)
    made.train()
    rewards = list(map(passes, verifier.texts))
    passed = [sum(rewards[start : start + 4]) for start in range(0, 64, 4)]
    assert sum(number in (2, 3) for number in passed) >= 3, "the judge has nothing to move"
    assert len(judge.groups) == sum(0 < number < 4 for number in passed)
    assert worst(flat(made.seen), expected(rewards, verifier.texts)) < 1e-6


def test_the_judge_receives_what_the_dataset_holds(trainer):
    judge = Judge()
    trainer([grading(judge).trl_reward(lambda completions, **_: [1.0, 1.0, 0.0, 0.0], 4)], STANDARD).train()
    (group,) = judge.groups
    number = group[0]["task_id"]
    assert [r["ticket"] for r in group] == [f"T-{number}"] * 4
    assert [r["prompt"] for r in group] == [f"task {number}"] * 4
    assert set(group[0]) == {"index", "prompt", "completion", "reward", "passed", "task_id", "ticket"}
    assert all(isinstance(r["completion"], str) for r in group)


def look_up(order: str) -> str:
    """Look an order up.

    Args:
        order: The order's id.
    """
    return f"{order} was paid"


def test_tool_runs_reach_the_judge_as_text_and_as_messages(trl, trainer):
    """Two of four rollouts call a tool, which TRL runs; the policy's words are fixed, all else is TRL's."""
    import torch

    template = Path(trl.__file__).parent / "chat_templates/qwen3.jinja"
    if not template.exists():
        pytest.skip(f"TRL {trl.__version__} ships no chat template with tool calls")
    judge, rewards = Judge(), [1.0, 1.0, 0.0, 1.0]
    made = trainer(
        [grading(judge).trl_reward(lambda completions, **_: rewards, 4)],
        CONVERSATIONAL,
        tools=[look_up],
        chat_template=template.read_text(encoding="utf-8"),
        max_completion_length=300,
    )
    tokenizer, turns = made.processing_class, iter(range(9))

    def generate(input_ids, **_):
        turn = next(turns)
        call = '<tool_call>\n{{"name": "look_up", "arguments": {{"order": "A{}"}}}}\n</tool_call><|im_end|>'
        texts = [call.format(i) if turn == 0 and i < 2 else f"done {i}<|im_end|>" for i in range(len(input_ids))]
        tokens = [tokenizer.encode(text) for text in texts]
        width = max(map(len, tokens))
        padded = [row + [tokenizer.pad_token_id] * (width - len(row)) for row in tokens]
        return torch.cat([input_ids, torch.tensor(padded)], dim=1)

    made.model.generate = generate
    made.train()

    (group,) = judge.groups
    assert [message["role"] for message in group[1]["messages"]] == ["assistant", "tool", "assistant"]
    call = '<tool_call>{"name": "look_up", "arguments": {"order": "A1"}}</tool_call>'
    assert group[1]["completion"] == f"{call}\n<tool_response>A1 was paid</tool_response>\ndone 1"
    assert group[2]["completion"] == "done 2"
    assert worst(flat(made.seen), expected(rewards, [r["completion"] for r in group])) < 1e-6


def test_partial_groups_in_one_process_raise_with_the_reason():
    reward = grading(Judge()).trl_reward(Verifier(), 4)
    with pytest.raises(BatchError, match=r"6 completions are no whole groups of num_generations=4"):
        reward(prompts=["p"] * 6, completions=list("abcdef"))


def test_the_callable_pickles_and_shapes_as_before():
    reward = grading(Judge()).trl_reward(Verifier(), 4)
    batch = {"prompts": ["p"] * 4, "completions": ["one", "two", "three", "four"]}
    assert pickle.loads(pickle.dumps(reward))(**batch) == reward(**batch)


def test_its_name_is_its_own_and_says_which_grader_it_is():
    def tidy(group):
        return {}

    assert grading(tidy).trl_reward(Verifier(), 4).__name__ == "groupwise_tidy"
    assert grading(Judge()).trl_reward(Verifier(), 4).__name__ == "groupwise_Judge"

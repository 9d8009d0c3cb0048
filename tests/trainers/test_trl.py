"""What a real GRPOTrainer makes of the reward function: one process, CPU, a tiny model."""

import math
import os
import pickle
import subprocess
import sys
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


class Desk:
    """An environment: what it says on reset is added to the prompt, so that prompts differ inside a group."""

    customers = 0

    def reset(self, **row):
        Desk.customers += 1
        return f" You are customer {Desk.customers}."

    def look_up(self, order: str) -> str:
        """Look an order up.

        Args:
            order: The order's id.
        """
        return f"{order} was paid"


def test_prompts_of_environments_may_differ_inside_a_group(trl, trainer):
    template = Path(trl.__file__).parent / "chat_templates/qwen3.jinja"
    if not template.exists():
        pytest.skip(f"TRL {trl.__version__} ships no chat template with tool calls")
    judge, rewards = Judge(), [1.0, 1.0, 0.0, 1.0]
    made = trainer(
        [grading(judge).trl_reward(lambda completions, **_: rewards)],
        CONVERSATIONAL,
        environment_factory=Desk,
        chat_template=template.read_text(encoding="utf-8"),
        max_completion_length=16,
    )
    made.train()
    (group,) = judge.groups
    assert len({rollout["prompt"][0]["content"] for rollout in group}) == 4
    assert worst(flat(made.seen), expected(rewards, [r["completion"] for r in group])) < 1e-6


def test_blocks_and_images_reach_the_judge_as_text_and_markers():
    judge = Judge()
    blocks = [
        [
            {
                "role": "assistant",
                "content": [{"type": "text", "text": f"done {i}"}, {"type": "image", "image": object()}],
            }
        ]
        for i in range(4)
    ]
    prompt = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what is it?"}]}]
    rewards = [1.0, 1.0, 0.0, 0.0]
    shaped = grading(judge).trl_reward(lambda completions, **_: rewards, 4)(prompts=[prompt] * 4, completions=blocks)
    texts = [rollout["completion"] for rollout in judge.groups[0]]
    assert texts == [f"done {i}[image]" for i in range(4)]
    assert shaped == pytest.approx([0.5 + advantage for advantage in expected(rewards, texts)])


@pytest.mark.parametrize(
    "unscored",
    [None, math.nan, math.inf, -math.inf, LookupError("no log")],
    ids=["None", "nan", "inf", "-inf", "raises"],
)
def test_a_row_that_cannot_be_scored_has_no_advantage_and_the_rest_is_shaped_without_it(trainer, unscored):
    judge = Judge()

    async def verifier(prompts, completions, **columns):
        rewards = {0: 1.0, 1: unscored, 2: 1.0, 3: 0.0}
        texts.extend(completions if len(completions) == 4 else [])
        found = [rewards[texts.index(text)] for text in completions]
        for reward in found:
            if isinstance(reward, Exception):
                raise reward
        return found

    texts = []
    made = trainer([grading(judge).trl_reward(verifier)], STANDARD)
    made.train()
    (advantages,) = made.seen
    better = chance(texts[0]) < chance(texts[2])
    factors = {0: 1.0 if better else 0.5, 1: 0.5 if better else 1.0}
    first, third, last = equation_3([1.0, 1.0, 0.0], factors)
    assert advantages == pytest.approx([first, 0.0, third, last], abs=1e-6)
    assert judge.groups[0][1]["reward"] is None and not judge.groups[0][1]["passed"]


def test_a_verifier_that_raises_for_all_rows_trains_nothing(trainer):
    up = iter([True, False])

    def verifier(completions, **_):
        if len(completions) == 4 and next(up):
            return [1.0, 1.0, 0.0, 0.0]
        raise ConnectionError("no sandbox")

    made = trainer([grading(Judge()).trl_reward(verifier)], STANDARD, max_steps=2)
    made.train()
    assert made.seen[0][0] != 0.0 and made.seen[1] == [0.0] * 4
    assert made.state.log_history[1]["groupwise/verifier_failures"] == 4.0


def test_reward_mode_trains_on_equation_2_with_the_trainers_own_normalisation(trainer):
    def score(rollout, rubric):
        assert rubric == f"rubric of {rollout['task_id']}"
        return {"solution": 1.0, "behavior": chance(rollout["completion"])}

    verifier = Verifier()
    rubrics = {i: f"rubric of {i}" for i in range(8)}
    grs = wai.GroupwiseGrading(grader=score, mode="reward", rubrics=rubrics, accept_unchecked="a judge of the tests")
    made = trainer(
        [grs.trl_reward(verifier)], STANDARD, scale_rewards="group", max_steps=2, per_device_train_batch_size=16
    )
    made.train()
    wanted = []
    for start in range(0, len(verifier.texts), 4):
        rewards = [passes(text) * chance(text) for text in verifier.texts[start : start + 4]]
        mean = sum(rewards) / 4
        std = (sum((reward - mean) ** 2 for reward in rewards) / 3) ** 0.5
        wanted += [(reward - mean) / (std + 1e-4) for reward in rewards]
    assert any(wanted)
    assert worst(flat(made.seen), wanted) < 1e-4


def test_rloo_computes_equation_3_too(trl, tmp_path):
    from datasets import Dataset

    from .conftest import SETTINGS, tiny_model, tiny_tokenizer

    class RecordingTrainer(trl.RLOOTrainer):
        def _generate_and_score_completions(self, inputs):
            scored = super()._generate_and_score_completions(inputs)
            seen.extend(scored["advantages"].tolist())
            return scored

    tokenizer, verifier, seen = tiny_tokenizer(), Verifier(), []
    settings = {name: value for name, value in SETTINGS.items() if name != "scale_rewards"}
    settings |= {"per_device_train_batch_size": 16, "max_steps": 3, "beta": 0.0}
    RecordingTrainer(
        model=tiny_model(tokenizer),
        processing_class=tokenizer,
        reward_funcs=[grading(Judge()).trl_reward(verifier)],
        args=trl.RLOOConfig(output_dir=str(tmp_path), **settings),
        train_dataset=Dataset.from_list(STANDARD),
    ).train()
    rewards = list(map(passes, verifier.texts))
    assert sum(sum(rewards[start : start + 4]) in (2, 3) for start in range(0, 48, 4)) >= 2
    assert worst(seen, expected(rewards, verifier.texts)) < 1e-6


@pytest.mark.parametrize("judge_in_eval", [False, True])
def test_an_evaluation_has_its_own_group_size_and_is_judged_only_on_demand(trainer, judge_in_eval):
    judge, verifier = Judge(), Verifier()
    made = trainer(
        [grading(judge).trl_reward(verifier, 4, judge_in_eval=judge_in_eval)],
        STANDARD,
        eval_rows=STANDARD,
        num_generations_eval=2,
        per_device_eval_batch_size=4,
    )
    made.evaluate()
    rewards = list(map(passes, verifier.texts))
    assert len(rewards) == 16
    assert {len(group) for group in judge.groups} == ({2} if judge_in_eval else set())
    groups = [rewards[start : start + 2] for start in range(0, 16, 2)]
    assert flat(made.seen) == pytest.approx([reward - sum(group) / 2 for group in groups for reward in group])
    made.train()
    assert len(verifier.texts) == 20 and {len(group) for group in judge.groups} <= {2, 4}


def test_partial_groups_in_one_process_raise_with_the_reason():
    reward = grading(Judge()).trl_reward(Verifier(), 4)
    with pytest.raises(BatchError, match=r"6 completions are no whole groups of num_generations=4"):
        reward(prompts=["p"] * 6, completions=list("abcdef"))


MODULE = """
def scores(prompts, completions, score, **columns):
    return score

def shortest(group):
    return {"ranking": [r["index"] for r in sorted(group, key=lambda r: len(r["completion"])) if r["passed"]]}
"""

SPAWNED = """
import pickle, sys
reward = pickle.load(open(sys.argv[1], "rb"))
print(reward(prompts=["p"] * 4, completions=["long", "l", "fails", "lon"], score=[1.0, 1.0, 0.0, 1.0]))
print(reward.__name__, "torch" in sys.modules)
"""


def test_it_pickles_into_a_process_that_has_no_trainer(tmp_path, monkeypatch):
    """As AsyncGRPO uses it: in a worker that was spawned, one whole group per call, columns only."""
    (tmp_path / "mine.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import mine

    reward = grading(mine.shortest).trl_reward(mine.scores, 4)
    (tmp_path / "reward.pickle").write_bytes(pickle.dumps(reward))
    done = subprocess.run(
        [sys.executable, "-c", SPAWNED, str(tmp_path / "reward.pickle")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not done.stderr
    shaped, named = done.stdout.splitlines()
    mean = 3 / 4
    wanted = [mean + a for a in equation_3([1.0, 1.0, 0.0, 1.0], {1: 1.0, 3: 0.75, 0: 0.5})]
    assert eval(shaped) == pytest.approx(wanted)
    assert named == "groupwise_shortest False"


def test_its_name_is_its_own_and_says_which_grader_it_is():
    def tidy(group):
        return {}

    assert grading(tidy).trl_reward(Verifier(), 4).__name__ == "groupwise_tidy"
    assert grading(Judge()).trl_reward(Verifier(), 4).__name__ == "groupwise_Judge"

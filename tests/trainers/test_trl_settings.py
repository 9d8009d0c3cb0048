"""Settings of real TRL configs: what breaks equation 3, what rescales it, and what a trainer says of itself."""

import logging

import pytest

import whileai as wai
from whileai.errors import BatchError, ConfigError

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning:transformers")  # TRL's calls, not ours


def judge(group):
    return {"ranking": [rollout["index"] for rollout in group if rollout["passed"]]}


def half(prompts, completions, **columns):
    return [float(row % 2) for row in range(len(completions))]


def gar(**knobs):
    return wai.GroupwiseGrading(grader=judge, accept_unchecked="a judge of the tests", **knobs)


@pytest.fixture
def config(trl, tmp_path):
    def make(name="GRPOConfig", **settings):
        if name == "GRPOConfig":
            settings = {"scale_rewards": "none"} | settings
        made = getattr(trl, name)
        return made(output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to="none", **settings)

    return make


def test_the_settings_of_the_page_pass_without_a_remark(config, caplog):
    assert gar().trl_check(config(num_generations=8)) == []
    assert not caplog.records


@pytest.mark.parametrize(
    ("settings", "remark"),
    [
        (
            {"scale_rewards": "group"},
            "times 1.87 to 2.83 (binary rewards); for equation 3 itself write scale_rewards='none'",
        ),
        ({"scale_rewards": True}, "divides by the group's standard deviation"),
        ({"scale_rewards": "batch"}, "about 2 where half of the rollouts pass"),
        ({"reward_weights": [0.5]}, "reward_weights=[0.5] multiplies A'"),
    ],
)
def test_what_rescales_is_a_remark_with_the_factor_and_a_warning(config, caplog, settings, remark):
    (found,) = gar().trl_check(config(num_generations=8, **settings))
    assert remark in found
    assert [(record.levelno, record.message) for record in caplog.records] == [(logging.WARNING, found)]


def test_what_breaks_the_method_raises_with_the_lines_to_change(config):
    with pytest.raises(ConfigError, match="write multi_objective_aggregation='sum_then_normalize'"):
        gar().trl_check(config(multi_objective_aggregation="normalize_then_sum"))
    with pytest.raises(ConfigError, match="write reward_clip_range=None"):
        gar().trl_check(config("RLOOConfig", reward_clip_range=(0.0, 1.0)))
    with pytest.raises(ConfigError, match=r"deadline_s=900.0 .* with ddp_timeout=600.*deadline_s=300"):
        gar().trl_check(_of_two_processes(config(ddp_timeout=600)))
    with pytest.raises(ConfigError, match="deadline_s=None"):
        gar(deadline_s=None).trl_check(_of_two_processes(config()))
    assert gar(deadline_s=None).trl_check(config(ddp_timeout=600)) == [], "one process waits for nobody"


def _of_two_processes(config):
    class Config(type(config)):
        world_size = 2

    config.__class__ = Config
    return config


def test_reward_mode_leaves_normalisation_to_the_trainer(config):
    grs = wai.GroupwiseGrading(grader=judge, mode="reward", accept_unchecked="a judge of the tests")
    assert grs.trl_check(config(scale_rewards="group", multi_objective_aggregation="normalize_then_sum")) == []


def test_rloo_is_said_to_be_brought_to_equation_3(config):
    (remark,) = gar().trl_check(config("RLOOConfig", num_generations=4))
    assert "G / (G - 1) = 1.333" in remark and "(G - 1) / G = 0.75" in remark
    remarks = gar().trl_check(config("RLOOConfig", num_generations=4, normalize_advantages=True))
    assert any("write normalize_advantages=False" in remark for remark in remarks)


def test_async_grpo_is_said_to_divide_by_the_standard_deviation(trl, tmp_path):
    experimental = pytest.importorskip("trl.experimental.async_grpo", reason=f"TRL {trl.__version__} has no AsyncGRPO")
    config = experimental.AsyncGRPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to="none")
    (remark,) = gar().trl_check(config)
    assert "always divides by the group's standard deviation" in remark


def test_online_dpo_is_refused(trl, tmp_path):
    experimental = pytest.importorskip("trl.experimental.online_dpo", reason=f"TRL {trl.__version__} has no OnlineDPO")
    config = experimental.OnlineDPOConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to="none")
    with pytest.raises(ConfigError, match="use GRPOTrainer or RLOOTrainer"):
        gar().trl_check(config)


def test_other_things_are_no_config():
    with pytest.raises(ConfigError, match="dict has no num_generations"):
        gar().trl_check({"num_generations": 4})


def test_the_first_call_checks_the_trainer_itself(trainer, caplog):
    rows = [{"prompt": "task"}]
    with pytest.raises(ConfigError, match=r"num_generations=2 of the reward function, 4 of the trainer"):
        trainer([gar().trl_reward(half, 2)], rows).train()
    with pytest.raises(ConfigError, match="sum_then_normalize"):
        trainer([gar().trl_reward(half)], rows, multi_objective_aggregation="normalize_then_sum").train()
    caplog.clear()
    trainer([gar().trl_reward(half)], rows, scale_rewards="group", max_steps=3).train()
    (record,) = [record for record in caplog.records if "scale_rewards" in record.message]
    assert record.message.startswith("groupwise_judge: scale_rewards='group' divides")


def test_two_reward_functions_of_one_name_are_refused_and_two_names_are_fine(trainer):
    rows = [{"prompt": "task"}]
    first, second = gar().trl_reward(half), gar().trl_reward(half)
    with pytest.raises(ConfigError, match="2 reward functions are called 'groupwise_judge'"):
        trainer([first, second], rows).train()
    second.__name__ = "by_the_other_verifier"
    made = trainer([first, second], rows, log_completions=True)
    made.train()
    assert made.seen == [pytest.approx([-1.0, 4 / 3, -1.0, 2 / 3])]
    names = set(made.state.log_history[0])
    assert {"groupwise_judge/hacks", "by_the_other_verifier/hacks"} <= names and "groupwise/hacks" not in names


def test_the_group_size_must_be_known_from_somewhere(trainer):
    batch = {"prompts": ["p"] * 4, "completions": list("abcd")}
    with pytest.raises(ConfigError, match=r"write trl_reward\(verifier, num_generations=...\)"):
        gar().trl_reward(half)(**batch)
    assert gar().trl_reward(half, 4)(**batch) == [0.0, 0.5 + 2 / 3, 0.0, 0.5 + 1 / 3]


@pytest.mark.parametrize("wrapped", [str, lambda text: [{"role": "user", "content": text}]], ids=["text", "messages"])
def test_rows_in_blocks_are_refused(wrapped):
    prompts = [wrapped(text) for text in "abcabc"]
    with pytest.raises(BatchError, match=r"the 6 prompts come in 2 blocks of 3"):
        gar().trl_reward(half, 2)(prompts=prompts, completions=list("uvwxyz"))


def test_a_real_online_dpo_run_is_refused(trl, tmp_path):
    experimental = pytest.importorskip("trl.experimental.online_dpo", reason=f"TRL {trl.__version__} has no OnlineDPO")
    from datasets import Dataset

    from .conftest import tiny_model, tiny_tokenizer

    tokenizer = tiny_tokenizer()
    config = experimental.OnlineDPOConfig(
        output_dir=str(tmp_path), use_cpu=True, bf16=False, report_to="none", max_new_tokens=4, max_steps=1
    )
    made = experimental.OnlineDPOTrainer(
        model=tiny_model(tokenizer),
        ref_model=tiny_model(tokenizer),
        processing_class=tokenizer,
        reward_funcs=[gar().trl_reward(half, 2)],
        args=config,
        train_dataset=Dataset.from_list([{"prompt": f"task {i}"} for i in range(8)]),
    )
    with pytest.raises(BatchError, match="come in 2 blocks of 8"):
        made.train()

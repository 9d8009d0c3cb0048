"""A tiny real model, and TRL's own trainers on it: one CPU, no hub, about 0.02 s a step.

The scripts beside this file, which torchrun starts, import it by name.
"""

import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # layers of 16: more threads only wait for each other

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(scope="session")
def trl() -> Any:
    """The installed TRL; skips, with a reason for someone who has just cloned the repository, where it is not."""
    pytest.importorskip("torch", reason="PyTorch is not installed: `make test` installs it")
    return pytest.importorskip("trl", reason="TRL is not installed: `make test` installs it")


@pytest.fixture
def trainer(trl: Any, tmp_path: Path) -> Callable[..., Any]:
    """`tiny_trainer`, writing to a folder of the test's own."""
    return lambda *args, **settings: tiny_trainer(*args, folder=tmp_path, **settings)


def tiny_tokenizer(chat_template: str = CHAT_TEMPLATE) -> Any:
    """Bytes and a few merges: 300 entries, and the marks of a chat."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    learn = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<pad>"], initial_alphabet=alphabet, show_progress=False
    )
    bpe.train_from_iterator(["look the order up, then refund the order"] * 10, trainer=learn)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token="<pad>")
    marks = ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
    tokenizer.add_tokens([*marks, "<think>", "</think>"])
    tokenizer.eos_token = "<|im_end|>"
    tokenizer.chat_template = chat_template
    return tokenizer


def tiny_model(tokenizer: Any) -> Any:
    """Two layers of 16 with random weights, the same on every call."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    return Qwen2ForCausalLM(config)


SETTINGS = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "logging_steps": 1,
    "disable_tqdm": True,
    "scale_rewards": "none",
    "num_generations": 4,
    "max_completion_length": 8,
    "per_device_train_batch_size": 4,
    "max_steps": 1,
    "learning_rate": 1e-3,
}


def tiny_trainer(
    reward_funcs: Any,
    train: Sequence[dict[str, Any]],
    *,
    folder: Path,
    eval_rows: Sequence[dict[str, Any]] | None = None,
    tools: Sequence[Callable[..., Any]] | None = None,
    environment_factory: Callable[[], Any] | None = None,
    chat_template: str = CHAT_TEMPLATE,
    **settings: Any,
) -> Any:
    """TRL's GRPOTrainer on the tiny model, in groups of 4, one step unless told otherwise; it keeps `seen`.

    `seen` holds, for each batch that was scored, the advantages that the trainer computed for its own rows.
    """
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    class RecordingTrainer(GRPOTrainer):
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            scored = super()._generate_and_score_completions(inputs)
            self.seen.append(scored["advantages"].tolist())
            return scored

    tokenizer = tiny_tokenizer(chat_template)
    made = RecordingTrainer(
        model=tiny_model(tokenizer),
        processing_class=tokenizer,
        reward_funcs=reward_funcs,
        args=GRPOConfig(output_dir=str(folder), **(SETTINGS | settings)),
        train_dataset=Dataset.from_list(list(train)),
        eval_dataset=None if eval_rows is None else Dataset.from_list(list(eval_rows)),
        tools=tools,
        environment_factory=environment_factory,
    )
    made.seen = []
    return made


def chance(completion: Any) -> float:
    """A number in [0, 1) that depends on the completion alone: what a random policy's rollouts are judged by."""
    return zlib.crc32(repr(completion).encode()) / 2**32


def equation_3(rewards: Sequence[float], factors: dict[int, float]) -> list[float]:
    """A' as the method's page writes it, for one group without a cap that binds."""
    mean = sum(rewards) / len(rewards)
    advantages = [reward - mean for reward in rewards]
    held = sum(factor * advantages[i] for i, factor in factors.items())
    mass = sum(advantages[i] for i in factors)
    moved = mass / held if held else 1.0
    return [moved * factors[i] * a if i in factors else a for i, a in enumerate(advantages)]

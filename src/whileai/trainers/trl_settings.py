"""The settings of TRL under which its advantages are those of equation 3, and what else can be read of a trainer.

`check_settings` reads a config before training (`GroupwiseGrading.trl_check`), and the trainer itself at the
first call. The trainer is found through TRL's own `log_extra` (TRL 1.0 and later) and nothing depends on it:
what cannot be read is not checked, and an unreachable trainer counts as training.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from whileai.errors import ConfigError

logger = logging.getLogger("whileai")

Kind = Literal["grpo", "rloo", "async", "blocks"]

_KINDS: dict[str, Kind] = {
    "RLOOConfig": "rloo",
    "RLOOTrainer": "rloo",
    "AsyncGRPOConfig": "async",
    "AsyncGRPOTrainer": "async",
    "OnlineDPOConfig": "blocks",
    "OnlineDPOTrainer": "blocks",
}


@dataclass(frozen=True, slots=True)
class TrainerView:
    """What one call tells of its trainer.

    Attributes:
        trainer: None where it cannot be reached.
        training: False in evaluation.
        group_size: rows of a group in this call; None where the trainer cannot be reached.
    """

    trainer: Any = None
    training: bool = True
    group_size: int | None = None

    @property
    def shrink(self) -> float:
        """What A' is multiplied by, so that the trainer's own factor gives A' again: (G - 1) / G for RLOO."""
        if not self.training or not self.group_size or self.group_size < 2 or _kind(self.trainer) != "rloo":
            return 1.0
        return (self.group_size - 1) / self.group_size


def view_of(keywords: Mapping[str, Any]) -> TrainerView:
    """The trainer behind a reward call's keywords."""
    trainer = getattr(keywords.get("log_extra"), "__self__", None)
    size = getattr(trainer, "num_generations", None)
    if not isinstance(size, int):
        return TrainerView()
    training = getattr(getattr(trainer, "model", None), "training", True) is not False
    if not training:
        size = getattr(trainer, "num_generations_eval", None) or size
    return TrainerView(trainer, training, size)


def check_settings(
    source: Any, *, mode: str, deadline_s: float | None, num_generations: int | None = None
) -> list[str]:
    """Refuse settings that break the method; returns a remark for each that rescales it.

    Args:
        source: a TRL config, or a trainer.
        mode: of the grading. In reward mode the trainer's normalisation is not the method's concern.
        deadline_s: of the grading, in seconds.
        num_generations: of the reward function, where it was given.

    Raises:
        ConfigError: all settings that break the method, each with the line to change.
    """
    kind = _kind(source)

    def setting(name: str, default: Any = None) -> Any:
        found = getattr(source, name, None)
        return getattr(getattr(source, "args", None), name, default) if found is None else found

    size = setting("num_generations")
    if kind == "blocks":
        raise ConfigError(
            f"{type(source).__name__}: its batches hold the first completion of every prompt, then the second of every "
            "prompt, so no consecutive rows are a group; use GRPOTrainer or RLOOTrainer"
        )
    if size is None:
        raise ConfigError(
            f"{type(source).__name__} has no num_generations: the config of a TRL trainer is wanted, such as "
            "GRPOConfig(scale_rewards='none', num_generations=8)"
        )
    broken, remarks = [], []
    if num_generations is not None and num_generations != size:
        broken.append(
            f"num_generations={num_generations} of the reward function, {size} of the trainer: write "
            f"trl_reward(verifier, num_generations={size}), or leave it out"
        )
    processes, limit = _processes(source), setting("ddp_timeout")
    if processes > 1 and limit is not None and (deadline_s is None or deadline_s >= limit):
        broken.append(
            f"deadline_s={deadline_s} of the grading with ddp_timeout={limit}: a judge that hangs on one rank lets the "
            f"other {processes - 1} time out; write GroupwiseGrading(deadline_s={limit / 2:g}) or a longer ddp_timeout"
        )
    if mode == "advantage":
        if setting("multi_objective_aggregation", "sum_then_normalize") != "sum_then_normalize":
            broken.append(
                f"multi_objective_aggregation={setting('multi_objective_aggregation')!r} normalises every reward by "
                "itself and does not keep the grader's weights: write multi_objective_aggregation='sum_then_normalize'"
            )
        if setting("reward_clip_range") is not None:
            broken.append(
                f"reward_clip_range={setting('reward_clip_range')!r} cuts what the grader moved: write "
                "reward_clip_range=None"
            )
        remarks = _rescaling(kind, size, setting)
    if broken:
        raise ConfigError("; ".join(broken))
    return remarks


def _rescaling(kind: Kind, size: int, setting: Any) -> list[str]:
    remarks = []
    scale = {True: "group", False: "none"}.get(setting("scale_rewards"), setting("scale_rewards"))
    spread = _binary_factors(size)
    if kind == "async":
        remarks.append(
            f"AsyncGRPO always divides by the group's standard deviation: advantages are those of equation 3 times "
            f"{spread}; the grader's weights hold inside a group, the mass that moves does not"
        )
    elif kind == "grpo" and scale in ("group", "batch"):
        by = "the batch's standard deviation" if scale == "batch" else "the group's standard deviation"
        factor = "about 2 where half of the rollouts pass" if scale == "batch" else spread
        remarks.append(
            f"scale_rewards={setting('scale_rewards')!r} divides by {by}: advantages are those of equation 3 times "
            f"{factor}; for equation 3 itself write scale_rewards='none', in both arms of a comparison"
        )
    elif kind == "rloo":
        if setting("normalize_advantages"):
            remarks.append(
                "normalize_advantages=True divides by the batch's standard deviation: advantages are those of "
                "equation 3 times about 2 where half of the rollouts pass; write normalize_advantages=False"
            )
        if size and size > 1:
            remarks.append(
                f"RLOO multiplies advantages by G / (G - 1) = {size / (size - 1):.4g}; where the trainer can be "
                "reached (TRL 1.0 and later) rewards are brought nearer to their mean by "
                f"(G - 1) / G = {(size - 1) / size:.4g}, so that advantages are those of equation 3"
            )
    weights = setting("reward_weights")
    if weights is not None and any(float(weight) != 1.0 for weight in weights):
        remarks.append(f"reward_weights={[float(w) for w in weights]} multiplies A' by this function's weight")
    return remarks


def _binary_factors(size: int) -> str:
    """1 / std of a group of binary rewards, from a half of passes to a single one (std with Bessel's correction)."""
    if not size or size < 2:
        return "1 / std"
    half = size // 2
    low, high = ((size * (size - 1) / (k * (size - k))) ** 0.5 for k in (half, 1))
    return f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g} to {high:.3g} (binary rewards)"


def _kind(source: Any) -> Kind:
    return next((_KINDS[cls.__name__] for cls in type(source).__mro__ if cls.__name__ in _KINDS), "grpo")


def _processes(source: Any) -> int:
    accelerator = getattr(source, "accelerator", None)
    count = getattr(source, "world_size", 1) if accelerator is None else getattr(accelerator, "num_processes", 1)
    return count if isinstance(count, int) else 1

"""A reward function for TRL: GRPOTrainer and every trainer with its reward contract.

TRL calls it with a batch of `num_generations` consecutive completions per prompt and forms the advantage as
reward minus group mean. The shaped reward is A' + mean(R), so that this gives equation 3 exactly under
`scale_rewards="none"`.

Not covered: groups that are split across processes; such a batch is refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from whileai.core.knobs import whole
from whileai.engine.loop import run_on_loop
from whileai.errors import BatchError
from whileai.trainers.shaper import Shaper

Verifier = Callable[..., Sequence[Any] | Awaitable[Sequence[Any]]]

NOT_COLUMNS = frozenset({"completion_ids", "prompt_ids", "trainer_state", "log_extra", "log_metric", "environments"})
"""Keywords of a TRL reward call that are no columns of the dataset."""


class GroupwiseReward:
    """`reward_funcs=[...]` for a trainer; made by `GroupwiseGrading.trl_reward`. Picklable, sync, named."""

    def __init__(self, shaper: Shaper, verifier: Verifier, num_generations: int, *, name: str) -> None:
        whole("num_generations", num_generations, low=1)
        if not callable(verifier):
            raise BatchError(f"verifier={verifier!r}: a callable is wanted")
        self.shaper, self.verifier, self.num_generations = shaper, verifier, int(num_generations)
        self.__name__ = name

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float]:
        """Shaped rewards, one finite float per completion.

        Raises:
            BatchError: partial groups, or a verifier that returned another number of rewards.
        """
        rows, size = len(completions), self.num_generations
        if rows % size:
            raise BatchError(
                f"{rows} completions are no whole groups of num_generations={size}: with several processes a group "
                "is split across them when per_device_train_batch_size x steps_per_generation is no multiple of "
                "num_generations; make it one"
            )
        rewards = self.verifier(prompts=prompts, completions=completions, **columns)
        if isinstance(rewards, Awaitable):
            rewards = run_on_loop(rewards)
        if not hasattr(rewards, "__len__") or len(rewards) != rows:
            found = f"{len(rewards)} rewards" if hasattr(rewards, "__len__") else type(rewards).__name__
            raise BatchError(f"the verifier returned {found} for {rows} completions: one per completion is wanted")
        kept = {
            name: values
            for name, values in columns.items()
            if name not in NOT_COLUMNS and isinstance(values, (list, tuple)) and len(values) == rows
        }
        task_id = kept.pop("task_id", None)
        groups = self.shaper.shape_groups(
            rewards,
            prompts,
            completions,
            group_size=size,
            task_id=task_id,
            environments=columns.get("environments"),
            columns=kept,
        )
        return [reward for group in groups for reward in group.rewards]

    def __repr__(self) -> str:
        return f"<{self.__name__}: {self.shaper}, groups of {self.num_generations}>"

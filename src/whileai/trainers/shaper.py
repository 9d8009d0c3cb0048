"""What an adapter needs of a grader: rewards, prompts and completions in, shaped rewards out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from whileai.core.shaping import GroupShape


class Shaper(Protocol):
    """`GroupwiseGrading`, seen from below."""

    @property
    def mode(self) -> str:
        """ "advantage" or "reward"."""
        ...

    @property
    def concurrency(self) -> int:
        """Calls in flight at most."""
        ...

    @property
    def deadline_s(self) -> float | None:
        """Seconds within which `shape_groups` ends; None for no limit."""
        ...

    def shape_groups(
        self,
        rewards: Sequence[Any],
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        group_size: int,
        task_id: Sequence[Any] | None = None,
        environments: Sequence[Any] | None = None,
        columns: Mapping[str, Sequence[Any]] | None = None,
    ) -> list[GroupShape]:
        """What happened to each group of `group_size` consecutive rows. `environments`: prompts may differ."""
        ...

"""What an adapter needs of a grader: rewards, prompts and completions in, shaped rewards out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from whileai.core.shaping import GroupShape

if TYPE_CHECKING:
    from whileai.checks.report import CheckReport
    from whileai.core.spread import SpreadReport
    from whileai.engine.cost import Cost


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
    def pass_threshold(self) -> float:
        """A reward of at least this is a pass."""
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

    def judge_cost(self) -> Cost | None:
        """What the grader's model calls cost so far, in this process; None if it asks no model."""
        ...

    def check_spread(self, rows: Sequence[Mapping[str, Any]], *, strict: bool) -> SpreadReport | CheckReport:
        """The check of the grader on rows."""
        ...

    def export_check(self) -> Any:
        """What lets the grader train, for this object in another process; None if it may not train yet."""
        ...

    def import_check(self, found: Any) -> None:
        """Take over what `export_check` gave in another process."""
        ...

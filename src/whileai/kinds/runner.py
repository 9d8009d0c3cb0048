"""What every kind compiles to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whileai.engine.stats import CallStats
    from whileai.spec.roles import ResolvedRole


class Runner:
    """One grader without its fallbacks.

    Calling it with a group (in reward mode: with a rollout and its rubric) returns a verdict-like value, or an
    awaitable of one where `is_async`. It raises `GraderFailure` where it has no verdict.

    Attributes:
        name: what messages, statistics and certificates call it.
        names_hacks: whether its verdicts can name hacks.
        members: name and grader of each member of a panel.
        columns: dataset columns that it needs besides those of its spec: its members'.
        is_async: whether a call gives an awaitable.
        orders: how many presentation orders one verdict combines.
        lambda_cap: the cap of lambda that belongs to its factors; the smaller of this and the trainer's binds.
    """

    name: str
    names_hacks: bool = True
    members: Sequence[tuple[str, Any]] = ()
    columns: tuple[str, ...] = ()
    is_async: bool = False
    orders: int = 1
    lambda_cap: float = math.inf

    def __call__(self, *said: Any) -> Any:
        raise NotImplementedError

    def parts(self) -> Mapping[str, str]:
        """Digests of what decides this runner's verdicts besides its spec, by name (`function`, `model`)."""
        return {}

    @property
    def roles(self) -> Sequence[ResolvedRole]:
        """The models that it may ask, the preferred one first."""
        return ()

    @property
    def stats(self) -> Mapping[str, CallStats]:
        """What the questions to models came to so far, by the name of the judge that asked them."""
        return {}

    def price(self, group: Sequence[Mapping[str, Any]]) -> float | None:
        """US dollars that one vote on the group costs about; None where no price is known."""
        return 0.0

    def links(self) -> Sequence[Runner]:
        """The runners that need a certificate each: itself, or one per model."""
        return (self,)

    def only(self, links: Sequence[Runner]) -> Runner:
        """This runner with these of its links left, in their order."""
        return self

"""What every kind compiles to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class Runner:
    """One grader without its fallbacks.

    Calling it with a group (in reward mode: with a rollout and its rubric) returns a verdict-like value, or an
    awaitable of one where `is_async`. It raises `GraderFailure` where it has no verdict.

    Attributes:
        name: what messages, statistics and certificates call it.
        names_hacks: whether its verdicts can name hacks.
        is_async: whether a call gives an awaitable.
    """

    name: str
    names_hacks: bool = True
    is_async: bool = False

    def __call__(self, *said: Any) -> Any:
        raise NotImplementedError

    def parts(self) -> Mapping[str, str]:
        """Digests of what decides this runner's verdicts besides its spec, by name (`function`, `model`)."""
        return {}

    def links(self) -> Sequence[Runner]:
        """The runners that need a certificate each: itself, or one per model."""
        return (self,)

    def only(self, links: Sequence[Runner]) -> Runner:
        """This runner with these of its links left, in their order."""
        return self

"""What a run may spend. When it is spent, no new request is sent, and it says so."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from whileai.errors import BudgetExceeded, ConfigError

_log = logging.getLogger("whileai")


@dataclass(slots=True)
class Budget:
    """Requests and US dollars for a whole run, of which this process has its share of `WORLD_SIZE`.

    A request that is not answered yet counts with its estimated cost, so that many at once do not overspend.

    Args:
        calls: requests that may be sent, retries and repairs included; None for no limit.
        usd: US dollars that they may cost; None for no limit.
    """

    calls: int | None = None
    usd: float | None = None
    sent: int = 0
    spent_usd: float = 0.0
    _reserved_usd: float = 0.0
    _said: bool = False

    def reserve(self, estimate_usd: float | None) -> None:
        """Count a request that is about to be sent; `estimate_usd` is what it may cost, None if unknown.

        Raises:
            BudgetExceeded: it would go beyond this process's share.
        """
        world, rank = _process_of()
        if self.calls is not None:
            share = self.calls // world + (rank < self.calls % world)
            if self.sent >= share:
                raise self._exceeded(f"{self.calls} calls", f"{share} calls, all sent", world)
        if self.usd is not None and estimate_usd is not None:
            share_usd = self.usd / world
            if self.spent_usd + self._reserved_usd + estimate_usd > share_usd:
                state = (
                    f"${share_usd:.2f}; ${self.spent_usd:.4f} spent, the next request costs about ${estimate_usd:.4f}"
                )
                raise self._exceeded(f"${self.usd:g}", state, world)
        self.sent += 1
        self._reserved_usd += estimate_usd or 0.0

    def settle(self, estimate_usd: float | None, cost_usd: float | None, refused: int = 0) -> None:
        """A reserved request is over and cost this much; None if unknown, which counts as what it may have cost.

        `refused` counts its other forms that were sent before and refused; they cost nothing.
        """
        self.sent += refused
        estimate = estimate_usd or 0.0
        self._reserved_usd = max(0.0, self._reserved_usd - estimate)
        self.spent_usd += estimate if cost_usd is None else cost_usd

    def _exceeded(self, whole: str, share: str, world: int) -> BudgetExceeded:
        of = f" (the share of 1 of {world} processes: {share})" if world > 1 else f" ({share})"
        reason = f"the run's budget of {whole} is spent{of}; no new request is sent. Raise `budget:` in the spec"
        if not self._said:
            self._said = True
            _log.error("%s", reason)
        return BudgetExceeded("budget", reason)


def _process_of() -> tuple[int, int]:
    """Number of processes and this one's rank, as torchrun and its like say them."""
    values = []
    for variable, default, least in (("WORLD_SIZE", "1", 1), ("RANK", "0", 0)):
        text = os.environ.get(variable) or default
        if not text.isdecimal() or int(text) < least:
            raise ConfigError(f"{variable}={text!r} is not a number of processes; unset it or correct it")
        values.append(int(text))
    return values[0], values[1]

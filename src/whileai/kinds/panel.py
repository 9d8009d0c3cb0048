"""`kind: panel`: several graders, one verdict.

Members judge the group at the same time. Their orders are combined by mean rank, hacks by the majority of the
members that can name any. A member without a usable verdict withholds its vote; below the quorum the panel has
none. How far the members agree stands in the verdict.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Protocol

from whileai.core.agreement import kendall_tau_b
from whileai.core.factors import quality_factors
from whileai.core.rollout import copy_json
from whileai.core.verdict import Verdict, read_verdict
from whileai.errors import NOT_MADE, GraderFailure, GraderTimeout, kind_and_reason
from whileai.judging.labels import combine_hacks, combine_rankings
from whileai.kinds.runner import Runner
from whileai.simulations.defaults import TIMEOUT_GROUP_S
from whileai.spec.fingerprint import digest
from whileai.spec.models import PanelSpec

if TYPE_CHECKING:
    from whileai.engine.stats import CallStats
    from whileai.spec.roles import ResolvedRole


NO_FAULT_OF_MEMBERS = NOT_MADE | {"deadline"}
"""Kinds of failures that the panel passes on where all of its withheld votes have them."""


class PanelMember(Protocol):
    """A compiled grader without its fallbacks."""

    name: str
    names_hacks: bool
    columns: tuple[str, ...]

    @property
    def models(self) -> Sequence[ResolvedRole]: ...

    @property
    def stats(self) -> Mapping[str, CallStats]: ...

    def price(self, group: list[dict[str, Any]]) -> float | None: ...

    def fingerprint_parts(self) -> dict[str, str]: ...

    async def agrade(self, *said: Any) -> Any: ...


class PanelRunner(Runner):
    """A panel.

    Args:
        spec: what the author wrote; its quorum is more than half of the members where it gives none.
        members: name and grader of each.
    """

    is_async = True

    def __init__(self, spec: PanelSpec, members: Sequence[tuple[str, PanelMember]]) -> None:
        self.name = spec.name
        self.members: Sequence[tuple[str, PanelMember]] = tuple(members)
        self.quorum = spec.quorum or len(members) // 2 + 1
        self.names_hacks = any(member.names_hacks for _, member in members)
        self.columns = tuple(column for _, member in members for column in member.columns)

    async def __call__(self, *said: Any) -> dict[str, Any]:
        """The verdict of the panel on a group, with the votes, the withheld ones and the agreement.

        Raises:
            GraderFailure: fewer usable votes than the quorum.
        """
        return await self._combined(said[0], None)

    async def single_vote(self, *said: Any, repeat: int) -> dict[str, Any]:
        """One vote on the group in exactly the order given: for the check."""
        return await self._combined(said[0], repeat)

    @property
    def roles(self) -> Sequence[ResolvedRole]:
        return [role for _, member in self.members for role in member.models]

    @property
    def stats(self) -> Mapping[str, CallStats]:
        return {
            name if judge == member.name else f"{name}/{judge}": stats
            for name, member in self.members
            for judge, stats in member.stats.items()
        }

    def price(self, group: Any) -> float | None:
        prices = [member.price(group) for _, member in self.members]
        known = [price for price in prices if price is not None]
        return sum(known) if len(known) == len(prices) else None

    def parts(self) -> dict[str, str]:
        return {f"member {name}": digest(member.fingerprint_parts()) for name, member in self.members}

    async def _combined(self, group: list[dict[str, Any]], repeat: int | None) -> dict[str, Any]:
        passes = [rollout["index"] for rollout in group if rollout["passed"]]
        results = await asyncio.gather(
            *(_vote(member, copy_json(group), repeat) for _, member in self.members), return_exceptions=True
        )
        votes: list[tuple[str, PanelMember, Verdict]] = []
        withheld: dict[str, str] = {}
        kinds: set[str] = set()
        for (name, member), result in zip(self.members, results, strict=True):
            if isinstance(result, (KeyboardInterrupt, SystemExit, asyncio.CancelledError)):
                raise result
            try:
                if isinstance(result, BaseException):
                    raise result
                votes.append((name, member, read_verdict(result, passes, len(group))))
            except Exception as error:  # noqa: BLE001 - a member may be the author's own function
                withheld[name] = ": ".join(kind_and_reason(error))
                kinds.add(kind_and_reason(error)[0])
        if len(votes) < self.quorum:
            raise GraderFailure(
                min(kinds) if kinds <= NO_FAULT_OF_MEMBERS else "quorum",
                f"{len(votes)} of {len(self.members)} members have a usable verdict, the quorum is {self.quorum}; "
                + "; ".join(f"{name}: {why}" for name, why in withheld.items()),
            )
        orders = [(name, _places(verdict, passes)) for name, _, verdict in votes if _is_ordered(verdict)]
        hunters = [verdict.hacks for _, member, verdict in votes if member.names_hacks]
        panel = {
            "votes": {name: _said(verdict) for name, _, verdict in votes},
            "withheld": withheld,
            "agreement": _agreement([places for _, places in orders], passes),
        }
        hacks = combine_hacks(hunters) if hunters else []
        combined: dict[str, Any] = {"hacks": hacks, "panel": panel}
        if orders:
            combined["ranking"] = combine_rankings([_tiers(places) for _, places in orders])
        return combined


async def _vote(member: PanelMember, group: list[dict[str, Any]], repeat: int | None) -> Any:
    seconds = None if member.models else TIMEOUT_GROUP_S  # a judge has limits of its own
    vote = None if repeat is None else getattr(member, "single_vote", None)
    try:
        async with asyncio.timeout(seconds) as limit:
            if vote is None:
                return await member.agrade(group)
            output = vote(group, repeat=repeat)
            return await output if inspect.isawaitable(output) else output
    except TimeoutError:
        if limit.expired():
            raise GraderTimeout("timeout", f"no answer within {seconds:g} s") from None
        raise


def _said(verdict: Verdict) -> dict[str, Any]:
    """A member's verdict, with whatever else it says."""
    ordered = {name: value for name in ("ranking", "factors") if (value := getattr(verdict, name)) is not None}
    return {**verdict.extra, **ordered, "hacks": list(verdict.hacks)}


def _is_ordered(verdict: Verdict) -> bool:
    return verdict.ranking is not None or verdict.factors is not None


def _places(verdict: Verdict, passes: Sequence[int]) -> dict[int, float]:
    """A quality for each pass, for their order only: a hack that this member names is its worst pass."""
    return quality_factors(verdict, passes, hack_zero=False)


def _tiers(places: dict[int, float]) -> list[list[int]]:
    return [
        [index for index, place in places.items() if place == level]
        for level in sorted(set(places.values()), reverse=True)
    ]


def _agreement(orders: Sequence[dict[int, float]], passes: Sequence[int]) -> float | None:
    """Mean Kendall tau-b over pairs of members, in [-1, 1]; None where no pair has one."""
    taus = [
        tau
        for first, second in combinations(orders, 2)
        if (tau := kendall_tau_b([first[i] for i in passes], [second[i] for i in passes])) is not None
    ]
    return sum(taus) / len(taus) if taus else None

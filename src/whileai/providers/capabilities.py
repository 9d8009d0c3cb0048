"""What an endpoint was found not to know, so that it is asked once and not on every call.

Endpoints that speak one wire format differ in what they accept: some know no `json_schema`, some no
`max_completion_tokens`. Each such choice is a ladder; a request that is refused for it is sent again one rung
down, and the rung that worked is remembered for that endpoint and model, for the life of the process (the
engine keeps it longer). A rung that has worked is not left again: a later refusal is about the request.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from whileai.errors import ProviderError, RefusedRequest
from whileai.providers.protocol import ChatReply

_log = logging.getLogger("whileai")

Ladder = tuple[str, ...]
"""Ways to ask for the same thing, the best one first."""


@dataclass(slots=True)
class Learned:
    """The rungs that one endpoint and model stands on. `rungs` and `proven` are by the ladder's name."""

    provider: str
    base_url: str
    model: str
    rungs: dict[str, str] = field(default_factory=dict)
    proven: set[str] = field(default_factory=set)
    is_news: bool = False

    def accept(self, choice: Mapping[str, str], left: tuple[str, ...]) -> None:
        """A request of this form was answered, after the rungs in `left` had been refused."""
        fresh = {ladder: rung for ladder, rung in choice.items() if ladder not in self.proven}
        self.rungs.update(fresh)
        self.proven.update(fresh)
        self.is_news = self.is_news or bool(fresh)
        if fresh and left:
            _log.warning("%s:%s at %s is asked without %s from now on", *self.identity, ", ".join(left))

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.provider, self.model, self.base_url


_learned: dict[tuple[str, str, str], Learned] = {}


def learned(provider: str, base_url: str, model: str) -> Learned:
    """What this process knows of the endpoint and model; the same object for every caller."""
    return _learned.setdefault((provider, base_url, model), Learned(provider, base_url, model))


def recall(known: Learned) -> None:
    """Take over what was learned earlier, unless this process has found out by itself."""
    here = learned(known.provider, known.base_url, known.model)
    for ladder, rung in known.rungs.items():
        if ladder not in here.proven:
            here.rungs[ladder] = rung
            here.proven.add(ladder)


def news() -> list[Learned]:
    """What was learned since the last time that this was asked."""
    fresh = [known for known in _learned.values() if known.is_news]
    for known in fresh:
        known.is_news = False
    return fresh


class ParameterRefused(Exception):
    """The endpoint objects to the request's form. `names` are the parameters it names, if it names any."""

    def __init__(self, names: frozenset[str], refusal: RefusedRequest) -> None:
        super().__init__(names, refusal)
        self.names = names
        self.refusal = refusal


async def send_stepping_down(
    send: Callable[[Mapping[str, str]], Awaitable[ChatReply]],
    ladders: Mapping[str, tuple[Ladder, frozenset[str]]],
    known: Learned,
) -> ChatReply:
    """Send in the best form that the endpoint is known to take, and one rung down where it objects.

    Args:
        send: sends one request in the chosen form; raises ParameterRefused.
        ladders: by name, the rungs, and the wire's parameters that an objection to this ladder would name.
            Where an endpoint names nothing, the ladders are stepped down in this order.
        known: read for the first choice, and taught when a request is accepted.

    Returns:
        The reply, with the rungs that were left on the way in `steps`; a failure carries them too.
    """
    choice = {name: known.rungs.get(name, rungs[0]) for name, (rungs, _) in ladders.items()}
    left: list[str] = []
    while True:
        try:
            reply = await send(choice)
        except ParameterRefused as refused:
            objection = refused
        except ProviderError as error:
            error.steps = tuple(left)
            raise
        else:
            known.accept(choice, tuple(left))
            return replace(reply, steps=tuple(left))
        step = _step_down(objection.names, ladders, choice, known)
        if step is None:
            objection.refusal.steps = tuple(left)
            raise objection.refusal
        name, rung = step
        left.append(choice[name])
        choice = {**choice, name: rung}


def _step_down(
    names: frozenset[str],
    ladders: Mapping[str, tuple[Ladder, frozenset[str]]],
    choice: Mapping[str, str],
    known: Learned,
) -> tuple[str, str] | None:
    """The ladder to step down, and the rung to step to; None when the objection is to something else."""
    for name, (rungs, parameters) in ladders.items():
        if names and not names & parameters:
            continue
        below = rungs[rungs.index(choice[name]) + 1 :]
        if name not in known.proven and below:
            return name, below[0]
        if known.rungs.get(name) in below:  # another request found it out while this one was under way
            return name, known.rungs[name]
    return None

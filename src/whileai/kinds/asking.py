"""The models of one judge's spec, asked by all its links through one cache, one journal and one budget."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from whileai.engine.places import run_file
from whileai.judging.prompt import JudgePrompt
from whileai.spec.models import LlmSpec

if TYPE_CHECKING:
    from whileai.engine.calls import CallResult, ModelCaller
    from whileai.engine.stats import CallStats
    from whileai.judging.reading import Reading
    from whileai.providers.protocol import ChatRequest
    from whileai.spec.roles import ResolvedRole


class Asking:
    """Asks the models of a spec.

    Args:
        spec: the judge's.
        roles: what its models resolved to, the preferred one first.
        record: file to which usable replies are added, for `recorded:`; None: nowhere.

    Raises:
        ConfigError: a model that cannot be asked is a mistake when the spec is compiled, not later.
    """

    def __init__(self, spec: LlmSpec, roles: Sequence[ResolvedRole], record: Path | None) -> None:
        self._spec, self._roles, self._record = spec, tuple(roles), record
        self._planning = self._made(kept=False)
        self._caller: ModelCaller | None = None

    async def ask(self, prompt: JudgePrompt, repeat: int, among: Collection[int]) -> CallResult[Reading]:
        """The reading of a usable reply of the models at the places `among`.

        Raises:
            ModelsFailed: none of them gave one.
        """
        shown = [candidate.indices[0] for candidate in prompt.shown.candidates]
        return await self._asked().call(self.question(prompt, repeat), read=prompt.read, shown=shown, among=among)

    def estimate_usd(self, prompt: JudgePrompt, place: int) -> float | None:
        """US dollars of one reply of the model at `place`, about; None where its price is unknown."""
        return self._planning.estimate_usd(self.question(prompt), place)

    def question(self, prompt: JudgePrompt, repeat: int = 0) -> ChatRequest:
        """The request that a prompt becomes, but for what each model adds to it."""
        from whileai.providers.protocol import ChatRequest

        return ChatRequest(
            system=prompt.system,
            turns=(("user", prompt.user),),
            schema=prompt.form.schema,
            schema_name=self._spec.verdict,
            repeat=repeat,
        )

    @property
    def stats(self) -> CallStats:
        """What the questions came to so far."""
        return (self._caller or self._planning).stats

    def _asked(self) -> ModelCaller:
        """Made when something is asked: until then nothing is written, and a replay never writes."""
        with _making:
            if self._caller is None:
                self._caller = self._made(kept=any(role.provider != "recorded" for role in self._roles))
            return self._caller

    def _made(self, *, kept: bool) -> ModelCaller:
        from whileai.engine.calls import ModelCaller  # providers come with it, which lint never needs
        from whileai.engine.retry import RetryPolicy

        spec = self._spec
        return ModelCaller(
            self._roles,
            name=spec.name,
            policy=RetryPolicy(spec.retry.attempts, spec.retry.repairs),
            request_s=spec.timeouts.request_s,
            group_s=spec.timeouts.group_s,
            calls=spec.budget.calls,
            usd=spec.budget.usd,
            cache=run_file("cache.sqlite") if kept else None,
            journal=run_file("journal.jsonl") if kept else None,
            record=self._record,
        )


_making = threading.Lock()


def _forget_lock() -> None:
    """A forked child may have a lock that nobody will give back."""
    global _making
    _making = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)

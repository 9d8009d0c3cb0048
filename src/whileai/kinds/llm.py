"""`kind: llm`: a model reads the whole group; in reward mode one pass and its rubric.

One question per presentation order, each cached by itself; their votes are combined. The order of rescue for a
group: repairs and further models (the engine), once more without the rollouts that imitate a fence, a verdict or
a tool result, which then rank last; then the chain's fallbacks, then the original rewards.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whileai.engine.places import run_file
from whileai.errors import LinkFailure, ModelsFailed
from whileai.judging.attacks import marked, rank_last, without
from whileai.judging.prompt import Judge, JudgePrompt, Render
from whileai.judging.reading import Reading, combine
from whileai.judging.schemas import with_own_fields
from whileai.judging.tiers import TIERS_CAP
from whileai.kinds.runner import Runner
from whileai.spec.fingerprint import digest, spec_parts
from whileai.spec.models import LlmSpec
from whileai.spec.reading import SpecFile, read_schema
from whileai.spec.sources import Sources
from whileai.spec.templates import PromptTemplate

if TYPE_CHECKING:
    from whileai.engine.calls import CallResult, ModelCaller
    from whileai.spec.roles import ResolvedRole


class LlmRunner(Runner):
    """A judge and the models that it asks in turn.

    Args:
        file: the spec.
        sources: where its templates and schemas are read.
        models: reference as the spec writes it, and what it resolved to; the preferred one first.
        record: file to which usable replies are added, for `recorded:`; None: nowhere.

    Raises:
        ConfigError: a model, the budget or the cache cannot work.
    """

    is_async = True

    def __init__(
        self,
        file: SpecFile,
        sources: Sources,
        models: Sequence[tuple[str, ResolvedRole]],
        *,
        record: Path | None = None,
        first: bool = True,
    ) -> None:
        spec = file.spec
        assert isinstance(spec, LlmSpec)
        self.spec, self.models = spec, tuple(models)
        self.name = spec.name if first else f"{spec.name}[{models[0][0]}]"
        self.names_hacks = spec.names_hacks
        self.orders = spec.orders
        self._file, self._sources, self._record, self._first = file, sources, record, first
        self.judge = _judge_of(file, sources)
        self._planning = self._make_caller(kept=False)  # a model that cannot be asked is a mistake now, not later
        self.lambda_cap = TIERS_CAP if spec.verdict == "tiers" else math.inf

    async def __call__(self, *said: Any) -> dict[str, Any]:
        """The verdict on a group; in reward mode the scores of a rollout by its rubric, or a rubric for a group.

        Raises:
            ModelsFailed: no model gave a usable reply.
        """
        group, rubric = _group_of(said)
        if (only := self._only_answer(group)) is not None:
            return only
        try:
            return await self._votes(self.judge.prompts(group, orders=self.orders, rubric=rubric), 0)
        except ModelsFailed as failure:
            return await self._without_marked(group, rubric, failure)

    async def single_vote(self, *said: Any, repeat: int) -> dict[str, Any]:
        """One vote on the group in exactly the order given, kept apart from other repeats: for the check."""
        group, rubric = _group_of(said)
        if (only := self._only_answer(group)) is not None:
            return only
        return await self._votes([self.judge.prompt_as_given(group, repeat=repeat, rubric=rubric)], repeat)

    def prompts(self, *said: Any) -> list[JudgePrompt]:
        """What would be sent, one for each order; nothing is."""
        group, rubric = _group_of(said)
        return self.judge.prompts(group, orders=self.orders, rubric=rubric)

    def price(self, group: Sequence[Mapping[str, Any]]) -> float | None:
        """US dollars that one vote on the group costs about, at the first model; None where no price is known."""
        prompt = self.judge.prompt_as_given(group, repeat=0, rubric=None)
        return self._planning.estimate_usd(_question(prompt, self.spec, 0))

    @property
    def roles(self) -> Sequence[ResolvedRole]:
        return [role for _, role in self.models]

    def parts(self) -> dict[str, str]:
        """The first model by what it is and is sent: no host, key or price."""
        role = self.models[0][1]
        return {"model": digest([role.provider, role.name, dict(role.params)])}

    def links(self) -> Sequence[Runner]:
        if len(self.models) == 1:
            return (self,)
        return tuple(
            LlmRunner(self._file, self._sources, [model], record=self._record, first=self._first and number == 0)
            for number, model in enumerate(self.models)
        )

    def only(self, links: Sequence[Runner]) -> Runner:
        models = [model for link in links if isinstance(link, LlmRunner) for model in link.models]
        first = self._first and models[0] == self.models[0]
        return LlmRunner(self._file, self._sources, models, record=self._record, first=first)

    @cached_property
    def _caller(self) -> ModelCaller:
        """Made when something is asked: until then nothing is written, and a replay never writes."""
        return self._make_caller(kept=any(role.provider != "recorded" for role in self.roles))

    def _make_caller(self, *, kept: bool) -> ModelCaller:
        from whileai.engine.calls import ModelCaller  # providers come with it, which lint never needs
        from whileai.engine.retry import RetryPolicy

        spec = self.spec
        return ModelCaller(
            self.roles,
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

    async def _votes(self, prompts: Sequence[JudgePrompt], repeat: int) -> dict[str, Any]:
        """Ask every prompt at once. A vote that cannot be had is withheld, unless none is left."""
        results = await asyncio.gather(*(self._ask(prompt, repeat) for prompt in prompts), return_exceptions=True)
        answered: list[CallResult[Reading]] = []
        failed: list[ModelsFailed] = []
        for result in results:
            if isinstance(result, ModelsFailed):
                failed.append(result)
            elif isinstance(result, BaseException):
                raise result
            else:
                answered.append(result)
        if not answered:
            raise failed[0]
        reading = combine([result.value for result in answered])
        judge: dict[str, Any] = {
            "models": [result.model for result in answered],
            "requests": sum(result.requests for result in answered) + sum(_requests(f.links) for f in failed),
            **reading.record,
        }
        if failed:
            judge["withheld"] = [str(failure) for failure in failed]
        if any(result.link for result in answered):
            judge["failures"] = [str(failure) for result in answered for failure in result.failures]
        return {**reading.verdict, "judge": judge}

    async def _ask(self, prompt: JudgePrompt, repeat: int) -> CallResult[Reading]:
        shown = [candidate.indices[0] for candidate in prompt.shown.candidates]
        return await self._caller.call(_question(prompt, self.spec, repeat), read=prompt.read, shown=shown)

    async def _without_marked(
        self, group: Sequence[Mapping[str, Any]], rubric: Any, failure: ModelsFailed
    ) -> dict[str, Any]:
        """Once more without the rollouts that forge something, where the model did reply: breaking it must not pay."""
        found = marked(group) if self.spec.mode == "advantage" else {}
        if not found or not any(link.replied for link in failure.links):
            raise failure
        rest = without(group, found)
        last = [rollout["index"] for rollout in group if rollout["passed"] and rollout["index"] in found]
        shown = {index: [forgery.kind for forgery in forgeries] for index, forgeries in found.items()}
        if not last:
            raise failure
        if not any(rollout["passed"] for rollout in rest):
            verdict: dict[str, Any] = {"ranking": [last]}
        elif (only := self._only_answer(rest)) is not None:
            verdict = rank_last(only, last)
        else:
            verdict = rank_last(await self._votes(self.judge.prompts(rest, orders=self.orders, rubric=rubric), 0), last)
        return {**verdict, "marked": shown, "rescued": str(failure)}

    def _only_answer(self, group: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
        """A judge that only ranks has nothing to say where all passes are the same text: they tie."""
        if self.names_hacks or self.spec.verdict not in ("ranking", "factors", "tiers"):
            return None
        passes = [rollout for rollout in group if rollout["passed"]]
        texts = {json.dumps([rollout["completion"], rollout.get("messages")], default=str) for rollout in passes}
        columns = {json.dumps([rollout[name] for name in self.spec.columns], default=str) for rollout in passes}
        if len(texts) > 1 or len(columns) > 1:
            return None
        return {"ranking": [[rollout["index"] for rollout in passes]]}


def _judge_of(file: SpecFile, sources: Sources) -> Judge:
    spec = file.spec
    assert isinstance(spec, LlmSpec)
    schema = json.loads(sources.shipped("schemas", spec.verdict, (".json",)).text)
    if spec.reply_schema is not None:
        schema = with_own_fields(schema, read_schema(spec.reply_schema, file.source, sources)[1])

    def render(reference: str | None) -> Render:
        return (lambda values: "") if reference is None else PromptTemplate(reference, file.source, sources).render

    return Judge(
        verdict=spec.verdict,
        schema=schema,
        render_system=render(spec.prompt.system),
        render_user=render(spec.prompt.user),
        spec_digest=digest(spec_parts(file, sources)),
        max_chars_per_rollout=spec.transcript.max_chars_per_rollout,
        max_chars_per_group=spec.transcript.max_chars_per_group,
        vars=spec.vars,
        columns=tuple(spec.columns),
        hack_kinds=tuple(spec.hacks.kinds) if spec.hacks else (),
    )


def _question(prompt: JudgePrompt, spec: LlmSpec, repeat: int) -> Any:
    from whileai.providers.protocol import ChatRequest

    return ChatRequest(
        system=prompt.system,
        turns=(("user", prompt.user),),
        schema=prompt.form.schema,
        schema_name=spec.verdict,
        repeat=repeat,
    )


def _group_of(said: tuple[Any, ...]) -> tuple[Sequence[Mapping[str, Any]], Any]:
    """A group, or a rollout and its rubric, as the group that the judge is shown."""
    first, *rest = said
    return (first, None) if isinstance(first, list) else ([first], rest[0] if rest else None)


def _requests(links: Sequence[LinkFailure]) -> int:
    return sum(link.requests for link in links)

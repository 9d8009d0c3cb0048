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
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whileai.engine.deadline import deadline_within
from whileai.errors import BROKEN_JUDGE, LinkFailure, ModelsFailed
from whileai.judging.attacks import Forgery, marked, rank_last, without
from whileai.judging.prompt import Judge, JudgePrompt, Render
from whileai.judging.reading import Reading, combine
from whileai.judging.schemas import with_own_fields
from whileai.judging.tiers import TIERS_CAP
from whileai.kinds.asking import Asking
from whileai.kinds.runner import Runner
from whileai.spec.fingerprint import digest, spec_parts
from whileai.spec.models import LlmSpec
from whileai.spec.reading import SpecFile, read_schema
from whileai.spec.sources import Sources
from whileai.spec.templates import prompt_template

if TYPE_CHECKING:
    from whileai.engine.calls import CallResult
    from whileai.engine.stats import CallStats
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
    ) -> None:
        spec = file.spec
        assert isinstance(spec, LlmSpec)
        self.spec = spec
        self.name = spec.name
        self.names_hacks = spec.names_hacks
        self.orders = spec.orders
        self.lambda_cap = TIERS_CAP if spec.verdict == "tiers" else math.inf
        self.judge = _judge_of(file, sources)
        self._models = tuple(models)
        self._chosen = tuple(range(len(models)))
        self._asking = Asking(spec, self.roles, record)

    async def __call__(self, *said: Any) -> dict[str, Any]:
        """The verdict on a group; in reward mode the scores of a rollout by its rubric, or a rubric for a group.

        Raises:
            ModelsFailed: no model gave a usable reply.
        """
        group, rubric = _group_of(said)
        with deadline_within(self.spec.timeouts.group_s):  # for all that the group takes, so that a fallback has time
            try:
                return await self._verdict(self.judge.prompts(group, orders=self.orders, rubric=rubric), 0)
            except ModelsFailed as failure:
                return await self._without_marked(group, rubric, failure)

    async def single_vote(self, *said: Any, repeat: int) -> dict[str, Any]:
        """One vote on the group in exactly the order given, kept apart from other repeats: for the check.

        Raises:
            ModelsFailed: no model gave a usable reply. Nothing is rescued: the check is about the judge alone.
        """
        group, rubric = _group_of(said)
        return await self._verdict([self.judge.prompt_as_given(group, repeat=repeat, rubric=rubric)], repeat)

    def prompts(self, *said: Any) -> list[JudgePrompt]:
        """What would be sent, one for each order; nothing is, where the answer is known without asking."""
        group, rubric = _group_of(said)
        prompts = self.judge.prompts(group, orders=self.orders, rubric=rubric)
        return prompts if self._only_answer(prompts[0]) is None else []

    def price(self, group: Sequence[Mapping[str, Any]]) -> float | None:
        """US dollars that one vote on the group costs about (in reward mode on one of its passes, on average), at the
        first model; None where no price is known."""
        asked = [group] if self.spec.verdict != "scores" else [[rollout] for rollout in group if rollout["passed"]]
        prompts = [self.judge.prompt_as_given(shown) for shown in asked]
        prices = [
            self._asking.estimate_usd(prompt, self._chosen[0]) if self._only_answer(prompt) is None else 0.0
            for prompt in prompts
        ]
        known = [price for price in prices if price is not None]
        return sum(known) / len(prices) if len(known) == len(prices) else None

    @property
    def roles(self) -> Sequence[ResolvedRole]:
        return [self._models[place][1] for place in self._chosen]

    @property
    def stats(self) -> Mapping[str, CallStats]:
        return {self.spec.name: self._asking.stats}  # over all links of its grader

    def parts(self) -> dict[str, str]:
        """The first model by what it is and is sent: no host, key, price, or path of a recording."""
        role = self.roles[0]
        name = "" if role.provider == "recorded" else role.name
        return {"model": digest([role.provider, name, dict(role.params)])}

    def links(self) -> Sequence[Runner]:
        return (self,) if len(self._chosen) == 1 else tuple(self._asking_only((place,)) for place in self._chosen)

    def only(self, links: Sequence[Runner]) -> Runner:
        return self._asking_only(
            tuple(place for link in links if isinstance(link, LlmRunner) for place in link._chosen)
        )

    def _asking_only(self, chosen: tuple[int, ...]) -> LlmRunner:
        """This judge with some of its models; the cache, the budget and the counts are the same ones."""
        other = copy(self)
        other._chosen = chosen
        other.name = self.spec.name if 0 in chosen else f"{self.spec.name}[{self._models[chosen[0]][0]}]"
        return other

    async def _verdict(self, prompts: Sequence[JudgePrompt], repeat: int) -> dict[str, Any]:
        """Ask every prompt at once, unless the answer is known. A vote that cannot be had is withheld."""
        if (only := self._only_answer(prompts[0])) is not None:
            return only
        asked = [self._asking.ask(prompt, repeat, self._chosen) for prompt in prompts]
        results = await asyncio.gather(*asked, return_exceptions=True)
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
            raise _all_of(failed)
        reading = combine([result.value for result in answered])
        if self.spec.verdict == "rubric":
            return reading.verdict  # it is read by a judge as it is: nothing stands beside the criteria
        judge: dict[str, Any] = {
            "models": [result.model for result in answered],
            "requests": sum(result.requests for result in answered) + sum(_requests(f.links) for f in failed),
            **reading.record,
        }
        if len(answered) > 1 and self.names_hacks:
            judge["unconfirmed"] = [found for result in answered for found in result.value.record["unconfirmed"]]
        if failed:
            judge["withheld"] = [str(failure) for failure in failed]
        if failures := [str(failure) for result in answered for failure in result.failures]:
            judge["failures"] = failures
        return {**reading.verdict, "judge": judge}

    async def _without_marked(
        self, group: Sequence[Mapping[str, Any]], rubric: Any, failure: ModelsFailed
    ) -> dict[str, Any]:
        """Once more without the rollouts that forge something, where a model did reply: breaking it must not pay."""
        found = marked(group)
        if not found or not any(link.replied for link in failure.links):
            raise failure
        if self.spec.verdict == "scores":  # nothing is left to judge
            raise ModelsFailed(BROKEN_JUDGE, f"the rollout forges {_kinds(found)}; {failure}", failure.links)
        rest = without(group, found)
        last = [rollout["index"] for rollout in group if rollout["passed"] and rollout["index"] in found]
        if any(rollout["passed"] for rollout in rest):
            prompts = self.judge.prompts(rest, orders=self.orders, rubric=rubric)
            verdict = rank_last(await self._verdict(prompts, 0), last)
        elif self.spec.verdict == "rubric":
            raise failure
        else:
            verdict = {"hacks": []} if self.spec.verdict == "hacks" else {"ranking": [last]}
        if self.spec.verdict == "rubric":
            return verdict
        shown = {index: [forgery.kind for forgery in forgeries] for index, forgeries in found.items()}
        return {**verdict, "marked": shown, "rescued": str(failure)}

    def _only_answer(self, prompt: JudgePrompt) -> dict[str, Any] | None:
        """A judge that only ranks has nothing to say where all passes are shown as one: they tie."""
        shown = prompt.shown.candidates
        if len(shown) > 1 or self.names_hacks or self.spec.verdict not in ("ranking", "factors", "tiers"):
            return None
        return {"ranking": [list(shown[0].indices)]}


def _judge_of(file: SpecFile, sources: Sources) -> Judge:
    spec = file.spec
    assert isinstance(spec, LlmSpec)
    schema = json.loads(sources.shipped("schemas", spec.verdict, (".json",)).text)
    if spec.reply_schema is not None:
        schema = with_own_fields(schema, read_schema(spec.reply_schema, file.source, sources)[1])

    def render(reference: str | None) -> Render:
        return (lambda values: "") if reference is None else prompt_template(reference, file.source, sources).render

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


def _group_of(said: tuple[Any, ...]) -> tuple[Sequence[Mapping[str, Any]], Any]:
    """A group, or a rollout and its rubric, as the group that the judge is shown."""
    first, *rest = said
    return (first, None) if isinstance(first, list) else ([first], rest[0] if rest else None)


def _all_of(failed: Sequence[ModelsFailed]) -> ModelsFailed:
    """The failures of all orders as one, of the first one's kind."""
    reasons = dict.fromkeys(failure.reason for failure in failed)
    return ModelsFailed(failed[0].kind, "; ".join(reasons), tuple(link for failure in failed for link in failure.links))


def _kinds(found: Mapping[int, Sequence[Forgery]]) -> str:
    return ", ".join(dict.fromkeys(forgery.kind for forgeries in found.values() for forgery in forgeries))


def _requests(links: Sequence[LinkFailure]) -> int:
    return sum(link.requests for link in links)

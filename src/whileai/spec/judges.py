"""`kind: llm` and `kind: panel`: graders that ask models, or other graders."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from whileai.simulations import defaults
from whileai.spec.fields import (
    Count,
    GraderReference,
    GraderSpec,
    ModelReference,
    Name,
    Part,
    SchemaReference,
    Seconds,
    TemplateReference,
    VerdictKind,
)
from whileai.spec.validation import Mistake


class Prompt(Part):
    """The templates of one request: bare names are shipped ones, `./x.j2` stands beside the spec."""

    system: TemplateReference | None = None
    user: TemplateReference


class HackHunt(Part):
    """What a model is asked to look for. A hack counts only with evidence that stands in the shown text."""

    kinds: Annotated[list[Name], Field(min_length=1)]
    evidence: Literal["required"] = "required"


class Transcript(Part):
    """How much of the rollouts a model is shown, in characters."""

    max_chars_per_rollout: Count = defaults.TRANSCRIPT_MAX_CHARS_PER_ROLLOUT
    max_chars_per_group: Count = defaults.TRANSCRIPT_MAX_CHARS_PER_GROUP


class Retry(Part):
    """`attempts` at the endpoint for one reply, and `repairs` of a malformed reply."""

    attempts: Count = defaults.RETRY_ATTEMPTS
    repairs: Annotated[int, Field(ge=0)] = defaults.RETRY_REPAIRS


class Timeouts(Part):
    """Seconds for one request, and for everything that one group takes."""

    request_s: Seconds = defaults.TIMEOUT_REQUEST_S
    group_s: Annotated[Seconds, Field(validate_default=True)] = defaults.TIMEOUT_GROUP_S

    @field_validator("group_s")
    @classmethod
    def _inner_below_outer(cls, value: float, info: ValidationInfo) -> float:
        if value < info.data.get("request_s", value):
            raise Mistake(f"{value} is below request_s", "a group takes at least one request: raise group_s")
        return value


class Budget(Part):
    """What one run may spend over all its processes."""

    calls: Count | None = None
    usd: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class LlmSpec(GraderSpec):
    """`kind: llm`: a model reads the whole group, or in reward mode one pass and its rubric."""

    kind: Literal["llm"]
    verdict: VerdictKind
    model: Annotated[
        list[ModelReference],
        BeforeValidator(_listed, json_schema_input_type=ModelReference | list[ModelReference]),
        Field(min_length=1),
    ]
    prompt: Prompt
    vars: dict[str, Any] = Field(default_factory=dict)
    hacks: Annotated[HackHunt | None, Field(validate_default=True)] = None
    orders: Annotated[int, Field(ge=1, le=24)] = 1
    reply_schema: SchemaReference | None = Field(alias="schema", default=None)
    transcript: Transcript = Transcript()
    retry: Retry = Retry()
    timeouts: Timeouts = Timeouts()
    budget: Budget = Budget()

    @field_validator("verdict")
    @classmethod
    def _verdict_fits_the_mode(cls, value: str, info: ValidationInfo) -> str:
        needed = "reward" if value in ("scores", "rubric") else "advantage"
        if info.data.get("mode", needed) != needed:
            raise Mistake(f"{value!r} needs mode: {needed}", f"write mode: {needed}, or another verdict")
        return value

    @field_validator("vars")
    @classmethod
    def _vars_are_variables(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        for name in value:
            if not name.isidentifier():
                raise Mistake(f"{name!r} cannot be used as a variable", "letters, digits and _")
            if name in info.data.get("columns", ()):
                raise Mistake(f"{name!r} is a declared column too", "rename one of them")
        return value

    @field_validator("hacks")
    @classmethod
    def _hunters_hunt(cls, value: HackHunt | None, info: ValidationInfo) -> HackHunt | None:
        verdict = info.data.get("verdict")
        if value is None and verdict == "hacks":
            raise Mistake("is required for verdict: hacks", "hacks: {kinds: [leaked_answer]}")
        if value is not None and verdict in ("scores", "rubric"):
            raise Mistake(f"verdict: {verdict} names no hacks", "remove it")
        return value

    @property
    def names_hacks(self) -> bool:
        return self.hacks is not None


class Member(Part):
    """One vote of a panel; `model` replaces the models of an llm grader."""

    grader: GraderReference
    model: ModelReference | None = None


def _member(value: Any) -> Any:
    return {"grader": value} if isinstance(value, str) else value


class PanelSpec(GraderSpec):
    """`kind: panel`: several graders, one verdict."""

    kind: Literal["panel"]
    mode: Literal["advantage"] = "advantage"
    members: Annotated[
        list[Annotated[Member, BeforeValidator(_member, json_schema_input_type=str | Member)]], Field(min_length=2)
    ]
    combine: Literal["mean_rank"] = "mean_rank"
    quorum: Count | None = None

    @field_validator("quorum")
    @classmethod
    def _quorum_can_be_met(cls, value: int | None, info: ValidationInfo) -> int | None:
        members = len(info.data.get("members", ()))
        if value is not None and members and value > members:
            raise Mistake(f"{value} of {members} members can never vote", f"at most {members}")
        return value

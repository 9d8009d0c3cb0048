"""What a grader's spec may say: one model per `kind:`, strict in keys and types.

Fields whose text must itself be well formed (expressions, templates, schemas, functions, other graders) are
checked through the validation context, a `Surroundings`; without one only their types are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from whileai.simulations import defaults
from whileai.spec.validation import Mistake

Mode = Literal["advantage", "reward"]
VerdictKind = Literal["ranking", "factors", "tiers", "hacks", "scores", "rubric"]

ROLLOUT_KEYS = frozenset({"index", "prompt", "completion", "reward", "passed", "messages", "task_id", "final_text"})
"""Keys of a rollout that no declared column can stand for."""


class Surroundings(Protocol):
    """What a spec's texts are checked against. Each method raises `Mistake`, and none executes anything."""

    def expression(self, text: str) -> None: ...
    def template(self, reference: str) -> None: ...
    def schema(self, reference: str) -> None: ...
    def function(self, reference: str) -> None: ...
    def grader(self, reference: str) -> None: ...


def _checked(method: str) -> AfterValidator:
    def check(value: str, info: ValidationInfo) -> str:
        if info.context is not None:
            getattr(info.context, method)(value)
        return value

    return AfterValidator(check)


def _named(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise Mistake(f"{value!r} is not a name", "letters, digits, _ and -, beginning with a letter")
    return value


def _model_reference(value: str) -> str:
    if not _MODEL.fullmatch(value):
        raise Mistake(f"{value!r} names no model", "write a role (judge) or provider:name (openai:gpt-x)")
    return value


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_MODEL = re.compile(r"[a-z][a-z0-9_]{0,63}|[a-z][a-z0-9_-]*:\S*")

Name = Annotated[str, AfterValidator(_named)]
Expression = Annotated[str, _checked("expression")]
TemplateReference = Annotated[str, _checked("template")]
SchemaReference = Annotated[str, _checked("schema")]
FunctionReference = Annotated[str, _checked("function")]
GraderReference = Annotated[str, _checked("grader")]
ModelReference = Annotated[str, AfterValidator(_model_reference)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class Part(BaseModel):
    """A mapping inside a spec."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class CheckRules(Part):
    """`check:` what the gate asks of this grader. Tighter than the defaults is free; looser needs `because:`."""

    LOOSER_WHEN_SMALLER: ClassVar = frozenset(
        {
            "min_groups",
            "min_pairs",
            "min_std",
            "min_retest",
            "min_moved",
            "min_golden",
            "min_hacks",
            "min_clean",
            "min_recall",
        }
    )
    because: Annotated[str, Field(min_length=10)] | None = None
    min_groups: Count = defaults.CHECK_MIN_GROUPS
    min_pairs: Count = defaults.CHECK_MIN_PAIRS
    min_std: Share = defaults.CHECK_MIN_STD
    min_retest: Share = defaults.CHECK_MIN_RETEST
    max_position: Share = defaults.CHECK_MAX_POSITION
    max_proxy: Share = defaults.CHECK_MAX_PROXY
    min_moved: Share = defaults.CHECK_MIN_MOVED
    min_golden: Share = defaults.CHECK_MIN_GOLDEN
    min_hacks: Count = defaults.CHECK_MIN_HACKS
    min_clean: Count = defaults.CHECK_MIN_CLEAN
    min_recall: Share = defaults.CHECK_MIN_RECALL
    max_false_positives: Share = defaults.CHECK_MAX_FALSE_POSITIVES
    max_failures: Share = defaults.SPREAD_MAX_FAILURES

    @field_validator("*")
    @classmethod
    def _loosening_has_a_reason(cls, value: Any, info: ValidationInfo) -> Any:
        name = info.field_name or ""
        default = cls.model_fields[name].default
        looser = value < default if name in cls.LOOSER_WHEN_SMALLER else name != "because" and value > default
        if looser and not info.data.get("because"):
            raise Mistake(f"{value} is looser than the default {default}", "say why in `because:`, or tighten it")
        return value

    @property
    def loosened(self) -> dict[str, float]:
        """The rules that ask less than the defaults do, with their values."""
        pairs = ((name, getattr(self, name), field.default) for name, field in type(self).model_fields.items())
        return {
            name: value
            for name, value, default in pairs
            if name != "because" and (value < default if name in self.LOOSER_WHEN_SMALLER else value > default)
        }


def _free_column(value: str) -> str:
    if value in ROLLOUT_KEYS:
        raise Mistake(f"{value!r} is a key of every rollout already", "declare only the dataset's own columns")
    if not value.isidentifier():
        raise Mistake(f"{value!r} cannot be used as a variable", "rename the column: letters, digits and _")
    return value


class GraderSpec(Part):
    """What every kind of grader has."""

    spec: Literal[1]
    name: Name
    kind: str
    mode: Mode = "advantage"
    columns: list[Annotated[str, AfterValidator(_free_column)]] = []
    fallback: list[GraderReference] = []
    check: CheckRules = CheckRules()

    @property
    def names_hacks(self) -> bool:
        """Whether a verdict of this grader can name hacks, as far as the spec says."""
        return True


class RankTerm(Part):
    """One key of a lexicographic order: the rollout with the `least` or the `most` comes first."""

    least: Expression | None = None
    most: Expression | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> RankTerm:
        if (self.least is None) == (self.most is None):
            raise Mistake("a rank term has one of least and most", "write {least: expression}")
        return self


class HackRule(Part):
    """A pass for which the expression holds is a hack, for the reason that `name` says."""

    name: Name
    when: Expression = Field(alias="if")


class RulesSpec(GraderSpec):
    """`kind: rules`: sandboxed expressions over one rollout."""

    kind: Literal["rules"]
    rank: list[RankTerm] = []
    hacks: Annotated[list[HackRule], Field(validate_default=True)] = []
    solution: Annotated[Expression | None, Field(validate_default=True)] = None
    behavior: Annotated[Expression | None, Field(validate_default=True)] = None

    @field_validator("rank", "hacks")
    @classmethod
    def _ranks_in_advantage_mode(cls, value: list[Any], info: ValidationInfo) -> list[Any]:
        mode = info.data.get("mode")
        if value and mode == "reward":
            raise Mistake("belongs to mode: advantage", "mode: reward has solution: and behavior:")
        if info.field_name == "hacks" and mode == "advantage" and not value and info.data.get("rank") == []:
            raise Mistake("nothing to grade by: neither rank: nor hacks:", "give at least one of them")
        return value

    @field_validator("solution", "behavior")
    @classmethod
    def _scores_in_reward_mode(cls, value: str | None, info: ValidationInfo) -> str | None:
        mode = info.data.get("mode")
        if value is None and mode == "reward":
            raise Mistake("is required in mode: reward", "an expression with a value in [0, 1]")
        if value is not None and mode == "advantage":
            raise Mistake("belongs to mode: reward", "mode: advantage has rank: and hacks:")
        return value

    @property
    def names_hacks(self) -> bool:
        return bool(self.hacks)

    def expressions(self) -> Iterator[tuple[str, str]]:
        """Every expression with its key path, in the order in which they are evaluated."""
        for number, term in enumerate(self.rank):
            yield (f"rank[{number}].least", term.least) if term.least else (f"rank[{number}].most", term.most or "")
        for number, rule in enumerate(self.hacks):
            yield f"hacks[{number}].if", rule.when
        for key, text in (("solution", self.solution), ("behavior", self.behavior)):
            if text is not None:
                yield key, text


class PythonSpec(GraderSpec):
    """`kind: python`: a function of the author's, `./file.py:name` or `package.module:name`."""

    kind: Literal["python"]
    function: FunctionReference


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
    vars: dict[str, Any] = {}
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


KINDS: dict[str, type[GraderSpec]] = {"rules": RulesSpec, "python": PythonSpec, "llm": LlmSpec, "panel": PanelSpec}
"""The model of each `kind:`."""

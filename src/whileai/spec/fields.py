"""What every spec has, and the kinds of text that stand in one.

Fields whose text must itself be well formed (expressions, templates, schemas, functions, other graders) are
checked through the validation context, a `Surroundings`; without one only their types are.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

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
    columns: list[Annotated[str, AfterValidator(_free_column)]] = Field(default_factory=list)
    fallback: list[GraderReference] = Field(default_factory=list)
    check: CheckRules = CheckRules()

    @property
    def names_hacks(self) -> bool:
        """Whether a verdict of this grader can name hacks, as far as the spec says."""
        return True

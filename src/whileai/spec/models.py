"""What a grader's spec may say: one model per `kind:`, strict in keys and types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from whileai.spec.fields import CheckRules, Expression, FunctionReference, GraderSpec, Name, Part
from whileai.spec.judges import LlmSpec, PanelSpec
from whileai.spec.validation import Mistake

__all__ = [
    "KINDS",
    "CheckRules",
    "GraderSpec",
    "HackRule",
    "LlmSpec",
    "Name",
    "PanelSpec",
    "Part",
    "PythonSpec",
    "RankTerm",
    "RulesSpec",
]


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
    rank: list[RankTerm] = Field(default_factory=list)
    hacks: list[HackRule] = Field(default_factory=list, validate_default=True)
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


KINDS: dict[str, type[GraderSpec]] = {"rules": RulesSpec, "python": PythonSpec, "llm": LlmSpec, "panel": PanelSpec}
"""The model of each `kind:`."""

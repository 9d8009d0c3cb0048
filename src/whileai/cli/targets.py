"""What a command grades with: one way to name a grader for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whileai.errors import Problem, SpecError
from whileai.spec.library import find_shipped

if TYPE_CHECKING:
    from whileai.grading import GroupwiseGrading

SPEC = ".yaml"
GOLDEN = ".golden.yaml"


def load_target(target: str, models: Sequence[str] | None = None, *, record: bool = False) -> Callable[..., Any]:
    """The grader that TARGET names: a compiled one for a spec or a shipped name, else the function itself.

    Args:
        models: ROLE=MODEL each, as `--model` gives them.
        record: keep what models reply beside the spec.

    Raises:
        SpecError: there is no such grader, or it has mistakes. ConfigError: models for a function, which asks none.
    """
    if ":" in Path(target).name or target.endswith(".py"):
        from whileai.errors import ConfigError
        from whileai.kinds.functions import load_function

        if models or record:
            raise ConfigError(f"{target} is a plain function, which asks no model: leave out --model and --record")
        return load_function(target)
    from whileai.loader import load_grader

    if (remedy := _not_a_spec(target)) is not None:
        raise SpecError([Problem(target or "''", None, "", "is no grader", remedy)])
    return load_grader(target, models=roles_of(models), record=record)


def roles_of(models: Sequence[str] | None) -> dict[str, str]:
    """Role to model, as `--model ROLE=MODEL` says it. Raises ConfigError for anything else."""
    from whileai.errors import ConfigError

    found: dict[str, str] = {}
    for given in models or ():
        role, separator, model = given.partition("=")
        if not separator or not role or not model:
            raise ConfigError(f"--model {given}: write ROLE=MODEL, such as judge=openai:gpt-5-mini")
        if role in found:
            raise ConfigError(f"--model {given}: {role} is given twice")
        found[role] = model
    return found


def grading_of(
    target: str, mode: str | None, models: Sequence[str] | None = None, *, record: bool = False
) -> GroupwiseGrading:
    """The grader with the default knobs, in the given mode or its own."""
    from whileai.grading import GroupwiseGrading
    from whileai.loader import CompiledGrader

    grader = load_target(target, models, record=record)
    own = grader.mode if isinstance(grader, CompiledGrader) else "advantage"
    return GroupwiseGrading(grader, mode=mode or own)


def spec_of(golden: Path) -> Path:
    """The spec that golden cases are for."""
    return golden.with_name(golden.name.removesuffix(GOLDEN) + SPEC)


def _not_a_spec(target: str) -> str | None:
    """What to write instead of a target that cannot be a spec."""
    path = Path(target)
    if find_shipped("graders", target, (SPEC,)):
        return None
    if not target:
        return "name a spec, a shipped grader, or ./file.py:function"
    if target.endswith(GOLDEN):
        return f"these are golden cases: name the spec, {spec_of(path)}"
    if path.is_dir():
        return "this is a folder: name one spec in it"
    if path.name != target and not path.suffix and path.with_suffix(SPEC).is_file():
        return f"did you mean {path.with_suffix(SPEC)}?"
    return None

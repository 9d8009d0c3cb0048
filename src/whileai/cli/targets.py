"""What a command grades with: one way to name a grader for all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whileai.errors import Problem, SpecError
from whileai.spec.library import find_shipped

if TYPE_CHECKING:
    from whileai.grading import GroupwiseGrading

SPEC = ".yaml"
GOLDEN = ".golden.yaml"


def load_target(target: str) -> Callable[..., Any]:
    """The grader that TARGET names: a compiled one for a spec or a shipped name, else the function itself.

    Raises:
        SpecError: there is no such grader, or it has mistakes.
    """
    if ":" in Path(target).name or target.endswith(".py"):
        from whileai.kinds.functions import load_function

        return load_function(target)
    from whileai.loader import load_grader

    if (remedy := _not_a_spec(target)) is not None:
        raise SpecError([Problem(target or "''", None, "", "is no grader", remedy)])
    return load_grader(target)


def grading_of(target: str, mode: str | None) -> GroupwiseGrading:
    """The grader with the default knobs, in the given mode or its own."""
    from whileai.grading import GroupwiseGrading
    from whileai.loader import CompiledGrader

    grader = load_target(target)
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

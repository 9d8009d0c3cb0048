"""`whileai new`: a grader to start from, with golden cases that hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from whileai.cli import output
from whileai.cli.targets import GOLDEN, SPEC


def new(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="What the grader is called: letters, digits, _ and -.", show_default=False),
    ],
    kind: Annotated[
        str, typer.Option("--kind", help="rules: expressions over one rollout; python: a function over the group.")
    ] = "rules",
    into: Annotated[Path, typer.Option("--into", help="The folder for its files; it is made if need be.")] = Path(),
) -> None:
    """Begin a grader, with golden cases that hold. Overwrites nothing."""
    from whileai.checks.files import write_atomically
    from whileai.errors import ConfigError
    from whileai.spec.document import nearest

    if kind not in FILES:
        raise ConfigError(f"--kind {kind}: there is no such kind of grader to begin with ({nearest(kind, FILES)})")
    _check_name(name)
    files = {into / f"{name}{suffix}": text.replace("NAME", name) for suffix, text in FILES[kind].items()}
    there = [str(path) for path in files if path.exists() or path.is_symlink()]
    if there:
        raise ConfigError(
            f"{', '.join(there)}: already there, and nothing is overwritten; choose another name or --into"
        )
    for path, text in files.items():
        write_atomically(path, text.encode())
    _say_next(list(files))


def _check_name(name: str) -> None:
    """Refuse what a spec would refuse as its `name:`, before a file is called so."""
    from pydantic import TypeAdapter, ValidationError

    from whileai.errors import ConfigError
    from whileai.spec.models import Name

    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        path = Path(name)
        own = f"whileai new {path.name.removesuffix(SPEC)}" + (f" --into {path.parent}" if path.parent.name else "")
        remedy = (
            f"write {own}" if path.suffix == SPEC or path.parent.name else "letters, digits, _ and -, a letter first"
        )
        raise ConfigError(f"{name!r} is not a name for a grader ({remedy})") from None


def _say_next(files: list[Path]) -> None:
    console = output.console()
    for path in files:
        console.print(f"wrote {output.visible(str(path))}", style="green", soft_wrap=True)
    console.print("\nChange it, and look at it as you go:", style="bold")
    spec = output.visible(str(files[0]))
    steps = {
        f"whileai lint {spec}": "is it well formed?",
        f"whileai test {spec}": "do its golden cases hold?",
        f"whileai explain {spec} --rows ROWS": "one group, step by step",
        f"whileai check {spec} --rows ROWS": "may it train?",
    }
    width = max(map(len, steps))
    for command, purpose in steps.items():
        console.print(f"  {command:<{width}}  ", end="", soft_wrap=True)
        console.print(purpose, style="dim", soft_wrap=True)


RULES = """\
spec: 1
name: NAME
kind: rules

# Best first. Each term is compared in turn: `least:` or `most:` of a number. Passes that are equal in every term tie.
# An expression sees one rollout: completion, final_text, messages, tool_calls, tool_results, turns, prompt, reward.
rank:
  - least: completion.count("<tool_call>")

# A pass for which an expression holds is a hack: it counts as a failure.
hacks:
  - name: invented_id
    if: '"ORD-9999" in completion'
"""

PYTHON = """\
spec: 1
name: NAME
kind: python
function: ./NAME.py:grade
"""

FUNCTION = '''\
"""A grader: fewest tool calls first, and a pass that names an invented order id is a hack."""

from itertools import groupby


def grade(group):
    """`group` is a list of dicts: index, prompt, completion, reward, passed, and the dataset's columns."""
    passes = [rollout for rollout in group if rollout["passed"]]
    hacks = [rollout["index"] for rollout in passes if "ORD-9999" in rollout["completion"]]
    ranked = sorted((rollout for rollout in passes if rollout["index"] not in hacks), key=calls)
    # An inner list is a tie. Without it equal passes would be told apart by their place.
    ranking = [[rollout["index"] for rollout in tie] for _, tie in groupby(ranked, key=calls)]
    return {"ranking": ranking, "hacks": hacks}


def calls(rollout):
    return rollout["completion"].count("<tool_call>")
'''

CASES = """\
golden: 1

# Each case is a group of rollouts and what must hold for it. A rollout passed unless its reward says otherwise.
# What can be said: ranking, better, ties, hacks, factors, unusable.
cases:
  - name: the pass with fewer tool calls is better
    group:
      - completion: <tool_call>look_up</tool_call><tool_call>refund</tool_call> Refunded.
      - completion: <tool_call>refund</tool_call> Refunded.
      - {completion: I cannot help with that., reward: 0}
    ranking: [1, 0]

  - name: as many calls are a tie
    group:
      - completion: <tool_call>look_up</tool_call> Yours is ORD-1042.
      - completion: <tool_call>list_orders</tool_call> It is ORD-1042.
      - {completion: I do not know., reward: 0}
    ties: [[0, 1]]

  - name: an order id that no tool returned is a hack
    group:
      - completion: <tool_call>refund</tool_call> Refunded.
      - completion: Refunded ORD-9999.
      - {completion: I cannot help with that., reward: 0}
    hacks: [1]
"""

FILES: Mapping[str, Mapping[str, str]] = {
    "rules": {SPEC: RULES, GOLDEN: CASES},
    "python": {SPEC: PYTHON, ".py": FUNCTION, GOLDEN: CASES},
}
"""What each kind begins with: suffix and text of its files, in which NAME stands for the grader's name."""

"""`whileai new`: a grader to start from, with golden cases that hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from whileai.cli import output
from whileai.cli.beginnings import KINDS, files_of
from whileai.cli.targets import SPEC


def new(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="What the grader is called: letters, digits, _ and -.", show_default=False),
    ],
    kind: Annotated[
        str, typer.Option("--kind", help="; ".join(f"{kind}: {what}" for kind, what in KINDS.items()) + ".")
    ] = "rules",
    into: Annotated[Path, typer.Option("--into", help="The folder for its files; it is made if need be.")] = Path(),
) -> None:
    """Begin a grader, with golden cases that hold. Overwrites nothing."""
    from whileai.checks.files import write_atomically
    from whileai.errors import ConfigError
    from whileai.spec.document import nearest

    if kind not in KINDS:
        raise ConfigError(f"--kind {kind}: there is no such kind of grader to begin with ({nearest(kind, KINDS)})")
    _check_name(name)
    files = {into / f"{name}{suffix}": text for suffix, text in files_of(kind, name).items()}
    there = [str(path) for path in files if path.exists() or path.is_symlink()]
    if there:
        raise ConfigError(
            f"{', '.join(there)}: already there, and nothing is overwritten; choose another name or --into"
        )
    for path, text in files.items():
        write_atomically(path, text.encode())
    _say_next(list(files), ROLES.get(kind, ()))


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


ROLES = {"llm": ("judge",), "panel": ("judge", "second_judge")}
"""The roles that a new grader asks for."""


def _say_next(files: list[Path], roles: Sequence[str]) -> None:
    console = output.console()
    for path in files:
        console.print(f"wrote {output.visible(str(path))}", style="green", soft_wrap=True)
    console.print("\nChange it, and look at it as you go:", style="bold")
    spec = output.visible(str(files[0]))
    recorded = "".join(f" --model {role}=recorded:" for role in roles)
    steps = {
        f"whileai lint {spec}": "is it well formed?",
        f"whileai test {spec}{recorded}": "do its golden cases hold?" + (" (no model is asked)" if roles else ""),
        **{f"export WHILEAI_MODEL_{role.upper()}=openai:MODEL": "or anthropic:MODEL" for role in roles},
        **({f"whileai render {spec} --rows ROWS": "what would be sent?"} if roles else {}),
        f"whileai explain {spec} --rows ROWS": "one group, step by step",
        f"whileai check {spec} --rows ROWS": "may it train?",
    }
    width = max(map(len, steps))
    beside = width + 4 + max(map(len, steps.values())) <= console.width or not console.is_terminal
    for command, purpose in steps.items():
        if beside:
            console.print(f"  {command:<{width}}  ", end="", soft_wrap=True)
        else:
            console.print(f"  {command}", soft_wrap=True)
        console.print(purpose if beside else f"    {purpose}", style="dim", soft_wrap=True)

"""Roles: the models that specs ask for by name, defined once in configuration and never in a spec.

    [tool.whileai.models]
    judge = "openai:gpt-x"                       # provider:name
    judge_backup = "judge"                       # the name of another role
    [tool.whileai.models.local]                  # or everything about it
    provider = "openai"
    name = "qwen3-32b"
    base_url = "http://127.0.0.1:8000/v1"
    api_key_env = "WHILEAI_KEY_LOCAL"
    params = {max_tokens = 2000, temperature = 0.0}
    prices = {input = 0.1, output = 0.4}         # USD per million tokens
    context = 32768                              # tokens

The first place that names a role defines the whole of it: the argument (`models=`, `--model`), the environment
(`WHILEAI_MODEL_JUDGE`), the project (`pyproject.toml`, or `whileai.toml`, where the table may be called
`[models]`), the user (`whileai.toml` in the user's configuration folder). Nothing is merged across places, so a
bare provider:name brings no key, host or parameter of another model along.

No key is read here, only the name of its variable.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whileai.errors import Problem, SpecError
from whileai.spec.document import Document, nearest, quoted, read_toml
from whileai.spec.role_tables import (
    KEY_PREFIX,
    VENDOR_HOSTS,
    VENDOR_KEYS,
    ResolvedRole,
    RoleTable,
    read_roles,
)

__all__ = ["ENVIRONMENT_PREFIX", "KEY_PREFIX", "VENDOR_HOSTS", "VENDOR_KEYS", "ResolvedRole", "Roles"]

ENVIRONMENT_PREFIX = "WHILEAI_MODEL_"


class Roles:
    """Every role that is defined around a project. Reading it opens configuration files and nothing else.

    Args:
        models: role -> provider:name, another role, a table of the fields above, or a `ResolvedRole`.
        folder: where the project is looked for, upward from here; the working directory by default.
        environ: the environment; `os.environ` by default.

    Raises:
        SpecError: a configuration file or an argument has mistakes.
    """

    def __init__(
        self,
        models: Mapping[str, Any] | None = None,
        *,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        environ = os.environ if environ is None else environ
        self._defined: dict[str, tuple[Any, str]] = {}
        for origin, table in (
            ("argument", _argument(models or {})),
            ("environment", _environment(environ)),
            *_project(folder or Path.cwd()),
            *_user(environ),
        ):
            for role, value in table.items():
                name = f"{ENVIRONMENT_PREFIX}{role.upper()}" if origin == "environment" else origin
                self._defined.setdefault(role, (value, name))

    def names(self) -> list[str]:
        """Every role that is defined, sorted."""
        return sorted(self._defined)

    def resolve(self, reference: str) -> ResolvedRole:
        """The model that a spec's reference means: a role, or provider:name as it stands.

        Raises:
            SpecError: no such role, or aliases that lead in a circle.
        """
        if ":" in reference:
            return _bare(reference, None, "spec")
        through: list[str] = []
        name, origin = reference, ""
        while True:
            if name in through:
                circle = " -> ".join([*through[through.index(name) :], name])
                raise SpecError([Problem(origin, None, name, f"role {name!r} leads back to itself: {circle}")])
            through.append(name)
            if name not in self._defined:
                raise SpecError([self._undefined(name, origin)])
            value, defined_in = self._defined[name]
            origin = f"{origin}, {name}: {defined_in}" if origin else defined_in
            if isinstance(value, ResolvedRole):
                return value
            if isinstance(value, RoleTable):
                return _from_table(value, reference, origin)
            if ":" in value:
                return _bare(value, reference, origin)
            name = value

    def _undefined(self, name: str, origin: str) -> Problem:
        ways = (
            f"{ENVIRONMENT_PREFIX}{name.upper()}=provider:name, --model {name}=provider:name, "
            f'or {name} = "provider:name" under [tool.whileai.models] in pyproject.toml'
        )
        near = nearest(name, self._defined) if self._defined else ""
        return Problem(
            origin or "models", None, name, f"role {name!r} is not defined", f"{near + '; or ' if near else ''}{ways}"
        )


def _from_table(table: RoleTable, role: str, origin: str) -> ResolvedRole:
    return ResolvedRole(
        table.provider,
        table.name,
        table.base_url,
        table.api_key_env,
        dict(table.params),
        table.prices.model_dump(exclude_none=True) if table.prices else None,
        table.context,
        role,
        origin,
    )


def _bare(value: str, role: str | None, origin: str) -> ResolvedRole:
    provider, _, name = value.partition(":")
    return ResolvedRole(provider, name, role=role, origin=origin)


def _argument(models: Mapping[str, Any]) -> dict[str, Any]:
    return read_roles(Document("models="), models, ())


def _environment(environ: Mapping[str, str]) -> dict[str, Any]:
    given = {
        name.removeprefix(ENVIRONMENT_PREFIX).lower(): value.strip()
        for name, value in environ.items()
        if name.startswith(ENVIRONMENT_PREFIX) and value.strip()
    }
    return read_roles(Document("environment"), given, ())


def _project(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """The roles of the nearest folder, upward, that has any configuration of ours."""
    for parent in (folder.resolve(), *folder.resolve().parents):
        tables = [
            (path.name, table)
            for path in (parent / "pyproject.toml", parent / "whileai.toml")
            if (table := _from_file(path)) is not None
        ]
        both = [role for role in tables[0][1] if role in tables[1][1]] if len(tables) == 2 else []
        if both:
            message = f"{both[0]!r} is defined in pyproject.toml and in whileai.toml of {parent.name!r}"
            raise SpecError([Problem("whileai.toml", None, f"models.{both[0]}", message, "keep one of them")])
        if tables:
            return tables
    return []


def _user(environ: Mapping[str, str]) -> list[tuple[str, dict[str, Any]]]:
    if sys.platform == "win32":
        home = environ.get("APPDATA")
    else:
        home = environ.get("XDG_CONFIG_HOME") or (f"{environ['HOME']}/.config" if environ.get("HOME") else None)
    if not home:
        return []
    table = _from_file(Path(home) / "whileai" / "whileai.toml")
    return [] if table is None else [("user configuration", table)]


def _from_file(path: Path) -> dict[str, Any] | None:
    """The roles in one file; None where the file, or any configuration of ours in it, is absent."""
    if not path.is_file():
        return None
    document = read_toml(path.read_bytes(), path.name)
    document.check()
    tool: Any = document.data.get("tool", {})
    ours: Any = tool.get("whileai") if isinstance(tool, dict) else None
    inside: tuple[str, ...] = ("tool", "whileai")
    if path.name == "whileai.toml" and ours is None:
        ours, inside = document.data, ()
    if ours is None:
        return None
    if not isinstance(ours, dict):
        document.add(inside, f"{quoted(ours)} is not a table", "write [tool.whileai.models]")
        document.check()
    for key in ours:
        if key != "models":
            document.add((*inside, key), "unknown key", nearest(key, ["models"]))
    return read_roles(document, ours.get("models", {}), (*inside, "models"))

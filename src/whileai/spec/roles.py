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
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationInfo

from whileai.errors import Problem, SpecError
from whileai.spec.document import Document, nearest, quoted, read_toml
from whileai.spec.models import Part
from whileai.spec.validation import Mistake, validate

ENVIRONMENT_PREFIX = "WHILEAI_MODEL_"
KEY_PREFIX = "WHILEAI_KEY_"

VENDOR_KEYS = {"api.openai.com": "OPENAI_API_KEY", "api.anthropic.com": "ANTHROPIC_API_KEY"}
"""The only variables that go to a host without the prefix `WHILEAI_KEY_`, and the host (regional subdomains
included) that each goes to."""

VENDOR_HOSTS = {"openai": "api.openai.com", "anthropic": "api.anthropic.com"}
"""Where a provider calls when the role has no `base_url`."""


@dataclass(frozen=True)
class ResolvedRole:
    """One model, as a role resolved to it.

    Attributes:
        role: the name that was asked for; None where a spec names provider:name itself.
        origin: where it was defined, through which aliases.
        api_key_env: the variable that holds the key; None where the vendor's own default, or no key, is meant.
        params: what is sent besides the request; the provider says which it knows.
        prices: USD per million tokens by `input`, `output`, `cached`, `cache_written`; None if unknown.
        context: size of the model's window in tokens; None if unknown.
    """

    provider: str
    name: str
    base_url: str | None = None
    api_key_env: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    prices: Mapping[str, float] | None = None
    context: int | None = None
    role: str | None = None
    origin: str = ""

    def __str__(self) -> str:
        return f"{self.provider}:{self.name}"

    @property
    def host(self) -> str | None:
        """The host that a request goes to, as far as configuration says."""
        return urlsplit(self.base_url).hostname if self.base_url else VENDOR_HOSTS.get(self.provider)


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
            if isinstance(value, _Table):
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


def _host_key_rule(value: str | None, info: ValidationInfo) -> str | None:
    """A vendor's own key goes to that vendor's own host over https; every other key has the prefix."""
    if value is None or re.fullmatch(f"{KEY_PREFIX}[A-Z0-9_]+", value):
        return value
    url = urlsplit(info.data.get("base_url") or f"https://{VENDOR_HOSTS.get(info.data.get('provider', ''), '')}")
    host = url.hostname or ""
    for own, variable in VENDOR_KEYS.items():
        if variable == value and url.scheme == "https" and (host == own or host.endswith(f".{own}")):
            return value
    raise Mistake(
        f"{value!r} is not sent to {host or 'this endpoint'}",
        f"put that endpoint's key into a variable whose name begins with {KEY_PREFIX}, and name it here",
    )


def _plain_url(value: str | None) -> str | None:
    if value is None:
        return None
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018 - raises on a port that is no number
    except ValueError as error:
        raise Mistake(f"base_url cannot be read: {error}", "such as http://127.0.0.1:8000/v1") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Mistake(f"{quoted(value)} is not an http or https URL", "such as http://127.0.0.1:8000/v1")
    if "@" in parts.netloc or parts.query or parts.fragment or re.search(r"[^!-~]|\\", value):
        raise Mistake(
            f"the URL of host {parts.hostname!r} carries a user, a query or stray characters",
            f"give the plain URL, and a key by api_key_env = {KEY_PREFIX}...",
        )
    return value


def _provider_name(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", value):
        raise Mistake(f"{quoted(value)} is not a provider", "such as openai, anthropic or recorded")
    return value


class _Prices(Part):
    input: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    output: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    cached: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    cache_written: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


class _Table(Part):
    """A role that is written as a table."""

    provider: Annotated[str, AfterValidator(_provider_name)]
    name: str
    base_url: Annotated[str | None, AfterValidator(_plain_url)] = None
    api_key_env: Annotated[str | None, AfterValidator(_host_key_rule)] = None
    params: dict[str, Any] = Field(default_factory=dict)
    prices: _Prices | None = None
    context: Annotated[int, Field(ge=1)] | None = None


def _from_table(table: _Table, role: str, origin: str) -> ResolvedRole:
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


def _read_table(document: Document, models: Any, inside: tuple[str, ...]) -> dict[str, Any]:
    """The roles of one table: text as it is, tables validated. Raises with every mistake of the document."""
    found: dict[str, Any] = {}
    if not isinstance(models, Mapping):
        document.add(inside, f"{quoted(models)} is not a table of roles", 'write judge = "provider:name" lines')
        models = {}
    for role, value in models.items():
        path = (*inside, str(role))
        if not isinstance(role, str) or not _ROLE.fullmatch(role):
            document.add(path, f"{quoted(role)} is not the name of a role", "small letters, digits and _")
        elif isinstance(value, str):
            if not _REFERENCE.fullmatch(value):
                document.add(path, f"{quoted(value)} is neither provider:name nor a role", "such as openai:gpt-x")
            found[role] = value
        elif isinstance(value, ResolvedRole):
            found[role] = value
        elif isinstance(value, Mapping):
            part = Document(document.file, dict(value))
            table = validate(part, _Table)
            document.problems += [
                Problem(p.file, p.line, ".".join((*path, p.key)), p.message, p.remedy) for p in part.problems
            ]
            found[role] = table
        else:
            document.add(path, f"{quoted(value)} is neither provider:name nor a table", "such as openai:gpt-x")
    document.check()
    return found


_ROLE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_REFERENCE = re.compile(r"[a-z][a-z0-9_]{0,63}|[a-z][a-z0-9_-]*:[!-~]+|recorded:")


def _argument(models: Mapping[str, Any]) -> dict[str, Any]:
    return _read_table(Document("models="), models, ())


def _environment(environ: Mapping[str, str]) -> dict[str, Any]:
    given = {
        name.removeprefix(ENVIRONMENT_PREFIX).lower(): value.strip()
        for name, value in environ.items()
        if name.startswith(ENVIRONMENT_PREFIX) and value.strip()
    }
    return _read_table(Document("environment"), given, ())


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
    return _read_table(document, ours.get("models", {}), (*inside, "models"))

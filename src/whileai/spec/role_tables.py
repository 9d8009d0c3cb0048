"""One table of roles, as configuration files, the environment and callers write it.

A value is provider:name, the name of another role, or a table. A vendor's own key variable is accepted for that
vendor's own host only, every other host takes a variable whose name begins with `WHILEAI_KEY_`: a stranger's
project file can send no other secret anywhere. No key is read here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationInfo

from whileai.errors import Problem
from whileai.spec.document import Document, quoted
from whileai.spec.fields import Part
from whileai.spec.validation import Mistake, validate

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


def read_roles(document: Document, models: Any, inside: tuple[str, ...]) -> dict[str, Any]:
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
            table = validate(part, RoleTable)
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


class RoleTable(Part):
    """A role that is written as a table."""

    provider: Annotated[str, AfterValidator(_provider_name)]
    name: str
    base_url: Annotated[str | None, AfterValidator(_plain_url)] = None
    api_key_env: Annotated[str | None, AfterValidator(_host_key_rule)] = None
    params: dict[str, Any] = Field(default_factory=dict)
    prices: _Prices | None = None
    context: Annotated[int, Field(ge=1)] | None = None

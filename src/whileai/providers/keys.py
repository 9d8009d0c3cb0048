"""Which key goes where, and that none of them is ever printed.

A vendor's own variable is sent to that vendor's own host only, over https. Any other endpoint takes its key
from a variable whose name begins with `WHILEAI_KEY_`, or has none; so a project file of a stranger reaches no
secret that was not set aside for this use.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from whileai.errors import ConfigError, RefusedRequest

KEY_PREFIX = "WHILEAI_KEY_"

VENDORS = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "anthropic": ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
}
"""Each vendor's own base_url and key variable."""

_SHORTEST_SECRET = 8
_read: dict[str, str] = {}


def base_url(provider: str, given: str | None) -> str:
    """The URL that requests go to: the given one, else the vendor's own. Never one of the SDKs' variables.

    Raises:
        ConfigError: not an http(s) URL, or one that carries a user, a password or a query.
    """
    if given is None:
        if provider not in VENDORS:
            raise ConfigError(f"provider {provider!r} has no host of its own: the role needs a base_url")
        return VENDORS[provider][0]
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"base_url {given!r} is not an http or https URL, such as http://127.0.0.1:8000/v1")
    if "@" in parts.netloc or parts.query or parts.fragment or any(c in given for c in "\\ \t\r\n"):
        raise ConfigError(
            f"base_url of host {parts.hostname!r} carries a user, a query or stray characters; "
            f"give the plain URL, and a key by `api_key_env: {KEY_PREFIX}...`"
        )
    return given


def is_vendors_own(provider: str, url: str) -> bool:
    """Whether the URL is at the vendor's own host (regional subdomains included), over https."""
    if provider not in VENDORS:
        return False
    parts, own = urlsplit(url), urlsplit(VENDORS[provider][0]).hostname or ""
    host = parts.hostname or ""
    return parts.scheme == "https" and (host == own or host.endswith(f".{own}"))


def read_key(provider: str, url: str, variable: str | None) -> str | None:
    """The key for this endpoint from the environment; None where the endpoint takes none.

    Raises:
        ConfigError: the variable may not be sent to this host.
        RefusedRequest: (no_key) the variable is not set.
    """
    own_host = is_vendors_own(provider, url)
    if variable is None and own_host:
        variable = VENDORS[provider][1]
    if variable is None:
        return None
    allowed = variable.startswith(KEY_PREFIX) or (own_host and variable == VENDORS[provider][1])
    host = urlsplit(url).hostname
    if not allowed:
        raise ConfigError(
            f"the key in {variable} is not sent to {host!r}: that endpoint takes its key from a variable "
            f"whose name begins with {KEY_PREFIX} (api_key_env: {KEY_PREFIX}...)"
        )
    key = os.environ.get(variable, "").strip()
    if not key:
        raise RefusedRequest("no_key", f"{variable} is not set; it holds the key for {host!r}")
    if not key.isprintable() or not key.isascii():
        raise RefusedRequest("no_key", f"{variable} holds characters that no key has; set it anew")
    _read[variable] = key
    return key


def redact(text: str) -> str:
    """The text with every key that was read in this process replaced by the name of its variable."""
    for variable, key in list(_read.items()):
        if len(key) >= _SHORTEST_SECRET and key in text:
            text = text.replace(key, f"[{variable}]")
    return text

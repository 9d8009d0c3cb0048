"""Which key goes where, and that none of them is ever printed.

A vendor's own variable is sent to that vendor's own host only, over https. Any other endpoint takes its key
from a variable whose name begins with `WHILEAI_KEY_`, or has none; so a project file of a stranger reaches no
secret that was not set aside for this use.
"""

from __future__ import annotations

import json
import os
from urllib.parse import urlsplit

from whileai.errors import ConfigError, RefusedRequest
from whileai.spec.roles import KEY_PREFIX, VENDOR_HOSTS, VENDOR_KEYS

OWN_URLS = {
    "openai": f"https://{VENDOR_HOSTS['openai']}/v1",
    "anthropic": f"https://{VENDOR_HOSTS['anthropic']}",
}
"""Each vendor's own base_url."""

_SHORTEST_SECRET = 8
_read: dict[str, str] = {}


def base_url(provider: str, given: str | None) -> str:
    """The URL that requests go to: the given one, else the vendor's own. Never one of the SDKs' variables.

    Raises:
        ConfigError: not an http(s) URL, or one that carries a user, a password or a query.
    """
    if given is None:
        if provider not in OWN_URLS:
            raise ConfigError(f"provider {provider!r} has no host of its own: the role needs a base_url")
        return OWN_URLS[provider]
    try:
        parts = urlsplit(given)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half an IPv6 address
        is_url = False
    if not is_url:
        named = "the base_url (it has an @: maybe a password)" if "@" in given else f"base_url {given!r}"
        raise ConfigError(f"{named} is not an http or https URL, such as http://127.0.0.1:8000/v1")
    if "@" in parts.netloc or parts.query or parts.fragment or any(c in given for c in "\\ \t\r\n"):
        raise ConfigError(
            f"base_url of host {parts.hostname!r} carries a user, a query or stray characters; "
            f"give the plain URL, and a key by `api_key_env: {KEY_PREFIX}...`"
        )
    return given


def is_vendors_own(provider: str, url: str) -> bool:
    """Whether the URL is at the vendor's own host (regional subdomains included), over https."""
    own, parts = VENDOR_HOSTS.get(provider), urlsplit(url)
    host = parts.hostname or ""
    return own is not None and parts.scheme == "https" and (host == own or host.endswith(f".{own}"))


def key_variable(provider: str, url: str, given: str | None) -> str | None:
    """The environment variable that holds the key for this endpoint; None where it takes none.

    Raises:
        ConfigError: the given variable may not be sent to this host.
    """
    own = VENDOR_KEYS[VENDOR_HOSTS[provider]] if is_vendors_own(provider, url) else None
    if given is None or given == own or given.startswith(KEY_PREFIX):
        return given or own
    raise ConfigError(
        f"the key in {given} is not sent to {urlsplit(url).hostname!r}: that endpoint takes its key from a variable "
        f"whose name begins with {KEY_PREFIX} (api_key_env: {KEY_PREFIX}...)"
    )


def read_key(variable: str, url: str) -> str:
    """The key that the variable holds.

    Raises:
        RefusedRequest: (no_key) it holds none.
    """
    key = os.environ.get(variable, "").strip()
    if not key:
        raise RefusedRequest("no_key", f"{variable} is not set; it holds the key for {urlsplit(url).hostname!r}")
    if not key.isprintable() or not key.isascii():
        raise RefusedRequest("no_key", f"{variable} holds characters that no key has; set it anew")
    _read[variable] = key
    return key


def redact(text: str) -> str:
    """The text with every key that was read in this process replaced by its variable's name, in JSON texts too."""
    longest_first = sorted(_read.items(), key=lambda item: len(item[1]), reverse=True)  # one may begin another
    for variable, key in longest_first:
        for written in (key, json.dumps(key)[1:-1]):
            if len(key) >= _SHORTEST_SECRET and written in text:
                text = text.replace(written, f"[{variable}]")
    return text

"""What an HTTP answer means: which errors may heal, what to do about the others, what a body holds."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from whileai.errors import ProviderError, RefusedRequest, TransportError
from whileai.providers.keys import redact

NEVER_HEALS = frozenset({"insufficient_quota", "contract_spend_limit_reached", "enforced_spend_limit_reached"})
"""Codes of a 429 that waiting does not cure."""

_REMEDIES = {
    "auth": "check the key",
    "permission": "this key may not use this model",
    "payment": "the account needs credit",
    "insufficient_quota": "the account's quota is spent; waiting does not cure it",
    "not_found": "check the model's name and the base_url",
    "too_large": "show the judge less (transcript: max_chars_per_rollout)",
    "context_length": "show the judge less (transcript: max_chars_per_rollout)",
    "redirect": "redirects are not followed; give the final base_url",
    "bad_request": "",
}
_REFUSED = {401: "auth", 402: "payment", 403: "permission", 404: "not_found", 413: "too_large"}
_TRANSIENT = {408: "request_timeout", 409: "conflict", 425: "request_timeout", 529: "overloaded"}
_MESSAGE_LENGTH = 300


def error_of(
    status: int,
    headers: Mapping[str, str],
    content: bytes,
    *,
    endpoint: str,
    now: Callable[[], float] = time.time,
) -> ProviderError:
    """The error that an answer with this status and body stands for. `endpoint` names it in the message."""
    error = _error_object(content)
    code = _code(error)
    if status == 429 and code not in NEVER_HEALS:
        kind, transient = "rate_limited", True
    elif status in _TRANSIENT:
        kind, transient = _TRANSIENT[status], True
    elif status >= 500 and status != 501:
        kind, transient = "server_error", True
    elif status == 429:
        kind, transient = "insufficient_quota", False
    elif 300 <= status < 400:
        kind, transient = "redirect", False
    elif code == "context_length_exceeded":
        kind, transient = "context_length", False
    else:
        kind, transient = _REFUSED.get(status, "bad_request"), False
    said = error.get("message") if isinstance(error.get("message"), str) else content.decode("utf-8", "replace")
    said = " ".join(redact(str(said)).split())[:_MESSAGE_LENGTH]
    reason = f"{endpoint}: {status} {kind.replace('_', ' ')}" + (f": {said}" if said else "")
    if transient:
        return TransportError(kind, reason, retry_after_s(headers, now))
    remedy = _REMEDIES[kind]
    return RefusedRequest(kind, f"{reason} ({remedy})" if remedy else reason)


def refused_parameters(status: int, content: bytes) -> frozenset[str] | None:
    """Which parameters of the request a 400 or 422 objects to, by the names on the wire.

    Returns:
        None if the answer is no such objection; an empty set if it does not say (many servers only use
        prose).
    """
    if status not in (400, 422):
        return None
    error = _error_object(content)
    if _code(error) in ("context_length_exceeded", "invalid_api_key", "model_not_found"):
        return None
    names = [error.get("param")]
    detail = error.get("detail")
    for item in detail if isinstance(detail, list) else []:  # FastAPI: [{"loc": ["body", "response_format", ...]}]
        location = item.get("loc") if isinstance(item, dict) else None
        if isinstance(location, list) and location[:1] == ["body"] and len(location) > 1:
            names.append(location[1])
    return frozenset(name.split(".")[0] for name in names if isinstance(name, str) and name)


def retry_after_s(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds that the server asks to wait, from `retry-after-ms` or either form of `Retry-After`; None if
    unsaid."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now())
    except (ValueError, OverflowError):
        return None


def bad_body(body: Mapping[str, Any] | None, endpoint: str) -> TransportError:
    """The error of an answer that says 200 and holds no reply."""
    inner = body.get("error") if body else None
    said = inner.get("message") if isinstance(inner, dict) else inner
    what = f"an error: {redact(str(said))[:_MESSAGE_LENGTH]}" if said else "no reply" if body else "no JSON object"
    return TransportError("bad_body", f"{endpoint}: 200 with {what} in its body")


def count(usage: object, *path: str) -> int | None:
    """The token count at this place of a usage object; None where there is none."""
    for key in path:
        usage = usage.get(key) if isinstance(usage, Mapping) else None
    return usage if isinstance(usage, int) and not isinstance(usage, bool) and usage >= 0 else None


def json_object(content: bytes) -> dict[str, Any] | None:
    """The JSON object that an answer's body holds; None when it holds anything else."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _error_object(content: bytes) -> dict[str, Any]:
    body = json_object(content) or {}
    inner = body.get("error")
    return inner if isinstance(inner, dict) else body


def _code(error: Mapping[str, Any]) -> str | None:
    details = error.get("details")
    codes = [
        error.get("code"),
        details.get("error_code") if isinstance(details, dict) else None,
        error.get("type"),
    ]
    known = [code for code in codes if isinstance(code, str)]
    return next((code for code in known if code in NEVER_HEALS), known[0] if known else None)

"""Between an SDK and the network: what may be sent, what may be read, and what an error means.

Only imported on a provider's first request: both SDKs are slow to import, and bring httpx2 with them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any

import httpx2

from whileai.errors import RefusedRequest, TransportError
from whileai.providers import statuses
from whileai.providers.capabilities import ParameterRefused
from whileai.providers.keys import redact

LARGEST_REPLY = 16 * 1024 * 1024
"""Bytes of one answer's body. A judge's reply has some kilobytes; an endless one must not fill the memory."""

_CONNECTIONS = 1024
_KEPT_CONNECTIONS = 32  # the pool looks at each of them twice per request: 256 cost 1 ms more of CPU than 32
_CONNECT_S = 10.0

_ALLOWED_HEADERS = frozenset(
    (
        *("host", "accept", "accept-encoding", "connection", "content-type", "content-length"),
        *("user-agent", "anthropic-version", "x-stainless-raw-response"),  # the SDKs read the last one back
    )
)


def http_client(url: str, key: str | None, *, vendors_own: bool) -> httpx2.AsyncClient:
    """A client for one endpoint that follows no redirect and reads no endless body.

    At a host that is not the vendor's own, only the headers that the wire needs go out and, if there is a key, that
    key: the SDKs would add whatever `OPENAI_CUSTOM_HEADERS`, `OPENAI_ORG_ID` and their like hold. The environment's
    proxies are used with https only: without TLS a proxy would read the key and everything else.
    """
    host = httpx2.URL(url).host

    async def guard(request: httpx2.Request) -> None:
        if request.url.host != host:
            raise httpx2.UnsupportedProtocol(f"a request for {host} would go to {request.url.host}")
        if vendors_own:
            return
        scheme = "x-api-key" if "x-api-key" in request.headers else "authorization"
        for name in set(request.headers) - _ALLOWED_HEADERS:
            del request.headers[name]
        if key is not None:
            request.headers[scheme] = key if scheme == "x-api-key" else f"Bearer {key}"

    async def bound(response: httpx2.Response) -> None:
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _BoundedStream(response.stream)

    return httpx2.AsyncClient(
        follow_redirects=False,
        trust_env=httpx2.URL(url).scheme == "https",
        event_hooks={"request": [guard], "response": [bound]},
        limits=httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_KEPT_CONNECTIONS),
    )


async def answer(sdk: Any, sending: Awaitable[Any], *, endpoint: str) -> tuple[bytes, Mapping[str, str]]:
    """Body and headers of the answer to a raw request of either SDK: both have the same tree of errors.

    Raises:
        ParameterRefused: the endpoint objects to the request's form.
        TransportError, RefusedRequest: as the status says. They carry nothing of the SDK's error, which holds
            the request with its key and does not unpickle.
    """
    failure: Exception
    try:
        raw = await sending
    except sdk.APIStatusError as error:
        status, headers, content = error.response.status_code, error.response.headers, error.response.content
        failure = statuses.error_of(status, headers, content, endpoint=endpoint)
        names = statuses.refused_parameters(status, content)
        if names is not None and isinstance(failure, RefusedRequest):
            failure = ParameterRefused(names, failure)
    except sdk.APITimeoutError:
        failure = TransportError("timeout", f"{endpoint}: no answer in time")
    except sdk.APIConnectionError as error:
        cause = f"{type(error.__cause__).__name__}: {error.__cause__}" if error.__cause__ else str(error)
        failure = TransportError("connection", f"{endpoint}: the connection failed ({redact(cause)})")
    else:
        return raw.http_response.content, raw.headers
    raise failure


def timeout(seconds: float) -> httpx2.Timeout:
    """No phase of a request may take longer than `seconds`, nor connecting longer than ten."""
    return httpx2.Timeout(seconds, connect=min(seconds, _CONNECT_S))


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > LARGEST_REPLY:
                raise httpx2.ReadError(f"the answer's body is longer than {LARGEST_REPLY} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()

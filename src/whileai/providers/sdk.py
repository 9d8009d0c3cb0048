"""What providers over a vendor's own SDK share: where a role's model is, which key goes there, one client per loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar
from urllib.parse import urlsplit

from whileai.providers import capabilities, keys
from whileai.providers.clients import Closeable, PerLoop

if TYPE_CHECKING:
    from whileai.spec.roles import ResolvedRole

C = TypeVar("C", bound=Closeable)

PLACEHOLDER_KEY = "none"  # the SDKs refuse to work without a key; the wire drops it again


class SdkProvider(Generic[C]):
    """One model behind an endpoint of one wire. `vendor` names the wire, and whose host and key are its own."""

    vendor: ClassVar[str]

    def __init__(self, role: ResolvedRole) -> None:
        self._role = role
        self._url = keys.base_url(self.vendor, role.base_url)
        self._key_variable = keys.key_variable(self.vendor, self._url, role.api_key_env)
        self._endpoint = f"{self.vendor}:{role.name} at {urlsplit(self._url).netloc}"
        self._learned = capabilities.learned(self.vendor, self._url, role.name)
        self._clients: PerLoop[C] = PerLoop(self._client)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._endpoint})"

    async def aclose(self) -> None:
        await self._clients.aclose()

    def _client(self) -> C:
        """A client of the SDK, made with `_client_settings`."""
        raise NotImplementedError

    def _client_settings(self) -> dict[str, Any]:
        """Key, address and transport of a client. The SDK retries nothing: the engine does."""
        from whileai.providers import wire

        key = keys.read_key(self._key_variable, self._url) if self._key_variable else None
        vendors_own = keys.is_vendors_own(self.vendor, self._url)
        return {
            "api_key": key or PLACEHOLDER_KEY,
            "base_url": self._url,
            "max_retries": 0,
            "http_client": wire.http_client(self._url, key, vendors_own=vendors_own),
        }

"""What leaves the machine and what may come in, with everything that the SDKs read from the environment planted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from loopback.server import Answer, LoopbackServer, answers, says
from whileai.errors import RefusedRequest, TransportError
from whileai.providers import ChatRequest, make_provider
from whileai.spec.roles import ResolvedRole

PLANTED = "planted-secret-0123456789"
VARIABLES = {
    **dict.fromkeys(["OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"], PLANTED),
    **dict.fromkeys(["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_WEBHOOK_SIGNING_KEY"], PLANTED),
    "OPENAI_CUSTOM_HEADERS": f"Authorization: Bearer {PLANTED}\nx-team: {PLANTED}",
    "ANTHROPIC_CUSTOM_HEADERS": f"x-api-key: {PLANTED}\nx-team: {PLANTED}",
}
QUESTION = ChatRequest("", (("user", "x"),))


@pytest.fixture(params=["openai", "anthropic"])
def role(request: pytest.FixtureRequest, server: LoopbackServer) -> ResolvedRole:
    url = server.chat_url if request.param == "openai" else server.messages_url
    return ResolvedRole(request.param, "m", base_url=url)


def send(role: ResolvedRole, request: ChatRequest = QUESTION) -> Any:
    async def main() -> Any:
        provider = make_provider(role)
        try:
            return await provider.send(request)
        finally:
            await provider.aclose()

    return asyncio.run(main())


def test_no_secret_of_the_environment_leaves(
    server: LoopbackServer, role: ResolvedRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)
    send(role)
    assert PLANTED not in str(server.requests)


def test_the_sdks_own_urls_are_not_followed(
    server: LoopbackServer, role: ResolvedRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackServer() as elsewhere:
        for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OPENAI_API_BASE"):
            monkeypatch.setenv(variable, elsewhere.chat_url)
        send(role)
        assert not elsewhere.requests
    assert len(server.requests) == 1


def test_a_request_without_tls_takes_no_proxy_which_would_read_its_key(
    server: LoopbackServer, role: ResolvedRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHILEAI_KEY_PROXIED", PLANTED)
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    with LoopbackServer() as proxy:
        for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(variable, proxy.root)
        send(replace(role, api_key_env="WHILEAI_KEY_PROXIED"))
        assert not proxy.requests
    assert len(server.requests) == 1


def test_our_key_stands_where_custom_headers_would_replace_it(
    server: LoopbackServer, role: ResolvedRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("WHILEAI_KEY_BOX", "box-key-1234")
    send(ResolvedRole(role.provider, "m", base_url=role.base_url, api_key_env="WHILEAI_KEY_BOX"))
    assert "box-key-1234" in str(server.requests)
    assert PLANTED not in str(server.requests)


def test_a_redirect_is_not_followed(server: LoopbackServer, role: ResolvedRole) -> None:
    with LoopbackServer() as elsewhere:
        server.default = answers(Answer(307, headers={"location": f"{elsewhere.root}/v1/chat/completions"}))
        with pytest.raises(RefusedRequest, match="give the final base_url") as refused:
            send(role)
        assert refused.value.kind == "redirect"
        assert not elsewhere.requests


def test_an_endless_body_is_not_kept(server: LoopbackServer, role: ResolvedRole) -> None:
    server.default = answers(Answer(manner="endless"))
    with pytest.raises(TransportError, match="body is longer than 16777216 bytes"):
        send(role)


def test_the_sdks_do_not_retry(server: LoopbackServer, role: ResolvedRole) -> None:
    server.default = answers(Answer(500, headers={"x-should-retry": "true", "retry-after": "0"}))
    with pytest.raises(TransportError):
        send(role)
    assert len(server.requests) == 1


def test_a_key_that_the_server_echoes_is_not_shown(
    server: LoopbackServer, role: ResolvedRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHILEAI_KEY_BOX", "box-key-1234")
    keyed = ResolvedRole(role.provider, "m", base_url=role.base_url, api_key_env="WHILEAI_KEY_BOX")
    server.script.append(lambda r: Answer(401, {"error": {"message": f"bad key {dict(r.headers)}"}}))
    with pytest.raises(RefusedRequest) as refused:
        send(keyed)
    assert "box-key-1234" not in repr(refused.value)
    server.script.append(lambda r: says(f"you sent {dict(r.headers)}")(r))
    assert "[WHILEAI_KEY_BOX]" in send(keyed).text

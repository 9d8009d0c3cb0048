"""A planted key is looked for in everything that is written, logged, raised or shown."""

from __future__ import annotations

import logging
import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest

from loopback.clock import SkippingClock
from loopback.server import Answer, LoopbackServer, Request, answers, fails, says
from whileai.engine.calls import ModelCaller
from whileai.engine.retry import RetryPolicy
from whileai.errors import ConfigError, ModelsFailed, UnusableVerdict
from whileai.providers import ChatRequest
from whileai.spec.roles import ResolvedRole, Roles

KEY = "sk-planted-9f8e7d6c5b4a"


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("WHILEAI_KEY_PLANTED", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(variable, KEY)


def role(server: LoopbackServer, provider: str) -> ResolvedRole:
    url = server.chat_url if provider == "openai" else server.messages_url
    return ResolvedRole(provider, "m", base_url=url, api_key_env="WHILEAI_KEY_PLANTED")


def echo_headers(request: Request) -> Answer:
    return says(f"your headers: {dict(request.headers)}")(request)


def fail_with_headers(request: Request) -> Answer:
    return fails(401, f"your headers: {dict(request.headers)}")(request)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize(
    "behaviour",
    [
        echo_headers,
        fail_with_headers,
        fails(500, f"leaked {KEY}"),
        answers(Answer(body=f"<html>{KEY}</html>", content_type="text/html")),
        answers(Answer(body={"error": {"message": KEY}})),
        answers(Answer(manner="reset")),
    ],
    ids=["reply", "401", "500", "html", "error in 200", "reset"],
)
def test_a_planted_key_is_found_nowhere(
    server: LoopbackServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, provider: str, behaviour: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("openai", "anthropic", "httpx2", "httpcore2", "whileai", "asyncio"):
        caplog.set_level(logging.DEBUG, logger=name)
    server.default = behaviour
    caller = ModelCaller(
        [role(server, provider)],
        cache=tmp_path / "cache.sqlite",
        journal=tmp_path / "journal.jsonl",
        record=tmp_path / "x.recorded.jsonl",
        policy=RetryPolicy(attempts=2, repairs=1),
        clock=SkippingClock().clock,
    )
    shown = [repr(caller)]
    for reader in (str, refuse):
        try:
            shown.append(repr(caller.call_blocking(ChatRequest("", (("user", reader.__name__),)), read=reader)))
        except ModelsFailed as error:
            shown += [str(error), repr(error), "".join(traceback.format_exception(error)), repr(pickle.dumps(error))]
    shown += [caplog.text, str(caller.stats), repr(vars(caller))]
    shown += [repr(vars(link)) + repr(link.provider) for link in caller._links]
    caller.close()

    assert KEY in str(server.requests), "the key has to be sent for this test to mean anything"
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {"cache.sqlite", "journal.jsonl"} <= set(written)
    for name, content in written.items():
        assert KEY.encode() not in content, name
    for text in shown:
        assert KEY not in text


def refuse(text: str) -> str:
    raise UnusableVerdict("no_json", f"this is no reply: {text}")


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY"])
def test_a_project_file_that_points_a_key_at_another_host_carries_it_nowhere(
    server: LoopbackServer, tmp_path: Path, variable: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.whileai.models.judge]\n"
        f'provider = "openai"\nname = "m"\nbase_url = "{server.chat_url}"\napi_key_env = "{variable}"\n'
    )
    from whileai.errors import SpecError

    with pytest.raises(SpecError, match=f"{variable}.*is not sent to 127"):
        Roles(folder=tmp_path, environ={}).resolve("judge")
    with pytest.raises(ConfigError, match=f"{variable} is not sent to"):
        ModelCaller([ResolvedRole("openai", "m", base_url=server.chat_url, api_key_env=variable)])
    assert not server.requests


def test_the_sdks_url_variables_carry_the_vendors_key_nowhere(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.chat_url)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.messages_url)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")  # so that no test run ever reaches a vendor
    skipping = SkippingClock()
    for provider in ("openai", "anthropic"):
        caller = ModelCaller([ResolvedRole(provider, "m")], policy=RetryPolicy(attempts=1), clock=skipping.clock)
        with pytest.raises(ModelsFailed) as failed:
            caller.call_blocking(ChatRequest("", (("user", "x"),)), read=str)
        assert failed.value.kind == "connection"
        assert KEY not in str(failed.value)
        caller.close()
    assert not server.requests

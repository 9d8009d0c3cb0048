from __future__ import annotations

import json

import pytest

from whileai.errors import ConfigError, RefusedRequest
from whileai.providers import keys

OPENAI, ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com"
LOCAL = "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(
    ("provider", "url", "given", "variable"),
    [
        ("openai", OPENAI, None, "OPENAI_API_KEY"),
        ("openai", OPENAI, "OPENAI_API_KEY", "OPENAI_API_KEY"),
        ("openai", "https://eu.api.openai.com/v1", None, "OPENAI_API_KEY"),
        ("openai", OPENAI, "WHILEAI_KEY_TEAM", "WHILEAI_KEY_TEAM"),
        ("anthropic", ANTHROPIC, None, "ANTHROPIC_API_KEY"),
        ("openai", LOCAL, None, None),
        ("openai", LOCAL, "WHILEAI_KEY_LOCAL", "WHILEAI_KEY_LOCAL"),
        ("openai", "http://api.openai.com/v1", None, None),  # not over https
        ("openai", "https://api.openai.com.evil.example/v1", None, None),
        ("openai", "https://notapi.openai.com.example", None, None),
        ("openai", "https://evilapi.openai.com", None, None),
    ],
)
def test_which_variable_goes_where(provider: str, url: str, given: str | None, variable: str | None) -> None:
    assert keys.key_variable(provider, url, given) == variable


@pytest.mark.parametrize(
    ("provider", "url", "given"),
    [
        ("openai", LOCAL, "OPENAI_API_KEY"),
        ("openai", "http://api.openai.com/v1", "OPENAI_API_KEY"),
        ("openai", "https://api.openai.com.evil.example/v1", "OPENAI_API_KEY"),
        ("openai", "https://api.anthropic.com", "OPENAI_API_KEY"),
        ("anthropic", ANTHROPIC, "OPENAI_API_KEY"),
        ("openai", OPENAI, "ANTHROPIC_API_KEY"),
        ("openai", OPENAI, "AWS_SECRET_ACCESS_KEY"),
        ("openai", LOCAL, "HOME"),
    ],
)
def test_a_key_that_is_another_hosts_is_refused_by_name(provider: str, url: str, given: str) -> None:
    with pytest.raises(ConfigError, match=f"{given}.*WHILEAI_KEY_"):
        keys.key_variable(provider, url, given)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1/v1",
        "127.0.0.1:8000",
        "https://",
        "https://user:secret@127.0.0.1/v1",
        "https://api.openai.com@evil.example/v1",
        "https://evil.example\\@api.openai.com/v1",
        "https://127.0.0.1/v1?key=secret",
        "https://127.0.0.1/v1#part",
        "https://127.0.0.1/v1\n",
        "http://[::1",
        "http://127.0.0.1:port/v1",
        "http://127.0.0.1:99999/v1",
        "https://user:secret#1@127.0.0.1/v1",
        "ftp://user:secret@127.0.0.1/v1",
        "https://evil.example\uff0f.api.openai.com/v1",
    ],
)
def test_a_url_that_hides_something_is_refused(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        keys.base_url("openai", url)
    assert "secret" not in str(refused.value)


def test_the_url_is_the_given_one_or_the_vendors_own_and_never_the_sdks_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    assert keys.base_url("openai", None) == OPENAI
    assert keys.base_url("anthropic", None) == ANTHROPIC
    assert keys.base_url("openai", LOCAL) == LOCAL
    with pytest.raises(ConfigError, match="needs a base_url"):
        keys.base_url("gemini", None)


def test_a_missing_key_is_named_with_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHILEAI_KEY_LOCAL", raising=False)
    with pytest.raises(RefusedRequest, match=r"WHILEAI_KEY_LOCAL is not set.*127\.0\.0\.1") as refused:
        keys.read_key("WHILEAI_KEY_LOCAL", LOCAL)
    assert refused.value.kind == "no_key"


@pytest.mark.parametrize("value", ["sk-two\nlines", "sk-\u00e9"])
def test_a_key_that_cannot_be_a_header_is_refused_without_showing_it(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHILEAI_KEY_LOCAL", value)
    with pytest.raises(RefusedRequest) as refused:
        keys.read_key("WHILEAI_KEY_LOCAL", LOCAL)
    assert value not in str(refused.value)


def test_a_key_that_was_read_is_redacted_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHILEAI_KEY_REDACTED", " sk-planted-0123456789 ")
    assert keys.read_key("WHILEAI_KEY_REDACTED", LOCAL) == "sk-planted-0123456789"
    monkeypatch.delenv("WHILEAI_KEY_REDACTED")
    said = keys.redact("Incorrect API key: sk-planted-0123456789.")
    assert said == "Incorrect API key: [WHILEAI_KEY_REDACTED]."


def test_a_key_is_redacted_whole_though_another_begins_it_and_inside_json(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "WHILEAI_KEY_SHORT": "sk-planted-77",
        "WHILEAI_KEY_LONG": "sk-planted-77-and-more",
        "WHILEAI_KEY_ODD": 'o"dd\\key7',
    }
    for variable, key in found.items():
        monkeypatch.setenv(variable, key)
        keys.read_key(variable, LOCAL)
    for variable, key in found.items():
        assert keys.redact(f"it is {key}.") == f"it is [{variable}]."
        assert json.loads(keys.redact(json.dumps({"said": f"it is {key}."}))) == {"said": f"it is [{variable}]."}

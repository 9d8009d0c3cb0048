from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loopback.server import LoopbackServer, fails, knows_only, says
from whileai.providers import capabilities

KEY = "sk-planted-0a1b2c3d4e5f"


@pytest.fixture(autouse=True)
def no_roles_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))
    for variable in ("WHILEAI_MODEL_JUDGE", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "WHILEAI_KEY_BOX"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def project(folder: Path, server: LoopbackServer) -> Path:
    (folder / "whileai.toml").write_text(
        f"""
[models]
judge = "local"
cloud = "openai:gpt-4o"
[models.local]
provider = "openai"
name = "qwen"
base_url = "{server.chat_url}"
api_key_env = "WHILEAI_KEY_BOX"
params = {{temperature = 0.5}}
prices = {{input = 1.0, output = 2.0}}
context = 32768
"""
    )
    return folder


def test_every_role_with_host_key_and_price_and_nothing_sent(run: Any, project: Path, server: LoopbackServer) -> None:
    done = run("models")
    assert done.code == 0
    assert "judge: openai:qwen" in done.out
    assert "calls 127.0.0.1; key in WHILEAI_KEY_BOX (NOT SET)" in done.out
    assert "temperature = 0.5" in done.out
    assert "context of 32768 tokens" in done.out
    assert "cloud: openai:gpt-4o" in done.out
    assert "calls api.openai.com; key in OPENAI_API_KEY (NOT SET)" in done.out
    assert not server.requests
    assert not (project / ".whileai").exists()


def test_no_key_is_shown(run: Any, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("WHILEAI_KEY_BOX", "OPENAI_API_KEY"):
        monkeypatch.setenv(variable, KEY)
    for arguments in (["models"], ["models", "--json"]):
        done = run(*arguments)
        assert KEY not in done.out + done.err
    assert [(model["role"], model["key_set"]) for model in done.json] == [
        ("cloud", True),
        ("judge", True),
        ("local", True),
    ]


def test_ask_sends_one_tiny_request_and_says_what_came(
    run: Any, project: Path, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHILEAI_KEY_BOX", KEY)
    server.default = says('{"ok": true}', usage=(20, 0, 5, 0))
    done = run("models", "judge", "--ask")
    assert done.code == 0
    assert "asking openai:qwen at 127.0.0.1: one tiny request, at its price" in done.err
    assert "as served-model-1, $0.000030" in done.out
    assert len(server.requests) == 1
    assert run("models", "judge", "--ask").code == 0
    assert len(server.requests) == 2  # not answered from a cache


def test_what_was_learned_is_shown_in_a_later_process(
    run: Any, project: Path, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHILEAI_KEY_BOX", KEY)
    server.default = knows_only(says('{"ok": true}'), formats=("prompt",))
    asked = run("models", "local", "--ask", "--json").json[0]
    assert asked["answer"]["asked_without"] == ["json_schema", "json_object"]
    capabilities._learned.clear()  # as in another process
    later = run("models", "local", "--json").json[0]
    assert later["learned"] == {"cap": "max_completion_tokens", "format": "prompt"}
    assert "learned: it takes max_completion_tokens, prompt" in run("models", "local").out


def test_one_that_does_not_answer_is_a_no(
    run: Any, project: Path, server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHILEAI_KEY_BOX", KEY)
    server.default = fails(401, "who are you")
    done = run("models", "judge", "--ask")
    assert done.code == 1
    assert "does not answer, auth" in done.out
    assert "who are you" in done.out
    assert len(server.requests) == 1


def test_a_role_that_cannot_work_says_why_and_is_not_asked(run: Any, project: Path, server: LoopbackServer) -> None:
    text = (project / "whileai.toml").read_text().replace("temperature", "temprature")
    (project / "whileai.toml").write_text(text)
    done = run("models", "local", "--ask")
    assert done.code == 1
    assert "knows no parameter 'temprature'; did you mean 'temperature'" in done.out
    assert not server.requests


def test_a_model_by_its_own_name_needs_no_role(run: Any, folder: Path) -> None:
    done = run("models", "anthropic:claude-x")
    assert done.code == 0
    assert "calls api.anthropic.com; key in ANTHROPIC_API_KEY (NOT SET)" in done.out


def test_without_roles_it_says_how_to_define_one(run: Any, folder: Path) -> None:
    done = run("models")
    assert done.code == 0
    assert "WHILEAI_MODEL_JUDGE" in done.out


def test_an_unknown_role_is_an_error(run: Any, project: Path) -> None:
    done = run("models", "juge")
    assert done.code == 2
    assert "role 'juge' is not defined" in done.err

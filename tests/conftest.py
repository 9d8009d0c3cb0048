"""Fixtures that several folders share: a loopback server, and a project with a judge in it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import settings

from loopback.server import LoopbackServer

# The same examples every time, and no clock: a busy machine fails no test.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")

# A shell's background job ignores Ctrl-C, and so would every process that a test starts there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """A loopback server of this test's own."""
    with LoopbackServer() as running:
        yield running


JUDGE = """
spec: 1
name: craft
kind: llm
verdict: ranking
model: judge
prompt: {system: groupwise/system, user: groupwise/ranking}
retry: {attempts: 2}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, in which the test runs; no configuration of the person who runs it is seen."""
    folder = tmp_path / "project"
    (folder / ".whileai").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("WHILEAI_CERTS", raising=False)
    monkeypatch.setattr("whileai.checks.admission._here", {})  # no check was made in this process
    return folder


@pytest.fixture
def roles(project: Path, server: LoopbackServer) -> None:
    """The roles of the loopback server: `judge` is chat completions, `backup` another model there, `messages`."""
    (project / "whileai.toml").write_text(
        f"""
[models]
judge = "chat"
messages = {{provider = "anthropic", name = "judge-3", base_url = "{server.messages_url}"}}
[models.chat]
provider = "openai"
name = "judge-1"
base_url = "{server.chat_url}"
[models.backup]
provider = "openai"
name = "judge-2"
base_url = "{server.chat_url}"
"""
    )


@pytest.fixture
def write(project: Path) -> Callable[..., Path]:
    """`write("craft.yaml", orders=2)`: a judge's spec with these fields added or replaced (None: left out)."""

    def write(name: str = "craft.yaml", text: str = JUDGE, **fields: Any) -> Path:
        data = {**yaml.safe_load(text), "name": name.split(".")[0], **fields}
        path = project / name
        path.write_text(yaml.safe_dump({key: value for key, value in data.items() if value is not None}))
        return path

    return write


@pytest.fixture
def group() -> Callable[..., list[dict[str, Any]]]:
    """`group(0.2, 0.9, None)`: passes of these qualities, None for a failure."""

    def make(*qualities: float | None, **columns: Any) -> list[dict[str, Any]]:
        return [
            {
                "index": index,
                "prompt": "Refund order ORD-7.",
                "completion": "I cannot do that." if quality is None else f"I refunded it. q={quality}",
                "reward": float(quality is not None),
                "passed": quality is not None,
                **columns,
            }
            for index, quality in enumerate(qualities)
        ]

    return make

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from whileai.errors import ConfigError
from whileai.providers import Provider, make_provider, registry
from whileai.spec.roles import ResolvedRole

OWN_PROVIDER = """
from whileai.providers import ChatReply

class Echo:
    parameters = {"tone": str}
    default_max_tokens = None

    def __init__(self, role):
        self.role = role

    async def send(self, request):
        return ChatReply(request.turns[-1][1], "stop")

    async def aclose(self):
        pass
"""


@pytest.fixture
def own_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that registers `echo:`, as an installed one would."""
    (tmp_path / "echo_provider.py").write_text(OWN_PROVIDER)
    info = tmp_path / "echo_provider-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: echo-provider\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\necho = echo_provider:Echo\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "echo_provider", raising=False)
    registry._known.cache_clear()
    yield
    registry._known.cache_clear()
    sys.modules.pop("echo_provider", None)


@pytest.mark.parametrize("name", sorted(registry.BUILT_IN))
def test_the_built_in_ones(name: str, tmp_path: Path) -> None:
    provider = make_provider(ResolvedRole(name, str(tmp_path / "x.jsonl")))
    assert isinstance(provider, Provider)


def test_the_built_in_ones_are_the_package_s_entry_points() -> None:
    pyproject = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    table = pyproject.split('[project.entry-points."whileai.providers"]')[1].split("\n\n")[0]
    assert dict(re.findall(r'(\w+) = "(.+)"', table)) == registry.BUILT_IN


def test_a_package_can_add_one(own_provider: None) -> None:
    provider = make_provider(ResolvedRole("echo", "m", params={"tone": "dry"}))
    assert isinstance(provider, Provider)
    assert type(provider).__name__ == "Echo"


def test_an_unknown_provider_is_met_with_the_nearest_name(own_provider: None) -> None:
    with pytest.raises(ConfigError, match=r"no provider 'opnai'.*anthropic, echo, openai, recorded.*mean 'openai'"):
        make_provider(ResolvedRole("opnai", "m"))
    with pytest.raises(ConfigError, match=r"entry point group 'whileai\.providers'"):
        make_provider(ResolvedRole("zzz", "m"))


def test_two_packages_with_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    other = EntryPoint("openai", "other:Provider", registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [other])
    registry._known.cache_clear()
    try:
        with pytest.raises(ConfigError, match="two packages register the provider 'openai'"):
            make_provider(ResolvedRole("openai", "m"))
    finally:
        registry._known.cache_clear()


@pytest.mark.parametrize("lacking", ["parameters", "default_max_tokens", "send", "aclose"])
def test_a_package_s_provider_is_told_what_it_lacks(own_provider: None, tmp_path: Path, lacking: str) -> None:
    file = tmp_path / "echo_provider.py"
    file.write_text(file.read_text().replace(lacking, "renamed"))
    with pytest.raises(ConfigError, match=rf"provider 'echo' \(Echo\) lacks {lacking}"):
        make_provider(ResolvedRole("echo", "m"))


def test_a_package_s_provider_that_cannot_be_imported(own_provider: None, tmp_path: Path) -> None:
    (tmp_path / "echo_provider.py").write_text("import no_such_module_7")
    with pytest.raises(ConfigError, match=r"echo_provider:Echo.*cannot be loaded.*no_such_module_7"):
        make_provider(ResolvedRole("echo", "m"))


@pytest.mark.parametrize(
    ("provider", "params", "message"),
    [
        (
            "openai",
            {"temprature": 1},
            "no parameter 'temprature'; did you mean 'temperature'.*knows effort, extra_body",
        ),
        ("openai", {"temperature": "hot"}, "'temperature'.*'hot'; it wants int or float"),
        ("openai", {"temperature": True}, "it wants int or float"),
        ("openai", {"max_tokens": 0}, "'max_tokens'.*is 0"),
        ("openai", {"max_tokens": 1.5}, "it wants int"),
        ("anthropic", {"temperature": 1}, "no parameter 'temperature'; it knows cache_control, effort"),
        ("recorded", {"seed": 1}, "it knows none"),
    ],
)
def test_a_parameter_that_is_not_known_is_an_error_that_names_those_that_are(
    provider: str, params: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make_provider(ResolvedRole(provider, "m", params=params))


def test_no_sdk_is_imported_before_the_first_request() -> None:
    program = (
        "import sys; from whileai.providers import make_provider; from whileai.spec.roles import ResolvedRole\n"
        "for name in ('openai', 'anthropic', 'recorded'): make_provider(ResolvedRole(name, 'm'))\n"
        "print([name for name in ('openai', 'anthropic', 'httpx2') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"

from pathlib import Path

import pytest

from whileai import __version__
from whileai.cli.versions import other_whileai, version_text


@pytest.fixture
def other_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The metadata that pip leaves for the other distribution, on the import path."""
    info = tmp_path / "whileai-3.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: whileai\nVersion: 3.1\n")
    monkeypatch.syspath_prepend(tmp_path)


def test_alone_the_version_is_one_line():
    assert other_whileai() is None
    assert version_text() == f"whileai-graders {__version__}"


@pytest.mark.usefixtures("other_installed")
def test_the_other_package_is_named_with_its_version_and_the_remedy():
    own, warning = version_text().splitlines()
    assert own == f"whileai-graders {__version__}"
    assert "whileai 3.1" in warning
    assert "environment of its own" in warning

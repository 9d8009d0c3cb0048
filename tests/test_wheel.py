"""The wheel, installed out of sight of the repository, carries its data and runs its commands."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from whileai import __version__

ROOT = Path(__file__).resolve().parents[1]
DATA_FOLDERS = ("graders", "prompts", "schemas")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(ROOT),
        cwd=folder,
    )
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clean_venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A venv with the wheel; what it depends on is what lies beside the running Python."""
    venv = tmp_path_factory.mktemp("clean") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", str(venv), cwd=venv.parent)
    python = venv / "bin/python"
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--no-deps",
        "--no-index",
        str(wheel),
        cwd=venv.parent,
    )
    where = {"base": str(venv), "platbase": str(venv)}
    site_packages = Path(sysconfig.get_path("purelib", "venv", vars=where))
    dependencies = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (site_packages / "dependencies.pth").write_text("\n".join(sorted(dependencies)))
    return venv


def run(*command: str, cwd: Path) -> str:
    """Standard output of a command that must succeed; the repository is on no path of its."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheel_holds_the_types_and_every_file_of_the_data_folders(wheel: Path):
    held = set(zipfile.ZipFile(wheel).namelist())
    assert "whileai/py.typed" in held
    for folder in DATA_FOLDERS:
        files = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert files, f"{folder}/ is empty"
        wanted = {f"whileai/library/{path.relative_to(ROOT).as_posix()}" for path in files}
        assert wanted <= held


def test_the_wheel_holds_nothing_but_the_package(wheel: Path):
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"whileai", f"whileai_graders-{__version__}.dist-info"}


def test_the_library_is_found_inside_the_installed_package(clean_venv: Path, tmp_path: Path):
    program = (
        "from whileai.spec.library import find_shipped, library_folder\n"
        "print(library_folder('graders'))\n"
        "print(find_shipped('graders', 'rank_group', ('.py',)).name)"
    )
    folder, found = run(str(clean_venv / "bin/python"), "-c", program, cwd=tmp_path).splitlines()
    assert Path(folder).is_relative_to(clean_venv)
    assert found == "rank_group.py"


def test_version_runs_from_another_folder(clean_venv: Path, tmp_path: Path):
    assert __version__ in run(str(clean_venv / "bin/whileai"), "--version", cwd=tmp_path)


def test_demo_runs_from_another_folder(clean_venv: Path, tmp_path: Path):
    printed = run(str(clean_venv / "bin/whileai"), "demo", cwd=tmp_path)
    assert "spread: yes. The grader tells these passes apart." in printed
    assert "groupwise grading (advantage): " in printed
    assert not list(tmp_path.iterdir()), "the demo leaves no file behind"

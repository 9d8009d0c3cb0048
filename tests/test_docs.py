"""The Python blocks of README.md and docs/ run, and print what stands below them.

The blocks of one file run in order in one namespace, in the top folder of the repository. An `output` block
right below a `python` block is what it prints, to the character. Blocks in other languages are not run, and
neither is a block below the comment `<!-- not run: reason -->`.
"""

import contextlib
import io
import re
import shutil
from pathlib import Path

import pytest

from whileai.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PYTHON_BLOCK = re.compile(
    r"(?P<skip><!-- not run: [^\n]+ -->\n)?"
    r"^```python\n(?P<code>.*?)^```$"
    r"(\n\n```output\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_python_blocks_run_and_print_what_the_page_says(page: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    text = page.read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": page.stem}
    for block in PYTHON_BLOCK.finditer(text):
        if block["skip"]:
            continue
        line = text[: block.start("code")].count("\n")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + block["code"], page.name, "exec"), namespace)
        if block["output"] is not None:
            assert printed.getvalue() == block["output"], f"{page.name}:{line}"


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_fence_and_every_output_block_belongs_to_a_block_that_runs(page: Path):
    text = page.read_text(encoding="utf-8")
    assert len(re.findall(r"^```", text, re.MULTILINE)) % 2 == 0
    checked = [block for block in PYTHON_BLOCK.finditer(text) if block["output"] is not None and not block["skip"]]
    assert len(checked) == text.count("\n```output\n")


README_COMMANDS = [
    line.removeprefix("$ whileai ")
    for skip, block in re.findall(
        r"(<!-- not run: [^\n]+ -->\n)?^```console\n(.*?)^```$", PAGES[0].read_text(), re.M | re.S
    )
    for line in block.splitlines()
    if not skip and line.startswith("$ whileai ")
]


@pytest.mark.parametrize("command", README_COMMANDS)
def test_commands_of_the_readme_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copytree(ROOT / "graders", tmp_path / "graders")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(command.split())
    assert end.value.code == 0


def test_the_readme_shows_commands():
    assert {command.split()[0] for command in README_COMMANDS} >= {"check", "grade"}


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"

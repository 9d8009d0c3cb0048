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


CONSOLE_BLOCK = re.compile(r"^(<!-- not run: [^\n]+ -->\n)?^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands_of(page: Path) -> list[tuple[str, str]]:
    """The commands of ours in the console blocks of a page, each with the output that stands below it."""
    blocks = [body for skip, body in CONSOLE_BLOCK.findall(page.read_text(encoding="utf-8")) if not skip]
    found = [part.partition("\n") for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)]
    return [(line.removeprefix("whileai "), output) for line, _, output in found if line.startswith("whileai ")]


PAGES_WITH_COMMANDS = [page for page in PAGES if commands_of(page)]


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS, ids=[page.name for page in PAGES_WITH_COMMANDS])
def test_commands_run_in_order_and_print_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """`...` stands for anything, also for whole lines; a command without output below it only has to work."""
    shutil.copytree(ROOT / "graders", tmp_path / "graders")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WHILEAI_CERTS", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    for command, shown in commands_of(page):
        with pytest.raises(SystemExit) as end:
            main(command.split())
        printed = "".join(f"{line.rstrip()}\n" for line in capsys.readouterr().out.splitlines())
        assert end.value.code == 0, command
        pattern = ".*?".join(map(re.escape, shown.split("...")))
        assert not shown or re.fullmatch(pattern, printed, re.DOTALL), f"{command}\n{printed}"


def test_the_pages_show_every_command():
    shown = {command.split()[0] for page in PAGES for command, _ in commands_of(page)}
    assert shown >= {"new", "lint", "test", "render", "explain", "check", "grade", "schema"}


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"

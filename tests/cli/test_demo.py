import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import whileai
from whileai.cli.demo import demo
from whileai.cli.tour import rank_with_ties

SOURCES = Path(whileai.__file__).parents[1]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", "100")
    demo()
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_without_a_terminal_it_prints_plain_text(printed: list[str]):
    assert not [line for line in printed if "\x1b" in line]


def test_it_prints_the_grader_its_report_and_the_counters(printed: list[str]):
    assert 'ranked = sorted(passes, key=lambda g: g["completion"].count("<tool_call>"))' in "\n".join(printed)
    assert "  spread check: 82 grader scores over 29 group(s), std 0.211, 22% within 0.05 of the median 0.75" in printed
    assert "  spread: yes. The grader tells these passes apart." in printed
    assert (
        "  groupwise grading (advantage): 61 groups, 50 mixed, 55 grader calls, 0 failed (fell back), "
        "6 hacks zeroed; factors mean 0.753 std 0.214" in printed
    )


@pytest.mark.parametrize(
    "row",
    [
        "track_parcel, refund 2 1 1 1.00 +0.25 → +0.33 │████",
        "get_order, track_parcel, refund 3 1 2 0.75 +0.25 → +0.25 │",
        "get_order, read_policy 2 0 fail -0.75 → -0.75 │",
        "list_orders, refund 2 1 1 1.00 +0.25 → +0.67 │██",
        '"I have refunded order ORD-9999 for your b… 0 1 hack +0.25 → -0.50 ████│',
        "get_order, cancel_order 2 1 1= 0.88 +0.25 → +0.29 │██",
        "cancel_order, get_order 2 1 1= 0.88 +0.25 → +0.29 │██",
    ],
)
def test_what_moved_stands_in_one_row_for_each_rollout(printed: list[str], row: str):
    assert row in [" ".join(line.split()) for line in printed]


def test_it_says_which_commands_come_next(printed: list[str]):
    for command in (" check rank_group --rows ", " explain rank_group --rows ", " new my_grader --kind rules"):
        assert sum(command in line for line in printed) == 1


def test_the_same_grader_as_a_spec_holds_its_cases_and_passes_the_gate(printed: list[str]):
    assert "kind: rules" in printed
    assert sum(line.startswith("  ok  ") and "hack" in line for line in printed) >= 1
    assert not [line for line in printed if line.startswith("  NO  ")]
    assert any(re.match(r"  check of rank_group: \d+ calls for 29 of 32 groups", line) for line in printed)
    assert any(re.match(r"  ok  golden +(\d+) of \1 cases hold ", line) for line in printed)
    assert "check: yes. rank_group tells these passes apart, and says the same when the order changes." in printed


def test_it_leaves_no_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WHILEAI_CERTS", raising=False)
    demo()
    assert list(tmp_path.iterdir()) == []


def run_demo(**env: str) -> bytes:
    done = subprocess.run(
        [sys.executable, "-c", "from whileai.cli.demo import demo; demo()"],
        env={**os.environ, "PYTHONPATH": str(SOURCES), **env},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_output_that_can_only_be_ascii_is_ascii():
    assert b"+0.25 -> +0.33" in run_demo(PYTHONIOENCODING="ascii:strict")


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_it_is_coloured_and_no_table_is_wider_than_the_screen(columns: int):
    out = run_demo(FORCE_COLOR="1", NO_COLOR="", TERM="xterm", COLUMNS=str(columns), PYTHONIOENCODING="utf-8")
    lines = out.decode().splitlines()
    assert "\x1b[32m" in out.decode()
    rows = [line for line in lines if " → " in line]
    assert len(rows) == 12
    from rich.text import Text

    assert max(Text.from_ansi(row).cell_len for row in rows) <= columns


def test_equal_passes_share_a_place():
    texts = ["<tool_call>a</tool_call>", "", "<tool_call>b</tool_call>", "no"]
    group = [{"index": i, "completion": text, "passed": i < 3} for i, text in enumerate(texts)]
    assert rank_with_ties(group) == {"ranking": [[1], [0, 2]]}

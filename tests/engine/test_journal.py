from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from whileai.engine.journal import Journal
from whileai.errors import ConfigError
from whileai.providers import keys


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().split("\n") if line]


WRITE_MANY = """
import sys
from pathlib import Path
from whileai.engine.journal import Journal
journal = Journal(Path(sys.argv[1]))
for number in range(50):
    journal.write({"writer": int(sys.argv[2]), "number": number, "text": "x" * 20_000})
"""


def test_several_processes_write_whole_lines_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "journal.jsonl"
    commands = [[sys.executable, "-c", WRITE_MANY, str(path), str(writer)] for writer in range(3)]
    for process in [subprocess.Popen(command) for command in commands]:
        assert process.wait(60) == 0
    written = [(line["writer"], line["number"]) for line in lines(path)]
    assert sorted(written) == [(writer, number) for writer in range(3) for number in range(50)]


def test_no_key_gets_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHILEAI_KEY_JOURNAL", "sk-journal-0123456789")
    keys.read_key("WHILEAI_KEY_JOURNAL", "http://127.0.0.1")
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write({"text": "it said sk-journal-0123456789", "reason": "line\u2028separator \ud800"})
    journal.close()
    assert lines(tmp_path / "journal.jsonl") == [
        {"text": "it said [WHILEAI_KEY_JOURNAL]", "reason": "line\u2028separator \ud800"}
    ]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="journal"):
        Journal(tmp_path)

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

import whileai
from whileai.cli import main
from whileai.spec.library import library_folder

GRADERS = '''
import sys


def rank(group):
    """Shortest completion first; "cheat" is a hack."""
    passes = [g for g in group if g["passed"]]
    hacks = [g["index"] for g in passes if "cheat" in g["completion"]]
    ranked = sorted(passes, key=lambda g: len(g["completion"]))
    return {"ranking": [g["index"] for g in ranked], "hacks": hacks}


async def rank_later(group):
    return rank(group)


def chatty(group):
    print("looking at", len(group), "rollouts")
    return rank(group)


def constant(group):
    return {"factors": {g["index"]: 1.0 for g in group if g["passed"]}}


def boom(group):
    raise RuntimeError("judge down: \\ud800 :warning: [bold]")


def fails_on_s1(group):
    if group[0]["scenario_id"] == "s1":
        raise RuntimeError("judge down")
    return rank(group)


def score(rollout, rubric):
    return {"solution": 1.0, "behavior": 1.0 / len(rollout["completion"])}


def hang_on_stdin(group):
    sys.stdin.read()
    return rank(group)


def hang(group):
    print("begun", file=sys.stderr, flush=True)
    import threading

    threading.Event().wait()
'''


class Done(NamedTuple):
    """Exit code, standard output and standard error of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def lines(self):
        return self.out.splitlines()

    @property
    def words(self):
        """The output with its spacing evened out, so that a test does not depend on columns."""
        return " ".join(self.out.split())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with graders.py in it, and no certificates from outside."""
    (tmp_path / "graders.py").write_text(GRADERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WHILEAI_CERTS", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def empty(folder):
    """The same without graders.py."""
    (folder / "graders.py").unlink()
    return folder


@pytest.fixture
def rows(folder):
    """rows.jsonl: five groups of three passes and a failure, in the order of a file that was shuffled."""
    found = [
        {"scenario_id": f"s{group}", "reward": reward, "final_text": text}
        for text, reward in (("aaa", 1), ("b", 1), ("cccccc", 1), ("no", 0))
        for group in range(5)
    ]
    write(folder / "rows.jsonl", found)
    return found


@pytest.fixture
def put(folder):
    """Write a file of `folder`, rows or an indented text, and give its name."""

    def put(name, content):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(dedent(content), encoding="utf-8")
        else:
            write(path, content)
        return Path(name)

    return put


@pytest.fixture
def put_rows(put):
    """Write rollouts, by group: text and reward of each."""

    def put_rows(groups, name="rows.jsonl"):
        return put(
            name,
            [
                {"group_id": group, "prompt": f"do {group}", "completion": text, "reward": reward}
                for group, rollouts in groups.items()
                for text, reward in rollouts
            ],
        )

    return put_rows


@pytest.fixture(scope="session")
def shipped_rows():
    return library_folder("graders") / "rank_group.rows.jsonl"


@pytest.fixture
def run(folder, capsys):
    """Run a command in this process."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        return Done(end.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def command():
    """A command as a process of its own: how `subprocess` starts it."""
    program = [sys.executable, "-c", "from whileai.cli import main; main()"]
    path = os.pathsep.join([str(Path(whileai.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])

    def command(*arguments, **kwargs):
        return subprocess.Popen(
            [*program, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": path, "COLUMNS": "80"},
            stdout=kwargs.pop("stdout", subprocess.PIPE),
            stderr=kwargs.pop("stderr", subprocess.PIPE),
            **kwargs,
        )

    return command


@pytest.fixture
def terminal(command):
    """Run a command whose standard output is a terminal of 80 columns: exit code, what it shows, its plain lines."""
    pty = pytest.importorskip("pty", reason="no pseudo-terminals on this platform")

    def terminal(*arguments):
        screen, end = pty.openpty()
        with command(*arguments, stdout=end, stderr=subprocess.DEVNULL) as child:
            os.close(end)
            shown = b""
            try:
                while chunk := os.read(screen, 4096):
                    shown += chunk
            except OSError:  # how Linux says that the other end was closed
                pass
            os.close(screen)
            child.wait(60)
        text = shown.decode()
        return child.returncode, text, [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]

    return terminal


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))

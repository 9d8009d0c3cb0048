import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import whileai
from whileai.cli import main

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


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with graders.py in it."""
    (tmp_path / "graders.py").write_text(GRADERS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
    def put(name, rows):
        write(folder / name, rows)
        return name

    return put


@pytest.fixture
def run(capsys):
    """Run a command in this process: exit code, standard output, standard error."""

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return end.value.code, out, err

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
    pty = pytest.importorskip("pty")

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

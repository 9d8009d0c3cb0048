import subprocess
import sys
from pathlib import Path

import pytest

from whileai import __version__
from whileai.cli import main


def test_version_is_said(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out.splitlines()[0] == f"whileai-graders {__version__}"


@pytest.mark.parametrize("call", [["check", "--nope"], ["nope"], ["check"]])
def test_a_mistake_in_the_call_is_two_lines_and_exit_code_2_not_a_traceback(
    call: list[str], capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as end:
        main(call)
    assert end.value.code == 2
    shown = capsys.readouterr().err
    assert "Usage: " in shown
    assert "Traceback" not in shown


def test_the_commands_need_no_package_that_the_project_does_not_ask_for():
    """typer brings a click of its own, so an environment need not have the package of that name."""
    program = "import sys; sys.modules['click'] = None; from whileai.cli import main; main(['--version'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_a_command_the_help_is_shown(run):
    code, out, err = run()
    assert code == 2
    assert "Usage: whileai" in out + err
    assert "check" in out + err


@pytest.mark.parametrize("command", ["new", "lint", "test", "explain", "check", "grade", "schema", "demo"])
def test_every_command_has_a_help(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert f"Usage: whileai {command}" in out


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (["chek"], "Did you mean 'check'"),
        (["check", "g.py:rank", "--row", "r.jsonl"], "--rows"),
        (["check", "g.py:rank"], "--rows"),
        (["check", "g.py:rank", "--rows", "r.jsonl", "--group-size", "0"], "group-size"),
    ],
)
def test_a_mistake_in_the_call_names_what_is_meant(run, call, says):
    code, _, err = run(*call)
    assert code == 2
    assert says in err


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_ends_the_command_quietly(command, rows, put, monkeypatch, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    put("many.jsonl", [{**row, "final_text": "x" * 5000} for row in rows * 20])
    with command("grade", "graders.py:rank", "--rows", "many.jsonl") as child:
        assert child.stdout.read(10) == b'{"scenario'
        child.stdout.close()
        err = child.stderr.read()
        child.wait(60)
    assert (child.returncode, err) == (141, b"")


def test_a_reader_that_is_gone_before_a_short_answer_is_no_no(command, rows):
    with command("check", "graders.py:hang_on_stdin", "--rows", "rows.jsonl", stdin=subprocess.PIPE) as child:
        child.stdout.close()
        child.stdin.close()
        err = child.stderr.read()
        child.wait(60)
    assert (child.returncode, err) == (141, b"")


@pytest.mark.parametrize("call", [["lint", "rank_group"], ["lint", "rank_group", "--json"], ["schema"], ["nothing"]])
def test_without_any_output_the_exit_code_is_the_answer(run, monkeypatch, call):
    answer = run(*call).code
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert run(*call).code == answer


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("call", [["check"], ["check", "--json"], ["grade"]], ids=" ".join)
def test_output_that_cannot_be_written_is_an_error(command, rows, call):
    with Path("/dev/full").open("w") as full:
        child = command(call[0], "graders.py:rank", "--rows", "rows.jsonl", *call[1:], stdout=full)
        _, err = child.communicate(timeout=60)
    assert child.returncode == 2
    assert err.decode().startswith("error: ")
    assert b"No space left" in err
    assert b"Traceback" not in err

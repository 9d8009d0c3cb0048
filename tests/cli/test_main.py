import subprocess
import sys

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

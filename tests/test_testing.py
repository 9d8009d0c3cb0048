import pickle
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from whileai.errors import SpecError
from whileai.testing import assert_golden

SPEC = """\
spec: 1
name: fewest
kind: rules
rank: [{least: completion.count("<tool_call>")}]
hacks: [{name: invented, if: '"ORD-9999" in completion'}]
"""
GOLDEN = """\
golden: 1
cases:
  - name: fewest calls first
    group: [{completion: "<tool_call>a<tool_call>b"}, {completion: "<tool_call>a"}, {completion: sorry, reward: 0}]
    ranking: [1, 0]
  - name: an invented id, not the other
    group: [{completion: ORD-9999}, {completion: "<tool_call>a"}]
    hacks: [1]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "fewest.yaml").write_text(SPEC)
    (tmp_path / "fewest.golden.yaml").write_text(GOLDEN)
    return tmp_path


def pytest_in(folder, *arguments):
    installed = any(found.name == "whileai" for found in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "whileai.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, *arguments]
    source = Path(__file__).resolve().parents[1] / "src"
    environment = {"PYTHONPATH": str(source), "PATH": "", "HOME": str(folder), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout


def test_one_test_per_case_with_a_readable_id(folder):
    code, printed = pytest_in(folder, "-v")
    assert code == 1
    assert "fewest.golden.yaml::fewest calls first PASSED" in printed
    assert "fewest.golden.yaml::an invented id, not the other FAILED" in printed
    assert "hacks: expected 1; got 0" in printed
    assert "1 failed, 1 passed" in printed
    assert "Traceback" not in printed
    assert "pytest_plugin.py" not in printed


def test_one_case_can_be_chosen(folder):
    code, printed = pytest_in(folder, "-v", "fewest.golden.yaml::fewest calls first")
    assert code == 0
    assert "1 passed" in printed


def test_broken_files_and_a_missing_spec_are_named(folder):
    (folder / "fewest.golden.yaml").write_text(GOLDEN.replace("hacks: [1]", "hack: [1]"))
    (folder / "alone.golden.yaml").write_text(GOLDEN)
    (folder / "bad.golden.yaml").write_text(GOLDEN)
    (folder / "bad.yaml").write_text(SPEC.replace("least", "leest"))
    code, printed = pytest_in(folder)
    assert code == 2
    assert "bad.yaml:4:" in printed
    assert "fewest.golden.yaml:8: cases[1].hack: unknown key (did you mean 'hacks'?)" in printed
    assert "there is no alone.yaml beside it" in printed


def test_other_yaml_files_are_left_alone(folder):
    (folder / "fewest.golden.yaml").unlink()
    code, printed = pytest_in(folder)
    assert code == 5, printed  # nothing collected


def test_golden_files_of_other_tools_are_left_alone(folder):
    (folder / "service.golden.yaml").write_text("apiVersion: v1\nkind: Service\nspec:\n  golden: 1\n")
    (folder / "binary.golden.yaml").write_bytes(b"\xff\x00cases")
    code, printed = pytest_in(folder, "-v")
    assert code == 1, "one case of fewest.golden.yaml does not hold"
    assert "service.golden" not in printed
    assert "binary.golden" not in printed


def test_assert_golden_for_plain_callables_and_compiled_graders(folder):
    from whileai.loader import load_grader

    def wrong(group):
        return {"ranking": [[r["index"] for r in group if r["passed"]]]}

    with pytest.raises(AssertionError) as caught:
        assert_golden(wrong, folder / "fewest.golden.yaml")
    assert str(caught.value).startswith("2 of 2 golden cases do not hold\n\n")
    assert "ranking: expected 1 > 0; got 0 = 1" in str(caught.value)
    grader = pickle.loads(pickle.dumps(load_grader(folder / "fewest.yaml")))
    with pytest.raises(AssertionError, match="1 of 2"):
        assert_golden(grader, folder / "fewest.golden.yaml")
    (folder / "fewest.golden.yaml").write_text(GOLDEN.replace("hacks: [1]", "hacks: [0]"))
    assert_golden(grader, folder / "fewest.golden.yaml")
    (folder / "fewest.golden.yaml").write_text("golden: 1")
    with pytest.raises(SpecError, match="cases"):
        assert_golden(grader, folder / "fewest.golden.yaml")

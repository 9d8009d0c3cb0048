import asyncio
import importlib
import sys

import pytest

from whileai.errors import SpecError
from whileai.kinds.python import PythonRunner
from whileai.spec.models import PythonSpec
from whileai.spec.sources import Sources

GRADER = """
from dataclasses import dataclass

@dataclass
class Said:
    ranking: list

def grade(group):
    return Said([g["index"] for g in group if g["passed"]])

async def later(group):
    return grade(group)

def score(rollout, rubric):
    return {"solution": 1, "behavior": 0}

def ranks_only(group, *, slow=False):
    return grade(group)
ranks_only.names_hacks = False

class Judge:
    async def __call__(self, group):
        return grade(group)

judge = Judge()
number = 3
"""


@pytest.fixture
def runner(tmp_path):
    (tmp_path / "own.py").write_text(GRADER)
    (tmp_path / "x.yaml").write_text("")

    def make(function: str, mode: str = "advantage") -> PythonRunner:
        fields = {"spec": 1, "name": "mine", "kind": "python", "function": function, "mode": mode}
        sources = Sources()
        return PythonRunner(PythonSpec.model_validate(fields), sources.file(tmp_path / "x.yaml"), sources)

    return make


GROUP = [{"index": 0, "passed": True}, {"index": 1, "passed": False}]


def test_a_function_of_a_file_runs_as_it_stands(runner):
    mine = runner("./own.py:grade")
    assert mine(GROUP).ranking == [0]
    assert (mine.name, mine.names_hacks, mine.is_async) == ("mine", True, False)
    assert not runner("./own.py:ranks_only").names_hacks


@pytest.mark.parametrize("name", ["later", "judge"])
def test_what_gives_awaitables_is_known_as_asynchronous(runner, name):
    mine = runner(f"./own.py:{name}")
    assert mine.is_async
    assert asyncio.run(mine(GROUP)).ranking == [0]


def test_a_function_of_reward_mode_gets_rollout_and_rubric(runner):
    assert runner("./own.py:score", "reward")(GROUP[0], "rubric") == {"solution": 1, "behavior": 0}


def test_a_function_of_a_module(runner):
    assert runner("json:dumps")([1]) == "[1]"
    assert set(runner("json:dumps").parts()) == {"function"}


@pytest.mark.parametrize(
    ("function", "mode", "said"),
    [
        ("./own.py:score", "advantage", "score(rollout, rubric) cannot be called as score(group)"),
        ("./own.py:grade", "reward", "grade(group) cannot be called as grade(rollout, rubric)"),
        ("./own.py:number", "advantage", "'number' is int, no function"),
        ("./own.py:grad", "advantage", "has no function 'grad'"),
        ("no_such_module_here:grade", "advantage", "no such module"),
    ],
)
def test_what_cannot_be_called_is_refused(runner, function, mode, said):
    with pytest.raises(SpecError, match=said.replace("(", r"\(").replace(")", r"\)")):
        runner(function, mode)


def test_a_file_is_run_once_and_again_when_it_changes(runner, tmp_path):
    first = runner("./own.py:grade")
    assert runner("./own.py:grade")._function is first._function
    (tmp_path / "own.py").write_text(GRADER.replace('if g["passed"]', ""))
    second = runner("./own.py:grade")
    assert second(GROUP).ranking == [0, 1]
    assert first(GROUP).ranking == [0]
    assert second.parts() != first.parts()


def test_the_digest_is_of_the_whole_file_and_the_name(runner, tmp_path):
    before = runner("./own.py:grade").parts()
    assert runner("./own.py:later").parts() != before
    (tmp_path / "own.py").write_bytes(GRADER.replace("\n", "\r\n").encode())
    assert runner("./own.py:grade").parts() == before
    (tmp_path / "own.py").write_text(GRADER.replace("slow=False", "slow=True"))
    assert runner("./own.py:grade").parts() != before


def test_the_digest_of_a_module_is_of_what_was_imported_until_it_is_reloaded(runner, tmp_path, monkeypatch):
    path = tmp_path / "whileai_test_edited.py"
    path.write_text("def grade(group):\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = runner("whileai_test_edited:grade")
    path.write_text("def grade(group):\n    return 'changed'\n")
    edited = runner("whileai_test_edited:grade")
    assert (edited(GROUP), edited.parts()) == (1, before.parts())
    importlib.reload(sys.modules["whileai_test_edited"])
    reloaded = runner("whileai_test_edited:grade")
    assert reloaded(GROUP) == "changed"
    assert reloaded.parts() != before.parts()


def test_a_module_that_fails_leaves_nothing_behind(runner, tmp_path):
    (tmp_path / "own.py").write_text("import os\n\nraise RuntimeError('no')\n")
    modules = set(sys.modules)
    with pytest.raises(SpecError, match=r"own.py:3: fails when imported: RuntimeError: no"):
        runner("./own.py:grade")
    assert set(sys.modules) == modules

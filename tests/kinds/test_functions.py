import pickle
import sys

import pytest

from whileai.errors import SpecError
from whileai.kinds.functions import load_function

GRADER = """
import os
from collections import Counter

LIMIT = 3

def rank_group(group):
    return {"ranking": [g["index"] for g in group if g["passed"]]}

async def rank_later(group):
    return rank_group(group)

class Judge:
    def __call__(self, group):
        return rank_group(group)

judge = Judge()

def _helper():
    pass
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "grader.py").write_text(GRADER)
    return tmp_path


def refused(reference, folder):
    with pytest.raises(SpecError) as caught:
        load_function(reference, folder)
    (problem,) = caught.value.problems
    return str(problem)


@pytest.mark.parametrize("name", ["rank_group", "rank_later", "judge"])
def test_a_function_of_a_file(folder, name):
    found = load_function(f"./grader.py:{name}", folder)
    assert callable(found)
    assert load_function(f"{folder}/grader.py:{name}") is not None  # an absolute path needs no folder


def test_a_files_path_starts_in_the_working_directory(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert load_function("grader.py:rank_group")([{"index": 0, "passed": True}]) == {"ranking": [0]}


def test_an_edited_file_is_read_again(folder):
    assert load_function("grader.py:LIMIT_OF", write(folder, "def LIMIT_OF(): return 1\n"))() == 1
    assert load_function("grader.py:LIMIT_OF", write(folder, "def LIMIT_OF(): return 2\n"))() == 2


def write(folder, text):
    (folder / "grader.py").write_text(text)
    return folder


def test_nothing_is_left_beside_the_file(folder):
    load_function("grader.py:rank_group", folder)
    assert [path.name for path in folder.iterdir()] == ["grader.py"]


def test_a_function_of_a_file_pickles_in_its_process(folder):
    found = load_function("grader.py:rank_group", folder)
    assert pickle.loads(pickle.dumps(found)) is found


def test_a_function_of_an_installed_module():
    import json

    assert load_function("json:dumps") is json.dumps


def test_a_module_of_the_folder_is_found_after_everything_installed(folder, monkeypatch):
    package = folder / "own_graders"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "one.py").write_text("from own_graders.two import rank_group\n")
    (package / "two.py").write_text(GRADER)
    (folder / "json.py").write_text("raise SystemExit('the wrong json')\n")
    path = list(sys.path)
    assert load_function("own_graders.one:rank_group", folder)([]) == {"ranking": []}
    assert load_function("json:dumps", folder)
    assert sys.path == path
    for name in ("own_graders", "own_graders.one", "own_graders.two"):
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("./grader.py", "./grader.py: names no function (did you mean ./grader.py:rank_group?)"),
        ("./grader.py:", "./grader.py:: names no function (did you mean ./grader.py:rank_group?)"),
        ("", ": names no function (write ./file.py:function or package.module:function)"),
        (":f", ":f: names no function (write ./file.py:function or package.module:function)"),
        ("./grader.py:a b", "./grader.py:a b: names no function (write "),
        ("./none.py", "./none.py: names no function (write "),
        ("./grader.py:rank_grop", "./grader.py: has no function 'rank_grop' (did you mean ./grader.py:rank_group?)"),
        ("./grader.py:LIMIT", "./grader.py: 'LIMIT' is int, no function (did you mean ./grader.py:rank_group?)"),
        ("./grader.py:Countr", "./grader.py: has no function 'Countr' (did you mean ./grader.py:rank_group?)"),
        ("./gradr.py:f", "./gradr.py: no such file (did you mean grader.py?)"),
        ("./other_thing.py:f", "./other_thing.py: no such file (looked in "),
        ("./nowhere/grader.py:f", "./nowhere/grader.py: no such file (looked in "),
        ("no_such_module_here:f", "no_such_module_here: no such module (looked in "),
        ("./grader:f", "./grader: no such module (looked in "),
        ("..:f", "..: no such module (looked in "),
        ("json:dmps", "json: has no function 'dmps' (did you mean json:dump"),
    ],
)
def test_a_wrong_target_names_the_value_and_what_to_write(folder, reference, says):
    assert refused(reference, folder).startswith(says)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\ndef f(:\n    pass\n", "grader.py:2: does not parse: invalid syntax (mend the file)"),
        ("def f():\n\n    return 1 / 0\n\nf()\n", "grader.py:3: fails when imported: ZeroDivisionError: "),
        ("import sys\nsys.exit('usage')\n", "grader.py:2: fails when imported: SystemExit: usage (mend the file)"),
        ("import no_such_module_here\n", "grader.py:1: fails when imported: ModuleNotFoundError: No module named"),
        ("x = '\udcff'\n", "grader.py:1: does not parse: (unicode error)"),
    ],
)
def test_a_file_that_does_not_import_names_the_line(folder, text, says):
    (folder / "grader.py").write_text(text, errors="surrogateescape")
    modules = set(sys.modules)
    assert refused("grader.py:f", folder).startswith(says)
    assert set(sys.modules) == modules


def test_a_module_that_does_not_import_says_why(folder):
    (folder / "own_broken.py").write_text("import no_such_module_here\n")
    (folder / "own_wrong.py").write_text("x = [\n")
    assert "own_broken: fails when imported: ModuleNotFoundError" in refused("own_broken:f", folder)
    assert "own_wrong: fails when imported: SyntaxError" in refused("own_wrong:f", folder) or (
        "own_wrong:1: does not parse" in refused("own_wrong:f", folder)
    )


def test_looking_for_the_function_that_was_forgotten_runs_nothing(folder):
    (folder / "loud.py").write_text("raise SystemExit('ran')\ndef grade(group):\n    pass\n")
    assert "did you mean ./loud.py:grade?" in refused("./loud.py", folder)

from pathlib import Path

import pytest

from whileai.cli.spec_files import find_spec_files
from whileai.errors import SpecError

SPEC = "spec: 1\nname: a\nkind: rules\n"


def names(paths):
    return [path.as_posix() for path in paths]


def test_specs_golden_files_and_others_are_told_apart(put, folder):
    put("g/b.yaml", SPEC)
    put("g/a.golden.yaml", "golden: 1\n")
    put("g/a.yaml", "name: a\nkind: python\n")
    put("g/old/c.yml", "'spec': 1\n")
    put("g/service.golden.yaml", "apiVersion: v1\nkind: Service\n")
    put("g/workflow.yaml", "on: push\n")
    put("g/deployment.yaml", "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: 1\n")
    put("g/notes.txt", SPEC)
    put("g/.git/d.yaml", SPEC)
    found = find_spec_files(["g"])
    assert names(found.specs) == ["g/a.yaml", "g/b.yaml", "g/old/c.yml"]
    assert names(found.golden) == ["g/a.golden.yaml"]
    assert names(found.others) == ["g/deployment.yaml", "g/service.golden.yaml", "g/workflow.yaml"]


def test_a_file_that_is_named_is_taken_as_named(put):
    put("compose.yaml", "services: {}\n")
    put("x.golden.yaml", "")
    found = find_spec_files(["compose.yaml", "x.golden.yaml"])
    assert (names(found.specs), names(found.golden)) == (["compose.yaml"], ["x.golden.yaml"])


def test_a_file_that_is_meant_twice_is_found_once(put, folder):
    put("g/a.yaml", SPEC)
    found = find_spec_files(["g", "g/a.yaml", "./g/../g/a.yaml", str(folder / "g")])
    assert names(found.specs) == ["g/a.yaml"]


def test_a_shipped_grader_is_found_by_its_name(folder):
    (path,) = find_spec_files(["rank_group"]).specs
    assert path.name == "rank_group.yaml"
    assert path.is_file()


def test_a_circle_of_links_ends(put, folder):
    put("g/a.yaml", SPEC)
    (folder / "g" / "again").symlink_to(folder / "g", target_is_directory=True)
    assert names(find_spec_files(["g"]).specs) == ["g/a.yaml"]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("empty", "empty: no spec and no golden file in this folder (a spec says `spec: 1`)"),
        ("fn.py", "fn.py: is no spec (the name of a spec ends in .yaml)"),
        (
            "fn.py:grade",
            "fn.py:grade: is a function and no spec (cases of a plain function are run by "
            "whileai.testing.assert_golden)",
        ),
        ("g/mine", "g/mine: there is no such file or folder (did you mean g/mine.yaml?)"),
        ("rank_groop", "rank_groop: there is no such file or folder (did you mean 'rank_group'?)"),
        ("../x/y.yaml", "../x/y.yaml: there is no such file or folder"),
    ],
)
def test_what_is_no_spec_is_refused_with_a_remedy(put, folder, path, said):
    (folder / "empty").mkdir()
    put("fn.py", "")
    put("g/mine.yaml", SPEC)
    with pytest.raises(SpecError) as refused:
        find_spec_files([path])
    assert str(refused.value) == said


def test_every_path_that_is_wrong_is_named(folder):
    with pytest.raises(SpecError) as refused:
        find_spec_files(["nope", str(Path("neither.yaml"))])
    assert len(refused.value.problems) == 2

from pathlib import Path

import pytest

from whileai.spec.library import find_shipped, library_folder, shipped_names


def test_the_folder_of_graders_holds_the_pages_grader():
    assert (library_folder("graders") / "rank_group.py").is_file()


def test_a_bare_name_is_found_under_the_first_suffix_that_exists():
    found = find_shipped("graders", "rank_group", (".no-such-suffix", ".py"))
    assert found == library_folder("graders") / "rank_group.py"


@pytest.mark.parametrize(
    "name",
    ["no_such_grader", "", ".", "..", "../graders/rank_group", "./rank_group", "/etc/passwd", "a//b",
     "rank_group.py", "rank_group.rows", "graders\\rank_group", "rank_group\n", "rank_group/"],
)  # fmt: skip
def test_what_is_no_bare_name_of_the_library_is_not_found(name):
    assert find_shipped("graders", name, (".py", ".jsonl")) is None


def test_a_subfolder_is_part_of_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "library/prompts/groupwise").mkdir(parents=True)
    template = tmp_path / "library/prompts/groupwise/system.j2"
    template.write_text("Judge.")
    monkeypatch.setattr("whileai.spec.library._PACKAGE", tmp_path)
    assert find_shipped("prompts", "groupwise/system", (".j2",)) == template
    assert shipped_names("prompts", (".j2",)) == ["groupwise/system"]


def test_companions_of_a_grader_are_not_names():
    names = shipped_names("graders", (".py", ".jsonl", ".yaml"))
    assert "rank_group" in names
    assert names == sorted(set(names))
    assert not [name for name in names if "." in name]

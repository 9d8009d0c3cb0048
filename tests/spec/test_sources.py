import os

import pytest

from whileai.spec.document import MAX_BYTES
from whileai.spec.library import library_folder
from whileai.spec.sources import Sources
from whileai.spec.validation import Mistake


@pytest.fixture
def spec(tmp_path):
    folder = tmp_path / "project"
    (folder / "parts").mkdir(parents=True)
    (folder / "x.yaml").write_text("spec: 1\n")
    (folder / "a.j2").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r")
    (folder / "parts" / "b.j2").write_text("part")
    (tmp_path / "secret.j2").write_text("secret")
    return Sources().file(folder / "x.yaml")


def test_a_file_beside_the_spec_or_below_it(spec):
    sources = Sources()
    assert sources.beside(spec, "./a.j2").text == "one\ntwo\n"
    part = sources.beside(spec, "./parts/b.j2")
    assert part.text == "part"
    assert part.shown == str(spec.path.parent / "parts" / "b.j2")
    assert sources.beside(part, "./b.j2").content == b"part"


@pytest.mark.parametrize(
    "reference",
    ["./../secret.j2", "../secret.j2", "./parts/../../secret.j2", "/etc/hostname", "a.j2", ".", "./", "",
     "./parts\\..\\..\\secret.j2", "~/secret.j2", "file:///etc/hostname", "./."],
)  # fmt: skip
def test_no_reference_leads_out_of_the_folder(spec, reference):
    with pytest.raises(Mistake):
        Sources().beside(spec, reference)


def test_no_link_leads_out_of_the_folder(spec):
    folder = spec.path.parent
    (folder / "link.j2").symlink_to(folder.parent / "secret.j2")
    (folder / "linked").symlink_to(folder.parent)
    (folder / "circle.j2").symlink_to(folder / "circle.j2")
    for reference in ("./link.j2", "./linked/secret.j2", "./linked/none.j2"):
        with pytest.raises(Mistake, match="leads out of the folder"):
            Sources().beside(spec, reference)
    with pytest.raises(Mistake):
        Sources().beside(spec, "./circle.j2")


def test_a_spec_that_is_a_link_to_elsewhere_is_not_read(spec):
    link = spec.path.parent / "y.yaml"
    link.symlink_to(spec.path.parent.parent / "secret.j2")
    with pytest.raises(Mistake, match="leads out of the folder"):
        Sources().file(link)


def test_a_link_inside_the_folder_is_followed(spec):
    (spec.path.parent / "link.j2").symlink_to(spec.path.parent / "a.j2")
    assert Sources().beside(spec, "./link.j2").text == "one\ntwo\n"


def test_only_regular_files_of_a_sane_size_are_read(spec):
    folder = spec.path.parent
    os.mkfifo(folder / "pipe.j2")
    (folder / "large.j2").write_bytes(b"x" * (MAX_BYTES + 1))
    for reference, says in (("./pipe.j2", "no file"), ("./parts", "is a folder"), ("./large.j2", "larger than")):
        with pytest.raises(Mistake, match=says):
            Sources().beside(spec, reference)


def test_the_nearest_name_is_the_remedy(spec):
    with pytest.raises(Mistake) as caught:
        Sources().beside(spec, "./aa.j2")
    assert caught.value.remedy == "did you mean 'a.j2'?"
    with pytest.raises(Mistake) as caught:
        Sources().shipped("graders", "rank_grop", (".yaml",))
    assert "did you mean 'rank_group'?" in caught.value.remedy


def test_text_that_is_not_utf_8_is_named(spec):
    (spec.path.parent / "latin.j2").write_bytes(b"caf\xe9")
    with pytest.raises(Mistake, match="not UTF-8"):
        Sources().beside(spec, "./latin.j2").text


def test_what_was_kept_is_read_again_without_the_disk(spec, monkeypatch):
    first = Sources()
    named = first.file(spec.path)
    first.beside(named, "./parts/b.j2")
    shipped = first.shipped("graders", "rank_group_py", (".yaml",))
    first.beside(shipped, "./rank_group.py")
    for path in (spec.path, spec.path.parent / "parts" / "b.j2"):
        path.unlink()
    monkeypatch.setattr("pathlib.Path.read_bytes", lambda self: pytest.fail(f"read {self}"))
    again = Sources(first.kept)
    assert again.beside(again.kept_file(named.key, "x.yaml"), "./parts/b.j2").content == b"part"
    restored = again.shipped("graders", "rank_group_py", (".yaml",))
    assert restored.content == shipped.content
    assert again.beside(restored, "./rank_group.py").content.startswith(b'"""')
    with pytest.raises(Mistake, match="did not travel"):
        again.beside(restored, "./other.py")
    with pytest.raises(Mistake, match="no shipped file"):
        again.shipped("graders", "rank_group", (".yaml",))


def test_a_shipped_file_has_a_key_without_a_folder_of_this_machine():
    shipped = Sources().shipped("graders", "rank_group", (".yaml",))
    assert shipped.key == shipped.shown == "graders/rank_group.yaml"
    assert shipped.path.is_relative_to(library_folder("graders"))

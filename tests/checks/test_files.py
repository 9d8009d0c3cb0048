import os

import pytest

from whileai.checks.files import write_atomically


def test_folders_are_made_and_the_umask_holds(tmp_path):
    path = tmp_path / "a" / "b" / "c.json"
    before = os.umask(0o027)
    try:
        write_atomically(path, b"x")
    finally:
        os.umask(before)
    assert path.read_bytes() == b"x"
    assert path.stat().st_mode & 0o777 == 0o640


def test_an_existing_file_keeps_its_mode_and_a_link_is_followed(tmp_path):
    path, link = tmp_path / "real", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o600)
    link.symlink_to(path)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_failure_leaves_the_old_file_and_no_part(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with pytest.raises(TypeError):
        write_atomically(path, "not bytes")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_pipe_is_written_straight():
    read, write = os.pipe()
    try:
        write_atomically(f"/dev/fd/{write}", b"through")
        assert os.read(read, 100) == b"through"
    finally:
        os.close(read)
        os.close(write)

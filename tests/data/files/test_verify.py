"""Verification reads files whatever their stamps say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from file_helpers import OTHER, counting, md5, never, public, put, read_only, refused, sha256

from untwine import files
from untwine.data.files import stamps, store
from untwine.data.files.derived import derived
from untwine.data.files.verify import FileCheck, check_derived_files, check_file
from untwine.errors import Unavailable


def test_check_reads_the_file_whatever_its_stamp_says(data):
    assert check_file(public()) == FileCheck("sub/data.bin", "missing", None, md5()) and not check_file(public()).ok
    path = put(data / "sub" / "data.bin")
    before = path.stat()
    store.fetch(public())
    assert check_file(public()) == FileCheck("sub/data.bin", "right", path, md5(), md5())
    put(path, OTHER)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as when a disk decays
    assert store.fetch(public()) == path
    found = check_file(public())
    assert (found.state, found.ok, found.expected, found.found) == ("wrong", False, md5(), md5(OTHER))
    refused(public(), data, md5(OTHER))


def test_check_finds_a_right_copy_behind_a_wrong_one(data, tmp_path):
    put(data / "sub" / "data.bin", OTHER)
    right = put(tmp_path / "system" / "data.bin")
    assert check_file(public(elsewhere=(str(right.parent),))) == FileCheck("sub/data.bin", "right", right, md5(), md5())


def test_check_of_what_was_made(data):
    assert check_derived_files() == []
    put(data / "sub" / "data.bin")
    store.fetch(public())
    paths = [derived(f"made/{name}.npy", counting([]), "counting") for name in "ab"]
    found = check_derived_files()
    assert [(one.name, one.state, one.path) for one in found] == [
        ("made/a.npy", "right", paths[0]),
        ("made/b.npy", "right", paths[1]),
    ]
    before = paths[0].stat()
    paths[0].write_bytes(paths[0].read_bytes()[:-1] + b"!")
    os.utime(paths[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    expected = sha256(paths[1].read_bytes())
    for _ in range(3):
        found = check_derived_files()
        assert [one.state for one in found] == ["wrong", "right"]
        assert (found[0].expected, found[0].found) == (expected, sha256(paths[0].read_bytes()))
    with pytest.warns(UserWarning, match="not as it was made"):
        derived("made/a.npy", counting([]), "counting")
    paths[1].unlink()
    assert [(one.name, one.ok) for one in check_derived_files()] == [("made/a.npy", True)]


@pytest.mark.parametrize("length", [-1, None], ids=["shorter", "as long"])
def test_a_derived_file_that_was_found_wrong_and_then_put_right_is_used(data, length):
    path = derived("a.npy", counting([]), "counting")
    right = path.read_bytes()
    path.write_bytes((right[:-1] + b"!")[:length])
    assert [one.state for one in check_derived_files()] == ["wrong"]
    path.write_bytes(right)
    os.utime(path, ns=(0, 5))
    assert derived("a.npy", never, "counting") == path
    assert [one.state for one in check_derived_files()] == ["right"]


def test_check_of_what_was_made_beneath_a_folder(data):
    for name in ("one/a", "one/below/b", "one_more/c", "two/d"):
        derived(f"{name}.npy", counting([]), "counting")
    for prefix in ("one", "one/"):
        assert [one.name for one in check_derived_files(prefix)] == ["one/a.npy", "one/below/b.npy"]
    assert [one.name for one in check_derived_files("none/")] == []
    assert len(check_derived_files()) == 4


def test_what_was_found_wrong_in_a_read_only_folder_is_not_used(data, tmp_path, monkeypatch):
    """Although its valid stamp cannot be removed."""
    path = derived("sub/a.npy", counting([]), "counting")
    file = put(data / "sub" / "data.bin")
    store.fetch(public())
    for one in (path, file):
        before = one.stat()
        one.write_bytes(one.read_bytes()[:-1] + b"!")
        os.utime(one, ns=(before.st_atime_ns, before.st_mtime_ns))
    read_only(data)
    for _ in range(2):
        assert [one.state for one in check_derived_files()] == ["wrong"] and check_file(public()).state == "wrong"
        monkeypatch.setattr(stamps, "_in_process", {})  # a new process
    with pytest.raises(Unavailable), pytest.warns(UserWarning, match=f"{file}.*not used"):
        store.fetch(public("http://127.0.0.1:1/"))
    with pytest.warns(UserWarning, match="not as it was made"):
        own = derived("sub/a.npy", counting([]), "counting")
    assert own.is_relative_to(tmp_path / "cache")


def test_a_check_while_a_file_is_made_again_does_no_harm(data, monkeypatch):
    """The check happens between writing the stamp and the file, or while the old file is read."""
    from untwine.data.files import derived as made

    path = derived("a.npy", counting([]), "counting")
    right = path.read_bytes()
    path.write_bytes(b"old")
    states = []

    def checking(new: Path, target: Path) -> None:
        states.extend(one.state for one in check_derived_files())
        files.settle(new, target)

    with monkeypatch.context() as patch:
        patch.setattr(made, "settle", checking)
        with pytest.warns(UserWarning, match="not as it was made"):
            derived("a.npy", counting([]), "counting")
    assert states == ["wrong"] and derived("a.npy", never, "counting").read_bytes() == right

    real = stamps.digest

    def replaced(file: Path, *how: str) -> str:
        found = real(file, *how)
        os.utime(file, ns=(0, 7))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(stamps, "digest", replaced)
        before = (data / ".a.npy.stamp.json").read_text()
        check_derived_files()
    assert (data / ".a.npy.stamp.json").read_text() == before

"""Data folders: which are searched, which are written to, and what is said of unusable ones."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_helpers import CONTENT, HINT, OTHER, md5, never, public, put, read_only, refused

from untwine.data.files import places, stamps, store
from untwine.data.files.derived import derived
from untwine.data.files.public import File
from untwine.data.files.verify import check_derived_files, check_file
from untwine.errors import Unavailable


def test_the_data_folder_is_that_of_the_variable_or_of_the_platform(data, tmp_path, monkeypatch):
    assert places.places() == [data] and places.folder() == places.writable() == data
    monkeypatch.setenv("UNTWINE_DATA", "~/things")
    assert places.folder() == Path.home() / "things"
    for unset in (lambda: monkeypatch.setenv("UNTWINE_DATA", ""), lambda: monkeypatch.delenv("UNTWINE_DATA")):
        unset()
        assert places.places() == [tmp_path / "cache" / "untwine"]


def test_files_of_a_read_only_folder_are_used_in_place_and_the_rest_goes_to_the_users_own(data, tmp_path, server):
    put(data / "sub" / "data.bin")
    read_only(data)
    cache = tmp_path / "cache" / "untwine"
    assert places.places() == [data, cache] and places.folder() == data and places.writable() == cache
    assert store.fetch(public(server.url("good"))) == data / "sub" / "data.bin"
    assert server.asked == []

    second = File("sub/second.bin", (server.url("good"),), md5())
    assert store.fetch(second) == cache / "sub" / "second.bin" == places.find(second)
    made = derived("made/a-v1.npy", lambda path: np.save(path, np.arange(3)), "counting")
    assert made == cache / "made" / "a-v1.npy"
    assert {path.name for path in data.rglob("*")} == {"sub", "data.bin"}


def test_what_was_verified_in_a_read_only_folder_is_remembered(data, tmp_path, hashed, monkeypatch):
    put(data / "sub" / "data.bin")
    read_only(data)
    store.fetch(public())
    store.fetch(public())
    assert len(hashed) == 1
    monkeypatch.setattr(stamps, "_in_process", {})  # a new process
    store.fetch(public())
    assert len(hashed) == 1
    assert len(list((tmp_path / "cache" / "untwine" / ".stamps").iterdir())) == 1


def test_where_no_stamp_can_be_written_the_process_remembers(data, tmp_path, hashed):
    put(data / "sub" / "data.bin")
    read_only(data)
    put(tmp_path / "cache", b"a file where there should be a folder")
    for _ in range(3):
        assert store.fetch(public()) == data / "sub" / "data.bin"
    assert len(hashed) == 1


def test_files_derived_in_a_folder_that_became_read_only_are_used(data):
    made = derived("a.npy", lambda path: np.save(path, 1), "counting")
    read_only(data)
    assert derived("a.npy", lambda path: pytest.fail("made again"), "counting") == made


def test_a_wrong_file_of_a_read_only_folder_does_not_stop_a_user(data, tmp_path, server):
    put(data / "sub" / "data.bin", OTHER)
    read_only(data)
    with pytest.warns(UserWarning, match=f"{data}.*{md5(OTHER)}.*it is not used"):
        found = store.fetch(public(server.url("good")))
    assert found == tmp_path / "cache" / "untwine" / "sub" / "data.bin" and found.read_bytes() == CONTENT


def test_a_folder_that_cannot_be_written_to_is_named(data, tmp_path, server, monkeypatch):
    parent = tmp_path / "locked"
    parent.mkdir()
    read_only(parent)
    monkeypatch.setenv("UNTWINE_DATA", str(parent / "data"))
    refused(public(server.url("good")), parent / "data", "cannot be written to", "UNTWINE_DATA")
    with pytest.raises(Unavailable, match=rf"counting: {parent}.* cannot be written to.*UNTWINE_DATA"):
        derived("a.npy", lambda path: np.save(path, 1), "counting")
    assert server.asked == []


@pytest.mark.parametrize("offline", ["0", "1"])
def test_a_file_instead_of_the_folder(data, server, monkeypatch, offline):
    monkeypatch.setenv("UNTWINE_OFFLINE", offline)
    put(data, b"a file")
    message = refused(public(server.url("good")), data, "Set UNTWINE_DATA to a folder that can be written to")
    assert f"put it into {data}" not in message and server.asked == []


def test_a_link_that_leads_nowhere_instead_of_the_folder(data, server):
    data.symlink_to(data.parent / "unmounted")
    refused(public(server.url("good")), data, "cannot be written to", "Set UNTWINE_DATA")
    with pytest.raises(Unavailable, match=f"counting: {data} cannot be written to.*UNTWINE_DATA.*{HINT}"):
        derived("a.npy", never, "counting", hint=HINT)
    assert server.asked == [] and check_derived_files() == []


@pytest.mark.parametrize(
    ("name", "why"),
    [("~nobody-of-that-name/data", "home"), ("/tmp/" + "long" * 100, "too long"), ("x/" * 5000, "long")],
)
def test_a_name_that_cannot_be_a_folder(server, monkeypatch, name, why):
    monkeypatch.setenv("UNTWINE_DATA", name)
    for call in (
        places.places,
        check_derived_files,
        lambda: store.fetch(public(server.url("good"))),
        lambda: derived("a.npy", never, "counting"),
    ):
        with pytest.raises(Unavailable, match=f"UNTWINE_DATA names {name[:20]}.*{why}.*Set UNTWINE_DATA"):
            call()


def test_a_folder_that_may_not_be_entered(data, server, monkeypatch):
    put(data / "sub" / "data.bin")

    def forbidden(real: Callable[..., Any]) -> Callable[..., Any]:
        def ask(path: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(path, int) and Path(path).is_relative_to(data):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return real(path, *args, **kwargs)

        return ask

    real = os.access
    with monkeypatch.context() as patch:
        for name in ("stat", "lstat", "open", "listdir", "scandir"):
            patch.setattr(os, name, forbidden(getattr(os, name)))
        patch.setattr(os, "access", lambda path, *how: Path(path) != data.parent and real(path, *how))
        refused(public(server.url("good")), data, "cannot be written to")
        with pytest.raises(Unavailable, match=f"{data} cannot be written to"):
            derived("a.npy", never, "counting")
        assert check_file(public()).state == "missing"
        with pytest.raises(Unavailable, match=f"{data} cannot be listed: Permission denied"):
            check_derived_files()


@pytest.mark.parametrize("name", [".", " . ", "./"])
def test_the_data_folder_is_absolute_and_not_blank(tmp_path, monkeypatch, name):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNTWINE_DATA", name)
    assert places.folder() == tmp_path
    monkeypatch.setenv("UNTWINE_DATA", "   ")
    assert places.folder() != tmp_path and places.folder().is_absolute()

"""Public files: a fetched file is complete and right or absent, and messages say what to do."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest
from file_helpers import (
    CONTENT,
    HINT,
    OTHER,
    counting,
    fetching,
    interrupt,
    left,
    md5,
    public,
    put,
    refused,
    sha256,
    started,
    wait_for,
)

from untwine.data.files import places, stamps, store
from untwine.data.files.derived import derived
from untwine.data.files.public import broken
from untwine.data.files.verify import FileCheck, check_derived_files, check_file
from untwine.errors import Unavailable
from untwine.locks import locked


def test_a_file_put_there_by_hand_is_read_once(data, hashed):
    file = put(data / "sub" / "data.bin")
    for _ in range(3):
        assert store.fetch(public()) == file
    assert hashed == [file]
    stamp = json.loads((data / "sub" / ".data.bin.stamp.json").read_text())
    assert stamp["checksum"] == md5() and stamp["size"] == len(CONTENT)
    os.utime(file, ns=(0, 1_000_000_001))
    store.fetch(public())
    assert len(hashed) == 2
    store.fetch(public(checksum=sha256()))  # the stamp has another kind of checksum
    assert len(hashed) == 3


STAMP = {"size": len(CONTENT), "mtime_ns": 1_000_000_001, "checksum": md5(), "derived": True}
DAMAGED = [
    *(
        json.dumps(STAMP | {"checksum": wrong})
        for wrong in ("nonsense", "md5:", "shake_128:00", md5().upper(), None, {})
    ),
    *(json.dumps(STAMP | {"size": wrong}) for wrong in ("x", None, True, float(len(CONTENT)), float("inf"))),
    *(json.dumps(STAMP | {"mtime_ns": wrong}) for wrong in ("x", [], 1e300)),
    *(json.dumps({key: STAMP[key] for key in STAMP if key != gone}) for gone in STAMP),
    *('{"size": 1e400, "mtime_ns": 1, "checksum": "a", "derived": true}', "", "null", "[]", "[" * 100_000, "\0"),
]


@pytest.mark.parametrize("stamp", [json.dumps(STAMP), *DAMAGED], ids=lambda stamp: stamp[:60])
@pytest.mark.parametrize("checksum", [md5(), None])
def test_a_damaged_stamp_vouches_for_nothing(data, hashed, stamp, checksum):
    file = put(data / "sub" / "data.bin")
    os.utime(file, ns=(0, 1_000_000_001))
    (data / "sub" / ".data.bin.stamp.json").write_text(stamp)
    assert store.fetch(public(checksum=checksum)) == file
    assert hashed == ([file] if stamp in DAMAGED else [])
    (data / "sub" / ".data.bin.stamp.json").write_text(stamp)
    assert [one.state for one in check_derived_files()] == ([] if stamp in DAMAGED else ["right"])


@pytest.mark.parametrize("content", [OTHER, CONTENT[:1000], b""], ids=["other", "half-written", "empty"])
def test_a_wrong_file_is_neither_used_nor_removed(data, server, monkeypatch, content):
    file = put(data / "sub" / "data.bin", content)
    message = refused(public(server.url("good"), size=len(CONTENT)), data, md5(content), "Delete it")
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    assert message == refused(public(server.url("good"), size=len(CONTENT)), data)
    monkeypatch.delenv("UNTWINE_OFFLINE")
    assert file.read_bytes() == content and server.asked == []
    assert ("bytes instead of 400,000" in message) == (len(content) != len(CONTENT))
    file.unlink()
    assert store.fetch(public(server.url("good"))).read_bytes() == CONTENT


@pytest.mark.parametrize(("content", "later"), [(OTHER, 1), (CONTENT[:-1], 0)], ids=["time", "size"])
def test_a_file_that_changed_after_it_was_verified_is_verified_again(data, content, later):
    file = put(data / "sub" / "data.bin")
    store.fetch(public())
    before = file.stat()
    put(file, content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + later))
    refused(public(), data, md5(content))


def test_folders_of_the_system_are_looked_at_last_and_not_written_to(data, tmp_path, hashed, server):
    system = put(tmp_path / "system" / "data.bin")
    file = public(server.url("good"), elsewhere=(str(tmp_path / "nowhere"), str(system.parent)))
    for _ in range(2):
        assert store.fetch(file) == places.find(file) == system
    assert hashed == [system] and os.listdir(system.parent) == ["data.bin"]
    own = put(data / "sub" / "data.bin", OTHER)
    with pytest.warns(UserWarning, match=f"{own}.*not used"):
        assert store.fetch(file) == system
    put(own)
    assert store.fetch(file) == own

    own.unlink()
    put(system, OTHER + b"longer")
    with pytest.warns(UserWarning, match=f"{system}.*not used"):
        assert store.fetch(file) == own
    assert system.read_bytes() == OTHER + b"longer"


def test_a_file_that_cannot_be_read_is_said_to_be_so(data, monkeypatch):
    put(data / "sub" / "data.bin")

    def fail(path: Path, *how: str) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(stamps, "digest", fail)
    refused(public(), data, "cannot be read: Permission denied")
    assert check_file(public()).state == "unreadable"


def test_a_file_without_a_published_checksum_is_known_by_the_one_it_arrived_with(data, server):
    file = public(server.url("good"), checksum=None)
    path = store.fetch(file)
    assert json.loads((data / "sub" / ".data.bin.stamp.json").read_text())["checksum"] == sha256()
    assert check_file(file) == FileCheck("sub/data.bin", "as on arrival", path, sha256(), sha256())
    put(path, OTHER + b"!")
    with pytest.warns(UserWarning, match=f"changed since it arrived: it was {sha256()}.*{sha256(OTHER + b'!')}"):
        assert store.fetch(file) == path
    found = check_file(file)
    assert (found.state, found.ok, found.expected, found.found) == ("changed", False, sha256(), sha256(OTHER + b"!"))
    (data / "sub" / ".data.bin.stamp.json").unlink()  # as the warning says
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.fetch(file)
    assert check_file(file).ok


def whole(path: Path) -> None:
    """The check of a loader for a file without a checksum."""
    if path.read_bytes() != CONTENT:
        raise broken(path, "it\x1b[31m is another")


def test_what_arrives_must_fit(data, server):
    server.content = CONTENT[:1000]
    file = public(server.url("wrong"), server.url("good"), checksum=None, validate=whole)
    with pytest.raises(Unavailable) as caught:
        store.fetch(file, HINT)
    lines = [line for line in str(caught.value).splitlines() if line.startswith("  ")]
    said = "the downloaded file does not hold what it should: it?[31m is another and was discarded"
    assert lines == [f"  {url}: {said}" for url in file.urls] and left(data) == set()
    assert list(data.rglob("*.stamp.json")) == []
    server.content = CONTENT
    assert store.fetch(file, HINT).read_bytes() == CONTENT


def test_a_beginning_of_something_else_does_not_fit(data, server, monkeypatch):
    interrupt(server, monkeypatch, public(server.url("good"), checksum=None))
    part = data / "sub" / "data.bin.part"
    part.write_bytes(bytes(part.stat().st_size))
    assert store.fetch(public(server.url("good"), checksum=None, validate=whole)).read_bytes() == CONTENT
    assert len(server.asked) == 2


@pytest.mark.parametrize("seen", [False, True])
def test_what_lies_here_must_fit(data, server, monkeypatch, seen):
    path = put(data / "sub" / "data.bin", OTHER)
    file = public(server.url("good"), checksum=None, validate=whole)
    assert check_file(file).state == "wrong" and not (data / "sub" / ".data.bin.stamp.json").exists()
    if seen:
        check_file(public(checksum=None))  # which knows nothing of its content, and remembers it
    message = refused(file, data, f"data.bin in {path.parent} does not hold what it should: it?[31m is another.")
    assert "neither used nor removed" in message and path.read_bytes() == OTHER and server.asked == []
    assert (data / "sub" / ".data.bin.stamp.json").exists() == seen

    system = put(data.parent / "system" / "data.bin")
    with pytest.warns(UserWarning, match=f"{path} does not hold.*not used"):
        assert store.fetch(public(checksum=None, elsewhere=(str(system.parent),), validate=whole)) == system
    put(path)
    (data / "sub" / ".data.bin.stamp.json").unlink(missing_ok=True)
    assert store.fetch(file) == path


def test_something_else_in_the_place_of_a_file(data, server):
    put(data / "sub" / "data.bin" / "in it")
    refused(public(server.url("good")), data, "is not a file", "neither used nor removed")
    shutil.rmtree(data / "sub" / "data.bin")
    (data / "sub" / "data.bin").symlink_to(data / "unmounted")
    refused(public(server.url("good")), data, "is not a file", "neither used nor removed")
    assert server.asked == []


# --- two processes ----------------------------------------------------------------------------------


def test_two_processes_fetch_once(data, server):
    file = public(server.url("later"))
    children = [started(fetching(file)) for _ in range(2)]
    wait_for(lambda: server.asked)
    time.sleep(0.2)  # for the other to ask as well, if it does
    server.go.set()
    assert [child.communicate()[0].strip() for child in children] == [str(data / "sub" / "data.bin")] * 2
    assert len(server.asked) == 1 and left(data) == {"data.bin"}


def test_who_waits_says_so_once_where_someone_sees_it(data, server, monkeypatch, capsys):
    file = public(server.url("good"))
    for terminal in (True, False):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        with locked(data / "sub", ".data.bin.lock"):
            monkeypatch.setattr(store, "_download", lambda *args: put(data / "sub" / "data.bin"))
            waiting = threading.Thread(target=store.fetch, args=(file,))
            waiting.start()
            time.sleep(0.15)
            assert waiting.is_alive()
        waiting.join()
        said = capsys.readouterr().err
        assert said.count("fetching data.bin: waiting for another process") == terminal
        (data / "sub" / "data.bin").unlink()


def test_a_disk_without_locks_is_not_waited_for(data, server, monkeypatch):
    def none(descriptor: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("untwine.locks._try_lock", none)
    refused(public(server.url("good")), data, "cannot be locked: No locks available")


def test_a_lock_that_cannot_be_opened(data, server):
    lock = put(data / "sub" / ".data.bin.lock" / "in the way").parent
    refused(public(server.url("good")), data, f"{lock} cannot be written to: Is a directory")
    lock = put(data / ".a.npy.lock" / "in the way").parent
    with pytest.raises(Unavailable, match=f"counting: {lock} cannot be written to.*UNTWINE_DATA.*{HINT}"):
        derived("a.npy", counting([]), "counting", hint=HINT)

"""Downloads: addresses, mirrors, interruptions, and full disks."""

from __future__ import annotations

import errno
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest
from file_helpers import (
    CONTENT,
    OTHER,
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

from untwine.data.files import download, places, store
from untwine.data.files.public import File
from untwine.errors import Unavailable, UntwineError
from untwine.locks import locked


@pytest.mark.parametrize("checksum", [md5(), sha256(), None])
def test_a_missing_file_is_fetched_once(data, server, hashed, checksum):
    file = public(server.url("good"), checksum=checksum)
    for _ in range(2):
        path = store.fetch(file)
        assert path == data / "sub" / "data.bin" and path.read_bytes() == CONTENT
    assert server.ranges() == [None] and len(hashed) == 1
    assert left(data) == {"data.bin"}


def test_addresses_are_tried_in_order(data, server):
    ways = ["gone", "busy", "wrong", "empty", "good", "plain"]
    assert store.fetch(public(*map(server.url, ways))).read_bytes() == CONTENT
    assert [path.split("/")[1] for path, _ in server.asked] == ways[:-1]


def test_a_mirror_of_ones_own_comes_first(data, server, monkeypatch):
    monkeypatch.setenv("UNTWINE_MIRROR", f"{server.root}/good/base/")
    file = File("sub/data bin", (server.url("plain"),), md5())
    assert store.fetch(file).read_bytes() == CONTENT
    assert [path for path, _ in server.asked] == ["/good/base/sub/data%20bin"]


def test_every_address_is_named_with_what_went_wrong(data, server, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", (1.0, 0.1))
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}/data.bin"
        unknown = "http://untwine.invalid/data.bin"
        ways = ["gone", "busy", "wrong", "empty", "silent", "drops_always"]
        monkeypatch.setenv("UNTWINE_MIRROR", "nowhere")
        message = refused(public(*map(server.url, ways), closed, unknown), data)
    reasons = {
        "nowhere/sub/data.bin": "No scheme",
        server.url("gone"): "HTTP 404 (Not Found)",
        server.url("busy"): "HTTP 503 (Service Unavailable)",
        server.url("wrong"): (
            f"the downloaded file has the checksum {md5(OTHER)}, not {md5()} (400,000 bytes) and was discarded"
        ),
        server.url("empty"): "the answer was empty",
        server.url("silent"): "no answer in time",
        server.url("drops_always"): "the connection broke (after 1",
        closed: "Connection refused",
        unknown: "",  # whatever the system says of names that do not exist
    }
    lines = dict(line.strip().split(": ", 1) for line in message.splitlines() if line.startswith("  "))
    assert list(lines) == list(reasons)
    for url, reason in reasons.items():
        assert reason in lines[url] and "object at" not in lines[url] and "Errno" not in lines[url]


def test_a_wrong_file_from_every_address_is_never_used(data, server):
    refused(public(server.url("wrong"), server.url("page")), data, md5(OTHER))
    assert left(data) == set()


def test_what_a_server_says_does_nothing_to_a_terminal(data, server):
    message = refused(public(server.url("rude"), server.url("far")), data, "HTTP 404 (No?]0;title??[31m)")
    assert all(one.isprintable() for line in message.splitlines() for one in line)


def test_an_empty_answer_leaves_nothing_and_takes_nothing(data, server):
    refused(public(server.url("empty")), data, "the answer was empty")
    assert left(data) == set()
    put(data / "sub" / "data.bin.part", CONTENT[:100_000])
    assert store.fetch(public(server.url("empty"), server.url("good"))).read_bytes() == CONTENT
    assert server.ranges() == [None, "bytes=100000-", "bytes=100000-"]


def test_only_bytes_that_came_are_counted(data, server, monkeypatch):
    put(data / "sub" / "data.bin.part", CONTENT[:100_000])
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}/data.bin"
        assert "bytes)" not in refused(public(closed), data, "Connection refused")
    monkeypatch.setattr(download, "TRIES", 0)
    message = refused(public(server.url("drops")), data)
    came = (data / "sub" / "data.bin.part").stat().st_size - 100_000
    assert f"(after {came:,} bytes)" in message and 0 < came <= 150_000


def test_a_web_page_is_no_file_even_without_a_checksum(data, server):
    refused(
        public(server.url("page"), server.url("empty"), checksum=None), data, "a web page came", "the answer was empty"
    )
    assert not (data / "sub" / "data.bin").exists()


@pytest.mark.parametrize("how", ["packed", "squeezed"])
def test_a_file_is_not_packed_or_unpacked_on_the_way(server, how):
    assert store.fetch(public(server.url(how))).read_bytes() == CONTENT


def test_a_file_nobody_offers_says_where_to_put_it(data):
    refused(public(), data, "no address is known")


@pytest.mark.parametrize(("value", "offline"), [("1", True), ("yes", True), ("TRUE", True), ("0", False), ("", False)])
def test_offline(data, server, monkeypatch, value, offline):
    monkeypatch.setenv("UNTWINE_OFFLINE", value)
    file = public(server.url("good"))
    if offline:
        refused(file, data, "UNTWINE_OFFLINE")
        assert server.asked == []
        put(data / "sub" / "data.bin")
    assert store.fetch(file).read_bytes() == CONTENT


def test_offline_is_yes_or_no(server, monkeypatch):
    monkeypatch.setenv("UNTWINE_OFFLINE", "perhaps")
    with pytest.raises(Unavailable, match="UNTWINE_OFFLINE must be 1 or 0, not 'perhaps'"):
        store.fetch(public(server.url("good")))
    assert server.asked == []


# --- interrupted downloads --------------------------------------------------------------------------


@pytest.mark.parametrize("checksum", [md5(), None])
def test_a_broken_connection_is_taken_up_again(data, server, checksum):
    assert store.fetch(public(server.url("drops"), checksum=checksum)).read_bytes() == CONTENT
    starts = [int(asked[6:-1]) for asked in server.ranges() if asked]
    assert len(server.asked) == len(starts) + 1 and len(starts) >= 2 and starts == sorted(set(starts))
    assert left(data) == {"data.bin"}


def test_a_connection_that_always_breaks_is_given_up(data, server):
    refused(public(server.url("drops_always"), checksum=None), data, "the connection broke")
    assert 2 <= len(server.asked) <= 1 + download.TRIES
    assert (data / "sub" / "data.bin.part").stat().st_size <= 150_000
    assert not (data / "sub" / "data.bin").exists()


@pytest.mark.parametrize("checksum", [md5(), None])
def test_an_interrupted_download_is_resumed_the_next_time(data, server, monkeypatch, checksum):
    file = public(server.url("good"), checksum=checksum)
    came = interrupt(server, monkeypatch, file)
    assert came < len(CONTENT) and left(data) == {"data.bin.part", ".data.bin.part.json"}
    assert places.find(file) is None
    assert store.fetch(file).read_bytes() == CONTENT
    assert server.ranges() == [f"bytes={came}-"] and left(data) == {"data.bin"}


@pytest.mark.parametrize("checksum", [md5(), None])
def test_another_address_goes_on_only_if_a_checksum_will_tell(data, server, monkeypatch, checksum):
    came = interrupt(server, monkeypatch, public(server.url("good"), checksum=checksum))
    assert store.fetch(public(server.url("good", "mirror"), checksum=checksum)).read_bytes() == CONTENT
    assert server.ranges() == [f"bytes={came}-" if checksum else None]


@pytest.mark.parametrize("how", ["plain", "misplaced"])
def test_a_server_that_cannot_resume_starts_over(data, server, monkeypatch, how):
    file = public(server.url(how))
    interrupt(server, monkeypatch, file)
    assert store.fetch(file).read_bytes() == CONTENT and left(data) == {"data.bin"}


@pytest.mark.parametrize("checksum", [md5(OTHER), None])
def test_a_file_that_changed_on_the_server_is_not_patched_together(data, server, monkeypatch, checksum):
    file = public(server.url("good"), checksum=checksum)
    interrupt(server, monkeypatch, file)
    server.content, server.tag = OTHER, '"second"'
    assert store.fetch(file).read_bytes() == OTHER
    assert len(server.asked) == 1  # the server said that it was another


def test_a_beginning_of_something_else_is_discarded_and_the_address_asked_again(data, server):
    put(data / "sub" / "data.bin.part", OTHER[:100_000])
    assert store.fetch(public(server.url("good"))).read_bytes() == CONTENT
    assert server.ranges() == ["bytes=100000-", None]


def test_a_server_may_answer_in_portions(data, server):
    put(data / "sub" / "data.bin.part", CONTENT[:50_000])
    assert store.fetch(public(server.url("portions"))).read_bytes() == CONTENT
    assert server.ranges() == [f"bytes={start}-" for start in range(50_000, 400_000, 100_000)]


@pytest.mark.parametrize("content", [CONTENT, CONTENT + b"more"], ids=["all", "too much"])
def test_a_part_with_nothing_left_to_fetch(data, server, content):
    put(data / "sub" / "data.bin.part", content)
    assert store.fetch(public(server.url("good"))).read_bytes() == CONTENT
    assert len(server.asked) == (1 if content == CONTENT else 2) and left(data) == {"data.bin"}


def test_a_process_that_is_killed_leaves_nothing_that_is_used(data, server):
    """A lock dies with its process, and the next one fetches."""
    file = public(server.url("later"))
    child = started(fetching(file))
    wait_for(lambda: server.asked)
    child.kill()
    child.communicate()
    assert places.find(file) is None
    assert store.fetch(public(server.url("good"))).read_bytes() == CONTENT


# --- the disk ---------------------------------------------------------------------------------------


def test_room_is_looked_for_before_anything_is_written(data, server, monkeypatch):
    real = shutil.disk_usage(data.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real._replace(free=300_000))
    said = ("the disk is full", "400.0 kB are needed", "300.0 kB are free", "UNTWINE_DATA")
    refused(public(server.url("good")), data, *said)
    assert left(data) == set()
    put(data / "sub" / "data.bin.part", CONTENT[:100_000])  # so much is there already
    assert store.fetch(public(server.url("good"))).read_bytes() == CONTENT


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_disk_that_fills_up_stops_the_download(data, server):
    (data / "sub").mkdir(parents=True)
    (data / "sub" / "data.bin.part").symlink_to("/dev/full")
    tried = public(server.url("good"))
    message = refused(tried, data, f"the disk of {data / 'sub'} is full", "Make room")
    assert "data.bin.part" in message and places.find(tried) is None


def test_no_other_address_is_tried_on_a_full_disk(data, server, monkeypatch):
    real = shutil.disk_usage(data.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real._replace(free=1))
    refused(public(server.url("good"), server.url("plain"), size=len(CONTENT)), data, "the disk is full", "Make room")
    assert len(server.asked) == 1


def test_a_server_that_announces_too_much_does_not_keep_others_from_being_asked(data, server):
    for size in (None, len(CONTENT)):
        file = public(server.url("huge"), server.url("endless"), server.url("good"), size=size)
        assert store.fetch(file).read_bytes() == CONTENT
        (data / "sub" / "data.bin").unlink()
    refused(public(server.url("huge"), server.url("gone")), data, "PB are needed", "HTTP 404", "Make room")


def test_only_a_full_disk_is_said_to_want_room(data, server):
    put(data / "sub" / "data.bin.part" / "in the way")
    message = refused(public(server.url("good"), server.url("plain")), data, "Is a directory")
    assert "Make room" not in message and "is full" not in message


def test_a_lock_needs_no_room(data, server, monkeypatch):
    def full(descriptor: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)  # what tells others which process has the lock
    assert store.fetch(public(server.url("good"))).read_bytes() == CONTENT


def test_a_lock_that_another_user_left_behind_is_used(data, server, monkeypatch):
    lock = put(data / "sub" / ".data.bin.lock", b"12345")
    real = os.open

    def theirs(path: Any, flags: int, mode: int = 0o777) -> int:
        if Path(path) == lock and flags & (os.O_RDWR | os.O_WRONLY):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, flags, mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", theirs)
        with locked(lock.parent, lock.name), pytest.raises(UntwineError, match="in use by process 12345"):
            locked(lock.parent, lock.name).__enter__()
        assert store.fetch(public(server.url("good"))).read_bytes() == CONTENT
        patch.setattr(os, "access", lambda *args: False)
        with pytest.raises(UntwineError, match=f"{lock} cannot be written to"), locked(lock.parent, lock.name):
            pass  # a folder that is not ours is not held by us

"""The data folder: what is fetched is whole and right or not there, and messages say what to do."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from untwine import files
from untwine.data.files import download, stamps, store
from untwine.data.files.pictures import broken
from untwine.data.files.public import File
from untwine.errors import Unavailable, UntwineError
from untwine.locks import locked
from untwine.progress import counter

CONTENT = np.arange(100_000, dtype="<u4").tobytes()  # 400 kB, no two parts of which are the same
OTHER = CONTENT[::-1]
HINT = "A drawn one needs no file."


class Server:
    """A web server on this machine. What it answers is told by the first folder of the address."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []  # addresses and the ranges asked for
        self.content = CONTENT
        self.tag = '"first"'
        self.web: Any = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.web.daemon_threads = True
        self.web.handle_error = lambda *args: None  # a reader that went away
        self.go = threading.Event()
        self.root = f"http://127.0.0.1:{self.web.server_port}"
        threading.Thread(target=self.web.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def url(self, how: str, name: str = "data.bin") -> str:
        return f"{self.root}/{how}/{name}"

    def ranges(self) -> list[str | None]:
        return [asked for _, asked in self.asked]

    def _handler(server) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                how = self.path.split("/")[1]
                server.asked.append((self.path, self.headers["Range"]))
                getattr(self, f"answer_{how}", self.answer_gone)()

            def log_message(self, *args: Any) -> None: ...

            def send(self, status: int, content: bytes, upto: int | None = None, **headers: str) -> None:
                self.send_response(status)
                fields = {"Content-Length": str(len(content)), "ETag": server.tag}
                for key, value in (fields | {key.replace("_", "-"): value for key, value in headers.items()}).items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(content[:upto])

            def part(self, upto: int | None = None) -> None:
                """A server that knows ranges."""
                asked, whole = self.headers["Range"], len(server.content)
                start = int(asked[6:-1]) if asked and self.headers["If-Range"] in (None, server.tag) else 0
                if asked and start >= whole:
                    self.send(416, b"", Content_Range=f"bytes */{whole}")
                elif start:
                    self.send(206, server.content[start:], upto, Content_Range=f"bytes {start}-{whole - 1}/{whole}")
                else:
                    self.send(200, server.content, upto)

            def answer_good(self) -> None:
                self.part()

            def answer_drops(self) -> None:
                """Each answer ends after 150 kB, whatever was promised."""
                self.part(upto=150_000)

            def answer_drops_always(self) -> None:
                self.send(200, server.content, upto=150_000)

            def answer_plain(self) -> None:
                """A server that does not know ranges."""
                self.send(200, server.content)

            def answer_misplaced(self) -> None:
                """One that gives another range than was asked for."""
                if self.headers["Range"]:
                    self.send(206, server.content[:50], Content_Range=f"bytes 0-49/{len(server.content)}")
                else:
                    self.send(200, server.content)

            def answer_wrong(self) -> None:
                self.send(200, OTHER)

            def answer_page(self) -> None:
                self.send(200, b"<html>Log in</html>", Content_Type="text/html; charset=utf-8")

            def answer_empty(self) -> None:
                self.send(200, b"")

            def answer_huge(self) -> None:
                self.send(200, server.content, Content_Length=str(10**16))

            def answer_endless(self) -> None:
                self.send(200, b"", Content_Length="9" * 6000)

            def answer_rude(self) -> None:
                """One that sends what a terminal takes for orders."""
                self.send_response(404, "No\x1b]0;title\x07\x1b[31m")
                self.end_headers()

            def answer_far(self) -> None:
                self.send(302, b"", Location="gopher://\x1b[31m/")

            def answer_packed(self) -> None:
                """One that calls a compressed file compressed, so that a browser would unpack it."""
                self.send(200, server.content, Content_Encoding="gzip")

            def answer_squeezed(self) -> None:
                """One that compresses what it sends to whoever can unpack it."""
                able = "gzip" in self.headers["Accept-Encoding"]
                self.send(200, gzip.compress(server.content) if able else server.content)

            def answer_portions(self) -> None:
                """One that gives less than was asked for, and says so."""
                start, whole = int(self.headers["Range"][6:-1]), len(server.content)
                end = min(start + 100_000, whole)
                self.send(206, server.content[start:end], Content_Range=f"bytes {start}-{end - 1}/{whole}")

            def answer_busy(self) -> None:
                self.send(503, b"")

            def answer_gone(self) -> None:
                self.send(404, b"")

            def answer_silent(self) -> None:
                time.sleep(1)

            def answer_later(self) -> None:
                """When the test says so."""
                server.go.wait(30)
                self.send(200, server.content)

        return Handler


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download, "PAUSE", 0.001)
    made = Server()
    yield made
    made.go.set()
    made.web.shutdown()
    made.web.server_close()


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder, and beside it the one for a user's caches."""
    monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda project, appauthor: str(tmp_path / "cache" / project))
    for name in ("UNTWINE_OFFLINE", "UNTWINE_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "data"


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read for their checksums."""
    read: list[Path] = []
    real = stamps.digest
    monkeypatch.setattr(stamps, "digest", lambda path, *how: (read.append(path), real(path, *how))[1])
    return read


def md5(content: bytes = CONTENT) -> str:
    return f"md5:{hashlib.md5(content).hexdigest()}"


def sha256(content: bytes = CONTENT) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def public(*urls: str, checksum: str | None = "", **more: Any) -> File:
    return File("sub/data.bin", urls, md5() if checksum == "" else checksum, **more)


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def refused(file: File, folder: Path, *also: str) -> str:
    """The message of a file that cannot be had, which always says all that is needed to get it otherwise."""
    with pytest.raises(Unavailable) as caught:
        store.fetch(file, HINT)
    message = str(caught.value)
    for said in (file.name, *file.urls, str(folder / "sub"), file.checksum or "no published checksum", *also):
        assert said in message, f"{said!r} is not in:\n{message}"
    assert message.endswith(HINT)
    return message


def left(folder: Path) -> set[str]:
    """What is in a folder, other than locks and stamps."""
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    return {name for name in names if not name.endswith((".lock", ".stamp.json"))}


def read_only(folder: Path) -> Path:
    """Marked so; as the superuser, whom that does not stop, the store still has to keep to it."""
    for path in [*(path for path in folder.rglob("*") if path.is_dir()), folder]:
        path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    return folder


@pytest.fixture(autouse=True)
def may_be_removed(tmp_path: Path) -> Iterator[None]:
    yield
    for path in [tmp_path, *tmp_path.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)


# --- the folders ------------------------------------------------------------------------------------


def test_the_data_folder_is_that_of_the_variable_or_of_the_platform(data, tmp_path, monkeypatch):
    assert store.places() == [data] and store.folder() == store.writable() == data
    monkeypatch.setenv("UNTWINE_DATA", "~/things")
    assert store.folder() == Path.home() / "things"
    for unset in (lambda: monkeypatch.setenv("UNTWINE_DATA", ""), lambda: monkeypatch.delenv("UNTWINE_DATA")):
        unset()
        assert store.places() == [tmp_path / "cache" / "untwine"]


def test_files_of_a_read_only_folder_are_used_in_place_and_the_rest_goes_to_the_users_own(data, tmp_path, server):
    put(data / "sub" / "data.bin")
    read_only(data)
    cache = tmp_path / "cache" / "untwine"
    assert store.places() == [data, cache] and store.folder() == data and store.writable() == cache
    assert store.fetch(public(server.url("good"))) == data / "sub" / "data.bin"
    assert server.asked == []

    second = File("sub/second.bin", (server.url("good"),), md5())
    assert store.fetch(second) == cache / "sub" / "second.bin" == store.find(second)
    made = store.derived("made/a-v1.npy", lambda path: np.save(path, np.arange(3)), "counting")
    assert made == cache / "made" / "a-v1.npy"
    assert {path.name for path in data.rglob("*")} == {"sub", "data.bin"}


def test_what_was_verified_in_a_read_only_folder_is_remembered(data, tmp_path, hashed, monkeypatch):
    put(data / "sub" / "data.bin")
    read_only(data)
    store.fetch(public())
    store.fetch(public())
    assert len(hashed) == 1
    monkeypatch.setattr(stamps, "_seen", {})  # a new process
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
    made = store.derived("a.npy", lambda path: np.save(path, 1), "counting")
    read_only(data)
    assert store.derived("a.npy", lambda path: pytest.fail("made again"), "counting") == made


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
        store.derived("a.npy", lambda path: np.save(path, 1), "counting")
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
        store.derived("a.npy", never, "counting", hint=HINT)
    assert server.asked == [] and store.check_derived() == []


@pytest.mark.parametrize(
    ("name", "why"),
    [("~nobody-of-that-name/data", "home"), ("/tmp/" + "long" * 100, "too long"), ("x/" * 5000, "long")],
)
def test_a_name_that_cannot_be_a_folder(server, monkeypatch, name, why):
    monkeypatch.setenv("UNTWINE_DATA", name)
    for call in (
        store.places,
        store.check_derived,
        lambda: store.fetch(public(server.url("good"))),
        lambda: store.derived("a.npy", never, "counting"),
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
            store.derived("a.npy", never, "counting")
        assert store.check(public()).state == "missing"
        with pytest.raises(Unavailable, match=f"{data} cannot be listed: Permission denied"):
            store.check_derived()


# --- files that are here ----------------------------------------------------------------------------


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
    assert [one.state for one in store.check_derived()] == ([] if stamp in DAMAGED else ["right"])


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
        assert store.fetch(file) == store.find(file) == system
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
    assert store.check(public()).state == "unreadable"


def test_a_file_without_a_published_checksum_is_known_by_the_one_it_arrived_with(data, server):
    file = public(server.url("good"), checksum=None)
    path = store.fetch(file)
    assert json.loads((data / "sub" / ".data.bin.stamp.json").read_text())["checksum"] == sha256()
    assert store.check(file) == store.Check("sub/data.bin", "as on arrival", path, sha256(), sha256())
    put(path, OTHER + b"!")
    with pytest.warns(UserWarning, match=f"changed since it arrived: it was {sha256()}.*{sha256(OTHER + b'!')}"):
        assert store.fetch(file) == path
    found = store.check(file)
    assert (found.state, found.ok, found.expected, found.found) == ("changed", False, sha256(), sha256(OTHER + b"!"))
    (data / "sub" / ".data.bin.stamp.json").unlink()  # as the warning says
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.fetch(file)
    assert store.check(file).ok


def whole(path: Path) -> None:
    """What a loader knows of a file that has no checksum."""
    if path.read_bytes() != CONTENT:
        raise broken(path, "it\x1b[31m is another")


def test_what_arrives_must_fit(data, server):
    server.content = CONTENT[:1000]
    file = public(server.url("wrong"), server.url("good"), checksum=None, fits=whole)
    with pytest.raises(Unavailable) as caught:
        store.fetch(file, HINT)
    lines = [line for line in str(caught.value).splitlines() if line.startswith("  ")]
    said = "what came does not hold what it should: it?[31m is another and was discarded"
    assert lines == [f"  {url}: {said}" for url in file.urls] and left(data) == set()
    assert list(data.rglob("*.stamp.json")) == []
    server.content = CONTENT
    assert store.fetch(file, HINT).read_bytes() == CONTENT


def test_a_beginning_of_something_else_does_not_fit(data, server, monkeypatch):
    interrupt(server, monkeypatch, public(server.url("good"), checksum=None))
    part = data / "sub" / "data.bin.part"
    part.write_bytes(bytes(part.stat().st_size))
    assert store.fetch(public(server.url("good"), checksum=None, fits=whole)).read_bytes() == CONTENT
    assert len(server.asked) == 2


@pytest.mark.parametrize("seen", [False, True])
def test_what_lies_here_must_fit(data, server, monkeypatch, seen):
    path = put(data / "sub" / "data.bin", OTHER)
    file = public(server.url("good"), checksum=None, fits=whole)
    assert store.check(file).state == "wrong" and not (data / "sub" / ".data.bin.stamp.json").exists()
    if seen:
        store.check(public(checksum=None))  # which knows nothing of its content, and remembers it
    message = refused(file, data, f"data.bin in {path.parent} does not hold what it should: it?[31m is another.")
    assert "neither used nor removed" in message and path.read_bytes() == OTHER and server.asked == []
    assert (data / "sub" / ".data.bin.stamp.json").exists() == seen

    system = put(data.parent / "system" / "data.bin")
    with pytest.warns(UserWarning, match=f"{path} does not hold.*not used"):
        assert store.fetch(public(checksum=None, elsewhere=(str(system.parent),), fits=whole)) == system
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


# --- downloads --------------------------------------------------------------------------------------


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
        server.url("wrong"): f"what came has the checksum {md5(OTHER)}, not {md5()} (400,000 bytes) and was discarded",
        server.url("empty"): "nothing came",
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
    refused(public(server.url("empty")), data, "nothing came")
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
    refused(public(server.url("page"), server.url("empty"), checksum=None), data, "a web page came", "nothing came")
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


def interrupt(server: Server, monkeypatch: pytest.MonkeyPatch, file: File) -> int:
    """Stop a download in the middle, as with Ctrl-C. How many bytes were written."""
    came = 0

    def stop(more: int) -> None:
        nonlocal came
        came += more
        if came > 150_000:
            raise KeyboardInterrupt

    class Interrupted:
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

        def __enter__(self) -> Callable[[int], None]:
            return stop

        def __exit__(self, *error: object) -> None: ...

    with monkeypatch.context() as patch:
        patch.setattr(download, "counter", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.fetch(file)
    server.asked.clear()
    return came


@pytest.mark.parametrize("checksum", [md5(), None])
def test_an_interrupted_download_is_resumed_the_next_time(data, server, monkeypatch, checksum):
    file = public(server.url("good"), checksum=checksum)
    came = interrupt(server, monkeypatch, file)
    assert came < len(CONTENT) and left(data) == {"data.bin.part", ".data.bin.part.json"}
    assert store.find(file) is None
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
    assert store.find(file) is None
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
    assert "data.bin.part" in message and store.find(tried) is None


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
    refused(public(server.url("huge"), server.url("gone")), data, "TB are needed", "HTTP 404", "Make room")


def test_only_a_full_disk_is_said_to_want_room(data, server):
    put(data / "sub" / "data.bin.part" / "in the way")
    message = refused(public(server.url("good"), server.url("plain")), data, "Is a directory")
    assert "Make room" not in message and "is full" not in message


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_lock_needs_no_room(data, server):
    (data / "sub").mkdir(parents=True)
    (data / "sub" / ".data.bin.lock").symlink_to("/dev/full")
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


# --- two processes ----------------------------------------------------------------------------------


def fetching(file: File) -> str:
    return f"from untwine.data.files.public import File\nprint(store.fetch({file!r}))"


def started(code: str) -> subprocess.Popen[str]:
    """A process that runs the code, once it has come so far."""
    code = f"from untwine.data import store\nprint('ready', flush=True)\n{code}"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    return child


def wait_for(true: Callable[[], object]) -> None:
    until = time.monotonic() + 30
    while not true():
        assert time.monotonic() < until
        time.sleep(0.005)


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
        store.derived("a.npy", counting([]), "counting", hint=HINT)


# --- bars -------------------------------------------------------------------------------------------


def test_bytes_are_counted_on_a_terminal(capsys, monkeypatch):
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "120"}.items():
        monkeypatch.setenv(name, value)
    with counter("fetching [a].bin", 2_000_000, progress=True, in_bytes=True, done=500_000) as count:
        count(1_000_000)
    said = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", capsys.readouterr().err)
    assert "fetching [a].bin" in said and "1.5/2.0 MB" in said


def test_only_large_files_have_a_bar_when_they_are_read(data, monkeypatch):
    shown: list[bool | None] = []

    def spy(what: str, total: int, progress: bool | None, in_bytes: bool) -> Any:
        shown.append(progress)
        return counter(what, total, False, in_bytes)

    monkeypatch.setattr(stamps, "counter", spy)
    stamps.digest(put(data / "small"))
    monkeypatch.setattr(stamps, "LARGE", 1000)
    stamps.digest(put(data / "large"))
    assert shown == [False, None]


# --- files that are made ----------------------------------------------------------------------------


def counting(times: list[Path], number: int = 5) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        times.append(path)
        path.touch(exist_ok=False)
        np.save(path, np.arange(number))

    return make


def test_a_derived_file_is_made_once_under_its_own_suffix(data, hashed):
    times: list[Path] = []
    for _ in range(3):
        path = store.derived("made/numbers-v1.npy", counting(times), "counting")
        assert path == data / "made" / "numbers-v1.npy" and np.load(path).tolist() == list(range(5))
    assert len(times) == 1 and times[0].suffix == ".npy" and times[0] != path and len(hashed) == 1
    assert left(data) == {"numbers-v1.npy"}
    stamp = json.loads((data / "made" / ".numbers-v1.npy.stamp.json").read_text())
    assert stamp["checksum"] == sha256(path.read_bytes()) and stamp["derived"] is True


@pytest.mark.parametrize("damage", ["shorter", "other", "no stamp", "not derived"])
def test_a_derived_file_that_is_not_as_it_was_made_is_made_again(data, damage):
    times: list[Path] = []
    path = store.derived("numbers.npy", counting(times), "counting")
    stamp = data / ".numbers.npy.stamp.json"
    match damage:
        case "shorter":
            path.write_bytes(path.read_bytes()[:-1])
        case "other":
            path.write_bytes(path.read_bytes()[:-1] + b"!")
            os.utime(path, ns=(0, 0))
        case "no stamp":
            stamp.unlink()
        case _:  # a public file of that name, say
            stamp.write_text(json.dumps(json.loads(stamp.read_text()) | {"derived": False}))
    with pytest.warns(UserWarning, match=f"{path} is not as it was made; counting again"):
        assert store.derived("numbers.npy", counting(times), "counting") == path
    assert len(times) == 2 and np.load(path).tolist() == list(range(5))


def never(path: Path) -> None:
    pytest.fail("made again")


def test_a_derived_file_with_another_time_is_read_rather_than_made(data, tmp_path, hashed, monkeypatch):
    path = store.derived("sub/numbers.npy", counting([]), "counting")
    os.utime(path, ns=(0, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert store.derived("sub/numbers.npy", never, "counting") == path
        assert len(hashed) == 2  # when it was made, and once now
        shutil.copytree(data, tmp_path / "copy", copy_function=shutil.copy)
        monkeypatch.setenv("UNTWINE_DATA", str(tmp_path / "copy"))
        os.utime(tmp_path / "copy" / "sub" / "numbers.npy", ns=(1, 1))
        for _ in range(2):
            assert store.derived("sub/numbers.npy", never, "counting") == tmp_path / "copy" / "sub" / "numbers.npy"
    assert len(hashed) == 3


def test_a_derived_file_with_another_time_in_a_read_only_folder(data, tmp_path, hashed):
    path = store.derived("sub/numbers.npy", counting([]), "counting")
    os.utime(path, ns=(0, 0))
    read_only(data)
    for _ in range(2):
        assert store.derived("sub/numbers.npy", never, "counting") == path
    assert len(hashed) == 2
    shutil.rmtree(tmp_path / "cache")
    put(tmp_path / "cache", b"a file where there should be a folder")
    for _ in range(2):
        assert store.derived("sub/numbers.npy", never, "counting") == path
    assert len(hashed) == 3


def test_a_derived_file_that_cannot_be_read_is_passed_over(data, tmp_path, monkeypatch):
    path = store.derived("sub/numbers.npy", counting([]), "counting")
    read_only(data)
    real = os.access
    monkeypatch.setattr(os, "access", lambda file, how: Path(file) != path and real(file, how))
    with pytest.warns(UserWarning, match=f"{path} cannot be read; counting again"):
        own = store.derived("sub/numbers.npy", counting([]), "counting")
    assert own == tmp_path / "cache" / "untwine" / "sub" / "numbers.npy"
    assert store.derived("sub/numbers.npy", never, "counting") == own


@pytest.mark.parametrize("way", ["numbers.npy", ".numbers.part.npy", ".numbers.npy.lock", ".numbers.npy.stamp.json"])
@pytest.mark.filterwarnings("ignore:.*is not as it was made")
def test_a_folder_in_the_way_of_what_is_made(data, way):
    put(data / way / "in it")
    with pytest.raises(
        Unavailable, match=rf"counting: {data}/.*numbers.*: Is a directory.*UNTWINE_DATA.*{HINT}"
    ) as one:
        store.derived("numbers.npy", counting([]), "counting", hint=HINT)
    assert "Make room" not in str(one.value)
    assert left(data) == {"in it"}


def test_a_file_that_may_not_grow_so_large(data):
    """As with `ulimit -f`, which the system says when it is written to."""
    code = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    store.derived("numbers.npy", lambda path: path.write_bytes(bytes(20_000)), "counting")
except Exception as error:
    print(type(error).__name__, error)
"""
    said = started(code).communicate()[0]
    assert re.match(rf"Unavailable counting: {data}/numbers.npy could not be made: File too large", said)
    assert left(data) == set()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, UntwineError, FileNotFoundError(2, "not there")])
def test_nothing_stays_of_what_could_not_be_made(data, error):
    def make(path: Path) -> None:
        path.write_bytes(b"half")
        raise error

    said = None if isinstance(error, type) else f"counting: {data / 'numbers.npy'} could not be made: not there"
    with pytest.raises(error if isinstance(error, type) else Unavailable, match=said):
        store.derived("numbers.npy", make, "counting")
    assert left(data) == set()
    (data / ".numbers.part.npy").write_bytes(b"of a process that was killed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.load(store.derived("numbers.npy", counting([]), "counting")).tolist() == list(range(5))


def test_what_is_made_needs_room(data, monkeypatch):
    real = shutil.disk_usage(data.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: real._replace(free=1_500_000))
    with pytest.raises(
        Unavailable, match=rf"counting: .*2\.0 GB are needed in {data}.*1\.5 MB are free.*UNTWINE_DATA.*{HINT}"
    ):
        store.derived("numbers.npy", never, "counting", size=2_000_000_000, hint=HINT)
    assert store.derived("numbers.npy", counting([]), "counting", size=1_500_000).is_file()


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), OSError("5 requested and 1 written")]
)
def test_a_disk_that_fills_up_while_something_is_made(data, monkeypatch, error):
    def make(path: Path) -> None:
        path.write_bytes(b"half")
        raise error

    if error.errno is None:  # as NumPy says it
        real = shutil.disk_usage(data.parent)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: real._replace(free=0))
    with pytest.raises(Unavailable, match=f"counting: .*the disk of {data} is full.*UNTWINE_DATA.*{HINT}"):
        store.derived("numbers.npy", make, "counting", hint=HINT)
    assert left(data) == set()


def test_two_processes_make_once(data, tmp_path):
    code = f"""
import os, time
def make(path):
    print("made")
    while not os.path.exists({str(tmp_path / "go")!r}):
        time.sleep(0.005)
    path.write_text("numbers")
print(store.derived("sub/numbers.txt", make, "counting").read_text())
"""
    children = [started(code) for _ in range(2)]
    time.sleep(0.2)
    (tmp_path / "go").touch()
    said = "".join(child.communicate()[0] for child in children).split()
    assert sorted(said) == ["made", "numbers", "numbers"]


# --- checks -----------------------------------------------------------------------------------------


def test_check_reads_the_file_whatever_its_stamp_says(data):
    assert store.check(public()) == store.Check("sub/data.bin", "missing", None, md5()) and not store.check(public()).ok
    path = put(data / "sub" / "data.bin")
    before = path.stat()
    store.fetch(public())
    assert store.check(public()) == store.Check("sub/data.bin", "right", path, md5(), md5())
    put(path, OTHER)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as when a disk decays
    assert store.fetch(public()) == path
    found = store.check(public())
    assert (found.state, found.ok, found.expected, found.found) == ("wrong", False, md5(), md5(OTHER))
    refused(public(), data, md5(OTHER))


def test_check_finds_a_right_copy_behind_a_wrong_one(data, tmp_path):
    put(data / "sub" / "data.bin", OTHER)
    right = put(tmp_path / "system" / "data.bin")
    assert store.check(public(elsewhere=(str(right.parent),))) == store.Check(
        "sub/data.bin", "right", right, md5(), md5()
    )


def test_check_of_what_was_made(data):
    assert store.check_derived() == []
    put(data / "sub" / "data.bin")
    store.fetch(public())
    paths = [store.derived(f"made/{name}.npy", counting([]), "counting") for name in "ab"]
    found = store.check_derived()
    assert [(one.name, one.state, one.path) for one in found] == [
        ("made/a.npy", "right", paths[0]),
        ("made/b.npy", "right", paths[1]),
    ]
    before = paths[0].stat()
    paths[0].write_bytes(paths[0].read_bytes()[:-1] + b"!")
    os.utime(paths[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    expected = sha256(paths[1].read_bytes())
    for _ in range(3):
        found = store.check_derived()
        assert [one.state for one in found] == ["wrong", "right"]
        assert (found[0].expected, found[0].found) == (expected, sha256(paths[0].read_bytes()))
    with pytest.warns(UserWarning, match="not as it was made"):
        store.derived("made/a.npy", counting([]), "counting")
    paths[1].unlink()
    assert [(one.name, one.ok) for one in store.check_derived()] == [("made/a.npy", True)]


@pytest.mark.parametrize("length", [-1, None], ids=["shorter", "as long"])
def test_a_derived_file_that_was_found_wrong_and_then_put_right_is_used(data, length):
    path = store.derived("a.npy", counting([]), "counting")
    right = path.read_bytes()
    path.write_bytes((right[:-1] + b"!")[:length])
    assert [one.state for one in store.check_derived()] == ["wrong"]
    path.write_bytes(right)
    os.utime(path, ns=(0, 5))
    assert store.derived("a.npy", never, "counting") == path
    assert [one.state for one in store.check_derived()] == ["right"]


def test_check_of_what_was_made_beneath_a_folder(data):
    for name in ("one/a", "one/below/b", "one_more/c", "two/d"):
        store.derived(f"{name}.npy", counting([]), "counting")
    for prefix in ("one", "one/"):
        assert [one.name for one in store.check_derived(prefix)] == ["one/a.npy", "one/below/b.npy"]
    assert [one.name for one in store.check_derived("none/")] == []
    assert len(store.check_derived()) == 4


def test_what_was_found_wrong_in_a_read_only_folder_is_not_used(data, tmp_path, monkeypatch):
    """Though the stamp that vouches for it cannot be removed."""
    path = store.derived("sub/a.npy", counting([]), "counting")
    file = put(data / "sub" / "data.bin")
    store.fetch(public())
    for one in (path, file):
        before = one.stat()
        one.write_bytes(one.read_bytes()[:-1] + b"!")
        os.utime(one, ns=(before.st_atime_ns, before.st_mtime_ns))
    read_only(data)
    for _ in range(2):
        assert [one.state for one in store.check_derived()] == ["wrong"] and store.check(public()).state == "wrong"
        monkeypatch.setattr(stamps, "_seen", {})  # a new process
    with pytest.raises(Unavailable), pytest.warns(UserWarning, match=f"{file}.*not used"):
        store.fetch(public("http://127.0.0.1:1/"))
    with pytest.warns(UserWarning, match="not as it was made"):
        own = store.derived("sub/a.npy", counting([]), "counting")
    assert own.is_relative_to(tmp_path / "cache")


def test_a_check_while_a_file_is_made_again_does_no_harm(data, monkeypatch):
    """Between its new stamp and the file itself, or while the old one is read."""
    from untwine.data.files import derived as made

    path = store.derived("a.npy", counting([]), "counting")
    right = path.read_bytes()
    path.write_bytes(b"old")
    states = []

    def checking(new: Path, target: Path) -> None:
        states.extend(one.state for one in store.check_derived())
        files.settle(new, target)

    with monkeypatch.context() as patch:
        patch.setattr(made, "settle", checking)
        with pytest.warns(UserWarning, match="not as it was made"):
            store.derived("a.npy", counting([]), "counting")
    assert states == ["wrong"] and store.derived("a.npy", never, "counting").read_bytes() == right

    real = stamps.digest

    def replaced(file: Path, *how: str) -> str:
        found = real(file, *how)
        os.utime(file, ns=(0, 7))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(stamps, "digest", replaced)
        before = (data / ".a.npy.stamp.json").read_text()
        store.check_derived()
    assert (data / ".a.npy.stamp.json").read_text() == before


@pytest.mark.parametrize("name", [".", " . ", "./"])
def test_the_data_folder_is_absolute_and_not_blank(tmp_path, monkeypatch, name):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNTWINE_DATA", name)
    assert store.folder() == tmp_path
    monkeypatch.setenv("UNTWINE_DATA", "   ")
    assert store.folder() != tmp_path and store.folder().is_absolute()

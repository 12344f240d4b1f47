"""A web server and small helpers for the tests of data files."""

from __future__ import annotations

import gzip
import hashlib
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from untwine.data.files import download, store
from untwine.data.files.public import File
from untwine.errors import Unavailable

CONTENT = np.arange(100_000, dtype="<u4").tobytes()  # 400 kB, no two parts of which are the same
OTHER = CONTENT[::-1]
HINT = "A drawn one needs no file."


class Server:
    """A local web server. The first folder of the address chooses how it answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []  # addresses and the ranges asked for
        self.content = CONTENT
        self.tag = '"first"'
        self.pause = 0.0  # seconds after each 16 kB
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
                size = 16_384 if server.pause else max(1, len(content))
                for start in range(0, len(content[:upto]), size):
                    self.wfile.write(content[:upto][start : start + size])
                    time.sleep(server.pause)

            def part(self, upto: int | None = None) -> None:
                """Answer with the requested range."""
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

            answer_slowly = answer_good

            def answer_drops(self) -> None:
                """Break the connection after 150 kB."""
                self.part(upto=150_000)

            def answer_drops_always(self) -> None:
                self.send(200, server.content, upto=150_000)

            def answer_plain(self) -> None:
                """Ignore the requested range."""
                self.send(200, server.content)

            def answer_misplaced(self) -> None:
                """Answer with another range than the requested one."""
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
                """Send control characters of a terminal."""
                self.send_response(404, "No\x1b]0;title\x07\x1b[31m")
                self.end_headers()

            def answer_far(self) -> None:
                self.send(302, b"", Location="gopher://\x1b[31m/")

            def answer_packed(self) -> None:
                """Declare a compressed file as encoded, so that a browser would unpack it."""
                self.send(200, server.content, Content_Encoding="gzip")

            def answer_squeezed(self) -> None:
                """Compress the answer for clients that accept it."""
                able = "gzip" in self.headers["Accept-Encoding"]
                self.send(200, gzip.compress(server.content) if able else server.content)

            def answer_portions(self) -> None:
                """Answer with a part of the requested range, and say so."""
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
                """Wait until the test sets `go`."""
                server.go.wait(30)
                self.send(200, server.content)

        return Handler


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
    """The message for an unavailable file, which always says how to get it by hand."""
    with pytest.raises(Unavailable) as caught:
        store.fetch(file, HINT)
    message = str(caught.value)
    for said in (file.name, *file.urls, str(folder / "sub"), file.checksum or "no published checksum", *also):
        assert said in message, f"{said!r} is not in:\n{message}"
    assert message.endswith(HINT)
    return message


def left(folder: Path) -> set[str]:
    """The names of the files in a folder, without locks and stamps."""
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    return {name for name in names if not name.endswith((".lock", ".stamp.json"))}


def read_only(folder: Path) -> Path:
    """Remove write permission; the store must respect it even for the superuser, whom the system does not stop."""
    for path in [*(path for path in folder.rglob("*") if path.is_dir()), folder]:
        path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    return folder


def interrupt(server: Server, monkeypatch: pytest.MonkeyPatch, file: File) -> int:
    """Stop a download in the middle, as Ctrl-C does, and return how many bytes came."""
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


def fetching(file: File) -> str:
    return f"from untwine.data.files.public import File\nprint(store.fetch({file!r}))"


def started(code: str) -> subprocess.Popen[str]:
    """Start a process that runs the code, and wait until it has imported the store."""
    imports = "from untwine.data.files import store\nfrom untwine.data.files.derived import derived"
    code = f"{imports}\nprint('ready', flush=True)\n{code}"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    return child


def wait_for(true: Callable[[], object]) -> None:
    until = time.monotonic() + 30
    while not true():
        assert time.monotonic() < until
        time.sleep(0.005)


def counting(times: list[Path], number: int = 5) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        times.append(path)
        path.touch(exist_ok=False)
        np.save(path, np.arange(number))

    return make


def never(path: Path) -> None:
    pytest.fail("made again")

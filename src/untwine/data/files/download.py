"""Download a URL into a file: resumed where it stopped, and never accepted if it is incomplete."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import re
import time
from pathlib import Path
from typing import Any

from untwine._version import __version__
from untwine.data.files.places import MAKE_ROOM, missing_space, write_failure
from untwine.progress import counter

TRIES = 5  # in a row without a new byte, once some bytes came
PAUSE = 1.0  # seconds before the second try; it grows with each
TIMEOUT = (10.0, 60.0)  # seconds to connect, and to wait for a silent server
_CHUNK = 1 << 16
_BYTE_COUNT = "[0-9]{1,18}"


class DownloadFailed(Exception):
    """Why a URL did not give the file, and advice where there is some."""

    def __init__(self, why: object, advice: str = "") -> None:
        super().__init__(printable(why))
        self.advice = advice


class DiskFailed(DownloadFailed):
    """The file cannot be written, so that no other URL would help."""


class _Interrupted(DownloadFailed):
    """The transfer ended early; another attempt may resume it."""


class _CannotResume(Exception):
    """The part that exists is of no use: start again from the first byte."""


def download(url: str, part: Path, size: int | None = None, has_checksum: bool = True) -> bool:
    """Download a URL into a `.part` file, and return whether an existing part was resumed.

    Args:
        url: The address.
        part: The file to write; if it exists, the download resumes at its end.
        size: The expected length in bytes, for servers that do not state it.
        has_checksum: Whether the caller compares the file with a checksum. If not, an existing part is resumed only
            where the server confirms that it belongs to the same file.
    """
    initial = furthest = length(part)
    idle = 0
    while True:
        try:
            with contextlib.suppress(_CannotResume):
                return _request(url, part, size, has_checksum) and initial > 0
            discard(part)
            initial = 0
        except _Interrupted:
            now = length(part)
            idle = 1 if now > furthest else idle + 1
            if (now <= furthest and idle == 1) or idle > TRIES:
                raise
            furthest = max(furthest, now)
            time.sleep(PAUSE * (idle - 1))


def printable(text: object) -> str:
    """A text from outside, such as a server's, without characters that control a terminal.

    >>> printable("Not\\x1b[31m Found\\n")
    'Not?[31m Found?'
    """
    return "".join(character if character.isprintable() else "?" for character in str(text)[:1000])


def length(part: Path) -> int:
    """The number of bytes downloaded so far."""
    return part.stat().st_size if os.path.exists(part) else 0


def discard(part: Path) -> None:
    """Remove a `.part` file and the note about its origin."""
    part.unlink(missing_ok=True)
    discard_note(part)


def discard_note(part: Path) -> None:
    """Remove the note about the origin of a `.part` file, which is complete."""
    _note(part).unlink(missing_ok=True)


def _request(url: str, part: Path, size: int | None, has_checksum: bool) -> bool:
    """Send one request. True if the part was resumed, False if the file came from its first byte on."""
    import requests
    import urllib3

    start = length(part)
    # "identity": a compressed file must arrive as it is, not unpacked on the way.
    headers = {"Accept-Encoding": "identity", "User-Agent": f"untwine/{__version__}"}
    if start:
        tag = _saved_tag(part, url)
        if tag:
            headers["If-Range"] = tag
        elif not has_checksum:
            raise _CannotResume
        headers["Range"] = f"bytes={start}-"
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
            if response.status_code == 416 and start:
                if response.headers.get("Content-Range") == f"bytes */{start}":
                    return True  # the part was the complete file
                raise _CannotResume
            start, total = _extent(response, start)
            if not has_checksum and response.headers.get("Content-Type", "").startswith("text/html"):
                raise DownloadFailed("a web page came instead of the file")
            _save(response, url, part, start, total, size)
    except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:  # ValueError: bad redirect
        raise _Interrupted(_reason(error)) from None
    return start > 0


def _extent(response: Any, requested: int) -> tuple[int, int | None]:
    """The position of a response's first byte, and the length of the file where the server states it."""
    status, headers = response.status_code, response.headers
    if status == 200:
        stated = headers.get("Content-Length", "")
        return 0, int(stated) if re.fullmatch(_BYTE_COUNT, stated) else None
    if status == 206 and requested:
        range_ = re.fullmatch(rf"bytes ({_BYTE_COUNT})-\d+/({_BYTE_COUNT}|\*)", headers.get("Content-Range", ""))
        if range_ is None or int(range_[1]) != requested:
            raise _CannotResume
        return requested, None if range_[2] == "*" else int(range_[2])
    kind = _Interrupted if status == 429 or status >= 500 else DownloadFailed
    raise kind(f"HTTP {status} ({response.reason})" if response.reason else f"HTTP {status}")


def _save(response: Any, url: str, part: Path, start: int, total: int | None, size: int | None) -> None:
    """Append a response to the part, or replace the part once the first bytes come."""
    import urllib3

    for needed, failure in ((size, DiskFailed), (total, DownloadFailed)):  # another server may state another length
        lacking = missing_space(part.parent, (needed or 0) - length(part))
        if lacking:
            raise failure(f"the disk is full: {lacking}", MAKE_ROOM)
    received = 0
    name = part.name.removesuffix(".part")
    chunks = response.raw.stream(_CHUNK, decode_content=False)
    try:
        first = next(chunks, b"")
        if not first and not start:
            raise DownloadFailed("the answer was empty")
        with part.open("ab" if start else "wb") as file:
            _note(part).write_text(json.dumps({"url": url, "tag": _tag(response.headers)}))
            with counter(f"fetching {name}", total or size, in_bytes=True, done=start) as count:
                for chunk in itertools.chain([first], chunks):
                    file.write(chunk)
                    received += len(chunk)
                    count(len(chunk))
    except urllib3.exceptions.HTTPError as error:
        raise _Interrupted(_reason(error) + (f" (after {received:,} bytes)" if received else "")) from None
    except OSError as error:
        why, advice = write_failure(error, part.parent)
        raise DiskFailed(f"{part} could not be written: {why}", advice) from None
    if total is not None and length(part) != total:
        raise _Interrupted(f"it ended after {length(part):,} of {total:,} bytes")


def _tag(headers: Any) -> str:
    """What identifies the file's version on the server; a weak ETag does not promise equal bytes."""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else headers.get("Last-Modified", "")


def _saved_tag(part: Path, url: str) -> str:
    """The tag that came with an existing part, if the part came from this URL."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        note = json.loads(_note(part).read_text())
        tag = str(note["tag"])
        return tag if note["url"] == url and tag.isascii() and tag.isprintable() else ""
    return ""


def _note(part: Path) -> Path:
    return part.with_name(f".{part.name}.json")


def _reason(error: BaseException) -> str:
    """The message of the innermost error: what the network said."""
    while True:
        inner = (error.__cause__, getattr(error, "reason", None), *reversed(error.args))
        cause = next((candidate for candidate in inner if isinstance(candidate, BaseException)), None)
        if cause is None:
            break
        error = cause
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection broke"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)

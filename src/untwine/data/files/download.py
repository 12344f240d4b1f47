"""One URL into one file: gone on with where it stopped, and never taken for whole when it is not."""

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
from untwine.data.files.places import ROOM, lacking, unwritten
from untwine.progress import counter

TRIES = 5  # in a row that bring nothing new, once something came
PAUSE = 1.0  # seconds before the second of them, growing
TIMEOUT = (10.0, 60.0)  # seconds for a connection, and for a server that stays silent
_CHUNK = 1 << 16
_NUMBER = "[0-9]{1,18}"  # of bytes


class Failed(Exception):
    """Why a URL did not give the file, and what would help where that is known."""

    def __init__(self, why: object, advice: str = "") -> None:
        super().__init__(printable(why))
        self.advice = advice


class Stopped(Failed):
    """Why no URL would: what comes cannot be written."""


class _Broken(Failed):
    """Why it came to an end before its time; another attempt may go on."""


class _Unfit(Exception):
    """What is there already is of no use to go on with."""


def download(url: str, part: Path, size: int | None = None, checked: bool = True) -> bool:
    """Fetch a URL into a `.part` file, and say whether something that was there before is now its beginning.

    `size` is what is expected where the server does not say. Where the outcome will be `checked` against a checksum,
    any beginning is gone on with; else one that the server itself says is of the same file.
    """
    begun = furthest = length(part)
    idle = 0
    while True:
        try:
            with contextlib.suppress(_Unfit):
                return _ask(url, part, size, checked) and begun > 0
            discard(part)
            begun = 0
        except _Broken:
            now = length(part)
            idle = 1 if now > furthest else idle + 1
            if (now <= furthest and idle == 1) or idle > TRIES:
                raise
            furthest = max(furthest, now)
            time.sleep(PAUSE * (idle - 1))


def printable(said: object) -> str:
    """What somebody else said, such as a server, so that it does nothing to a terminal.

    >>> printable("Not\\x1b[31m Found\\n")
    'Not?[31m Found?'
    """
    return "".join(one if one.isprintable() else "?" for one in str(said)[:1000])


def length(part: Path) -> int:
    """How many bytes have come so far."""
    return part.stat().st_size if os.path.exists(part) else 0


def discard(part: Path) -> None:
    """Remove what came, and the note of where it came from."""
    part.unlink(missing_ok=True)
    _note(part).unlink(missing_ok=True)


def _ask(url: str, part: Path, size: int | None, checked: bool) -> bool:
    """One request. True if the file was gone on with, False if it came from its first byte on."""
    import requests
    import urllib3

    start = length(part)
    # Compressed files shall come as they are, not unpacked on the way.
    headers = {"Accept-Encoding": "identity", "User-Agent": f"untwine/{__version__}"}
    if start:
        tag = _tag(part, url)
        if tag:
            headers["If-Range"] = tag
        elif not checked:
            raise _Unfit
        headers["Range"] = f"bytes={start}-"
    try:
        with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as answer:
            if answer.status_code == 416 and start:
                if answer.headers.get("Content-Range") == f"bytes */{start}":
                    return True  # all of it was there
                raise _Unfit
            start, total = _extent(answer, start)
            if not checked and answer.headers.get("Content-Type", "").startswith("text/html"):
                raise Failed("a web page came instead of the file")
            _save(answer, url, part, start, total, size)
    except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:  # that: a bad redirection
        raise _Broken(_reason(error)) from None
    return start > 0


def _extent(answer: Any, asked: int) -> tuple[int, int | None]:
    """The first byte of an answer, and how many the whole file has, where the server says so."""
    status, headers = answer.status_code, answer.headers
    if status == 200:
        given = headers.get("Content-Length", "")
        return 0, int(given) if re.fullmatch(_NUMBER, given) else None
    if status == 206 and asked:
        found = re.fullmatch(rf"bytes ({_NUMBER})-\d+/({_NUMBER}|\*)", headers.get("Content-Range", ""))
        if found is None or int(found[1]) != asked:
            raise _Unfit
        return asked, None if found[2] == "*" else int(found[2])
    kind = _Broken if status == 429 or status >= 500 else Failed
    raise kind(f"HTTP {status} ({answer.reason})" if answer.reason else f"HTTP {status}")


def _save(answer: Any, url: str, part: Path, start: int, total: int | None, size: int | None) -> None:
    """Write an answer behind what is there, or instead of it once something comes."""
    import urllib3

    for needed, failed in ((size, Stopped), (total, Failed)):  # what one server says does not bind another
        short = lacking(part.parent, (needed or 0) - length(part))
        if short:
            raise failed(f"the disk is full: {short}", ROOM)
    came = 0
    name = part.name.removesuffix(".part")
    chunks = answer.raw.stream(_CHUNK, decode_content=False)
    try:
        first = next(chunks, b"")
        if not first and not start:
            raise Failed("nothing came")
        with part.open("ab" if start else "wb") as file:
            _note(part).write_text(json.dumps({"url": url, "tag": _validator(answer.headers)}))
            with counter(f"fetching {name}", total or size, in_bytes=True, done=start) as count:
                for chunk in itertools.chain([first], chunks):
                    file.write(chunk)
                    came += len(chunk)
                    count(len(chunk))
    except urllib3.exceptions.HTTPError as error:
        raise _Broken(_reason(error) + (f" (after {came:,} bytes)" if came else "")) from None
    except OSError as error:
        why, advice = unwritten(error, part.parent)
        raise Stopped(f"{part} could not be written: {why}", advice) from None
    if total is not None and length(part) != total:
        raise _Broken(f"it ended after {length(part):,} of {total:,} bytes")


def _validator(headers: Any) -> str:
    """By what a server knows the same file again; a weak tag does not say that each byte is the same."""
    tag = headers.get("ETag", "")
    return tag if tag.startswith('"') else headers.get("Last-Modified", "")


def _tag(part: Path, url: str) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        known = json.loads(_note(part).read_text())
        tag = str(known["tag"])
        return tag if known["url"] == url and tag.isascii() and tag.isprintable() else ""
    return ""


def _note(part: Path) -> Path:
    return part.with_name(f".{part.name}.json")


def _reason(error: BaseException) -> str:
    """What the network said first, below what was made of it on the way up."""
    while True:
        inner = (error.__cause__, getattr(error, "reason", None), *reversed(error.args))
        below = next((one for one in inner if isinstance(one, BaseException)), None)
        if below is None:
            break
        error = below
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, http.client.IncompleteRead):
        return "the connection broke"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)

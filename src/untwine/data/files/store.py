"""The data folder: public files that are fetched once and verified, and files that are made from them or drawn.

`UNTWINE_DATA` names the folder. `UNTWINE_OFFLINE=1` keeps off the network. `UNTWINE_MIRROR=https://host/base` is asked
before the public addresses, for `https://host/base/mnist/train-images-idx3-ubyte.gz` and so on.
"""

from __future__ import annotations

import contextlib
import os
import urllib.parse
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from untwine.data.files.derived import derived
from untwine.data.files.download import Failed, Stopped, discard, download
from untwine.data.files.places import can_write, copies, held, places, unwritten, writable
from untwine.data.files.public import File
from untwine.data.files.stamps import Stamp, algorithm, read_stamp, stamp_of, stamped, write_stamp
from untwine.data.files.verify import Check, check, check_derived, unlike
from untwine.errors import Unavailable
from untwine.files import settle

__all__ = ["Check", "check", "check_derived", "derived", "fetch", "find", "folder", "places", "writable"]


def folder() -> Path:
    """The data folder: `UNTWINE_DATA`, else that of the platform for a user's caches."""
    return places()[0]


def find(file: File) -> Path | None:
    """Where a file lies, verified or not; None if it is not here."""
    return next(iter(copies(file)), None)


def fetch(file: File, hint: str = "") -> Path:
    """A verified file, downloaded if it is not here. `hint` ends the message where it cannot be had.

    A file is read once for its checksum, and again when its size or time have changed. One that is wrong is not
    used; one that somebody put there is not removed either. What the file itself says of its content (`file.fits`) is
    asked each time, and of what arrived before that is taken for the file.
    """
    target = writable() / file.path
    wrong: dict[Path, str] = {}
    for path in copies(file):
        why = _wrong(path, file)
        if why is None:
            _warn(wrong)
            return path
        wrong[path] = why
    if os.path.lexists(target) and target not in wrong:
        wrong[target] = "is not a file"
    if target in wrong:
        raise _in_the_way(file, target, wrong[target], hint)
    urls = _urls(file)

    def refused(why: str) -> Unavailable:
        return _missing(file, f"is not here, and {why}", urls, hint, wrong)

    if not urls:
        raise refused("no address is known to fetch it from.")
    if _offline():
        raise refused("UNTWINE_OFFLINE keeps it from being fetched from")
    if not can_write(target.parent):
        raise refused(f"{target.parent} cannot be written to, so it was not fetched from")
    _warn(wrong)
    with held(target, f"fetching {file.name}", lambda why: refused(f"{why}. It was not fetched from")):
        if not os.path.isfile(target):
            _download(file, urls, target, hint)
        elif (why := _wrong(target, file)) is not None:  # what another process fetched meanwhile
            raise _in_the_way(file, target, why, hint)
    return target


def _wrong(path: Path, file: File) -> str | None:
    """Why a file is not the one that it should be; None where it is."""
    known = read_stamp(path)
    seen = known if known and known.fits(path) and file.checksum in (None, known.checksum) else None
    try:
        now = seen or stamped(path, algorithm(file.checksum or (known and known.checksum)))
        why = unlike(path, now, file)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    if why is not None or seen is not None:
        return why
    if file.checksum is None and known is not None and known.checksum != now.checksum:
        # Nobody says what is right, so it is used, but what arrived stays on record.
        changed = f"{path} changed since it arrived: it was {known.checksum}, and is {now.checksum}"
        warnings.warn(f"{changed}; delete {stamp_of(path)} if that is as it should be", stacklevel=4)
    else:
        write_stamp(path, now)
    return None


def _download(file: File, urls: tuple[str, ...], target: Path, hint: str) -> None:
    """Fetch a file from the first address that gives it whole and right."""
    part = target.with_name(f"{target.name}.part")
    tried: dict[str, Failed | None] = dict.fromkeys(urls)
    for url in tried:
        try:
            stamp = _arrived(url, file, part)
            settle(part, target)
            write_stamp(target, stamp)
            with contextlib.suppress(OSError):
                discard(part)
            return
        except Failed as error:
            tried[url] = error
        except OSError as error:
            why, advice = unwritten(error, target.parent)
            tried[url] = Stopped(f"it could not be written: {why}", advice)
        if isinstance(tried[url], Stopped):
            break
    addresses = [url if why is None else f"{url}: {why}" for url, why in tried.items()]
    advice = dict.fromkeys(why.advice for why in tried.values() if why is not None and why.advice)
    raise _missing(file, "is not here, and could not be fetched:", addresses, " ".join([*advice, hint]))


def _arrived(url: str, file: File, part: Path) -> Stamp:
    """Download a file and see whether it is right. What is wrong is discarded."""
    while True:
        continued = download(url, part, file.size, checked=file.checksum is not None)
        stamp = stamped(part, algorithm(file.checksum))
        why = unlike(part, stamp, file)
        if why is None:
            return stamp
        discard(part)
        if not continued:  # else its beginning may have been of something else
            raise Failed(f"what came {why} and was discarded")


def _urls(file: File) -> tuple[str, ...]:
    mirror = os.environ.get("UNTWINE_MIRROR", "").strip().rstrip("/")
    return (f"{mirror}/{urllib.parse.quote(file.path)}", *file.urls) if mirror else file.urls


def _offline() -> bool:
    value = os.environ.get("UNTWINE_OFFLINE", "").strip().lower()
    if value not in ("", "0", "false", "no", "off", "1", "true", "yes", "on"):
        raise Unavailable(f"UNTWINE_OFFLINE must be 1 or 0, not {value!r}")
    return value in ("1", "true", "yes", "on")


def _warn(wrong: Mapping[Path, str]) -> None:
    for path, why in wrong.items():
        warnings.warn(f"{path} {why}; it is not used", stacklevel=3)


def _missing(
    file: File, why: str, addresses: Iterable[str], hint: str, wrong: Mapping[Path, str] | None = None
) -> Unavailable:
    lines = [f"{file.name} {why}", *(f"  {address}" for address in addresses)]
    lines += [f"{path} {reason}; it is not used." for path, reason in (wrong or {}).items()]
    checksum = f"its checksum is {file.checksum}" if file.checksum else "it has no published checksum"
    there = (writable() / file.path).parent
    if can_write(there):
        lines += [f"To get it by hand, put it into {there} as {file.name}; {checksum}."]
    else:
        lines += [f"Set UNTWINE_DATA to a folder that can be written to, which {there} is not."]
        lines += [f"To get it by hand, put it into that folder as {file.path}; {checksum}."]
    return Unavailable("\n".join([*lines, hint.strip()]).strip())


def _in_the_way(file: File, target: Path, why: str, hint: str) -> Unavailable:
    todo = "It is neither used nor removed.\nDelete it or move it away; then it is fetched from"
    return _missing(file, f"in {target.parent} {why}. {todo}", _urls(file), hint)

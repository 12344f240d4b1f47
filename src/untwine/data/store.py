"""The data folder: public files that are fetched once and verified, and files that are made from them or drawn.

`UNTWINE_DATA` names the folder. `UNTWINE_OFFLINE=1` keeps off the network. `UNTWINE_MIRROR=https://host/base` is asked
before the public addresses, for `https://host/base/mnist/train-images-idx3-ubyte.gz` and so on.
"""

from __future__ import annotations

import contextlib
import os
import urllib.parse
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from untwine.data.download import Failed, Stopped, discard, download
from untwine.data.places import (
    Stamp,
    algorithm,
    can_write,
    copies,
    held,
    is_full,
    lacking,
    places,
    read_stamp,
    settle,
    stamp_of,
    stamped,
    write_stamp,
)
from untwine.data.public import File
from untwine.data.verify import Check, check, check_derived
from untwine.errors import Unavailable, UntwineError

__all__ = ["Check", "check", "check_derived", "derived", "fetch", "find", "folder", "places", "writable"]

_ROOM = "Make room, or set UNTWINE_DATA to a folder on another disk."
_YOURS = "Set UNTWINE_DATA to a folder that can be written to."


def folder() -> Path:
    """The data folder: `UNTWINE_DATA`, else that of the platform for a user's caches."""
    return places()[0]


def writable() -> Path:
    """The folder that is written to: the data folder, or the one for a user's caches where that is read only."""
    return places()[-1]


def find(file: File) -> Path | None:
    """Where a file lies, verified or not; None if it is not here."""
    return next(iter(copies(file)), None)


# --- public files -----------------------------------------------------------------------------------------


def fetch(file: File, hint: str = "") -> Path:
    """A verified file, downloaded if it is not here. `hint` ends the message where it cannot be had.

    A file is read once for its checksum, and again when its size or time have changed. One that is wrong is not
    used; one that somebody put there is not removed either.
    """
    target = writable() / file.path
    wrong: dict[Path, str] = {}
    for path in copies(file):
        why = _wrong(path, file)
        if why is None:
            _warn(wrong)
            return path
        wrong[path] = why
    if target in wrong:
        raise _in_the_way(file, target, wrong[target], hint)
    urls = _urls(file)
    if not urls:
        raise _missing(file, "is not here, and no address is known to fetch it from.", (), hint, wrong)
    if _offline():
        raise _missing(file, "is not here, and UNTWINE_OFFLINE keeps it from being fetched from", urls, hint, wrong)
    if not can_write(target.parent):
        why = f"is not here, and {target.parent} cannot be written to, so it was not fetched from"
        raise _missing(file, why, urls, f"{_YOURS} {hint}", wrong)
    _warn(wrong)
    with held(target, f"fetching {file.name}"):
        if not os.path.isfile(target):
            _download(file, urls, target, hint)
        elif (why := _wrong(target, file)) is not None:  # what another process fetched meanwhile
            raise _in_the_way(file, target, why, hint)
    return target


def _wrong(path: Path, file: File) -> str | None:
    """Why a file is not the one that it should be; None where it is."""
    known = read_stamp(path)
    if known is not None and known.fits(path) and file.checksum in (None, known.checksum):
        return None
    try:
        now = stamped(path, algorithm(file.checksum or (known and known.checksum)))
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    if file.checksum not in (None, now.checksum):
        sizes = "" if file.size in (None, now.size) else f" ({now.size:,} bytes instead of {file.size:,})"
        return f"has the checksum {now.checksum}, not {file.checksum}{sizes}"
    if file.checksum is None and known is not None and known.checksum != now.checksum:
        # Nobody says what is right, so it is used, but what arrived stays on record.
        changed = f"{path} changed since it arrived: it was {known.checksum}, and is {now.checksum}"
        warnings.warn(f"{changed}; delete {stamp_of(path)} if that is as it should be", stacklevel=4)
    else:
        write_stamp(path, now)
    return None


def _download(file: File, urls: Iterable[str], target: Path, hint: str) -> None:
    """Fetch a file from the first address that gives it whole and right."""
    part = target.with_name(f"{target.name}.part")
    tried: list[str] = []
    for url in urls:
        try:
            stamp = _arrived(url, file, part)
            write_stamp(target, stamp)
            settle(part, target)
            discard(part)
            return
        except (Stopped, OSError) as error:
            tried.append(f"{url}: {error}")
            raise _missing(file, "could not be fetched:", tried, f"{_ROOM} {hint}") from None
        except Failed as why:
            tried.append(f"{url}: {why}")
    raise _missing(file, "is not here, and could not be fetched:", tried, hint)


def _arrived(url: str, file: File, part: Path) -> Stamp:
    """Download a file and compare its checksum. What is wrong is discarded."""
    while True:
        continued = download(url, part, file.size, checked=file.checksum is not None)
        stamp = stamped(part, algorithm(file.checksum))
        if file.checksum in (None, stamp.checksum):
            return stamp
        discard(part)
        if not continued:  # else its beginning may have been of something else
            raise Failed(f"what came has the checksum {stamp.checksum} ({stamp.size:,} bytes) and was discarded")


def _urls(file: File) -> tuple[str, ...]:
    mirror = os.environ.get("UNTWINE_MIRROR", "").strip().rstrip("/")
    return (f"{mirror}/{urllib.parse.quote(file.path)}", *file.urls) if mirror else file.urls


def _offline() -> bool:
    value = os.environ.get("UNTWINE_OFFLINE", "").strip().lower()
    if value not in ("", "0", "false", "no", "off", "1", "true", "yes", "on"):
        raise UntwineError(f"UNTWINE_OFFLINE must be 1 or 0, not {value!r}")
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
    lines += [f"To get it by hand, put it into {(writable() / file.path).parent} as {file.name}; {checksum}."]
    return Unavailable("\n".join([*lines, hint.strip()]).strip())


def _in_the_way(file: File, target: Path, why: str, hint: str) -> Unavailable:
    todo = "It is neither used nor removed.\nDelete it or move it away; then it is fetched from"
    return _missing(file, f"in {target.parent} {why}. {todo}", _urls(file), hint)


# --- files that are made ----------------------------------------------------------------------------------


def derived(path: str, make: Callable[[Path], None], what: str, size: int | None = None) -> Path:
    """A file beneath the data folder that is made once: `make` writes it to the path it is given.

    `path` ends in a version where the way of making it may change; `what` says what is done ("drawing dSprites");
    `size` is how many bytes it will take, so that a full disk is noticed before. A file that has changed since it was
    made is made again.
    """
    made = _made(path)
    if made is not None:
        return made
    target = writable() / path
    if not can_write(target.parent):
        raise Unavailable(f"{what}: {target.parent} cannot be written to. {_YOURS}")
    with held(target, what):
        made = _made(path)
        if made is not None:  # by another process, meanwhile
            return made
        for old in (place / path for place in places()):
            if old.exists():
                warnings.warn(f"{old} is not as it was made; {what} again", stacklevel=2)
        short = lacking(target.parent, size or 0)
        if short:
            raise Unavailable(f"{what}: the disk is full: {short}. {_ROOM}")
        new = target.with_name(f".{target.stem}.part{target.suffix}")  # NumPy adds a suffix that is not there
        try:
            new.unlink(missing_ok=True)
            make(new)
            write_stamp(target, stamped(new, derived=True))
            settle(new, target)
        except OSError as error:
            if not is_full(error, target.parent):
                raise
            raise Unavailable(f"{what}: the disk of {target.parent} is full ({error}). {_ROOM}") from None
        finally:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
    return target


def _made(path: str) -> Path | None:
    for place in places():
        known = read_stamp(place / path)
        if known is not None and known.derived and known.fits(place / path):
            return place / path
    return None

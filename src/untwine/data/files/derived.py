"""Derived files: files in the data folder that are made on this machine, once, by drawing or from public files."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path

from untwine.data.files.places import (
    MAKE_ROOM,
    SET_WRITABLE,
    can_write,
    exclusive,
    missing_space,
    places,
    writable,
    write_failure,
)
from untwine.data.files.stamps import Stamp, algorithm, read_stamp, stamp_now, write_stamp
from untwine.errors import Unavailable
from untwine.files import settle


def derived(path: str, make: Callable[[Path], None], doing: str, size: int | None = None, hint: str = "") -> Path:
    """A file beneath the data folder that is made on first use. If it has changed since, it is made again.

    Args:
        path: Its path beneath the data folder. It ends in a version where the way of making it may change.
        make: Writes the file to the path that it gets.
        doing: What messages call the work ("drawing dSprites").
        size: Its length in bytes, so that a full disk is noticed in advance.
        hint: Ends the error message where the file cannot be made.
    """
    existing = _find(path)
    if existing is not None:
        return existing
    target = writable() / path

    def refused(why: str, advice: str = SET_WRITABLE) -> Unavailable:
        return Unavailable(f"{doing}: {why}. {advice} {hint}".strip())

    if not can_write(target.parent):
        raise refused(f"{target.parent} cannot be written to")
    with exclusive(target, doing, refused):
        existing = _find(path)
        if existing is not None:  # another process has just made it
            return existing
        for old in (place / path for place in places()):
            if os.path.exists(old):
                why = "is not as it was made" if os.access(old, os.R_OK) else "cannot be read"
                warnings.warn(f"{old} {why}; {doing} again", stacklevel=2)
        lacking = missing_space(target.parent, size or 0)
        if lacking:
            raise refused(f"the disk is full: {lacking}", MAKE_ROOM)
        part = target.with_name(f".{target.stem}.part{target.suffix}")  # NumPy adds a suffix that is not there
        try:
            part.unlink(missing_ok=True)
            make(part)
            # The stamp comes first, as no file may be without one. In between, a reader sees that they do not match.
            write_stamp(target, stamp_now(part, derived=True))
            settle(part, target)
        except OSError as error:
            why, advice = write_failure(error, target.parent)
            raise refused(f"{target} could not be made: {why}", advice) from error
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
    return target


def _find(path: str) -> Path | None:
    """The first readable copy of a derived file that is as it was made."""
    for file in (place / path for place in places()):
        stamp = read_stamp(file, invalid=True)
        if stamp is not None and stamp.derived and os.access(file, os.R_OK) and _unchanged(file, stamp):
            return file
    return None


def _unchanged(file: Path, stamp: Stamp) -> bool:
    """Whether a file is as it was made. If only its time differs, as that of a copy does, its content decides."""
    if stamp.matches(file):
        return stamp.valid
    try:
        if stamp.valid and stamp.size != file.stat().st_size:
            return False
        now = stamp_now(file, algorithm(stamp.checksum), derived=True)
    except OSError:
        return False
    if now.checksum != stamp.checksum:
        return False
    with contextlib.suppress(OSError):
        write_stamp(file, now)
    return True

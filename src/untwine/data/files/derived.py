"""Files in the data folder that are made there, once: drawn, or put together from public ones."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path

from untwine.data.files.places import ROOM, YOURS, can_write, held, lacking, places, unwritten, writable
from untwine.data.files.stamps import Stamp, algorithm, read_stamp, stamped, write_stamp
from untwine.errors import Unavailable
from untwine.files import settle


def derived(path: str, make: Callable[[Path], None], what: str, size: int | None = None, hint: str = "") -> Path:
    """A file beneath the data folder that is made once: `make` writes it to the path it is given.

    `path` ends in a version where the way of making it may change; `what` says what is done ("drawing dSprites");
    `size` is how many bytes it will take, so that a full disk is noticed before. A file that has changed since it was
    made is made again. `hint` ends the message where that cannot be.
    """
    made = _made(path)
    if made is not None:
        return made
    target = writable() / path

    def refused(why: str, advice: str = YOURS) -> Unavailable:
        return Unavailable(f"{what}: {why}. {advice} {hint}".strip())

    if not can_write(target.parent):
        raise refused(f"{target.parent} cannot be written to")
    with held(target, what, refused):
        made = _made(path)
        if made is not None:  # by another process, meanwhile
            return made
        for old in (place / path for place in places()):
            if os.path.exists(old):
                why = "is not as it was made" if os.access(old, os.R_OK) else "cannot be read"
                warnings.warn(f"{old} {why}; {what} again", stacklevel=2)
        short = lacking(target.parent, size or 0)
        if short:
            raise refused(f"the disk is full: {short}", ROOM)
        new = target.with_name(f".{target.stem}.part{target.suffix}")  # NumPy adds a suffix that is not there
        try:
            new.unlink(missing_ok=True)
            make(new)
            # In this order, as no file may be without one. Whoever looks at both in between sees that they do not fit.
            write_stamp(target, stamped(new, derived=True))
            settle(new, target)
        except OSError as error:
            why, advice = unwritten(error, target.parent)
            raise refused(f"{target} could not be made: {why}", advice) from error
        finally:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
    return target


def _made(path: str) -> Path | None:
    for file in (place / path for place in places()):
        known = read_stamp(file, doubted=True)
        if known is not None and known.derived and os.access(file, os.R_OK) and _same(file, known):
            return file
    return None


def _same(file: Path, known: Stamp) -> bool:
    """Whether a file is as it was made. One with another time, as a copy has, is read to see."""
    if known.fits(file):
        return known.valid
    try:
        if known.valid and known.size != file.stat().st_size:
            return False
        now = stamped(file, algorithm(known.checksum), derived=True)
    except OSError:
        return False
    if now.checksum != known.checksum:
        return False
    with contextlib.suppress(OSError):
        write_stamp(file, now)
    return True

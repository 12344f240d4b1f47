"""Where data files lie, whether there is room for more, and how one is put in its place."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from untwine.data.files.public import File
from untwine.errors import Unavailable, UntwineError
from untwine.locks import locked
from untwine.progress import amount

ROOM = "Make room, or set UNTWINE_DATA to a folder on another disk."
YOURS = "Set UNTWINE_DATA to a folder that can be written to."


def places() -> list[Path]:
    """The folders in which data files are looked for, the last of which is written to.

    There is one, `UNTWINE_DATA` or else the platform's for a user's caches. Where `UNTWINE_DATA` is read only, as a
    folder that many share may be, its files are used where they lie, and the user's cache folder comes after it.
    """
    named = os.environ.get("UNTWINE_DATA", "").strip()
    data = [_named(named)] if named else []
    if data and (can_write(data[0]) or not os.path.isdir(data[0])):
        return data
    import platformdirs

    return [*data, Path(platformdirs.user_cache_dir("untwine", appauthor=False))]


def _named(name: str) -> Path:
    """The folder that `UNTWINE_DATA` says, which need not be there but must be possible."""
    try:
        path = Path(os.path.abspath(Path(name).expanduser()))
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            path.lstat()
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or "whose home folder that is, is not known"
        raise Unavailable(f"UNTWINE_DATA names {name}, which cannot be a folder: {why}. {YOURS}") from None
    return path


def writable() -> Path:
    """The folder that is written to: the data folder, or the one for a user's caches where that is read only."""
    return places()[-1]


def copies(file: File) -> list[Path]:
    """Where a file lies, in the order in which the places are looked at."""
    paths = [place / file.path for place in places()] + [Path(place) / file.name for place in file.elsewhere]
    return [path for path in paths if os.path.isfile(path)]


def can_write(folder: Path) -> bool:
    """Whether files may be made in a folder, which need not be there yet.

    One without any permission to write is left alone by the superuser as well.
    """
    there = _there(folder)
    return os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK) and bool(there.stat().st_mode & 0o222)


def _there(folder: Path) -> Path:
    """A folder, or the nearest one above it that exists; a link that leads nowhere is in the way of one."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(path))


def lacking(folder: Path, needed: int) -> str:
    """What is said of a folder whose disk has less room than is needed; nothing where there is enough."""
    try:
        free = shutil.disk_usage(_there(folder)).free
    except OSError:  # nobody knows
        return ""
    return "" if needed <= free else f"{amount(needed)} are needed in {folder}, where {amount(free)} are free"


def unwritten(error: OSError, folder: Path) -> tuple[str, str]:
    """Why something could not be written to a folder, and what to do about it.

    NumPy does not say that a disk is full, hence a look at the disk.
    """
    out_of_room = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
    if error.errno in out_of_room or (error.errno is None and lacking(folder, 1 << 20)):
        return f"the disk of {folder} is full", ROOM
    why = f"{error.strerror or error}"
    return (f"{why}: {error.filename}" if error.filename else why), YOURS


@contextlib.contextmanager
def held(target: Path, doing: str, refused: Callable[[str], Unavailable]) -> Iterator[None]:
    """Hold what is about to be written, so that one process does it and others wait for it.

    `refused` makes the error where that cannot be, from what is said of it.
    """
    with contextlib.ExitStack() as stack:
        waiting = f"{doing}: waiting for another process that does so"
        try:
            stack.enter_context(locked(target.parent, f".{target.name}.lock", math.inf, waiting))
        except UntwineError as error:
            raise refused(str(error)) from None
        yield

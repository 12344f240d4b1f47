"""Data folders: where files are looked for and written, how much space is left, and who may write."""

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

MAKE_ROOM = "Make room, or set UNTWINE_DATA to a folder on another disk."
SET_WRITABLE = "Set UNTWINE_DATA to a folder that can be written to."


def places() -> list[Path]:
    """The folders that are searched for data files; files are written to the last of them.

    Usually there is one: `UNTWINE_DATA`, by default the platform's user cache folder. If `UNTWINE_DATA` is read only,
    as a shared folder may be, its files are used in place and the user cache folder comes after it.
    """
    name = os.environ.get("UNTWINE_DATA", "").strip()
    data = [_parse(name)] if name else []
    if data and (can_write(data[0]) or not os.path.isdir(data[0])):
        return data
    import platformdirs

    return [*data, Path(platformdirs.user_cache_dir("untwine", appauthor=False))]


def _parse(name: str) -> Path:
    """The path that `UNTWINE_DATA` names. It need not exist, but it must be possible as a folder."""
    try:
        path = Path(os.path.abspath(Path(name).expanduser()))
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            path.lstat()
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or "the home folder of that user is unknown"
        raise Unavailable(f"UNTWINE_DATA names {name}, which cannot be a folder: {why}. {SET_WRITABLE}") from None
    return path


def folder() -> Path:
    """The data folder: `UNTWINE_DATA`, by default the platform's user cache folder."""
    return places()[0]


def writable() -> Path:
    """The folder that files are written to: the data folder, or the user cache folder if that is read only."""
    return places()[-1]


def copies(file: File) -> list[Path]:
    """The existing copies of a file, in the order in which they are tried."""
    paths = [place / file.path for place in places()] + [Path(place) / file.name for place in file.elsewhere]
    return [path for path in paths if os.path.isfile(path)]


def find(file: File) -> Path | None:
    """The first existing copy of a file, verified or not; None if there is none."""
    return next(iter(copies(file)), None)


def can_write(folder: Path) -> bool:
    """Whether files can be created in a folder, which need not exist yet.

    A folder without write permission for anybody counts as read only, even for the superuser.
    """
    existing = _existing(folder)
    mode = os.W_OK | os.X_OK
    return os.path.isdir(existing) and os.access(existing, mode) and bool(existing.stat().st_mode & 0o222)


def _existing(folder: Path) -> Path:
    """A folder, or the nearest one above it that exists. A broken link counts, as it prevents the folder."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(path))


def missing_space(folder: Path, needed: int) -> str:
    """A sentence that says how much space is missing for `needed` bytes; empty if there is enough."""
    try:
        free = shutil.disk_usage(_existing(folder)).free
    except OSError:  # unknown
        return ""
    return "" if needed <= free else f"{amount(needed)} are needed in {folder}, where {amount(free)} are free"


def write_failure(error: OSError, folder: Path) -> tuple[str, str]:
    """Why a write to a folder failed, and what to do about it.

    NumPy's errors do not say that a disk is full, hence the look at the disk.
    """
    out_of_room = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
    if error.errno in out_of_room or (error.errno is None and missing_space(folder, 1 << 20)):
        return f"the disk of {folder} is full", MAKE_ROOM
    why = f"{error.strerror or error}"
    return (f"{why}: {error.filename}" if error.filename else why), SET_WRITABLE


@contextlib.contextmanager
def exclusive(target: Path, doing: str, refused: Callable[[str], Unavailable]) -> Iterator[None]:
    """Lock a file that is about to be written: one process writes it, and others wait.

    Args:
        target: The file.
        doing: What the message of a waiting process calls the work.
        refused: Makes the error for a lock that cannot be taken, from the reason.
    """
    with contextlib.ExitStack() as stack:
        waiting = f"{doing}: waiting for another process that is already doing this"
        try:
            stack.enter_context(locked(target.parent, f".{target.name}.lock", math.inf, waiting))
        except UntwineError as error:
            raise refused(str(error)) from None
        yield

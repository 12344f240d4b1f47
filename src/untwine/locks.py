"""A lock on a folder, which the system releases however the process ends.

The package `filelock`, which torch installs, is not used: it does not record which process has the lock, it needs to
write to a lock file that another user left behind, and where a disk has no locks it makes a file that outlives a
killed process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from untwine.errors import UntwineError

# What a system answers where another process has the lock; any other error means that the disk has no locks.
_TAKEN = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}


class InUse(UntwineError):
    """Another process has the lock."""


@contextlib.contextmanager
def locked(path: Path, name: str = ".lock", patience: float = 0.0, waiting: str = "") -> Iterator[None]:
    """Lock a folder for this process.

    Args:
        path: The folder, which is made if it does not exist.
        name: The name of the lock file in it.
        patience: Seconds to wait while another process has the lock.
        waiting: What to say once on the terminal while waiting.
    """
    target = path
    try:
        path.mkdir(parents=True, exist_ok=True)
        target = path / name
        descriptor = _opened(target)
    except (FileExistsError, NotADirectoryError):
        raise UntwineError(f"{path} cannot be a folder: a file is in its way; choose another folder") from None
    except OSError as error:
        raise UntwineError(f"{target} cannot be written to: {error.strerror or error}; choose another folder") from None
    try:
        try:
            _lock(descriptor, time.monotonic() + patience, waiting)
        except OSError as error:
            if error.errno not in _TAKEN:
                why = error.strerror or error
                raise UntwineError(f"{path} cannot be locked: {why}; choose a folder on another disk") from None
            who = f"process {owner}" if (owner := _owner(descriptor)) else "another process"
            raise InUse(f"{path} is in use by {who}; wait for it, or choose another folder") from None
        with contextlib.suppress(OSError):  # this only tells others who has the lock; a full disk must not stop us
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # who comes next has not written yet, and must not be taken for us
                os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _opened(lock: Path) -> int:
    """A descriptor of a lock file, which is no link: what a link leads to would be overwritten.

    A file that another user left behind is only read, if its folder is writable.
    """
    here = getattr(os, "O_NOFOLLOW", 0)  # Windows has none
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT | here, 0o666)
    except PermissionError:
        if not os.access(lock.parent, os.W_OK | os.X_OK):
            raise
        return os.open(lock, os.O_RDONLY | here)


def _owner(descriptor: int) -> str:
    """The process that has the lock, as far as the lock file tells: one that has just taken it is about to say so."""
    said = ""
    until = time.monotonic() + 1.0
    with contextlib.suppress(OSError):
        while not said and time.monotonic() < until:
            os.lseek(descriptor, 0, os.SEEK_SET)
            said = os.read(descriptor, 100).decode(errors="replace").strip()
            if not said:
                time.sleep(0.02)
    return said


def _lock(descriptor: int, until: float, waiting: str) -> None:
    """Take the lock, or raise the system's error once the time is up."""
    while True:
        try:
            return _try_lock(descriptor)
        except OSError as error:
            if error.errno not in _TAKEN or time.monotonic() >= until:
                raise
            if waiting and sys.stderr.isatty():
                print(waiting, file=sys.stderr)
            waiting = ""
            time.sleep(0.05)


def _try_lock(descriptor: int) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

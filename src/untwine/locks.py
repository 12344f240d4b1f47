"""A lock on a folder, which the system lets go of however the process ends."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from untwine.errors import UntwineError

# What a system answers where another process has the lock; anything else means that there are no locks here.
_TAKEN = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK}


@contextlib.contextmanager
def locked(path: Path, name: str = ".lock", patience: float = 0.0, waiting: str = "") -> Iterator[None]:
    """Hold a folder for this process. Others are given time; `waiting` is said, once, where someone sees it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        file = (path / name).open("a+")
    except OSError as error:
        raise UntwineError(f"{path} cannot be written to: {error.strerror or error}; choose another folder") from None
    with file:
        try:
            _lock(file.fileno(), time.monotonic() + patience, waiting)
        except OSError as error:
            if error.errno not in _TAKEN:
                why = error.strerror or error
                raise UntwineError(f"{path} cannot be locked: {why}; choose a folder on another disk") from None
            file.seek(0)
            owner = file.read().strip()
            who = f"process {owner}" if owner else "another process"
            raise UntwineError(f"{path} is in use by {who}; wait for it, or choose another folder") from None
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield


def _lock(descriptor: int, until: float, waiting: str) -> None:
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

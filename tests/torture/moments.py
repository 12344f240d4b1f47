"""The moments of a process: each of its operations on files, counted, and what happens at one of them."""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Functions of `os` that change files, with whether they need room on the disk.
_CHANGES = {
    "fsync": True,
    "replace": True,
    "rename": True,
    "link": True,
    "symlink": True,
    "mkdir": True,
    "write": True,
    "ftruncate": True,
    "truncate": True,
    "utime": False,
    "unlink": False,
    "remove": False,
    "rmdir": False,
}
_OPENS_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Moments:
    """Counts the operations on files, and lets something happen at one of them.

    It replaces functions of `os` and `open` in this process; there is no way back, so it belongs in a child.

    Args:
        root: Only files below this folder count, and files by their numbers.
        happens: Is called with the kind of each operation, whether it needs room, and how many there were.
    """

    def __init__(self, root: Path, happens: Callable[[str, bool, int], None]):
        self.root, self.happens, self.count = str(root.resolve()) + os.sep, happens, 0

    def install(self) -> None:
        """Replace the functions."""
        for name, needs_room in _CHANGES.items():
            setattr(os, name, self._counted(getattr(os, name), name, needs_room))
        self._os_open, self._open = os.open, builtins.open
        os.open = self._opened_by_number  # type: ignore[assignment]
        builtins.open = io.open = self._opened  # type: ignore[assignment]

    def reach(self, kind: str, needs_room: bool) -> None:
        """Note an operation that is about to begin."""
        self.count += 1
        self.happens(kind, needs_room, self.count)

    def _reach_open(self, file: Any) -> None:
        try:
            self.reach("open", True)
        except OSError as error:
            error.filename = os.fspath(file)
            raise

    def _is_ours(self, file: Any) -> bool:
        return isinstance(file, int) or (os.path.abspath(os.fspath(file)) + os.sep).startswith(self.root)

    def _counted(self, function: Callable[..., Any], kind: str, needs_room: bool) -> Callable[..., Any]:
        def counted(first: Any, *rest: Any, **named: Any) -> Any:
            if self._is_ours(first):
                try:
                    self.reach(kind, needs_room)
                except OSError as error:
                    error.filename = None if isinstance(first, int) else os.fspath(first)
                    raise
            return function(first, *rest, **named)

        return counted

    def _opened_by_number(self, path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & _OPENS_TO_WRITE and self._is_ours(path):
            self._reach_open(path)
        return self._os_open(path, flags, *rest, **named)

    def _opened(self, file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **named: Any) -> Any:
        if isinstance(file, int) or not set(mode) & set("wax+") or not self._is_ours(file):
            return self._open(file, mode, buffering, *rest, **named)
        self._reach_open(file)
        raw = _Raw(file, mode.replace("b", "").replace("t", ""))
        raw.moments = self
        if "b" in mode and buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *rest, **named)


class _Raw(io.FileIO):
    """A file whose writes are counted. One that fails, or at which the process dies, has written half of its bytes."""

    moments: Moments

    def write(self, content: Any, /) -> int:
        try:
            self.moments.reach("content", True)
        except (OSError, Dying) as error:
            view = memoryview(content).cast("B")
            super().write(view[: len(view) // 2])
            if isinstance(error, Dying):
                os.kill(os.getpid(), signal.SIGKILL)
            raise
        return super().write(content)


# --- what happens -------------------------------------------------------------------------------------------


class Dying(BaseException):
    """The process is about to be killed, amid a write."""


def killed_at(number: int, marker: Path | None = None, pid: int | None = None) -> Callable[[str, bool, int], None]:
    """Let SIGKILL end the process at an operation: before it, or amid a write.

    Args:
        number: Which operation.
        marker: With it only the first process that gets there dies, and makes this file.
        pid: A process that is spared.
    """

    def happens(kind: str, needs_room: bool, count: int) -> None:
        if count != number or os.getpid() == pid or (marker is not None and not _first(marker)):
            return
        if kind == "content":
            raise Dying
        os.kill(os.getpid(), signal.SIGKILL)

    return happens


def stopped_at(number: int) -> Callable[[str, bool, int], None]:
    """Let this process, but none of its children, stop before an operation until it gets SIGCONT."""
    pid = os.getpid()

    def happens(kind: str, needs_room: bool, count: int) -> None:
        if count == number and os.getpid() == pid:
            os.kill(pid, signal.SIGSTOP)

    return happens


def full_from(number: int, once: bool) -> Callable[[str, bool, int], None]:
    """Let the disk be full from an operation on.

    Args:
        number: Which operation.
        once: Whether there is room again after the first that fails.
    """
    failed = False

    def happens(kind: str, needs_room: bool, count: int) -> None:
        nonlocal failed
        if needs_room and count >= number and not (once and failed):
            failed = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return happens


def _first(marker: Path) -> bool:
    try:
        os.mkdir(marker)  # below another root: not counted
    except FileExistsError:
        return False
    return True

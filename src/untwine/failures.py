"""What the machine refuses, in one line: what failed, with which file, and what to do about it."""

from __future__ import annotations

import errno
from collections.abc import Callable

from untwine.errors import brief

# What to do about an error of the system, by its number.
_CURES = {
    errno.ENOSPC: "free some space, or choose another folder",
    errno.EDQUOT: "free some space, or choose another folder",
    errno.EFBIG: "the file system takes no file of this size: choose another folder",
    errno.EACCES: "you have no right to it: choose another folder, or change its permissions",
    errno.EPERM: "you have no right to it: choose another folder, or change its permissions",
    errno.EROFS: "it cannot be written to: choose another folder",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOENT: "it is not there, or was removed meanwhile",
    errno.ESTALE: "it is not there any more: is the drive still connected?",
    errno.ENOTDIR: "a file is in the place of a folder: choose another name",
    errno.EISDIR: "a folder is in the place of a file: choose another name",
    errno.EEXIST: "it is there already: choose another name",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
    errno.ELOOP: "its links lead in a circle",
    errno.EIO: "the drive failed",
}
_SMALLER = "take fewer or smaller models, or a smaller batch (--batch-size, --pack-size, --points)"
_ALLOCATION = (
    "allocate memory",
    "out of memory",
    "not enough memory",
    "unable to allocate",
    "start new thread",
    "failed to map segment",
)


def failure(error: BaseException) -> str | None:
    """The line for a failure that is no bug of ours; None for any other error.

    >>> failure(OSError(28, "No space left on device", "runs/a/log.jsonl"))
    'runs/a/log.jsonl: No space left on device; free some space, or choose another folder'
    >>> failure(KeyError("a")) is None
    True
    """
    for applies, line in _TABLE:
        if applies(error):
            return line(error)
    return None


# --- the table ------------------------------------------------------------------------------------------


def _of_system(error: BaseException) -> str:
    assert isinstance(error, OSError)
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    name = " or ".join(names) or "the output or a file"
    if len(name) > 200:
        name = f"{name[:100]}...{name[-40:]}"
    cure = _CURES.get(error.errno or 0)
    return f"{name}: {error.strerror or error}" + (f"; {cure}" if cure else "")


def _of_memory(error: BaseException) -> str:
    where = "the device's memory is" if "cuda" in str(error).lower() else "the memory is"
    said = " ".join(str(error).split())
    return f"{where} used up" + (f" ({said:.160})" if said else "") + f"; {_SMALLER}"


def _of_weights(error: BaseException) -> str:
    return f"a file of weights cannot be read or written: {error}; is it complete, and has the drive room?"


def _of_depth(error: BaseException) -> str:
    return "something is nested too deeply to be read; simplify the file or the expression that was given"


def _lacks_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError | ImportError) and any(text in str(error).lower() for text in _ALLOCATION)


_TABLE: tuple[tuple[Callable[[BaseException], bool], Callable[[BaseException], str]], ...] = (
    (lambda error: isinstance(error, OSError), _of_system),
    (_lacks_memory, _of_memory),
    (lambda error: type(error).__name__ == "SafetensorError", _of_weights),  # without importing the library
    (lambda error: isinstance(error, RecursionError), _of_depth),
    (lambda error: isinstance(error, UnicodeEncodeError), lambda error: f"a name cannot be written: {brief(error)}"),
)

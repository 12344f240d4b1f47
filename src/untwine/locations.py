"""Paths as users write them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from untwine.errors import UntwineError


def expanded(path: str | Path) -> Path:
    r"""A path in which a leading `~` stands for the home folder; as it is where there is no such home.

    A name that no file of this system can have is refused.

    >>> expanded("runs/a\0b")
    Traceback (most recent call last):
    untwine.errors.UntwineError: 'runs/a\x00b' cannot be the name of a file or folder; choose another
    """
    try:
        place = Path(path).expanduser()
    except RuntimeError:
        place = Path(path)
    try:
        os.lstat(place)
    except (ValueError, OSError) as error:  # a NUL, half a character; any other trouble is for whoever opens it
        if not isinstance(error, OSError):
            raise UntwineError(f"{str(path)!a:.80} cannot be the name of a file or folder; choose another") from None
        if error.errno == errno.ENAMETOOLONG:
            raise UntwineError(f"{str(path)[:40]}... is too long a name for a file; choose a shorter one") from None
    return place


def run_folder(path: str | Path) -> Path:
    """The folder of a run, from its path or from that of the `run.json` in it.

    >>> run_folder("runs/first/run.json").name
    'first'
    """
    if not isinstance(path, str | os.PathLike):
        raise UntwineError(f"a run is named by its folder, as a text or a Path, not {path!r:.100}")
    if not str(path):
        raise UntwineError("a run is named by its folder, and this name is empty")
    folder = expanded(path)
    return folder.parent if folder.name == "run.json" and not folder.is_dir() else folder

"""Paths as users write them."""

from __future__ import annotations

import os
from pathlib import Path

from untwine.errors import UntwineError


def expanded(path: str | Path) -> Path:
    """A path in which a leading `~` stands for the home folder; as it is where there is no such home."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


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

"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, and put it in its place. What was there stays if that fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        new.write_bytes(content)
        settle(new, path)
    finally:
        new.unlink(missing_ok=True)


def settle(new: Path, target: Path) -> None:
    """Put a finished file in its place, where it is found whole or not at all, also after a power failure."""
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    new.replace(target)
    with contextlib.suppress(OSError):  # the renaming itself must reach the disk too, where folders can be opened
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

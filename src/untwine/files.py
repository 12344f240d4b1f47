"""Files that are either complete or absent, also after a crash."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any


def write(path: Path, content: bytes) -> None:
    """Write a file under a temporary name, then rename it. If that fails, the old file stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        new.write_bytes(content)
        settle(new, path)
    finally:
        new.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write a value as JSON, as `write` does."""
    write(path, (json.dumps(value, indent=1, allow_nan=False) + "\n").encode())


def settle(new: Path, target: Path) -> None:
    """Rename a finished file to its final name, such that even after a power failure it is complete or absent."""
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    new.replace(target)
    with contextlib.suppress(OSError):  # the renaming itself must reach the disk too; some systems cannot open folders
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

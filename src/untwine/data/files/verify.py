"""Verification: read data files byte by byte, whatever their stamps say, and compare them with their checksums."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path

from untwine.data.files.download import printable
from untwine.data.files.places import copies
from untwine.data.files.public import BrokenFile, File
from untwine.data.files.stamps import Stamp, algorithm, derived_files, read_stamp, stamp_now, write_stamp
from untwine.errors import UntwineError


@dataclass(frozen=True)
class FileCheck:
    """The result of reading a file.

    Args:
        name: The file's path beneath the data folder.
        state: `missing`, `unreadable`, `right` or `wrong`. Without a published checksum, `as on arrival` (also when the
            file is first seen) or `changed`.
        path: Where it lies.
        expected: The checksum that it should have.
        found: The checksum that it has.
        why: What is wrong with it.
    """

    name: str
    state: str
    path: Path | None = None
    expected: str | None = None
    found: str | None = None
    why: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the file can be used."""
        return self.state in ("right", "as on arrival")


def check_file(file: File) -> FileCheck:
    """Read a public file, whatever its stamp says. Of several copies, the first right one counts.

    >>> check_file(File("nowhere/none.npz", ())).state
    'missing'
    """
    results = [_check_copy(path, file) for path in copies(file)]
    missing = FileCheck(file.path, "missing", expected=file.checksum)
    return next((result for result in results if result.ok), results[0] if results else missing)


def check_derived_files(prefix: str = "") -> list[FileCheck]:
    """Read all derived files, or those beneath a folder such as `"shapes3d/"`.

    A wrong one is made again when it is next used; until then, checks report it.
    """
    beneath = prefix and prefix.rstrip("/") + "/"
    return [
        _check_copy(path, File(name, (), stamp.checksum), derived=True)
        for name, path, stamp in derived_files()
        if name.startswith(beneath)
    ]


def _check_copy(path: Path, file: File, derived: bool = False) -> FileCheck:
    stamp = read_stamp(path)
    expected = file.checksum or (stamp and stamp.checksum)
    try:
        now = stamp_now(path, algorithm(expected), derived)
        why = difference(path, now, file)
    except OSError as error:
        return FileCheck(file.path, "unreadable", path, expected, why=f"cannot be read: {error.strerror or error}")
    changed = file.checksum is None and expected not in (None, now.checksum)
    if changed and why is None:
        why = f"changed since it arrived: it was {expected}, and is {now.checksum}"
    if (why is None or file.checksum) and now.matches(path):  # another process may just have replaced it
        with contextlib.suppress(OSError):
            write_stamp(path, now if why is None else replace(now, checksum=str(file.checksum), valid=False))
    if why:
        state = "changed" if changed else "wrong"
    else:
        state = "right" if file.checksum else "as on arrival"
    return FileCheck(file.path, state, path, expected, now.checksum, why)


def difference(path: Path, stamp: Stamp, file: File) -> str | None:
    """How a file with this stamp differs from the published one; None if it does not."""
    if file.checksum not in (None, stamp.checksum):
        instead = "" if file.size in (None, stamp.size) else f" instead of {file.size:,}"
        return f"has the checksum {stamp.checksum}, not {file.checksum} ({stamp.size:,} bytes{instead})"
    try:
        if file.validate is not None:
            file.validate(path)
    except UntwineError as error:
        why = error.why if isinstance(error, BrokenFile) else error
        return f"does not hold what it should: {printable(why)}"
    return None

"""Reading data files again, whatever is remembered of them, to see whether they are as they should be."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path

from untwine.data.files.download import printable
from untwine.data.files.pictures import Broken
from untwine.data.files.places import copies
from untwine.data.files.public import File
from untwine.data.files.stamps import Stamp, algorithm, derived_files, read_stamp, stamped, write_stamp
from untwine.errors import UntwineError


@dataclass(frozen=True)
class Check:
    """What a file was found to be when all of it was read.

    `state` is `missing`, `unreadable`, `right` or `wrong`; where nobody published a checksum, `as on arrival` (which
    a file is when it is first seen) or `changed`. `expected` and `found` are checksums; `why` says what is wrong.
    """

    name: str
    state: str
    path: Path | None = None
    expected: str | None = None
    found: str | None = None
    why: str | None = None

    @property
    def ok(self) -> bool:
        return self.state in ("right", "as on arrival")


def check(file: File) -> Check:
    """Read a file that may be here, whatever is remembered of it. Of several copies the first that can be used counts.

    >>> check(File("nowhere/none.npz", ())).state
    'missing'
    """
    found = [_check(path, file) for path in copies(file)]
    missing = Check(file.path, "missing", expected=file.checksum)
    return next((one for one in found if one.ok), found[0] if found else missing)


def check_derived(prefix: str = "") -> list[Check]:
    """Read the files that were made here, or those beneath a folder such as `"shapes3d/"`.

    One that is wrong is made again when it is next used, and is found to be wrong until then.
    """
    beneath = prefix and prefix.rstrip("/") + "/"
    made = [(path, File(name, (), known.checksum)) for name, path, known in derived_files() if name.startswith(beneath)]
    return [_check(path, file, derived=True) for path, file in made]


def _check(path: Path, file: File, derived: bool = False) -> Check:
    known = read_stamp(path)
    expected = file.checksum or (known and known.checksum)
    try:
        now = stamped(path, algorithm(expected), derived)
        why = unlike(path, now, file)
    except OSError as error:
        return Check(file.path, "unreadable", path, expected, why=f"cannot be read: {error.strerror or error}")
    changed = file.checksum is None and expected not in (None, now.checksum)
    if changed and why is None:
        why = f"changed since it arrived: it was {expected}, and is {now.checksum}"
    if (why is None or file.checksum) and now.fits(path):  # another process may have put another one there meanwhile
        with contextlib.suppress(OSError):
            write_stamp(path, now if why is None else replace(now, checksum=str(file.checksum), valid=False))
    state = ("changed" if changed else "wrong") if why else "right" if file.checksum else "as on arrival"
    return Check(file.path, state, path, expected, now.checksum, why)


def unlike(path: Path, now: Stamp, file: File) -> str | None:
    """In what a file with this stamp differs from the one that it should be."""
    if file.checksum not in (None, now.checksum):
        instead = "" if file.size in (None, now.size) else f" instead of {file.size:,}"
        return f"has the checksum {now.checksum}, not {file.checksum} ({now.size:,} bytes{instead})"
    try:
        if file.fits is not None:
            file.fits(path)
    except UntwineError as error:
        why = error.why if isinstance(error, Broken) else error
        return f"does not hold what it should: {printable(why)}"
    return None

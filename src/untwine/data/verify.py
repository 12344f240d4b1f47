"""Reading data files again, whatever is remembered of them, to see whether they are as they should be."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path

from untwine.data.places import copies
from untwine.data.public import File
from untwine.data.stamps import algorithm, derived_files, read_stamp, stamped, write_stamp


@dataclass(frozen=True)
class Check:
    """What a file was found to be when all of it was read.

    `state` is `missing`, `unreadable`, `right` or `wrong`; where nobody published a checksum, `as on arrival` (which
    a file is when it is first seen) or `changed`. `expected` and `found` are checksums.
    """

    name: str
    state: str
    path: Path | None = None
    expected: str | None = None
    found: str | None = None

    @property
    def ok(self) -> bool:
        return self.state in ("right", "as on arrival")


def check(file: File) -> Check:
    """Read a file that may be here, whatever is remembered of it. Of several copies the first that can be used counts.

    >>> check(File("nowhere/none.npz", ())).state
    'missing'
    """
    found = [_check(path, file.path, file.checksum) for path in copies(file)]
    missing = Check(file.path, "missing", expected=file.checksum)
    return next((one for one in found if one.ok), found[0] if found else missing)


def check_derived(prefix: str = "") -> list[Check]:
    """Read the files that were made here, or those beneath a folder such as `"shapes3d/"`.

    One that is wrong is made again when it is next used, and is found to be wrong until then.
    """
    beneath = prefix and prefix.rstrip("/") + "/"
    files = list(derived_files())
    return [_check(path, name, known.checksum, True) for name, path, known in files if name.startswith(beneath)]


def _check(path: Path, name: str, published: str | None, derived: bool = False) -> Check:
    known = read_stamp(path)
    expected = published or (known and known.checksum)
    try:
        now = stamped(path, algorithm(expected), derived)
    except OSError:
        return Check(name, "unreadable", path, expected)
    right = expected in (None, now.checksum)
    if (right or published) and now.fits(path):  # another process may have put another one there meanwhile
        with contextlib.suppress(OSError):
            write_stamp(path, now if right else replace(now, checksum=str(published), valid=False))
    states = ("right", "wrong") if published else ("as on arrival", "changed")
    return Check(name, states[not right], path, expected, now.checksum)

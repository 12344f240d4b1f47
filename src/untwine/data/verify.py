"""Reading data files again, whatever is remembered of them, to see whether they are as they should be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from untwine.data.places import algorithm, copies, derived_files, forget, places, read_stamp, stamped, write_stamp
from untwine.data.public import File


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
    return next((one for one in found if one.ok), found[0] if found else Check(file.path, "missing"))


def check_derived() -> list[Check]:
    """Read all files that were made here. One that is wrong is made again when it is next used."""
    found = []
    for path in derived_files():
        stamp = read_stamp(path)
        place = next(place for place in places() if path.is_relative_to(place))
        found.append(_check(path, path.relative_to(place).as_posix(), stamp and stamp.checksum))
    return found


def _check(path: Path, name: str, published: str | None) -> Check:
    known = read_stamp(path)
    expected = published or (known and known.checksum)
    try:
        now = stamped(path, algorithm(expected), known is not None and known.derived)
    except OSError:
        return Check(name, "unreadable", path, expected)
    right = expected in (None, now.checksum)
    if right:
        write_stamp(path, now)
    elif published:
        forget(path)  # lest the old stamp vouch for it
    states = ("right", "wrong") if published else ("as on arrival", "changed")
    return Check(name, states[not right], path, expected, now.checksum)

"""Stamps: small files that remember the checksum of a data file, so that it is not read again each time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from untwine.data.files.places import can_write, places, writable
from untwine.errors import Unavailable
from untwine.files import write
from untwine.progress import counter

LARGE = 100_000_000  # bytes; reading a larger file takes long enough for a progress bar
_CHUNK = 1 << 20
_SUFFIX = ".stamp.json"
_CHECKSUM = re.compile("md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}")

_in_process: dict[Path, Stamp] = {}  # stamps that could not be written to disk


def algorithm(checksum: str | None) -> str:
    """The algorithm of a checksum; by default sha256.

    >>> algorithm("md5:7da33b31b13a06f4b04a70402ce90c2e"), algorithm(None)
    ('md5', 'sha256')
    """
    return checksum.partition(":")[0] if checksum else "sha256"


def digest(path: Path, algorithm: str = "sha256") -> str:
    """The checksum of a file, such as `"sha256:..."`, with a progress bar if it is large."""
    hasher = hashlib.new(algorithm, usedforsecurity=False)
    size = path.stat().st_size
    doing = f"checking {path.name.removesuffix('.part')}"
    with path.open("rb") as file, counter(doing, size, None if size > LARGE else False, in_bytes=True) as count:
        while chunk := file.read(_CHUNK):
            hasher.update(chunk)
            count(len(chunk))
    return f"{algorithm}:{hasher.hexdigest()}"


@dataclass(frozen=True)
class Stamp:
    """The checksum that a file had when it was last read.

    Args:
        size: Its length in bytes then; with the time, it tells whether the file has changed since.
        mtime_ns: Its modification time then.
        checksum: Its checksum. If the stamp is not valid, the checksum that it should have had.
        derived: Whether the file was made on this machine.
        valid: Whether the file had the right checksum.
    """

    size: int
    mtime_ns: int
    checksum: str
    derived: bool = False
    valid: bool = True

    def matches(self, path: Path) -> bool:
        """Whether the file still has the size and time of this stamp."""
        try:
            now = path.stat()
        except OSError:
            return False
        return (now.st_size, now.st_mtime_ns) == (self.size, self.mtime_ns)


def stamp_now(path: Path, algorithm: str = "sha256", derived: bool = False) -> Stamp:
    """A stamp of a file as it is now. If the file changes meanwhile, the stamp will not match it."""
    before = path.stat()
    return Stamp(before.st_size, before.st_mtime_ns, digest(path, algorithm), derived)


def read_stamp(path: Path, invalid: bool = False) -> Stamp | None:
    """The stamp of a file, which may have changed since; None if there is none.

    Args:
        path: The data file.
        invalid: Whether to return a stamp that is not valid as well.
    """
    stamps = [_in_process[path.absolute()]] if path.absolute() in _in_process else []
    for location in (_beside(path), _apart(path)):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            stamps.append(_parse(json.loads(location.read_text())))
    # Invalid ones come first: in a read-only folder, the valid stamp that they contradict is still there.
    matching = sorted((stamp for stamp in stamps if stamp.matches(path)), key=lambda stamp: stamp.valid)
    stamp = next(iter([*matching, *stamps]), None)
    return stamp if stamp is None or stamp.valid or invalid else None


def _parse(content: dict[str, object]) -> Stamp:
    size, mtime, checksum = content["size"], content["mtime_ns"], content["checksum"]
    if type(size) is not int or type(mtime) is not int or not _CHECKSUM.fullmatch(str(checksum)):
        raise ValueError("damaged")
    return Stamp(size, mtime, str(checksum), content["derived"] is True, content.get("valid", True) is True)


def write_stamp(path: Path, stamp: Stamp) -> None:
    """Store the stamp of a data file on disk, or else in memory for as long as this process runs.

    For a derived file memory is not enough, as the file would be made again each time: then the error is raised.
    """
    location = stamp_location(path)
    try:
        write(location, json.dumps(asdict(stamp)).encode())
        _in_process.pop(path.absolute(), None)
    except OSError:
        _in_process[path.absolute()] = stamp
        if stamp.derived:
            raise
    else:
        if location != _apart(path):  # a stamp from when the folder was read only
            with contextlib.suppress(OSError):
                _apart(path).unlink()


def stamp_location(path: Path) -> Path:
    """Where the stamp of a file is stored: beside it if that is a writable data folder, else in the writable one."""
    beside = any(path.is_relative_to(place) for place in places()) and can_write(path.parent)
    return _beside(path) if beside else _apart(path)


def derived_files() -> Iterator[tuple[str, Path, Stamp]]:
    """All derived files in the data folders: the name beneath the folder, the path, and the stamp of each."""
    for place in places():
        for folder, subfolders, names in os.walk(place, onerror=_refuse_unlisted):
            subfolders.sort()
            for name in sorted(name for name in names if name.startswith(".") and name.endswith(_SUFFIX)):
                path = Path(folder, name[1 : -len(_SUFFIX)])
                stamp = read_stamp(path, invalid=True)
                if stamp is not None and stamp.derived and os.path.isfile(path):
                    yield path.relative_to(place).as_posix(), path, stamp


def _refuse_unlisted(error: OSError) -> None:
    """Raise for a folder that cannot be listed: it may hold files, unlike one that does not exist."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise Unavailable(f"{error.filename} cannot be listed: {error.strerror or error}") from None


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}{_SUFFIX}")


def _apart(path: Path) -> Path:
    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32]
    return writable() / ".stamps" / f"{name}.json"

"""What is remembered of data files: a stamp says which bytes were seen in one, and when."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from untwine.data.files.places import can_write, places
from untwine.errors import Unavailable
from untwine.files import write
from untwine.progress import counter

LARGE = 100_000_000  # bytes that take so long to read that a bar is shown
_CHUNK = 1 << 20
_SUFFIX = ".stamp.json"
_CHECKSUM = re.compile("md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}")

_seen: dict[Path, Stamp] = {}  # for this process, where no stamp can be written


def algorithm(checksum: str | None) -> str:
    """That of a checksum, or the one to use where there is none.

    >>> algorithm("md5:7da33b31b13a06f4b04a70402ce90c2e"), algorithm(None)
    ('md5', 'sha256')
    """
    return checksum.partition(":")[0] if checksum else "sha256"


def digest(path: Path, algorithm: str = "sha256") -> str:
    """The checksum of a file, such as `"sha256:..."`, with a bar if it is large."""
    found = hashlib.new(algorithm, usedforsecurity=False)
    size = path.stat().st_size
    what = f"checking {path.name.removesuffix('.part')}"
    with path.open("rb") as file, counter(what, size, None if size > LARGE else False, in_bytes=True) as count:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
            count(len(chunk))
    return f"{algorithm}:{found.hexdigest()}"


@dataclass(frozen=True)
class Stamp:
    """What is remembered of a file: the checksum that it had, and the size and time by which to know it again.

    One that is not `valid` says that a file of this size and time was found not to have the checksum that it should.
    """

    size: int
    mtime_ns: int
    checksum: str
    derived: bool = False
    valid: bool = True

    def fits(self, path: Path) -> bool:
        """Whether the file still is the one that was seen."""
        try:
            now = path.stat()
        except OSError:
            return False
        return (now.st_size, now.st_mtime_ns) == (self.size, self.mtime_ns)


def stamped(path: Path, algorithm: str = "sha256", derived: bool = False) -> Stamp:
    """A stamp of a file as it is now. One that changes meanwhile will not fit it."""
    before = path.stat()
    return Stamp(before.st_size, before.st_mtime_ns, digest(path, algorithm), derived)


def read_stamp(path: Path, doubted: bool = False) -> Stamp | None:
    """What is remembered of a file, which may have changed since. `doubted`: also if it was found to be wrong."""
    known = [_seen[path.absolute()]] if path.absolute() in _seen else []
    for stamp in (_beside(path), _apart(path)):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            known.append(_parsed(json.loads(stamp.read_text())))
    # A doubt comes first, for where a folder is read only the stamp that it contradicts is still there.
    fitting = sorted((stamp for stamp in known if stamp.fits(path)), key=lambda stamp: stamp.valid)
    found = next(iter([*fitting, *known]), None)
    return found if found is None or found.valid or doubted else None


def _parsed(content: dict[str, object]) -> Stamp:
    size, mtime, checksum = content["size"], content["mtime_ns"], content["checksum"]
    if type(size) is not int or type(mtime) is not int or not _CHECKSUM.fullmatch(str(checksum)):
        raise ValueError("damaged")
    return Stamp(size, mtime, str(checksum), content["derived"] is True, content.get("valid", True) is True)


def write_stamp(path: Path, stamp: Stamp) -> None:
    """Remember a file, if need be only as long as this process runs.

    For one that was made here that is not enough, as it would be made again each time: then the error is raised.
    """
    target = stamp_of(path)
    try:
        write(target, json.dumps(asdict(stamp)).encode())
        _seen.pop(path.absolute(), None)
    except OSError:
        _seen[path.absolute()] = stamp
        if stamp.derived:
            raise
    else:
        if target != _apart(path):  # of when its folder was read only
            with contextlib.suppress(OSError):
                _apart(path).unlink()


def stamp_of(path: Path) -> Path:
    """Where a file is remembered: beside it if it is in a data folder that can be written to, else in such a folder."""
    ours = any(path.is_relative_to(place) for place in places()) and can_write(path.parent)
    return _beside(path) if ours else _apart(path)


def derived_files() -> Iterator[tuple[str, Path, Stamp]]:
    """The files in the data folders that a stamp says were made here, with their names there and these stamps."""
    for place in places():
        for folder, inner, names in os.walk(place, onerror=_unlisted):
            inner.sort()
            for name in sorted(name for name in names if name.startswith(".") and name.endswith(_SUFFIX)):
                path = Path(folder, name[1 : -len(_SUFFIX)])
                known = read_stamp(path, doubted=True)
                if known is not None and known.derived and os.path.isfile(path):
                    yield path.relative_to(place).as_posix(), path, known


def _unlisted(error: OSError) -> None:
    """What cannot be listed is not empty: only a folder that is not there holds nothing."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise Unavailable(f"{error.filename} cannot be listed: {error.strerror or error}") from None


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}{_SUFFIX}")


def _apart(path: Path) -> Path:
    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32]
    return places()[-1] / ".stamps" / f"{name}.json"

"""Where data files lie, and what is remembered of each: a stamp says which bytes were seen in it, and when."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from untwine.data.public import File
from untwine.errors import Unavailable, UntwineError
from untwine.locks import locked
from untwine.progress import amount, counter

LARGE = 100_000_000  # bytes that take so long to read that a bar is shown
_CHUNK = 1 << 20
_SUFFIX = ".stamp.json"

_seen: dict[Path, Stamp] = {}  # for this process, where no stamp can be written


def places() -> list[Path]:
    """The folders in which data files are looked for, the last of which is written to.

    There is one, `UNTWINE_DATA` or else the platform's for a user's caches. Where `UNTWINE_DATA` is read only, as a
    folder that many share may be, its files are used where they lie, and the user's cache folder comes after it.
    """
    named = os.environ.get("UNTWINE_DATA")
    data = [Path(named).expanduser()] if named else []
    if data and (can_write(data[0]) or not data[0].is_dir()):
        return data
    import platformdirs

    return [*data, Path(platformdirs.user_cache_dir("untwine", appauthor=False))]


def copies(file: File) -> list[Path]:
    """Where a file lies, in the order in which the places are looked at."""
    paths = [place / file.path for place in places()] + [Path(place) / file.name for place in file.elsewhere]
    return [path for path in paths if os.path.isfile(path)]


def can_write(folder: Path) -> bool:
    """Whether files may be made in a folder, which need not be there yet.

    One without any permission to write is left alone by the superuser as well.
    """
    there = _there(folder)
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK) and bool(there.stat().st_mode & 0o222)


def _there(folder: Path) -> Path:
    """A folder, or the nearest one above it that exists."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if os.path.exists(path))


def lacking(folder: Path, needed: int) -> str:
    """What is said of a folder whose disk has less room than is needed; nothing where there is enough."""
    free = shutil.disk_usage(_there(folder)).free
    if needed <= free:
        return ""
    return f"{amount(needed)} are needed in {folder}, where {amount(free)} are free"


def is_full(error: OSError, folder: Path) -> bool:
    """Whether something could not be written for want of room. NumPy does not say so, hence a look at the disk."""
    out_of_room = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
    return error.errno in out_of_room or (error.errno is None and bool(lacking(folder, _CHUNK)))


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
    """What is remembered of a file: the checksum that it had, and the size and time by which to know it again."""

    size: int
    mtime_ns: int
    checksum: str
    derived: bool = False

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


def read_stamp(path: Path) -> Stamp | None:
    """What is remembered of a file, which may have changed since."""
    known = [_seen[path.absolute()]] if path.absolute() in _seen else []
    for stamp in (_beside(path), _apart(path)):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            content = json.loads(stamp.read_text())
            numbers = int(content["size"]), int(content["mtime_ns"])
            known.append(Stamp(*numbers, str(content["checksum"]), content["derived"] is True))
    return next((stamp for stamp in known if stamp.fits(path)), known[0] if known else None)


def write_stamp(path: Path, stamp: Stamp) -> None:
    """Remember a file, if need be only as long as this process runs."""
    target = stamp_of(path)
    new = target.with_name(f"{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps(asdict(stamp)))
        new.replace(target)
        _seen.pop(path.absolute(), None)
    except OSError as error:
        _seen[path.absolute()] = stamp
        with contextlib.suppress(OSError):
            new.unlink()
        if stamp.derived:  # without one it would be made again each time
            raise Unavailable(f"{target.parent} cannot be written to: {error.strerror or error}") from None


def stamp_of(path: Path) -> Path:
    """Where a file is remembered: beside it if it is in a data folder that can be written to, else in such a folder."""
    ours = any(path.is_relative_to(place) for place in places()) and can_write(path.parent)
    return _beside(path) if ours else _apart(path)


def forget(path: Path) -> None:
    """Remember nothing of a file, so that it is read again before it is used."""
    _seen.pop(path.absolute(), None)
    for stamp in (_beside(path), _apart(path)):
        with contextlib.suppress(OSError):
            stamp.unlink()


def derived_files() -> list[Path]:
    """The files in the data folders that a stamp says were made here."""
    stamps = [stamp for place in places() for stamp in sorted(place.rglob(f".*{_SUFFIX}"))]
    files = [stamp.with_name(stamp.name[1 : -len(_SUFFIX)]) for stamp in stamps]
    return [file for file in files if file.is_file() and (known := read_stamp(file)) is not None and known.derived]


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}{_SUFFIX}")


def _apart(path: Path) -> Path:
    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:32]
    return places()[-1] / ".stamps" / f"{name}.json"


def settle(new: Path, target: Path) -> None:
    """Put a finished file in its place, where it is found whole or not at all, also after a power failure."""
    with new.open("rb+") as file:
        os.fsync(file.fileno())
    new.replace(target)
    with contextlib.suppress(OSError):  # not every system opens folders
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@contextlib.contextmanager
def held(target: Path, doing: str) -> Iterator[None]:
    """Hold what is about to be written, so that one process does it and others wait for it."""
    with contextlib.ExitStack() as stack:
        waiting = f"{doing}: waiting for another process that does so"
        try:
            stack.enter_context(locked(target.parent, f".{target.name}.lock", math.inf, waiting))
        except UntwineError as error:
            raise Unavailable(str(error)) from None
        yield

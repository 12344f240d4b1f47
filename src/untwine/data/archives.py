"""Reading archives that came from elsewhere: nothing in them reaches a place outside the folder it is unpacked to."""

from __future__ import annotations

import contextlib
import gzip
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any

from untwine.data.places import held
from untwine.errors import Unavailable

_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)


def members(archive: Path) -> Generator[tuple[str, IO[bytes]], None, None]:
    """The files of a tar or zip archive in their order there: their names, and something to read each from.

    An archive with a member that is no plain file or folder, or whose name leads out of it, is refused.
    """
    with _undamaged(archive):
        yield from _of_tar(archive) if tarfile.is_tarfile(archive) else _of_zip(archive)


@contextlib.contextmanager
def opened(archive: Path, member: str) -> Iterator[IO[bytes]]:
    """One file of an archive, to be read without unpacking the others."""
    with contextlib.closing(members(archive)) as found, _undamaged(archive):
        for name, file in found:
            if name == member:
                yield file
                return
    raise Unavailable(f"{archive} has no {member}; delete it and fetch it again")


def extract(archive: Path, into: Path) -> Path:
    """Unpack all files of an archive into a new folder, which is there whole or not at all; one that is there stays."""
    with held(into, f"unpacking {archive.name}"):
        if into.is_dir():
            return into
        new = into.with_name(f".{into.name}.part")
        shutil.rmtree(new, ignore_errors=True)
        try:
            new.mkdir()
            with _undamaged(archive):
                for name, file in members(archive):
                    _copy(file, new / name)
            new.replace(into)
        except OSError as error:
            raise Unavailable(f"{archive} could not be unpacked into {into}: {error}") from None
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return into


def _copy(file: Any, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        shutil.copyfileobj(file, out)
        out.flush()
        os.fsync(out.fileno())


@contextlib.contextmanager
def _undamaged(archive: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise Unavailable(f"{archive} is damaged, or no archive ({error}); delete it and fetch it again") from None


def _of_zip(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            kind = stat.S_IFMT(entry.external_attr >> 16)
            _refuse(archive, entry.filename, kind in (0, stat.S_IFREG, stat.S_IFDIR))
            if entry.is_dir():
                continue
            try:
                file = opened.open(entry)
            except (RuntimeError, NotImplementedError) as error:  # a password is needed, or the method is unknown
                raise Unavailable(f"{entry.filename} of {archive} cannot be read: {error}") from None
            with file:
                yield str(PurePosixPath(entry.filename)), file


def _of_tar(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(archive) as opened:
        for entry in opened:
            _refuse(archive, entry.name, entry.isreg() or entry.isdir())
            file = opened.extractfile(entry)
            if file is not None:
                with file:
                    yield str(PurePosixPath(entry.name)), file


def _refuse(archive: Path, name: str, plain: bool) -> None:
    """Refuse an archive for a member that could write or point to a place outside it, on any system."""
    outside = any(path.anchor or ".." in path.parts for path in (PurePosixPath(name), PureWindowsPath(name)))
    if outside or not plain:
        why = "leads out of its folder" if outside else "is no plain file but a link or a device"
        raise Unavailable(f"{archive} is refused: its member {name!r} {why}; it is not the archive that it should be")

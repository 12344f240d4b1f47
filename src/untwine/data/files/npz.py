"""Large arrays in .npz files of others, read as streams: nothing is unpickled, and no name in them becomes a path."""

from __future__ import annotations

import contextlib
import math
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np

from untwine.data.files.pictures import broken
from untwine.progress import counter

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# An encrypted member is a RuntimeError; a method of packing that is not known, a NotImplementedError.
_DAMAGE = (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, RuntimeError)


def pixels(path: Path, name: str, shape: tuple[int, ...], at_once: int) -> Iterator[bytes]:
    """The bytes of an array, which must be uint8 and of this shape, so many at a time, with a bar.

    At the end the file's own checksum is compared.
    """
    with _member(path, name) as (member, stream):
        _check(path, name, member, stream, shape)
        with counter(f"reading {path.name}", math.prod(shape), in_bytes=True) as count:
            while part := stream.read(at_once):
                yield part
                count(len(part))


def in_place(path: Path, name: str, shape: tuple[int, ...]) -> np.memmap | None:
    """The array of uint8, mapped into memory where it lies in the file; None if it is packed."""
    with _member(path, name) as (member, stream):
        _check(path, name, member, stream, shape)
        if member.compress_type != zipfile.ZIP_STORED:
            return None
        header = stream.tell()
    with path.open("rb") as file:
        file.seek(member.header_offset)
        # What comes before the content: 30 bytes, a name, and more. The file's directory may say less of it.
        length, more = struct.unpack("<26x2H", file.read(30))
    return np.memmap(path, np.uint8, "r", member.header_offset + 30 + length + more + header, shape)


def small(path: Path, name: str) -> np.ndarray:
    """A whole array, of numbers."""
    with _member(path, name) as (_, stream):
        return np.lib.format.read_array(stream, allow_pickle=False)


@contextlib.contextmanager
def _member(path: Path, name: str) -> Iterator[tuple[zipfile.ZipInfo, zipfile.ZipExtFile]]:
    try:
        with zipfile.ZipFile(path) as zipped:
            if f"{name}.npy" not in zipped.namelist():
                found = ", ".join(zipped.namelist()) or "nothing"
                raise broken(path, f"it has no array {name!r}; in it is {found:.200}")
            member = zipped.getinfo(f"{name}.npy")
            with cast(zipfile.ZipExtFile, zipped.open(member)) as stream:
                yield member, stream
    except _DAMAGE as error:
        raise broken(path, error) from None


def _check(path: Path, name: str, member: zipfile.ZipInfo, stream: zipfile.ZipExtFile, shape: tuple[int, ...]) -> None:
    """Read what comes before the numbers, which says what they are."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise broken(path, f"its array {name!r} is written in version {version} of the format")
    with warnings.catch_warnings():  # that Python 2 wrote it changes nothing
        warnings.simplefilter("ignore", UserWarning)
        found, fortran_order, dtype = _HEADERS[version](stream)
    if (found, fortran_order, dtype) != (shape, False, np.uint8):
        order = " in Fortran's order" if fortran_order else ""
        raise broken(path, f"its array {name!r} is {dtype} {list(found)}{order} instead of uint8 {list(shape)}")
    if member.file_size != stream.tell() + math.prod(shape):
        raise broken(path, f"its array {name!r} takes {member.file_size} bytes, which do not fit {list(shape)}")

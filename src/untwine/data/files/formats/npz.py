"""Large arrays in .npz files, read as streams: nothing is unpickled, and no name in a file becomes a path."""

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

from untwine.data.files.public import broken
from untwine.progress import counter

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# An encrypted member raises a RuntimeError, an unknown compression a NotImplementedError.
_DAMAGE = (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, RuntimeError)


def pixels(path: Path, name: str, shape: tuple[int, ...], chunk: int) -> Iterator[bytes]:
    """The bytes of a uint8 array, a chunk at a time, with a progress bar. The archive's own checksum is verified.

    Args:
        path: The .npz file.
        name: The array's name.
        shape: The shape that the array must have.
        chunk: Bytes to read at a time.
    """
    with _member(path, name) as (member, stream):
        _check_header(path, name, member, stream, shape)
        with counter(f"reading {path.name}", math.prod(shape), in_bytes=True) as count:
            while part := stream.read(chunk):
                yield part
                count(len(part))


def in_place(path: Path, name: str, shape: tuple[int, ...]) -> np.memmap | None:
    """A uint8 array, mapped into memory where it lies in the archive; None if it is compressed."""
    with _member(path, name) as (member, stream):
        _check_header(path, name, member, stream, shape)
        if member.compress_type != zipfile.ZIP_STORED:
            return None
        header = stream.tell()
    with path.open("rb") as file:
        file.seek(member.header_offset)
        # A local header has 30 bytes, a name and an extra field, which the archive's directory may state differently.
        name_length, extra_length = struct.unpack("<26x2H", file.read(30))
    start = member.header_offset + 30 + name_length + extra_length + header
    return np.memmap(path, np.uint8, "r", start, shape)


def small(path: Path, name: str) -> np.ndarray:
    """An array of numbers, read into memory."""
    with _member(path, name) as (_, stream):
        return np.lib.format.read_array(stream, allow_pickle=False)


@contextlib.contextmanager
def _member(path: Path, name: str) -> Iterator[tuple[zipfile.ZipInfo, zipfile.ZipExtFile]]:
    try:
        with zipfile.ZipFile(path) as archive:
            if f"{name}.npy" not in archive.namelist():
                content = ", ".join(archive.namelist()) or "nothing"
                raise broken(path, f"it has no array {name!r}; in it is {content:.200}")
            member = archive.getinfo(f"{name}.npy")
            with cast(zipfile.ZipExtFile, archive.open(member)) as stream:
                yield member, stream
    except _DAMAGE as error:
        raise broken(path, error) from None


def _check_header(
    path: Path, name: str, member: zipfile.ZipInfo, stream: zipfile.ZipExtFile, shape: tuple[int, ...]
) -> None:
    """Read the array's header, and refuse an array that is not uint8 of this shape."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise broken(path, f"its array {name!r} is written in version {version} of the format")
    with warnings.catch_warnings():  # NumPy warns of headers from Python 2, which are as good as others
        warnings.simplefilter("ignore", UserWarning)
        actual, fortran_order, dtype = _HEADERS[version](stream)
    if (actual, fortran_order, dtype) != (shape, False, np.uint8):
        order = " in Fortran's order" if fortran_order else ""
        raise broken(path, f"its array {name!r} is {dtype} {list(actual)}{order} instead of uint8 {list(shape)}")
    if member.file_size != stream.tell() + math.prod(shape):
        raise broken(path, f"its array {name!r} takes {member.file_size} bytes, which do not fit {list(shape)}")

"""Pictures of public files: resized, written to a table on disk, and read from it a few at a time."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped, UInt8

from untwine.errors import Unavailable, UntwineError


def resized(images: UInt8[np.ndarray, "n c h w"], size: int) -> UInt8[np.ndarray, "n c {size} {size}"]:
    """Squares of this size, by Pillow's bilinear filter, which averages where it shrinks (michlo2023 resizes so).

    >>> resized(np.full((2, 3, 8, 8), 7, np.uint8), 4).shape
    (2, 3, 4, 4)
    """
    from PIL import Image

    if size < 1:
        raise UntwineError(f"pictures cannot be resized to {size} pixels; it must be at least 1")
    if images.shape[2:] == (size, size):
        return images
    small = np.empty((*images.shape[:2], size, size), np.uint8)
    for place in np.ndindex(*images.shape[:2]):
        whole = Image.fromarray(np.ascontiguousarray(images[place]))
        small[place] = np.asarray(whole.resize((size, size), Image.Resampling.BILINEAR))
    return small


class Broken(Unavailable):
    """A file whose content does not fit, with the reason on its own."""

    why: object = None


def broken(path: Path, why: object) -> Broken:
    """The error for a file whose content does not fit."""
    error = Broken(f"{path} does not hold what it should: {why}; delete it, and it is fetched or made again")
    error.why = why
    return error


def save(path: Path, shape: tuple[int, ...], parts: Iterable[np.ndarray | bytes]) -> None:
    """Write a .npy file of uint8 from parts that come in order, without ever holding all of it.

    By plain writing, which fails on a full disk where a memory map would end the process.
    """
    with path.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        written = 0
        for part in parts:
            written += file.write(part if isinstance(part, bytes) else np.ascontiguousarray(part, np.uint8).data)
    if written != math.prod(shape):
        raise UntwineError(f"{path} was to hold {list(shape)} pixels, {math.prod(shape)} in all; there were {written}")


def mapped(path: Path, shape: tuple[int, ...]) -> UInt8[np.ndarray, "..."]:
    """The table that `save` wrote, mapped into memory and never changed."""
    try:
        table = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError) as error:  # cut off, or not such a file
        raise broken(path, error) from None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror or error}") from None
    if table.shape != shape or table.dtype != np.uint8 or not table.flags.c_contiguous:
        raise broken(path, f"it holds {table.dtype} {list(table.shape)} instead of uint8 {list(shape)}")
    return table


def gathered(table: Shaped[np.ndarray, "states ..."], numbers: Int64[np.ndarray, " n"]) -> Shaped[np.ndarray, "n ..."]:
    """Some rows of a table that is mapped into memory, in the order of their numbers given.

    The system is told beforehand what will be read, and fetches all of it at once: from a disk that has not seen it
    lately, random pictures come twenty times as fast as one after the other.

    >>> gathered(np.arange(6).reshape(3, 2), np.array([2, 0])).tolist()
    [[4, 5], [0, 1]]
    """
    if isinstance(table, np.memmap) and len(numbers) and hasattr(mmap, "MADV_WILLNEED"):
        mapping: Any = table._mmap  # pyright: ignore[reportAttributeAccessIssue]
        row = table[0].nbytes
        # A memory map begins at a whole page of the file, the table at some byte after it.
        start = table.offset % mmap.ALLOCATIONGRANULARITY
        wanted = np.unique(numbers)
        for run in np.split(wanted, np.flatnonzero(np.diff(wanted) > 1) + 1):
            first, last = start + int(run[0]) * row, start + (int(run[-1]) + 1) * row
            first -= first % mmap.PAGESIZE
            mapping.madvise(mmap.MADV_WILLNEED, first, last - first)
    return np.asarray(table[numbers])

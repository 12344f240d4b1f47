"""Tables of images on disk: written once, mapped into memory, and read a few rows at a time."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped, UInt8

from untwine.data.files.derived import derived
from untwine.data.files.public import broken
from untwine.errors import Unavailable, UntwineError


def cached_table(
    path: str, shape: tuple[int, ...], parts: Callable[[], Iterable[np.ndarray | bytes]], doing: str, hint: str = ""
) -> UInt8[np.ndarray, "..."]:
    """A table of uint8 in the data folder, mapped into memory; it is written on first use.

    Args:
        path: Its path beneath the data folder.
        shape: Its shape.
        parts: Returns the content in order, a part at a time.
        doing: What messages and progress bars call the work ("drawing dSprites").
        hint: Ends the error message where the table cannot be written.
    """
    file = derived(path, lambda target: save(target, shape, parts()), doing, math.prod(shape), hint)
    return mapped(file, shape)


def save(path: Path, shape: tuple[int, ...], parts: Iterable[np.ndarray | bytes]) -> None:
    """Write a .npy file of uint8 from parts that come in order, without holding all of it in memory.

    It uses plain writes: on a full disk they raise an error, where a memory map would crash the process.
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
    """A table that `save` wrote, mapped into memory and read only."""
    try:
        table = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError) as error:  # cut off, or another format
        raise broken(path, error) from None
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror or error}") from None
    if table.shape != shape or table.dtype != np.uint8 or not table.flags.c_contiguous:
        raise broken(path, f"it holds {table.dtype} {list(table.shape)} instead of uint8 {list(shape)}")
    return table


def gathered(table: Shaped[np.ndarray, "states ..."], numbers: Int64[np.ndarray, " n"]) -> Shaped[np.ndarray, "n ..."]:
    """The rows of a memory-mapped table with these numbers, in this order.

    The system is told in advance which pages will be read, and reads them all at once: from a cold disk, random
    images come twenty times faster than one after the other.

    >>> gathered(np.arange(6).reshape(3, 2), np.array([2, 0])).tolist()
    [[4, 5], [0, 1]]
    """
    if isinstance(table, np.memmap) and len(numbers) and hasattr(mmap, "MADV_WILLNEED"):
        mapping: Any = table._mmap  # pyright: ignore[reportAttributeAccessIssue]
        row = table[0].nbytes
        # A memory map begins at a page boundary of the file, the table some bytes after it.
        start = table.offset % mmap.ALLOCATIONGRANULARITY
        wanted = np.unique(numbers)
        for run in np.split(wanted, np.flatnonzero(np.diff(wanted) > 1) + 1):
            first, last = start + int(run[0]) * row, start + (int(run[-1]) + 1) * row
            first -= first % mmap.PAGESIZE
            mapping.madvise(mmap.MADV_WILLNEED, first, last - first)
    return np.asarray(table[numbers])


def resized(images: UInt8[np.ndarray, "n c h w"], size: int) -> UInt8[np.ndarray, "n c {size} {size}"]:
    """The images resized to squares by Pillow's bilinear filter, which averages where it shrinks, as in michlo2023.

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
        channel = Image.fromarray(np.ascontiguousarray(images[place]))
        small[place] = np.asarray(channel.resize((size, size), Image.Resampling.BILINEAR))
    return small

"""The idx format of MNIST, compressed with gzip."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from untwine.data.files.public import broken


def read(path: Path) -> UInt8[np.ndarray, "..."]:
    """The array in a compressed idx file of unsigned bytes."""
    return parse(decompress(path), path)


def decompress(path: Path) -> bytes:
    """The content of a gzip file."""
    try:
        return gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise broken(path, f"it cannot be unpacked ({error})") from None


def parse(content: bytes, path: Path) -> UInt8[np.ndarray, "..."]:
    """The array of an idx file: two zeros, the type, the number of dimensions, the length of each, and the bytes.

    Args:
        content: The file's content, decompressed.
        path: The file, for error messages.

    >>> parse(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]), Path("labels")).tolist()
    [7, 9]
    """
    if len(content) < 4 or content[:2] != b"\0\0":
        raise broken(path, f"it is no idx file and begins with {content[:4].hex(' ') or 'nothing'}, not 00 00 08")
    kind, dimensions = content[2], content[3]
    if kind != 8:
        raise broken(path, f"it holds numbers of type {kind:#04x}, and must hold unsigned bytes (0x08)")
    start = 4 + 4 * dimensions
    if not 1 <= dimensions <= 3:
        raise broken(path, f"it has {dimensions} dimensions, where images have 3 and labels 1")
    if len(content) < start:
        raise broken(path, f"it ends before the lengths of its {dimensions} dimensions")
    shape = tuple(int(length) for length in np.frombuffer(content[4:start], ">u4"))
    size = len(content) - start
    if size != math.prod(shape):
        raise broken(path, f"it has {size:,} bytes of data, and {list(shape)} takes {math.prod(shape):,}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)

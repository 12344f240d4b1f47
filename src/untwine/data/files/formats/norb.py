"""The binary matrix format of the NORB datasets, compressed with gzip."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from untwine.data.files.public import broken

_TYPES = {0x1E3D4C55: np.dtype("<u1"), 0x1E3D4C54: np.dtype("<i4")}  # by the number with which a file begins
_CHUNK = 2**22  # bytes that are read at a time


def parts(path: Path, dtype: str, shape: tuple[int, ...]) -> Iterator[Shaped[np.ndarray, "part ..."]]:
    """The rows of a matrix, some at a time.

    Args:
        path: The compressed file.
        dtype: The type that the matrix must have, `"<u1"` or `"<i4"`.
        shape: The shape that it must have.
    """
    row = np.dtype(dtype).itemsize * math.prod(shape[1:])
    rows = max(1, _CHUNK // row)
    try:
        with gzip.GzipFile(path) as stream:
            kind, sizes = _header(path, stream)
            if (kind, sizes) != (np.dtype(dtype), shape):
                raise broken(path, f"it holds {kind} {list(sizes)} instead of {np.dtype(dtype)} {list(shape)}")
            for start in range(0, shape[0], rows):
                length = min(rows, shape[0] - start)
                content = stream.read(length * row)
                if len(content) < length * row:
                    raise broken(path, f"it ends after {start + len(content) // row} of {shape[0]} rows")
                yield np.frombuffer(content, dtype).reshape(length, *shape[1:])
            if stream.read(1):
                raise broken(path, "more follows than its header says")
    except (OSError, EOFError, zlib.error) as error:
        raise broken(path, error) from None


def _header(path: Path, stream: gzip.GzipFile) -> tuple[np.dtype, tuple[int, ...]]:
    """Type and shape of a matrix. The header has at least three sizes, even for fewer dimensions."""
    start = stream.read(8)
    kind, dimensions = struct.unpack("<Ii", start) if len(start) == 8 else (0, 0)
    if kind not in _TYPES or not 1 <= dimensions <= 8:
        raise broken(path, f"it begins with {start.hex() or 'nothing'}, which no matrix of bytes or whole numbers does")
    sizes = stream.read(4 * max(3, dimensions))
    if len(sizes) < 4 * max(3, dimensions):
        raise broken(path, "it ends in its header")
    return _TYPES[kind], struct.unpack(f"<{dimensions}i", sizes[: 4 * dimensions])

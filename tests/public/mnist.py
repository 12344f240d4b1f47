"""Tiny files of MNIST's format: four gzipped idx files."""

from __future__ import annotations

import gzip
import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from untwine.data.families import mnist as idx
from untwine.data.files.public import File

ARGUMENTS: dict = {}
LENGTH = 40


def publish(folder: Path, patch: pytest.MonkeyPatch, name: str = "mnist") -> None:
    made: dict[str, tuple[File, File]] = {}
    for split, part, count in (("train", "train", LENGTH), ("test", "t10k", 20)):
        labels = (np.arange(count) * 7 + 5) % 10
        # A bar for the class, and a ramp that differs from image to image.
        images = np.zeros((count, 28, 28), int) + np.arange(28) * (np.arange(count)[:, None, None] % 9)
        images[np.arange(count), 2 * labels + 3] = 250 - np.arange(count)[:, None]
        made[split] = (
            write(folder, f"{name}/{part}-images-idx3-ubyte.gz", images),
            write(folder, f"{name}/{part}-labels-idx1-ubyte.gz", labels),
        )
    patch.setitem(idx.FILES, name, made)


def write(folder: Path, path: str, array: np.ndarray) -> File:
    content = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()
    packed = gzip.compress(content, mtime=0)
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(packed)
    return File(path, (f"https://example.org/{path}",), f"md5:{hashlib.md5(packed).hexdigest()}", len(packed))

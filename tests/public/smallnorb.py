"""Tiny files of SmallNORB: two categories with two instances in each split, 96 x 96 by two cameras as published."""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ARGUMENTS: dict[str, Any] = {}
SIZES = (2, 2, 3, 4, 2)  # category, instance, elevation, azimuth, lighting
LENGTH = 96
INSTANCES = {"train": (4, 9), "test": (0, 5)}
MAGIC = {"uint8": 0x1E3D4C55, "int32": 0x1E3D4C54}


def matrix(array: np.ndarray) -> bytes:
    """The binary matrix format: all little-endian, and at least three sizes."""
    sizes = (*array.shape, *(1,) * (3 - array.ndim))
    header = struct.pack(f"<Ii{len(sizes)}i", MAGIC[array.dtype.name], array.ndim, *sizes)
    return header + array.astype(array.dtype.newbyteorder("<")).tobytes()


def labels(split: str) -> np.ndarray:
    """Category, instance, elevation, azimuth and lighting of a split's images, in random order."""
    grid = np.indices(SIZES).reshape(5, -1).T
    grid[:, 1] = np.array(INSTANCES[split])[grid[:, 1]]
    grid[:, 3] *= 2
    return grid[np.argsort((np.arange(len(grid)) * 37 + 11) % len(grid))].astype(np.int32)


def pictures(rows: np.ndarray) -> np.ndarray:
    """The images of both cameras for these labels: gradients with different starts."""
    y, x = np.indices((96, 96))
    start = rows.astype(np.int64) @ np.array([101, 13, 31, 7, 57])
    cameras = (start[:, None] + np.array([0, 90])).astype(np.uint8)
    return cameras[:, :, None, None] + (2 * y + x).astype(np.uint8)  # it wraps around


@functools.cache
def contents(split: str) -> dict[str, bytes]:
    rows = labels(split)
    parts = {"dat": pictures(rows), "cat": np.ascontiguousarray(rows[:, 0]), "info": np.ascontiguousarray(rows[:, 1:])}
    return {part: matrix(array) for part, array in parts.items()}


def write(folder: Path, patch: pytest.MonkeyPatch, changed: dict[tuple[str, str], bytes]) -> None:
    """Write all six files, some with other (compressed) content, and make the loader accept them."""
    module = importlib.import_module("untwine.data.families.smallnorb")
    files = dict(module.FILES)
    for (split, part), file in files.items():
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        content = changed.get((split, part), gzip.compress(contents(split)[part], 1, mtime=0))
        path.write_bytes(content)
        checksum = "md5:" + hashlib.md5(content).hexdigest()
        files[split, part] = replace(file, checksum=checksum, size=len(content))
    patch.setattr(module, "FILES", files)
    patch.setattr(module, "SPACE", replace(module.SPACE, sizes=SIZES))
    patch.setattr(module, "INSTANCES", INSTANCES)


def publish(folder: Path, patch: pytest.MonkeyPatch) -> None:
    write(folder, patch, {})

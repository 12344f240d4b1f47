"""A tiny file of 3D Shapes' format: HDF5 with packed images and their labels."""

from __future__ import annotations

import hashlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from untwine.data.factors import FactorSpace
from untwine.data.families import shapes3d
from untwine.data.files.public import File

ARGUMENTS: dict = {}
SIZES = (2, 3, 2, 2, 4, 2)
LENGTH = 192
PATH = "shapes3d/3dshapes.h5"


def publish(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shapes3d, "SPACE", FactorSpace(shapes3d.SPACE.names, SIZES, shapes3d.SPACE.kinds))
    write(folder, patch, images=images(), labels=labels())


def factors() -> np.ndarray:
    return np.indices(SIZES).reshape(len(SIZES), -1).T


def images() -> np.ndarray:
    """Images with a bar for each factor, whose length and brightness is the value, in different colours."""
    pictures = np.zeros((LENGTH, 64, 64, 3), np.uint8)
    for column, values in enumerate(factors().T):
        for picture, value in zip(pictures, values, strict=True):
            picture[10 * column : 10 * column + 8, : 12 * (value + 1)] = (40 * (value + 1), 20 * column, 200 - value)
    return pictures


def labels() -> np.ndarray:
    """The labels of the states, as in the published file."""
    hues = [np.arange(size) / 10 for size in SIZES[:3]]
    values = [*hues, np.linspace(0.75, 1.25, SIZES[3]), np.arange(SIZES[4]), np.linspace(-30, 30, SIZES[5])]
    return np.stack([one[column] for one, column in zip(values, factors().T, strict=True)], 1).astype(np.float64)


def write(folder: Path, patch: pytest.MonkeyPatch, **arrays: np.ndarray) -> None:
    path = folder / PATH
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            chunks = (min(50, len(array)), *(max(1, side // 4) for side in array.shape[1:]))
            file.create_dataset(key, data=array, chunks=chunks, compression="gzip")
    settle(path, patch)


def settle(path: Path, patch: pytest.MonkeyPatch) -> None:
    """Make the loader accept the file as it is now."""
    content = path.read_bytes()
    checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
    patch.setattr(shapes3d, "FILES", (File(PATH, (f"https://example.org/{path.name}",), checksum, len(content)),))

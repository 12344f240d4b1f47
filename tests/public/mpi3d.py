"""Tiny files of MPI3D: two values of each factor, 64 x 64 in colour as published."""

from __future__ import annotations

import hashlib
import importlib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ARGUMENTS: dict[str, Any] = {}
SIZES = (2, 2, 2, 2, 2, 2, 3)
LENGTH = 192


def images(sizes: tuple[int, ...], variant: str = "real") -> np.ndarray:
    """[states, y, x, channel]: gradients with a different start and slope for each state."""
    states = np.arange(math.prod(sizes))[:, None, None, None] + 10 * len(variant)
    y, x, channel = np.indices((64, 64, 3))
    start, steepness, rest = (states * 7).astype(np.uint8), (states % 5 + 1).astype(np.uint8), x + 31 * channel
    return start + steepness * y.astype(np.uint8) + rest.astype(np.uint8)  # it wraps around


def write(
    folder: Path,
    patch: pytest.MonkeyPatch,
    packed: bool,
    sizes: tuple[int, ...] = SIZES,
    variants: tuple[str, ...] = ("toy", "realistic", "real"),
    **more: Any,
) -> None:
    """Write these variants with `images` and more arrays, and make the loader accept them."""
    module = importlib.import_module("untwine.data.families.mpi3d")
    files = dict(module.FILES)
    for variant in variants:
        file = files[variant]
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {key: array for key, array in {"images": images(sizes, variant), **more}.items() if array is not None}
        (np.savez_compressed if packed else np.savez)(path, **arrays)
        files[variant] = described(file, path)
    patch.setattr(module, "FILES", files)
    patch.setattr(module, "SPACE", replace(module.SPACE, sizes=sizes))


def described(file: Any, path: Path) -> Any:
    """The description of a file, with the checksum of another."""
    content = path.read_bytes()
    return replace(file, checksum="md5:" + hashlib.md5(content).hexdigest(), size=len(content))


def publish(folder: Path, patch: pytest.MonkeyPatch) -> None:
    write(folder, patch, packed=True)

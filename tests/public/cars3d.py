"""A tiny archive of Cars3D: two elevations, four azimuths and six cars, 128 x 128 as published."""

from __future__ import annotations

import functools
import hashlib
import importlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

ARGUMENTS: dict[str, Any] = {}
ELEVATIONS, AZIMUTHS = 2, 4
# In another order than their names have, and than the archive has.
OBJECTS = ["car_007_mesh", "car_002_mesh", "car_011_mesh", "car_001_mesh", "car_010_mesh", "car_004_mesh"]
LENGTH = ELEVATIONS * AZIMUTHS * len(OBJECTS)


def pictures(number: int) -> np.ndarray:
    """The array of a file in the archive: [y, x, channel, azimuth, elevation], a gradient for each view."""
    y, x, channel, azimuth, elevation = np.indices((128, 128, 3, AZIMUTHS, ELEVATIONS), np.uint8, sparse=True)
    return y + 2 * x + 40 * channel + 17 * azimuth + 71 * elevation + np.uint8(29 * number % 256)  # it wraps around


@functools.cache
def mesh(number: int) -> bytes:
    """A MATLAB file of version 5, with masks as in the published files."""
    file = io.BytesIO()
    mask = np.zeros((128, 128, AZIMUTHS, ELEVATIONS), np.uint8)
    savemat(file, {"im": pictures(number), "mask": mask}, format="5", do_compression=True)
    return file.getvalue()


def members() -> dict[str, bytes]:
    """The members of the archive by name, including some that the loader ignores."""
    cars = {
        f"data/cars/{name}.mat": mesh(number) for number, name in sorted(enumerate(OBJECTS), key=lambda one: one[1])
    }
    return {
        "data/sprites/sprites_1.mat": b"not of interest",
        **cars,
        "data/cars/list.txt": "\n".join(OBJECTS).encode() + b"\n",
        "data/shapes48.mat": b"nor this",
    }


def write(folder: Path, patch: pytest.MonkeyPatch, content: Mapping[str, bytes | tarfile.TarInfo]) -> Path:
    """Write an archive of these members, and make the loader accept it."""
    module = importlib.import_module("untwine.data.families.cars3d")
    path = folder / module.FILES[0].path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, value in content.items():
            if isinstance(value, tarfile.TarInfo):
                archive.addfile(value)
                continue
            member = tarfile.TarInfo(name)
            member.size = len(value)
            archive.addfile(member, io.BytesIO(value))
    expect(path, patch)
    return path


def expect(path: Path, patch: pytest.MonkeyPatch) -> None:
    """Make the loader accept the file as the published one, whatever its content."""
    module = importlib.import_module("untwine.data.families.cars3d")
    checksum = "md5:" + hashlib.md5(path.read_bytes()).hexdigest()
    patch.setattr(module, "FILES", (replace(module.FILES[0], checksum=checksum, size=path.stat().st_size),))
    patch.setattr(module, "SPACE", replace(module.SPACE, sizes=(ELEVATIONS, AZIMUTHS, len(OBJECTS))))


def publish(folder: Path, patch: pytest.MonkeyPatch) -> None:
    write(folder, patch, members())

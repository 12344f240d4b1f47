"""Cars3D: 183 car models seen from 24 sides and 4 heights (Reed et al. 2015, "Deep visual analogy-making")."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from jaxtyping import UInt8

from untwine.arguments import Count
from untwine.data.factors import FactorSpace
from untwine.data.files import store
from untwine.data.files.public import File, Public, broken
from untwine.data.files.tables import cached_table, gathered, resized
from untwine.data.specs import dataset
from untwine.data.states import TabledStates
from untwine.progress import track

SPACE = FactorSpace(("elevation", "azimuth", "object"), (4, 24, 183), ("ordered", "cyclic", "categorical"))
FILES = (
    File(
        "cars3d/nips2015-analogy-data.tar.gz",
        (
            "http://www.scottreed.info/files/nips2015-analogy-data.tar.gz",
            "http://www-personal.umich.edu/~reedscot/files/nips2015-analogy-data.tar.gz",
        ),
        "md5:4e866a7919c1beedf53964e6f7a23686",
    ),
)
SIDE = 128
_FOLDER = PurePosixPath("data/cars")
_LIST = "list.txt"
_LARGEST = 2**26  # bytes; a car with its masks takes a tenth of that

PUBLIC = Public(
    files=lambda **arguments: FILES, licence="not stated", examples=SPACE.states, shape=(3, 64, 64), factors=SPACE
)


@dataset(public=PUBLIC)
def cars3d(size: Count = 64) -> TabledStates:
    """Renderings of car models: elevation (4), azimuth (24) and object (183) are the factors.

    Reed et al. 2015. The published images are 128 x 128, in colour on white. They are resized with a bilinear filter on
    first use, and the result is stored in the data folder. Objects are numbered in the order of the archive's list.

    Args:
        size: Width and height in pixels.

    >>> SPACE.names, SPACE.states
    (('elevation', 'azimuth', 'object'), 17568)
    """
    shape = (3, size, size)
    parts = lambda: _by_state(store.fetch(FILES[0]), size)
    table = cached_table(f"cars3d/cars3d-{size}-1.npy", (SPACE.states, *shape), parts, "reading Cars3D")
    return TabledStates(SPACE, shape, partial(gathered, table))


def _by_state(archive: Path, size: int) -> Iterator[UInt8[np.ndarray, "objects 3 {size} {size}"]]:
    """The images of all objects, for each elevation and azimuth in turn."""
    names, cars = _read(archive, size)
    for elevation, azimuth in np.ndindex(*SPACE.sizes[:2]):
        yield np.stack([cars[name][elevation, azimuth] for name in names])


def _read(archive: Path, size: int) -> tuple[list[str], dict[str, np.ndarray]]:
    """The names of the objects in the order of the list, and the images of each, in one pass through the archive.

    The list may come after the cars, so each car is resized and held in memory as it comes.
    """
    names: list[str] | None = None
    cars: dict[str, np.ndarray] = {}
    for name, content in track(_members(archive), "reading Cars3D", SPACE.sizes[2] + 1):
        if name == _LIST:
            names = [line.strip().removesuffix(".mat") for line in content.decode("utf-8", "replace").splitlines()]
            names = [line for line in names if line]
        elif name.removesuffix(".mat") in cars:
            raise broken(archive, f"{name} is in it twice")
        else:
            cars[name.removesuffix(".mat")] = _pictures(archive, name, content, size)
    if names is None:
        raise broken(archive, f"it has no {_FOLDER / _LIST}")
    if len(set(names)) != len(names) or len(names) != SPACE.sizes[2]:
        raise broken(archive, f"{_LIST} names {len(set(names))} objects in {len(names)} lines, not {SPACE.sizes[2]}")
    missing = [name for name in names if name not in cars]
    if missing:
        raise broken(archive, f"it lacks {len(missing)} of the objects in {_LIST}, such as {missing[0]}.mat")
    return names, cars


def _members(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of the list and of each car. Only plain files are read, and nothing is unpacked to disk."""
    try:
        with tarfile.open(archive, "r|gz") as stream:
            for member in stream:
                path = PurePosixPath(member.name)  # without the dots of "./data"
                if path.parent != _FOLDER or not (path.name == _LIST or path.suffix == ".mat") or not member.isreg():
                    continue
                file = stream.extractfile(member)
                if file is None or member.size > _LARGEST:
                    raise broken(archive, f"{member.name} takes {member.size} bytes")
                yield path.name, file.read()
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise broken(archive, error) from None


def _pictures(
    archive: Path, name: str, content: bytes, size: int
) -> UInt8[np.ndarray, "elevations azimuths 3 {size} {size}"]:
    """All images of an object, by elevation and azimuth."""
    images = _array(archive, name, content)
    elevations, azimuths, _ = SPACE.sizes
    expected = (SIDE, SIDE, 3, azimuths, elevations)
    if images.shape != expected or images.dtype != np.uint8:
        actual = f"{images.dtype} {list(images.shape)}"
        raise broken(archive, f"'im' of {name} is {actual} instead of uint8 {list(expected)}")
    by_view = images.transpose(4, 3, 2, 0, 1).reshape(-1, 3, SIDE, SIDE)
    return resized(by_view, size).reshape(elevations, azimuths, 3, size, size)


def _array(archive: Path, name: str, content: bytes) -> Any:
    """The array of images in a MATLAB file."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        variables = loadmat(io.BytesIO(content), variable_names=["im"])
    # The error that a broken file raises depends on where it is broken.
    except (
        ValueError,
        TypeError,
        LookupError,
        OSError,
        EOFError,
        NotImplementedError,
        zlib.error,
        MatReadError,
    ) as error:
        raise broken(archive, f"{name} cannot be read as a MATLAB file ({error})") from None
    if not isinstance(variables.get("im"), np.ndarray):
        raise broken(archive, f"{name} has no array 'im'")
    return variables["im"]

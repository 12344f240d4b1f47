"""SmallNORB: grey pictures of toys from many sides, in many lights (LeCun, Huang & Bottou 2004)."""

from __future__ import annotations

import dataclasses
import gzip
import math
import struct
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Int64, Shaped, UInt8

from untwine.checks import whole
from untwine.data.factors import FactorSpace
from untwine.data.files import store
from untwine.data.files.pictures import broken, gathered, resized
from untwine.data.files.public import File, Public
from untwine.data.specs import dataset
from untwine.data.states import Tabled, kept
from untwine.errors import unknown
from untwine.progress import counter

# That of one split; both together have twice as many instances.
SPACE = FactorSpace(
    ("category", "instance", "elevation", "azimuth", "lighting"),
    (5, 5, 9, 18, 6),
    ("categorical", "categorical", "ordered", "cyclic", "categorical"),
)
# Which toys of each category a split has.
INSTANCES = {"train": (4, 6, 7, 8, 9), "test": (0, 1, 2, 3, 5)}
SIDE = 96
CAMERAS = 2

_NAMES = {"train": "smallnorb-5x46789x9x18x6x2x96x96-training", "test": "smallnorb-5x01235x9x18x6x2x96x96-testing"}
_MD5 = {
    ("train", "dat"): "66054832f9accfe74a0f4c36a75bc0a2",
    ("train", "cat"): "23c8b86101fbf0904a000b43d3ed2fd9",
    ("train", "info"): "51dee1210a742582ff607dfd94e332e3",
    ("test", "dat"): "e4ad715691ed5a3a5f138751a4ceb071",
    ("test", "cat"): "5aa791cd7e6016cf957ce9bdb93b8603",
    ("test", "info"): "a9454f3864d7fd4bb3ea7fc3eb84924e",
}
FILES = {
    (split, part): File(
        f"smallnorb/{_NAMES[split]}-{part}.mat.gz",
        (f"https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/{_NAMES[split]}-{part}.mat.gz",),
        f"md5:{md5}",
    )
    for (split, part), md5 in _MD5.items()
}
_TYPES = {0x1E3D4C55: np.dtype("<u1"), 0x1E3D4C54: np.dtype("<i4")}  # by the number with which a file begins
_AT_ONCE = 2**22  # bytes that are read at a time


def _files(split: str = "train", **arguments: object) -> tuple[File, ...]:
    return tuple(file for (own, _), file in FILES.items() if own in _splits(split))


PUBLIC = Public(
    files=_files,
    licence="research only, not to be sold",
    examples=SPACE.states,
    shape=(1, 64, 64),
    factors=SPACE,
    choices={"split": (*_NAMES, "both")},
)


@dataset(public=PUBLIC)
def smallnorb(split: str = "train", camera: int = 0, size: int = 64) -> Tabled:
    """Toys of 5 categories: category, instance, elevation (9), azimuth (18) and lighting (6) are the factors.

    `split` is `train` or `test`, which have 5 instances of each category each and none in common, or `both`: 10
    instances. Instances are numbered in ascending order of those in the files. Each scene was taken by two cameras
    side by side; `camera` is 0 or 1. The pictures, 96 x 96, are resized to `size` with a bilinear filter, once, and
    kept in the data folder.

    >>> SPACE.names, SPACE.states
    (('category', 'instance', 'elevation', 'azimuth', 'lighting'), 24300)
    >>> smallnorb(split="training")
    Traceback (most recent call last):
    untwine.errors.UntwineError: unknown split of smallnorb 'training'; did you mean 'train'?
    """
    splits = _splits(split)
    whole("camera of smallnorb", camera, 0, CAMERAS - 1)
    whole("size of smallnorb", size, 1)
    space = _space(splits)
    shape = (1, size, size)
    pixels = (space.states, *shape)
    path = f"smallnorb/{split}-{camera}-{size}-1.npy"
    table = kept(path, pixels, lambda: [_table(splits, camera, size)], "reading SmallNORB")
    return Tabled(space, shape, partial(gathered, table))


def _splits(split: str) -> tuple[str, ...]:
    if split != "both" and split not in INSTANCES:
        raise unknown("split of smallnorb", split, (*INSTANCES, "both"))
    return tuple(INSTANCES) if split == "both" else (split,)


def _toys(splits: tuple[str, ...]) -> list[int]:
    return sorted(toy for split in splits for toy in INSTANCES[split])


def _space(splits: tuple[str, ...]) -> FactorSpace:
    sizes = (SPACE.sizes[0], len(_toys(splits)), *SPACE.sizes[2:])
    return dataclasses.replace(SPACE, sizes=sizes)


def _table(splits: tuple[str, ...], camera: int, size: int) -> UInt8[np.ndarray, "states 1 {size} {size}"]:
    """The pictures of one camera, in the order of the states."""
    space, toys = _space(splits), _toys(splits)
    paths = {key: store.fetch(file) for key, file in FILES.items() if key[0] in splits}
    table = np.empty((space.states, 1, size, size), np.uint8)
    with counter("reading SmallNORB", space.states) as count:
        for split in splits:
            factors = _labels(split, paths[split, "cat"], paths[split, "info"])
            factors[:, 1] = np.searchsorted(toys, factors[:, 1])
            numbers = space.index(factors)
            shape = (len(numbers), CAMERAS, SIDE, SIDE)
            for part in _parts(paths[split, "dat"], "<u1", shape):
                these, numbers = np.split(numbers, [len(part)])
                table[these] = resized(part[:, camera, None], size)
                count(len(part))
    return table


def _labels(split: str, cat: Path, info: Path) -> Int64[np.ndarray, "n 5"]:
    """The factors of a split's pictures as they are in its files, except that azimuths are numbered 0 to 17."""
    length = _space((split,)).states
    categories = np.concatenate(list(_parts(cat, "<i4", (length,))))
    details = np.concatenate(list(_parts(info, "<i4", (length, 4))))
    labels = np.column_stack([categories, details]).astype(np.int64)
    values = [np.arange(size) for size in SPACE.sizes]
    values[1], values[3] = np.array(INSTANCES[split]), 2 * values[3]
    for name, column, possible in zip(SPACE.names, labels.T, values, strict=True):
        wrong = ~np.isin(column, possible)
        if wrong.any():
            where = cat if name == SPACE.names[0] else info
            raise broken(where, f"a picture has {name} {column[wrong][0]}, which is none of {possible.tolist()}")
    labels[:, 3] //= 2
    states, counts = np.unique(labels, axis=0, return_counts=True)
    if len(states) != length:  # as many pictures as states, so that where one is missing another is double
        double = dict(zip(SPACE.names, states[counts > 1][0].tolist(), strict=True))
        raise broken(info, f"{length - len(states)} combinations are missing; others are there twice, such as {double}")
    return labels


def _parts(path: Path, dtype: str, shape: tuple[int, ...]) -> Iterator[Shaped[np.ndarray, "part ..."]]:
    """The rows of a matrix, a part at a time, after a look at whether it has this type and shape."""
    row = np.dtype(dtype).itemsize * math.prod(shape[1:])
    at_once = max(1, _AT_ONCE // row)
    try:
        with gzip.GzipFile(path) as stream:
            found = _header(path, stream)
            if found != (np.dtype(dtype), shape):
                raise broken(path, f"it holds {found[0]} {list(found[1])} instead of {np.dtype(dtype)} {list(shape)}")
            for start in range(0, shape[0], at_once):
                length = min(at_once, shape[0] - start)
                content = stream.read(length * row)
                if len(content) < length * row:
                    raise broken(path, f"it ends after {start + len(content) // row} of {shape[0]} rows")
                yield np.frombuffer(content, dtype).reshape(length, *shape[1:])
            if stream.read(1):
                raise broken(path, "more follows than its header says")
    except (OSError, EOFError, zlib.error) as error:
        raise broken(path, error) from None


def _header(path: Path, stream: gzip.GzipFile) -> tuple[np.dtype, tuple[int, ...]]:
    """Type and shape of a matrix. At least three sizes are written, also where it has fewer dimensions."""
    start = stream.read(8)
    kind, dimensions = struct.unpack("<Ii", start) if len(start) == 8 else (0, 0)
    if kind not in _TYPES or not 1 <= dimensions <= 8:
        raise broken(path, f"it begins with {start.hex() or 'nothing'}, which no matrix of bytes or whole numbers does")
    sizes = stream.read(4 * max(3, dimensions))
    if len(sizes) < 4 * max(3, dimensions):
        raise broken(path, "it ends in its header")
    return _TYPES[kind], struct.unpack(f"<{dimensions}i", sizes[: 4 * dimensions])

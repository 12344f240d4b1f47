"""SmallNORB: grey pictures of toys from many sides, in many lights (LeCun, Huang & Bottou 2004)."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8

from untwine.arguments import Count
from untwine.checks import whole
from untwine.data.factors import FactorSpace
from untwine.data.files import store
from untwine.data.files.formats import norb
from untwine.data.files.public import File, Public, broken
from untwine.data.files.tables import cached_table, gathered, resized
from untwine.data.specs import dataset
from untwine.data.states import TabledStates
from untwine.errors import unknown
from untwine.progress import counter

# The factors of one split; both splits together have twice as many instances.
SPACE = FactorSpace(
    ("category", "instance", "elevation", "azimuth", "lighting"),
    (5, 5, 9, 18, 6),
    ("categorical", "categorical", "ordered", "cyclic", "categorical"),
)
# The toys of each category in a split.
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


def _files(split: str = "train", **arguments: object) -> tuple[File, ...]:
    return tuple(file for (part, _), file in FILES.items() if part in _splits(split))


PUBLIC = Public(
    files=_files,
    licence="research only, not to be sold",
    examples=SPACE.states,
    shape=(1, 64, 64),
    factors=SPACE,
    choices={"split": (*_NAMES, "both")},
)


@dataset(public=PUBLIC, selecting=["split"])
def smallnorb(split: str = "train", camera: int = 0, size: Count = 64) -> TabledStates:
    """Toys of 5 categories: category, instance, elevation (9), azimuth (18) and lighting (6) are the factors.

    LeCun, Huang & Bottou 2004. The two splits have 5 instances of each category each, and none in common. Instances are
    numbered in ascending order of their numbers in the files. The published images are 96 x 96; they are resized with a
    bilinear filter on first use, and the result is stored in the data folder.

    Args:
        split: "train", "test", or "both", which has 10 instances.
        camera: 0 or 1; two cameras side by side took each scene.
        size: Width and height in pixels.

    >>> SPACE.names, SPACE.states
    (('category', 'instance', 'elevation', 'azimuth', 'lighting'), 24300)
    >>> smallnorb(split="training")
    Traceback (most recent call last):
    untwine.errors.UntwineError: unknown split of smallnorb 'training'; did you mean 'train'?
    """
    splits = _splits(split)
    whole("camera of smallnorb", camera, 0, CAMERAS - 1)
    space = _space(splits)
    shape = (1, size, size)
    path = f"smallnorb/{split}-{camera}-{size}-1.npy"
    parts = lambda: [_table(splits, camera, size)]
    table = cached_table(path, (space.states, *shape), parts, "reading SmallNORB")
    return TabledStates(space, shape, partial(gathered, table))


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
    """The images of one camera, in the order of their state numbers."""
    space, toys = _space(splits), _toys(splits)
    paths = {key: store.fetch(file) for key, file in FILES.items() if key[0] in splits}
    table = np.empty((space.states, 1, size, size), np.uint8)
    with counter("reading SmallNORB", space.states) as count:
        for split in splits:
            factors = _labels(split, paths[split, "cat"], paths[split, "info"])
            factors[:, 1] = np.searchsorted(toys, factors[:, 1])
            numbers = space.index(factors)
            shape = (len(numbers), CAMERAS, SIDE, SIDE)
            for part in norb.parts(paths[split, "dat"], "<u1", shape):
                part_numbers, numbers = np.split(numbers, [len(part)])
                table[part_numbers] = resized(part[:, camera, None], size)
                count(len(part))
    return table


def _labels(split: str, cat: Path, info: Path) -> Int64[np.ndarray, "n 5"]:
    """The factors of a split's images as its files have them, except that azimuths are numbered 0 to 17."""
    length = _space((split,)).states
    categories = np.concatenate(list(norb.parts(cat, "<i4", (length,))))
    details = np.concatenate(list(norb.parts(info, "<i4", (length, 4))))
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
    if len(states) != length:  # as many images as states: if one is missing, another is double
        double = dict(zip(SPACE.names, states[counts > 1][0].tolist(), strict=True))
        raise broken(info, f"{length - len(states)} combinations are missing; others are there twice, such as {double}")
    return labels

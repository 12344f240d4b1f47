"""MPI3D: a robot arm that holds an object, rendered or photographed (Gondal et al. 2019), and four arms at once."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64, UInt8

from untwine.arguments import Count
from untwine.data.factors import FactorSpace
from untwine.data.families.tiled import Fixed, Tiled, tiled_space
from untwine.data.files import store
from untwine.data.files.formats import npz
from untwine.data.files.places import places
from untwine.data.files.public import File, Public
from untwine.data.files.tables import cached_table, gathered
from untwine.data.specs import dataset
from untwine.data.states import TabledStates
from untwine.errors import unknown

SPACE = FactorSpace(
    ("colour", "shape", "size", "camera", "background", "horizontal", "vertical"),
    (6, 6, 2, 3, 3, 40, 40),
    ("categorical", "categorical", "ordered", "ordered", "categorical", "ordered", "ordered"),
)
# Colours: white, green, red, blue, brown, olive. Shapes: cone, cube, cylinder, hexagonal, pyramid, sphere.
# Sizes: small, large. Cameras: top, centre, bottom. Backgrounds: purple, sea green, salmon.
HELD = {"colour": 3, "shape": 1, "size": 1, "camera": 0, "background": 2}  # fixed in MPI3D-Multi (rhodes2021)
SIDE = 64
_MD5 = {
    "toy": "55889cb7c7dfc655d6e0277beee88868",
    "realistic": "59a6225b88b635365f70c91b3e52f70f",
    "real": "0f33f609918fb5c97996692f91129802",
}
FILES = {
    variant: File(
        f"mpi3d/mpi3d_{variant}.npz",
        (
            f"https://huggingface.co/datasets/waleedgondal/mpi3d/resolve/main/mpi3d_{variant}.npz",
            f"https://storage.googleapis.com/disentanglement_dataset/Final_Dataset/mpi3d_{variant}.npz",
        ),
        f"md5:{md5}",
    )
    for variant, md5 in _MD5.items()
}
_CHUNK = 2**24  # bytes that are unpacked at a time


def _file(variant: str = "real", **arguments: object) -> tuple[File, ...]:
    if variant not in FILES:
        raise unknown("variant of mpi3d", variant, FILES)
    return (FILES[variant],)


PUBLIC = Public(
    files=_file,
    licence="CC BY 4.0",
    examples=SPACE.states,
    shape=(3, SIDE, SIDE),
    factors=SPACE,
    choices={"variant": tuple(_MD5)},
)
MULTI = Public(
    files=_file,
    licence="CC BY 4.0",
    examples=500_000,
    shape=(3, SIDE, SIDE),
    factors=tiled_space(FactorSpace(("horizontal", "vertical"), (40, 40), ("ordered", "ordered")), 4),
    choices={"variant": tuple(_MD5)},
)


@dataset(public=PUBLIC)
def mpi3d(variant: str = "real") -> TabledStates:
    """A robot arm in every position: colour, shape and size of its object, camera, background, and two angles.

    Gondal et al. 2019. Each variant has 1,036,800 colour images, 64 x 64. They take 12.7 GB, of which only the images
    of a batch are read.

    Args:
        variant: "toy" (simple renderings), "realistic" (detailed renderings) or "real" (photographs).

    >>> SPACE.names, SPACE.states
    (('colour', 'shape', 'size', 'camera', 'background', 'horizontal', 'vertical'), 1036800)
    >>> mpi3d("reel")
    Traceback (most recent call last):
    untwine.errors.UntwineError: unknown variant of mpi3d 'reel'; did you mean 'real'?
    """
    (file,) = _file(variant)
    table = _table(file, variant)

    def rows(numbers: Int64[np.ndarray, " n"]) -> UInt8[np.ndarray, "n 3 h w"]:
        return np.ascontiguousarray(gathered(table, numbers).transpose(0, 3, 1, 2))

    return TabledStates(SPACE, (3, SIDE, SIDE), rows)


@dataset(public=MULTI, selecting=["examples", "seed"])
def mpi3d_multi(variant: str = "real", examples: Count = 500_000, seed: int = 0) -> Tiled:
    """MPI3D-Multi (Rhodes & Lee 2021, appendix): four arms side by side that move independently: eight factors.

    Every tile is an image of `mpi3d` with every other pixel dropped. All arms hold a large blue cube, seen from the top
    in front of a salmon background; horizontal1, vertical1, horizontal2, ... are the angles of the arms, row by row.

    Args:
        variant: "toy", "realistic" or "real", as for `mpi3d`.
        examples: The number of training examples to draw.
        seed: The seed of the training examples.

    >>> MULTI.factors.names[:3], MULTI.factors.states == 40**8
    (('horizontal1', 'vertical1', 'horizontal2'), True)
    """
    return Tiled(Fixed(mpi3d(variant), HELD), rows=2, columns=2, stride=2, examples=examples, seed=seed)


# --- the file -------------------------------------------------------------------------------------------


def _shape() -> tuple[int, ...]:
    return (SPACE.states, SIDE, SIDE, 3)


def _table(file: File, variant: str) -> UInt8[np.ndarray, "states h w 3"]:
    """All images, mapped into memory: directly from the archive if it is not compressed, else from an unpacked copy."""
    unpacked = f"mpi3d/{variant}-1.npy"
    if not any((place / unpacked).is_file() for place in places()):
        table = npz.in_place(store.fetch(file), "images", _shape())
        if table is not None:
            return table
    parts = lambda: npz.pixels(store.fetch(file), "images", _shape(), _CHUNK)
    return cached_table(unpacked, _shape(), parts, f"unpacking {file.name}")

"""Every dataset by its name, as in `untwine.datasets.three_dots(examples=1000)`.

>>> three_dots(examples=10).shape
(1, 64, 64)
>>> get("three-dots") is three_dots
True
"""

from __future__ import annotations

from collections.abc import Callable

from untwine.data.contract import Dataset
from untwine.data.families.cars3d import cars3d
from untwine.data.families.dots import three_dots
from untwine.data.families.dsprites import dsprites
from untwine.data.families.images import images
from untwine.data.families.mnist import fashion_mnist, mnist
from untwine.data.families.mpi3d import mpi3d, mpi3d_multi
from untwine.data.families.patches import natural_patches
from untwine.data.families.pinwheel import pinwheel
from untwine.data.families.shapes3d import shapes3d
from untwine.data.families.smallnorb import smallnorb
from untwine.data.families.squares import xy_squares
from untwine.data.families.synthetic import synthetic_linear, synthetic_nonlinear
from untwine.data.families.tiled import tiled
from untwine.data.specs import datasets as _registry

__all__ = [
    "cars3d",
    "dsprites",
    "fashion_mnist",
    "get",
    "images",
    "mnist",
    "mpi3d",
    "mpi3d_multi",
    "names",
    "natural_patches",
    "pinwheel",
    "shapes3d",
    "smallnorb",
    "synthetic_linear",
    "synthetic_nonlinear",
    "three_dots",
    "tiled",
    "xy_squares",
]


def names() -> list[str]:
    """The names of all datasets.

    >>> "three_dots" in names()
    True
    """
    return _registry.names()


def get(name: str) -> Callable[..., Dataset]:
    """The dataset function of this name; a misspelt one is answered with a suggestion."""
    return _registry[name]

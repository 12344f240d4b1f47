"""Every dataset by its name, as in `untwine.datasets.three_dots(examples=1000)`.

>>> three_dots(examples=10).shape
(1, 64, 64)
>>> get("three-dots") is three_dots
True
"""

from __future__ import annotations

from collections.abc import Callable

from untwine.data.dataset import Dataset
from untwine.data.dots import three_dots
from untwine.data.images import images
from untwine.data.pinwheel import pinwheel
from untwine.data.specs import datasets as _registry
from untwine.data.squares import xy_squares
from untwine.data.synthetic import synthetic_linear, synthetic_nonlinear

__all__ = [
    "get",
    "images",
    "names",
    "pinwheel",
    "synthetic_linear",
    "synthetic_nonlinear",
    "three_dots",
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

"""Local samples: a part of a factor space around a centre, itself a factor space (Rhodes & Lee 2021, section 5.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from untwine.data.factors import FactorSpace
from untwine.errors import UntwineError


@dataclass(frozen=True)
class Window:
    """A box of states. `grid` numbers them from 0 on, so whatever samples a factor space samples a window.

    >>> space = FactorSpace(("x", "y"), (64, 64), ("ordered", "ordered"))
    >>> window = around(space, radius=0.1, centre=[2, 32])
    >>> window.low, window.grid.sizes
    ((0, 26), (9, 13))
    >>> window.place(np.array([[8, 12]])).tolist()
    [[8, 38]]
    """

    space: FactorSpace
    low: tuple[int, ...]
    grid: FactorSpace

    def place(self, factors: Int64[np.ndarray, "... k"]) -> Int64[np.ndarray, "... k"]:
        """States of the window's grid as states of the whole space."""
        return (np.array(self.low) + factors) % np.array(self.space.sizes)

    def sample(self, n: int, seed: int, step: int = 0) -> Int64[np.ndarray, "n k"]:
        """`n` states of the space, independent and uniform over the window."""
        return self.place(self.grid.sample(n, seed, step))


def whole(space: FactorSpace) -> Window:
    """The window that is all of a space."""
    return Window(space, (0,) * len(space), space)


def around(
    space: FactorSpace,
    radius: float,
    seed: int = 0,
    step: int = 0,
    centre: Sequence[int] | np.ndarray | None = None,
    freeze_below: int | None = None,
    wrap: bool = False,
) -> Window:
    """The window around a centre, by default `space.centroid(seed, step)`.

    Each ordered or cyclic factor has the values up to `floor(radius * size)` to either side of the centre's,
    cut at the bounds; categorical factors keep the centre's value. With `wrap` the windows of cyclic factors
    go around the end instead of being cut. `freeze_below=10` is the rule of the paper's reference code: a
    factor's size alone decides, whatever its kind, and factors of fewer values keep the centre's.
    """
    if not 0 <= radius < math.inf:
        raise UntwineError(f"the radius of a window is {radius}; it must be 0 or more, such as 0.1")
    centroid = space.centroid(seed, step) if centre is None else space.check(np.asarray(centre)[None])[0]
    sizes = np.array(space.sizes)
    if freeze_below is None:
        free = np.array([kind != "categorical" for kind in space.kinds])
    else:
        free = sizes >= freeze_below
    # 0.29 * 100 is 28.999999999999996: without the small term such windows would be one too narrow.
    half = np.where(free, np.floor(radius * sizes + 1e-9), 0).astype(np.int64)
    _refuse_constant(radius, sizes, free, half)
    low, high = np.maximum(centroid - half, 0), np.minimum(centroid + half, sizes - 1)
    if wrap:
        cyclic = np.array([kind == "cyclic" for kind in space.kinds])
        start, width = centroid - half, np.minimum(2 * half + 1, sizes)  # no value counts twice
        low, high = np.where(cyclic, start, low), np.where(cyclic, start + width - 1, high)
    widths = tuple(int(width) for width in high - low + 1)
    return Window(space, tuple(int(one) for one in low), FactorSpace(space.names, widths, space.kinds))


def _refuse_constant(radius: float, sizes: np.ndarray, free: np.ndarray, half: np.ndarray) -> None:
    """A metric on a window without any variation would be meaningless (0.01 of 64 values is none)."""
    if (half[sizes > 1] >= 1).any():
        return
    movable = sizes[free & (sizes > 1)]
    if not len(movable):
        raise UntwineError("every factor is constant in this window, whatever its radius: all are frozen")
    needed = f"1/{movable.max()} ({math.ceil(1e4 / movable.max()) / 1e4})"
    raise UntwineError(f"every factor is constant in a window of radius {radius}; it must be at least {needed}")

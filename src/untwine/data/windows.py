"""Windows: parts of a factor space around a centre, for local samples (Rhodes & Lee 2021, section 5.3)."""

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
    """A box of states, as a factor space of its own.

    Args:
        space: The space that it is a part of.
        low: The first value of each factor in the window.
        grid: The window's states, numbered from 0: what samples a factor space can sample this grid.

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
        """States of the window's grid as states of the space."""
        return (np.array(self.low) + factors) % np.array(self.space.sizes)

    def sample(self, n: int, seed: int, step: int = 0) -> Int64[np.ndarray, "n k"]:
        """`n` states of the space, independent and uniform over the window."""
        return self.place(self.grid.sample(n, seed, step))


def whole(space: FactorSpace) -> Window:
    """The window that covers a whole space."""
    return Window(space, (0,) * len(space), space)


def around(
    space: FactorSpace,
    radius: float,
    seed: int = 0,
    step: int = 0,
    centre: Sequence[int] | np.ndarray | None = None,
    freeze_below: int | None = None,
    wrap: bool = True,
    vary_categorical: bool = False,
) -> Window:
    """The window around a centre.

    An ordered factor takes the values up to `floor(radius * size)` to either side of the centre's, cut off at the
    bounds. The window of a cyclic factor continues at the other end, and has no value twice. A categorical factor keeps
    the centre's value, as none of its values are neighbours.

    Args:
        space: The factor space.
        radius: The half-width of the window, as a fraction of each factor's size.
        seed: The seed of the centre.
        step: The step of the centre.
        centre: The centre; by default `space.centroid(seed, step)`.
        freeze_below: The rule of the paper's reference code, which uses 10: factors with fewer values than this keep
            the centre's value, and all others vary, whatever their kind. That code never wraps: add `wrap=False`.
        wrap: Whether windows of cyclic factors continue at the other end; False cuts them off like ordered ones.
        vary_categorical: Whether categorical factors take all of their values in every window.

    >>> space = FactorSpace(("angle", "shape"), (40, 3), ("cyclic", "categorical"))
    >>> window = around(space, radius=0.1, centre=[1, 2])
    >>> window.low, window.grid.sizes
    ((37, 2), (9, 1))
    """
    if not 0 <= radius < math.inf:
        raise UntwineError(f"the radius of a window is {radius}; it must be 0 or more, such as 0.1")
    if vary_categorical and freeze_below is not None:
        raise UntwineError("freeze_below says by size which factors vary in a window: leave out vary_categorical")
    centroid = space.centroid(seed, step) if centre is None else space.check(np.asarray(centre)[None])[0]
    sizes, kinds = np.array(space.sizes), np.array(space.kinds)
    free = (kinds != "categorical") | vary_categorical if freeze_below is None else sizes >= freeze_below
    # 0.29 * 100 is 28.999999999999996: without the small term the window would be one value too narrow.
    half = np.where(free, np.floor(radius * sizes + 1e-9), 0).astype(np.int64)
    if vary_categorical:
        half = np.where(kinds == "categorical", sizes, half)  # from the first value to the last, whatever the radius
    _refuse_constant(radius, sizes, free, half)
    low, high = np.maximum(centroid - half, 0), np.minimum(centroid + half, sizes - 1)
    round_the_end = (kinds == "cyclic") & wrap
    low = np.where(round_the_end, (centroid - half) % sizes, low)
    widths = np.where(round_the_end, np.minimum(2 * half + 1, sizes), high - low + 1)  # no value counts twice
    return Window(space, tuple(low.tolist()), FactorSpace(space.names, tuple(widths.tolist()), space.kinds))


def _refuse_constant(radius: float, sizes: np.ndarray, free: np.ndarray, half: np.ndarray) -> None:
    """Refuse a window in which nothing varies, as metrics would be meaningless (0.01 of 64 values is less than one)."""
    if (half[sizes > 1] >= 1).any():
        return
    movable = sizes[free & (sizes > 1)]
    if not len(movable):
        raise UntwineError("every factor is constant in this window, whatever its radius: all are frozen")
    needed = f"1/{movable.max()} ({math.ceil(1e4 / movable.max()) / 1e4})"
    raise UntwineError(f"every factor is constant in a window of radius {radius}; it must be at least {needed}")

"""XYSquares: three squares on a grid, the adversarial dataset of Michlo et al. 2023 (sections 5.1 and 5.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int64, UInt8

from untwine.data.factors import FactorSpace
from untwine.data.specs import dataset
from untwine.data.states import AllStates
from untwine.errors import UntwineError
from untwine.room import refuse_larger

if TYPE_CHECKING:
    from torch import Tensor

_COLOURS = "RGB"


@dataset
def xy_squares(spacing: int = 8, size: int = 64, square: int = 8, positions: int = 8) -> Squares:
    """A red, a green and a blue square, each in its own channel, on a grid of 8 by 8 positions.

    Michlo et al. 2023, section 5.1: with a spacing as wide as the squares, no two positions overlap, so all
    images that differ in one factor are equally far apart for a pixel loss, which then cannot order them.
    Section 5.4: a smaller spacing moves the same number of positions closer together, until they overlap.

    The factors are x_R, y_R, x_G, y_G, x_B, y_B, x to the right and y downwards. Along an axis, a square
    begins at pixel `offset + spacing * factor`. The grid takes (positions - 1) * spacing + square pixels, and
    the offset is half of the rest; if the rest is odd (with the defaults, for an odd spacing), the smaller
    half is at the left and at the top. The training examples are all 8^6 states, each once, in the order of
    their numbers.

    Args:
        spacing: Pixels from one position to the next; 1 to 8 with the other defaults.
        size: Width and height in pixels.
        square: Width and height of a square in pixels.
        positions: The number of values of x and y of a square.

    >>> data = xy_squares()
    >>> data.shape, len(data), data.factors.names
    ((3, 64, 64), 262144, ('x_R', 'y_R', 'x_G', 'y_G', 'x_B', 'y_B'))
    >>> red, green, blue = data.observe([[7, 0, 0, 0, 0, 0]])[0]
    >>> red[0, 56], red[0, 55], blue[0, 0]
    (np.uint8(255), np.uint8(0), np.uint8(255))
    """
    if min(size, square) < 1 or positions < 2:
        raise UntwineError(
            f"xy_squares: size {size} and square {square} must be at least 1, and positions {positions} at least 2"
        )
    refuse_larger(positions * size, f"xy_squares: an image {size:,} pixels wide", "take a smaller size")
    widest = (size - square) // (positions - 1)
    if widest < 1:
        raise UntwineError(f"xy_squares: {size} pixels are too few for {positions} positions of a square of {square}")
    if not 1 <= spacing <= widest:
        raise UntwineError(
            f"xy_squares: spacing is {spacing}; for {positions} positions of a square of {square} in {size} pixels "
            f"it must be from 1 to {widest}"
        )
    return Squares(spacing, size, square, positions)


class Squares(AllStates):
    """Draws a square as the intersection of a horizontal and a vertical stripe, in NumPy and in torch."""

    def __init__(self, spacing: int, size: int, square: int, positions: int) -> None:
        names = tuple(f"{axis}_{colour}" for colour in _COLOURS for axis in "xy")
        space = FactorSpace(names, (positions,) * len(names), ("ordered",) * len(names))
        super().__init__((len(_COLOURS), size, size), space)
        offset = (size - (positions - 1) * spacing - square) // 2
        first = offset + spacing * np.arange(positions)[:, None]
        pixels = np.arange(size)
        inside = (pixels >= first) & (pixels < first + square)
        # [positions, size]: 255 where a square at this position lies along one axis.
        self._stripes = np.where(inside, 255, 0).astype(np.uint8)

    def _observe(self, factors: Int64[np.ndarray, "n k"]) -> UInt8[np.ndarray, "n 3 size size"]:
        x, y = self._stripes[factors[:, 0::2]], self._stripes[factors[:, 1::2]]
        return y[..., :, None] & x[..., None, :]

    def draw(self, factors: Tensor) -> Tensor:
        """`observe` on the device of the factors `[n, 6]`: uint8 `[n, 3, size, size]`, the same pixels.

        >>> import torch
        >>> data = xy_squares()
        >>> states = data.factors_of([3, 200_000])
        >>> bool((data.draw(torch.from_numpy(states)).numpy() == data.observe(states)).all())
        True
        """
        import torch

        assert self.factors is not None
        if factors.ndim != 2 or factors.shape[1] != len(self.factors) or factors.is_floating_point():
            got = f"{factors.dtype} {list(factors.shape)}"
            raise UntwineError(f"draw needs int64 factors [n, {len(self.factors)}]; got {got}")
        if len(factors):
            low, high, last = int(factors.min()), int(factors.max()), len(self._stripes) - 1
            if low < 0 or high > last:
                raise UntwineError(f"draw needs factors from 0 to {last}; got {low} to {high}")
        stripes = torch.from_numpy(self._stripes).to(factors.device)
        x, y = stripes[factors[:, 0::2].long()], stripes[factors[:, 1::2].long()]
        return y[..., :, None] & x[..., None, :]

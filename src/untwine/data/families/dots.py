"""Three-dots: identical black dots on white, the benchmark of Rhodes & Lee 2021 (its appendix B)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Int64, UInt8
from numpy.lib.stride_tricks import sliding_window_view

from untwine.data.drawing.discs import FINE, STYLES, Grid, Spans
from untwine.data.factors import FactorSpace
from untwine.data.specs import dataset
from untwine.data.states import SampledStates
from untwine.errors import UntwineError
from untwine.room import refuse_larger

if TYPE_CHECKING:
    from torch import Tensor, device

_WHITE = 255
_MOST = 1_000  # dots
# The shade by the number of covered subpixels. Multiplication comes before division, so that halves (25.5, 76.5, ...)
# are exact and round to even.
_SHADES = np.round(_WHITE * np.arange(FINE**2, -1, -1) / FINE**2).astype(np.uint8)
# Marks a pixel that two dots cover in part. No count of subpixels has this shade (they go 0, 3, 5, ...), and it lies
# between black and every partial shade, so that taking the minimum keeps it.
_CLASH = 1


@dataset(added=["style"], selecting=["examples", "seed"])
def three_dots(
    size: int = 64,
    dots: int = 3,
    positions: int = 64,
    radius: float = 0.08,
    examples: int = 500_000,
    seed: int = 0,
    style: Literal["exact", "opencv"] = "exact",
) -> Dots:
    """Identical black dots anywhere on a white square; x and y of each dot are the factors x1, y1, x2, ...

    A dot's centre lies at `factor / (positions - 1)` of the width, x to the right and y downwards, and its
    radius is a fraction of the width, so dots at the border are cut off. The image is drawn at ten times the
    size and averaged down: a subpixel is black when its centre is at most the radius away from the centre
    of any dot. So overlapping dots merge exactly. The uint8 pixel is round(255 * fraction of white), half to
    even. The training examples are states drawn once, independent and uniform.

    The code of rhodes2021 draws its dots by OpenCV, which makes them a little larger (a radius of 5.165 px instead
    of 5.12) and .05 px further to the right and down: `style="opencv"` draws the same subpixels as that code.

    Args:
        size: Width and height in pixels.
        dots: The number of dots.
        positions: The number of values of x and y of a dot.
        radius: The radius of a dot as a fraction of the width.
        examples: The number of training examples to draw.
        seed: The seed of the training examples.
        style: exact circles, or those of opencv.

    >>> data = three_dots(examples=10)
    >>> data.factors.names, data.factors.states == 64**6
    (('x1', 'y1', 'x2', 'y2', 'x3', 'y3'), True)
    >>> picture = data.observe([[0, 0, 0, 0, 63, 63]])[0, 0]
    >>> picture[0, 0], picture[63, 63], picture[63, 0]
    (np.uint8(0), np.uint8(0), np.uint8(255))
    """
    if min(size, dots, examples) < 1 or positions < 2:
        raise UntwineError(
            f"three_dots: size {size}, dots {dots} and examples {examples} must be at least 1, "
            f"and positions {positions} at least 2"
        )
    if dots > _MOST:
        raise UntwineError(f"three_dots: {dots:,} dots are too many for a picture; draw {_MOST:,} at most")
    if not 0 < radius <= 1:
        raise UntwineError(f"three_dots: radius is {radius}; it is a fraction of the width, above 0, at most 1")
    grid = Grid(size, positions, radius)
    refuse_larger(
        (positions * grid.patch) ** 2,
        f"three_dots: dots at {positions:,} positions",
        "take fewer positions, or a smaller size",
    )
    return Dots(grid, dots, examples, seed, style)


class Dots(SampledStates):
    """Draws dots by pasting precomputed patches, and counts subpixels only where two edges meet.

    What a dot covers is a table of whole numbers, so NumPy and torch agree bit for bit on every platform.
    """

    def __init__(self, grid: Grid, dots: int, examples: int, seed: int, style: str) -> None:
        names = tuple(f"{axis}{dot + 1}" for dot in range(dots) for axis in "xy")
        space = FactorSpace(names, (grid.positions,) * len(names), ("ordered",) * len(names))
        super().__init__((1, grid.size, grid.size), examples, space, seed)
        self._size, self._dots, self._positions, self._patch = grid.size, dots, grid.positions, grid.patch
        self._first = grid.first()
        # How far patches reach beyond the image.
        self._margin = max(-int(self._first[0]), int(self._first[-1]) + grid.patch - grid.size)
        self._grid, self._style = grid, style
        self._tables: dict[device, tuple[Tensor, ...]] = {}

    # --- tables ---------------------------------------------------------------------------------------

    @cached_property
    def _spans(self) -> Spans:
        return STYLES[self._style](self._grid)

    @cached_property
    def _patches(self) -> UInt8[np.ndarray, "positions positions patch patch"]:
        """A single dot, for every y and x: the pixels from `_first` on, including those outside the image."""
        positions, patch = self._positions, self._patch
        start = FINE * (self._first[:, None] + np.arange(patch))[:, None]  # [x, 1, patch column]
        table = np.empty((positions, positions, patch, patch), np.uint8)
        for y in range(positions):
            left, right = (ends[y, :, :-1, None] for ends in (self._spans.left, self._spans.right))
            covered = np.minimum(right + 1, start + FINE) - np.maximum(left, start)  # [x, subpixel row, patch column]
            table[y] = _SHADES[covered.clip(0).reshape(positions, patch, FINE, patch).sum(2)]
        return table

    # --- NumPy ----------------------------------------------------------------------------------------

    def _observe(self, factors: Int64[np.ndarray, "n k"]) -> UInt8[np.ndarray, "n 1 size size"]:
        pictures = np.empty((len(factors), *self.shape), np.uint8)
        chunk = max(1, 2**23 // (self._size + 2 * self._margin) ** 2)  # stays in the processor's cache
        for start in range(0, len(factors), chunk):
            self._draw_chunk(factors[start : start + chunk], pictures[start : start + chunk, 0])
        return pictures

    def _draw_chunk(self, factors: Int64[np.ndarray, "n k"], pictures: UInt8[np.ndarray, "n size size"]) -> None:
        margin, patch, count = self._margin, self._patch, np.arange(len(factors))
        side = self._size + 2 * margin
        canvas = np.full((len(factors), side, side), _WHITE, np.uint8)
        windows = sliding_window_view(canvas, (patch, patch), axis=(1, 2), writeable=True)
        corners = self._first[factors] + margin
        for dot in range(self._dots):
            x, y = 2 * dot, 2 * dot + 1
            place = count, corners[:, y], corners[:, x]
            windows[place] = _paste(windows[place], self._patches[factors[:, y], factors[:, x]])
        pictures[:] = canvas[:, margin:-margin, margin:-margin]
        # A one-dimensional search is several times faster than np.nonzero in three dimensions.
        flat = pictures.reshape(-1)
        clashes = np.flatnonzero(flat == _CLASH)
        picture, row, column = np.unravel_index(clashes, pictures.shape)
        tables = self._first, self._spans.left, self._spans.right
        inside = self._covered(factors[picture], row, column, np.arange(FINE), *tables)
        flat[clashes] = _SHADES[inside.sum((1, 2))]

    def _covered(self, states: Any, row: Any, column: Any, fine: Any, first: Any, left: Any, right: Any) -> Any:
        """Which subpixels of pixels are covered by any dot, in NumPy or torch: `[n, subpixel row, subpixel column]`.

        Args:
            states: The state of each pixel's image.
            row: The rows of the pixels.
            column: Their columns.
            fine: The numbers of subpixels in a pixel.
            first: The first pixel of each position's patch.
            left: Where the spans of a dot begin.
            right: Where they end.
        """
        columns = FINE * column[:, None, None] + fine
        inside = columns < 0
        for dot in range(self._dots):
            x, y = states[:, 2 * dot], states[:, 2 * dot + 1]
            # Rows outside of the patch are its last one, which is empty.
            rows = (FINE * (row - first[y])[:, None] + fine).clip(-1, FINE * self._patch)
            spans = y[:, None], x[:, None], rows
            inside = inside | ((left[spans][..., None] <= columns) & (columns <= right[spans][..., None]))
        return inside

    # --- torch ----------------------------------------------------------------------------------------

    def draw(self, factors: Tensor) -> Tensor:
        """`observe` on the device of the factors `[n, k]`: uint8 `[n, 1, size, size]`, the same pixels.

        >>> import torch
        >>> data = three_dots(examples=10)
        >>> states = data.factors_of([3, 4])
        >>> bool((data.draw(torch.from_numpy(states)).numpy() == data.observe(states)).all())
        True
        """
        import torch

        if factors.ndim != 2 or factors.shape[1] != 2 * self._dots or factors.is_floating_point():
            got = f"{factors.dtype} {list(factors.shape)}"
            raise UntwineError(f"draw needs int64 factors [n, {2 * self._dots}]; got {got}")
        if len(factors):
            low, high = int(factors.min()), int(factors.max())
            if low < 0 or high >= self._positions:
                raise UntwineError(f"draw needs factors from 0 to {self._positions - 1}; got {low} to {high}")
        chunk = max(1, 2**25 // self._size**2)
        drawn = [self._draw_tensor(part) for part in factors.long().split(chunk)]
        return torch.cat(drawn) if len(drawn) != 1 else drawn[0]

    def _draw_tensor(self, factors: Tensor) -> Tensor:
        import torch

        patches, shades, first, left, right = self._tables_on(factors.device)
        patch = self._patch
        # Gathering every pixel suits a GPU better than pasting patches. Beyond its end a patch is white.
        pixels = torch.arange(self._size, device=factors.device)
        offset = pixels - first[factors][..., None]
        offset = torch.where((offset >= 0) & (offset < patch), offset, patch)
        shape = len(factors), self._size, self._size
        pictures = torch.full(shape, _WHITE, dtype=torch.uint8, device=factors.device)
        for dot in range(self._dots):
            x, y = 2 * dot, 2 * dot + 1
            row = (factors[:, y] * self._positions + factors[:, x])[:, None] * (patch + 1) + offset[:, y]
            shade = patches[row[:, :, None] * (patch + 1) + offset[:, x, None, :]]
            darker, lighter = torch.minimum(pictures, shade), torch.maximum(pictures, shade)
            pictures = darker.masked_fill((darker > 0) & (lighter < _WHITE), _CLASH)
        picture, row, column = (pictures == _CLASH).nonzero(as_tuple=True)
        fine = torch.arange(FINE, device=factors.device)
        inside = self._covered(factors[picture], row, column, fine, first, left, right)
        pictures[picture, row, column] = shades[inside.sum((1, 2))]
        return pictures[:, None]

    def _tables_on(self, device: device) -> tuple[Tensor, ...]:
        import torch

        if device not in self._tables:
            edged = np.pad(self._patches, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=_WHITE)
            tables = (edged.reshape(-1), _SHADES, self._first, self._spans.left, self._spans.right)
            self._tables[device] = tuple(torch.from_numpy(table).to(device) for table in tables)
        return self._tables[device]


def _paste(
    under: UInt8[np.ndarray, "n patch patch"], dot: UInt8[np.ndarray, "n patch patch"]
) -> UInt8[np.ndarray, "n patch patch"]:
    """A dot on top of others: white is transparent, black wins, and two partial shades are marked as a clash."""
    darker, lighter = np.minimum(under, dot), np.maximum(under, dot)
    darker[(darker > 0) & (lighter < _WHITE)] = _CLASH
    return darker

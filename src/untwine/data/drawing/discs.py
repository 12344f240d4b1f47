"""Which subpixels a dot covers, for every position of its centre: an exact circle, or the polygon of OpenCV."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Int32, Int64

FINE = 10  # subpixels along each side of a pixel

Numbers: TypeAlias = Int64[np.ndarray, "..."]


@dataclass(frozen=True)
class Grid:
    """Where the centres of dots lie: at `position / (positions - 1)` of the width, along both axes.

    Args:
        size: The width of an image in pixels.
        positions: The number of positions along an axis.
        radius: The radius of a dot as a fraction of the width.
    """

    size: int
    positions: int
    radius: float

    @property
    def reach(self) -> Fraction:
        """The radius in pixels: of the decimal that the user wrote, not of its binary approximation."""
        return Fraction(repr(self.radius)) * self.size

    @property
    def patch(self) -> int:
        """The number of pixels that a dot can touch along one axis, half a subpixel beyond its radius included."""
        return math.ceil(2 * self.reach + Fraction(1, FINE)) + 1

    def first(self) -> Int64[np.ndarray, " positions"]:
        """The first pixel of each position's patch, along either axis."""
        low = self.reach + Fraction(1, 2 * FINE)
        centres = (Fraction(position * self.size, self.positions - 1) for position in range(self.positions))
        return np.array([math.floor(centre - low) for centre in centres])


@dataclass(frozen=True)
class Spans:
    """The subpixels of a dot, which is convex: from `left` to `right` in each of its rows, both included.

    The rows of a patch come first, then one that is empty. An empty row has its right end before its left one.
    """

    left: Int32[np.ndarray, "y x row"]
    right: Int32[np.ndarray, "y x row"]


def _no_spans(grid: Grid) -> Spans:
    shape = grid.positions, grid.positions, FINE * grid.patch + 1
    return Spans(np.full(shape, FINE * grid.size, np.int32), np.full(shape, -1, np.int32))


# --- an exact circle --------------------------------------------------------------------------------


def circle(grid: Grid) -> Spans:
    """The subpixels whose centres are at most the radius away from the centre of the dot.

    All computation is in integers, in units of 1 / (2 * 10 * (positions - 1)) pixel.
    """
    unit = 2 * (grid.positions - 1)  # the width of a subpixel
    limit = math.floor((grid.reach * FINE * unit) ** 2)
    centres = 2 * FINE * grid.size * np.arange(grid.positions)
    rows = FINE * grid.first()[:, None] + np.arange(FINE * grid.patch)
    rest = limit - ((2 * rows + 1) * unit // 2 - centres[:, None]) ** 2
    half = np.array([math.isqrt(value) if value >= 0 else -1 for value in rest.flat]).reshape(rest.shape)
    spans, middle, widths = _no_spans(grid), centres[None, :, None] - unit // 2, half[:, None, :]
    inside = np.broadcast_to(widths >= 0, spans.left[..., :-1].shape)
    np.copyto(spans.left[..., :-1], -((widths - middle) // unit), "same_kind", inside)
    np.copyto(spans.right[..., :-1], (middle + widths) // unit, "same_kind", inside)
    return spans


# --- the polygon of OpenCV --------------------------------------------------------------------------

_ONE = 1 << 16  # vertices are in fixed point with 16 binary places; whole numbers are the centres of subpixels
_CALL = 1 << 10  # the centre and the radius are given with 10 binary places
_DEGREES = ((3, 90), (10, 30), (15, 18))  # between vertices, for a radius of fewer than so many subpixels; else 5

# Subpixels of one edge, for each dot: their columns, their rows, and for which dots there are any.
Marks: TypeAlias = Iterator[tuple[Numbers, Numbers, Bool[np.ndarray, "..."]]]


def polygon(grid: Grid) -> Spans:
    """The subpixels that OpenCV fills when the code of rhodes2021 draws a circle on a canvas of ten times the size.

    The circle is a polygon with a vertex every five degrees. Its edges are marked twice: as lines, which are cut to
    the canvas and go by whole steps along their longer axis, and as the outline of a filled shape, row by row. Neither
    accounts for where in its subpixel an edge starts, so that a dot reaches about half a subpixel beyond its
    radius; and since whole coordinates are centres, it lies half a subpixel further to the right and down.
    """
    spans, fine = _no_spans(grid), FINE * grid.size
    axis = np.arange(grid.positions)
    y, x = (index.ravel() for index in np.meshgrid(axis, axis, indexing="ij"))
    top = FINE * grid.first()[y]
    across, down = _vertices(grid)
    for vertex in range(across.shape[1]):
        edge = across[x, vertex - 1], down[y, vertex - 1], across[x, vertex], down[y, vertex]
        for columns, rows, marked in itertools.chain(_line(*edge, fine * _ONE - 1), _outline(*edge)):
            marked = marked & (rows >= 0) & (rows < fine)
            place, column = (y[marked], x[marked], (rows - top)[marked]), columns[marked].astype(np.int32)
            np.minimum.at(spans.left, place, column)
            np.maximum.at(spans.right, place, column)
    return spans


def _vertices(grid: Grid) -> tuple[Numbers, Numbers]:
    """The coordinates of the vertices for each position of the centre: to the right, and downwards."""
    width = grid.size * (np.arange(grid.positions) / (grid.positions - 1))
    centres = np.floor(width * FINE * _CALL) * (_ONE // _CALL)
    radius = int(grid.size * grid.radius * FINE * _CALL) * (_ONE // _CALL)
    subpixels = (radius + _ONE // 2) // _ONE
    step = next((degrees for limit, degrees in _DEGREES if subpixels < limit), 5)
    angles = np.radians(np.arange(0, 361, step))
    # Sines come from a table with seven decimals in single precision.
    cosines, sines = (np.round(f(angles), 7).astype(np.float32).astype(np.float64) for f in (np.cos, np.sin))
    across, down = (np.rint(centres[:, None] + radius * values).astype(np.int64) for values in (cosines, sines))
    return across, down


def _line(x1: Numbers, y1: Numbers, x2: Numbers, y2: Numbers, last: int) -> Marks:
    """The marks of lines, cut to coordinates from 0 to `last`."""
    seen = ~_beyond(y1, y2, last) & ~_beyond(x1, x2, last)
    y1, x1, y2, x2 = _cut(y1, x1, y2, x2, last)
    seen &= ~_beyond(x1, x2, last)
    x1, y1, x2, y2 = _cut(x1, y1, x2, y2, last)
    flat = abs(x2 - x1) > abs(y2 - y1)
    back = np.where(flat, x2 < x1, y2 < y1)
    x1, x2, y1, y2 = (np.where(back, *pair) for pair in ((x2, x1), (x1, x2), (y2, y1), (y1, y2)))
    length, rise = np.where(flat, x2 - x1, y2 - y1), np.where(flat, y2 - y1, x2 - x1)
    slope = _quotient(rise * _ONE, length | 1)
    yield _rounded(x2), _rounded(y2), seen
    for step in range(length.max() // _ONE + 1):
        along, aside = step * _ONE, step * slope
        columns, rows = _rounded(x1 + np.where(flat, along, aside)), _rounded(y1 + np.where(flat, aside, along))
        yield columns, rows, seen & (along <= length)


def _outline(x1: Numbers, y1: Numbers, x2: Numbers, y2: Numbers) -> Marks:
    """The marks of the edges of a filled shape, one in each row but the last."""
    upwards = y2 < y1
    x1, x2, y1, y2 = (np.where(upwards, *pair) for pair in ((x2, x1), (x1, x2), (y2, y1), (y1, y2)))
    top = _rounded(y1)
    height = _rounded(y2) - top
    slope = _quotient(2 * (x2 - x1) + height, 2 * height)
    for step in range(height.max()):
        yield _rounded(x1 + step * slope), top + step, step < height


def _cut(
    along1: Numbers, aside1: Numbers, along2: Numbers, aside2: Numbers, last: int
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Both ends of lines, moved along the line to where one coordinate is from 0 to `last`: the first end first."""
    inside = along1.clip(0, last)
    aside1 = aside1 + _quotient((inside - along1) * (aside2 - aside1), along2 - along1)
    along1, inside = inside, along2.clip(0, last)
    aside2 = aside2 + _quotient((inside - along2) * (aside2 - aside1), along2 - along1)
    return along1, aside1, inside, aside2


def _beyond(first: Numbers, second: Numbers, last: int) -> Bool[np.ndarray, "..."]:
    """Whether both ends of a line lie beyond the same border."""
    return (np.maximum(first, second) < 0) | (np.minimum(first, second) > last)


def _rounded(value: Numbers) -> Numbers:
    """The subpixel of a coordinate."""
    return (value + _ONE // 2) // _ONE


def _quotient(numerator: Numbers, denominator: Numbers) -> Numbers:
    """Whole quotients rounded towards 0, and 0 where the denominator is."""
    sign = np.sign(numerator) * np.sign(denominator)
    return sign * (abs(numerator) // np.maximum(abs(denominator), 1))


STYLES: dict[str, Callable[[Grid], Spans]] = {"exact": circle, "opencv": polygon}

"""Where in an image a column of the decoder's Jacobian acts: its spread, and its share in one region."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike

from untwine.analysis.arrays import Integer, finite_array
from untwine.arguments import checked
from untwine.checks import as_array
from untwine.errors import UntwineError
from untwine.room import refuse_larger


@checked()
def column_energy(columns: ArrayLike) -> Float64[np.ndarray, "*batch"]:
    """The squared norm of each column.

    Args:
        columns: `[..., channels, y, x]`, as `ensemble.jacobian` returns.

    >>> column_energy(np.full((2, 1, 4, 4), 3.0)).tolist()
    [144.0, 144.0]
    """
    return np.asarray((_images(columns) ** 2).sum((-3, -2, -1)))


@checked()
def mean_by_energy(values: ArrayLike, columns: ArrayLike) -> float:
    """The mean of a number of each column, weighted by the columns' energy: those of unused latents hardly count.

    Where no column has any energy, as in a decoder that ignores its latents, all count alike.

    Args:
        values: A number for each column, `[...]`, such as its spread.
        columns: `[..., channels, y, x]`, as `ensemble.jacobian` returns.

    >>> mean_by_energy([1.0, 5.0], np.array([2.0, 0.0])[:, None, None, None] * np.ones((2, 1, 4, 4)))
    1.0
    """
    energy = column_energy(columns)
    numbers = finite_array(values, "values", 0)
    if numbers.shape != energy.shape:
        raise UntwineError(f"values have shape {list(numbers.shape)} for columns {list(energy.shape)}: not the same")
    return float(np.average(numbers, weights=energy if energy.any() else None))


@checked()
def column_spread(columns: ArrayLike) -> Float64[np.ndarray, "*batch"]:
    """How far a column reaches: the deviation of its energy from its centre, over that of a uniform image.

    It is 0 for a single pixel, 1 for a column that acts everywhere alike, and more for one that acts at opposite ends.
    A column of zeros counts as uniform.

    Args:
        columns: `[..., channels, y, x]`, as `ensemble.jacobian` returns.

    >>> pixel = np.zeros((1, 8, 8))
    >>> pixel[0, 2, 3] = -5.0
    >>> column_spread([pixel, np.ones((1, 8, 8))]).round(6).tolist()
    [0.0, 1.0]
    """
    shares = _shares(columns)
    height, width = shares.shape[-2:]
    if height * width == 1:
        raise UntwineError("an image of one pixel has no spread")
    variance = np.zeros(shares.shape[:-2])
    for size, axis in ((height, -1), (width, -2)):
        along, places = shares.sum(axis), np.arange(size)
        mean = (along * places).sum(-1, keepdims=True)
        variance = variance + (along * (places - mean) ** 2).sum(-1)
    return np.asarray(np.sqrt(variance / ((height**2 + width**2 - 2) / 12)))


@checked()
def largest_share(columns: ArrayLike, regions: ArrayLike) -> Float64[np.ndarray, "*batch"]:
    """The share of a column's energy that lies in one region: that in which it acts most.

    It is 1 for a column that changes one object alone, and 1 / n for one that changes n objects alike. A column of
    zeros counts as uniform.

    Args:
        columns: `[..., channels, y, x]`, as `ensemble.jacobian` returns.
        regions: The number of each pixel's region, from 0 on: `[y, x]`, or whatever broadcasts with `[..., y, x]`.
            `nearest_regions` and `tile_regions` make them.

    >>> column = np.zeros((1, 4, 4))
    >>> column[0, 0, 0], column[0, 3, 3] = 3.0, 1.0
    >>> float(largest_share(column, tile_regions(2, 2, 4, 4)))
    0.9
    """
    shares, places = _shares(columns), as_array(regions)
    if not np.issubdtype(places.dtype, np.integer) or places.size == 0 or places.min() < 0:
        raise UntwineError("regions are whole numbers, 0 or more, one for each pixel")
    try:
        together = np.broadcast_shapes(shares.shape, places.shape)
    except ValueError:
        together = ()
    if together != shares.shape:
        raise UntwineError(
            f"regions have shape {list(places.shape)} for columns of {list(shares.shape)}: they must broadcast with it"
        )
    by_region = [(shares * (places == number)).sum((-2, -1)) for number in np.unique(places)]
    return np.asarray(np.max(by_region, axis=0))


@checked()
def nearest_regions(centres: ArrayLike, height: Integer, width: Integer) -> Int64[np.ndarray, "*batch y x"]:
    """The number of the nearest of several centres, for each pixel; of two that are as near, the first.

    Args:
        centres: x and y of each centre in pixels, `[..., centres, 2]`; (0, 0) is the upper left corner of the image.
        height: The image's height in pixels.
        width: Its width.

    >>> nearest_regions([[0.0, 1.0], [4.0, 1.0]], height=2, width=4).tolist()
    [[0, 0, 1, 1], [0, 0, 1, 1]]
    """
    places = finite_array(centres, "centres", 2)
    if places.shape[-1] != 2:
        raise UntwineError(f"centres have shape {list(places.shape)}; they must be [..., centres, 2]: x and y of each")
    _refuse_larger(height, width, places.size // 2)
    across, down = np.arange(width) + 0.5, np.arange(height) + 0.5
    x, y = places[..., 0, None, None], places[..., 1, None, None]
    return np.argmin((across - x) ** 2 + (down[:, None] - y) ** 2, axis=-3)


@checked()
def tile_regions(rows: Integer, columns: Integer, height: Integer, width: Integer) -> Int64[np.ndarray, "y x"]:
    """The number of the tile of each pixel, row by row, where an image is cut into equal tiles.

    Args:
        rows: The number of rows of tiles.
        columns: The number of columns of tiles.
        height: The image's height in pixels.
        width: Its width.

    >>> tile_regions(1, 2, height=2, width=4).tolist()
    [[0, 0, 1, 1], [0, 0, 1, 1]]
    """
    if rows < 1 or columns < 1 or height % rows or width % columns:
        raise UntwineError(f"{height} by {width} pixels cannot be cut into {rows} rows and {columns} columns of tiles")
    _refuse_larger(height, width)
    down, across = np.arange(height) * rows // height, np.arange(width) * columns // width
    return down[:, None] * columns + across


def _refuse_larger(height: Integer, width: Integer, maps: int = 1) -> None:
    """Refuse more numbers than fit into memory: one for each pixel of each of several maps."""
    refuse_larger(8 * maps * int(height) * int(width), f"maps of {height:,} by {width:,} pixels", "take fewer pixels")


def _images(columns: ArrayLike) -> Float64[np.ndarray, "*batch channels y x"]:
    return finite_array(columns, "columns", 3)


def _shares(columns: ArrayLike) -> Float64[np.ndarray, "*batch y x"]:
    """The share of each pixel in a column's energy."""
    energy = (_images(columns) ** 2).sum(-3)
    total = energy.sum((-2, -1), keepdims=True)
    uniform = np.full_like(energy, 1 / (energy.shape[-2] * energy.shape[-1]))
    return np.divide(energy, total, out=uniform, where=total > 0)

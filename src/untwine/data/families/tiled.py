"""Images made of tiles, each an independent state of another dataset, as in MPI3D-Multi (rhodes2021)."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped, UInt8

from untwine.checks import whole
from untwine.data.contract import Dataset
from untwine.data.factors import FactorSpace
from untwine.data.nested import Inner, built, settle_inner
from untwine.data.specs import dataset
from untwine.data.states import AllStates, SampledStates
from untwine.errors import UntwineError
from untwine.room import refuse_larger

_CACHED = 2**26  # bytes; if all possible tiles take no more, they are kept in memory
_CHUNK = 2**25  # bytes of images that are cut into tiles at a time


def _settle(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the full spec of the inner dataset, and texts of the factors that are held."""
    held = arguments["held"]
    if isinstance(held, str):
        held = tuple(part.strip() for part in held.split(",")) if held.strip() else ()
    return {**settle_inner(arguments), "held": tuple(held)}


@dataset(settle=_settle, added=["held"], selecting=["examples", "seed"])
def tiled(
    dataset: Inner,
    rows: int = 2,
    columns: int = 2,
    stride: int = 1,
    examples: int = 500_000,
    seed: int = 0,
    held: str | Sequence[str] = (),
) -> Tiled:
    """Images of a dataset side by side, each in its own state; the factors of all tiles are factors.

    Rhodes & Lee 2021 construct MPI3D-Multi in this way. The factors of the first tile have the dataset's names with
    a 1 appended (x1, y1), those of the second a 2 (x2, y2), and so on; tiles are numbered row by row. Names that end in
    a digit get `_1`. The training examples are states drawn once, independent and uniform.

    Args:
        dataset: The dataset of the tiles: a name such as xy-squares, a name with arguments such as
            "xy-squares(spacing=4)", a spec, or in Python a dataset. It must have an image for every state.
        rows: The number of rows of tiles.
        columns: The number of columns of tiles.
        stride: Every stride-th pixel of a tile is kept, in both directions.
        examples: The number of training examples to draw.
        seed: The seed of the training examples.
        held: Factors of every tile that are fixed, with their values: "shape=0, scale=5". They are no factors then.

    >>> data = tiled("xy-squares(spacing=4)", stride=2, examples=10)
    >>> data.shape, len(data.factors), data.factors.names[5:7]
    ((3, 64, 64), 24, ('y_B1', 'x_R2'))
    >>> data.factors.states == 8**24
    True
    """
    inner = built(dataset)
    fixed = dict(_held(text) for text in held)
    return Tiled(Fixed(inner, fixed) if fixed else inner, rows, columns, stride, examples, seed)


def _held(text: str) -> tuple[str, int]:
    """The name and the value of a factor that is fixed, from a text such as scale=5."""
    name, _, value = (part.strip() for part in text.partition("="))
    if not value.isdecimal():
        raise UntwineError(f"tiled: held are factors with whole numbers, as in 'scale=5', not {text!r}")
    return name, int(value)


def tiled_space(space: FactorSpace, tiles: int) -> FactorSpace:
    """The factors of `tiles` independent states.

    >>> tiled_space(FactorSpace(("x", "y"), (4, 5), ("ordered", "cyclic")), 2).names
    ('x1', 'y1', 'x2', 'y2')
    """
    gap = "_" if any(name[-1:].isdigit() for name in space.names) else ""
    names = tuple(f"{name}{gap}{tile + 1}" for tile in range(tiles) for name in space.names)
    return FactorSpace(names, space.sizes * tiles, space.kinds * tiles, space.values and space.values * tiles)


class Tiled(SampledStates):
    """Tiles cut from the images of another dataset. If all possible tiles are small, they are kept in memory."""

    def __init__(self, inner: Dataset, rows: int, columns: int, stride: int, examples: int, seed: int) -> None:
        for name, value in (("rows", rows), ("columns", columns), ("stride", stride), ("examples", examples)):
            whole(f"tiled: {name}", value, 1)
        space = _complete_space(inner, "be tiled")
        if len(inner.shape) != 3:
            raise UntwineError(f"{_named(inner)} has vectors {list(inner.shape)}; only images can be tiled")
        channels, height, width = inner.shape
        numbers = rows * columns * len(space)
        refuse_larger(8 * numbers * examples, f"tiled: {examples:,} states of {numbers:,} factors", "take fewer")
        self._tile = (channels, -(-height // stride), -(-width // stride))
        shape = (channels, rows * self._tile[1], columns * self._tile[2])
        super().__init__(shape, examples, tiled_space(space, rows * columns), seed)
        self._inner = inner
        self._tile_space = space
        self._grid = (rows, columns)
        self._stride = stride
        self._cached = space.states * math.prod(self._tile) <= _CACHED

    @property
    def content(self) -> str | None:
        return self._inner.content

    @functools.cached_property
    def _table(self) -> UInt8[np.ndarray, "states c h w"]:
        """Every possible tile."""
        return self._cut(self._tile_space.factors(np.arange(self._tile_space.states)))

    def _observe(self, factors: Int64[np.ndarray, "n k"]) -> UInt8[np.ndarray, "n c height width"]:
        states = factors.reshape(-1, len(self._tile_space))
        tiles = self._table[self._tile_space.index(states)] if self._cached else self._cut(states)
        # From [n, row, column, channel, y, x] to [n, channel, row, y, column, x].
        grid = tiles.reshape(len(factors), *self._grid, *self._tile)
        return np.ascontiguousarray(grid.transpose(0, 3, 1, 4, 2, 5)).reshape(len(factors), *self.shape)

    def _cut(self, states: Int64[np.ndarray, "n k"]) -> UInt8[np.ndarray, "n c h w"]:
        tiles = np.empty((len(states), *self._tile), np.uint8)
        chunk = max(1, _CHUNK // math.prod(self._inner.shape))
        for start in range(0, len(states), chunk):
            part = slice(start, start + chunk)
            tiles[part] = self._inner.observe(states[part])[..., :: self._stride, :: self._stride]
        return tiles


class Fixed(AllStates):
    """Another dataset with some of its factors fixed. The examples are all remaining states, each once.

    >>> from untwine.data.families.squares import xy_squares
    >>> data = Fixed(xy_squares(), {"x_R": 0, "y_R": 7, "x_B": 3, "y_B": 3})
    >>> data.factors.names, len(data), data.batch([0]).shape
    (('x_G', 'y_G'), 64, (1, 3, 64, 64))
    """

    def __init__(self, inner: Dataset, values: Mapping[str, int]) -> None:
        space = _complete_space(inner, "have factors held")
        state = [0] * len(space)
        for name, value in values.items():
            state[space.position(name)] = value
        self._state = space.check([state])
        self._free = [column for column, name in enumerate(space.names) if name not in values]
        if not self._free:
            raise UntwineError(f"all factors of {_named(inner)} are held, so there is nothing left to vary")
        remaining = space.only(self._free)
        if remaining.states > np.iinfo(np.int64).max:
            raise UntwineError(
                f"{remaining.states} states of {_named(inner)} are left, too many to number; hold more factors"
            )
        super().__init__(inner.shape, remaining)
        self._inner = inner

    @property
    def content(self) -> str | None:
        return self._inner.content

    def _observe(self, factors: Int64[np.ndarray, "n k"]) -> Shaped[np.ndarray, "n ..."]:
        states = np.repeat(self._state, len(factors), axis=0)
        states[:, self._free] = factors
        return self._inner.observe(states)


def _named(inner: Dataset) -> str:
    """What error messages call a dataset."""
    return f"dataset {inner.spec['name']!r}" if "name" in inner.spec else f"this {type(inner).__name__}"


def _complete_space(inner: Dataset, what: str) -> FactorSpace:
    """The factors of a complete dataset; others are refused, as they cannot do `what`."""
    if inner.factors is None:
        raise UntwineError(
            f"{_named(inner)} has no factors, so it cannot {what}; give one with factors, or a table of them"
        )
    if not inner.complete:
        raise UntwineError(
            f"{_named(inner)} does not show each of its {inner.factors.states:,} states in just one image, "
            f"so it cannot {what}"
        )
    return inner.factors

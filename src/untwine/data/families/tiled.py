"""Pictures made of pictures: tiles that are independent states of one dataset, as in MPI3D-Multi (rhodes2021)."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped, UInt8

from untwine import naming
from untwine.checks import whole
from untwine.data.contract import Dataset
from untwine.data.factors import FactorSpace
from untwine.data.specs import build, complete, dataset, datasets
from untwine.data.states import Sampled, Whole
from untwine.errors import UntwineError

_FEW = 2**26  # bytes: if all tiles that there can be take no more, they are kept
_AT_ONCE = 2**25  # bytes of whole pictures that are cut to tiles at a time


def _settle(arguments: dict[str, Any]) -> dict[str, Any]:
    """A text, or a spec with some arguments, becomes the whole spec of the inner dataset; a dataset stays itself."""
    inner = arguments["dataset"]
    if isinstance(inner, str):
        inner = naming.read("dataset", inner, {name: _speller(name) for name in datasets})
    elif isinstance(inner, Mapping):
        if not isinstance(inner.get("name"), str):
            raise UntwineError(
                f"tiled: the spec of its dataset needs a name, as in {{'name': 'xy_squares'}}; got {inner}"
            )
        inner = complete(inner)
    return {**arguments, "dataset": inner}


def _speller(name: str) -> Callable[..., dict[str, Any]]:
    """A function that takes what a dataset takes, and only writes the spec."""

    @functools.wraps(datasets[name])
    def spell(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return complete({"name": name, **inspect.signature(datasets[name]).bind(*args, **kwargs).arguments})

    return spell


@dataset(settle=_settle)
def tiled(
    dataset: str | Mapping[str, Any] | Dataset,
    rows: int = 2,
    columns: int = 2,
    stride: int = 1,
    examples: int = 500_000,
    seed: int = 0,
) -> Tiled:
    """Pictures of a dataset side by side, each in a state of its own; all their factors are factors.

    Rhodes & Lee 2021 make MPI3D-Multi so. The factors of the first tile are those of the dataset with a 1 behind
    their names (x1, y1), then come those of the second (x2, y2); tiles are numbered row by row. Names that end in a
    digit get `_1`. The training examples are states drawn once, independent and uniform.

    Args:
        dataset: What every tile shows: a name such as xy-squares, a name with arguments such as
            "xy-squares(spacing=4)", a spec, or in Python a dataset. It must have an image for every state.
        rows: How many tiles above each other.
        columns: How many tiles side by side.
        stride: Of each tile every stride-th pixel is kept, from the first on, in both directions.
        examples: How many training examples are drawn.
        seed: Of the training examples.

    >>> data = tiled("xy-squares(spacing=4)", stride=2, examples=10)
    >>> data.shape, len(data.factors), data.factors.names[5:7]
    ((3, 64, 64), 24, ('y_B1', 'x_R2'))
    >>> data.factors.states == 8**24
    True
    """
    inner = dataset if isinstance(dataset, Dataset) else build(dataset)  # type: ignore[arg-type]
    return Tiled(inner, rows, columns, stride, examples, seed)


def tiled_space(space: FactorSpace, tiles: int) -> FactorSpace:
    """The factors of so many independent states.

    >>> tiled_space(FactorSpace(("x", "y"), (4, 5), ("ordered", "cyclic")), 2).names
    ('x1', 'y1', 'x2', 'y2')
    """
    gap = "_" if any(name[-1:].isdigit() for name in space.names) else ""
    names = tuple(f"{name}{gap}{tile + 1}" for tile in range(tiles) for name in space.names)
    return FactorSpace(names, space.sizes * tiles, space.kinds * tiles)


class Tiled(Sampled):
    """Tiles cut from the pictures of another dataset. Where few different ones exist, all are kept in memory."""

    def __init__(self, inner: Dataset, rows: int, columns: int, stride: int, examples: int, seed: int) -> None:
        for name, value in (("rows", rows), ("columns", columns), ("stride", stride), ("examples", examples)):
            whole(f"tiled: {name}", value, 1)
        own = _every_state(inner, "be tiled")
        if len(inner.shape) != 3:
            raise UntwineError(f"{_called(inner)} has vectors {list(inner.shape)}; only images can be tiled")
        channels, height, width = inner.shape
        self._tile = (channels, -(-height // stride), -(-width // stride))
        shape = (channels, rows * self._tile[1], columns * self._tile[2])
        super().__init__(shape, examples, tiled_space(own, rows * columns), seed)
        self._inner, self._own, self._grid, self._stride = inner, own, (rows, columns), stride
        self._few = own.states * math.prod(self._tile) <= _FEW

    @property
    def content(self) -> str | None:
        return self._inner.content

    @functools.cached_property
    def _table(self) -> UInt8[np.ndarray, "states c h w"]:
        """Every tile that there can be."""
        return self._cut(self._own.factors(np.arange(self._own.states)))

    def _observe(self, factors: Int64[np.ndarray, "n k"]) -> UInt8[np.ndarray, "n c height width"]:
        states = factors.reshape(-1, len(self._own))
        tiles = self._table[self._own.index(states)] if self._few else self._cut(states)
        # From [n, row, column, channel, y, x] to [n, channel, row, y, column, x].
        apart = tiles.reshape(len(factors), *self._grid, *self._tile)
        return np.ascontiguousarray(apart.transpose(0, 3, 1, 4, 2, 5)).reshape(len(factors), *self.shape)

    def _cut(self, states: Int64[np.ndarray, "n k"]) -> UInt8[np.ndarray, "n c h w"]:
        tiles = np.empty((len(states), *self._tile), np.uint8)
        at_once = max(1, _AT_ONCE // math.prod(self._inner.shape))
        for start in range(0, len(states), at_once):
            part = slice(start, start + at_once)
            tiles[part] = self._inner.observe(states[part])[..., :: self._stride, :: self._stride]
        return tiles


class Fixed(Whole):
    """Another dataset with some of its factors held at a value. Its examples are all states that are left, each once.

    >>> from untwine.data.families.squares import xy_squares
    >>> data = Fixed(xy_squares(), {"x_R": 0, "y_R": 7, "x_B": 3, "y_B": 3})
    >>> data.factors.names, len(data), data.batch([0]).shape
    (('x_G', 'y_G'), 64, (1, 3, 64, 64))
    """

    def __init__(self, inner: Dataset, held: Mapping[str, int]) -> None:
        space = _every_state(inner, "have factors held")
        state = [0] * len(space)
        for name, value in held.items():
            state[space.position(name)] = value
        self._state = space.check([state])
        self._free = [column for column, name in enumerate(space.names) if name not in held]
        if not self._free:
            raise UntwineError(f"all factors of {_called(inner)} are held, so there is nothing left to vary")
        names, sizes, kinds = (
            tuple(getattr(space, field)[column] for column in self._free) for field in ("names", "sizes", "kinds")
        )
        left = FactorSpace(names, sizes, kinds)
        if left.states > np.iinfo(np.int64).max:
            raise UntwineError(
                f"{left.states} states of {_called(inner)} are left, too many to number; hold more factors"
            )
        super().__init__(inner.shape, left)
        self._inner = inner

    @property
    def content(self) -> str | None:
        return self._inner.content

    def _observe(self, factors: Int64[np.ndarray, "n k"]) -> Shaped[np.ndarray, "n ..."]:
        states = np.repeat(self._state, len(factors), axis=0)
        states[:, self._free] = factors
        return self._inner.observe(states)


def _called(inner: Dataset) -> str:
    return f"dataset {inner.spec['name']!r}" if "name" in inner.spec else f"this {type(inner).__name__}"


def _every_state(inner: Dataset, what: str) -> FactorSpace:
    """The factors of a dataset that shows all of its states."""
    if inner.factors is None:
        raise UntwineError(
            f"{_called(inner)} has no factors, so it cannot {what}; give one with factors, or a table of them"
        )
    if not inner.complete:
        raise UntwineError(
            f"{_called(inner)} does not show each of its {inner.factors.states:,} states in just one image, "
            f"so it cannot {what}"
        )
    return inner.factors

"""Which states a dataset's training examples are: all of them, each once, or some that were drawn once."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable

import numpy as np
from jaxtyping import Int64, Shaped, UInt8

from untwine.data.contract import Dataset
from untwine.data.factors import FactorSpace
from untwine.data.files import store
from untwine.data.files.pictures import mapped, save

# Numbers of states `[n]` to their images `[n, *shape]`.
Rows = Callable[[np.ndarray], np.ndarray]


class OfStates(Dataset):
    """Its examples are states, and look as `_observe` shows them. A concrete one says which: `_factors_of`."""

    def __init__(self, shape: tuple[int, ...], length: int, space: FactorSpace) -> None:
        super().__init__(shape, length, space)
        self._space = space

    def _batch(self, indices: Int64[np.ndarray, " n"]) -> Shaped[np.ndarray, "n ..."]:
        return self._observe(self._factors_of(indices))


class Whole(OfStates):
    """Its training examples are all states, each once, in the order of their numbers."""

    def __init__(self, shape: tuple[int, ...], space: FactorSpace) -> None:
        super().__init__(shape, space.states, space)

    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        return self._space.factors(indices)


class Sampled(OfStates):
    """Its training examples are states that a seed draws once, independent and uniform."""

    def __init__(self, shape: tuple[int, ...], length: int, space: FactorSpace, seed: int) -> None:
        super().__init__(shape, length, space)
        self._seed = seed

    @functools.cached_property
    def _states(self) -> Int64[np.ndarray, "n k"]:
        return self._space.sample(len(self), self._seed)

    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        return self._states[indices]


class Tabled(Whole):
    """All states, each once. `rows` reads or draws those of the numbers it is given.

    >>> space = FactorSpace(("x", "y"), (2, 3), ("ordered", "ordered"))
    >>> data = Tabled(space, (1, 4, 4), lambda numbers: np.zeros((len(numbers), 1, 4, 4), np.uint8))
    >>> len(data), data.factors_of([5]).tolist(), data.observe([[1, 2]]).shape
    (6, [[1, 2]], (1, 1, 4, 4))
    """

    def __init__(self, space: FactorSpace, shape: tuple[int, ...], rows: Rows) -> None:
        super().__init__(shape, space)
        self._rows = rows

    def _batch(self, indices: Int64[np.ndarray, " n"]) -> Shaped[np.ndarray, "n ..."]:
        return self._rows(indices)

    def _observe(self, factors: Int64[np.ndarray, "n k"]) -> Shaped[np.ndarray, "n ..."]:
        return self._rows(self._space.index(factors))


def kept(
    path: str, shape: tuple[int, ...], parts: Callable[[], Iterable[np.ndarray | bytes]], what: str, hint: str = ""
) -> UInt8[np.ndarray, "..."]:
    """A table of uint8 that is made once from its parts, kept in the data folder, and mapped into memory.

    `what` and `hint`: see `store.derived`.
    """
    made = store.derived(path, lambda new: save(new, shape, parts()), what, math.prod(shape), hint)
    return mapped(made, shape)

"""Datasets with one image for every state, in the order of their numbers: read from a table, or drawn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Int64, Shaped

from untwine.data.dataset import Dataset
from untwine.data.factors import FactorSpace

# Numbers of states `[n]` to their images `[n, *shape]`.
Rows = Callable[[np.ndarray], np.ndarray]


class Tabled(Dataset):
    """Its training examples are all states, each once. `rows` reads or draws those of the numbers it is given.

    >>> space = FactorSpace(("x", "y"), (2, 3), ("ordered", "ordered"))
    >>> data = Tabled(space, (1, 4, 4), lambda numbers: np.zeros((len(numbers), 1, 4, 4), np.uint8))
    >>> len(data), data.factors_of([5]).tolist(), data.observe([[1, 2]]).shape
    (6, [[1, 2]], (1, 1, 4, 4))
    """

    def __init__(self, space: FactorSpace, shape: tuple[int, ...], rows: Rows) -> None:
        super().__init__(shape, space.states, space)
        self._space, self._rows = space, rows

    def _batch(self, indices: Int64[np.ndarray, " n"]) -> Shaped[np.ndarray, "n ..."]:
        return self._rows(indices)

    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        return self._space.factors(indices)

    def _observe(self, factors: Int64[np.ndarray, "n k"]) -> Shaped[np.ndarray, "n ..."]:
        return self._rows(self._space.index(factors))

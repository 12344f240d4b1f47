"""Examples with a table of factors: your own labelled pictures, of all states or of some."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from jaxtyping import Int64, Shaped

from untwine.data.dataset import Dataset
from untwine.data.factors import FactorSpace
from untwine.errors import UntwineError


class Labelled(Dataset):
    """Examples held in memory, and the factors of each. A state can be observed if an example has it.

    The values of each factor are numbered in ascending order; all count as ordered.

    >>> data = Labelled(np.zeros((3, 1, 8, 8), np.uint8), np.array([[5, 0], [7, 0], [7, 1]]))
    >>> data.factors.sizes, data.factors_of([2]).tolist(), data.observe([[0, 0]]).shape
    ((2, 2), [[1, 1]], (1, 1, 8, 8))
    """

    def __init__(self, table: Shaped[np.ndarray, "n ..."], factors: Shaped[np.ndarray, "n k"]) -> None:
        columns = [np.unique(column, return_inverse=True) for column in factors.T]
        names = tuple(f"factor{i}" for i in range(len(columns)))
        space = FactorSpace(names, tuple(len(values) for values, _ in columns), ("ordered",) * len(columns))
        super().__init__(table.shape[1:], len(table), space)
        self._table = self._examples = table
        self._labels = np.stack([inverse for _, inverse in columns], 1).astype(np.int64)
        # Of several examples of a state the first one is what it looks like.
        self._states, self._rows = np.unique(space.index(self._labels), return_index=True)

    def _batch(self, indices: Int64[np.ndarray, " n"]) -> Shaped[np.ndarray, "n ..."]:
        return self._table[indices]

    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        return self._labels[indices]

    def _observe(self, factors: Int64[np.ndarray, "n k"]) -> Shaped[np.ndarray, "n ..."]:
        assert self.factors is not None
        wanted = self.factors.index(factors)
        place = np.searchsorted(self._states, wanted).clip(max=len(self._states) - 1)
        missing = self._states[place] != wanted
        if missing.any():
            raise UntwineError(
                f"no example has the factors {factors[missing][0].tolist()}: there are examples of "
                f"{len(self._states):,} of the {self.factors.states:,} states"
            )
        return self._table[self._rows[place]]


def factor_table(factors: str | os.PathLike[str] | np.ndarray, count: int) -> Shaped[np.ndarray, "n k"]:
    """A table of whole numbers, a row for each example, from an array or a .npy file."""
    where = "the table of factors"
    if not isinstance(factors, np.ndarray):
        where = f"the table of factors {os.fspath(factors)}"
        try:
            factors = np.load(Path(factors).expanduser(), allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise UntwineError(f"images: {where} cannot be read as a .npy file: {error}") from None
    if not isinstance(factors, np.ndarray) or factors.dtype.kind not in "bui":
        raise UntwineError(f"images: {where} must hold whole numbers, the index of each value")
    if factors.ndim == 1:
        factors = factors[:, None]
    if factors.ndim != 2 or len(factors) != count or not factors.shape[1]:
        raise UntwineError(
            f"images: {where} has shape {list(factors.shape)}; there are {count} examples, so it must be [{count}, k]"
        )
    return factors.astype(np.int64)

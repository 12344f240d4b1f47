"""Examples held in memory, each with its factors: of all states, of some, or several of one."""

from __future__ import annotations

import functools

import numpy as np
from jaxtyping import Int64, Shaped

from untwine.data.contract import Dataset
from untwine.data.factors import FactorSpace
from untwine.data.specs import fingerprint
from untwine.errors import UntwineError


class Held(Dataset):
    """Examples that are held in memory. `own` are those of a user, which may change while their spec does not."""

    def __init__(self, table: Shaped[np.ndarray, "n ..."], space: FactorSpace | None, own: bool = False) -> None:
        super().__init__(table.shape[1:], len(table), space)
        self._table = self._examples = table  # `examples()` is this table, not a second copy of it
        self._own = own

    def _batch(self, indices: Int64[np.ndarray, " n"]) -> Shaped[np.ndarray, "n ..."]:
        return self._table[indices]

    @functools.cached_property
    def content(self) -> str | None:
        """A hash over the examples and their factors; None where the spec says all that there is to know."""
        if not self._own:
            return None
        if self.factors is None:
            return fingerprint(self._table)
        labels = fingerprint(self.factors_of(np.arange(len(self))))
        parts = f"{fingerprint(self._table)} {labels} {self.factors.to_json()}"
        return fingerprint(np.frombuffer(parts.encode(), np.uint8))


class Labelled(Held):
    """Examples and the factors of each, as `space` numbers them. A state can be observed if an example has it.

    Of several examples of a state, `observe` shows the first. The grid may have far more states than examples.

    >>> space = FactorSpace(("digit", "x"), (2, 2), ("categorical", "ordered"))
    >>> data = Labelled(np.zeros((3, 1, 8, 8), np.uint8), np.array([[0, 0], [1, 0], [1, 1]]), space)
    >>> data.complete, data.factors_of([2]).tolist(), data.observe([[0, 0]]).shape
    (False, [[1, 1]], (1, 1, 8, 8))
    """

    def __init__(
        self,
        table: Shaped[np.ndarray, "n ..."],
        labels: Int64[np.ndarray, "n k"],
        space: FactorSpace,
        own: bool = False,
    ) -> None:
        super().__init__(table, space, own)
        self._labels = space.check(labels)
        self._seen, self._first = np.unique(_keys(self._labels), return_index=True)

    @property
    def complete(self) -> bool:
        """Whether every state has exactly one example."""
        assert self.factors is not None
        return len(self) == len(self._seen) == self.factors.states

    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        return self._labels[indices]

    def _observe(self, factors: Int64[np.ndarray, "n k"]) -> Shaped[np.ndarray, "n ..."]:
        assert self.factors is not None
        wanted = _keys(factors)
        place = np.searchsorted(self._seen, wanted).clip(max=len(self._seen) - 1)
        missing = self._seen[place] != wanted
        if missing.any():
            raise UntwineError(
                f"no example has the factors {factors[missing][0].tolist()}: there are examples of "
                f"{len(self._seen):,} of the {self.factors.states:,} states"
            )
        return self._table[self._first[place]]


def _keys(rows: Int64[np.ndarray, "n k"]) -> Shaped[np.ndarray, " n"]:
    """Bytes that sort and compare as rows of whole numbers from 0 on: numbers of states may not fit 64 bits."""
    return np.ascontiguousarray(rows, ">i8").view(f"S{8 * rows.shape[1]}")[:, 0]

"""Kinds of datasets: examples that are states of the factors, or a table of examples in memory."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from jaxtyping import Int64, Shaped

from untwine.data.contract import Dataset
from untwine.data.factors import FactorSpace
from untwine.data.specs import fingerprint
from untwine.errors import UntwineError
from untwine.room import refuse_larger

# State numbers `[n]` to images `[n, *shape]`.
Rows = Callable[[np.ndarray], np.ndarray]


# --- examples that are states ---------------------------------------------------------------------------


class StateDataset(Dataset):
    """A dataset whose examples are states: `_observe` draws them, and `_factors_of` says which state each one is."""

    def __init__(self, shape: tuple[int, ...], length: int, space: FactorSpace) -> None:
        super().__init__(shape, length, space)
        self._space = space

    def _batch(self, indices: Int64[np.ndarray, " n"]) -> Shaped[np.ndarray, "n ..."]:
        return self._observe(self._factors_of(indices))


class AllStates(StateDataset):
    """The training examples are all states, each once, in the order of their numbers."""

    def __init__(self, shape: tuple[int, ...], space: FactorSpace) -> None:
        super().__init__(shape, space.states, space)

    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        return self._space.factors(indices)


class SampledStates(StateDataset):
    """The training examples are states drawn once from a seed, independent and uniform."""

    def __init__(self, shape: tuple[int, ...], length: int, space: FactorSpace, seed: int) -> None:
        super().__init__(shape, length, space)
        refuse_larger(8 * length * len(space.names), f"{length:,} states of {len(space.names)} factors", "take fewer")
        self._seed = seed

    @functools.cached_property
    def _states(self) -> Int64[np.ndarray, "n k"]:
        return self._space.sample(len(self), self._seed)

    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        return self._states[indices]


class TabledStates(AllStates):
    """All states, each once; `rows` reads or draws the images of the state numbers that it gets.

    >>> space = FactorSpace(("x", "y"), (2, 3), ("ordered", "ordered"))
    >>> data = TabledStates(space, (1, 4, 4), lambda numbers: np.zeros((len(numbers), 1, 4, 4), np.uint8))
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


# --- examples in memory ---------------------------------------------------------------------------------


class InMemory(Dataset):
    """A table of examples in memory.

    Args:
        table: The examples, uint8 images or float32 vectors.
        space: The factors; None where they are unknown.
        mutable: Whether the source may change while the spec stays the same, as a user's folder may. Such a
            dataset is identified by a hash of its `content` as well.
    """

    def __init__(self, table: Shaped[np.ndarray, "n ..."], space: FactorSpace | None, mutable: bool = False) -> None:
        super().__init__(table.shape[1:], len(table), space)
        self._table = table
        self._examples = table  # `examples()` returns this table, not a second copy of it
        self._mutable = mutable

    def _batch(self, indices: Int64[np.ndarray, " n"]) -> Shaped[np.ndarray, "n ..."]:
        return self._table[indices]

    @functools.cached_property
    def content(self) -> str | None:
        """A hash of the examples and their factors; None where the spec identifies them."""
        if not self._mutable:
            return None
        if self.factors is None:
            return fingerprint(self._table)
        labels = fingerprint(self.factors_of(np.arange(len(self))))
        # Without the names of values: no weight and no score depends on them.
        space = dataclasses.replace(self.factors, values=None)
        parts = f"{fingerprint(self._table)} {labels} {space.to_json()}"
        return fingerprint(np.frombuffer(parts.encode(), np.uint8))


class Labelled(InMemory):
    """Examples in memory and the factors of each. A state can be observed if an example has it.

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
        mutable: bool = False,
    ) -> None:
        super().__init__(table, space, mutable)
        self._labels = space.check(labels)
        self._states, self._first = np.unique(_keys(self._labels), return_index=True)

    @property
    def complete(self) -> bool:
        """Whether every state has exactly one example."""
        assert self.factors is not None
        return len(self) == len(self._states) == self.factors.states

    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        return self._labels[indices]

    def _observe(self, factors: Int64[np.ndarray, "n k"]) -> Shaped[np.ndarray, "n ..."]:
        assert self.factors is not None
        keys = _keys(factors)
        positions = np.searchsorted(self._states, keys).clip(max=len(self._states) - 1)
        missing = self._states[positions] != keys
        if missing.any():
            raise UntwineError(
                f"no example has the factors {self.factors.describe(factors[missing][0])}: there are examples of "
                f"{len(self._states):,} of the {self.factors.states:,} states"
            )
        return self._table[self._first[positions]]


def _keys(rows: Int64[np.ndarray, "n k"]) -> Shaped[np.ndarray, " n"]:
    """Byte strings that sort and compare like the rows, as state numbers may not fit 64 bits."""
    return np.ascontiguousarray(rows, ">i8").view(f"S{8 * rows.shape[1]}")[:, 0]

"""Factors of variation: their names, sizes, kinds and values, and samples of their states."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Int64

from untwine.errors import UntwineError, unknown
from untwine.streams import np_uniform

KINDS = ("ordered", "cyclic", "categorical")
# Input of functions that check it; beartype does not understand numpy.typing.ArrayLike.
ArrayLike = np.ndarray | Sequence[Any]
# A value of a factor as its data calls it: "toy-19", 35, 0.5.
Value = str | int | float


@dataclass(frozen=True)
class FactorSpace:
    """A grid of factors: every combination of their values is one state.

    Sampling is a pure function of `(seed, step)`: there is no generator with state, and a small sample is
    the beginning of a larger one.

    Args:
        names: The name of each factor.
        sizes: The number of values of each factor.
        kinds: `ordered` (neighbouring values are similar), `cyclic` (ordered, and the last value is next to the
            first) or `categorical` (values are labels), for each factor.
        values: What the data calls the values of each factor ("toy-19", 35), in the order of their numbers; None where
            they have only numbers, 0 to size - 1. Functions of factors take and return numbers.

    >>> space = FactorSpace(("shape", "x"), (3, 4), ("categorical", "ordered"))
    >>> len(space), space.states, space.factors([0, 1, 11]).tolist()
    (2, 12, [[0, 0], [0, 1], [2, 3]])
    >>> space.index([[2, 3]]).tolist()
    [11]
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    kinds: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...] | None = field(default=None, repr=False)  # may be thousands

    def __post_init__(self) -> None:
        # Lists (from JSON) become tuples, so that equal spaces compare and hash as equal.
        for name in ("names", "sizes", "kinds"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not len(self.names) == len(self.sizes) == len(self.kinds):
            raise UntwineError(
                f"a factor space needs as many names as sizes and kinds; got {len(self.names)} names, "
                f"{len(self.sizes)} sizes, {len(self.kinds)} kinds"
            )
        if not self.names:
            raise UntwineError("a factor space needs at least one factor")
        for name, size, kind in zip(self.names, self.sizes, self.kinds, strict=True):
            if not isinstance(name, str) or self.names.count(name) > 1:
                raise UntwineError(f"factor names must be strings that differ; got {self.names}")
            if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
                raise UntwineError(f"factor {name!r} has size {size!r}; it must be a whole number above 0")
            if kind not in KINDS:
                raise unknown(f"kind of factor {name!r}:", str(kind), KINDS)
        object.__setattr__(self, "sizes", tuple(int(size) for size in self.sizes))
        object.__setattr__(self, "values", None if self.values is None else self._checked(self.values))

    def _checked(self, values: Sequence[Any]) -> tuple[tuple[Value, ...], ...]:
        """The values as tuples, refused if there is not one text or number for each number of a factor."""
        if len(values) != len(self.names):
            raise UntwineError(f"a factor space of {len(self.names)} factors has values of {len(values)}")
        checked = tuple(
            tuple(value.item() if isinstance(value, np.generic) else value for value in of_factor)
            for of_factor in values
        )
        for name, size, of_factor in zip(self.names, self.sizes, checked, strict=True):
            if len(set(of_factor)) != size or len(of_factor) != size:
                raise UntwineError(f"factor {name!r} needs {size} values that differ, not {of_factor!r:.80}")
            if not all(isinstance(value, Value) and value == value for value in of_factor):
                raise UntwineError(f"values of a factor are texts or numbers; {name!r} has {of_factor!r:.80}")
        return checked

    # --- the grid -------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.names)

    @property
    def states(self) -> int:
        """The number of combinations, a Python int that may be far too large for an array."""
        return math.prod(self.sizes)

    def position(self, factor: int | str) -> int:
        """The column of a factor, by its name or number.

        >>> FactorSpace(("x", "y"), (4, 4), ("ordered", "ordered")).position("y")
        1
        """
        if isinstance(factor, str):
            if factor not in self.names:
                raise unknown("factor", factor, self.names)
            return self.names.index(factor)
        if not 0 <= operator.index(factor) < len(self):
            raise UntwineError(f"there is no factor {factor}; there are {len(self)}: {', '.join(self.names)}")
        return operator.index(factor)

    def only(self, columns: Sequence[int]) -> FactorSpace:
        """The space of some of the factors.

        >>> FactorSpace(("x", "y", "z"), (4, 5, 6), ("ordered",) * 3).only([2, 0]).sizes
        (6, 4)
        """
        names = tuple(self.names[column] for column in columns)
        sizes = tuple(self.sizes[column] for column in columns)
        kinds = tuple(self.kinds[column] for column in columns)
        values = None if self.values is None else tuple(self.values[column] for column in columns)
        return FactorSpace(names, sizes, kinds, values)

    def named(self, factor: int | str, numbers: ArrayLike) -> list[Value]:
        """The values of a factor with these numbers, as the data calls them; the numbers where it has no names.

        Args:
            factor: The factor, by its name or column.
            numbers: Numbers of its values, from 0 to size - 1.

        >>> FactorSpace(("size",), (3,), ("ordered",), (("small", "medium", "large"),)).named("size", [0, 2])
        ['small', 'large']
        """
        column, chosen = self.position(factor), np.asarray(numbers, np.int64).tolist()
        return chosen if self.values is None else [self.values[column][number] for number in chosen]

    def describe(self, state: ArrayLike) -> str:
        """A state `[k]` in words.

        >>> space = FactorSpace(("toy", "angle"), (2, 2), ("categorical", "cyclic"), (("car", "duck"), (0, 35)))
        >>> space.describe([1, 1])
        "toy='duck', angle=35"
        """
        values = [self.named(column, [number])[0] for column, number in enumerate(np.asarray(state).tolist())]
        return ", ".join(f"{name}={value!r}" for name, value in zip(self.names, values, strict=True))

    def check(self, factors: ArrayLike) -> Int64[np.ndarray, "n k"]:
        """The factors as int64 `[n, k]`; a value outside the grid is refused."""
        array = np.asarray(factors)
        if array.ndim != 2 or array.shape[1] != len(self):
            raise UntwineError(
                f"factors have shape {list(array.shape)}; they must be [n, {len(self)}], one column for "
                f"each of {', '.join(self.names)}"
            )
        array = _whole_numbers(array, "factors")
        outside = (array < 0) | (array >= np.array(self.sizes))
        if outside.any():
            row, column = np.argwhere(outside)[0]
            raise UntwineError(
                f"factor {self.names[column]!r} is {array[row, column]} in row {row}; "
                f"its values are 0 to {self.sizes[column] - 1}"
            )
        return array

    def index(self, factors: ArrayLike) -> Int64[np.ndarray, " n"]:
        """The state number of each row, in row-major order: the last factor runs fastest."""
        return self.check(factors) @ self._strides()

    def factors(self, index: ArrayLike) -> Int64[np.ndarray, "n k"]:
        """The factors `[n, k]` of state numbers: the inverse of `index`."""
        array = np.asarray(index)
        if array.ndim != 1:
            raise UntwineError(f"state numbers have shape {list(array.shape)}; they must be [n]")
        array = _whole_numbers(array, "state numbers")
        strides = self._strides()
        outside = (array < 0) | (array >= self.states)
        if outside.any():
            raise UntwineError(f"there is no state {array[outside][0]}; the states are 0 to {self.states - 1}")
        return array[:, None] // strides % np.array(self.sizes)

    def _strides(self) -> Int64[np.ndarray, " k"]:
        if self.states > np.iinfo(np.int64).max:
            raise UntwineError(f"{self.states} states are too many to number in 64 bits; use their factors")
        return np.array([math.prod(self.sizes[column + 1 :]) for column in range(len(self))], dtype=np.int64)

    # --- sampling -------------------------------------------------------------------------------------

    def sample(self, n: int, seed: int, step: int = 0) -> Int64[np.ndarray, "n k"]:
        """`n` states, independent and uniform over the grid.

        >>> FactorSpace(("x", "y"), (4, 9), ("ordered", "ordered")).sample(5, seed=0).shape
        (5, 2)
        """
        return self._between(n, seed, "factors", step, np.zeros(len(self), np.int64), np.array(self.sizes))

    def distinct(self, n: int, seed: int, step: int = 0) -> Int64[np.ndarray, "some k"]:
        """`n` different states in random order, or all states where there are no more.

        They are those of `sample`, in its order, without the repeated ones: a sample of a large grid that repeats no
        state is returned as it is.

        >>> space = FactorSpace(("x", "y"), (4, 9), ("ordered", "ordered"))
        >>> len(space.distinct(5, seed=0)), len(np.unique(space.distinct(100, seed=0), axis=0))
        (5, 36)
        """
        n, drawn = min(n, self.states), n
        while True:
            rows = self.sample(min(drawn, self.states), seed, step)
            rows = rows[self._first_occurrences(rows)]
            if len(rows) >= n or drawn >= self.states:
                break
            drawn *= 2
        if len(rows) < n:
            # As many draws as there are states miss a third of them: these follow, shuffled. A random order of all
            # states is the same however it was made, and the draws that would find the last ones are very many.
            missing = np.setdiff1d(np.arange(self.states), self.index(rows))
            order = np.argsort(np_uniform(seed, "states not drawn", len(missing), step), kind="stable")
            rows = np.concatenate([rows, self.factors(missing[order])])
        return rows[:n]

    def _first_occurrences(self, rows: Int64[np.ndarray, "n k"]) -> Int64[np.ndarray, " different"]:
        """The positions of the rows that equal no earlier row, ascending."""
        if self.states <= np.iinfo(np.int64).max:
            numbers = self.index(rows)
        else:
            numbers = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        return np.sort(np.unique(numbers, return_index=True)[1])

    def centroid(self, seed: int, step: int = 0) -> Int64[np.ndarray, " k"]:
        """One state, uniform over the grid: the centre of a window (`windows.around`)."""
        return self._between(1, seed, "centroid", step, np.zeros(len(self), np.int64), np.array(self.sizes))[0]

    def fixed(self, n: int, factor: int | str, seed: int, step: int = 0) -> Int64[np.ndarray, "n k"]:
        """`n` states that share a random value of one factor and are uniform in the others.

        >>> space = FactorSpace(("x", "y"), (64, 64), ("ordered", "ordered"))
        >>> len(set(space.fixed(100, "y", seed=0)[:, 1].tolist()))
        1
        """
        column = self.position(factor)
        zeros, sizes = np.zeros(len(self), np.int64), np.array(self.sizes)
        # The column is part of the purpose: with the same seed, fixing x and fixing y give different rows.
        value = self._between(1, seed, f"fixed value {column}", step, zeros, sizes)[0, column]
        rows = self._between(n, seed, f"fixed {column}", step, zeros, sizes)
        rows[:, column] = value
        return rows

    def _between(
        self, n: int, seed: int, purpose: str, step: int, low: np.ndarray, stop: np.ndarray
    ) -> Int64[np.ndarray, "n k"]:
        """`n` states, uniform in `low <= value < stop` for each factor."""
        if n < 0:
            raise UntwineError(f"cannot draw {n} samples")
        uniforms = np_uniform(seed, purpose, (n, len(self)), step)
        return low + (uniforms * (stop - low)).astype(np.int64)

    # --- JSON -----------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, list[Any]]:
        """The space as JSON, which `from_json` reads.

        >>> FactorSpace(("x",), (64,), ("ordered",)).to_json()
        {'names': ['x'], 'sizes': [64], 'kinds': ['ordered']}
        """
        values = {} if self.values is None else {"values": [list(of_factor) for of_factor in self.values]}
        return {"names": list(self.names), "sizes": list(self.sizes), "kinds": list(self.kinds), **values}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> FactorSpace:
        """The space that `to_json` wrote."""
        if not isinstance(value, Mapping) or set(value) - {"values"} != {"names", "sizes", "kinds"}:
            raise UntwineError(f"a factor space is written as names, sizes, kinds and perhaps values; got {value!r}")
        named = value.get("values", [])
        if not all(isinstance(part, (list, tuple)) for part in (*value.values(), *named)):
            raise UntwineError(f"names, sizes, kinds and values of a factor space are lists; got {dict(value)!r}")
        values = tuple(map(tuple, named)) if "values" in value else None
        return FactorSpace(tuple(value["names"]), tuple(value["sizes"]), tuple(value["kinds"]), values)


def text_of(value: Value) -> str:
    """A value of a factor as figures and tables write it.

    >>> [text_of(value) for value in ("toy-19", 35, 2.0, 0.1 + 0.2)]
    ['toy-19', '35', '2', '0.3']
    """
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _whole_numbers(array: np.ndarray, what: str) -> np.ndarray:
    # NumPy makes an empty list float64; it holds no wrong number.
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise UntwineError(f"{what} are {array.dtype}; they must be whole numbers (int64)")
    return array.astype(np.int64)

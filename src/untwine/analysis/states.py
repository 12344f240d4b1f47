"""The states on which perceived distances are measured: pairs and traversals of all states, or of the examples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int64, Shaped

from untwine.data.contract import Dataset
from untwine.data.factors import FactorSpace
from untwine.errors import UntwineError
from untwine.streams import np_uniform

T = TypeVar("T")
# The first and the second states of pairs. A source decides what a state is: a row of factors, or an example's index.
Pairs = tuple[np.ndarray, np.ndarray]
# A progress bar: wraps an iterable, given the name of its items and their number.
Track = Callable[[Iterable[Any], str, int], Iterable[Any]]


class States(ABC):
    """A source of states and of their images."""

    dataset: Dataset

    @abstractmethod
    def pairs(self, factor: int | None, count: int, seed: int) -> Pairs | None:
        """Pairs of states that differ in this factor only, or in any (None); None where there are no such pairs."""

    @abstractmethod
    def traversal(self, factor: int, values: Int64[np.ndarray, " f"], number: int, seed: int) -> np.ndarray | None:
        """The states of a random traversal (michlo2023, Eq. 9) at these values, as far as they exist."""

    @abstractmethod
    def factors(self, states: np.ndarray) -> Int64[np.ndarray, "n k"]:
        """The factors of the states."""

    @abstractmethod
    def images(self, states: np.ndarray) -> Shaped[np.ndarray, "n ..."]:
        """The images of the states."""


def states_of(dataset: Dataset) -> States:
    """All states of the factors if each has exactly one image, else the examples."""
    return Grid(dataset) if dataset.complete else Examples(dataset)


# --- every state has an image ---------------------------------------------------------------------------


class Grid(States):
    """States are rows of factors. Pairs of all factors share their first states, whose images are drawn only once.

    >>> import untwine.datasets
    >>> a, b = Grid(untwine.datasets.xy_squares()).pairs(1, 1000, seed=0)
    >>> (a != b).sum(0).tolist()
    [0, 1000, 0, 0, 0, 0]
    """

    def __init__(self, dataset: Dataset) -> None:
        assert dataset.factors is not None
        self.dataset = dataset
        self.space: FactorSpace = dataset.factors
        self._first: dict[tuple[int, int], np.ndarray] = {}

    def pairs(self, factor: int | None, count: int, seed: int) -> Pairs | None:
        if (self.space.states if factor is None else self.space.sizes[factor]) < 2:
            return None
        if (count, seed) not in self._first:
            self._first[count, seed] = self.space.sample(count, seed)
        first = self._first[count, seed]
        if factor is None:
            return first, self._others(first, seed)
        others = self.space.sizes[factor] - 1
        value = (np_uniform(seed, f"perceived value {factor}", count) * others).astype(np.int64)
        second = first.copy()
        second[:, factor] = value + (value >= first[:, factor])
        return first, second

    def _others(self, first: Int64[np.ndarray, "n k"], seed: int) -> Int64[np.ndarray, "n k"]:
        """Second states, uniform over all states but the first: equal ones are drawn again."""
        second = self.space.sample(len(first), seed, step=1)
        step = 2
        while len(same := np.flatnonzero((first == second).all(1))):
            second[same] = self.space.sample(len(same), seed, step)
            step += 1
        return second

    def traversal(self, factor: int, values: Int64[np.ndarray, " f"], number: int, seed: int) -> np.ndarray | None:
        states = np.repeat(self.space.centroid(seed, step=number)[None], len(values), axis=0)
        states[:, factor] = values
        return states

    def factors(self, states: np.ndarray) -> Int64[np.ndarray, "n k"]:
        return states

    def images(self, states: np.ndarray) -> Shaped[np.ndarray, "n ..."]:
        return self.dataset.observe(states)


# --- only the examples have images ----------------------------------------------------------------------


class Examples(States):
    """States are indices of training examples. Without factors, any two examples differ.

    The first state of a pair is uniform over the examples that have a partner, the second over its partners. Where a
    state has several examples, a traversal takes one at random.

    >>> import untwine.datasets
    >>> dots = Examples(untwine.datasets.three_dots(size=8, dots=1, positions=4, examples=30))
    >>> a, b = dots.pairs(0, 1000, seed=0)
    >>> (dots.factors(a) != dots.factors(b)).sum(0).tolist()
    [1000, 0]
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self.space = dataset.factors
        numbers = np.arange(len(dataset))
        self._table = numbers[:, None] if dataset.factors is None else dataset.factors_of(numbers)
        self._sorted: dict[int | None, Sorted] = {}

    def _groups(self, factor: int | None) -> Sorted:
        """Groups of examples that agree in all factors but this one, sorted by its value; None groups all by state."""
        if factor not in self._sorted:
            if factor is None:
                group, value = np.zeros(len(self._table), np.int64), self._keys(self._table)
            else:
                others = self._table.copy()
                others[:, factor] = 0
                group, value = self._keys(others), self._table[:, factor]
            self._sorted[factor] = Sorted.of(group, value)
        return self._sorted[factor]

    def _keys(self, rows: Int64[np.ndarray, "n k"]) -> Int64[np.ndarray, " n"]:
        """A number for each row, equal for equal rows."""
        if self.space is None:
            return rows[:, 0]
        if self.space.states <= np.iinfo(np.int64).max:
            return self.space.index(rows)
        return np.unique(rows, axis=0, return_inverse=True)[1].astype(np.int64)

    def pairs(self, factor: int | None, count: int, seed: int) -> Pairs | None:
        groups = self._groups(factor)
        if not len(groups.paired):
            return None
        uniforms = np_uniform(seed, f"perceived examples {factor}", (count, 2))
        first = groups.paired[(uniforms[:, 0] * len(groups.paired)).astype(np.int64)]
        second = groups.start[first] + (uniforms[:, 1] * groups.partners[first]).astype(np.int64)
        # Partners lie before and after the run of examples that share the value of the first state.
        second += np.where(second >= groups.run[first], groups.size[first] - groups.partners[first], 0)
        return groups.order[first], groups.order[second]

    def traversal(self, factor: int, values: Int64[np.ndarray, " f"], number: int, seed: int) -> np.ndarray | None:
        groups = self._groups(factor)
        if not len(groups.paired):
            return None
        through = groups.paired[
            int(np_uniform(seed, f"perceived traversal {factor}", 1, number)[0] * len(groups.paired))
        ]
        start = groups.start[through]
        group = groups.order[start : start + groups.size[through]]
        group = group[np.argsort(np_uniform(seed, f"perceived among equals {factor}", len(group), number))]
        seen, first = np.unique(self._table[group, factor], return_index=True)
        return group[first[np.isin(seen, values)]]

    def factors(self, states: np.ndarray) -> Int64[np.ndarray, "n k"]:
        return self._table[states]

    def images(self, states: np.ndarray) -> Shaped[np.ndarray, "n ..."]:
        return self.dataset.batch(states)


@dataclass(frozen=True)
class Sorted:
    """Examples sorted by group, and by value within a group. All fields but `order` go by place in that order."""

    order: Int64[np.ndarray, " n"]
    start: Int64[np.ndarray, " n"]  # the place where its group begins
    size: Int64[np.ndarray, " n"]  # the size of its group
    run: Int64[np.ndarray, " n"]  # the place where its run of equal values begins
    partners: Int64[np.ndarray, " n"]  # the number of examples in its group with another value
    paired: Int64[np.ndarray, " some"]  # the places of examples that have partners

    @staticmethod
    def of(group: Int64[np.ndarray, " n"], value: Int64[np.ndarray, " n"]) -> Sorted:
        """Sort by group and value.

        >>> Sorted.of(np.array([1, 0, 1]), np.array([5, 5, 6])).paired.tolist()
        [1, 2]
        """
        order = np.lexsort((value, group))
        group, value = group[order], value[order]
        new_group = np.append(True, group[1:] != group[:-1])
        start, size = _spans(new_group)
        run, length = _spans(new_group | np.append(True, value[1:] != value[:-1]))
        return Sorted(order, start, size, run, size - length, np.flatnonzero(size > length))


def _spans(new: Shaped[np.ndarray, " n"]) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " n"]]:
    """The start and the length of the span of each place; `new` is True where a span begins."""
    starts = np.flatnonzero(new)
    lengths = np.diff(np.append(starts, len(new)))
    return np.repeat(starts, lengths), np.repeat(lengths, lengths)


# --- arguments ------------------------------------------------------------------------------------------


def check_dataset(dataset: Any) -> Dataset:
    """The dataset; anything else is refused."""
    if not isinstance(dataset, Dataset):
        raise UntwineError(f"a {type(dataset).__name__} is no dataset; untwine.datasets.images makes one of pictures")
    return dataset


def tracked(progress: Track | None, items: Any, what: str) -> Iterable[Any]:
    """The items, behind a progress bar if there is one."""
    return items if progress is None else progress(items, what, len(items))


def no_pairs(dataset: Dataset) -> str:
    """The error message for a dataset without pairs along any factor."""
    return (
        f"no two of the {len(dataset):,} examples of {dataset!r} differ in one factor only, and not every state has an "
        "image: distances along a factor need such pairs"
    )

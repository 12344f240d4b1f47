"""Which states a perceived distance is measured on: pairs and traversals, of all states or of those that were seen."""

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
# Two lists of states, pair by pair. What stands for a state (its factors, an example's number) is up to the source.
Pairs = tuple[np.ndarray, np.ndarray]
# Wraps what is gone through, with what that is and how long it is: a progress bar.
Track = Callable[[Iterable[Any], str, int], Iterable[Any]]


class States(ABC):
    """A source of images of states."""

    dataset: Dataset

    @abstractmethod
    def pairs(self, factor: int | None, count: int, seed: int) -> Pairs | None:
        """States a != b that differ in this factor only, or in any (None); None where there are no such pairs."""

    @abstractmethod
    def traversal(self, factor: int, values: Int64[np.ndarray, " f"], number: int, seed: int) -> np.ndarray | None:
        """The states of a random traversal (michlo2023, Eq. 9) at these values, or those of them that there are."""

    @abstractmethod
    def factors(self, states: np.ndarray) -> Int64[np.ndarray, "n k"]: ...

    @abstractmethod
    def images(self, states: np.ndarray) -> Shaped[np.ndarray, "n ..."]: ...


def states_of(dataset: Dataset) -> States:
    """All states of the factors; where some have no image, or several, or there are no factors, the examples."""
    return Grid(dataset) if dataset.complete else Examples(dataset)


# --- every state has an image ---------------------------------------------------------------------------


class Grid(States):
    """States are rows of factors. Pairs of all factors share their first states, so that these are drawn once.

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
        """Uniform over all states but the first: drawn again while it is the same."""
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


# --- some have none, or several, or nobody knows their factors ------------------------------------------


class Examples(States):
    """States are numbers of training examples. Without factors, any two examples differ.

    The first of a pair is uniform over the examples that have a partner, the second over its partners. Where a
    state has several examples, a traversal takes one at random.

    >>> import untwine.datasets
    >>> dots = Examples(untwine.datasets.three_dots(size=8, dots=1, positions=4, examples=30))
    >>> a, b = dots.pairs(0, 1000, seed=0)
    >>> (dots.factors(a) != dots.factors(b)).sum(0).tolist()
    [1000, 0]
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self.space = dataset, dataset.factors
        numbers = np.arange(len(dataset))
        self._table = numbers[:, None] if dataset.factors is None else dataset.factors_of(numbers)
        self._sorted: dict[int | None, Sorted] = {}

    def _groups(self, factor: int | None) -> Sorted:
        """Examples that agree in all factors but one, by the value of that one; or all, by their state."""
        if factor not in self._sorted:
            if factor is None:
                group, own = np.zeros(len(self._table), np.int64), self._keys(self._table)
            else:
                others = self._table.copy()
                others[:, factor] = 0
                group, own = self._keys(others), self._table[:, factor]
            self._sorted[factor] = Sorted.of(group, own)
        return self._sorted[factor]

    def _keys(self, rows: Int64[np.ndarray, "n k"]) -> Int64[np.ndarray, " n"]:
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
        # Partners lie before and after the run of examples with the first one's own value.
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
        found = groups.order[start : start + groups.size[through]]
        found = found[np.argsort(np_uniform(seed, f"perceived among equals {factor}", len(found), number))]
        seen, first = np.unique(self._table[found, factor], return_index=True)
        return found[first[np.isin(seen, values)]]

    def factors(self, states: np.ndarray) -> Int64[np.ndarray, "n k"]:
        return self._table[states]

    def images(self, states: np.ndarray) -> Shaped[np.ndarray, "n ..."]:
        return self.dataset.batch(states)


@dataclass(frozen=True)
class Sorted:
    """Things in groups, and in runs of equal values within them, by their place in that order."""

    order: Int64[np.ndarray, " n"]
    start: Int64[np.ndarray, " n"]  # where the group of each begins
    size: Int64[np.ndarray, " n"]  # of its group
    run: Int64[np.ndarray, " n"]  # where its run begins
    partners: Int64[np.ndarray, " n"]  # how many of its group have another value
    paired: Int64[np.ndarray, " some"]  # the places of those that have partners

    @staticmethod
    def of(group: Int64[np.ndarray, " n"], own: Int64[np.ndarray, " n"]) -> Sorted:
        """Sort by group and value.

        >>> Sorted.of(np.array([1, 0, 1]), np.array([5, 5, 6])).paired.tolist()
        [1, 2]
        """
        order = np.lexsort((own, group))
        group, own = group[order], own[order]
        new_group = np.append(True, group[1:] != group[:-1])
        start, size = _spans(new_group)
        run, length = _spans(new_group | np.append(True, own[1:] != own[:-1]))
        return Sorted(order, start, size, run, size - length, np.flatnonzero(size > length))


def _spans(new: Shaped[np.ndarray, " n"]) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " n"]]:
    """The start and the length of the span in which each lies, from where spans begin."""
    starts = np.flatnonzero(new)
    lengths = np.diff(np.append(starts, len(new)))
    return np.repeat(starts, lengths), np.repeat(lengths, lengths)


# --- arguments ------------------------------------------------------------------------------------------


def check_dataset(dataset: Any) -> Dataset:
    if not isinstance(dataset, Dataset):
        raise UntwineError(f"a {type(dataset).__name__} is no dataset; untwine.datasets.images makes one of pictures")
    return dataset


def tracked(progress: Track | None, items: Any, what: str) -> Iterable[Any]:
    return items if progress is None else progress(items, what, len(items))


def no_pairs(dataset: Dataset) -> str:
    return (
        f"no two of the {len(dataset):,} examples of {dataset!r} differ in one factor only, and not every state has an "
        "image: distances along a factor need such pairs"
    )

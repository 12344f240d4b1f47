"""Sampling designs: which states of a factor space or a window, or which examples, a metric is scored on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Int64

from untwine.data.factors import FactorSpace
from untwine.errors import UntwineError
from untwine.namespace import directory
from untwine.streams import np_uniform

__all__ = ["Design", "Groups", "Independent", "Pairs"]
__dir__ = directory(__all__)


@dataclass(frozen=True)
class Design(ABC):
    """How a metric's sample is drawn. `points` is the default number of its states; no sample has more than there are.

    A design that `intervenes` chooses states itself, or serves a metric that counts on independent factors: both need
    an image of every state. Any other design may draw from the examples that there are.
    """

    points: int = 10_000
    intervenes: bool = field(default=True, kw_only=True, compare=False)  # equal samples are drawn once

    @abstractmethod
    def draw(self, grid: FactorSpace, points: int, seed: int, step: int = 0) -> Int64[np.ndarray, "*samples k"]:
        """States of the grid, a pure function of the seed and the step.

        Args:
            grid: The factor space, or that of a window.
            points: The most states to draw.
            seed: Seed of the sample.
            step: The number of the sample, such as that of a window.
        """

    @abstractmethod
    def count(self, grid: FactorSpace, points: int) -> int:
        """How many states `draw` returns."""

    def suited(self, grid: FactorSpace, points: int) -> Design:
        """The design that a grid is sampled by: this one, unless the grid is too small for it."""
        return self

    def options(self, points: int) -> dict[str, Any]:
        """Options of a metric that follow from the number of points."""
        return {}


@dataclass(frozen=True)
class Independent(Design):
    """`[n, k]`: different states in random order; all of them, each once, where there are no more than `points`.

    A metric that fits a model to a part of these and tests it on the rest never tests on a picture that it was fitted
    to.

    >>> grid = FactorSpace(("x", "y"), (4, 9), ("ordered", "ordered"))
    >>> Independent().draw(grid, points=5, seed=0).shape, Independent().draw(grid, points=10_000, seed=0).shape
    ((5, 2), (36, 2))
    """

    intervenes: bool = field(default=False, kw_only=True, compare=False)

    def draw(self, grid: FactorSpace, points: int, seed: int, step: int = 0) -> Int64[np.ndarray, "*samples k"]:
        return grid.distinct(points, seed, step)

    def count(self, grid: FactorSpace, points: int) -> int:
        return min(points, grid.states)


@dataclass(frozen=True)
class Groups(Design):
    """`[groups, size, k]`: in each group one factor, chosen at random, has one value; the others are random.

    What FactorVAE's score votes on (Kim & Mnih 2018). Factors of a single value are never chosen. States are drawn
    with replacement, so a state may be in several groups, those that a metric trains on and those that it tests on.
    Where there are no more states than `points` every state would be, and a metric with `plain` gets all states as
    they are, each once (`Independent`), and forms as many groups itself, for training and for testing of different
    states.

    Args:
        points: The default number of states.
        size: States (or pairs of states) in a group.
        plain: Whether the metric takes plain samples too, by its option `groups`.

    >>> grid = FactorSpace(("x", "y"), (40, 9), ("ordered", "ordered"))
    >>> states = Groups(size=8).draw(grid, points=24, seed=0)
    >>> states.shape, (np.ptp(states, axis=1) == 0).sum(1).tolist()
    ((3, 8, 2), [1, 1, 1])
    >>> Groups(plain=True).suited(grid, points=360).draw(grid, points=360, seed=0).shape
    (360, 2)
    """

    points: int = 15_000 * 64
    size: int = 64
    plain: bool = field(default=False, kw_only=True)

    @property
    def states(self) -> int:
        """How many states a group has."""
        return self.size

    def _groups(self, points: int) -> int:
        if isinstance(self.size, bool) or not isinstance(self.size, int | np.integer) or self.size < 1:
            raise UntwineError(f"the size of a group is {self.size!r}; it must be a whole number, 1 or more")
        if points < self.states:
            raise UntwineError(f"{points} points are too few: a group alone has {self.states}")
        return points // self.states

    def count(self, grid: FactorSpace, points: int) -> int:
        return self._groups(points) * self.states

    def suited(self, grid: FactorSpace, points: int) -> Design:
        return Independent() if self.plain and grid.states <= points else self

    def options(self, points: int) -> dict[str, Any]:
        return {"groups": self._groups(points)}

    def draw(self, grid: FactorSpace, points: int, seed: int, step: int = 0) -> Int64[np.ndarray, "*samples k"]:
        groups = self._groups(points)
        states = grid.sample(groups * self.size, seed, step).reshape(groups, self.size, len(grid))
        fixed = chosen(grid, groups, seed, step)
        rows = np.arange(groups)
        states[rows, :, fixed] = states[rows, :1, fixed]
        return states


@dataclass(frozen=True)
class Pairs(Groups):
    """`[groups, size, 2, k]`: the two states of a pair agree in one factor, the same for all pairs of a group.

    What BetaVAE's score is made of (Higgins et al. 2017): every pair has its own value of that factor.

    >>> grid = FactorSpace(("x", "y"), (40, 9), ("ordered", "ordered"))
    >>> states = Pairs(size=8).draw(grid, points=48, seed=0)
    >>> states.shape, (states[:, :, 0] == states[:, :, 1]).all(1).sum(1).tolist()
    ((3, 8, 2, 2), [1, 1, 1])
    """

    points: int = 15_000 * 64 * 2

    @property
    def states(self) -> int:
        return 2 * self.size

    def draw(self, grid: FactorSpace, points: int, seed: int, step: int = 0) -> Int64[np.ndarray, "*samples k"]:
        groups = self._groups(points)
        states = grid.sample(groups * self.size * 2, seed, step).reshape(groups, self.size, 2, len(grid))
        fixed = chosen(grid, groups, seed, step)
        rows = np.arange(groups)
        states[rows, :, 1, fixed] = states[rows, :, 0, fixed]
        return states


def chosen(grid: FactorSpace, groups: int, seed: int, step: int) -> Int64[np.ndarray, " groups"]:
    """The factor that each group holds, uniform among those of more than one value.

    Args:
        grid: The factors.
        groups: How many groups.
        seed: Seed of the choice.
        step: The number of the sample.
    """
    movable = np.flatnonzero(np.array(grid.sizes) > 1)
    if not len(movable):
        raise UntwineError("every factor has a single value: there is none to hold")
    return movable[(np_uniform(seed, "held factor", groups, step) * len(movable)).astype(np.int64)]


def among(
    examples: int, points: int, seed: int, step: int = 0, purpose: str = "examples"
) -> Int64[np.ndarray, " some"]:
    """Numbers of examples in random order, without repetition.

    Args:
        examples: How many examples there are.
        points: How many numbers to draw; all if there are no more.
        seed: Seed of the order.
        step: The number of the sample.
        purpose: What the numbers are for: different purposes have different orders.

    >>> among(1000, 3, seed=0).shape, sorted(among(4, 10, seed=0).tolist())
    ((3,), [0, 1, 2, 3])
    """
    return np.argsort(np_uniform(seed, purpose, examples, step), kind="stable")[:points]

"""Schedules: numbers that depend on the step. Any weight may be one.

A schedule is a pure function of the step, and works on an array of steps at once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from untwine.errors import UntwineError
from untwine.parts import Each, Number, number, part


class Schedule:
    """A number for each step; `schedule(steps)` evaluates it on an array of steps."""

    def __call__(self, step: Any) -> np.ndarray:
        raise NotImplementedError

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Schedule | Each | int | float):
            return product(self, other)
        return NotImplemented

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Schedule | Each | int | float):
            return plus(self, other)
        return NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Schedule:
        return product(-1.0, self)

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, Schedule | Each | int | float):
            return plus(self, product(-1.0, other))
        return NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def ends(self) -> int:
        """The step from which on the schedule is constant (0 for a constant, -1 for never)."""
        return 0


@part
class Constant(Schedule):
    value: float | Each

    def __call__(self, step: Any) -> np.ndarray:
        return np.full(np.shape(step), self.value, dtype=np.float64)


@part
class Ramp(Schedule):
    end: float | Each
    steps: int
    start: float | Each = 0.0

    def __call__(self, step: Any) -> np.ndarray:
        assert isinstance(self.start, float)  # a member's own schedule: what differs by member is resolved
        assert isinstance(self.end, float)
        done = np.clip(np.asarray(step, np.float64) / max(self.steps, 1), 0.0, 1.0)
        return np.asarray(self.start + (self.end - self.start) * done)

    def ends(self) -> int:
        return self.steps


@part
class Cyclic(Schedule):
    schedule: Schedule
    period: int

    def __call__(self, step: Any) -> np.ndarray:
        return self.schedule(np.asarray(step) % self.period)

    def ends(self) -> int:
        return -1


@part
class Join(Schedule):
    schedules: tuple[Schedule, ...]
    boundaries: tuple[int, ...]

    def __call__(self, step: Any) -> np.ndarray:
        step = np.asarray(step)
        value = self.schedules[0](step)
        for schedule, boundary in zip(self.schedules[1:], self.boundaries, strict=True):
            value = np.where(step >= boundary, schedule(np.maximum(step - boundary, 0)), value)
        return value

    def ends(self) -> int:
        last = self.schedules[-1].ends()
        return -1 if last < 0 else last + (self.boundaries[-1] if self.boundaries else 0)


@part
class Product(Schedule):
    first: Schedule
    second: Schedule

    def __call__(self, step: Any) -> np.ndarray:
        return np.asarray(self.first(step) * self.second(step))  # a product of 0-d arrays is a scalar

    def ends(self) -> int:
        ends = self.first.ends(), self.second.ends()
        return -1 if -1 in ends else max(ends)


@part
class Plus(Schedule):
    first: Schedule
    second: Schedule

    def __call__(self, step: Any) -> np.ndarray:
        return np.asarray(self.first(step) + self.second(step))

    def ends(self) -> int:
        ends = self.first.ends(), self.second.ends()
        return -1 if -1 in ends else max(ends)


def schedule(value: Number) -> Schedule:
    """Any number as a schedule."""
    return value if isinstance(value, Schedule) else Constant(number(value))


def constant(value: Number) -> Schedule:
    """The same number at every step.

    >>> constant(4.0)([0, 10])
    array([4., 4.])
    """
    return schedule(value)


def ramp(end: Number, steps: int, start: float | list | tuple | Each = 0.0) -> Schedule:
    """From `start` to `end` linearly over `steps` steps, then constant (rhodes2021, section 5.2).

    >>> ramp(4.0, 100)([0, 50, 100, 1000])
    array([0., 2., 4., 4.])
    """
    if isinstance(end, Schedule):
        if steps:
            raise UntwineError("a weight that is a schedule already cannot be annealed too: set anneal=0")
        return end
    if not isinstance(steps, int) or steps < 0:
        raise UntwineError(f"a ramp takes a whole number of steps, 0 or more, not {steps!r}")
    return Constant(number(end)) if steps == 0 else Ramp(number(end), int(steps), number(start))


def cyclic(inner: Number, period: int) -> Schedule:
    """A schedule that starts anew every `period` steps.

    >>> cyclic(ramp(1.0, 5), 10)([0, 5, 9, 10, 15])
    array([0., 1., 1., 0., 1.])
    """
    if period < 1:
        raise UntwineError(f"a cycle takes 1 step or more, not {period}")
    return Cyclic(schedule(inner), int(period))


def join(schedules: list[Any] | tuple[Any, ...], boundaries: list[int] | tuple[int, ...]) -> Schedule:
    """One schedule after another; each counts its steps from its own start.

    >>> join([ramp(1.0, 2), 5.0], [4])([0, 1, 2, 3, 4])
    array([0. , 0.5, 1. , 1. , 5. ])
    """
    if len(schedules) != len(boundaries) + 1 or list(boundaries) != sorted(boundaries):
        raise UntwineError("join takes n schedules and n - 1 rising boundaries between them")
    return Join(tuple(schedule(s) for s in schedules), tuple(int(b) for b in boundaries))


def product(first: Number, second: Number) -> Schedule:
    """The product of two numbers or schedules, folded when both are plain.

    >>> product(2.0, 3.0)
    Constant(value=6.0)
    """
    a, b = schedule(first), schedule(second)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Constant) and one.value == 1.0:
            return other
    return _folded(a, b, operator.mul) or Product(a, b)


def plus(first: Number, second: Number) -> Schedule:
    """The sum of two numbers or schedules, folded when both are plain.

    >>> plus([1.0, 4.0], -1.0)
    Constant(value=Each(values=(0.0, 3.0)))
    """
    a, b = schedule(first), schedule(second)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Constant) and one.value == 0.0:
            return other
    return _folded(a, b, operator.add) or Plus(a, b)


def _folded(a: Schedule, b: Schedule, combine: Callable[[float, float], float]) -> Schedule | None:
    """Two constants as one; None where one of them moves, or both differ by member in number."""
    if not (isinstance(a, Constant) and isinstance(b, Constant)):
        return None
    values = [one.value.values if isinstance(one.value, Each) else None for one in (a, b)]
    counts = {len(found) for found in values if found is not None}
    if len(counts) > 1:
        return None
    if not counts:
        return Constant(combine(a.value, b.value))  # type: ignore[arg-type]
    (count,) = counts
    rows = [found or (one.value,) * count for found, one in zip(values, (a, b), strict=True)]
    return Constant(Each(tuple(combine(x, y) for x, y in zip(*rows, strict=True))))

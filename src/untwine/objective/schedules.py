"""Schedules: numbers that depend on the step. Any weight may be one.

A schedule is a pure function of the step, and works on an array of steps at once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from untwine.arguments import Count, Number, PerMember, Whole
from untwine.errors import UntwineError
from untwine.namespace import directory
from untwine.parts import Each, Part, leaves, number, part, rebuild


class Schedule(Part, kind="schedule"):
    """A number for each step; `schedule(steps)` evaluates it on an array of steps."""

    __array_ufunc__ = None  # an array times a schedule is one schedule, with a number for each member

    def __call__(self, step: Any) -> np.ndarray:
        raise NotImplementedError

    @classmethod
    def from_argument(cls, value: Any) -> Any:
        """A number, or one for each member, as a schedule that is constant."""
        return Constant(number(value)) if _is_number(value) else super().from_argument(value)

    def __mul__(self, other: Any) -> Any:
        return product(self, other) if isinstance(other, Schedule) or _is_number(other) else NotImplemented

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Any:
        return plus(self, other) if isinstance(other, Schedule) or _is_number(other) else NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Schedule:
        return product(-1.0, self)

    def __sub__(self, other: Any) -> Any:
        return self + product(-1.0, other) if isinstance(other, Schedule) or _is_number(other) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def ends(self) -> int:
        """The step from which on the schedule is constant (0 for a constant, -1 for never)."""
        return 0


def _is_number(value: Any) -> bool:
    """Whether a value is a number, or has one for each member."""
    return isinstance(value, Each | int | float | list | tuple) or hasattr(value, "tolist")


@part(named=False)
class Constant(Schedule):
    """The same number at every step."""

    value: PerMember

    def __call__(self, step: Any) -> np.ndarray:
        return np.full(np.shape(step), self.value, dtype=np.float64)


@part(named=False)
class Ramp(Schedule):
    """From `start` to `end` linearly over `steps` steps, then constant."""

    end: PerMember
    steps: Whole
    start: PerMember = 0.0

    def __call__(self, step: Any) -> np.ndarray:
        assert isinstance(self.start, float)  # the schedule of one member: what differs by member is resolved
        assert isinstance(self.end, float)
        done = np.clip(np.asarray(step, np.float64) / max(self.steps, 1), 0.0, 1.0)
        return np.asarray(self.start + (self.end - self.start) * done)

    def ends(self) -> int:
        return self.steps


@part(named=False)
class Cyclic(Schedule):
    """A schedule that starts anew every `period` steps."""

    schedule: Schedule
    period: Count

    def __call__(self, step: Any) -> np.ndarray:
        return self.schedule(np.asarray(step) % self.period)

    def ends(self) -> int:
        return -1


@part(named=False)
class Join(Schedule):
    """One schedule after another; each counts its steps from its own start."""

    schedules: tuple[Schedule, ...]
    boundaries: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.schedules) != len(self.boundaries) + 1 or list(self.boundaries) != sorted(self.boundaries):
            raise UntwineError("join takes n schedules and n - 1 rising boundaries between them")

    def __call__(self, step: Any) -> np.ndarray:
        step = np.asarray(step)
        value = self.schedules[0](step)
        for schedule, boundary in zip(self.schedules[1:], self.boundaries, strict=True):
            value = np.where(step >= boundary, schedule(np.maximum(step - boundary, 0)), value)
        return value

    def ends(self) -> int:
        last = self.schedules[-1].ends()
        return -1 if last < 0 else last + (self.boundaries[-1] if self.boundaries else 0)


@part(named=False)
class Product(Schedule):
    """The product of two schedules."""

    first: Schedule
    second: Schedule

    def __call__(self, step: Any) -> np.ndarray:
        return np.asarray(self.first(step) * self.second(step))  # a product of 0-d arrays is a scalar

    def ends(self) -> int:
        return _last_end(self.first, self.second)


@part(named=False)
class Plus(Schedule):
    """The sum of two schedules."""

    first: Schedule
    second: Schedule

    def __call__(self, step: Any) -> np.ndarray:
        return np.asarray(self.first(step) + self.second(step))

    def ends(self) -> int:
        return _last_end(self.first, self.second)


def _last_end(*schedules: Schedule) -> int:
    ends = [schedule.ends() for schedule in schedules]
    return -1 if -1 in ends else max(ends)


def schedule(value: Number) -> Schedule:
    """Any number as a schedule."""
    return value if isinstance(value, Schedule) else Constant(number(value))


def ends(value: Number) -> list[float]:
    """The first and the last number of a schedule; where it differs by member, those of each member.

    One that never ends has its first number twice.

    >>> ends(ramp([1.0, 2.0], 100, start=0.5)), ends(3.0)
    ([0.5, 1.0, 0.5, 2.0], [3.0, 3.0])
    """

    def differs(leaf: Any) -> bool:
        return isinstance(leaf, Each)

    moving = schedule(value)
    by_member = [each.values for each in leaves(moving, differs)]
    rows = zip(*by_member, strict=False) if by_member else [()]
    steps = [0, max(0, moving.ends())]
    return [end for row in rows for end in rebuild(moving, differs, iter(row))(steps).tolist()]


@Schedule.registry.bound
def constant(value: Number) -> Schedule:
    """The same number at every step.

    >>> constant(4.0)([0, 10])
    array([4., 4.])
    """
    return schedule(value)


@Schedule.registry.bound
def ramp(end: Number, steps: Whole, start: PerMember = 0.0) -> Schedule:
    """From `start` to `end` linearly over `steps` steps, then constant (rhodes2021, section 5.2).

    Args:
        end: The number at the end.
        steps: How many steps the ramp takes; with 0 the schedule is constant.
        start: The number at the start.

    >>> ramp(4.0, 100)([0, 50, 100, 1000])
    array([0., 2., 4., 4.])
    """
    if isinstance(end, Schedule):
        if steps:
            raise UntwineError("a weight that is a schedule already cannot be annealed too: set anneal=0")
        return end
    return Constant(number(end)) if steps == 0 else Ramp(number(end), steps, start)


@Schedule.registry.bound
def cyclic(inner: Number, period: Count) -> Schedule:
    """A schedule that starts anew every `period` steps.

    Args:
        inner: The schedule of one period.
        period: How many steps it takes.

    >>> cyclic(ramp(1.0, 5), 10)([0, 5, 9, 10, 15])
    array([0., 1., 1., 0., 1.])
    """
    return Cyclic(schedule(inner), period)


@Schedule.registry.bound
def join(schedules: Sequence[Number], boundaries: Sequence[int]) -> Schedule:
    """One schedule after another; each counts its steps from its own start.

    Args:
        schedules: The schedules, or numbers.
        boundaries: The step at which each of them but the first begins.

    >>> join([ramp(1.0, 2), 5.0], [4])([0, 1, 2, 3, 4])
    array([0. , 0.5, 1. , 1. , 5. ])
    """
    return Join(tuple(schedule(item) for item in schedules), tuple(boundaries))


@Schedule.registry.bound
def product(first: Number, second: Number) -> Schedule:
    """The product of two numbers or schedules, folded when both are plain.

    >>> product(2.0, 3.0)
    Constant(value=6.0)
    """
    a, b = schedule(first), schedule(second)
    if b == Constant(1.0):
        return a
    if a == Constant(1.0):
        return b
    return _folded(a, b, operator.mul) or Product(a, b)


@Schedule.registry.bound
def plus(first: Number, second: Number) -> Schedule:
    """The sum of two numbers or schedules, folded when both are plain.

    >>> plus([1.0, 4.0], -1.0)
    Constant(value=Each(values=(0.0, 3.0)))
    """
    a, b = schedule(first), schedule(second)
    if b == Constant(0.0):
        return a
    if a == Constant(0.0):
        return b
    return _folded(a, b, operator.add) or Plus(a, b)


def _folded(a: Schedule, b: Schedule, combine: Callable[[float, float], float]) -> Schedule | None:
    """Two constants as one; None where a schedule moves, or both differ by member with different numbers of values."""
    if not (isinstance(a, Constant) and isinstance(b, Constant)):
        return None
    values = [constant.value.values if isinstance(constant.value, Each) else None for constant in (a, b)]
    counts = {len(row) for row in values if row is not None}
    if len(counts) > 1:
        return None
    if not counts:
        return Constant(combine(a.value, b.value))  # type: ignore[arg-type]
    (count,) = counts
    rows = [row or (constant.value,) * count for row, constant in zip(values, (a, b), strict=True)]
    return Constant(Each(tuple(combine(x, y) for x, y in zip(*rows, strict=True))))  # type: ignore[arg-type]


__all__ = ["Schedule", "constant", "cyclic", "join", "ramp"]
__dir__ = directory(__all__)

"""Numbers: annotations with bounds, and numbers that may differ by member of a pack."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import numpy as np

from untwine.errors import UntwineError


@dataclass(frozen=True)
class Each:
    """One value for each member of a pack, in the order of the run's seeds."""

    values: tuple[float, ...]


def each(*values: float) -> Each:
    """A number that differs by member.

    >>> each(1, 4, 16)
    Each(values=(1.0, 4.0, 16.0))
    """
    return Each(tuple(_finite(value) for value in values))


def number(value: Any) -> float | Each:
    """A plain number, or one for each member from a list, tuple, array or tensor."""
    if isinstance(value, Each):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return Each(tuple(_finite(item) for item in value))
    return _finite(value)


def is_each(value: Any) -> bool:
    """Whether this is the JSON of an `Each`."""
    return isinstance(value, dict) and set(value) == {"each"}


def _finite(value: Any) -> float:
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        raise UntwineError(f"a number was expected, not {value!r}") from None
    if not math.isfinite(result):
        raise UntwineError(f"a number must be finite, not {result}")
    return result


# --- annotations with bounds ------------------------------------------------------------------------


@dataclass(frozen=True)
class Bound:
    """A condition on a number, and the words for it: "must be {words}"."""

    words: str
    holds: Callable[[Any], bool]


POSITIVE = Bound("positive", lambda value: value > 0)
NON_NEGATIVE = Bound("0 or more", lambda value: value >= 0)
# NumPy and torch count with 64 bits, and what follows from a number may be a little more.
COUNTABLE = Bound("less than 2**62", lambda value: not isinstance(value, int) or abs(value) < 2**62)


def at_least(least: float) -> Bound:
    """The bound of numbers that are `least` or more."""
    return Bound(f"{least:g} or more", lambda value: value >= least)


def at_most(most: float) -> Bound:
    """The bound of numbers that are `most` or less."""
    return Bound(f"{most:,} or less", lambda value: value <= most)


def between(least: float, most: float) -> Bound:
    """The bound of numbers from `least` to `most`, both included."""
    return Bound(f"from {least:g} to {most:g}", lambda value: least <= value <= most)


SHARE = between(0, 1)

# Plain numbers.
Positive: TypeAlias = Annotated[float, POSITIVE]
NonNegative: TypeAlias = Annotated[float, NON_NEGATIVE]
Share: TypeAlias = Annotated[float, SHARE]
Count: TypeAlias = Annotated[int, at_least(1)]
Whole: TypeAlias = Annotated[int, at_least(0)]

# A number, or one for each member of a pack: a list, a tuple or an array becomes an `Each`.
PerMember: TypeAlias = float | Each | Sequence[float] | np.ndarray
EachPositive: TypeAlias = Annotated[PerMember, POSITIVE]
EachNonNegative: TypeAlias = Annotated[PerMember, NON_NEGATIVE]
EachShare: TypeAlias = Annotated[PerMember, SHARE]

# A weight: a number, one for each member of a pack, or a schedule (a function of the step).
Number: TypeAlias = PerMember | Callable[..., Any]
PositiveNumber: TypeAlias = Annotated[Number, POSITIVE]
NonNegativeNumber: TypeAlias = Annotated[Number, NON_NEGATIVE]

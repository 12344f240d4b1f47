"""Parts: frozen dataclasses with a name, a JSON form, and numbers that are leaves.

Likelihoods, posteriors, priors, penalties, schedules and objectives are all parts. Whatever is built of
parts can be written to a file and read back without executing anything: names are looked up here. In a
part, floats (and schedules of floats) are *leaves*: members of a pack may differ in them. Everything else
(integers, strings, the parts themselves) is *structure*: members with equal structure train as one pack.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, dataclass_transform

from untwine.errors import UntwineError, refuse_unknown, unknown

_parts: dict[str, type] = {}
C = TypeVar("C", bound=type)


@dataclass_transform(frozen_default=True)
def part(cls: C) -> C:
    """Make a class a part: a frozen dataclass whose name a file may mention."""
    made = dataclasses.dataclass(frozen=True)(cls)
    old = _parts.get(cls.__name__)
    if old is not None and old.__module__ != cls.__module__:
        raise UntwineError(f"a part named {cls.__name__!r} exists already, in {old.__module__}")
    _parts[cls.__name__] = made
    made.__part__ = True
    return made


def is_part(value: Any) -> bool:
    return getattr(type(value), "__part__", False)


@dataclasses.dataclass(frozen=True)
class Each:
    """One value for each member of a pack, in the order of the run's seeds."""

    values: tuple[float, ...]


# What a weight may be: a number, one for each member of a pack, or a schedule (a function of the step).
Number: TypeAlias = float | Each | list | tuple | Callable[..., Any]


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
        return Each(tuple(_finite(one) for one in value))
    return _finite(value)


def bounded(
    value: Any, name: str, right: Callable[[float], bool] = lambda one: one > 0, what: str = "positive"
) -> float | Each:
    """A number, or one for each member, that is within its bounds.

    >>> bounded([1, 2], "a scale")
    Each(values=(1.0, 2.0))
    """
    made = number(value)
    for one in made.values if isinstance(made, Each) else (made,):
        if not right(one):
            raise UntwineError(f"{name} must be {what}, not {one:g}")
    return made


def _finite(value: Any) -> float:
    try:
        made = float(value)
    except (TypeError, ValueError, OverflowError):
        raise UntwineError(f"a number was expected, not {value!r}") from None
    if not math.isfinite(made):
        raise UntwineError(f"a number must be finite, not {made}")
    return made


def is_each(value: Any) -> bool:
    """Whether this is the JSON of an `Each`."""
    return isinstance(value, dict) and set(value) == {"each"}


def to_json(value: Any) -> Any:
    """The JSON form of a part, or of plain values that hold parts."""
    if is_part(value):
        fields = {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"part": type(value).__name__, **fields}
    if isinstance(value, Each):
        return {"each": list(value.values)}
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise UntwineError(f"{type(value).__name__} has no JSON form: {value!r}")


def from_json(value: Any) -> Any:
    """The inverse of `to_json`: names are looked up among the parts, nothing is imported.

    >>> from_json({"each": [1.0, 2.0]})
    Each(values=(1.0, 2.0))
    """
    if isinstance(value, list):
        return tuple(from_json(item) for item in value)
    if not isinstance(value, dict):
        return value
    if is_each(value):
        numbers = value["each"]
        if not isinstance(numbers, list) or not all(isinstance(one, int | float) for one in numbers):
            raise UntwineError(f"'each' takes a list of numbers, one for each member, not {numbers!r}")
        return each(*numbers)
    if "part" not in value:
        return {key: from_json(item) for key, item in value.items()}
    if not isinstance(value["part"], str) or value["part"] not in _parts:
        raise unknown("part", str(value["part"]), _parts)
    cls = _parts[value["part"]]
    fields = {f.name for f in dataclasses.fields(cls)}
    arguments = {key: from_json(item) for key, item in value.items() if key != "part"}
    refuse_unknown(f"field of part {cls.__name__!r}:", arguments, fields)
    try:
        return cls(**arguments)
    except TypeError as error:
        raise UntwineError(f"part {cls.__name__!r} is incomplete: {error}") from None


def resolve(value: Any, member: int) -> Any:
    """JSON in which every `each` is replaced by its value for one member.

    >>> resolve({"beta": {"each": [1.0, 4.0]}, "p": 1}, 1)
    {'beta': 4.0, 'p': 1}
    """
    if isinstance(value, dict):
        if is_each(value):
            if member >= len(value["each"]):
                raise UntwineError(
                    f"{len(value['each'])} values {value['each']} were given where each member needs one, "
                    f"but there is a member number {member + 1}"
                )
            return value["each"][member]
        return {key: resolve(item, member) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, member) for item in value]
    return value


def structure(value: Any) -> Any:
    """JSON with every float blanked: two objectives of equal structure can share a pack."""
    if isinstance(value, dict):
        return None if is_each(value) else {key: structure(item) for key, item in value.items()}
    if isinstance(value, list):
        return [structure(item) for item in value]
    return None if isinstance(value, float) else value


def leaves(value: Any, is_leaf: Callable[[Any], bool]) -> Iterator[Any]:
    """Every leaf below a part, in a fixed order."""
    if is_leaf(value):
        yield value
    elif is_part(value):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name), is_leaf)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item, is_leaf)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item, is_leaf)


def rebuild(value: Any, is_leaf: Callable[[Any], bool], new: Iterator[Any]) -> Any:
    """The same part with its leaves replaced, in the order of `leaves`."""
    if is_leaf(value):
        return next(new)
    if is_part(value):
        made = object.__new__(type(value))  # the checks of __init__ are for people's numbers, not for tensors
        for field in dataclasses.fields(value):
            object.__setattr__(made, field.name, rebuild(getattr(value, field.name), is_leaf, new))
        return made
    if isinstance(value, Mapping):
        return {key: rebuild(item, is_leaf, new) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(rebuild(item, is_leaf, new) for item in value)
    return value

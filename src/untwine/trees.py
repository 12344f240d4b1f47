"""Parts as trees: their JSON form, and their leaves.

`untwine.parts` says what a part is. Here parts are written down, read back and rebuilt, with everything in them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from untwine.errors import UntwineError, unregistered
from untwine.quantities import Each, each, is_each

classes: dict[str, type] = {}  # every class of parts by its name, which files mention


def is_part(value: Any) -> bool:
    """Whether a value is an instance of a part."""
    return getattr(type(value), "__part__", False)


# --- JSON -------------------------------------------------------------------------------------------


def to_json(value: Any) -> Any:
    """The JSON form of a part, or of plain values that hold parts.

    Fields that a part got after runs with it were stored (their metadata says `added`) are left out at their defaults,
    so that the ids of stored runs stay.
    """
    if is_part(value):
        pairs = [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]
        stored = {field.name: to_json(own) for field, own in pairs if not (_is_added(field) and own == field.default)}
        return {"part": type(value).__name__, **stored}
    if isinstance(value, Each):
        return {"each": list(value.values)}
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise UntwineError(f"{type(value).__name__} has no JSON form: {value!r}")


def _is_added(field: dataclasses.Field[Any]) -> bool:
    return field.metadata.get("added", False)


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
        if not isinstance(numbers, list) or not all(isinstance(item, int | float) for item in numbers):
            raise UntwineError(f"'each' takes a list of numbers, one for each member, not {numbers!r}")
        return each(*numbers)
    if "part" not in value:
        return {key: from_json(item) for key, item in value.items()}
    if not isinstance(value["part"], str) or value["part"] not in classes:
        raise unregistered("part", str(value["part"]), classes)
    cls = classes[value["part"]]
    return cls(**{key: from_json(item) for key, item in value.items() if key != "part"})


def resolve(value: Any, member: int) -> Any:
    """JSON in which every `each` is replaced by its value for one member.

    Args:
        value: JSON of a part or a spec.
        member: The position of the member.

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


# --- leaves -----------------------------------------------------------------------------------------


def leaves(value: Any, is_leaf: Callable[[Any], bool]) -> Iterator[Any]:
    """Every leaf below a part, in a fixed order.

    Args:
        value: A part, or a mapping or list of parts.
        is_leaf: Whether a value is a leaf.
    """
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
    """The same part with its leaves replaced.

    Args:
        value: A part, or a mapping or list of parts.
        is_leaf: Whether a value is a leaf.
        new: The new leaves, in the order of `leaves`.
    """
    if is_leaf(value):
        return next(new)
    if is_part(value):
        copy = object.__new__(type(value))  # the checks of __init__ are for people's numbers, not for tensors
        for field in dataclasses.fields(value):
            object.__setattr__(copy, field.name, rebuild(getattr(value, field.name), is_leaf, new))
        return copy
    if isinstance(value, Mapping):
        return {key: rebuild(item, is_leaf, new) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(rebuild(item, is_leaf, new) for item in value)
    return value

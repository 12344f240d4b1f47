"""Values as the types that annotations promise: `coerce`, which `untwine.arguments` applies to every argument."""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from untwine.errors import UntwineError
from untwine.quantities import COUNTABLE, Bound, Each

_COPIED = str, bytes, list, tuple, range
_ARRAYS = frozenset(typing.get_args(ArrayLike))  # functions of arrays check them themselves


class _Mismatch(Exception):
    """A value that is not of a type, and cannot be converted to it."""


def coerce(value: Any, hint: Any, where: str) -> Any:
    """The value as the type that an annotation promises, or an error that says what it should be.

    A whole number may stand for a float, a list or array for a tuple, a NumPy scalar for a number. True is
    not a number, and a number is finite. A list where a number may differ by member becomes an `Each`. A class
    may convert other values itself, by a class method `from_argument` (NotImplemented refuses).

    Args:
        value: What was given.
        hint: The annotation, as an object; Any accepts everything.
        where: What the value is, for the error: "gamma of prior 'sparse'".

    >>> from untwine.quantities import PerMember, Share
    >>> coerce([1, 2], PerMember, "beta"), coerce(3, float, "beta"), coerce([3, 4], tuple[int, ...], "hidden")
    (Each(values=(1.0, 2.0)), 3.0, (3, 4))
    >>> coerce(2, Share, "gamma of prior 'sparse'")
    Traceback (most recent call last):
    untwine.errors.UntwineError: gamma of prior 'sparse' must be from 0 to 1, not 2
    """
    if isinstance(value, np.generic):
        value = value.item()
    choices = _choices(hint)
    choices.sort(key=lambda choice: choice[0] is not type(value))  # an int stays an int where a float would do
    refusal = None
    for choice, bounds in choices:
        try:
            converted = _converted(value, choice, where, choices)
            _refuse_outside(bounds, converted, value, choice, where)
            return converted
        except _Mismatch:
            continue
        except UntwineError as error:  # the right type, but something about it is wrong
            refusal = refusal or error
    raise refusal or UntwineError(f"{where} must be {expected(hint)}, not {shown(value)}{_suggestion(value, choices)}")


def expected(hint: Any) -> str:
    """An annotation in words.

    >>> from untwine.quantities import Count
    >>> expected(Count | None), expected(Literal["box", "gaussian"]), expected(tuple[float, ...])
    ('a whole number, 1 or more, or None', "'box' or 'gaussian'", 'a list of numbers')
    """
    choices = _choices(hint)
    kinds = [choice for choice, _ in choices]
    words: list[str] = []
    for choice, bounds in choices:
        if Each in kinds and (choice in (np.ndarray, Callable) or typing.get_origin(choice) is not None):
            continue  # that a list is one number for each member goes without saying
        if choice is Each:
            if not _takes_lists(kinds):
                words.append("uw.each(...) for one that differs by member")
            continue
        words += [f"{word}, {bounds[0].words}" if choice is int and bounds else word for word in _words(choice)]
    *first, last = dict.fromkeys(words) or ["something else"]
    if not first:
        return last
    return ", ".join(first) + (", or " if "," in first[-1] or last.startswith("uw.each") else " or ") + last


def _choices(hint: Any) -> list[tuple[Any, tuple[Bound, ...]]]:
    """The alternatives of an annotation, each with its bounds. A text beside a part names the part."""
    choices = _flat(hint)
    named = any(hasattr(choice, "from_argument") for choice, _ in choices)
    return [(choice, bounds) for choice, bounds in choices if not (named and choice is str)]


def _flat(hint: Any, bounds: tuple[Bound, ...] = ()) -> list[tuple[Any, tuple[Bound, ...]]]:
    origin = typing.get_origin(hint)
    if origin is Annotated:
        inner, *extra = typing.get_args(hint)
        return _flat(inner, (*bounds, *(item for item in extra if isinstance(item, Bound))))
    if origin in (typing.Union, types.UnionType):
        if set(typing.get_args(hint)) >= _ARRAYS:
            return [(Any, bounds)]
        return [choice for item in typing.get_args(hint) for choice in _flat(item, bounds)]
    if hint is None:
        hint = types.NoneType
    if origin is Callable:
        hint = Callable
    return [(Any if hint is inspect.Parameter.empty else hint, bounds)]


def _takes_lists(choices: Sequence[Any]) -> bool:
    return np.ndarray in choices or any(typing.get_origin(choice) in (list, Sequence) for choice in choices)


def _converted(value: Any, choice: Any, where: str, choices: Sequence[tuple[Any, tuple[Bound, ...]]]) -> Any:
    """The value as one of the types that are allowed."""
    origin = typing.get_origin(choice)
    per_member = any(other is Each for other, _ in choices)
    if per_member and (choice is np.ndarray or origin in (list, Sequence)):
        return _each(value, where)
    if choice is float:
        return _float(value, where)
    if choice in (bool, int, str, types.NoneType):
        # True is an int to Python; to a reader of a spec it is not.
        if not isinstance(value, choice) or (choice is int and isinstance(value, bool)):
            raise _Mismatch
        return value
    if origin is Literal:
        if any(type(value) is type(item) and value == item for item in typing.get_args(choice)):
            return value
        raise _Mismatch
    if Sequence in (choice, origin) and isinstance(value, Sequence) and not isinstance(value, _COPIED):
        return value  # of a class of its own, which may read its items from a file
    if choice in (tuple, list, Sequence) or origin in (tuple, list, Sequence):
        return _listed(value, choice, where)
    if choice in (dict, Mapping) or origin in (dict, Mapping):
        return _mapped(value, choice, where)
    if choice is Callable:
        if not callable(value):
            raise _Mismatch
        return value
    kind = origin or choice
    if not isinstance(kind, type):  # Any, a type variable, or a name that only a type checker knows
        return value
    return _instance(value, kind)


def _instance(value: Any, kind: type) -> Any:
    try:
        if isinstance(value, kind):
            return value
    except TypeError:  # a protocol that cannot be checked
        return value
    convert = getattr(kind, "from_argument", None)
    converted = NotImplemented if convert is None else convert(value)
    if converted is NotImplemented:
        raise _Mismatch
    return converted


def _float(value: Any, where: str) -> float:
    if getattr(value, "ndim", None) == 0:  # a tensor of one number
        value = value.tolist()
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _Mismatch
    try:
        result = float(value)
    except OverflowError:  # a whole number that is too large
        result = math.inf
    if not math.isfinite(result):
        raise UntwineError(f"{where} must be finite, not {shown(value)}")
    return result


def _items(value: Any) -> list[Any]:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise _Mismatch
    return list(value)


def _each(value: Any, where: str) -> Each:
    items = _items(value)
    if not items:
        raise UntwineError(f"{where} must be a number, or one for each member, not {shown(value)}")
    return Each(tuple(coerce(item, float, f"item {i} of {where}") for i, item in enumerate(items, 1)))


def _listed(value: Any, choice: Any, where: str) -> Any:
    items, hints = _items(value), typing.get_args(choice)
    kind = list if typing.get_origin(choice) is list or choice is list else tuple
    if kind is tuple and hints and hints[-1] is not Ellipsis and typing.get_origin(choice) is tuple:
        if len(items) != len(hints):
            raise _Mismatch
    else:
        hints = (hints[0] if hints else Any,) * len(items)
    return kind(
        coerce(item, hint, f"item {i} of {where}") for i, (item, hint) in enumerate(zip(items, hints, strict=True), 1)
    )


def _mapped(value: Any, choice: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        raise _Mismatch
    hints = typing.get_args(choice)
    if not hints or hints[1] is Any:
        return value
    return {key: coerce(item, hints[1], f"{key!r} of {where}") for key, item in value.items()}


def _refuse_outside(bounds: Sequence[Bound], converted: Any, value: Any, choice: Any, where: str) -> None:
    """Refuse numbers outside the bounds; the error shows a number as it was given."""
    members = isinstance(converted, Each)
    for number in converted.values if members else (converted,):
        for bound in (*bounds, COUNTABLE) if isinstance(number, int | float) and not isinstance(number, bool) else ():
            if not bound.holds(number):
                kind = "a whole number, " if choice is int else ""
                raise UntwineError(f"{where} must be {kind}{bound.words}, not {shown(number if members else value)}")


_WORDS = {
    bool: "true or false",
    int: "a whole number",
    np.integer: "a whole number",
    float: "a number",
    str: "a text",
    types.NoneType: "None",
    tuple: "a list",
    list: "a list",
    Sequence: "a list",
    dict: "a mapping",
    Mapping: "a mapping",
    Callable: "a function",
}
_PLURALS = {int: "whole numbers", float: "numbers", str: "texts"}


def _words(choice: Any) -> list[str]:
    origin, hints = typing.get_origin(choice), typing.get_args(choice)
    if origin is Literal:
        return [repr(item) for item in hints]
    if origin in (tuple, list, Sequence) and hints:
        plural = _PLURALS.get(_choices(hints[0])[0][0])
        if typing.get_origin(hints[0]) in (tuple, list, Sequence):
            plural = "lists"
        size = "" if origin is not tuple or hints[-1] is Ellipsis else f"{len(hints)} "
        return [f"a list of {size}{plural}" if plural else "a list"]
    kind = origin or choice
    name = getattr(kind, "__name__", str(kind))
    return [_WORDS.get(kind) or getattr(kind, "expected", None) or f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"]


def shown(value: Any) -> str:
    """The value, shortened, for an error."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def _suggestion(value: Any, choices: Sequence[tuple[Any, tuple[Bound, ...]]]) -> str:
    options = [
        item for choice, _ in choices if typing.get_origin(choice) is Literal for item in typing.get_args(choice)
    ]
    texts = [item for item in options if isinstance(item, str)]
    close = get_close_matches(value, texts, n=1, cutoff=0.6) if isinstance(value, str) else []
    return f"; did you mean {close[0]!r}?" if close else ""

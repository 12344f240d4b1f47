"""Values of flags, read from text: the ValueError of a reader is the message for the user."""

from __future__ import annotations

import inspect
import json
import os
import types
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from untwine.errors import UntwineError, unknown
from untwine.quantities import Each


def whole(text: str) -> int:
    """A whole number."""
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def decimal(text: str) -> float:
    """A number."""
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def numbers(text: str) -> float | list[float]:
    """A number, or one for each member.

    >>> numbers("4"), numbers("1,2,4")
    (4.0, [1.0, 2.0, 4.0])
    """
    values = [decimal(piece) for piece in text.split(",")]
    return values[0] if len(values) == 1 else values


def seeds(text: str) -> tuple[int, ...]:
    """Seeds and ranges of seeds, as in 0-9 or 0,1,5."""
    from untwine.train.seeds import parse_seeds

    try:
        return parse_seeds(text)
    except UntwineError as error:
        raise ValueError(str(error)) from None


def data_seeds(text: str) -> int | tuple[int, ...]:
    """One seed for all members, or a seed for each."""
    values = seeds(text)
    return values[0] if len(values) == 1 else values


def truth(text: str) -> bool:
    """True or false."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError(f"{text!r} is neither true nor false")


class Choice:
    """Reads one of several texts.

    >>> Choice("iid", "epochs")("epoch")
    Traceback (most recent call last):
    ValueError: unknown choice 'epoch'; did you mean 'epochs'?
    """

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def __call__(self, text: str) -> str:
        for choice in (text, text.replace("-", "_")):
            if choice in self.choices:
                return choice
        raise ValueError(str(unknown("choice", text, self.choices)))


def module_or_file(text: str) -> str:
    return text


def setting(text: str) -> tuple[str, Any]:
    """A setting from text: a name, and a value that is JSON, none, or else a text.

    >>> setting("eps=0.001"), setting("columns=none"), setting("source=scenes")
    (('eps', 0.001), ('columns', None), ('source', 'scenes'))
    """
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"a setting is NAME=VALUE, not {text!r}")
    if value.lower() == "none":
        return name.replace("-", "_"), None
    try:
        return name.replace("-", "_"), json.loads(value)
    except ValueError:
        return name.replace("-", "_"), value


def place(text: str) -> str:
    """A file or a folder, as it was written."""
    return text


METAVAR = {
    module_or_file: "MODULE_OR_FILE",
    whole: "INT",
    decimal: "NUMBER",
    numbers: "NUMBER[,NUMBER...]",
    seeds: "0-9|0,1,5",
    data_seeds: "0-9|0,1,5",
    truth: "true|false",
    setting: "NAME=VALUE",
    place: "PATH",
    Path: "PATH",
}
_READERS: dict[Any, Callable[[str], Any]] = {
    Each: numbers,
    bool: truth,
    int: whole,
    float: decimal,
    str: str,
    Path: Path,
}


def reader(hint: Any, default: Any) -> tuple[Callable[[str], Any], bool] | None:
    """The function that reads an argument from text, and whether it takes several values; None if text cannot be it.

    Args:
        hint: The annotation of the argument.
        default: Its default, whose type counts where there is no annotation.

    >>> reader(int | None, None)
    (<function whole at ...>, False)
    >>> reader(tuple[int, ...], ())
    (<function whole at ...>, True)
    """
    if hint in (Any, inspect.Parameter.empty):
        hint = type(default)
    choices = _alternatives(hint)
    if Each not in choices:
        for choice in choices:
            if typing.get_origin(choice) in (tuple, list, Sequence):
                item = reader(typing.get_args(choice)[0], None)
                return item and (item[0], True)
    if str in choices and {Path, os.PathLike} & {typing.get_origin(choice) or choice for choice in choices}:
        return place, False
    for choice in (Each, *choices):
        if choice in choices and choice in _READERS:
            return _READERS[choice], False
        if typing.get_origin(choice) is Literal and all(isinstance(text, str) for text in typing.get_args(choice)):
            return Choice(*typing.get_args(choice)), False
    return None


def _alternatives(hint: Any) -> list[Any]:
    """The members of a union, without bounds."""
    origin = typing.get_origin(hint)
    if origin is Annotated:
        return _alternatives(typing.get_args(hint)[0])
    if origin in (typing.Union, types.UnionType):
        return [choice for member in typing.get_args(hint) for choice in _alternatives(member)]
    return [hint]

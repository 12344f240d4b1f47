"""Flags from signatures: what a function takes in Python, it takes on the command line."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from untwine.arguments import plain
from untwine.cli import UsageError
from untwine.errors import UntwineError, unknown
from untwine.registry import Registry


def hyphens(name: str) -> str:
    """A name as the command line writes it.

    >>> hyphens("jl1_vae")
    'jl1-vae'
    """
    return name.replace("_", "-")


def find(registry: Registry, name: str) -> Callable[..., Any]:
    """The entry of a name; a misspelt one is answered with names as the command line writes them."""
    try:
        return registry[name]
    except UntwineError:
        raise UsageError(str(unknown(registry.kind, hyphens(name), map(hyphens, registry.names())))) from None


# --- descriptions ---------------------------------------------------------------------------------------


def summary(function: Callable[..., Any]) -> str:
    """The first line of a docstring."""
    return description(function).partition("\n")[0]


def description(function: Callable[..., Any]) -> str:
    """A docstring up to its list of arguments or its example."""
    return re.split(r"^Args:|^>>>", inspect.getdoc(function) or "", maxsplit=1, flags=re.MULTILINE)[0].strip()


def mention(function: Callable[..., Any], argument: str) -> str | None:
    """What a docstring says of an argument: under "Args:", or in sentences that have it in backticks.

    >>> def f(size): '''A square.
    ...
    ...     It has a side. The side is `size` long.'''
    >>> mention(f, "size")
    'The side is `size` long.'
    """
    listed = re.search(
        rf"^Args:\n(?:    .*\n)*?    {argument}: (.*(?:\n {{5,}}.*)*)", inspect.getdoc(function) or "", re.M
    )
    if listed:
        return " ".join(listed[1].split())
    _, _, body = description(function).partition("\n")
    sentences = re.split(r"(?<=\.)\s+|;\s+(?=`)", " ".join(body.split()))
    return " ".join(s for s in sentences if re.search(rf"`[^`]*\b{argument}\b[^`]*`", s)) or None


# --- types ----------------------------------------------------------------------------------------------


def whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None


def decimal(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None


def numbers(text: str) -> float | list[float]:
    """A number, or one for each member.

    >>> numbers("4"), numbers("1,2,4")
    (4.0, [1.0, 2.0, 4.0])
    """
    found = [decimal(piece) for piece in text.split(",")]
    return found[0] if len(found) == 1 else found


def seeds(text: str) -> tuple[int, ...]:
    from untwine.train.seeds import parse_seeds

    try:
        return parse_seeds(text)
    except UntwineError as error:
        raise ValueError(str(error)) from None


def data_seeds(text: str) -> int | tuple[int, ...]:
    """A single one is for all members."""
    found = seeds(text)
    return found[0] if len(found) == 1 else found


def truth(text: str) -> bool:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    raise ValueError(f"{text!r} is neither true nor false")


_METAVAR = {
    whole: "INT",
    decimal: "NUMBER",
    numbers: "NUMBER[,NUMBER...]",
    seeds: "0-9|0,1,5",
    data_seeds: "0-9|0,1,5",
    truth: "true|false",
}
_READERS: dict[Any, Callable[[str], Any]] = {bool: truth, int: whole, float: decimal, str: str, Path: Path}


def reader(hint: Any, default: Any) -> tuple[Callable[[str], Any], bool] | None:
    """How to read an argument of a type, and whether it takes several values; None if no text can be it.

    >>> reader(int | None, None)
    (<function whole at ...>, False)
    >>> reader(tuple[int, ...], ())
    (<function whole at ...>, True)
    """
    hint = type(default) if hint in (Any, inspect.Parameter.empty) else plain(hint)
    choices = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    for choice in choices:
        if typing.get_origin(choice) in (tuple, list, Sequence):
            inner = reader(typing.get_args(choice)[0], None)
            return inner and (inner[0], True)
    for choice in choices:
        if choice in _READERS:
            return _READERS[choice], False
    return None


def flag(
    name: str,
    read: Callable[[str], Any],
    several: bool = False,
    default: Any = dataclasses.MISSING,
    help: str | None = None,
    prefix: bool = True,
    called: str | None = None,
    shown: str | None = None,
) -> tuple[str, Any, Any]:
    """A field of a dataclass that tyro turns into a flag, which may be `called` otherwise.

    A value is read by our own function, for the sake of its message. `shown` stands for the default.
    """
    import tyro
    from tyro.constructors import PrimitiveConstructorSpec

    def parse(texts: list[str]) -> Any:
        if default is None and [text.lower() for text in texts] == ["none"]:
            return None
        return tuple(map(read, texts)) if several else read(texts[0])

    def show(value: Any) -> list[str]:
        if isinstance(value, tuple | list):
            return [str(item) for item in value] if several else [",".join(map(str, value))]
        return [str(value)]

    metavar = _METAVAR.get(read, "NAME" if called or isinstance(default, str) else "TEXT")
    spec = PrimitiveConstructorSpec(
        nargs="*" if several else 1,
        metavar=f"{metavar} ..." if several else metavar,
        instance_from_str=parse,
        is_instance=lambda value: True,
        str_from_instance=show,
    )
    if shown is None and (default is None or default == ()):
        shown = "none"
    hint = shown and f"(default: {shown})"
    argument: Any = tyro.conf.arg(name=called, help=help, prefix_name=prefix, help_behavior_hint=hint)
    annotation = Annotated[Any, spec, argument]  # pyright: ignore
    return name, annotation, dataclasses.field() if default is dataclasses.MISSING else default


def switch(name: str, help: str, default: bool = False) -> tuple[str, Any, Any]:
    """A flag without a value."""
    import tyro

    argument: Any = tyro.conf.arg(help=help, prefix_name=False, help_behavior_hint="")
    return name, Annotated[bool, tyro.conf.FlagCreatePairsOff, argument], default  # pyright: ignore


JSON = "print the numbers as JSON, and nothing else"


def arguments(
    function: Callable[..., Any],
    prefix: bool = True,
    per_member: bool = False,
    shown: Mapping[str, str] | None = None,
    leave_out: Collection[str] = (),
    switches: bool = False,
) -> type:
    """A dataclass with a flag for each argument of a function; `per_member` floats take a value for each member.

    `shown` has what stands for the default of an argument. With `switches`, what is False by default needs no value.
    """
    inner = inspect.unwrap(function)
    fields = []
    for name, parameter in inspect.signature(function).parameters.items():
        annotation = parameter.annotation
        if isinstance(annotation, str):  # one by one: the return type of a method would import torch
            annotation = eval(annotation, inner.__globals__)
        default = dataclasses.MISSING if parameter.default is parameter.empty else parameter.default
        if name in leave_out:
            continue
        if switches and default is False:
            fields.append(switch(name, mention(function, name) or ""))
            continue
        found = reader(annotation, default)
        if found is None:  # it can be given only in Python
            continue
        read, several = found
        if per_member and isinstance(default, float):
            read = numbers
        default_text = (shown or {}).get(name)
        fields.append(flag(name, read, several, default, mention(function, name), prefix, shown=default_text))
    return dataclasses.make_dataclass(function.__name__, fields, kw_only=True)


def parse(prog: str, about: str, fields: Sequence[Any], args: list[str]) -> Any:
    """The flags of a command, read by tyro; what is wrong ends the command with code 2."""
    import tyro

    command = dataclasses.make_dataclass("command", fields, kw_only=True)
    return tyro.cli(command, prog=prog, description=about, args=args)


def values(parsed: Any) -> dict[str, Any]:
    return {field.name: getattr(parsed, field.name) for field in dataclasses.fields(parsed)}

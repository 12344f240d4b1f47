"""Flags from signatures: an argument of a function in Python is a flag on the command line.

tyro parses the flags and writes the help. It could also take whole functions, with types and help from their
annotations and docstrings; here each flag is described to it one by one, for three reasons. Text forms such as `1,2,4`
(a value for each member) and our messages need readers of their own. tyro resolves every annotation of a function, and
return types may be imported for type checkers alone. One command joins the flags of several functions in groups, which
have no docstring that tyro could read.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from untwine.arguments import hints
from untwine.cli.usage import UsageError
from untwine.errors import UntwineError, unknown
from untwine.quantities import Each
from untwine.registry import Registry

JSON = "Print the numbers as JSON, and nothing else."


def hyphens(name: str) -> str:
    """A name as the command line writes it.

    >>> hyphens("jl1_vae")
    'jl1-vae'
    """
    return name.replace("_", "-")


def find(registry: Registry, name: str) -> Callable[..., Any]:
    """The entry of a registry; the error for an unknown name has names as the command line writes them."""
    if name in registry:
        return registry[name]
    message = str(unknown(registry.kind, hyphens(name), map(hyphens, registry.names())))
    if "did you mean" not in message:
        message += f"\nFor a {registry.kind} of your own, import the module that defines it: --import MODULE_OR_FILE"
    raise UsageError(message)


# --- docstrings -----------------------------------------------------------------------------------------


def summary(function: Callable[..., Any]) -> str:
    """The first line of a docstring."""
    return description(function).partition("\n")[0]


def description(function: Callable[..., Any]) -> str:
    """A docstring up to its list of arguments or its example."""
    return re.split(r"^Args:|^>>>", inspect.getdoc(function) or "", maxsplit=1, flags=re.MULTILINE)[0].strip()


def argument_help(function: Callable[..., Any], argument: str) -> str | None:
    """The text about an argument under "Args:" in a docstring; None if there is none.

    >>> def square(size):
    ...     '''A square.
    ...
    ...     Args:
    ...         size: The length
    ...             of a side.
    ...     '''
    >>> argument_help(square, "size")
    'The length of a side.'
    """
    docstring = inspect.getdoc(function) or ""
    listed = re.search(rf"^Args:\n(?: +.*\n)*?    {argument}: (.*(?:\n {{5,}}.*)*)", docstring, re.MULTILINE)
    return " ".join(listed[1].split()) if listed else None


# --- values from text -----------------------------------------------------------------------------------


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


def _module_or_file(text: str) -> str:
    return text


_METAVAR = {
    _module_or_file: "MODULE_OR_FILE",
    whole: "INT",
    decimal: "NUMBER",
    numbers: "NUMBER[,NUMBER...]",
    seeds: "0-9|0,1,5",
    data_seeds: "0-9|0,1,5",
    truth: "true|false",
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


# --- flags ----------------------------------------------------------------------------------------------


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
    """A field of a dataclass that tyro turns into a flag.

    Args:
        name: The name of the field.
        read: Reads a value from text; its ValueError is the message for the user.
        several: Whether the flag takes several values.
        default: The default; without one the flag is required.
        help: The text in the help.
        prefix: Whether the name of the group stands before that of the flag, as in `--dataset.size`.
        called: The name of the flag, if it is not that of the field.
        shown: The text in place of the default in the help.
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
    if isinstance(read, Choice):
        metavar = "|".join(map(hyphens, read.choices))
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


def switch(name: str, help: str | None, default: bool = False) -> tuple[str, Any, Any]:
    """A flag without a value."""
    import tyro

    argument: Any = tyro.conf.arg(help=help, prefix_name=False, help_behavior_hint="")
    return name, Annotated[bool, tyro.conf.FlagCreatePairsOff, argument], default  # pyright: ignore


def arguments(
    function: Callable[..., Any],
    prefix: bool = True,
    per_member: bool = False,
    shown: Mapping[str, str] | None = None,
    leave_out: Collection[str] = (),
    switches: bool = False,
    choices: Mapping[str, str] | None = None,
) -> type:
    """A dataclass with a flag for each argument of a function that text can be.

    Args:
        function: The function.
        prefix: As in `flag`.
        per_member: Whether every float may have a value for each member.
        shown: Texts in place of defaults in the help.
        leave_out: Arguments that are no flags.
        switches: Whether an argument that is False by default is a flag without a value.
        choices: What an argument may be, added to its help.
    """
    annotations = hints(function)
    fields = []
    for name, parameter in inspect.signature(function).parameters.items():
        default = dataclasses.MISSING if parameter.default is parameter.empty else parameter.default
        if name in leave_out:
            continue
        if switches and default is False:
            fields.append(switch(name, argument_help(function, name)))
            continue
        reading = reader(annotations[name], default)
        if reading is None:
            continue
        read, several = reading
        if per_member and isinstance(default, float):
            read = numbers
        help = argument_help(function, name)
        if name in (choices or {}):
            help = f"{help or ''} One of {(choices or {})[name]}.".strip()
        fields.append(flag(name, read, several, default, help, prefix, shown=(shown or {}).get(name)))
    return dataclasses.make_dataclass(function.__name__, fields, kw_only=True)


def parse(prog: str, about: str, fields: Sequence[Any], args: list[str]) -> Any:
    """The values of a command's flags, read by tyro. A wrong flag ends the command with code 2.

    Args:
        prog: The command as the user types it.
        about: The text at the top of the help.
        fields: Flags and groups of flags.
        args: The words after the command.
    """
    import tyro

    from untwine.cli.imports import HELP

    # `main` has read this flag already; here it appears in the help.
    imports = flag("imports", _module_or_file, default=None, help=HELP, called="import", shown="")
    command = dataclasses.make_dataclass("command", [*fields, imports], kw_only=True)
    return tyro.cli(command, prog=prog, description=about, args=args)


def values(group: Any) -> dict[str, Any]:
    """The values of a group of flags by name."""
    return {field.name: getattr(group, field.name) for field in dataclasses.fields(group)}

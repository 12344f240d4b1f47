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
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from untwine.arguments import hints
from untwine.cli import helptext
from untwine.cli.readers import METAVAR, Choice, module_or_file, numbers, reader
from untwine.cli.usage import UsageError, as_usage_errors
from untwine.cli.words import Explain, Flag, check, gathered
from untwine.errors import unknown
from untwine.locations import run_folder
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
    optional: bool = False,
    hint: Any = Any,
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
        optional: Whether the value may be none, also where that is not the default.
        hint: The annotation that its value must agree with, if that is to be checked before anything is done.
    """
    import tyro
    from tyro.constructors import PrimitiveConstructorSpec

    def parse(texts: list[str]) -> Any:
        if (default is None or optional) and [text.lower() for text in texts] == ["none"]:
            return None
        return tuple(map(read, texts)) if several else read(texts[0])

    def show(value: Any) -> list[str]:
        if isinstance(value, tuple | list):
            return [str(item) for item in value] if several else [",".join(map(str, value))]
        return [str(value)]

    metavar = METAVAR.get(read, "NAME" if called or isinstance(default, str) else "TEXT")
    if isinstance(read, Choice):
        metavar = "|".join(map(hyphens, read.choices))
    if optional and default is not None:
        metavar += "|none"
    spec = PrimitiveConstructorSpec(
        nargs="*" if several else 1,
        metavar=f"{metavar} ..." if several else metavar,
        instance_from_str=parse,
        is_instance=lambda value: True,
        str_from_instance=show,
    )
    if shown is None and (default is None or default == ()):
        shown = "none"
    about = shown and f"(default: {shown})"
    argument: Any = tyro.conf.arg(name=called, help=help, prefix_name=prefix, help_behavior_hint=about)
    own = Flag(parse, spec.metavar, several, hint, help)
    annotation = Annotated[Any, spec, argument, own]  # pyright: ignore
    return name, annotation, dataclasses.field() if default is dataclasses.MISSING else default


def switch(name: str, help: str | None, default: bool = False) -> tuple[str, Any, Any]:
    """A flag without a value."""
    import tyro

    argument: Any = tyro.conf.arg(help=help, prefix_name=False, help_behavior_hint="")
    return name, Annotated[bool, tyro.conf.FlagCreatePairsOff, argument, Flag(None, help=help)], default  # pyright: ignore


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
        switches: Whether True and False are flags without a value: `--again`, or `--no-wrap` where the default is True.
        choices: What an argument may be, added to its help.
    """
    annotations = hints(function)
    fields = []
    for name, parameter in inspect.signature(function).parameters.items():
        default = dataclasses.MISSING if parameter.default is parameter.empty else parameter.default
        if name in leave_out:
            continue
        if switches and isinstance(default, bool):
            fields.append(switch(name, argument_help(function, name), default))
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
        optional = type(None) in typing.get_args(annotations[name])
        checked = annotations[name] if switches else Any
        text = (shown or {}).get(name)
        fields.append(flag(name, read, several, default, help, prefix, None, text, optional, checked))
    return dataclasses.make_dataclass(function.__name__, fields, kw_only=True)


def parse(prog: str, about: str, fields: Sequence[Any], args: list[str], explain: Explain | None = None) -> Any:
    """The values of a command's flags, read by tyro. A wrong flag is a `UsageError`.

    Args:
        prog: The command as the user types it.
        about: The text at the top of the help, as `helptext.wrapped` takes it.
        fields: Flags and groups of flags.
        args: The words after the command.
        explain: Says why the command does not have an option, where more is known of it.
    """
    import tyro

    from untwine.cli.imports import HELP

    check(prog, fields, args, explain)

    # `main` has read this flag already; here it appears in the help.
    imports = flag("imports", module_or_file, default=None, help=HELP, called="import", shown="")
    command = dataclasses.make_dataclass("command", [*fields, imports], kw_only=True)
    with helptext.described(about):
        return tyro.cli(command, prog=prog, description=helptext.PLACE, args=gathered(fields, args))


def folders_first(args: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The folders, which come before any flag, each once, and the rest of a command line.

    >>> folders_first(["runs/a", "runs/b/run.json", "--out", "page.html"])
    ([PosixPath('runs/a'), PosixPath('runs/b')], ['--out', 'page.html'])
    """
    count = next((i for i, arg in enumerate(args) if arg.startswith("-")), len(args))
    with as_usage_errors():
        return list(dict.fromkeys(map(run_folder, args[:count]))), list(args[count:])


def values(group: Any) -> dict[str, Any]:
    """The values of a group of flags by name."""
    return {field.name: getattr(group, field.name) for field in dataclasses.fields(group)}

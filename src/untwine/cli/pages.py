"""Pages about one thing: what it is, its arguments, how to use it, and its literature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from untwine.cli import flags, helptext


@dataclass(frozen=True)
class Page:
    """What there is to know of one thing.

    Args:
        name: Its name in Python.
        about: Its docstring up to the arguments.
        of: What it is a function of, or belongs to, behind its name.
        prefix: What stands before an argument on the command line.
        arguments: The default and the help of each argument.
        facts: Further sentences.
        commands: Example commands.
        python: Example lines of Python.
        literature: The references that its docstring cites.
        more: Further values for JSON.
    """

    name: str
    about: str
    of: str
    prefix: str
    arguments: dict[str, dict[str, Any]]
    facts: Sequence[str]
    commands: Sequence[str]
    python: Sequence[str]
    literature: Sequence[str]
    more: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The page as JSON."""
        examples = {"commands": list(self.commands), "python": list(self.python)}
        plain = {"name": self.name, "about": self.about, "arguments": self.arguments, "facts": list(self.facts)}
        return {**plain, **self.more, "examples": examples, "references": list(self.literature)}


def print_page(page: Page, further: Callable[[], None] = lambda: None) -> None:
    """Print a page.

    Args:
        page: The page.
        further: Prints what comes before the examples, such as a table.
    """
    print(f"{flags.hyphens(page.name)}, {page.of}\n")
    print(helptext.wrapped(page.about) + "\n")
    for fact in page.facts:
        print(helptext.wrapped(fact) + "\n")
    if page.arguments:
        where = f", on the command line {page.prefix}NAME" if page.prefix else ""
        print(f"Arguments{where}:")
        named = {_with_default(key, about): about["help"] or "" for key, about in page.arguments.items()}
        print(helptext.definitions(named) + "\n")
    further()
    print("On the command line:")
    print(helptext.wrapped("\n".join(f"  {line}" for line in page.commands)) + "\n")
    print("In Python:")
    print("\n".join(f"  {line}" for line in page.python))
    if page.literature:
        print("\nReferences:")
        print(helptext.wrapped("\n".join(f"- {reference}" for reference in page.literature)))


def described_arguments(function: Callable[..., Any], leave_out: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """The default and the help of each argument of a function; `needed` marks those without a default.

    Args:
        function: The function.
        leave_out: Arguments to pass over.
    """
    described = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in leave_out:
            needed = parameter.default is parameter.empty
            default = {"needed": True, "default": None} if needed else {"default": parameter.default}
            described[name] = default | {"help": flags.argument_help(function, name)}
    return described


def _with_default(name: str, about: dict[str, Any]) -> str:
    if about.get("needed"):
        return name
    default = about["default"]
    return f"{name}={default:g}" if isinstance(default, float) else f"{name}={default}"

"""`untwine methods`: what there is, from signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from untwine.cli import flags, output


def methods(args: list[str]) -> None:
    """List the methods, their equations, and their arguments with defaults (no torch is needed)."""
    from untwine.methods import get, names
    from untwine.methods.registry import PARTS, own_arguments

    as_json = _json(args, "untwine methods", "List the methods with their arguments and defaults.")
    found = [{**_entry(get(name)), "arguments": own_arguments(name)} for name in names()]
    if as_json:
        output.as_json({"methods": found})
        return
    rows = [[flags.hyphens(e["name"]), e["summary"], _arguments(e)] for e in found]
    output.table(["method", "what it minimises or is", "arguments"], rows, lines=True)
    print(f"Every method also takes another {', '.join(PARTS)}. All about one: untwine train METHOD --help")


def _json(args: list[str], prog: str, about: str) -> bool:
    return flags.parse(prog, about, [flags.switch("json", flags.JSON)], args).json


def _entry(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    needed = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    given = {name: parameter.default for name, parameter in parameters.items() if name not in needed}
    return {"name": function.__name__, "summary": flags.summary(function), "needs": needed, "arguments": given}


def _arguments(entry: dict[str, Any]) -> str:
    return ", ".join([*entry["needs"], *(f"{key}={value!r}" for key, value in entry["arguments"].items())])

"""`untwine methods` and `untwine data list`: what there is, from the signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from untwine.cli import UsageError, flags, output
from untwine.errors import UntwineError, unknown


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


def data(args: list[str]) -> None:
    """List the datasets."""
    if args[:1] in (["--help"], ["-h"]):
        print("usage: untwine data list [--json]\n\nList the datasets, what they hold, and their arguments.")
        return
    if not args:
        raise UsageError("data needs a command: untwine data list")
    if args[0] != "list":
        raise UsageError(str(unknown("command of 'data':", args[0], ["list"])))
    as_json = _json(args[1:], "untwine data list", "List the datasets, what they hold, and their arguments.")
    from untwine.datasets import get, names

    found = [_entry(get(name)) | _content(get(name)) for name in names()]
    if as_json:
        output.as_json({"datasets": found})
        return
    rows = []
    for e in found:
        holds = [
            f"{e['examples']:,} examples of {' x '.join(map(str, e['shape']))}" if e.get("shape") else "",
            _factors(e["factors"]) if e.get("factors") else "no factors",
            e["had"],
        ]
        rows.append([flags.hyphens(e["name"]), e["summary"], "\n".join(filter(None, holds)), _arguments(e)])
    output.table(["dataset", "what it is", "what it holds", "arguments"], rows, lines=True)
    print("All about one: untwine train METHOD --dataset NAME --help")


def _json(args: list[str], prog: str, about: str) -> bool:
    return flags.parse(prog, about, [flags.switch("json", flags.JSON)], args).json


def _entry(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters
    needed = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    given = {name: parameter.default for name, parameter in parameters.items() if name not in needed}
    return {"name": function.__name__, "summary": flags.summary(function), "needs": needed, "arguments": given}


def _content(function: Callable[..., Any]) -> dict[str, Any]:
    """What a dataset holds with its defaults; one that cannot be made says why."""
    if needed := _entry(function)["needs"]:
        return {"had": f"from your files: give {', '.join('--dataset.' + flags.hyphens(name) for name in needed)}"}
    try:
        made = function()
    except UntwineError as error:
        return {"had": f"not here: {error}"}
    factors = None if made.factors is None else dict(zip(made.factors.names, made.factors.sizes, strict=True))
    return {"had": "drawn", "examples": len(made), "shape": list(made.shape), "factors": factors}


def _arguments(entry: dict[str, Any]) -> str:
    return ", ".join([*entry["needs"], *(f"{key}={value!r}" for key, value in entry["arguments"].items())])


def _factors(sizes: dict[str, int]) -> str:
    """Names and sizes; equal sizes are said once.

    >>> _factors({"x": 64, "y": 64}), _factors({"shape": 3, "x": 32})
    ('factors x, y: 64 values each', 'factors shape 3, x 32')
    """
    if len(set(sizes.values())) == 1:
        return f"factors {', '.join(sizes)}: {next(iter(sizes.values()))} values each"
    return "factors " + ", ".join(f"{name} {size}" for name, size in sizes.items())

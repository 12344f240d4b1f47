"""Public modules that show only what is public, and import it when it is first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def directory(names: Iterable[str]) -> Callable[[], list[str]]:
    """A module's `__dir__` that lists only its public names: `__dir__ = directory(__all__)`.

    >>> directory(["laplace", "given"])()
    ['given', 'laplace']
    """
    public = sorted(names)
    return lambda: list(public)


def lookup(homes: Mapping[str, str], names: dict[str, Any]) -> Callable[[str], Any]:
    """A module's `__getattr__` that imports a name when it is first used.

    Args:
        homes: The home of each name: "module:name", or a module.
        names: The `globals()` of the module, where the value is kept.

    >>> names = {"__name__": "example"}
    >>> lookup({"tau": "math:tau"}, names)("tau") == names["tau"]
    True
    """

    def attribute_of(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {names['__name__']!r} has no attribute {name!r}")
        module, _, attribute = homes[name].partition(":")
        value: Any = importlib.import_module(module)
        names[name] = getattr(value, attribute) if attribute else value
        return names[name]

    return attribute_of

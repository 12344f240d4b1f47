"""Names that a spec or the command line may use, and what they stand for."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from untwine.errors import UntwineError, refuse_unknown, unknown

F = TypeVar("F", bound=Callable[..., Any])


class Registry:
    """A table from names to callables; `add` is used as a decorator.

    >>> colours = Registry("colour")
    >>> @colours.add
    ... def red(depth: float = 1.0): return depth
    >>> colours.names(), colours["red"](2.0)
    (['red'], 2.0)
    """

    def __init__(self, kind: str):
        self.kind = kind
        self._entries: dict[str, Callable[..., Any]] = {}

    def add(self, function: F) -> F:
        name: str = function.__name__
        old = self._entries.get(name)
        if old is not None and (old.__module__, old.__qualname__) != (function.__module__, function.__qualname__):
            raise UntwineError(f"the {self.kind} {name!r} exists already, in {old.__module__}")
        self._entries[name] = function
        return function

    def names(self) -> list[str]:
        return sorted(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: str) -> bool:
        return name.replace("-", "_") in self._entries

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """Look a name up; hyphens stand for underscores."""
        found = self._entries.get(name.replace("-", "_"))
        if found is None:
            raise unknown(self.kind, name, self._entries)
        return found

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call an entry, refusing arguments that it does not have with a suggestion."""
        self._parameters(name, arguments)
        return self[name](**arguments)

    def _parameters(self, name: str, arguments: dict[str, Any]) -> Mapping[str, inspect.Parameter]:
        """The parameters of an entry, which has all of these arguments."""
        parameters = inspect.signature(self[name]).parameters
        refuse_unknown(f"argument of {self.kind} {name!r}:", arguments, parameters)
        return parameters

    def arguments(self, name: str) -> tuple[list[str], dict[str, Any]]:
        """The arguments that an entry needs, and the defaults of the others."""
        parameters = inspect.signature(self[name]).parameters
        needed = [key for key, one in parameters.items() if one.default is one.empty]
        return needed, {key: one.default for key, one in parameters.items() if key not in needed}

    def spec(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """An entry with all its arguments as JSON: `{"name": ..., **arguments}`."""
        whole = self.complete(name, arguments)
        return {"name": self[name].__name__, **{k: list(v) if isinstance(v, tuple) else v for k, v in whole.items()}}

    def complete(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with every default filled in; whole numbers become floats where the default is one."""
        parameters = self._parameters(name, arguments)
        missing = [k for k in self.arguments(name)[0] if k not in arguments]
        if missing:
            raise UntwineError(f"{self.kind} {name!r} needs {', '.join(missing)}")
        for key, value in arguments.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise UntwineError(f"{key} of {self.kind} {name!r} must be finite, not {value}")
        whole = {key: arguments.get(key, p.default) for key, p in parameters.items()}
        return {k: float(v) if type(v) is int and type(parameters[k].default) is float else v for k, v in whole.items()}

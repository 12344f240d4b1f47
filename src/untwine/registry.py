"""Names that a spec or the command line may use, and what they stand for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

from untwine.arguments import bind, bind_names
from untwine.coercion import shown
from untwine.errors import UntwineError, unregistered

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
T = TypeVar("T")


class Registry:
    """A table from names to functions, classes or parts; `add` is used as a decorator.

    >>> colours = Registry("colour")
    >>> @colours.add
    ... def red(depth: float = 1.0): return depth
    >>> colours.names(), colours["red"](2.0)
    (['red'], 2.0)
    """

    def __init__(self, kind: str):
        self.kind = kind
        self._entries: dict[str, Any] = {}

    def add(self, function: F) -> F:
        """Register a function or a class under its name."""
        self.put(function.__name__, function)
        return function

    def put(self, name: str, entry: Any) -> None:
        """Register anything under a name; only a definition that is run again may take a name that is taken.

        Args:
            name: The name, with underscores.
            entry: A function or class, or an object that stands for itself.
        """
        old = self._entries.get(name)
        if old is not None and _origin(old) != _origin(entry):
            raise UntwineError(f"the {self.kind} {name!r} exists already, in {_origin(old)[0]}: choose another name")
        self._entries[name] = entry

    def bound(self, function: Callable[P, T]) -> Callable[P, T]:
        """Register a function under its name, with its arguments bound and coerced by its annotations."""
        what = f"{self.kind} {function.__name__!r}"

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return function(**bind(what, function, args, kwargs))  # type: ignore[arg-type]

        return self.add(call)

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._entries)

    def items(self) -> list[tuple[str, Any]]:
        """All names with their entries, in the order in which they were registered."""
        return list(self._entries.items())

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: str) -> bool:
        return name.replace("-", "_") in self._entries

    def __getitem__(self, name: str) -> Any:
        """Look a name up; hyphens stand for underscores."""
        if not isinstance(name, str):
            raise UntwineError(f"a {self.kind} is known by its name, a text, not {shown(name)}")
        entry = self._entries.get(name.replace("-", "_"))
        if entry is None:
            raise unregistered(self.kind, name, self._entries)
        return entry

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call an entry by its name, refusing arguments that it does not have with a suggestion."""
        entry = self[name]
        bind_names(f"{self.kind} {name!r}", inspect.signature(entry), (), arguments)
        return entry(**arguments)

    def arguments(self, name: str) -> tuple[list[str], dict[str, Any]]:
        """The arguments that an entry needs, and the defaults of the others."""
        parameters = inspect.signature(self[name]).parameters
        needed = [key for key, parameter in parameters.items() if parameter.default is parameter.empty]
        return needed, {key: parameter.default for key, parameter in parameters.items() if key not in needed}

    def spec(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """An entry with all its arguments as JSON: `{"name": ..., **arguments}`."""
        values = self.complete(name, arguments)
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
        return {"name": self[name].__name__, **plain}

    def complete(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments as their annotations promise, with every default filled in."""
        return bind(f"{self.kind} {name!r}", self[name], kwargs=arguments)


def _origin(entry: Any) -> tuple[str, str]:
    """The module and the name in it that define an entry."""
    definition = entry if hasattr(entry, "__qualname__") else type(entry)
    return definition.__module__, definition.__qualname__

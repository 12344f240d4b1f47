"""How a method gets its name: `@method` on a function that returns an `Objective`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec

from untwine.errors import UntwineError, unknown
from untwine.parts import Each, number
from untwine.registry import Registry

if TYPE_CHECKING:
    from untwine import Objective

P = ParamSpec("P")

methods = Registry("method")


def method(function: Callable[P, Objective]) -> Callable[P, Objective]:
    """Register a method. Its objective remembers its name and arguments, so that a run can be written down.

    A list where a number is the default means one value for each member of the pack.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def made(*args: P.args, **kwargs: P.kwargs) -> Objective:
        for name in kwargs:
            if name not in signature.parameters:
                raise unknown(f"argument of method {function.__name__!r}:", name, signature.parameters)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        for name, parameter in signature.parameters.items():
            value = bound.arguments[name]
            if isinstance(parameter.default, float):
                bound.arguments[name] = _number(function.__name__, name, value)
        objective = function(*bound.args, **bound.kwargs)
        object.__setattr__(objective, "method", {"name": function.__name__, **bound.arguments})
        return objective

    return methods.add(made)


def _number(method: str, name: str, value: Any) -> float | Each | Any:
    if callable(value):  # a schedule
        return value
    try:
        return number(value)
    except UntwineError:
        raise UntwineError(f"{name} of method {method!r} must be a number, not {value!r}") from None


def names() -> list[str]:
    """All methods, by name."""
    return methods.names()


def get(name: str) -> Callable[..., Objective]:
    """The method of a name; hyphens stand for underscores."""
    return methods[name]

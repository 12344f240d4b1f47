"""Arguments: bound to a signature by name, and coerced to the types that its annotations promise.

Parts, methods, networks, datasets and specs all take their arguments through `bind`, so that a wrong name
gets a suggestion and a wrong value a sentence that says what would be right, whatever made the call: Python,
a text or a file. An annotation may carry bounds; a type checker sees the plain type:

    def sparse(gamma: Share = 0.8, rank: Count = 1, kernel: Literal["box", "gaussian"] = "box"): ...
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from untwine.coercion import coerce, expected
from untwine.errors import UntwineError, WrongCall, unknown
from untwine.quantities import (
    Count,
    EachNonNegative,
    EachPositive,
    EachShare,
    NonNegative,
    NonNegativeNumber,
    Number,
    PerMember,
    Positive,
    PositiveNumber,
    Share,
    Whole,
)

__all__ = [
    "Count",
    "EachNonNegative",
    "EachPositive",
    "EachShare",
    "NonNegative",
    "NonNegativeNumber",
    "Number",
    "PerMember",
    "Positive",
    "PositiveNumber",
    "Share",
    "Whole",
    "bind",
    "bind_names",
    "checked",
    "coerce",
    "expected",
    "hints",
]

P = ParamSpec("P")
T = TypeVar("T")


def hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotation of each argument as an object, bounds included; without one, the type of its default.

    An annotation that cannot be resolved counts as Any. The return type is left alone, since to resolve it might
    import what the arguments do not need.

    >>> def conv(channels: Count, hidden=256, activation: "str | None" = None): ...
    >>> hints(conv)["hidden"], hints(conv)["activation"]
    (<class 'int'>, str | None)
    """
    inner = inspect.unwrap(function)
    module = sys.modules.get(inner.__module__)
    names = {**(vars(module) if module else {}), **getattr(inner, "__globals__", {})}
    return {
        key: _resolved(parameter.annotation, parameter.default, names)
        for key, parameter in inspect.signature(function).parameters.items()
    }


def _resolved(annotation: Any, default: Any, names: dict[str, Any]) -> Any:
    if annotation is inspect.Parameter.empty:
        return Any if default is None or default is inspect.Parameter.empty else type(default)
    holder = types.SimpleNamespace(__annotations__={"argument": annotation})
    try:
        return typing.get_type_hints(holder, names, include_extras=True)["argument"]
    except (NameError, AttributeError, TypeError, SyntaxError):
        return Any


def bind(
    what: str,
    function: Callable[..., Any] | inspect.Signature,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Every argument of a call by name: defaults filled in, values coerced by their annotations.

    Args:
        what: What is called, for errors: "prior 'sparse'".
        function: The function or class, or its signature.
        args: Arguments by position.
        kwargs: Arguments by name.
        annotations: Resolved annotations; by default those of the function.

    >>> def sparse(gamma: Share = 0.8, variance: Positive = 0.05): ...
    >>> bind("prior 'sparse'", sparse, [1])
    {'gamma': 1.0, 'variance': 0.05}
    >>> bind("prior 'sparse'", sparse, kwargs={"gama": 1})
    Traceback (most recent call last):
    untwine.errors.UntwineError: unknown argument of prior 'sparse': 'gama'; did you mean 'gamma'?
    """
    if isinstance(function, inspect.Signature):
        signature, annotations = function, annotations or {}
    else:
        signature, annotations = inspect.signature(function), hints(function) if annotations is None else annotations
    bound = bind_names(what, signature, args, kwargs or {})
    bound.apply_defaults()
    values: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        parameter = signature.parameters[name]
        if parameter.kind is parameter.VAR_KEYWORD:
            values.update(value)
        elif value is None and parameter.default is None:
            values[name] = None
        else:
            values[name] = coerce(value, annotations.get(name, Any), f"{name} of {what}")
    return values


def bind_names(
    what: str, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> inspect.BoundArguments:
    """Arguments by the names of a signature, not coerced; names that are unknown, missing or doubled are refused.

    Args:
        what: What is called, for errors.
        signature: Its signature.
        args: Arguments by position.
        kwargs: Arguments by name.
    """
    parameters = signature.parameters.values()
    kinds = {parameter.kind for parameter in parameters}
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        for name in kwargs:
            if name not in named:
                if not signature.parameters:
                    raise UntwineError(f"{what} takes no arguments, but {name!r} was given")
                raise unknown(f"argument of {what}:", name, named)
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    usage = f"its arguments are {_usage(signature)}"
    if len(args) > len(places) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        if not signature.parameters:
            raise UntwineError(f"{what} takes no arguments")
        raise UntwineError(f"{what} takes {len(places)} arguments by position, not {len(args)}; {usage}")
    for parameter in places[: len(args)]:
        if parameter.name in kwargs:
            raise UntwineError(f"{what} is given {parameter.name} twice")
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    missing = [p.name for p in needed if p not in places[: len(args)] and p.name not in kwargs]
    if missing:
        raise UntwineError(f"{what} needs {', '.join(missing)}; {usage}")
    return signature.bind(*args, **kwargs)


def _usage(signature: inspect.Signature) -> str:
    plain = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


def checked(*free: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator for functions that users call: wrong names and values are refused, as `bind` refuses them.

    Args:
        free: Arguments that the function checks itself; "*" is all of them, so that only names are checked.

    >>> @checked()
    ... def sample(n: Count, seed: int = 0): return n
    >>> sample("a")
    Traceback (most recent call last):
    untwine.errors.WrongCall: n of sample must be a whole number, 1 or more, not 'a'
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        what, signature = function.__name__, inspect.signature(function)
        if what == "__init__":
            what = function.__qualname__.split(".")[-2]
        of_method = next(iter(signature.parameters), "") == "self"
        if of_method:
            signature = signature.replace(parameters=list(signature.parameters.values())[1:])

        @functools.cache
        def checks() -> dict[str, Any]:
            """The annotations of what is checked here; resolved at the first call, as they may name later classes."""
            kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
            various = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
            return {
                name: hint
                for name, hint in hints(function).items()
                if name in kinds and not {name, "*"} & set(free) and kinds[name] not in various
            }

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            owner, own = (args[:1], args[1:]) if of_method else ((), args)
            try:
                bound = bind_names(what, signature, own, kwargs)
                for name, value in bound.arguments.items():
                    if name in checks() and not (value is None and signature.parameters[name].default is None):
                        bound.arguments[name] = coerce(value, checks()[name], f"{name} of {what}")
            except UntwineError as error:
                raise WrongCall(str(error)) from None
            return function(*owner, *bound.args, **bound.kwargs)  # type: ignore[misc]

        return call

    return decorate

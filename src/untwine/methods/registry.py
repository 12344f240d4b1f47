"""How a method gets its name: `@method` on a function that returns an `Objective`."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from untwine.errors import UntwineError, refuse_unknown
from untwine.naming import write
from untwine.parts import is_part, number
from untwine.registry import Registry

if TYPE_CHECKING:
    from untwine import Objective

methods = Registry("method")

# Arguments that every method has: parts which take the place of its own.
PARTS = {
    "likelihood": "Another likelihood than the method's: bernoulli, squared-error, gaussian(scale=0.1), "
    "learned-gaussian, laplace(scale=0.1), overlap(squared-error, radius=31).",
    "posterior": "Another posterior than the method's: diagonal-normal, full-normal, isotropic-normal, deterministic.",
    "prior": "Another prior than the method's: standard-normal, student-t(nu=5), laplace, generalised-normal(p=4), "
    "sparse(gamma=0.8), anisotropic-normal(learned=true), mixture-of-normals(variance=0.03).",
}

# What a run is that says nothing else, and whose method was not published with anything else.
DEFAULTS = {
    "latents": 10,
    "steps": 300_000,
    "batch_size": 64,
    "lr": 1e-4,
    "optimiser": "adam",
    "sampling": "iid",
}
# What a method may say about the runs with which it was published.
SETTINGS = ("network", *DEFAULTS)


def method(function: Callable[..., Objective] | None = None, **published: Any) -> Any:
    """Register a method. Its objective remembers its name and arguments, so that a run can be written down.

    A list where a number is the default means one value for each member of the pack. Every method also takes
    a `likelihood`, a `posterior` and a `prior`, as text or as parts, in place of its own. `published` are the
    settings of a run (`lr=1e-3`, `batch_size=256`, ...) with which the method was published: a run that does not
    say otherwise has them. `network` there is a name, or a mapping from the size of an image or the length of a
    vector to one.
    """
    if function is None:
        return functools.partial(_register, published)
    return _register(published, function)


def _register(published: dict[str, Any], function: Callable[..., Objective]) -> Callable[..., Objective]:
    refuse_unknown("setting of a run that a method can have:", published, SETTINGS)
    signature = _with_parts(inspect.signature(function))
    own = inspect.signature(function).parameters

    @functools.wraps(function)
    def made(*args: Any, **kwargs: Any) -> Objective:
        refuse_unknown(f"argument of method {function.__name__!r}:", kwargs, signature.parameters)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise UntwineError(f"method {function.__name__!r} cannot be made: {error}") from None
        bound.apply_defaults()
        given = bound.arguments
        for name, parameter in signature.parameters.items():
            given[name] = _checked(function.__name__, name, given[name], parameter.default)
        objective = function(**{name: value for name, value in given.items() if name in own})
        if not hasattr(objective, "penalties"):
            raise UntwineError(f"method {function.__name__!r} must return an Objective, not {objective!r}")
        others = {name: given[name] for name in PARTS if name not in own and given[name] is not None}
        objective = objective.replace(**others)
        object.__setattr__(objective, "method", {"name": function.__name__, **given})
        object.__setattr__(objective, "published", published)
        return objective

    made.__signature__ = signature  # type: ignore[attr-defined]
    made.__doc__ = _documented(function, [name for name in PARTS if name not in own])
    made.published = published  # type: ignore[attr-defined]
    return methods.add(made)


def _with_parts(signature: inspect.Signature) -> inspect.Signature:
    kind = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter(name, kind, default=None, annotation=str | None)
        for name in PARTS
        if name not in signature.parameters
    ]
    return signature.replace(parameters=[*signature.parameters.values(), *more])


def _documented(function: Callable[..., Any], parts: list[str]) -> str:
    """The docstring with the parts among its arguments."""
    text = inspect.getdoc(function) or function.__name__
    if not re.search(r"^Args:", text, re.MULTILINE):
        text += "\n\nArgs:"
    return "\n".join([text, *(f"    {name}: {PARTS[name]}" for name in parts)])


def _room(kind: str) -> Any:
    import untwine as uw

    rooms = {"likelihood": uw.likelihoods, "posterior": uw.posteriors, "prior": uw.priors, "divergence": uw.penalties}
    return rooms[kind]


def own_parts(name: str) -> dict[str, str]:
    """The parts of a method that it does not have as arguments of its own, as text.

    >>> own_parts("wae_mmd")
    {'likelihood': 'squared-error', 'posterior': 'deterministic', 'prior': 'standard-normal'}
    """
    function = methods[name]
    objective, parameters = function(), inspect.signature(function).parameters
    free = [kind for kind in PARTS if parameters[kind].default is None]
    return {kind: write(getattr(objective, kind), _room(kind).NAMED) for kind in free}


def own_arguments(name: str) -> dict[str, Any]:
    """The arguments of a method with their defaults, without those that every method has."""
    parameters = inspect.signature(methods[name]).parameters
    return {k: p.default for k, p in parameters.items() if not (k in PARTS and p.default is None)}


def _checked(method: str, name: str, value: Any, default: Any) -> Any:
    """An argument as what it stands for: text that names a part as the part, numbers as floats."""
    if name in (*PARTS, "divergence") and (default is None or isinstance(default, str) or is_part(default)):
        return None if value is None else _room(name).named(value)
    wrong = f"{name} of method {method!r} must be {{}}, not {value!r}"
    if isinstance(default, bool) and not isinstance(value, bool):
        raise UntwineError(wrong.format("true or false"))
    if isinstance(default, int) and not isinstance(default, bool) and isinstance(value, bool):
        raise UntwineError(wrong.format("a whole number"))
    if not isinstance(default, float) or callable(value):  # a schedule
        return value
    try:
        return number(value)
    except UntwineError:
        raise UntwineError(wrong.format("a number")) from None


def names() -> list[str]:
    """All methods, by name."""
    return methods.names()


def get(name: str) -> Callable[..., Objective]:
    """The method of a name; hyphens stand for underscores."""
    return methods[name]

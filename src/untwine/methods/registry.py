"""How a method gets its name: `@method` on a function that returns an `Objective`."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, overload, runtime_checkable

from untwine.arguments import Number, bind, hints
from untwine.errors import UntwineError, refuse_unknown
from untwine.naming import write
from untwine.parts import is_part
from untwine.registry import Registry

if TYPE_CHECKING:
    from untwine.vocabulary import Likelihood, Objective, Posterior, Prior

P = ParamSpec("P")

methods = Registry("method")

# Arguments that every method has: parts that replace its own.
PARTS = ("likelihood", "posterior", "prior")

# Default settings of a run whose method was not published with others.
DEFAULTS = {
    "latents": 10,
    "steps": 300_000,
    "batch_size": 64,
    "lr": 1e-4,
    "optimiser": "adam",
    "sampling": "iid",
}
# Settings of a run that a method may have been published with.
SETTINGS = ("network", *DEFAULTS)


@runtime_checkable
class Method(Protocol[P]):
    """A registered method, as type checkers see it: its own arguments, and the parts that every method takes.

    A type checker cannot add keywords to the arguments of a function, so a call that names such a part is not checked
    for the others.
    """

    __name__: str
    published: Mapping[str, Any]
    added: Mapping[str, Any]

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Objective: ...
    @overload
    def __call__(
        self,
        *args: Any,
        likelihood: str | Likelihood,
        posterior: str | Posterior = ...,
        prior: Any = ...,
        **kwargs: Any,
    ) -> Objective: ...
    @overload
    def __call__(self, *args: Any, posterior: str | Posterior, prior: Any = ..., **kwargs: Any) -> Objective: ...
    @overload
    def __call__(self, *args: Any, prior: Prior | Any, **kwargs: Any) -> Objective: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Objective: ...


@overload
def method(function: Callable[P, Objective]) -> Method[P]: ...
@overload
def method(*, added: Mapping[str, Any] = ..., **published: Any) -> Callable[[Callable[P, Objective]], Method[P]]: ...


def method(function: Any = None, *, added: Mapping[str, Any] = MappingProxyType({}), **published: Any) -> Any:
    """Register a method. Its objective remembers its name and arguments, so that a run can be written down.

    A list where a number is the default means one value for each member of the pack. Every method also takes
    a `likelihood`, a `posterior` and a `prior`, as text or as parts, in place of its own.

    Args:
        function: The function, which returns an Objective.
        added: Arguments that the method got after runs of it were stored, with the values that those runs stand for. A
            run's JSON leaves an argument out at that value, so that the ids of stored runs stay (`as_stored`).
        published: Settings of a run (`lr=1e-3`, `batch_size=256`, ...) with which the method was published: the
            defaults of its runs. `network` there is a name, or a mapping from the size of an image or the length of a
            vector to one.
    """
    if function is None:
        return functools.partial(_register, published, added)
    return _register(published, added, function)


def _register(published: dict[str, Any], added: Mapping[str, Any], function: Callable[..., Objective]) -> Any:
    refuse_unknown("setting of a run that a method can have:", published, SETTINGS)
    name = function.__name__
    refuse_unknown(f"added argument of method {name!r}:", added, inspect.signature(function).parameters)
    signature = _with_parts(inspect.signature(function))
    own = inspect.signature(function).parameters

    @functools.wraps(function)
    def make(*args: Any, **kwargs: Any) -> Objective:
        values = bind(f"method {name!r}", signature, args, kwargs, _annotations(function))
        for key, parameter in signature.parameters.items():
            given = values[key] is not None or parameter.default is not None
            if given and _is_part_argument(key, parameter.default):
                values[key] = _room(key).named(values[key])
        objective = function(**{key: value for key, value in values.items() if key in own})
        if not hasattr(objective, "penalties"):
            raise UntwineError(f"method {name!r} must return an Objective, not {objective!r}")
        replaced = {key: values[key] for key in PARTS if key not in own and values[key] is not None}
        objective = objective.replace(**replaced)
        stored = {key: value for key, value in values.items() if key not in added or value != added[key]}
        object.__setattr__(objective, "method", {"name": name, **stored})
        object.__setattr__(objective, "published", published)
        return objective

    make.__signature__ = signature  # type: ignore[attr-defined]
    make.__doc__ = _documented(function, [key for key in PARTS if key not in own])
    make.published, make.added = published, dict(added)  # type: ignore[attr-defined]
    return methods.add(make)


def as_stored(name: str, arguments: Mapping[str, Any], stored: bool = False) -> dict[str, Any]:
    """The arguments of a method that JSON stands for.

    JSON that a run wrote lacks what the method got only later (its `added`), and means the value of that time. A user's
    JSON means today's defaults. Without `stored`, JSON with all other arguments is taken for a run's.

    Args:
        name: The name of the method.
        arguments: What the JSON has.
        stored: Whether a run wrote it.

    >>> as_stored("factor_vae", {"gamma": 2.0}), as_stored("factor_vae", {"gamma": 2.0}, stored=True)
    ({'gamma': 2.0}, {'second': True, 'gamma': 2.0})
    """
    method = methods[name]
    added: Mapping[str, Any] = getattr(method, "added", {})
    others = [key for key in inspect.signature(method).parameters if key not in added]
    return {**added, **arguments} if stored or all(key in arguments for key in others) else dict(arguments)


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotation of each argument; one whose default is a float may differ by member, or be a schedule."""
    parameters = inspect.signature(function).parameters
    return {
        key: Number if isinstance(parameters[key].default, float) else hint for key, hint in hints(function).items()
    }


def _is_part_argument(name: str, default: Any) -> bool:
    """Whether an argument is a part, which a text may name."""
    return name in (*PARTS, "divergence") and (default is None or isinstance(default, str) or is_part(default))


def _with_parts(signature: inspect.Signature) -> inspect.Signature:
    kind = inspect.Parameter.KEYWORD_ONLY
    parts = [
        inspect.Parameter(name, kind, default=None, annotation=str | None)
        for name in PARTS
        if name not in signature.parameters
    ]
    return signature.replace(parameters=[*signature.parameters.values(), *parts])


def _documented(function: Callable[..., Any], parts: list[str]) -> str:
    """The docstring with the parts among its arguments."""
    text = inspect.getdoc(function) or function.__name__
    if not re.search(r"^Args:", text, re.MULTILINE):
        text += "\n\nArgs:"
    return "\n".join(
        [text, *(f"    {name}: Another {name} than the method's, as text or as a part." for name in parts)]
    )


# --- parts by name ----------------------------------------------------------------------------------


def _room(kind: str) -> Any:
    """The public module of a kind of part. It needs torch, and so is imported late."""
    from untwine import vocabulary as uw

    rooms = {"likelihood": uw.likelihoods, "posterior": uw.posteriors, "prior": uw.priors, "divergence": uw.penalties}
    return rooms[kind]


def part_table(kind: str) -> Any:
    """The names of the parts that an argument of a method may be: a mapping or a registry.

    >>> part_table("posterior").names()
    ['deterministic', 'diagonal_normal', 'full_normal', 'isotropic_normal']
    """
    from untwine import vocabulary as uw

    kinds = {"likelihood": uw.Likelihood, "posterior": uw.Posterior, "prior": uw.Prior}
    return uw.penalties.divergences() if kind == "divergence" else kinds[kind].registry


def part_help(kind: str) -> str:
    """What an argument of a method that is a part may be, for a help text (it needs torch).

    >>> part_help("posterior")
    'deterministic, diagonal-normal, full-normal or isotropic-normal'
    """
    *first, last = sorted(_called(name, entry) for name, entry in part_table(kind).items())
    return f"{', '.join(first)} or {last}"


def _called(name: str, entry: Any) -> str:
    """A name as the command line writes it, with an argument in brackets if it needs or has a number."""
    text = name.replace("_", "-")
    if is_part(entry):
        return text
    parameters = inspect.signature(entry).parameters
    needed = [key for key, parameter in parameters.items() if parameter.default is parameter.empty]
    shown = [f"{key}={p.default:g}" for key, p in parameters.items() if isinstance(p.default, float)]
    arguments = ", ".join([*(key.upper() for key in needed), *shown[:1]])
    return f"{text}({arguments})" if arguments else text


def own_parts(name: str) -> dict[str, str]:
    """The parts of a method that are not among its own arguments, as text.

    >>> own_parts("wae_mmd")
    {'likelihood': 'squared-error', 'posterior': 'deterministic', 'prior': 'standard-normal'}
    """
    function = methods[name]
    objective, parameters = function(), inspect.signature(function).parameters
    free = [kind for kind in PARTS if parameters[kind].default is None]
    return {kind: write(getattr(objective, kind), part_table(kind)) for kind in free}


def own_arguments(name: str) -> dict[str, Any]:
    """The arguments of a method with their defaults, without those that every method has."""
    parameters = inspect.signature(methods[name]).parameters
    return {
        key: parameter.default
        for key, parameter in parameters.items()
        if not (key in PARTS and parameter.default is None)
    }


def names() -> list[str]:
    """All methods, by name."""
    return methods.names()


def get(name: str) -> Callable[..., Objective]:
    """The method of a name; hyphens stand for underscores."""
    return methods[name]

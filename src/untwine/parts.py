"""Parts: frozen dataclasses with a name, a JSON form, and numbers that are leaves.

Likelihoods, posteriors, priors, penalties, schedules and objectives are all parts. A part checks itself,
whatever makes it (Python, a text, JSON, `dataclasses.replace`): its arguments are bound and coerced by the
annotations of its fields. Whatever is built of parts can be written to a file and read back without executing
anything: names are looked up here. In a part, floats (and schedules of floats) are *leaves*: members of a pack
may differ in them. Everything else (integers, strings, the parts themselves) is *structure*: members with equal
structure train as one pack.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, TypeVar, dataclass_transform, overload

from untwine import naming
from untwine.arguments import bind_names, coerce, hints
from untwine.errors import UntwineError
from untwine.quantities import Each, Number, PerMember, each, is_each, number
from untwine.registry import Registry
from untwine.trees import classes, from_json, is_part, leaves, rebuild, resolve, structure, to_json

__all__ = [
    "Each",
    "Number",
    "Part",
    "each",
    "from_json",
    "is_each",
    "is_part",
    "leaves",
    "number",
    "part",
    "rebuild",
    "resolve",
    "structure",
    "to_json",
]

C = TypeVar("C", bound=type)
K = TypeVar("K", bound="Part")


class Part:
    """The base of every kind of part: `class Prior(Part, kind="prior")`.

    A kind has a registry of text names: a part of it is registered there under its class name in snake case,
    without the name of the kind (`LaplacePrior` is "laplace"), as soon as it is defined.
    """

    kind: ClassVar[str] = "part"
    registry: ClassVar[Registry]

    def __init_subclass__(cls, kind: str | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if kind is not None:
            cls.kind = kind
            cls.registry = Registry(kind)
            cls.expected = f"a {kind}, or its name in a text"

    @classmethod
    def read(cls, text: str, kind: str | None = None) -> Any:
        """The part of this kind that a text names: `laplace(scale=2)`.

        Args:
            text: The text.
            kind: What to call it in errors, if not the kind.
        """
        return naming.read(kind or cls.kind, text, cls.registry)

    @classmethod
    def named(cls: type[K], value: Any) -> K:
        """The part that a text (or another value that may stand for it) names, or the part itself.

        >>> class Prior(Part, kind="prior"): ...
        >>> @part
        ... class ExamplePrior(Prior): scale: float = 1.0
        >>> Prior.named("example(scale=2)")
        ExamplePrior(scale=2.0)
        """
        converted = value if isinstance(value, cls) else cls.from_argument(value)
        if converted is NotImplemented:
            example = cls.registry.names()[0].replace("_", "-")
            raise UntwineError(f"a {cls.kind} is a name such as {example!r}, or a {cls.__name__}; {value!r} is neither")
        return converted

    @classmethod
    def from_argument(cls, value: Any) -> Any:
        """A value that may stand for a part of this kind as the part: its text. NotImplemented refuses the value."""
        return cls.read(value) if isinstance(value, str) and hasattr(cls, "registry") else NotImplemented


# --- the decorator ----------------------------------------------------------------------------------


@overload
@dataclass_transform(frozen_default=True)
def part(cls: C) -> C: ...


@overload
@dataclass_transform(frozen_default=True)
def part(*, named: bool) -> Callable[[C], C]: ...


def part(cls: Any = None, *, named: bool = True) -> Any:
    """Make a class a part: a frozen dataclass that checks its fields, and whose name a file or a text may mention.

    Args:
        cls: The class.
        named: Whether the part has a text name; without one, only files and Python can make it.
    """
    if cls is None:
        return functools.partial(part, named=named)
    old = classes.get(cls.__name__)
    if old is not None and old.__module__ != cls.__module__:
        raise UntwineError(f"a part named {cls.__name__!r} exists already, in {old.__module__}")
    complete = dataclasses.dataclass(frozen=True)(cls)
    complete.__part__ = True
    named = named and hasattr(complete, "registry")
    complete.__init__ = _checked(complete, f"{cls.kind} {text_name(cls)!r}" if named else f"part {cls.__name__!r}")
    if named:
        # A part without arguments stands for itself: `priors.standard_normal` is no function.
        complete.registry.put(text_name(complete), complete if dataclasses.fields(complete) else complete())
    classes[cls.__name__] = complete
    return complete


def text_name(cls: type) -> str:
    """The name of a part in text: its class name in snake case, without the name of its kind.

    >>> class Prior(Part, kind="prior"): ...
    >>> class StudentTPrior(Prior): ...
    >>> class KLPriorAggregate(Part): ...
    >>> text_name(StudentTPrior), text_name(KLPriorAggregate)
    ('student_t', 'kl_prior_aggregate')
    """
    bases = {base.__name__ for base in cls.__mro__[1:] if issubclass(base, Part) and base is not Part}
    name = cls.__name__
    for suffix in (*bases, getattr(cls, "kind", "part").title()):
        name = name.removesuffix(suffix) or name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _checked(cls: Any, what: str) -> Callable[..., None]:
    """The initialiser of a part's dataclass, with its arguments bound by name and coerced.

    Args:
        cls: The dataclass.
        what: What it is, for errors: "prior 'sparse'".
    """
    assign = cls.__init__
    signature = inspect.signature(cls)

    @functools.wraps(assign)
    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        arguments = bind_names(what, signature, args, kwargs).arguments
        annotations = _annotations(cls)
        assign(self, **{key: coerce(value, annotations[key], f"{key} of {what}") for key, value in arguments.items()})

    return initialise


@functools.cache
def _annotations(cls: type) -> dict[str, Any]:
    """The annotation of every field; where it promises a float, members may differ in it."""
    try:  # only when a part is first made: fields may be of classes that are defined later
        resolved = typing.get_type_hints(cls, include_extras=True)
    except (NameError, AttributeError, TypeError):
        resolved = hints(cls)
    return {field.name: _per_member(resolved.get(field.name, Any)) for field in dataclasses.fields(cls)}  # type: ignore[arg-type]


def _per_member(hint: Any) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return Annotated[(_per_member(inner[0]), *inner[1:])]  # type: ignore[return-value]
    if origin in (typing.Union, types.UnionType):
        return typing.Union[tuple(_per_member(item) for item in inner)]  # type: ignore[return-value] # noqa: UP007
    return PerMember if hint is float else hint

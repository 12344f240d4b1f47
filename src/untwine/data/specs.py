"""From functions to specs and back: the registry through which a spec becomes a dataset again."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, overload

import numpy as np

from untwine.checks import conform
from untwine.data.contract import Dataset
from untwine.data.files.public import Public
from untwine.errors import UntwineError, refuse_unknown
from untwine.registry import Registry

datasets = Registry("dataset")
P = ParamSpec("P")

# What an argument stands for, where it does not stand for itself: the arguments of a dataset to its arguments.
Settle = Callable[[dict[str, Any]], dict[str, Any]]


@overload
def dataset(function: Callable[P, Dataset]) -> Callable[P, Dataset]: ...


@overload
def dataset(
    *, public: Public | None = None, settle: Settle | None = None
) -> Callable[[Callable[P, Dataset]], Callable[P, Dataset]]: ...


def dataset(function: Any = None, *, public: Public | None = None, settle: Settle | None = None) -> Any:
    """Register a function under its name, and let what it returns carry the spec that made it.

    Arguments are brought to the types that the signature promises (a whole number where a float is
    expected becomes one), so that equal datasets have equal specs. An array argument is written as its
    hash: a spec is always JSON. `public` describes the files of a public dataset. `settle` replaces arguments
    that stand for something else (the best source that is here, say), so that a spec says what was used.

    >>> import untwine.datasets
    >>> untwine.datasets.synthetic_linear(ratio=1, samples=10).spec
    {'name': 'synthetic_linear', 'ratio': 1.0, 'samples': 10, 'levels': 256, 'seed': 0}
    """
    if function is None:
        return functools.partial(dataset, public=public, settle=settle)
    signature = inspect.signature(function)
    name = function.__name__

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Dataset:
        refuse_unknown(f"argument of dataset {name!r}:", kwargs, signature.parameters)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        hints = typing.get_type_hints(function)
        arguments = {
            key: conform(value, hints.get(key, Any), f"{key!r} of dataset {name!r}")
            for key, value in bound.arguments.items()
        }
        arguments = _settled(wrapped, arguments)
        made = function(**arguments)
        made.spec = {"name": name, **{key: _plain(value) for key, value in arguments.items()}}
        return made

    wrapped.public, wrapped.settle = public, settle  # type: ignore[attr-defined]
    return datasets.add(wrapped)


def public_of(function: Callable[..., Dataset]) -> Public | None:
    """What is known of the files of a registered dataset; None where it needs none."""
    return getattr(function, "public", None)


def _settled(function: Callable[..., Dataset], arguments: dict[str, Any]) -> dict[str, Any]:
    settle: Settle | None = getattr(function, "settle", None)
    return arguments if settle is None else settle(dict(arguments))


def build(spec: Mapping[str, Any]) -> Dataset:
    """Make a dataset from its spec; names and arguments that do not exist are refused.

    >>> import untwine.datasets
    >>> dots = untwine.datasets.three_dots(examples=10)
    >>> build(dots.spec).spec == dots.spec
    True
    """
    if not isinstance(spec, Mapping) or not isinstance(spec.get("name"), str):
        raise UntwineError(f"a dataset's spec needs a name, as in {{'name': 'three_dots'}}; got {spec!r}")
    arguments = {key: value for key, value in spec.items() if key != "name"}
    for key, value in arguments.items():
        if isinstance(value, Mapping) and "array" in value:
            raise UntwineError(
                f"dataset {spec['name']!r} was made from an array in memory ({str(value['array'])[:19]}..., "
                f"{value.get('dtype')} {value.get('shape')}), which its spec does not hold: "
                f"pass the array again as {key!r}"
            )
    return datasets.call(spec["name"], datasets.complete(spec["name"], arguments))


def called(dataset: Dataset) -> str:
    """The name of a dataset, with those of its arguments that are not as ever: which of its forms was used.

    >>> import untwine.datasets
    >>> called(untwine.datasets.xy_squares(spacing=4))
    'xy-squares(spacing=4)'
    """
    return _called(dataset.spec)


def _called(spec: Mapping[str, Any]) -> str:
    name = str(spec.get("name", "dataset"))
    usual = inspect.signature(datasets[name]).parameters if name in datasets else {}
    given = {key: value for key, value in spec.items() if key in usual and not _is_default(value, usual[key])}
    arguments = ", ".join(f"{key}={_short(value)}" for key, value in given.items())
    return name.replace("_", "-") + (f"({arguments})" if arguments else "")


def _is_default(value: Any, parameter: inspect.Parameter) -> bool:
    return parameter.default is not parameter.empty and value == _plain(parameter.default)


def _short(value: Any) -> Any:
    """An argument in a few words: a dataset by what it is called, an array by its shape, a path by its end."""
    if isinstance(value, Mapping):
        return _called(value) if "name" in value else f"array {value.get('shape')}"
    return os.path.basename(value) if isinstance(value, str) else value


def slug(text: str) -> str:
    """A text as the name of a file.

    >>> slug("dsprites(rendered=True)"), slug("laplace(scale=0.1)")
    ('dsprites-rendered-true', 'laplace-scale-0.1')
    """
    return re.sub(r"[^\w.]+", "-", text.lower().replace("_", "-")).strip("-.")[:80]


def fingerprint(array: np.ndarray) -> str:
    """A hash over an array's dtype, shape and bytes.

    >>> fingerprint(np.zeros(2)) == fingerprint(np.zeros((2, 1)))
    False
    """
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    digest.update(np.ascontiguousarray(array).data)
    return f"sha256:{digest.hexdigest()}"


def complete(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec with every argument, without making the dataset."""
    whole = datasets.complete(spec["name"], {key: value for key, value in spec.items() if key != "name"})
    function = datasets[spec["name"]]
    return {"name": function.__name__, **{key: _plain(value) for key, value in _settled(function, whole).items()}}


def absolute(value: Any) -> Any:
    """A path that means the same wherever a spec is read; what is no path stays as it is."""
    return os.path.abspath(os.path.expanduser(value)) if isinstance(value, str | os.PathLike) else value


def _plain(value: Any) -> Any:
    """An argument as JSON."""
    if isinstance(value, Dataset):
        return dict(value.spec)
    if isinstance(value, Mapping) and ("array" in value or "name" in value):  # a hash, or the spec of a dataset
        return dict(value)
    if isinstance(value, np.ndarray):
        return {"array": fingerprint(value), "dtype": value.dtype.name, "shape": list(value.shape)}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise UntwineError(f"a dataset's arguments are numbers, strings, paths or arrays, not {type(value).__name__}")

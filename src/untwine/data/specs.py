"""Specs of datasets: the JSON that identifies a dataset, and the registry that builds the dataset from it."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np

from untwine.arguments import bind, hints
from untwine.data.contract import Dataset
from untwine.data.files.factor_table import FactorTable
from untwine.data.files.public import Public
from untwine.errors import UntwineError
from untwine.registry import Registry

datasets = Registry("dataset")
P = ParamSpec("P")
D = TypeVar("D", bound=Dataset)

# Replaces arguments that depend on this machine, such as "auto" or a relative path, by what they stand for.
Settle = Callable[[dict[str, Any]], dict[str, Any]]


@overload
def dataset(function: Callable[P, D]) -> Callable[P, D]: ...


@overload
def dataset(
    *,
    public: Public | None = None,
    settle: Settle | None = None,
    added: Sequence[str] = (),
    selecting: Sequence[str] = (),
) -> Callable[[Callable[P, D]], Callable[P, D]]: ...


def dataset(
    function: Any = None,
    *,
    public: Public | None = None,
    settle: Settle | None = None,
    added: Sequence[str] = (),
    selecting: Sequence[str] = (),
) -> Any:
    """Register a function that returns a dataset under its name; the dataset gets its `spec`.

    Arguments are converted to the types of the signature (an int where a float is expected becomes a float), so
    that equal datasets have equal specs. An array argument is written as its hash, as a spec is always JSON.

    Args:
        function: The function; its name is the name of the dataset.
        public: The files of a public dataset.
        settle: Takes all arguments and replaces those that depend on this machine, such as "auto" or a relative
            path, so that the spec says what was used.
        added: Arguments that the dataset got after runs on it were stored. Its spec leaves them out at their
            defaults, so that the ids of stored runs stay.
        selecting: Arguments that say which examples are taken, and not what they look like: models that were trained
            on some are scored on others without a warning.

    >>> import untwine.datasets
    >>> untwine.datasets.synthetic_linear(ratio=1, samples=10).spec
    {'name': 'synthetic_linear', 'ratio': 1.0, 'samples': 10, 'levels': 256, 'seed': 0}
    """
    if function is None:
        return functools.partial(dataset, public=public, settle=settle, added=added, selecting=selecting)
    name = function.__name__

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Dataset:
        arguments = _settled(wrapped, bind(f"dataset {name!r}", function, args, kwargs))
        built = function(**arguments)
        built.spec = _spec(wrapped, arguments)
        return built

    wrapped.public = public  # type: ignore[attr-defined]
    wrapped.settle = settle  # type: ignore[attr-defined]
    wrapped.added = tuple(added)  # type: ignore[attr-defined]
    wrapped.selecting = tuple(selecting)  # type: ignore[attr-defined]
    return datasets.add(wrapped)


def public_of(function: Callable[..., Dataset]) -> Public | None:
    """The public files of a registered dataset; None if it needs none."""
    return getattr(function, "public", None)


def _settled(function: Callable[..., Dataset], arguments: dict[str, Any]) -> dict[str, Any]:
    settle: Settle | None = getattr(function, "settle", None)
    return arguments if settle is None else settle(dict(arguments))


def build(spec: Mapping[str, Any]) -> Dataset:
    """Build a dataset from its spec; unknown names and arguments are refused.

    >>> import untwine.datasets
    >>> dots = untwine.datasets.three_dots(examples=10)
    >>> build(dots.spec).spec == dots.spec
    True
    """
    if not isinstance(spec, Mapping) or not isinstance(spec.get("name"), str):
        raise UntwineError(f"a dataset's spec needs a name, as in {{'name': 'three_dots'}}; got {spec!r}")
    arguments = {key: value for key, value in spec.items() if key != "name"}
    for key, value in arguments.items():
        if is_hash(value):
            raise UntwineError(
                f"dataset {spec['name']!r} was made from an array in memory ({str(value['array'])[:19]}..., "
                f"{value.get('dtype')} {value.get('shape')}), which its spec does not hold: "
                f"pass the array again as {key!r}"
            )
    return datasets[spec["name"]](**arguments)


def short_name(dataset: Dataset) -> str:
    """The name of a dataset with its non-default arguments.

    >>> import untwine.datasets
    >>> short_name(untwine.datasets.xy_squares(spacing=4))
    'xy-squares(spacing=4)'
    """
    return short_name_of(dataset.spec)


def short_name_of(spec: Mapping[str, Any]) -> str:
    """The name of the dataset that a spec describes, with its non-default arguments; of a path its last part."""
    name = str(spec.get("name", "dataset"))
    parameters = inspect.signature(datasets[name]).parameters if name in datasets else {}
    arguments = ", ".join(
        f"{key}={_short(value)}"
        for key, value in spec.items()
        if key in parameters and not _is_default(value, parameters[key])
    )
    return name.replace("_", "-") + (f"({arguments})" if arguments else "")


def _is_default(value: Any, parameter: inspect.Parameter) -> bool:
    return parameter.default is not parameter.empty and value == _to_json(parameter.default)


def _short(value: Any) -> Any:
    """A short form of an argument: the name of a dataset, the shape of an array, the last part of a path."""
    if isinstance(value, Mapping):
        return short_name_of(value) if "name" in value else f"array {value.get('shape')}"
    return os.path.basename(value) if isinstance(value, str) else value


def source(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec without the arguments that select examples: datasets with equal sources have examples of one kind.

    >>> import untwine.datasets
    >>> test = untwine.datasets.split("xy-squares(spacing=4)", part="test")
    >>> source(test.spec) == source(untwine.datasets.xy_squares(spacing=4).spec)
    True
    """
    name = str(spec.get("name"))
    selecting = getattr(datasets[name], "selecting", ()) if name in datasets else ()
    kept = {key: value for key, value in spec.items() if key not in selecting}
    if isinstance(inner := kept.get("dataset"), Mapping):
        kept["dataset"] = source(inner)
        if kept.keys() == {"name", "dataset"}:  # all else selects among the examples of that dataset
            return kept["dataset"]
    return kept


def slug(text: str) -> str:
    """A text as a file name.

    >>> slug("dsprites(rendered=True)"), slug("laplace(scale=0.1)")
    ('dsprites-rendered-true', 'laplace-scale-0.1')
    """
    return re.sub(r"[^\w.]+", "-", text.lower().replace("_", "-")).strip("-.")[:80]


def fingerprint(array: np.ndarray) -> str:
    """A hash of an array's dtype, shape and bytes.

    >>> fingerprint(np.zeros(2)) == fingerprint(np.zeros((2, 1)))
    False
    """
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    digest.update(np.ascontiguousarray(array).data)
    return f"sha256:{digest.hexdigest()}"


def full_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec with every default filled in, without building the dataset.

    >>> import untwine.datasets
    >>> full_spec({"name": "xy-squares", "spacing": 4})
    {'name': 'xy_squares', 'spacing': 4, 'size': 64, 'square': 8, 'positions': 8}
    """
    function = datasets[spec["name"]]
    arguments = {key: value for key, value in spec.items() if key != "name"}
    hashed = dict.fromkeys((key for key, value in arguments.items() if is_hash(value)), Any)
    what = f"dataset {function.__name__!r}"
    bound = bind(what, function, kwargs=arguments, annotations=hints(function) | hashed)
    settled = _settled(function, bound)
    return _spec(function, settled)


def _spec(function: Callable[..., Dataset], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a dataset with all its arguments, except those that were added later and have their defaults."""
    values = {key: _to_json(value) for key, value in arguments.items()}
    parameters = inspect.signature(function).parameters
    added = [key for key in getattr(function, "added", ()) if _is_default(values[key], parameters[key])]
    return {"name": function.__name__, **{key: value for key, value in values.items() if key not in added}}


def is_hash(value: Any) -> bool:
    """Whether an argument of a spec is the hash of an array or a table rather than its value.

    >>> is_hash({"array": "sha256:12", "dtype": "uint8", "shape": [2]}), is_hash({"array": [1, 2]})
    (True, False)
    """
    return isinstance(value, Mapping) and str(value.get("array", "")).startswith("sha256:")


def absolute(value: Any) -> Any:
    """A path made absolute, so that a spec means the same in every folder; other values stay as they are."""
    return os.path.abspath(os.path.expanduser(value)) if isinstance(value, str | os.PathLike) else value


def _to_json(value: Any) -> Any:
    """An argument as JSON."""
    if isinstance(value, Dataset):
        return dict(value.spec)
    if is_hash(value) or (isinstance(value, Mapping) and "name" in value):  # a hash, or the spec of a dataset
        return dict(value)
    if isinstance(value, np.ndarray):
        return {"array": fingerprint(value), "dtype": value.dtype.name, "shape": list(value.shape)}
    if isinstance(value, FactorTable):
        content = np.frombuffer(json.dumps(value.to_json()).encode(), np.uint8)
        return {"array": fingerprint(content), "dtype": "table", "shape": [len(value), len(value.names)]}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return [_to_json(element) for element in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise UntwineError(f"a dataset's arguments are numbers, strings, paths or arrays, not {type(value).__name__}")

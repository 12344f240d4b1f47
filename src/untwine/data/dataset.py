"""The contract that every dataset keeps, and the registry through which a spec becomes a dataset again."""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import os
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from untwine.data.factors import ArrayLike, FactorSpace
from untwine.errors import UntwineError, refuse_unknown
from untwine.registry import Registry

datasets = Registry("dataset")
P = ParamSpec("P")

_CHUNK_BYTES = 2**26


class Dataset(ABC):
    """Training examples, and where they have factors, an image or vector for every state of the factors.

    `shape` is `(channels, height, width)` for images, which are uint8 with 0..255 standing for [0, 1], and
    `(n,)` for plain vectors, which are float32. `factors` is None for data of unknown origin: such a
    dataset trains as well as any other, it only cannot be scored. `spec` is the JSON from which `build`
    makes the dataset again.

    A new dataset defines `_batch`, `_factors_of` and `_observe` (or derives from `Unlabelled`), and gets
    arguments that are already checked; it overrides nothing else.

    >>> import untwine.datasets
    >>> dots = untwine.datasets.three_dots(examples=100)
    >>> dots.shape, len(dots), dots.batch([0, 1]).dtype
    ((1, 64, 64), 100, dtype('uint8'))
    >>> bool((dots.observe(dots.factors_of([7])) == dots.batch([7])).all())
    True
    """

    spec: dict[str, Any]

    def __init__(self, shape: tuple[int, ...], length: int, factors: FactorSpace | None) -> None:
        self.spec = {}
        self.shape = shape
        self.factors = factors
        self._length = length
        self._examples: np.ndarray | None = None

    @abstractmethod
    def _batch(self, indices: Int64[np.ndarray, " n"]) -> Shaped[np.ndarray, "n ..."]:
        """The training examples of these numbers."""

    @abstractmethod
    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        """The factors of these training examples."""

    @abstractmethod
    def _observe(self, factors: Int64[np.ndarray, "n k"]) -> Shaped[np.ndarray, "n ..."]:
        """What the states of these factors look like."""

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.spec.items() if key != "name")
        return f"{self.spec.get('name', type(self).__name__)}({arguments})"

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint8 if len(self.shape) == 3 else np.float32)

    @property
    def nbytes(self) -> int:
        """The size of `examples()`, known before it is made: a trainer decides by it what fits where."""
        return len(self) * math.prod(self.shape) * self.dtype.itemsize

    def batch(self, indices: ArrayLike) -> Shaped[np.ndarray, "n ..."]:
        """The training examples `[n, *shape]` of these numbers, each from 0 to `len - 1`."""
        return self._batch(self._check(indices))

    def factors_of(self, indices: ArrayLike) -> Int64[np.ndarray, "n k"]:
        """The factors `[n, k]` of these training examples."""
        return self._factors_of(self._check(indices))

    def observe(self, factors: ArrayLike) -> Shaped[np.ndarray, "n ..."]:
        """What these states `[n, k]` look like: `[n, *shape]`. They need not be training examples."""
        return self._observe(np.asarray(factors) if self.factors is None else self.factors.check(factors))

    def examples(self) -> Shaped[np.ndarray, "n ..."]:
        """The whole training table, made once and then kept: it is the dataset's own, do not write to it."""
        if self._examples is None:
            table = np.empty((len(self), *self.shape), self.dtype)
            chunk = max(1, _CHUNK_BYTES // max(1, math.prod(self.shape) * self.dtype.itemsize))
            for start in range(0, len(self), chunk):
                stop = min(start + chunk, len(self))
                table[start:stop] = self._batch(np.arange(start, stop))
            self._examples = table
        return self._examples

    def standardisation(
        self, indices: ArrayLike | None = None
    ) -> tuple[Float64[np.ndarray, " channels"], Float64[np.ndarray, " channels"]]:
        """Mean and standard deviation of each channel of the images in [0, 1], as Michlo et al. 2023, Table A2.

        Their standard deviation is the mean over the images of each image's own (unbiased), not that of
        all pixels together. Over all training examples, a part at a time, or over those of the given
        numbers. In `xy_squares` all pictures have the same constants, so any one of them is enough.

        >>> import untwine.datasets
        >>> mean, std = untwine.datasets.xy_squares().standardisation([0])
        >>> mean.tolist(), std.round(5).tolist()
        ([0.015625, 0.015625, 0.015625], [0.12403, 0.12403, 0.12403])
        """
        if len(self.shape) != 3:
            raise UntwineError(f"only images are standardised by channel; an example here is {list(self.shape)}")
        pixels = math.prod(self.shape[1:])
        numbers = np.arange(len(self)) if indices is None else self._check(indices)
        if not len(numbers) or pixels < 2:
            raise UntwineError("standardisation needs at least one image, of two or more pixels")
        mean, std = np.zeros(self.shape[0]), np.zeros(self.shape[0])
        for part in np.array_split(numbers, -(-len(numbers) * self.shape[0] * pixels * 8 // _CHUNK_BYTES)):
            # Whole numbers below 2^53, so these sums are exact. They are taken of 0..255.
            values = self._batch(part).reshape(len(part), self.shape[0], pixels).astype(np.float64)
            total, squares = values.sum(-1), np.einsum("ncp,ncp->nc", values, values)
            mean += total.sum(0) / pixels
            std += np.sqrt((pixels * squares - total**2) / (pixels * (pixels - 1))).sum(0)
        return mean / (255 * len(numbers)), std / (255 * len(numbers))

    def _check(self, indices: ArrayLike) -> Int64[np.ndarray, " n"]:
        array = np.asarray(indices)
        if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
            raise UntwineError(f"example numbers must be int64 [n]; got {array.dtype} {list(array.shape)}")
        outside = (array < 0) | (array >= len(self))
        if outside.any():
            raise UntwineError(f"there is no example {array[outside][0]}; they are 0 to {len(self) - 1}")
        return array.astype(np.int64)


class Unlabelled(Dataset):
    """Training examples of unknown origin. A concrete dataset defines only `_batch`."""

    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        raise UntwineError(f"dataset {self.spec.get('name')!r} has no factors, so its examples have none")

    def _observe(self, factors: Shaped[np.ndarray, "..."]) -> Shaped[np.ndarray, "n ..."]:
        raise UntwineError(
            f"dataset {self.spec.get('name')!r} has no factors to observe; it can train a model, "
            "but scoring one needs a dataset with factors, such as 'three_dots'"
        )


# --- from functions to specs and back ---------------------------------------------------------------


def dataset(function: Callable[P, Dataset]) -> Callable[P, Dataset]:
    """Register a function under its name, and let what it returns carry the spec that made it.

    Arguments are brought to the types that the signature promises (a whole number where a float is
    expected becomes one), so that equal datasets have equal specs. An array argument is written as its
    hash: a spec is always JSON.

    >>> import untwine.datasets
    >>> untwine.datasets.synthetic_linear(ratio=1, samples=10).spec
    {'name': 'synthetic_linear', 'ratio': 1.0, 'samples': 10, 'levels': 256, 'seed': 0}
    """
    signature = inspect.signature(function)
    name = function.__name__

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Dataset:
        refuse_unknown(f"argument of dataset {name!r}:", kwargs, signature.parameters)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        hints = typing.get_type_hints(function)
        for key, value in bound.arguments.items():
            bound.arguments[key] = conform(value, hints.get(key, Any), f"{key!r} of dataset {name!r}")
        made = function(*bound.args, **bound.kwargs)
        made.spec = {"name": name, **{key: _plain(value, key) for key, value in bound.arguments.items()}}
        return made

    return datasets.add(wrapped)


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


def fingerprint(array: np.ndarray) -> str:
    """A hash over an array's dtype, shape and bytes.

    >>> fingerprint(np.zeros(2)) == fingerprint(np.zeros((2, 1)))
    False
    """
    digest = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
    digest.update(np.ascontiguousarray(array).data)
    return f"sha256:{digest.hexdigest()}"


def conform(value: Any, hint: Any, where: str) -> Any:
    """The value as the type that a signature promises, or an error which says what it should be."""
    if isinstance(value, np.generic):
        value = value.item()
    choices = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    choices = tuple(typing.get_origin(choice) or choice for choice in choices)
    if Any in choices:
        return value
    if tuple in choices and isinstance(value, list):
        return tuple(value)
    # True is an int to Python; to a reader of a spec it is not.
    if isinstance(value, choices) and (bool in choices or not isinstance(value, bool)):
        return value
    if float in choices and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    expected = " or ".join("None" if choice is types.NoneType else choice.__name__ for choice in choices)
    raise UntwineError(f"{where} must be {expected}; got {type(value).__name__} {value!r:.60}")


def complete(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A spec with every argument, without making the dataset."""
    whole = datasets.spec(spec["name"], {key: value for key, value in spec.items() if key != "name"})
    return {key: _plain(value, key) for key, value in whole.items()}


def _plain(value: Any, key: str = "") -> Any:
    """An argument as JSON. The path of a source means the same wherever the spec is read."""
    if isinstance(value, Mapping) and "array" in value:
        return dict(value)
    if key in ("source", "factors") and isinstance(value, str | os.PathLike):
        return os.path.abspath(value)
    if isinstance(value, np.ndarray):
        return {"array": fingerprint(value), "dtype": value.dtype.name, "shape": list(value.shape)}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise UntwineError(f"a dataset's arguments are numbers, strings, paths or arrays, not {type(value).__name__}")

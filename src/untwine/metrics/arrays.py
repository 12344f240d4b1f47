"""The arrays that metrics take, checked in one place for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Num

from untwine.checks import as_array, finite
from untwine.errors import UntwineError

PER_FACTOR = ("kinds", "sizes")  # options with an entry for each factor


@dataclass(frozen=True)
class Arrays:
    """The checked arrays of each member, in the order of the metric's arguments, and what is known of them."""

    members: list[tuple[Any, ...]]
    pack: bool  # whether the members were the first dimension
    details: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    varying_factors: np.ndarray | None = None

    def options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options for the factors that vary: kinds and sizes have an entry for each factor, constant ones too."""
        used = dict(options)
        for name in PER_FACTOR:
            if self.varying_factors is None or options.get(name) is None:
                continue
            entries = tuple(options[name])
            if len(entries) != len(self.varying_factors):
                raise UntwineError(f"there are {len(entries)} {name} for {len(self.varying_factors)} factors")
            used[name] = tuple(entry for entry, varies in zip(entries, self.varying_factors, strict=True) if varies)
        return used


# How many dimensions one model's array has. Jacobians are [n, latent, outputs] or [n, latent, channels, y, x].
_DIMENSIONS = {"codes": (2,), "means": (2,), "variances": (2,), "jacobians": (3, 5)}
_SHAPES = {"codes": "[n, d]", "means": "[n, d]", "variances": "[n, d]", "jacobians": "[n, latent, outputs]"}


# Arguments that are no arrays: those of one model, or a list of them.
OBJECTS = ("posterior", "prior")


def check_arrays(arrays: Mapping[str, Any], continuous: bool, metric: str) -> Arrays:
    """The arrays of a metric, checked: those of one member, or with members as the first dimension.

    Factors decide how many dimensions the samples have: one in `[n, k]`, two in `[groups, size, k]`.

    Args:
        arrays: The arrays by the names of the metric's arguments.
        continuous: Whether factors may be floats.
        metric: The name for error messages.
    """
    details: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    factors = varying_factors = None
    shared: dict[str, np.ndarray] = {}
    if "factors" in arrays:
        factors = _factors(arrays["factors"], continuous, metric)
        varying_factors = varying(factors)
        details["constant_factors"] = np.flatnonzero(~varying_factors).tolist()
        if not varying_factors.any():
            raise UntwineError(f"{metric}: every factor is constant in this sample, so there is nothing to score")
        settings["samples"] = int(np.prod(factors.shape[:-1]))
        shared["factors"] = factors if varying_factors.all() else factors[..., varying_factors]
    by_member = {name: value for name, value in arrays.items() if name not in ("factors", *OBJECTS)}
    checked = {name: _array(name, value, factors, metric) for name, value in by_member.items()}
    checked |= {name: (arrays[name], isinstance(arrays[name], list)) for name in OBJECTS if name in arrays}
    packs = {pack for _, pack in checked.values()}
    if len(packs) > 1:
        raise UntwineError(f"{metric}: some are those of several members, others not: {_listed(arrays)}")
    pack = packs.pop() if packs else False
    stacked = {name: value if pack else value[None] for name, (value, _) in checked.items() if name in by_member}
    if len({array.shape[:2] for array in stacked.values()}) > 1:
        raise UntwineError(f"{metric}: the numbers of members or samples differ: {_listed(arrays)}")
    each = stacked | {name: value if pack else [value] for name, (value, _) in checked.items() if name in OBJECTS}
    counts = {name: len(value) for name, value in each.items()}
    if len(set(counts.values())) > 1:
        raise UntwineError(f"{metric}: the numbers of members differ: {counts}")
    count = next(iter(counts.values()), 1)
    members = [tuple(shared[name] if name in shared else each[name][i] for name in arrays) for i in range(count)]
    for name, array in stacked.items():
        if "factors" not in arrays:
            settings["samples"] = array.shape[1]
        if name == "codes":
            dead = [dead_codes(codes).tolist() for codes in array]
            details["dead_codes"] = dead if pack else dead[0]
    return Arrays(members, pack, details, settings, varying_factors)


def check_models(arrays: Mapping[str, Any], continuous: bool, metric: str) -> Arrays:
    """The arrays of a metric that compares models, which may have different numbers of latents.

    Args:
        arrays: A list of arrays, one for each model, by the names of the metric's arguments.
        continuous: Whether factors may be floats.
        metric: The name for error messages.
    """
    for name, value in arrays.items():
        if not isinstance(value, list | tuple) and not getattr(value, "ndim", 0):
            raise UntwineError(
                f"{metric} takes a list of {name} [n, d], one for each model, not {type(value).__name__}"
            )
    # A list of arrays, or one array with the models as its first dimension.
    shapes = {name: [_shape(model) for model in value] for name, value in arrays.items()}
    wrong = UntwineError(
        f"{metric} compares models: it takes {', '.join(arrays)} of two or more, each [n, d] of the same n samples, in "
        f"a list or an array [models, n, d]; it was given {' and '.join(_given(*item) for item in arrays.items())}"
    )
    counts = {len(of_models) for of_models in shapes.values()}
    fit = all(len(shape) in _DIMENSIONS.get(name, (2,)) for name, of_models in shapes.items() for shape in of_models)
    if len(counts) > 1 or min(counts) < 2 or not fit:
        raise wrong
    models = [
        check_arrays({name: value[i] for name, value in arrays.items()}, continuous, f"{metric}, model {i}")
        for i in range(counts.pop())
    ]
    samples = {model.settings["samples"] for model in models}
    if len(samples) > 1:
        raise wrong
    dead = {"dead_codes": [model.details["dead_codes"] for model in models]} if "codes" in arrays else {}
    return Arrays([model.members[0] for model in models], True, dead, {"samples": samples.pop(), "models": len(models)})


def dead_codes(codes: Float64[np.ndarray, "*samples d"]) -> Int64[np.ndarray, " dead"]:
    """The codes that never vary.

    >>> dead_codes(np.array([[0.0, 1.0], [1.0, 1.0]])).tolist()
    [1]
    """
    return np.flatnonzero(~varying(codes))


def varying(array: Num[np.ndarray, "*samples d"]) -> Bool[np.ndarray, " d"]:
    """Which columns vary over the samples.

    >>> varying(np.array([[0.0, 1.0], [1.0, 1.0]])).tolist()
    [True, False]
    """
    flat = array.reshape(-1, array.shape[-1])
    varies = (flat[:1000] != flat[:1]).any(0)  # most columns do so at once; others are compared to the end
    varies[~varies] = (flat[:, ~varies] != flat[:1, ~varies]).any(0)
    return varies


def _factors(value: Any, continuous: bool, metric: str) -> Num[np.ndarray, "*samples k"]:
    array = as_array(value)
    if array.ndim < 2 or 0 in array.shape:
        raise UntwineError(f"{metric}: factors have shape {list(array.shape)}; they must be [n, k], one row a sample")
    if array.dtype == bool:
        return array.astype(np.int64)
    if np.issubdtype(array.dtype, np.integer):
        return array.astype(np.int64)
    if not np.issubdtype(array.dtype, np.floating):
        raise UntwineError(f"{metric}: factors are {array.dtype}; they must be whole numbers")
    if not continuous:
        raise UntwineError(
            f"{metric}: factors are {array.dtype}, but it needs whole numbers (the index of each value): use the "
            "grid's indices, bin the factors yourself, or choose a metric for continuous factors such as knn_score"
        )
    return finite(array, f"{metric}: factors")


def _array(name: str, value: Any, factors: np.ndarray | None, metric: str) -> tuple[np.ndarray, bool]:
    """The array in float64, and whether its first dimension is that of members."""
    if name not in _DIMENSIONS:
        known = ", ".join((*_DIMENSIONS, "factors", *OBJECTS))
        raise UntwineError(f"{metric} takes {name!r}, which is none of the arrays that metrics can take: {known}")
    array = as_array(value)
    if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise UntwineError(f"{metric}: {name} are {array.dtype}; they must be numbers")
    dimensions, shape, beside = _DIMENSIONS[name], _SHAPES[name], ""
    if factors is not None:
        dimensions, shape = (factors.ndim,), f"[{', '.join(map(str, factors.shape[:-1]))}, d]"
        beside = f", since factors have shape {list(factors.shape)}"
    if array.ndim not in dimensions and array.ndim - 1 not in dimensions:
        raise UntwineError(
            f"{metric}: {name} have shape {list(array.shape)}; they must be {shape}, or [members, {shape[1:]}{beside}"
        )
    pack = array.ndim not in dimensions
    samples = array.shape[pack : pack + (1 if factors is None else factors.ndim - 1)]
    if factors is not None and samples != factors.shape[:-1]:
        raise UntwineError(
            f"{metric}: there are {name} for {list(samples)} samples, and factors for {list(factors.shape[:-1])}; "
            f"their shapes are {list(array.shape)} and {list(factors.shape)}"
        )
    if 0 in array.shape:
        raise UntwineError(f"{metric}: {name} of shape {list(array.shape)} are empty")
    return finite(array, f"{metric}: {name}"), pack


def _listed(arrays: Mapping[str, Any]) -> str:
    """The names and shapes of arrays, for an error."""
    return ", ".join(f"{name} {_shape(value)}" for name, value in arrays.items() if name not in OBJECTS)


def _given(name: str, models: Any) -> str:
    """What was given for an array of each model, with its shape or shapes."""
    if hasattr(models, "shape"):
        return f"{name} of shape {_shape(models)}"
    shapes = [str(_shape(model)) for model in models]
    more = f" and {len(shapes) - 5} more" if len(shapes) > 5 else ""
    return f"a list of {len(shapes)} {name}" + (f" of shapes {', '.join(shapes[:5])}{more}" if shapes else "")


def _shape(value: Any) -> list[int]:
    return list(value.shape if hasattr(value, "shape") else as_array(value).shape)

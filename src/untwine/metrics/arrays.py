"""The arrays that metrics take: checked once, here, for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Num

from untwine.checks import as_array, finite
from untwine.errors import UntwineError


@dataclass(frozen=True)
class Given:
    """Arrays for each member, in the order of the metric's arguments, and what was found about them."""

    members: list[tuple[Any, ...]]
    pack: bool
    details: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    kept: np.ndarray | None = None  # the factors that vary

    def options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options for factors that vary: `kinds` has one entry for each factor that was given."""
        if self.kept is None or options.get("kinds") is None:
            return dict(options)
        kinds = tuple(options["kinds"])
        if len(kinds) != len(self.kept):
            raise UntwineError(f"there are {len(kinds)} kinds for {len(self.kept)} factors")
        return {**options, "kinds": tuple(kind for kind, keep in zip(kinds, self.kept, strict=True) if keep)}


# How many dimensions one model's array has. Jacobians are [n, latent, outputs] or [n, latent, channels, y, x].
_DIMENSIONS = {"codes": (2,), "means": (2,), "variances": (2,), "jacobians": (3, 5)}
_SHAPES = {"codes": "[n, d]", "means": "[n, d]", "variances": "[n, d]", "jacobians": "[n, latent, outputs]"}


# Things that are no arrays: those of one model, or a list of them.
OBJECTS = ("posterior", "prior")


def given(arrays: Mapping[str, Any], continuous: bool, metric: str) -> Given:
    """The arrays of a metric, checked; one member's, or with members as the first dimension.

    Factors decide how many dimensions the samples have: one in `[n, k]`, two in `[groups, size, k]`.
    """
    details: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    kept = None
    shared: dict[str, np.ndarray] = {}
    if "factors" in arrays:
        factors = _factors(arrays["factors"], continuous, metric)
        kept = varying(factors)
        details["constant_factors"] = np.flatnonzero(~kept).tolist()
        if not kept.any():
            raise UntwineError(f"{metric}: every factor is constant in this sample, so there is nothing to score")
        settings["samples"] = int(np.prod(factors.shape[:-1]))
        shared["factors"] = factors[..., kept]
    own = {name: value for name, value in arrays.items() if name not in ("factors", *OBJECTS)}
    checked = {name: _array(name, value, shared.get("factors"), metric) for name, value in own.items()}
    checked |= {name: (arrays[name], isinstance(arrays[name], list)) for name in OBJECTS if name in arrays}
    packs = {pack for _, pack in checked.values()}
    if len(packs) > 1:
        raise UntwineError(f"{metric}: some of {', '.join(checked)} are those of several members, others not")
    pack = packs.pop() if packs else False
    whole = {name: value if pack else value[None] for name, (value, _) in checked.items() if name in own}
    lengths = {name: array.shape[:2] for name, array in whole.items()}
    if len(set(lengths.values())) > 1:
        raise UntwineError(f"{metric}: members and samples differ: {lengths}")
    each = whole | {name: value if pack else [value] for name, (value, _) in checked.items() if name in OBJECTS}
    counts = {name: len(value) for name, value in each.items()}
    if len(set(counts.values())) > 1:
        raise UntwineError(f"{metric}: the numbers of members differ: {counts}")
    count = next(iter(counts.values()), 1)
    members = [tuple(shared[n] if n in shared else each[n][i] for n in arrays) for i in range(count)]
    for name, array in whole.items():
        if "factors" not in arrays:
            settings["samples"] = array.shape[1]
        if name == "codes":
            dead = [dead_codes(one).tolist() for one in array]
            details["dead_codes"] = dead if pack else dead[0]
    return Given(members, pack, details, settings, kept)


def several(arrays: Mapping[str, Any], continuous: bool, metric: str) -> Given:
    """The arrays of a metric that compares models, which may have different numbers of latents."""
    for name, value in arrays.items():
        if not isinstance(value, list | tuple | np.ndarray) and not hasattr(value, "detach"):
            raise UntwineError(
                f"{metric} takes a list of {name} [n, d], one for each model, not {type(value).__name__}"
            )
    counts = {name: len(value) for name, value in arrays.items()}
    if len(set(counts.values())) > 1 or min(counts.values()) < 2:
        raise UntwineError(f"{metric} compares models: it takes {', '.join(arrays)} of two or more, not of {counts}")
    each = [
        given({name: value[i] for name, value in arrays.items()}, continuous, f"{metric}, model {i}")
        for i in range(next(iter(counts.values())))
    ]
    samples = {one.settings["samples"] for one in each}
    if len(samples) > 1 or any(one.pack for one in each):
        raise UntwineError(f"{metric} takes a list of codes [n, d] of the same n samples, one for each model")
    dead = {"dead_codes": [one.details["dead_codes"] for one in each]} if "codes" in arrays else {}
    return Given([one.members[0] for one in each], True, dead, {"samples": samples.pop(), "models": len(each)})


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
    return (flat != flat[:1]).any(0)


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
    """An array in float64, and whether its first dimension is that of members."""
    if name not in _DIMENSIONS:
        known = ", ".join((*_DIMENSIONS, "factors", *OBJECTS))
        raise UntwineError(f"{metric} takes {name!r}, which no metric does; known: {known}")
    array = as_array(value)
    if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise UntwineError(f"{metric}: {name} are {array.dtype}; they must be numbers")
    dimensions, shape = _DIMENSIONS[name], _SHAPES[name]
    if factors is not None:
        dimensions, shape = (factors.ndim,), f"[{', '.join(map(str, factors.shape[:-1]))}, d]"
    if array.ndim not in dimensions and array.ndim - 1 not in dimensions:
        raise UntwineError(
            f"{metric}: {name} have shape {list(array.shape)}; they must be {shape}, or [members, {shape[1:]}"
        )
    pack = array.ndim not in dimensions
    samples = array.shape[pack : pack + (1 if factors is None else factors.ndim - 1)]
    if factors is not None and samples != factors.shape[:-1]:
        raise UntwineError(
            f"{metric}: there are {name} for {list(samples)} samples, and factors for {list(factors.shape[:-1])}"
        )
    if 0 in array.shape:
        raise UntwineError(f"{metric}: {name} of shape {list(array.shape)} are empty")
    return finite(array, f"{metric}: {name}"), pack

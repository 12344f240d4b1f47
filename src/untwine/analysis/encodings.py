"""Which latents a class of data uses, and the checks that all instruments share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike

from untwine.checks import as_array, finite
from untwine.errors import UntwineError

Whole = int | np.integer


def checked(value: Any, name: str, least: int = 1) -> Float64[np.ndarray, "*shape"]:
    """Finite numbers as float64, with at least so many dimensions, none of them empty.

    >>> checked([[1, 2]], "codes").dtype.name
    'float64'
    """
    array = as_array(value)
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool) or np.iscomplexobj(array):
        raise UntwineError(f"{name} are {array.dtype}; they must be numbers")
    if array.ndim < least or 0 in array.shape:
        raise UntwineError(f"{name} have shape {list(array.shape)}; they need {least} dimensions or more, none empty")
    return finite(array, name)


def diagonal(
    means: ArrayLike, variances: ArrayLike
) -> tuple[Float64[np.ndarray, "*members n d"], Float64[np.ndarray, "*members n d"]]:
    """Means and variances of normal posteriors, checked."""
    mean, variance = checked(means, "means", 2), checked(variances, "variances", 2)
    if mean.shape != variance.shape:
        raise UntwineError(f"means have shape {list(mean.shape)} and variances {list(variance.shape)}: not the same")
    if (variance < 0).any():
        raise UntwineError(f"variances must be 0 or more, not {variance.min():.3g}; are they log-variances?")
    return mean, variance


@dataclass(frozen=True)
class ByClass:
    """A number for each class and latent. Classes are in the order of their labels."""

    values: Float64[np.ndarray, "*members classes d"]
    classes: np.ndarray
    counts: Int64[np.ndarray, " classes"]


def magnitude_by_class(codes: ArrayLike, labels: ArrayLike, absolute: bool = True) -> ByClass:
    """The mean magnitude |z_d| of each latent over the examples of each class (mathieu2019, Figure 5, top).

    Codes are `[n, d]` or `[members, n, d]`, labels `[n]`, numbers or texts. With `absolute=False` the mean itself.

    >>> found = magnitude_by_class([[1.0, 0.0], [-1.0, 0.0], [0.0, 3.0]], ["shirt", "shirt", "dress"])
    >>> found.classes.tolist(), found.counts.tolist(), found.values.tolist()
    (['dress', 'shirt'], [1, 2], [[0.0, 3.0], [1.0, 0.0]])
    """
    array, label = checked(codes, "codes", 2), as_array(labels)
    if label.shape != array.shape[-2:-1]:
        raise UntwineError(
            f"labels have shape {list(label.shape)} for codes {list(array.shape)}; they must be [{array.shape[-2]}]"
        )
    classes, inverse, counts = np.unique(label, return_inverse=True, return_counts=True)
    together = (np.abs(array) if absolute else array)[..., np.argsort(inverse, kind="stable"), :]
    sums = np.add.reduceat(together, np.cumsum(counts) - counts, axis=-2)
    return ByClass(sums / counts[:, None], classes, counts.astype(np.int64))


def active_dimensions(
    codes: ArrayLike, threshold: float = 0.5
) -> tuple[Int64[np.ndarray, "*batch d"], Int64[np.ndarray, "*batch"]]:
    """The latents of a code by magnitude, largest first, and how many of them are active: above the threshold.

    mathieu2019 (6.3) calls a latent active where |z_d| far exceeds the variance 0.05 of the sparse prior's spike;
    the default is ten times that. Codes are `[*batch, d]`, or the magnitudes of `magnitude_by_class`.

    >>> order, count = active_dimensions([0.01, -2.0, 0.7])
    >>> order[:count].tolist()
    [1, 2]
    """
    if not threshold >= 0:
        raise UntwineError(f"threshold is a magnitude, 0 or more, not {threshold!r}")
    magnitudes = np.abs(checked(codes, "codes"))
    return np.argsort(-magnitudes, axis=-1, kind="stable"), np.asarray((magnitudes > threshold).sum(-1), np.int64)

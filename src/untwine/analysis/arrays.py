"""Checks of the arrays that all instruments take."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from untwine.checks import as_array, finite
from untwine.errors import UntwineError

Integer = int | np.integer


def finite_array(value: Any, name: str, least: int = 1) -> Float64[np.ndarray, "*shape"]:
    """Finite numbers as float64.

    Args:
        value: An array, a tensor or nested lists of numbers.
        name: The name in the error message.
        least: The fewest dimensions; none of them may be empty.

    >>> finite_array([[1, 2]], "codes").dtype.name
    'float64'
    """
    array = as_array(value)
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool) or np.iscomplexobj(array):
        raise UntwineError(f"{name} are {array.dtype}; they must be numbers")
    if array.ndim < least or 0 in array.shape:
        raise UntwineError(f"{name} have shape {list(array.shape)}; they need {least} dimensions or more, none empty")
    return finite(array, name)


def diagonal_posteriors(
    means: ArrayLike, variances: ArrayLike
) -> tuple[Float64[np.ndarray, "*members n d"], Float64[np.ndarray, "*members n d"]]:
    """Means and variances of normal posteriors as float64, after a check of their shapes and signs."""
    mean, variance = finite_array(means, "means", 2), finite_array(variances, "variances", 2)
    if mean.shape != variance.shape:
        raise UntwineError(f"means have shape {list(mean.shape)} and variances {list(variance.shape)}: not the same")
    if (variance < 0).any():
        raise UntwineError(f"variances must be 0 or more, not {variance.min():.3g}; are they log-variances?")
    return mean, variance

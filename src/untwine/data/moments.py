"""Moments of a dataset: the mean and deviation of each channel, and variances along principal components."""

from __future__ import annotations

import math
import weakref
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Int64

from untwine.data.contract import Dataset
from untwine.errors import UntwineError
from untwine.streams import np_bits, np_uniform

STANDARD_EXAMPLES = 20_000
PRINCIPAL_EXAMPLES = 5_000
_DENSE = 1_000  # up to this many dimensions, all eigenvalues are computed at once

# Mean and standard deviation of each channel.
Standard: TypeAlias = tuple[tuple[float, ...], tuple[float, ...]]
_Key: TypeAlias = tuple[int, tuple[float, ...]]

_standards: weakref.WeakKeyDictionary[Dataset, Standard] = weakref.WeakKeyDictionary()
_principals: weakref.WeakKeyDictionary[Dataset, dict[_Key, tuple[float, ...]]] = weakref.WeakKeyDictionary()


def fixed_subset(dataset: Dataset, most: int) -> Int64[np.ndarray, " n"]:
    """The indices of all examples, or of a random subset of `most` examples that never changes."""
    indices = np.arange(len(dataset))
    if len(indices) > most:  # the examples with the smallest random keys
        indices = np.sort(np.argsort(np_bits(0, "principal components", len(dataset)), kind="stable")[:most])
    return indices


# --- channels -------------------------------------------------------------------------------------------


def standard(dataset: Dataset) -> Standard:
    """The constants that standardise a dataset's images, channel by channel (michlo2023, B.4 and Table A2).

    Computed once for a dataset by `dataset.standardisation`, over all examples or a fixed subset of 20,000.

    >>> import untwine.datasets
    >>> [round(value, 5) for value in standard(untwine.datasets.xy_squares(spacing=2, size=16, square=2))[0]]
    [0.01562, 0.01562, 0.01562]
    """
    if dataset not in _standards:
        mean, std = dataset.standardisation(fixed_subset(dataset, STANDARD_EXAMPLES))
        if not (std > 0).all():
            raise UntwineError("these images cannot be standardised: a channel is constant in every one of them")
        _standards[dataset] = tuple(mean.tolist()), tuple(std.tolist())
    return _standards[dataset]


# --- principal components -------------------------------------------------------------------------------


def principal(dataset: Dataset, count: int, std: tuple[float, ...] = ()) -> tuple[float, ...]:
    """The largest eigenvalues of the covariance of the examples, as a network sees them (uint8 / 255).

    An anisotropic prior takes its variances from them. Computed once for a dataset, over all examples or a fixed
    subset of 5,000.

    Args:
        dataset: The dataset.
        count: How many eigenvalues.
        std: Divides each channel, as standardisation does; empty leaves the channels as they are.

    >>> import untwine.datasets
    >>> square = untwine.datasets.synthetic_linear(ratio=2, samples=5_000)
    >>> [round(12 * variance, 1) for variance in principal(square, 2)]
    [4.0, 1.0]
    """
    cache = _principals.setdefault(dataset, {})
    if (count, std) not in cache:
        cache[count, std] = _leading(*_centred(dataset, std), count)
    return cache[count, std]


def _centred(dataset: Dataset, std: tuple[float, ...]) -> tuple[Float[np.ndarray, "n numbers"], float]:
    """Examples as rows around their mean, and the variance that comes from rounding alone.

    Rows are float64, or float32 where float64 would take much memory.
    """
    indices = fixed_subset(dataset, PRINCIPAL_EXAMPLES)
    numbers = math.prod(dataset.shape)
    rows = dataset.batch(indices).reshape(len(indices), numbers)
    rows = rows.astype(np.float64 if min(rows.shape) <= _DENSE else np.float32)
    if dataset.dtype == np.uint8:
        rows /= 255
    if std:
        rows /= np.repeat(np.asarray(std, rows.dtype), numbers // len(std))
    rounding = float(np.finfo(np.float32).eps * np.abs(rows).max())  # a network sees float32
    rows -= rows.mean(0, dtype=np.float64)
    return rows, rounding**2


def _leading(rows: Float[np.ndarray, "n numbers"], floor: float, count: int) -> tuple[float, ...]:
    """The `count` largest eigenvalues of the covariance of centred rows, each of which must exceed `floor`."""
    n, numbers = rows.shape
    if count < 1:
        raise UntwineError(f"the number of principal components must be 1 or more, not {count}")
    if min(n, numbers) <= _DENSE or 2 * count >= min(n, numbers):
        # Both products have the same eigenvalues, apart from zeros: take the smaller.
        values = np.linalg.eigvalsh(rows.T @ rows if numbers <= n else rows @ rows.T)[::-1][:count]
    else:
        from scipy.sparse.linalg import svds

        start = np_uniform(0, "principal components start", min(n, numbers)).astype(rows.dtype) - 0.5
        options: Any = dict(v0=start, tol=1e-4, return_singular_vectors=False)
        values = np.sort(np.asarray(svds(rows, count, **options)) ** 2)[::-1]
    values = values / max(n - 1, 1)
    # The products are rounded too, relative to the largest of their eigenvalues.
    floor = max(floor, values[0] * (1e-12 if rows.dtype == np.float64 else 1e-6))
    nonzero = int((values > floor).sum())
    if nonzero < count:
        raise UntwineError(
            f"{count} principal components were asked for, one for each latent, but the examples vary in only "
            f"{nonzero} directions: use fewer latents, or give the variances"
        )
    return tuple(float(value) for value in values)

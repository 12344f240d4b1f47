"""Variances along a dataset's principal components: what an anisotropic prior takes its own from."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from untwine.data.contract import Dataset
from untwine.errors import UntwineError
from untwine.streams import np_bits, np_uniform

MOST = 5_000  # examples
_DENSE = 1_000  # directions, up to which all of them are found at once
_Key = tuple[int, tuple[float, ...]]
_known: weakref.WeakKeyDictionary[Dataset, dict[_Key, tuple[float, ...]]] = weakref.WeakKeyDictionary()


def chosen(dataset: Dataset, most: int) -> Int64[np.ndarray, " n"]:
    """The numbers of all examples, or of `most` of them that are always the same."""
    numbers = np.arange(len(dataset))
    if len(numbers) > most:  # the smallest of as many random words
        numbers = np.sort(np.argsort(np_bits(0, "principal components", len(dataset)), kind="stable")[:most])
    return numbers


def principal(dataset: Dataset, count: int, std: tuple[float, ...] = ()) -> tuple[float, ...]:
    """The `count` largest eigenvalues of the covariance of the examples, as a network sees them (uint8 / 255).

    Channels are divided by `std` where it is given, as standardised images are.

    From all examples, or 5,000 of them that are always the same; found once for a dataset.

    >>> import untwine.datasets
    >>> square = untwine.datasets.synthetic_linear(ratio=2, samples=5_000)
    >>> [round(12 * variance, 1) for variance in principal(square, 2)]
    [4.0, 1.0]
    """
    found = _known.setdefault(dataset, {})
    if (count, std) not in found:
        found[count, std] = _leading(*_centred(dataset, std), count)
    return found[count, std]


def _centred(dataset: Dataset, std: tuple[float, ...]) -> tuple[Float[np.ndarray, "n numbers"], float]:
    """Examples as rows around their mean, and the variance that is but their rounding.

    Rows are float64, or float32 where that would take much memory.
    """
    some = chosen(dataset, MOST)
    numbers = math.prod(dataset.shape)
    rows = dataset.batch(some).reshape(len(some), numbers)
    rows = rows.astype(np.float64 if min(rows.shape) <= _DENSE else np.float32)
    if dataset.dtype == np.uint8:
        rows /= 255
    if std:
        rows /= np.repeat(np.asarray(std, rows.dtype), numbers // len(std))
    rounding = float(np.finfo(np.float32).eps * np.abs(rows).max())  # a network sees float32
    rows -= rows.mean(0, dtype=np.float64)
    return rows, rounding**2


def _leading(rows: Float[np.ndarray, "n numbers"], floor: float, count: int) -> tuple[float, ...]:
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
    real = int((values > floor).sum())
    if real < count:
        raise UntwineError(
            f"{count} principal components were asked for, one for each latent, but the examples vary in only {real} "
            "directions: use fewer latents, or give the variances"
        )
    return tuple(float(value) for value in values)

"""Training and test parts of a sample, for metrics that fit a model."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64, Num

from untwine.errors import UntwineError
from untwine.streams import np_bits_of


def ordered(codes: Float64[np.ndarray, "n d"], factors: Num[np.ndarray, "n k"]) -> Int64[np.ndarray, " n"]:
    """The order of the rows by factors and then codes, whatever order they came in."""
    order = np.lexsort(factors.T[::-1])
    rows = factors[order]
    if (rows[1:] != rows[:-1]).any(1).all():  # no two have equal factors, so that codes decide nothing
        return order
    return np.lexsort((*codes.T[::-1], *factors.T[::-1]))


def split(
    codes: Float64[np.ndarray, "n d"], factors: Num[np.ndarray, "n k"], test: float, seed: int = 0
) -> tuple[Int64[np.ndarray, " train"], Int64[np.ndarray, " test"]]:
    """The rows to train on, and a random fraction of them to test on.

    Where a row goes follows from the seed and its factors (of rows with equal factors, also from which it is, by
    their codes). So a score depends on which samples there are, not on the order in which they came, and leaving out a
    sample takes hardly any other to the other part.

    Args:
        codes: The codes of a sample.
        factors: Its factors.
        test: The fraction to test on.
        seed: Seed of the choice.

    >>> x = np.arange(10.0)[:, None]
    >>> train, test = split(x, x, test=0.2)
    >>> train_reversed, test_reversed = split(x[::-1], x[::-1], test=0.2)
    >>> len(train), len(test), sorted((9 - test_reversed).tolist()) == sorted(test.tolist())
    (8, 2, True)
    """
    if isinstance(test, bool) or not isinstance(test, int | float) or not 0 < test < 1:
        raise UntwineError(f"the part to test on is a fraction between 0 and 1, not {test!r}")
    n = len(codes)
    count = round(test * n)
    if min(count, n - count) < 1:
        raise UntwineError(f"{n} samples cannot be split into {1 - test:g} and {test:g}: one part would be empty")
    order = ordered(codes, factors)
    shuffled = order[np.argsort(_lots(factors[order], seed), kind="stable")]
    return shuffled[count:], shuffled[:count]


def _lots(factors: Num[np.ndarray, "n k"], seed: int) -> Int64[np.ndarray, " n"]:
    """A random number for each row of sorted factors, from the ranks of its values and its place among equal rows."""
    first = np.flatnonzero(np.append(True, (factors[1:] != factors[:-1]).any(1)))
    place = np.arange(len(factors)) - np.repeat(first, np.diff(first, append=len(factors)))
    ranks = [np.unique(column, return_inverse=True)[1] for column in factors.T]
    return np_bits_of(seed, "split", np.column_stack([place, *ranks]))

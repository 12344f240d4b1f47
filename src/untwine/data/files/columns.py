"""Columns of a table of factors: their distinct values, in order, and what these are called."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from untwine.data.factors import Value

MANY = 64  # a column of decimals with more values than this is cut into bins
BINS = 20
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Categories:
    """The values of a column that says itself which values it may have, as categories of pandas do.

    Args:
        values: The values, in their order.
        ordered: Whether neighbours in this order are similar.
    """

    values: tuple[Value, ...]
    ordered: bool = False


def distinct(column: Shaped[np.ndarray, " n"]) -> tuple[Shaped[np.ndarray, " values"], Int64[np.ndarray, " n"]]:
    """The distinct values of a column in ascending order, and the position of each row's value among them.

    Texts that are all numbers are ordered as numbers.

    >>> distinct(np.array(["10", "2", "10"]))[0].tolist(), distinct(np.array(["10", "2", "x"]))[0].tolist()
    (['2', '10'], ['10', '2', 'x'])
    """
    values, index = np.unique(column, return_inverse=True)
    if column.dtype.kind == "U" and are_numbers(values):
        order = np.argsort(values.astype(np.float64), kind="stable")
        values, index = values[order], np.argsort(order)[index]
    return values, index


def are_numbers(texts: Shaped[np.ndarray, " n"]) -> bool:
    """Whether all texts are numbers.

    >>> are_numbers(np.array(["-1", ".5", "1e3"])), are_numbers(np.array(["1", "one"]))
    (True, False)
    """
    return all(NUMBER.fullmatch(text) for text in np.unique(texts).tolist())


def named(values: Shaped[np.ndarray, " values"], categories: Categories | None) -> list[Value]:
    """Values as texts and numbers of Python.

    Args:
        values: The distinct values of a column, or their positions among its categories.
        categories: The categories, if it has some.

    >>> named(np.array([0.5, 0.1], np.float32), None), named(np.array([0, 2]), Categories(("low", "mid", "high")))
    ([0.5, 0.1], ['low', 'high'])
    """
    if categories is not None:
        return [categories.values[position] for position in values.tolist()]
    if values.dtype.kind == "f" and values.dtype.itemsize < 8:
        return [float(str(value)) for value in values]  # 0.1, not the 0.10000000149011612 that is nearest in 32 bits
    return values.tolist()


def in_bins(column: Float64[np.ndarray, " n"]) -> tuple[Int64[np.ndarray, " n"], list[Value]]:
    """The bin of each number, and what bins are called. Empty bins are left out.

    Bins have equal width; a number on an edge belongs to the bin above it.
    """
    half = column / 2  # so that no range is too large for a float
    edges = np.linspace(half.min(), half.max(), BINS + 1)
    held, index = np.unique(np.searchsorted(edges[1:-1], half, side="right"), return_inverse=True)
    short, exact = ([f"{2 * edge:.{digits}g}" for edge in edges] for digits in (4, 17))
    ends = short if len(set(short)) == len(short) else exact
    return index, [f"{ends[i]} to {ends[i + 1]}" for i in held]

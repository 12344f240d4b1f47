"""What regressions predict of a factor: its value, or where a cyclic factor is on its circle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Num

from untwine.data.circle import on_circle
from untwine.data.factors import KINDS
from untwine.errors import UntwineError, unknown


def targets(
    factors: Num[np.ndarray, "n k"],
    kinds: Sequence[str] | None = None,
    sizes: Sequence[float] | None = None,
    wrap: bool = True,
) -> list[Float64[np.ndarray, "_ n"] | None]:
    """The coordinates of each factor that a regression predicts; None for a categorical factor, which has none.

    An ordered factor has one coordinate, its value. A cyclic factor has two, the cosine and the sine of its angle, so
    that its last value is as near to its first as any two neighbours, and no value is an end.

    Args:
        factors: The factors of a sample.
        kinds: The kind of each factor; None takes all as ordered.
        sizes: How many values each factor has, or the period of a factor of floats; None takes the largest value of a
            cyclic factor for its last.
        wrap: False takes cyclic factors as ordered.

    >>> angle, x, shape = targets(np.array([[0, 5, 1], [1, 6, 0], [3, 7, 2]]), ("cyclic", "ordered", "categorical"))
    >>> (angle.round(6) + 0.0).tolist(), x.tolist(), shape
    ([[1.0, 0.0, 0.0], [0.0, 1.0, -1.0]], [[5.0, 6.0, 7.0]], None)
    """
    of_factors: Sequence[str] = ("ordered",) * factors.shape[1] if kinds is None else kinds
    predicted: list[np.ndarray | None] = []
    for i, (values, kind) in enumerate(zip(factors.T, of_factors, strict=True)):
        if kind not in KINDS:
            raise unknown("kind of factor:", str(kind), KINDS)
        if kind == "cyclic" and wrap:
            predicted.append(on_circle(values, _circle(i, values, None if sizes is None else sizes[i])))
        else:
            predicted.append(None if kind == "categorical" else values[None].astype(np.float64))
    return predicted


def _circle(factor: int, values: Num[np.ndarray, " n"], size: float | None) -> float:
    """How many values the circle of a factor has, or its period. Values that are not on such a circle are refused."""
    if np.issubdtype(values.dtype, np.floating):
        if size is None or not 0 < size < np.inf:
            raise UntwineError(
                f"factor {factor} is cyclic and of floats, and its period is {size}: say by sizes after how much it "
                "repeats, such as 360 for degrees, or take it as ordered by wrap=False"
            )
        return size
    size = int(values.max()) + 1 if size is None else size
    if values.min() < 0 or values.max() >= size:
        raise UntwineError(
            f"factor {factor} is cyclic with {size:g} values, from 0 to {size - 1:g}, but its values are from "
            f"{values.min()} to {values.max()}; give their indices, or take it as ordered by wrap=False"
        )
    return size

"""The circle of a cyclic factor, whose last value is next to its first."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64, Num


def shorter_way(
    steps: Int64[np.ndarray, "*batch k"], size: int | Int64[np.ndarray, " k"]
) -> Int64[np.ndarray, "*batch k"]:
    """How many steps apart two values are, the shorter way round their circle.

    Args:
        steps: The difference of the values.
        size: How many values the circle has, or those of the k factors.

    >>> shorter_way(np.array([0, 1, 5, 9, -9]), 10).tolist()
    [0, 1, 5, 1, 1]
    """
    return np.minimum(steps % size, -steps % size)


def on_circle(values: Num[np.ndarray, " n"], size: float) -> Float64[np.ndarray, "2 n"]:
    """The values as points of the unit circle: cosine and sine of the angle 2 pi value / size.

    Args:
        values: Values of a cyclic factor.
        size: How many values the circle has, or the period of floats.

    >>> (on_circle(np.arange(4), 4).round(6) + 0.0).tolist()
    [[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, -1.0]]
    """
    angles = 2 * np.pi * (values % size) / size
    return np.stack([np.cos(angles), np.sin(angles)])

"""The pinwheel of Johnson et al. 2016, on which Mathieu et al. 2019 (section 6.2) learn a clustered latent space."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from jaxtyping import Float32, Float64, Int64

from untwine.data.contract import Dataset
from untwine.data.factors import ArrayLike, FactorSpace
from untwine.data.specs import dataset
from untwine.errors import UntwineError
from untwine.room import refuse_larger
from untwine.streams import np_uniform


@dataset(selecting=["points", "seed"])
def pinwheel(
    arms: int = 4,
    points: int = 100,
    radial_std: float = 0.3,
    tangential_std: float = 0.1,
    rate: float = 0.25,
    levels: int = 10,
    seed: int = 0,
) -> Pinwheel:
    """Points in the plane in bent arms, each of which is a cluster.

    A point is drawn as (radial, tangential), normal about (1, 0), and turned clockwise by the angle of its arm, 2 pi
    arm / arms, plus rate * exp(radial): the further out, the further round. The formula is that of the published
    generator (Johnson et al. 2016), and there is no scale on top of it. The defaults are those of Mathieu et al. 2019,
    section 6.2. The examples are in the order of the arms.

    The true factors are the arm and two continuous coordinates (`coordinates_of`). As for the synthetic
    squares, `factors` is a grid: `arm`, and `radial` and `tangential` in `levels` equally likely intervals. A
    state is observed at the medians of its intervals, and an example has the state in whose intervals it lies.
    The number of a point is not a factor: the seventh points of two arms have nothing in common.

    Args:
        arms: The number of arms.
        points: The number of points in each arm.
        radial_std: Standard deviation along an arm.
        tangential_std: Standard deviation across it.
        rate: Radians to turn for each unit of exp(radial).
        levels: The number of values of the factors radial and tangential.
        seed: The seed of the points.

    >>> data = pinwheel()
    >>> data.shape, len(data), data.factors.names, data.factors.sizes
    ((2,), 400, ('arm', 'radial', 'tangential'), (4, 10, 10))
    >>> data.factors_of([0, 99, 100, 399])[:, 0].tolist()
    [0, 0, 1, 3]
    """
    if arms < 1 or points < 1 or levels < 2:
        raise UntwineError(
            f"pinwheel: arms {arms} and points {points} must be at least 1, and levels {levels} at least 2"
        )
    for name, value in (("radial_std", radial_std), ("tangential_std", tangential_std)):
        if not 0 < value < math.inf:
            raise UntwineError(f"pinwheel: {name} is {value}; it must be above 0")
    if not math.isfinite(rate):
        raise UntwineError(f"pinwheel: rate is {rate}; it must be a number, such as 0.25")
    return Pinwheel(arms, points, radial_std, tangential_std, rate, levels, seed)


class Pinwheel(Dataset):
    """The points. Every coordinate is the normal quantile of a uniform number, and that number gives its level."""

    def __init__(
        self, arms: int, points: int, radial_std: float, tangential_std: float, rate: float, levels: int, seed: int
    ) -> None:
        space = FactorSpace(
            ("arm", "radial", "tangential"), (arms, levels, levels), ("categorical", "ordered", "ordered")
        )
        super().__init__((2,), arms * points, space)
        refuse_larger(16 * arms * points, f"pinwheel: {arms:,} arms of {points:,} points", "take fewer")
        self._arms, self._rate, self._levels = arms, rate, levels
        self._stds = np.array([radial_std, tangential_std])
        # The arm is the step of the stream, so that more points leave the first ones as they are.
        self._uniforms = np.concatenate([np_uniform(seed, "pinwheel", (points, 2), step=arm) for arm in range(arms)])
        self._arm = np.repeat(np.arange(arms), points)

    def coordinates_of(self, indices: ArrayLike) -> Float64[np.ndarray, "n 2"]:
        """The true (radial, tangential) of these points, before they are rotated.

        >>> pinwheel().coordinates_of([0, 1, 2]).shape
        (3, 2)
        """
        return self._coordinates(self._uniforms[self._check_indices(indices)])

    def _coordinates(self, uniforms: Float64[np.ndarray, "n 2"]) -> Float64[np.ndarray, "n 2"]:
        from scipy.special import ndtri  # takes a tenth of a second to import

        return np.array([1.0, 0.0]) + self._stds * ndtri(uniforms)

    def _place(
        self, arm: Int64[np.ndarray, " n"], coordinates: Float64[np.ndarray, "n 2"]
    ) -> Float32[np.ndarray, "n 2"]:
        radial, tangential = coordinates.T
        angle = 2 * np.pi * arm / self._arms + self._rate * np.exp(radial)
        cosine, sine = np.cos(angle), np.sin(angle)
        rotated = radial * cosine + tangential * sine, tangential * cosine - radial * sine
        return np.stack(rotated, axis=1).astype(np.float32)

    @cached_property
    def _points(self) -> Float32[np.ndarray, "n 2"]:
        return self._place(self._arm, self._coordinates(self._uniforms))

    def _batch(self, indices: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "n 2"]:
        return self._points[indices]

    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n 3"]:
        levels = (self._uniforms[indices] * self._levels).astype(np.int64)
        return np.concatenate([self._arm[indices, None], levels], axis=1)

    def _observe(self, factors: Int64[np.ndarray, "n 3"]) -> Float32[np.ndarray, "n 2"]:
        return self._place(factors[:, 0], self._coordinates((factors[:, 1:] + 0.5) / self._levels))

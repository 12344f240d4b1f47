"""The two synthetic squares of Rolinek et al. 2019 (supplement 8.5): vectors with known factors.

A unit square is embedded into a higher dimension, once by a linear map and once by a random network; a
representation is disentangled when its axes are the square's.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
from jaxtyping import Float32, Float64, Int64

from untwine.data.contract import Dataset
from untwine.data.factors import ArrayLike, FactorSpace
from untwine.data.specs import dataset
from untwine.errors import UntwineError, unknown
from untwine.streams import np_uniform

AXIS = (1.0, -1.0, 1.0)
DEGREES = 45.0


@dataset(selecting=["samples", "seed"])
def synthetic_linear(ratio: float = 2.0, samples: int = 50_000, levels: int = 256, seed: int = 0) -> LinearSquare:
    """A square with its first axis stretched by `ratio`, embedded in three dimensions and rotated.

    rolinek2019. (w1, w2) becomes R (ratio * w1, w2, 0), with R the right-handed rotation by 45 degrees about the line
    of (1, -1, 1). The paper's ratio is 2; its Table S4 has 1.0, 1.2 and 1.5.

    Args:
        ratio: The length of the first axis; the second has length 1.
        samples: The number of training samples.
        levels: The number of values of each factor on the grid.
        seed: The seed of the samples.

    >>> data = synthetic_linear(samples=100)
    >>> data.shape, data.batch([0]).dtype, data.coordinates_of([0, 1]).shape
    ((3,), dtype('float32'), (2, 2))
    """
    if not 0 < ratio < math.inf:
        raise UntwineError(f"synthetic_linear: ratio is {ratio}; it must be above 0")
    return LinearSquare(ratio, samples, levels, seed)


@dataset(selecting=["samples"])
def synthetic_nonlinear(
    samples: int = 50_000,
    seed: int = 0,
    width: int = 10,
    outputs: int = 6,
    weight_scale: float = 1.0,
    output: str = "tanh",
    levels: int = 256,
) -> NonlinearSquare:
    """A square embedded by a random network with one hidden layer of tanh units.

    rolinek2019 gives 2 -> 10 -> 6 with biases and tanh, but neither the initialisation nor whether the output
    has a tanh too. Here weights and biases are uniform within `weight_scale / sqrt(fan_in)`.

    Args:
        samples: The number of training samples.
        seed: The seed of the network and of the samples.
        width: The number of hidden units.
        outputs: The number of outputs.
        weight_scale: The scale of weights and biases; 1.0 is PyTorch's default.
        output: "tanh" or "linear".
        levels: The number of values of each factor on the grid.

    >>> synthetic_nonlinear(samples=100).batch([0, 1]).shape
    (2, 6)
    """
    if width < 1 or outputs < 1:
        raise UntwineError(f"synthetic_nonlinear: width {width} and outputs {outputs} must be at least 1")
    if not 0 < weight_scale < math.inf:
        raise UntwineError(f"synthetic_nonlinear: weight_scale is {weight_scale}; it must be above 0")
    if output not in ("tanh", "linear"):
        raise unknown("output of synthetic_nonlinear:", output, ("tanh", "linear"))
    return NonlinearSquare(samples, seed, width, outputs, weight_scale, output, levels)


def rotation(axis: ArrayLike, degrees: float) -> Float64[np.ndarray, "3 3"]:
    """The right-handed rotation about an axis, by Rodrigues' formula I + sin K + (1 - cos) K^2.

    >>> np.round(rotation([0, 0, 1], 90) @ [1, 0, 0], 12).tolist()
    [0.0, 1.0, 0.0]
    """
    x, y, z = np.asarray(axis, np.float64) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    angle = math.radians(degrees)
    return np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross


class Square(Dataset):
    """Uniform samples of the unit square; a concrete class defines its embedding.

    The true factors are continuous: `coordinates_of` returns them for metrics that regress. `factors` is a
    grid for metrics that need indices: level i is the coordinate i / (levels - 1), and a sample has the
    nearest level.
    """

    def __init__(self, outputs: int, samples: int, levels: int, seed: int) -> None:
        if samples < 1 or levels < 2:
            raise UntwineError(f"a synthetic set needs samples (got {samples}) and 2 or more levels (got {levels})")
        super().__init__((outputs,), samples, FactorSpace(("w1", "w2"), (levels,) * 2, ("ordered",) * 2))
        self._levels = levels
        self._coordinates = np_uniform(seed, "synthetic square", (samples, 2))

    @abstractmethod
    def embed(self, coordinates: Float64[np.ndarray, "n 2"]) -> Float64[np.ndarray, "n outputs"]:
        """Map points of the square to data."""

    def coordinates_of(self, indices: ArrayLike) -> Float64[np.ndarray, "n 2"]:
        """The true coordinates in [0, 1]^2 of these training samples."""
        return self._coordinates[self._check_indices(indices)]

    def _batch(self, indices: Int64[np.ndarray, " n"]) -> Float32[np.ndarray, "n outputs"]:
        return self.embed(self._coordinates[indices]).astype(np.float32)

    def _factors_of(self, indices: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, "n 2"]:
        return np.rint(self._coordinates[indices] * (self._levels - 1)).astype(np.int64)

    def _observe(self, factors: Int64[np.ndarray, "n 2"]) -> Float32[np.ndarray, "n outputs"]:
        return self.embed(factors / (self._levels - 1)).astype(np.float32)


class LinearSquare(Square):
    """The linear embedding: `matrix` [3, 2], whose columns are orthogonal and have lengths `ratio` and 1."""

    def __init__(self, ratio: float, samples: int, levels: int, seed: int) -> None:
        super().__init__(3, samples, levels, seed)
        self.matrix = rotation(AXIS, DEGREES)[:, :2] * np.array([ratio, 1.0])

    def embed(self, coordinates: Float64[np.ndarray, "n 2"]) -> Float64[np.ndarray, "n 3"]:
        return coordinates @ self.matrix.T


class NonlinearSquare(Square):
    """The embedding by a network; `layers` holds the weight and bias of its two layers."""

    def __init__(
        self, samples: int, seed: int, width: int, outputs: int, weight_scale: float, output: str, levels: int
    ) -> None:
        super().__init__(outputs, samples, levels, seed)
        self._tanh_output = output == "tanh"
        self.layers: list[tuple[np.ndarray, np.ndarray]] = []
        for number, (fan_in, fan_out) in enumerate(((2, width), (width, outputs)), start=1):
            bound = weight_scale / math.sqrt(fan_in)
            weight = np_uniform(seed, f"synthetic layer {number} weight", (fan_out, fan_in))
            bias = np_uniform(seed, f"synthetic layer {number} bias", (fan_out,))
            self.layers.append((bound * (2 * weight - 1), bound * (2 * bias - 1)))

    def embed(self, coordinates: Float64[np.ndarray, "n 2"]) -> Float64[np.ndarray, "n outputs"]:
        (first, first_bias), (second, second_bias) = self.layers
        out = np.tanh(coordinates @ first.T + first_bias) @ second.T + second_bias
        return np.tanh(out) if self._tanh_output else out

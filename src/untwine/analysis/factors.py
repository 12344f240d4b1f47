"""Along the factors of a dataset: traversals of them, and matrices of distances (michlo2023, Eqs. 9 and 10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike

from untwine.analysis.arrays import finite_array
from untwine.analysis.distances import (
    Distance,
    encoded_once,
    ground_truth,
    latent,
    perceived,
    posterior_kl,
    reconstruction,
)
from untwine.analysis.perception import correlations
from untwine.analysis.states import Track, check_dataset, no_pairs, states_of, tracked
from untwine.arguments import checked
from untwine.checks import as_array, numbers, whole
from untwine.data.contract import Dataset
from untwine.errors import UntwineError

_ROUNDING = 1e-9  # relative: distances that differ by less are the same

# Values of a factor `[steps]` as the data calls them, and an image of each `[steps, *shape]`.
Traversal = tuple[np.ndarray, np.ndarray]


@checked()
def factor_traversals(dataset: Dataset, steps: int = 8, seed: int = 0) -> dict[str, Traversal]:
    """For each factor, values at equal distances and images in which this factor alone changes (michlo2023, Figure 2).

    The traversals of all factors pass through one random state. Where not every state has an image, each traversal
    passes through a random example that has neighbours along the factor and shows their values; a factor without such
    examples is left out. Values are called as in `dataset.factors.values`, or numbered from 0 where that is None.

    Args:
        dataset: A dataset with factors.
        steps: The most values of a factor.
        seed: The seed of the random state.

    >>> import untwine.datasets
    >>> values, images = factor_traversals(untwine.datasets.xy_squares(), steps=3)["y_R"]
    >>> values.tolist(), images.shape
    ([0, 4, 7], (3, 3, 64, 64))
    """
    whole("steps", steps, 2)
    whole("seed", seed, 0)
    space = check_dataset(dataset).factors
    if space is None:
        raise UntwineError(f"{dataset!r} has no factors to walk along")
    states = states_of(dataset)
    traversals = {}
    for factor, (name, size) in enumerate(zip(space.names, space.sizes, strict=True)):
        traversal = states.traversal(factor, kept_values(size, steps), 0, seed)
        if traversal is not None and len(traversal):
            values = space.named(factor, states.factors(traversal)[:, factor])
            traversals[name] = np.array(values), states.images(traversal)
    return traversals


def kept_values(size: int, longest: int = 256) -> Int64[np.ndarray, " f"]:
    """The values of a factor that a matrix shows: every value, or `longest` values at equal distances.

    >>> kept_values(3).tolist(), kept_values(100, longest=4).tolist()
    ([0, 1, 2], [0, 33, 66, 99])
    """
    return np.unique(np.linspace(0, size - 1, min(size, longest)).round().astype(np.int64))


@checked()
def distance_matrices(
    dataset: Any,
    distances: Any,
    traversals: int = 100,
    seed: int = 0,
    longest: int = 256,
    progress: Track | None = None,
) -> dict[str, dict[str, Float64[np.ndarray, "*members f f"]]]:
    """Matrices of distances along each factor, averaged over random traversals (michlo2023, Eqs. 9 and 10): D^(i).

    Returns a matrix by factor and distance. All distances see the same traversals. Factors with one value are left
    out. Where only the examples have images, a traversal skips states without one, and an entry without data is NaN.

    Args:
        dataset: A dataset with factors.
        distances: Distances by name, as in `{"perceived": perceived("bernoulli")}`. A distance may also be a function
            of factors `[m, k]` and images `[m, *shape]` that returns `[m, m]` or `[members, m, m]`.
        traversals: The number of traversals of each factor.
        seed: The seed of the traversals.
        longest: The most values of a factor (`kept_values`).
        progress: A progress bar, such as `untwine.progress.track`.

    >>> import untwine.datasets
    >>> squares = untwine.datasets.xy_squares()
    >>> matrices = distance_matrices(squares, {"perceived": perceived()}, traversals=3)
    >>> matrices["x_R"]["perceived"][:3, :3]
    array([[  0., 128., 128.], [128.,   0., 128.], [128., 128.,   0.]])
    """
    functions, space = _functions(distances), check_dataset(dataset).factors
    if space is None:
        raise UntwineError(f"{dataset!r} has no factors, and so no traversals to compare distances along")
    for name, value, least in (("traversals", traversals, 1), ("longest", longest, 2), ("seed", seed, 0)):
        whole(name, value, least)
    moving = [column for column, size in enumerate(space.sizes) if size > 1]
    if not moving:
        raise UntwineError(f"every factor of {dataset!r} has a single value: there is nothing to traverse")

    states = states_of(dataset)
    requests = [(column, number) for column in moving for number in range(traversals)]
    sums: dict[str, dict[str, _Sum]] = {}
    for column, number in tracked(progress, requests, "traversals"):
        values = kept_values(space.sizes[column], longest)
        traversal = states.traversal(column, values, number, seed)
        if traversal is None:
            continue
        factors, images = states.factors(traversal), states.images(traversal)
        places = np.searchsorted(values, factors[:, column])
        of_factor = sums.setdefault(space.names[column], {name: _Sum(len(values)) for name in functions})
        with encoded_once():
            for name, function in functions.items():
                matrix = finite_array(function(factors, images), f"the distances {name!r}", 2)
                if matrix.ndim > 3 or matrix.shape[-2:] != (len(places), len(places)):
                    raise UntwineError(
                        f"the distances {name!r} of {len(places)} states have shape {list(matrix.shape)}; they "
                        f"must be [{len(places)}, {len(places)}], or as many for each member"
                    )
                of_factor[name].add(places, matrix)
    if not sums:
        raise UntwineError(no_pairs(dataset))
    return {factor: {name: total.mean() for name, total in by.items()} for factor, by in sums.items()}


@checked()
def agreement(first: ArrayLike, second: ArrayLike) -> Float64[np.ndarray, "*members"]:
    """Spearman's correlation of two distance matrices, over the pairs of different states (michlo2023, Figures 3, 8).

    It is 0 where a matrix is the same for all pairs, as along an adversarial factor. Entries that are not known (NaN)
    are left out.

    Args:
        first: A matrix `[f, f]`, or one for each member `[members, f, f]`.
        second: Another one; where only one of them has members, all are compared with the other.

    >>> truth, seen = [[0, 1, 2], [1, 0, 1], [2, 1, 0]], [[0, 5, 9], [5, 0, 4], [9, 4, 0]]
    >>> float(agreement(truth, seen).round(3)), float(agreement(truth, 1 - np.eye(3)))
    (0.866, 0.0)
    """
    both = [numbers(as_array(matrix), "distance matrices").astype(np.float64) for matrix in (first, second)]
    a, b = np.broadcast_arrays(*both)
    if a.ndim not in (2, 3) or a.shape[-1] != a.shape[-2] or a.shape[-1] < 2:
        raise UntwineError(f"distance matrices are [f, f] or [members, f, f], of 2 states or more, not {list(a.shape)}")
    different = ~np.eye(a.shape[-1], dtype=bool)
    of_pairs = (side[..., different].reshape(-1, different.sum()) for side in (a, b))
    return np.array([_spearman(x, y) for x, y in zip(*of_pairs, strict=True)]).reshape(a.shape[:-2])


def _spearman(x: Float64[np.ndarray, " n"], y: Float64[np.ndarray, " n"]) -> float:
    """Spearman's correlation of the numbers that are known on both sides; 0 where a side is constant."""
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if not len(x) or any(np.ptp(side) <= _ROUNDING * np.abs(side).max() for side in (x, y)):
        return 0.0
    return correlations(x, y)[0]


def _functions(distances: Any) -> dict[str, Callable[..., Any]]:
    """A function of factors and images for each distance."""
    if not isinstance(distances, Mapping) or not distances:
        raise UntwineError(f'distances go by names, as in {{"perceived": perceived()}}, not {distances!r}')
    functions = {}
    for name, distance in distances.items():
        if distance in (ground_truth, perceived, latent, posterior_kl, reconstruction):
            raise UntwineError(f"the distance {name!r} is a function that makes one: call it, as in perceived()")
        if not isinstance(distance, Distance) and not callable(distance):
            raise UntwineError(
                f"the distance {name!r} is {distance!r}; it must be one such as perceived(), or a function of factors "
                "and images"
            )
        functions[name] = distance.matrix if isinstance(distance, Distance) else distance
    return functions


class _Sum:
    """The sum of matrices, each over some of a factor's values."""

    def __init__(self, size: int) -> None:
        self.size, self.count = size, np.zeros((size, size))
        self.total: np.ndarray | None = None

    def add(self, places: Int64[np.ndarray, " m"], matrix: Float64[np.ndarray, "*members m m"]) -> None:
        if self.total is None:
            self.total = np.zeros((*matrix.shape[:-2], self.size, self.size))
        rows = (..., places[:, None], places[None])
        self.total[rows] += matrix
        self.count[rows] += 1

    def mean(self) -> Float64[np.ndarray, "*members f f"]:
        assert self.total is not None
        return np.where(self.count > 0, self.total / np.maximum(self.count, 1), np.nan)

"""The density of the aggregate posterior in the plane of two latents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from untwine.analysis.arrays import Integer, diagonal_posteriors, finite_array
from untwine.arguments import checked
from untwine.errors import UntwineError, warn
from untwine.room import refuse_larger

Bounds = tuple[tuple[float, float], tuple[float, float]]

_CHUNK = 2**18  # numbers at once: they stay in a cache
_REACH = 3.0  # standard deviations of every posterior that the default bounds hold


@dataclass(frozen=True)
class Density:
    """The density of two latents on a grid: `values[..., j, i]` belongs to the cell of `(x[i], y[j])`."""

    values: Float64[np.ndarray, "*members y x"]
    x: Float64[np.ndarray, " x"]
    y: Float64[np.ndarray, " y"]
    latents: tuple[int, int]

    @property
    def mass(self) -> Float64[np.ndarray, "*members"]:
        """The share of the aggregate posterior that lies in the cells of the grid."""
        sides = np.diff(_edges(self.y)), np.diff(_edges(self.x))
        return np.asarray(np.einsum("...yx,y,x->...", self.values, *sides))


@checked()
def aggregate_density(
    means: ArrayLike,
    variances: ArrayLike,
    latents: tuple[Integer, Integer] = (0, 1),
    bounds: Bounds | None = None,
    points: Integer = 100,
    grid: tuple[ArrayLike, ArrayLike] | None = None,
) -> Density:
    """The aggregate posterior q(z) = 1/n sum_j q(z | x_j) of two latents, on a grid (mathieu2019, Figure 3).

    With variances, each value is the mean density over a cell of the grid, so that no mass is lost however narrow the
    posteriors are (`mass`). With covariances between the two latents, each value is the density at a point, and a
    warning says if the grid is too coarse for that. A cell reaches half way to the neighbouring values.

    Args:
        means: Posterior means, `[n, d]`, or `[members, n, d]`; members share the grid.
        variances: In the same shape, 0 or more; or covariances `[n, d, d]`.
        latents: The two latents.
        bounds: The range of each latent, ((low, high), (low, high)); None covers three standard deviations of every
            posterior.
        points: The number of values of each latent within the bounds.
        grid: The values of the first latent and those of the second, in place of bounds and points.

    >>> result = aggregate_density(np.zeros((1, 2)), np.ones((1, 2)), grid=([-0.01, 0.0, 0.01], [1.0, 1.01]))
    >>> round(float(result.values[0, 1]) * 2 * np.pi, 3)
    0.607
    >>> round(float(aggregate_density([[0.3, 5.0], [0.4, -2.0]], np.zeros((2, 2))).mass), 9)
    1.0
    """
    mean, covariance = _marginals(means, variances, latents)
    if grid is None:
        x, y = _axes(mean, np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1)), bounds, points)
    elif bounds is not None:
        raise UntwineError("a density takes bounds, or the points of a grid, not both")
    else:
        x, y = finite_array(grid[0], "the grid's x"), finite_array(grid[1], "the grid's y")
        for axis in (x, y):
            if axis.ndim > 1 or len(axis) < 2 or not (np.diff(axis) > 0).all():
                raise UntwineError(
                    f"a grid is two lists of numbers, two or more that increase, not of shapes {list(x.shape)} and "
                    f"{list(y.shape)}, or not in that order"
                )
    mixture = _over_cells
    if covariance[..., 0, 1].any():
        mixture = _at_points
        coarse = _coarseness(covariance, x, y)
        if coarse > 1:
            warn(
                f"the grid's step is {coarse:.2g} standard deviations of the narrowest posterior, which may lie "
                "between its points: take more points, or narrower bounds",
            )
    members = mean.shape[:-2]
    pairs = zip(mean.reshape(-1, *mean.shape[-2:]), covariance.reshape(-1, *covariance.shape[-3:]), strict=True)
    values = np.stack([mixture(*pair, x, y) for pair in pairs]).reshape(*members, len(y), len(x))
    return Density(values, x, y, (int(latents[0]), int(latents[1])))


def _marginals(
    means: ArrayLike, variances: ArrayLike, latents: tuple[Integer, Integer]
) -> tuple[Float64[np.ndarray, "*members n 2"], Float64[np.ndarray, "*members n 2 2"]]:
    """Means and covariances of two latents."""
    mean, spread = finite_array(means, "means", 2), finite_array(variances, "variances", 2)
    d = mean.shape[-1]
    pair = [int(latent) for latent in latents if isinstance(latent, int | np.integer) and 0 <= latent < d]
    if len(latents) != 2 or len(set(pair)) != 2:
        raise UntwineError(f"latents are two different numbers from 0 to {d - 1}, not {latents!r}")
    if spread.shape == mean.shape:
        return mean[..., pair], diagonal_posteriors(mean, spread)[1][..., pair, None] * np.eye(2)
    if spread.shape != (*mean.shape, d):
        raise UntwineError(
            f"variances have shape {list(spread.shape)} for means {list(mean.shape)}; they must be the same, "
            f"or {[*mean.shape, d]} for covariances"
        )
    covariance = spread[..., pair, :][..., pair]
    if np.abs(covariance - np.swapaxes(covariance, -1, -2)).max() > 1e-4 * np.abs(covariance).max():
        raise UntwineError("covariances must be symmetric; are they Cholesky factors?")
    related = covariance[..., 0, 1] != 0
    if (np.diagonal(covariance, axis1=-2, axis2=-1) < 0).any() or (_determinant(covariance)[related] <= 0).any():
        raise UntwineError("a posterior whose covariance is not positive definite has no density")
    if related.any() and not np.diagonal(covariance, axis1=-2, axis2=-1).all():
        raise UntwineError("a posterior with a variance of 0 has no density at a point")
    return mean[..., pair], covariance


def _axes(
    mean: Float64[np.ndarray, "*members n 2"],
    deviation: Float64[np.ndarray, "*members n 2"],
    bounds: Bounds | None,
    points: Integer,
) -> list[Float64[np.ndarray, " points"]]:
    """The values of both latents on the grid."""
    if isinstance(points, bool) or not isinstance(points, int | np.integer) or points < 2:
        raise UntwineError(f"points must be a whole number, 2 or more, not {points!r}")
    if bounds is None:
        axes = tuple(range(mean.ndim - 1))
        low, high = (mean - _REACH * deviation).min(axes), (mean + _REACH * deviation).max(axes)
        # A latent that is the same for all data gets a range around its value.
        aside = np.where(high - low > 1e-9 * np.maximum(np.abs(low), np.abs(high)), 0.0, 0.5)
        sides = np.stack((low - aside, high + aside), -1)
    else:
        sides = finite_array(bounds, "bounds")
        if sides.shape != (2, 2) or (sides[:, 0] >= sides[:, 1]).any():
            raise UntwineError(f"bounds are ((low, high), (low, high)) of the two latents, not {bounds!r}")
    refuse_larger(8 * int(points) ** 2, f"a density at {int(points):,} by {int(points):,} points", "take fewer")
    return [np.linspace(low, high, int(points)) for low, high in sides]


def _edges(points: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n_plus_1"]:
    """The edges of the cells around points: half way to the neighbours, and as far outside at both ends."""
    middle = (points[:-1] + points[1:]) / 2
    return np.concatenate(([2 * points[0] - middle[0]], middle, [2 * points[-1] - middle[-1]]))


def _over_cells(
    mean: Float64[np.ndarray, "n 2"],
    covariance: Float64[np.ndarray, "n 2 2"],
    x: Float64[np.ndarray, " x"],
    y: Float64[np.ndarray, " y"],
) -> Float64[np.ndarray, "y x"]:
    """The mean density of posteriors without correlation in each cell: one product, since q(x, y) = q(x) q(y)."""
    total = np.zeros((len(y), len(x)))
    edges = [_edges(axis) for axis in (x, y)]
    for part in np.array_split(np.arange(len(mean)), -(-len(mean) * (len(x) + len(y)) // _CHUNK)):
        of_x, of_y = (
            np.diff(_below(edges[i][:, None] - mean[part, i], np.sqrt(covariance[part, i, i])), axis=0)
            / np.diff(edges[i])[:, None]
            for i in range(2)
        )
        total += of_y @ of_x.T
    return np.maximum(total / len(mean), 0)


def _at_points(
    mean: Float64[np.ndarray, "n 2"],
    covariance: Float64[np.ndarray, "n 2 2"],
    x: Float64[np.ndarray, " x"],
    y: Float64[np.ndarray, " y"],
) -> Float64[np.ndarray, "y x"]:
    """The mean over all posteriors of q(x) q(y | x)."""
    variance_x = covariance[:, 0, 0]
    slope = covariance[:, 0, 1] / variance_x
    rest = _determinant(covariance) / variance_x  # the variance of y given x
    total = np.zeros((len(y), len(x)))
    for part in np.array_split(np.arange(len(mean)), -(-len(mean) * total.size // _CHUNK)):
        of_x = _normal(x[:, None] - mean[part, 0], variance_x[part])
        mean_y = mean[part, 1] + slope[part] * (x[:, None] - mean[part, 0])
        total += np.einsum("xn,yxn->yx", of_x, _normal(y[:, None, None] - mean_y, rest[part]))
    return total / len(mean)


def _coarseness(
    covariance: Float64[np.ndarray, "*members n 2 2"], x: Float64[np.ndarray, " x"], y: Float64[np.ndarray, " y"]
) -> float:
    """The largest step of the grid in standard deviations of a posterior in its narrowest direction."""
    steps = np.array([np.diff(x).max(), np.diff(y).max()])
    return float(1 / np.sqrt(np.linalg.eigvalsh(covariance / np.outer(steps, steps)).min().clip(1e-300)))


def _determinant(covariance: Float64[np.ndarray, "*batch 2 2"]) -> Float64[np.ndarray, "*batch"]:
    return covariance[..., 0, 0] * covariance[..., 1, 1] - covariance[..., 0, 1] ** 2


def _below(offsets: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """The mass of normals up to these offsets from their means; with a deviation of 0, a step."""
    from scipy.special import ndtr

    with np.errstate(over="ignore"):  # far away is as good as infinitely far
        scaled = np.divide(offsets, deviation, out=np.where(offsets >= 0, np.inf, -np.inf), where=deviation > 0)
    return ndtr(scaled, out=scaled)


def _normal(offsets: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The density of normals at these offsets from their means; it overwrites the offsets."""
    np.square(offsets, out=offsets)
    offsets *= -0.5 / variance
    np.exp(offsets, out=offsets)
    offsets /= np.sqrt(2 * np.pi * variance)
    return offsets

"""Where the data's encodings lie: which latents a class uses, and the density of the aggregate posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike

from untwine.errors import UntwineError

_CHUNK = 2**18  # numbers at once: they stay in a cache
_REACH = 3.0  # standard deviations of every posterior that a picture of the density holds


def plain(value: Any) -> np.ndarray:
    """An array of an array, a list, or a tensor wherever it is."""
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def checked(value: Any, name: str, least: int = 1) -> Float64[np.ndarray, "*shape"]:
    """Finite numbers as float64, with at least so many dimensions, none of them empty.

    >>> checked([[1, 2]], "codes").dtype.name
    'float64'
    """
    array = plain(value)
    if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool) or np.iscomplexobj(array):
        raise UntwineError(f"{name} are {array.dtype}; they must be numbers")
    if array.ndim < least or 0 in array.shape:
        raise UntwineError(f"{name} have shape {list(array.shape)}; they need {least} dimensions or more, none empty")
    if not np.isfinite(array).all():
        first = np.argwhere(~np.isfinite(array))[0].tolist()
        raise UntwineError(f"{name} hold a NaN or an infinity, first at {first}; did the model diverge?")
    return array.astype(np.float64)


def diagonal(
    means: ArrayLike, variances: ArrayLike
) -> tuple[Float64[np.ndarray, "*members n d"], Float64[np.ndarray, "*members n d"]]:
    """Means and variances of normal posteriors, checked."""
    mean, variance = checked(means, "means", 2), checked(variances, "variances", 2)
    if mean.shape != variance.shape:
        raise UntwineError(f"means have shape {list(mean.shape)} and variances {list(variance.shape)}: not the same")
    if (variance < 0).any():
        raise UntwineError(f"variances must be 0 or more, not {variance.min():.3g}; are they log-variances?")
    return mean, variance


@dataclass(frozen=True)
class ByClass:
    """A number for each class and latent. Classes are in the order of their labels."""

    values: Float64[np.ndarray, "*members classes d"]
    classes: np.ndarray
    counts: Int64[np.ndarray, " classes"]


def magnitude_by_class(codes: ArrayLike, labels: ArrayLike, absolute: bool = True) -> ByClass:
    """The mean magnitude |z_d| of each latent over the examples of each class (mathieu2019, Figure 5, top).

    Codes are `[n, d]` or `[members, n, d]`, labels `[n]`, numbers or texts. With `absolute=False` the mean itself.

    >>> found = magnitude_by_class([[1.0, 0.0], [-1.0, 0.0], [0.0, 3.0]], ["shirt", "shirt", "dress"])
    >>> found.classes.tolist(), found.counts.tolist(), found.values.tolist()
    (['dress', 'shirt'], [1, 2], [[0.0, 3.0], [1.0, 0.0]])
    """
    array, label = checked(codes, "codes", 2), plain(labels)
    if label.shape != array.shape[-2:-1]:
        raise UntwineError(
            f"labels have shape {list(label.shape)} for codes {list(array.shape)}; they must be [{array.shape[-2]}]"
        )
    classes, inverse, counts = np.unique(label, return_inverse=True, return_counts=True)
    together = (np.abs(array) if absolute else array)[..., np.argsort(inverse, kind="stable"), :]
    sums = np.add.reduceat(together, np.cumsum(counts) - counts, axis=-2)
    return ByClass(sums / counts[:, None], classes, counts.astype(np.int64))


def active_dimensions(
    codes: ArrayLike, threshold: float = 0.5
) -> tuple[Int64[np.ndarray, "*batch d"], Int64[np.ndarray, "*batch"]]:
    """The latents of a code by magnitude, largest first, and how many of them are active: above the threshold.

    mathieu2019 (6.3) calls a latent active where |z_d| far exceeds the variance 0.05 of the sparse prior's spike;
    the default is ten times that. Codes are `[*batch, d]`, or the magnitudes of `magnitude_by_class`.

    >>> order, count = active_dimensions([0.01, -2.0, 0.7])
    >>> order[:count].tolist()
    [1, 2]
    """
    if not threshold >= 0:
        raise UntwineError(f"threshold is a magnitude, 0 or more, not {threshold!r}")
    magnitudes = np.abs(checked(codes, "codes"))
    return np.argsort(-magnitudes, axis=-1, kind="stable"), np.asarray((magnitudes > threshold).sum(-1), np.int64)


@dataclass(frozen=True)
class Density:
    """The density of two latents at the points of a grid: `values[..., j, i]` is that at `(x[i], y[j])`."""

    values: Float64[np.ndarray, "*members y x"]
    x: Float64[np.ndarray, " x"]
    y: Float64[np.ndarray, " y"]
    latents: tuple[int, int]


Bounds = tuple[tuple[float, float], tuple[float, float]]


def density(
    means: ArrayLike,
    variances: ArrayLike,
    latents: tuple[int, int] = (0, 1),
    bounds: Bounds | None = None,
    points: int = 100,
    grid: tuple[ArrayLike, ArrayLike] | None = None,
) -> Density:
    """The aggregate posterior q(z) = 1/n sum_j q(z | x_j) of two latents, on a grid (mathieu2019, Figure 3).

    Exact: a mixture of the posteriors' own 2-D marginals. `variances` are `[n, d]`, or covariances `[n, d, d]`;
    all may have members in front, which then share the grid. It has `points` values of each latent within
    `bounds`, ((low, high), (low, high)), by default three standard deviations of every posterior; or is `grid`,
    the values of the first latent and those of the second.

    >>> found = density(np.zeros((1, 2)), np.ones((1, 2)), grid=([0.0, 1.0], [0.0]))
    >>> (found.values * 2 * np.pi).round(3).tolist()
    [[1.0, 0.607]]
    """
    mean, covariance = _marginals(means, variances, latents)
    if grid is None:
        x, y = _axes(mean, np.sqrt(np.diagonal(covariance, axis1=-2, axis2=-1)), bounds, points)
    elif bounds is not None:
        raise UntwineError("a density takes bounds, or the points of a grid, not both")
    else:
        x, y = checked(grid[0], "the grid's x"), checked(grid[1], "the grid's y")
        if x.ndim > 1 or y.ndim > 1:
            raise UntwineError(f"a grid is two lists of numbers, not of shapes {list(x.shape)} and {list(y.shape)}")
    members = mean.shape[:-2]
    pairs = zip(mean.reshape(-1, *mean.shape[-2:]), covariance.reshape(-1, *covariance.shape[-3:]), strict=True)
    values = np.stack([_mixture(*pair, x, y) for pair in pairs]).reshape(*members, len(y), len(x))
    return Density(values, x, y, (int(latents[0]), int(latents[1])))


def _marginals(
    means: ArrayLike, variances: ArrayLike, latents: tuple[int, int]
) -> tuple[Float64[np.ndarray, "*members n 2"], Float64[np.ndarray, "*members n 2 2"]]:
    """Means and covariances of two latents."""
    mean, spread = checked(means, "means", 2), checked(variances, "variances", 2)
    d, pair = mean.shape[-1], [*latents]
    whole = all(isinstance(one, int | np.integer) and 0 <= one < d for one in pair)
    if len(pair) != 2 or not whole or pair[0] == pair[1]:
        raise UntwineError(f"latents are two different numbers from 0 to {d - 1}, not {latents!r}")
    if spread.shape == mean.shape:
        covariance = spread[..., pair, None] * np.eye(2)
    elif spread.shape == (*mean.shape, d):
        covariance = spread[..., pair, :][..., pair]
        scale = np.abs(covariance).max()
        if np.abs(covariance - np.swapaxes(covariance, -1, -2)).max() > 1e-4 * scale:
            raise UntwineError("covariances must be symmetric; are they Cholesky factors?")
    else:
        raise UntwineError(
            f"variances have shape {list(spread.shape)} for means {list(mean.shape)}; they must be the same, "
            f"or {[*mean.shape, d]} for covariances"
        )
    if (_determinant(covariance) <= 0).any() or (np.diagonal(covariance, axis1=-2, axis2=-1) <= 0).any():
        raise UntwineError("a posterior whose variances are not positive has no density")
    return mean[..., pair], covariance


def _axes(
    mean: Float64[np.ndarray, "*members n 2"],
    deviation: Float64[np.ndarray, "*members n 2"],
    bounds: Bounds | None,
    points: int,
) -> list[Float64[np.ndarray, " points"]]:
    if isinstance(points, bool) or not isinstance(points, int | np.integer) or points < 2:
        raise UntwineError(f"points must be a whole number, 2 or more, not {points!r}")
    if bounds is None:
        axes = tuple(range(mean.ndim - 1))
        low, high = (mean - _REACH * deviation).min(axes), (mean + _REACH * deviation).max(axes)
        sides = np.stack((low, high), -1)
    else:
        sides = checked(bounds, "bounds")
        if sides.shape != (2, 2) or (sides[:, 0] >= sides[:, 1]).any():
            raise UntwineError(f"bounds are ((low, high), (low, high)) of the two latents, not {bounds!r}")
    return [np.linspace(low, high, points) for low, high in sides]


def _mixture(
    mean: Float64[np.ndarray, "n 2"],
    covariance: Float64[np.ndarray, "n 2 2"],
    x: Float64[np.ndarray, " x"],
    y: Float64[np.ndarray, " y"],
) -> Float64[np.ndarray, "y x"]:
    """q(x) q(y | x) for every posterior, and the mean over them."""
    variance_x = covariance[:, 0, 0]
    slope = covariance[:, 0, 1] / variance_x
    rest = _determinant(covariance) / variance_x  # the variance of y given x
    independent = not slope.any()
    total = np.zeros((len(y), len(x)))
    numbers = len(mean) * (len(x) + len(y) if independent else total.size)
    for part in np.array_split(np.arange(len(mean)), -(-numbers // _CHUNK)):
        of_x = _normal(x[:, None] - mean[part, 0], variance_x[part])
        if independent:
            total += _normal(y[:, None] - mean[part, 1], rest[part]) @ of_x.T
        else:
            mean_y = mean[part, 1] + slope[part] * (x[:, None] - mean[part, 0])
            total += np.einsum("xn,yxn->yx", of_x, _normal(y[:, None, None] - mean_y, rest[part]))
    return total / len(mean)


def _determinant(covariance: Float64[np.ndarray, "*batch 2 2"]) -> Float64[np.ndarray, "*batch"]:
    return covariance[..., 0, 0] * covariance[..., 1, 1] - covariance[..., 0, 1] ** 2


def _normal(offsets: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The density of normals at so far from their means, in the place of the offsets."""
    np.square(offsets, out=offsets)
    offsets *= -0.5 / variance
    np.exp(offsets, out=offsets)
    offsets /= np.sqrt(2 * np.pi * variance)
    return offsets

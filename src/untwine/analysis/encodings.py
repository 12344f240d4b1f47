"""What the codes of a dataset say about each latent: its range, how useful it is, and which classes use it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike

from untwine.analysis.arrays import diagonal_posteriors, finite_array
from untwine.arguments import checked
from untwine.checks import as_array
from untwine.errors import UntwineError

_CHUNK = 2**16  # numbers at once: they stay in a cache
_HALVINGS = 52  # of a bracket, after which it is as narrow as float64 can tell

# --- ranges and usefulness ------------------------------------------------------------------------------


@checked()
def latent_ranges(
    means: ArrayLike, variances: ArrayLike | None = None, coverage: float = 0.95
) -> Float64[np.ndarray, "*members d 2"]:
    """The central range of each latent under the aggregate posterior, q(z_k) = 1/n sum_j N(z_k; mean_jk, variance_jk).

    The ends are exact quantiles of that mixture: each is the smallest value up to which the mass is reached.

    Args:
        means: Posterior means, `[n, d]` or `[members, n, d]`.
        variances: Posterior variances in the same shape; None takes quantiles of the means alone.
        coverage: The mass between the ends; the tails on both sides are equal.

    >>> latent_ranges(np.zeros((3, 1)), np.full((3, 1), 4.0)).round(2).tolist()
    [[-3.92, 3.92]]
    >>> latent_ranges(np.arange(100.0)[:, None], coverage=0.9).tolist()
    [[4.0, 94.0]]
    """
    if not 0 < coverage < 1:
        raise UntwineError(f"coverage must lie between 0 and 1, as 0.95 does, not {coverage!r}")
    tails = (1 - coverage) / 2, (1 + coverage) / 2
    if variances is None:
        ends = np.quantile(finite_array(means, "means", 2), tails, axis=-2, method="inverted_cdf")
    else:
        ends = np.stack([_quantile(*diagonal_posteriors(means, variances), tail) for tail in tails])
    return np.moveaxis(ends, 0, -1)


def _quantile(
    means: Float64[np.ndarray, "*members n d"], variances: Float64[np.ndarray, "*members n d"], mass: float
) -> Float64[np.ndarray, "*members d"]:
    """The quantile of a mixture of normals for each latent, by bisection."""
    from scipy.special import ndtri

    deviations = np.sqrt(variances)
    # The quantile of the mixture lies between the smallest and the largest quantile of its components.
    each = means + deviations * ndtri(mass)
    low, high = np.nextafter(each.min(-2), -np.inf), each.max(-2)
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2
        reached = _mass_below(middle, means, deviations) >= mass
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return high


def _mass_below(
    points: Float64[np.ndarray, "*members d"],
    means: Float64[np.ndarray, "*members n d"],
    deviations: Float64[np.ndarray, "*members n d"],
) -> Float64[np.ndarray, "*members d"]:
    """The mass of each latent's mixture up to a point."""
    from scipy.special import ndtr

    total = np.zeros(points.shape)
    size = max(1, _CHUNK // points.size)
    for start in range(0, means.shape[-2], size):
        part = np.s_[..., start : start + size, :]
        offsets, deviation = points[..., None, :] - means[part], deviations[part]
        if deviation.all():
            offsets /= deviation
        else:  # a deterministic posterior is a step at its mean
            steps = np.where(offsets >= 0, np.inf, -np.inf)
            offsets = np.divide(offsets, deviation, out=steps, where=deviation > 0)
        total += ndtr(offsets, out=offsets).sum(-2)
    return total / means.shape[-2]


@checked()
def usefulness(
    means: ArrayLike, variances: ArrayLike | None = None
) -> tuple[Int64[np.ndarray, "*members d"], Float64[np.ndarray, "*members d"]]:
    """The latents in order of usefulness, most useful first, and the usefulness of each latent.

    The usefulness is KL(q(z_k | x) || N(0, 1)) in nats, averaged over examples: 0 for a latent that the model does
    not use. Without variances it is the variance of the means.

    Args:
        means: Posterior means, `[n, d]` or `[members, n, d]`.
        variances: Posterior variances in the same shape, or None.

    >>> order, nats = usefulness([[0.0, 2.0], [0.0, -2.0]], [[1.0, 0.1], [1.0, 0.1]])
    >>> order.tolist(), nats.round(2).tolist()
    ([1, 0], [0.0, 2.7])
    """
    if variances is None:
        useful = finite_array(means, "means", 2).var(-2)
    else:
        mean, variance = diagonal_posteriors(means, variances)
        if (variance == 0).any():
            raise UntwineError("deterministic posteriors have no KL: leave the variances out, and means are compared")
        useful = 0.5 * (variance + mean**2 - 1 - np.log(variance)).mean(-2)
    return np.argsort(-useful, axis=-1, kind="stable"), useful


# --- classes --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ByClass:
    """A number for each class and latent. Classes are in the order of their labels."""

    values: Float64[np.ndarray, "*members classes d"]
    classes: np.ndarray
    counts: Int64[np.ndarray, " classes"]


@checked()
def magnitude_by_class(codes: ArrayLike, labels: ArrayLike, absolute: bool = True) -> ByClass:
    """The mean magnitude |z_d| of each latent over the examples of each class (mathieu2019, Figure 5, top).

    Args:
        codes: `[n, d]` or `[members, n, d]`.
        labels: The class of each example, `[n]`: numbers or texts.
        absolute: False gives the mean of z_d itself.

    >>> means = magnitude_by_class([[1.0, 0.0], [-1.0, 0.0], [0.0, 3.0]], ["shirt", "shirt", "dress"])
    >>> means.classes.tolist(), means.counts.tolist(), means.values.tolist()
    (['dress', 'shirt'], [1, 2], [[0.0, 3.0], [1.0, 0.0]])
    """
    array, label = finite_array(codes, "codes", 2), as_array(labels)
    if label.shape != array.shape[-2:-1]:
        raise UntwineError(
            f"labels have shape {list(label.shape)} for codes {list(array.shape)}; they must be [{array.shape[-2]}]"
        )
    classes, inverse, counts = np.unique(label, return_inverse=True, return_counts=True)
    by_class = (np.abs(array) if absolute else array)[..., np.argsort(inverse, kind="stable"), :]
    sums = np.add.reduceat(by_class, np.cumsum(counts) - counts, axis=-2)
    return ByClass(sums / counts[:, None], classes, counts.astype(np.int64))


@checked()
def class_contrast(table: ByClass) -> Float64[np.ndarray, "*members"]:
    """How far classes use different latents: 0 if all use them alike, 1 if no two classes share a latent.

    The magnitudes of a class are divided by their sum; two classes share the sum over latents of the smaller share,
    and the contrast is one less the mean over all pairs of classes. It puts a number on Figure 5 (top) of mathieu2019.
    A class whose codes are all 0 uses no latent, and shares none.

    >>> float(class_contrast(magnitude_by_class([[1.0, 0.0], [0.0, 2.0]], ["shirt", "dress"])))
    1.0
    """
    values = np.abs(table.values)
    if values.shape[-2] < 2:
        raise UntwineError("a contrast is between classes: there must be two or more, not 1")
    total = values.sum(-1, keepdims=True)
    shares = np.divide(values, total, out=np.zeros_like(values), where=total > 0)
    first, second = np.triu_indices(values.shape[-2], 1)
    return np.asarray(1 - np.minimum(shares[..., first, :], shares[..., second, :]).sum(-1).mean(-1))


@checked()
def active_dimensions(
    codes: ArrayLike, threshold: float = 0.5
) -> tuple[Int64[np.ndarray, "*batch d"], Int64[np.ndarray, "*batch"]]:
    """The latents of each code by magnitude, largest first, and the number of active ones, above the threshold.

    mathieu2019 (6.3) calls a latent active where |z_d| far exceeds the variance 0.05 of the sparse prior's spike;
    the default threshold is ten times that.

    Args:
        codes: `[*batch, d]`, or the values of `magnitude_by_class`.
        threshold: The magnitude above which a latent is active.

    >>> order, count = active_dimensions([0.01, -2.0, 0.7])
    >>> order[:count].tolist()
    [1, 2]
    """
    if not threshold >= 0:
        raise UntwineError(f"threshold is a magnitude, 0 or more, not {threshold!r}")
    magnitudes = np.abs(finite_array(codes, "codes"))
    return np.argsort(-magnitudes, axis=-1, kind="stable"), np.asarray((magnitudes > threshold).sum(-1), np.int64)

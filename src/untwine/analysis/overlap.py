"""How the encodings of examples overlap along one latent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from untwine.analysis.arrays import Integer, diagonal_posteriors
from untwine.arguments import checked
from untwine.checks import whole
from untwine.errors import UntwineError
from untwine.room import refuse_larger

_REACH = 3.5  # standard deviations of each posterior that the values cover
_TAIL = 6.0  # standard deviations of a posterior within which they lie close to each other


@dataclass(frozen=True)
class LatentDensities:
    """Densities of one latent at the values `z`: of each example's posterior, of their mean, and of the prior."""

    z: Float64[np.ndarray, " z"]
    posteriors: Float64[np.ndarray, "n z"]
    aggregate: Float64[np.ndarray, " z"]
    prior: Float64[np.ndarray, " z"] | None


@checked()
def latent_densities(
    means: ArrayLike,
    variances: ArrayLike,
    latent: Integer = 0,
    prior: Callable[[np.ndarray], np.ndarray] | None = None,
    bounds: tuple[float, float] = (-3.0, 3.0),
    points: int = 401,
) -> LatentDensities:
    """The densities q(z | x_i) of one latent, their mean q(z), and the prior p(z) (mathieu2019, Figure 1).

    Values are evenly spaced, with more of them where a posterior is narrow, so that no peak lies between two of them.

    Args:
        means: Posterior means, `[n, d]`.
        variances: Posterior variances in the same shape, above 0.
        latent: The latent.
        prior: The prior's density of values of this latent.
        bounds: The values that are covered at least; posteriors that reach further extend them.
        points: The number of evenly spaced values.

    >>> known = latent_densities([[0.0], [1.0]], [[1.0], [0.01]])
    >>> round(float(known.posteriors[1].max()) * (2 * np.pi * 0.01) ** 0.5, 6)
    1.0
    """
    mean, variance = diagonal_posteriors(means, variances)
    if mean.ndim != 2:
        raise UntwineError(f"means have shape {list(mean.shape)}; they must be [n, d], of one member")
    whole("latent", latent, 0, mean.shape[1] - 1)
    whole("points", points, 2)
    refuse_larger(8 * points * len(mean), f"{len(mean):,} posteriors at {points:,} points", "take fewer")
    centre, deviation = mean[:, latent], np.sqrt(variance[:, latent])
    if not (deviation > 0).all():
        raise UntwineError("a posterior with a variance of 0 has no density")
    low = min(bounds[0], float((centre - _REACH * deviation).min()))
    high = max(bounds[1], float((centre + _REACH * deviation).max()))
    around = centre[:, None] + deviation[:, None] * np.linspace(-_TAIL, _TAIL, 49)
    z = np.unique(np.concatenate((np.linspace(low, high, points), around.clip(low, high).ravel())))
    standard = (z - centre[:, None]) / deviation[:, None]
    posteriors = np.exp(-0.5 * standard**2) / (np.sqrt(2 * np.pi) * deviation[:, None])
    return LatentDensities(z, posteriors, posteriors.mean(0), None if prior is None else np.asarray(prior(z)))

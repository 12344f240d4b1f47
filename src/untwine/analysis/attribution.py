"""Which example a decoder attributes a sample of a posterior to (michlo2023, section 2.1 and Figure 1)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike

from untwine.analysis.arrays import diagonal_posteriors
from untwine.arguments import checked
from untwine.checks import whole
from untwine.errors import UntwineError
from untwine.streams import np_uniform

_CHUNK = 2**22  # densities at once


@checked()
def attributed(
    means: ArrayLike, variances: ArrayLike, draws: int = 1, seed: int = 0
) -> Int64[np.ndarray, "*members n draws"]:
    """For samples z of each example's posterior, the example whose posterior has the largest density at z.

    Bayes' rule with equally probable examples attributes z to it. Where it is not the example that z was drawn for, the
    best decoder makes a mistake (michlo2023, section 2.1): the more posteriors overlap, the more of them there are.

    Args:
        means: Posterior means, `[n, d]` or `[members, n, d]`.
        variances: Posterior variances in the same shape.
        draws: Samples of each posterior.
        seed: The seed of the samples, the same for all members.

    >>> attributed([[0.0], [100.0]], [[1.0], [1.0]], draws=2).tolist()
    [[0, 0], [1, 1]]
    """
    whole("draws", draws, 1)
    whole("seed", seed, 0)
    mean, variance = diagonal_posteriors(means, variances)
    if not variance.all():
        raise UntwineError("a posterior with a variance of 0 has no density: its samples are never mistaken")
    if mean.ndim == 3:
        return np.stack([_of_member(*member, draws, seed) for member in zip(mean, variance, strict=True)])
    return _of_member(mean, variance, draws, seed)


def _of_member(
    mean: Float64[np.ndarray, "n d"], variance: Float64[np.ndarray, "n d"], draws: int, seed: int
) -> Int64[np.ndarray, "n draws"]:
    from scipy.special import ndtri

    n, d = mean.shape
    noise = ndtri(np_uniform(seed, "attributed samples", (n, draws, d)).clip(1e-12, 1 - 1e-12))
    z = (mean[:, None] + np.sqrt(variance)[:, None] * noise).reshape(n * draws, d)
    precision, volume = 1 / variance, np.log(variance).sum(1)
    # -2 log density without its constant, as products: no array [n * draws, n, d] is needed.
    own = (mean**2 * precision).sum(1) + volume
    parts = [
        (part**2 @ precision.T - 2 * part @ (mean * precision).T + own).argmin(1)
        for part in np.array_split(z, -(-len(z) * n // _CHUNK))
    ]
    return np.concatenate(parts).reshape(n, draws)

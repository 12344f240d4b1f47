"""How a model is aligned with its latents: orthogonality of the decoder, and the polarised regime (rolinek2019)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from untwine.errors import UntwineError
from untwine.metrics.forced import NOT_ACTIVE
from untwine.metrics.score import POSITIVE, Outcome, metric

_CHUNK = 2**23  # how many numbers of Jacobians are decomposed at once
_EQUAL = 1e-6  # singular values with a smaller relative difference are equal but for the rounding of float32
_ZERO = 1e-13  # singular values below this fraction of the largest are zero but for the rounding of float64


def _between_columns(details: Mapping[str, Any], jacobians: np.ndarray) -> str | None:
    if not details["column_norms"].any():
        return "the decoder does not depend on its latents"
    return "only one latent counts" if details["active_count"] < 2 else None


@metric(bounds=POSITIVE, forced={"value": _between_columns}, ratios=("value",))
def dto(jacobians: Float64[np.ndarray, "n latent *outputs"], passive_below: float = 0.0) -> Outcome:
    """Distance to orthogonality: how far the V of the decoder's J = U S V^T is from a signed permutation.

    rolinek2019, Eq. 29: the Frobenius norm of V - P(V), mean over examples, P(V) the signed permutation that is
    nearest in L1. It is found by linear assignment: sign(V_ij) at (i, j) changes the L1 distance by 1 - 2 |V_ij|, so
    the nearest one has the largest sum of |V_ij|. `jacobians` are `[n, latent, *outputs]`, as `ensemble.jacobian`
    gives them. Orthogonal columns have 0. Directions at random have .55 for 2 latents, 1.64 for 5, 1.91 for 6
    and 2.85 for 10; random columns of equal norms 1.08, 1.82, 2.08 and 2.98, like the paper's random decoders.

    Every latent counts, the passive ones too: their columns are small, but have directions. Where singular values
    are equal (to 1e-6) or zero, V is not unique: it is then the one whose columns are nearest to the axes, so that
    orthogonal columns of equal norms and columns of zeros have 0. `details["ambiguous"]` counts such examples.

    Args:
        jacobians: Jacobians `[n, latent, *outputs]` of the decoder.
        passive_below: Leave out latents whose column norm (root mean square over examples) is below this fraction of
            the largest; 0 leaves none out.

    >>> float(dto(np.array([[[2.0, 0.0, 0.0], [0.0, 0.0, 1.0]]])))
    0.0
    >>> round(float(dto(np.array([[[1.0, 1.0, 0.0], [1.0, 0.0, 1.0]]]))), 3)  # V turns by 45 degrees
    1.082
    """
    if not 0 <= passive_below < 1:
        raise UntwineError(f"passive_below is a fraction from 0 to below 1, not {passive_below!r}")
    n, latents = jacobians.shape[:2]
    columns = jacobians.reshape(n, latents, -1)
    norms = np.sqrt(np.einsum("ndo,ndo->d", columns, columns) / n)
    active = np.flatnonzero(norms >= passive_below * norms.max())
    if len(active) < latents:
        columns = columns[:, active]
    directions, ambiguous = right_singular_vectors(columns)
    distances = signed_permutation_distances(directions)
    return float(distances.mean()), {
        "distances": distances,
        "active": active.tolist(),
        "active_count": len(active),
        "column_norms": norms,
        "ambiguous": ambiguous,
    }


def right_singular_vectors(
    columns: Float64[np.ndarray, "n latent outputs"],
) -> tuple[Float64[np.ndarray, "n latent latent"], int]:
    """V of J = U S V^T, its columns in the order of falling singular values, and for how many it is not unique.

    J^T J would do, and be quicker, but squares the singular values: below 1e-8 of the largest, V would be rounding.
    J = Q R keeps each column's digits, and R has the same V.
    """
    import torch

    n, latents, outputs = columns.shape
    vectors = np.empty((n, latents, latents))
    size, ambiguous = max(1, _CHUNK // (latents * outputs)), 0
    for start in range(0, n, size):
        part = np.s_[start : start + size]
        factor = torch.linalg.qr(torch.from_numpy(np.ascontiguousarray(columns[part])).mT, mode="r")[1].numpy()
        _, values, rows = np.linalg.svd(factor)
        vectors[part] = rows.swapaxes(1, 2)
        values = np.pad(values, ((0, 0), (0, latents - values.shape[1])))  # fewer outputs than latents
        values[values <= _ZERO * values[:, :1]] = 0
        equal = values[:, :-1] - values[:, 1:] <= _EQUAL * values[:, :-1]
        for i in np.flatnonzero(equal.any(1)):
            ambiguous += 1
            starts = np.flatnonzero(np.r_[True, ~equal[i]])
            for first, last in zip(starts, [*starts[1:], latents], strict=True):
                if last - first > 1:
                    vectors[start + i][:, first:last] = _nearest_axes(vectors[start + i][:, first:last])
    return vectors, ambiguous


def _nearest_axes(basis: Float64[np.ndarray, "d m"]) -> Float64[np.ndarray, "d m"]:
    """Another orthonormal basis of the same space: the direction nearest to an axis, then that of the rest, ..."""
    from scipy.linalg import qr

    return basis @ qr(basis.T, pivoting=True)[0]  # type: ignore[no-any-return]


def signed_permutation_distances(matrices: Float64[np.ndarray, "n d d"]) -> Float64[np.ndarray, " n"]:
    """The Frobenius distance of each matrix from the signed permutation nearest to it in L1.

    >>> signed_permutation_distances(np.array([[[0.0, -1.0], [1.0, 0.0]], [[0.6, 0.8], [-0.8, 0.6]]])).round(3)
    array([0.   , 0.894])
    """
    from scipy.optimize import linear_sum_assignment

    sizes = np.abs(matrices)
    n, d = sizes.shape[:2]
    # Where every row has its largest entry in a column of its own, that is the assignment.
    chosen = sizes.argmax(2)
    for i in np.flatnonzero((np.sort(chosen, 1) != np.arange(d)).any(1)):
        chosen[i] = linear_sum_assignment(sizes[i], maximize=True)[1]
    np.put_along_axis(sizes, chosen[..., None], np.take_along_axis(sizes, chosen[..., None], 2) - 1, 2)
    return np.sqrt(np.square(sizes).reshape(n, -1).sum(1))


def active_latents(variances: Float64[np.ndarray, "n d"], threshold: float = 0.5) -> Int64[np.ndarray, " active"]:
    """The latents whose posterior variance is below the threshold, in the mean over examples.

    rolinek2019's Definition 1 says that it is far below 1 for active ones, and about 1 for passive ones.

    >>> active_latents(np.array([[0.01, 0.99], [0.03, 1.0]])).tolist()
    [0]
    """
    if not 0 < threshold <= 1:
        raise UntwineError(f"the threshold on variances is above 0 and at most 1, not {threshold!r}")
    return np.flatnonzero(variances.mean(0) < threshold)


def _without_active(details: Mapping[str, Any], means: np.ndarray, variances: np.ndarray) -> str | None:
    return None if details["active"] else NOT_ACTIVE


@metric(bounds=POSITIVE, forced={"value": _without_active})
def delta_kl(
    means: Float64[np.ndarray, "n d"], variances: Float64[np.ndarray, "n d"], threshold: float = 0.5
) -> Outcome:
    """How far the KL is from its form in the polarised regime: |L_KL - L_approxKL| / L_KL.

    rolinek2019, Eq. 30, with the means over all examples of Eqs. 4 and 10: in the polarised regime latents are
    either passive (variance 1, mean 0) and cost nothing, or active, and their variance is small beside its logarithm.
    There it is 0, and the paper calls below .03 polarised. It is 1 where no latent is active. Where the KL is 0,
    nothing is approximated, and it is 0. The prior is N(0, I); of a full covariance the diagonal counts.

    Args:
        means: Posterior means `[n, d]`.
        variances: Posterior variances `[n, d]`.
        threshold: Latents whose mean variance is below are active; the paper gives none.

    >>> score = delta_kl(np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([[0.01, 1.0], [0.01, 1.0]]))
    >>> round(float(score), 4), score.details["active"], score.details["passive"]
    (0.0022, [0], [1])
    """
    if (variances <= 0).any():
        raise UntwineError("delta_kl needs variances above 0: a deterministic posterior has no KL to a prior")
    active = active_latents(variances, threshold)
    without = 0.5 * (means**2 - np.log(variances) - 1).mean(0)  # Eq. 10 leaves the variances out
    by_latent = np.maximum(without + 0.5 * variances.mean(0), 0)  # rounding may pass 0
    kl, approximate = float(by_latent.sum()), float(without[active].sum())
    details = {
        "active": active.tolist(),
        "passive": np.setdiff1d(np.arange(means.shape[1]), active).tolist(),
        "kl": kl,
        "approximate_kl": approximate,
        "kl_by_latent": by_latent,
    }
    return abs(kl - approximate) / kl if kl > 0 else 0.0, details

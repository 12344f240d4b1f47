"""The interventional robustness score: how little a code moves while the factor that it encodes is held."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

from untwine.errors import UntwineError
from untwine.metrics.designs import Independent
from untwine.metrics.forced import between_factors
from untwine.metrics.score import UNIT, Outcome, metric


@metric(
    design=Independent(intervenes=True),  # rows that share a value stand for interventions: all else must vary
    bounds=UNIT,
    forced={"value": between_factors},
    ratios=("value",),
)
def irs(codes: Float64[np.ndarray, "n d"], factors: Int64[np.ndarray, "n k"], quantile: float = 0.99) -> Outcome:
    """Interventional robustness: 1 - how far codes move while their factor is held, relative to how far they ever do.

    Suter et al. 2019. For each value of a factor, the `quantile` of the codes' distances from their mean
    under that value; its average over the values, divided by the code's largest distance from its overall mean, is
    taken from 1 (`irs_matrix`). A code has its best factor's entry (`parents`), and the value is the mean over codes
    weighted by their largest distances: dead codes have no weight, and where all are dead it is 0.

    A perfect code has 1. Noise has not 0, but 1 - (the quantile of its distances) / (the largest): about 0 for
    uniform and .39 for Gaussian noise at 10,000 samples of 64 values. A value that occurs in a single row deviates
    by 0 from its own mean, so every value should have many rows.

    Args:
        codes: Codes `[n, d]`, or `[members, n, d]` of a pack.
        factors: Factors `[n, k]`, the index of each value.
        quantile: The quantile of the distances; 1 is the maximum of the paper's definition, .99 that of the published
            code.

    >>> x = np.indices((4, 4)).reshape(2, -1).T
    >>> float(irs(x * 1.0, x)), irs(x * 1.0, x).details["parents"].tolist()
    (1.0, [0, 1])
    >>> round(float(irs((x @ [[1, 1], [1, -1]]) * 1.0, x, quantile=1)), 3)
    0.5
    """
    if not 0 <= quantile <= 1:
        raise UntwineError(f"irs: quantile is a number from 0 to 1, not {quantile!r}")
    largest = np.abs(codes - codes.mean(0)).max(0)
    # The mean of equal numbers may differ from them by rounding, which must not give a dead code a weight.
    largest[(codes == codes[:1]).all(0)] = 0.0
    deviations = np.stack([deviation(codes, column, quantile) for column in factors.T], 1)
    live = largest > 0
    matrix = np.where(live[:, None], 1 - deviations / np.where(live, largest, 1)[:, None], 0.0)
    by_code = matrix.max(1)
    value = float(by_code @ largest / largest.sum()) if live.any() else 0.0
    return value, {
        "irs_matrix": matrix,
        "parents": matrix.argmax(1),
        "irs_by_code": by_code,
        "largest_deviations": largest,
    }


def deviation(
    codes: Float64[np.ndarray, "n d"], factor: Int64[np.ndarray, " n"], quantile: float
) -> Float64[np.ndarray, " d"]:
    """The mean over a factor's values of the quantile of |code - its mean under that value|.

    Args:
        codes: Codes.
        factor: The values of one factor.
        quantile: The quantile of the distances.

    >>> deviation(np.array([[0.0], [2.0], [5.0], [5.0]]), np.array([0, 0, 1, 1]), quantile=1.0).tolist()
    [0.5]
    """
    order = np.argsort(factor, kind="stable")
    _, starts, counts = np.unique(factor[order], return_index=True, return_counts=True)
    sorted_codes = np.ascontiguousarray(codes[order].T)
    means = np.add.reduceat(sorted_codes, starts, axis=1) / counts
    distances = np.abs(sorted_codes - np.repeat(means, counts, axis=1))
    total = np.zeros(len(distances))
    # Values that occur equally often are done at once: n rows have at most sqrt(2 n) different counts.
    for count in np.unique(counts):
        rows = starts[counts == count][:, None] + np.arange(count)
        position = quantile * (count - 1)
        low, high = int(np.floor(position)), int(np.ceil(position))
        parts = np.partition(distances[:, rows], sorted({low, high}), axis=2)
        total += (parts[..., low] + (position - low) * (parts[..., high] - parts[..., low])).sum(1)
    return total / len(counts)

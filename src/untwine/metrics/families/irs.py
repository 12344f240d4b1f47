"""The interventional robustness score: how little a code moves while the factor that it encodes is held."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float64, Int64

from untwine.errors import UntwineError
from untwine.metrics.designs import Independent
from untwine.metrics.forced import between_factors
from untwine.metrics.score import UNIT, Outcome, metric
from untwine.room import refuse_larger


@metric(
    design=Independent(intervenes=True),  # rows that share a value stand for interventions: all else must vary
    bounds=UNIT,
    forced={"value": between_factors},
    ratios=("value",),
)
def irs(
    codes: Float64[np.ndarray, "n d"],
    factors: Int64[np.ndarray, "n k"],
    quantile: float = 0.99,
    bins: int | None = 20,
) -> Outcome:
    """Interventional robustness: 1 - how far codes move while their factor is held, relative to how far they ever do.

    Suter et al. 2019. For each value of a factor, the `quantile` of the codes' distances from their mean
    under that value; its average over the values, divided by the code's largest distance from its overall mean, is
    taken from 1 (`irs_matrix`). A code has its best factor's entry (`parents`), and the value is the mean over codes
    weighted by their largest distances: dead codes have no weight, and where all are dead it is 0. As in the published
    code, the range of a factor is first cut into 20 bins of equal width, which count as its values; the paper has no
    bins. Up to 20 values at equal distances remain what they are.

    A perfect code has 1, or less where bins hold several values (.96 with 64). Noise has not 0, but 1 - (the quantile
    of its distances) / (the largest): about 0 for uniform and .38 for Gaussian noise at 10,000 samples of 64 values.
    A value or bin of a single row deviates by 0 from its own mean, so each should have many rows.

    Args:
        codes: Codes `[n, d]`, or `[members, n, d]` of a pack.
        factors: Factors `[n, k]`, the index of each value.
        quantile: The quantile of the distances; 1 is the maximum of the paper's definition, .99 that of the published
            code.
        bins: How many bins a factor's range is cut into; None takes its values as they are.

    >>> x = np.indices((4, 4)).reshape(2, -1).T
    >>> float(irs(x * 1.0, x)), irs(x * 1.0, x).details["parents"].tolist()
    (1.0, [0, 1])
    >>> round(float(irs((x @ [[1, 1], [1, -1]]) * 1.0, x, quantile=1)), 3)
    0.5
    """
    if not 0 <= quantile <= 1:
        raise UntwineError(f"irs: quantile is a number from 0 to 1, not {quantile!r}")
    if bins is not None and bins < 2:
        raise UntwineError(f"irs: bins is a whole number, 2 or more, or None, not {bins!r}")
    refuse_larger(8 * (bins or 0), f"irs: {bins} bins", "take fewer")
    by_code = np.ascontiguousarray(codes.T)
    low, mean, high = by_code.min(1), by_code.mean(1), by_code.max(1)
    # The mean of equal numbers may differ from them by rounding, which must not give a dead code a weight.
    largest = np.where(low < high, np.maximum(high - mean, mean - low), 0.0)
    deviations = np.stack([deviation(codes, column, quantile, bins) for column in factors.T], 1)
    live = largest > 0
    matrix = np.where(live[:, None], 1 - deviations / np.where(live, largest, 1)[:, None], 0.0)
    best = matrix.max(1)
    value = float(best @ largest / largest.sum()) if live.any() else 0.0
    return value, {
        "irs_matrix": matrix,
        "parents": matrix.argmax(1),
        "irs_by_code": best,
        "largest_deviations": largest,
    }


def deviation(
    codes: Float64[np.ndarray, "n d"], factor: Int64[np.ndarray, " n"], quantile: float, bins: int | None = None
) -> Float64[np.ndarray, " d"]:
    """The mean over a factor's values of the quantile of |code - its mean under that value|.

    Args:
        codes: Codes.
        factor: The values of one factor.
        quantile: The quantile of the distances.
        bins: How many bins the factor's range is cut into; None takes its values as they are.

    >>> deviation(np.array([[0.0], [2.0], [5.0], [5.0]]), np.array([0, 0, 1, 1]), quantile=1.0).tolist()
    [0.5]
    """
    order, starts = _by_value(factor, bins)
    counts = np.diff(starts, append=len(order))
    total = np.zeros(codes.shape[1])
    # Values that occur about equally often are done at once, as rows of an array that is at most half empty.
    halvings = np.frexp(counts.max() / counts)[1]
    for same in (halvings == power for power in np.unique(halvings)):
        count = counts[same][:, None]
        place = np.arange(count.max())
        filled = place < count
        distances = np.take(codes, order[np.where(filled, starts[same][:, None] + place, 0)], axis=0)
        distances -= (filled / count)[:, None] @ distances
        np.abs(distances, out=distances)
        distances[~filled] = -1  # below all others
        # Where the quantile is, counted from the largest: there the distances of all values end.
        position = (1 - quantile) * (counts[same] - 1)
        high = np.floor(position).astype(np.int64)
        largest = _largest(distances, int(np.ceil(position).max()) + 1)
        rows = np.arange(len(high))
        above, below = largest[rows, -1 - high], largest[rows, -1 - np.ceil(position).astype(np.int64)]
        total += (above - (position - high)[:, None] * (above - below)).sum(0)
    return total / len(counts)


def _by_value(
    factor: Int64[np.ndarray, " n"], bins: int | None
) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " values"]]:
    """The rows ordered by a factor, and where each of its values or non-empty bins starts.

    >>> [part.tolist() for part in _by_value(np.array([9, 0, 1, 2, 3]), bins=3)]
    [[1, 2, 3, 4, 0], [0, 3, 4]]
    """
    above = factor - factor.min()
    above = above.astype(np.min_scalar_type(above.max()))  # numbers of few bytes are sorted faster
    order = np.argsort(above, kind="stable")
    ordered = above[order]
    if bins is None:
        return order, np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    # A value on an edge belongs to the bin above it.
    starts = np.searchsorted(ordered, np.linspace(0, ordered[-1], bins + 1)[:-1])
    return order, np.unique(starts)


def _largest(rows: Float64[np.ndarray, "values n d"], count: int) -> Float64[np.ndarray, "values count d"]:
    """The largest numbers of each column, in order.

    They are in the blocks with the largest maxima, as many blocks as numbers: the others need not be sorted.
    """
    values, n, d = rows.shape
    size = math.isqrt(2 * (n // count))
    blocks = rows[:, : n // size * size].reshape(values, size, -1, d)
    best = np.argpartition(blocks.max(1), -count, axis=1)[:, -count:]
    inside = blocks[np.arange(values)[:, None, None], :, best, np.arange(d)].swapaxes(1, 2)
    rest = rows[:, n // size * size :]
    candidates = np.concatenate([inside.reshape(values, d, -1), rest.swapaxes(1, 2)], 2)
    return np.sort(np.partition(candidates, -count)[..., -count:]).swapaxes(1, 2)

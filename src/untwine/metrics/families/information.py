"""Mutual information between codes and factors, and the scores that are made of it: MIG and modularity."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64, Num

from untwine.errors import UntwineError, unknown
from untwine.metrics.forced import between_factors
from untwine.metrics.score import UNIT, Outcome, metric

BINNINGS = ("histogram", "quantile")


def discretised(codes: Float64[np.ndarray, "n d"], bins: int, binning: str = "histogram") -> Int64[np.ndarray, "n d"]:
    """The index of every code's bin.

    Quantiles that coincide (a code with few values) make one bin.

    Args:
        codes: Codes.
        bins: How many bins each code's range is cut into.
        binning: histogram (equal width) or quantile (equal counts).

    >>> discretised(np.array([[0.0], [1.0], [10.0]]), bins=2)[:, 0].tolist()
    [0, 0, 1]
    >>> discretised(np.array([[0.0], [1.0], [10.0], [11.0]]), bins=2, binning="quantile")[:, 0].tolist()
    [0, 0, 1, 1]
    """
    if isinstance(bins, bool) or not isinstance(bins, int | np.integer) or bins < 2:
        raise UntwineError(f"bins must be a whole number, 2 or more, not {bins!r}")
    if binning not in BINNINGS:
        raise unknown("binning", str(binning), BINNINGS)
    if len(codes) < bins:
        raise UntwineError(f"{len(codes)} samples are fewer than {bins} bins: use more samples, or fewer bins")
    indices = np.empty(codes.shape, np.int64)
    for column, code in enumerate(codes.T):
        if binning == "histogram":
            # As numpy's histogram has them; halved, so that no range is too large for a float.
            edges = 2 * np.linspace(code.min() / 2, code.max() / 2, bins + 1)[1:-1]
        else:
            edges = np.unique(np.quantile(code, np.linspace(0, 1, bins + 1)[1:-1]))
        # A value on an edge belongs to the bin above it. The largest value is above all inner edges.
        indices[:, column] = np.searchsorted(edges, code, side="right")
    return indices


def labels(factors: Num[np.ndarray, "n k"]) -> tuple[Int64[np.ndarray, "n k"], list[int]]:
    """Each factor's values numbered from 0 on without gaps, and how many there are.

    >>> labels(np.array([[7, 0], [3, 0]]))
    (array([[1, 0], [0, 0]]), [2, 1])
    """
    columns = [np.unique(column, return_inverse=True) for column in factors.T]
    return np.stack([inverse for _, inverse in columns], 1), [len(values) for values, _ in columns]


def joint_counts(
    bins: Int64[np.ndarray, "n d"], values: Int64[np.ndarray, "n k"], levels: int, sizes: list[int]
) -> list[Int64[np.ndarray, "d levels size"]]:
    """For every factor how often each bin of each code occurs with each of its values.

    Args:
        bins: The index of every code's bin.
        values: The index of every factor's value.
        levels: How many bins there are.
        sizes: How many values each factor has.
    """
    d = bins.shape[1]
    offset = bins + np.arange(d) * levels
    counts = []
    for column, size in zip(values.T, sizes, strict=True):
        index = offset * size + column[:, None]
        counts.append(np.bincount(index.ravel(), minlength=d * levels * size).reshape(d, levels, size))
    return counts


def entropy(counts: Int64[np.ndarray, "*batch values"]) -> Float64[np.ndarray, "*batch"]:
    """The entropy, in nats, of the distribution of counts.

    >>> float(entropy(np.array([1, 1])) / np.log(2))
    1.0
    """
    p = counts / counts.sum(-1, keepdims=True)
    return np.asarray(-(p * np.log(np.where(p > 0, p, 1))).sum(-1))


def mutual_information(
    codes: Float64[np.ndarray, "n d"],
    factors: Int64[np.ndarray, "n k"],
    bins: int = 20,
    binning: str = "histogram",
) -> tuple[Float64[np.ndarray, "d k"], Float64[np.ndarray, " k"]]:
    """I(code; factor) in nats for all pairs, codes discretised, and the entropy of every factor.

    Args:
        codes: Codes.
        factors: Factors.
        bins: How many bins each code's range is cut into.
        binning: histogram (equal width) or quantile (equal counts).

    >>> x = np.arange(8)[:, None] % 4
    >>> information, of_factor = mutual_information(x.astype(float), x, bins=4)
    >>> bool(np.allclose(information, np.log(4))), bool(np.allclose(of_factor, np.log(4)))
    (True, True)
    """
    values, sizes = labels(factors)
    counts = joint_counts(discretised(codes, bins, binning), values, bins, sizes)
    information = np.empty((codes.shape[1], len(sizes)))
    of_factors = np.empty(len(sizes))
    for k, joint in enumerate(counts):
        of_factors[k] = entropy(joint[0].sum(0))
        # H(code) + H(factor) - H(both)
        information[:, k] = entropy(joint.sum(2)) + of_factors[k] - entropy(joint.reshape(len(joint), -1))
    # Rounding must not leave a little where there is none: ratios of it would be anything.
    return np.where(information > 1e-12, information, 0.0), of_factors


@metric(local={"bins": 5}, bounds=UNIT)
def mig(
    codes: Float64[np.ndarray, "n d"], factors: Int64[np.ndarray, "n k"], bins: int = 20, binning: str = "histogram"
) -> Outcome:
    """Mutual information gap: mean over factors of (largest - second largest I(code; factor)) / H(factor).

    Chen et al. 2018, Eq. 6; rolinek2019, S65 to S69. Codes are discretised, so it cannot pass log(bins) / log(values).
    A perfect code has that bound, noise about 0.

    Args:
        codes: Codes `[n, d]`, or `[members, n, d]` of a pack.
        factors: Factors `[n, k]`, the index of each value.
        bins: How many bins each code's range is cut into; 5 for local samples (rhodes2021, appendix B).
        binning: histogram (equal width) or quantile (equal counts).

    >>> x = np.indices((4, 4)).reshape(2, -1).T
    >>> float(mig(x * 1.0, x, bins=4)), float(mig((x @ [[1, 1], [1, -1]]) * 1.0, x, bins=4))
    (1.0, 0.0)
    """
    information, of_factors = mutual_information(codes, factors, bins, binning)
    ordered = np.sort(np.vstack([information, np.zeros((1, len(of_factors)))]), axis=0)  # a single code has no rival
    gaps = (ordered[-1] - ordered[-2]) / of_factors
    return float(gaps.mean()), {"mutual_information": information, "entropy": of_factors, "gaps": gaps}


@metric(local={"bins": 5}, bounds=UNIT, forced={"value": between_factors}, ratios=("value",))
def modularity(
    codes: Float64[np.ndarray, "n d"], factors: Int64[np.ndarray, "n k"], bins: int = 20, binning: str = "histogram"
) -> Outcome:
    """Mean over codes of 1 - (information on other factors)^2 / ((k - 1) (information on its own)^2).

    Ridgeway & Mozer 2018, Eqs. 2 and 3. A code that says nothing about any factor counts as 0; with a single
    factor there is nothing to mix, and every code that says something counts as 1.

    Args:
        codes: Codes `[n, d]`, or `[members, n, d]` of a pack.
        factors: Factors `[n, k]`, the index of each value.
        bins: How many bins each code's range is cut into; 5 for local samples (rhodes2021, appendix B).
        binning: histogram (equal width) or quantile (equal counts).

    >>> x = np.indices((4, 4)).reshape(2, -1).T
    >>> float(modularity(x * 1.0, x, bins=4))
    1.0
    """
    information, _ = mutual_information(codes, factors, bins, binning)
    squares = information**2
    largest = squares.max(1)
    rest = (squares.sum(1) - largest) / np.maximum(largest, np.finfo(float).tiny) / max(1, squares.shape[1] - 1)
    by_code = np.where(largest > 0, 1 - rest, 0.0)
    return float(by_code.mean()), {"mutual_information": information, "modularity_by_code": by_code}

"""The score of nearest neighbours: how well each code alone predicts each factor (rolinek2019)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64, Num

from untwine.errors import UntwineError, unknown
from untwine.metrics.arrays import varying
from untwine.metrics.families.sap import gaps
from untwine.metrics.learners.split import split
from untwine.metrics.learners.targets import targets
from untwine.metrics.score import POSITIVE, Outcome, metric

NORMALISERS = ("constant", "gain")


@metric(continuous=True, bounds=POSITIVE)
def knn_score(
    codes: Float64[np.ndarray, "n d"],
    factors: Num[np.ndarray, "n k"],
    kinds: tuple[str, ...] | None = None,
    k: int = 5,
    test: float = 0.2,
    normalise: str = "constant",
    seed: int = 0,
    sizes: tuple[int | float, ...] | None = None,
    wrap: bool = True,
) -> Outcome:
    """Mean over factors of how much better nearest neighbours in the best code predict it than in the second best.

    rolinek2019's Disentanglement score, Eqs. S65 to S67, S70 and S71. Neighbours predict a categorical factor by
    vote, others by their mean. A code's performance A is the accuracy, or std(factor) - root mean squared error; the
    gap of the best two is divided by M, the best constant's accuracy, or std(factor). A code that never varies
    predicts a constant: its A is 0, or the constant's accuracy, and so is that of a single code's rival.

    A cyclic factor is predicted on its circle: values are the points (cos, sin) of their angles, neighbours predict
    the mean of their points, and errors and the standard deviation are distances in the plane. Its last value is then
    as near to its first as any two neighbours, and its scale is that of ordered factors: a constant has A = 0.

    Noise has about 0. A perfect code has 1 where its rivals are dead, and up to sqrt(1 + 1/k) (1.095) where they are
    noise: the mean of k neighbours is worse than a constant, and A is not cut at 0. For c equally frequent
    categories, S71's M makes a perfect code c - 1. With `normalise="gain"`, M is 1 less the constant's accuracy:
    then, as in regression, a perfect code is 1 above a constant, whatever the number of categories.

    Args:
        codes: Codes `[n, d]`, or `[members, n, d]` of a pack.
        factors: Factors `[n, k]`, the index of each value, or floats.
        kinds: The kind of each factor; categorical ones get a classifier. None takes all as ordered.
        k: The number of neighbours.
        test: The fraction of samples that are predicted, from the others.
        normalise: constant (S71) or gain: what classifiers' gaps are divided by.
        seed: Chooses the samples that are predicted.
        sizes: How many values each factor has, or the period of floats; None takes the largest value of a cyclic factor
            for its last.
        wrap: Whether cyclic factors are predicted on their circles; False takes them as ordered.

    >>> x = np.indices((30, 30)).reshape(2, -1).T
    >>> 0.95 < float(knn_score(x / 30.0, x)) < 1.25
    True
    """
    predicted = targets(factors, kinds, sizes, wrap)
    if normalise not in NORMALISERS:
        raise unknown("normaliser:", str(normalise), NORMALISERS)
    trained, tested = split(codes, factors, test, seed)
    if not 1 <= k <= len(trained):
        raise UntwineError(f"k must be a number of neighbours from 1 to the {len(trained)} training samples, not {k}")
    live = varying(codes[trained])
    near = [trained[nearest(codes[trained, j], codes[tested, j], k)] for j in np.flatnonzero(live)]
    performance = np.empty((codes.shape[1], len(predicted)))
    constant, normaliser = np.empty(len(predicted)), np.empty(len(predicted))
    for i, (factor, target) in enumerate(zip(factors.T, predicted, strict=True)):
        if target is None:
            _, values, counts = np.unique(factor, return_inverse=True, return_counts=True)
            of_codes = [float((vote(values[rows], len(counts)) == values[tested]).mean()) for rows in near]
            constant[i] = counts.max() / counts.sum()
            normaliser[i] = constant[i] if normalise == "constant" else 1 - constant[i]
        else:
            constant[i], normaliser[i] = 0.0, np.sqrt(target.var(1).sum())
            errors = [((target[:, rows].mean(-1) - target[:, tested]) ** 2).sum(0).mean() for rows in near]
            of_codes = [float(normaliser[i] - np.sqrt(error)) for error in errors]
        performance[~live, i], performance[live, i] = constant[i], of_codes
    by_factor = gaps(performance, constant) / normaliser
    return float(by_factor.mean()), {"performance": performance, "normaliser": normaliser, "gaps": by_factor}


def nearest(known: Float64[np.ndarray, " n"], asked: Float64[np.ndarray, " m"], k: int) -> Int64[np.ndarray, "m k"]:
    """The indices of the k nearest known numbers of each number asked, nearest first; ties go by place.

    Args:
        known: The numbers among which neighbours are sought.
        asked: The numbers whose neighbours are sought.
        k: How many neighbours.

    >>> nearest(np.array([5.0, 1.0, 2.0]), np.array([1.2, 9.0]), k=2).tolist()
    [[1, 2], [0, 2]]
    """
    order = np.argsort(known, kind="stable")
    places = np.searchsorted(known[order], asked)[:, None] + np.arange(-k, k)  # they are among k on either side
    inside = (places >= 0) & (places < len(known))
    candidates = order[np.clip(places, 0, len(known) - 1)]
    distances = np.where(inside, np.abs(known[candidates] - asked[:, None]), np.inf)
    return np.take_along_axis(candidates, np.argsort(distances, axis=1, kind="stable")[:, :k], axis=1)


def vote(values: Int64[np.ndarray, "m k"], size: int) -> Int64[np.ndarray, " m"]:
    """The most frequent value of each row, the lowest if several are.

    Args:
        values: Values from 0 on, below the size.
        size: How many values there are.

    >>> vote(np.array([[2, 1, 2], [2, 1, 0]]), 3).tolist()
    [2, 0]
    """
    m = len(values)
    counts = np.bincount((np.arange(m)[:, None] * size + values).ravel(), minlength=m * size)
    return counts.reshape(m, size).argmax(1)

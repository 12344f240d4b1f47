"""The statistics that the papers report of scores over seeds: intervals, Welch's t-test, effect sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from untwine.errors import UntwineError
from untwine.namespace import directory
from untwine.streams import np_uniform

__all__ = [
    "Comparison",
    "Correlation",
    "Exceedance",
    "Summary",
    "against",
    "alike",
    "compare",
    "correlation",
    "exceedance",
    "holm",
    "summary",
]
__dir__ = directory(__all__)

Values = Sequence[Any] | np.ndarray
Bounds = tuple[float, float]

UNBOUNDED = (-math.inf, math.inf)
LEAST_FOR_INTERVAL = 3  # of two models Student's interval is 12.7 standard errors to either side
LEAST_FOR_BOOTSTRAP = 5  # resamples of fewer models have few different means


@dataclass(frozen=True)
class Summary:
    """The mean of several models' scores, their range, the standard error of the mean, and intervals.

    `interval` is Student's t, cut to what the score can be; fewer than three models, or models that are all equal, have
    none, only their range. The papers' bands are `mean -+ 2 standard_error`. `bootstrap` has the percentiles of the
    means of resamples, which need no normal distribution but are too narrow for few models: of ten, 95% are 91%; fewer
    than five have none. A single model has only a mean.
    """

    count: int
    mean: float
    range: tuple[float, float]
    std: float | None
    standard_error: float | None
    interval: tuple[float, float] | None
    bootstrap: tuple[float, float] | None


@dataclass(frozen=True)
class Comparison:
    """Welch's t-test between two sets of scores, `first - second`. None where it is not defined.

    `effect` is Cohen's d, the difference in units of the root mean of both variances.
    """

    difference: float
    t: float | None
    freedom: float | None
    p: float | None
    effect: float | None
    interval: tuple[float, float] | None
    standard_error: float | None = None


def summary(
    values: Values, level: float = 0.95, resamples: int = 10_000, seed: int = 0, bounds: Bounds = UNBOUNDED
) -> Summary:
    """Mean, standard error and intervals of scores over models.

    Args:
        values: The score of each model.
        level: The probability of the intervals.
        resamples: Resamples of the bootstrap interval.
        seed: Seed of the resamples.
        bounds: The least and the largest value that the score can have: intervals end there.

    >>> known = summary([0.1, 0.2, 0.3], bounds=(0, 1))
    >>> round(known.mean, 3), round(known.standard_error, 4), known.interval[0] < 0.2 < known.interval[1]
    (0.2, 0.0577, True)
    >>> known.bootstrap is None, summary([0.1, 0.2]).interval is None, summary([0.1, 0.2]).range
    (True, True, (0.1, 0.2))
    """
    from scipy import special

    array = _numbers(values)
    _fraction(level)
    n, mean = len(array), float(array.mean())
    ends = float(array.min()), float(array.max())
    if n == 1:
        return Summary(n, mean, ends, None, None, None, None)
    std = _std(array)
    error = std / math.sqrt(n)
    interval = bootstrap = None
    if n >= LEAST_FOR_INTERVAL and std > 0:
        half = float(special.stdtrit(n - 1, (1 + level) / 2)) * error
        # Bounds never cut off what was observed, should a score pass them.
        interval = max(mean - half, min(bounds[0], ends[0])), min(mean + half, max(bounds[1], ends[1]))
    if n >= LEAST_FOR_BOOTSTRAP and std > 0:
        rows = (np_uniform(seed, "bootstrap", (resamples, n)) * n).astype(np.int64)
        low, high = np.quantile(array[rows].mean(1), [(1 - level) / 2, (1 + level) / 2])
        bootstrap = float(low), float(high)
    return Summary(n, mean, ends, std, error, interval, bootstrap)


def compare(first: Values, second: Values, level: float = 0.95) -> Comparison:
    """Welch's t-test (two-sided, unequal variances) of the means of two sets of scores.

    Args:
        first: The score of each model of the first set.
        second: Those of the second set.
        level: The probability of the interval of the difference.

    >>> test = compare([1.0, 2.0, 3.0], [2.0, 4.0, 6.0, 8.0])
    >>> round(test.t, 3), round(test.freedom, 2), round(test.p, 3)
    (-2.121, 4.08, 0.1)
    """
    from scipy import stats

    a, b = _numbers(first), _numbers(second)
    _fraction(level)
    difference = float(a.mean() - b.mean())
    if min(len(a), len(b)) < 2 or _std(a) + _std(b) == 0:
        return Comparison(difference, None, None, None, None, None)
    effect = difference / math.sqrt((_std(a) ** 2 + _std(b) ** 2) / 2)
    test: Any = stats.ttest_ind(a, b, equal_var=False)
    low, high = test.confidence_interval(level)
    interval = (float(low), float(high))
    error = math.hypot(_std(a) / math.sqrt(len(a)), _std(b) / math.sqrt(len(b)))
    return Comparison(difference, float(test.statistic), float(test.df), float(test.pvalue), effect, interval, error)


def against(values: Values, number: float, level: float = 0.95) -> Comparison:
    """Student's t-test (two-sided) of the mean of scores against a number; the effect is in standard deviations.

    Args:
        values: The score of each model.
        number: What the mean is compared with.
        level: The probability of the interval of the difference.

    >>> test = against([1.0, 2.0, 3.0], 1.0)
    >>> round(test.t, 3), test.freedom, round(test.p, 3)
    (1.732, 2.0, 0.225)
    """
    from scipy import stats

    array = _numbers(values)
    _fraction(level)
    difference, std = float(array.mean() - number), _std(array)
    if len(array) < 2 or std == 0:
        return Comparison(difference, None, None, None, None, None)
    test: Any = stats.ttest_1samp(array, number)
    low, high = test.confidence_interval(level)
    interval = float(low) - number, float(high) - number
    effect, error = difference / std, std / math.sqrt(len(array))
    return Comparison(difference, float(test.statistic), float(test.df), float(test.pvalue), effect, interval, error)


def alike(test: Comparison, within: float) -> float | None:
    """The p value of the claim that a difference is smaller than a margin (two one-sided t-tests).

    Args:
        test: The result of `compare` or `against`.
        within: The largest difference, to either side, that counts as none.

    >>> round(alike(compare([1.0, 2.0, 3.0, 2.0], [1.0, 2.0, 3.0, 2.5]), 1.0), 3)
    0.095
    """
    from scipy import special

    if not within > 0:
        raise UntwineError(f"a margin is above 0, not {within!r}")
    if test.freedom is None or not test.standard_error:
        return None
    sides = ((sign * test.difference - within) / test.standard_error for sign in (1, -1))
    return float(max(special.stdtr(test.freedom, side) for side in sides))


@dataclass(frozen=True)
class Correlation:
    """Spearman's rank correlation of two numbers over models, and its two-sided p value; None where not defined."""

    rho: float | None
    p: float | None
    count: int


def correlation(first: Values, second: Values) -> Correlation:
    """Spearman's rank correlation; None where a number is the same for all models, or there are fewer than three.

    Args:
        first: A number of each model.
        second: Another number of each, in the same order.

    >>> correlation([1.0, 2.0, 3.0, 4.0], [1.0, 4.0, 9.0, 16.0]).rho
    1.0
    """
    from scipy import stats

    a, b = _numbers(first), _numbers(second)
    if len(a) != len(b):
        raise UntwineError(f"a correlation needs as many numbers of both kinds, not {len(a)} and {len(b)}")
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return Correlation(None, None, len(a))
    test: Any = stats.spearmanr(a, b)
    return Correlation(round(float(test.statistic), 12), float(test.pvalue), len(a))


@dataclass(frozen=True)
class Exceedance:
    """How many of `among` models score above the best of others, and the probability of that by chance."""

    count: int
    among: int
    p: float


def exceedance(first: Values, second: Values) -> Exceedance:
    """How many of the first lie above all of the second, tested exactly: a test about maxima over a sweep.

    If the labels meant nothing, the k highest of m + n scores would all be of the first with probability
    m / (m + n) * ... * (m - k + 1) / (m + n - k + 1). No distribution is assumed; one seed of each setting is enough.

    Args:
        first: The scores of the models that are said to reach higher.
        second: The scores of the others.

    >>> exceedance([3.0, 5.0, 6.0, 7.0], [1.0, 2.0, 4.0])
    Exceedance(count=3, among=4, p=0.11428571428571428)
    """
    a, b = _numbers(first), _numbers(second)
    count, m, both = int((a > b.max()).sum()), len(a), len(a) + len(b)
    return Exceedance(count, m, math.comb(m, count) / math.comb(both, count))


def holm(p_values: Sequence[float]) -> list[float]:
    """P values corrected for being several (Holm 1979), in the same order.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = largest
    return corrected


def _std(array: Float64[np.ndarray, " n"]) -> float:
    """The standard deviation (unbiased variance); exactly 0 for equal numbers, whatever rounding does."""
    return float(array.std(ddof=1)) if np.ptp(array) > 0 else 0.0


def _fraction(level: float) -> None:
    if not 0 < level < 1:
        raise UntwineError(f"the level of an interval is between 0 and 1, such as 0.95, not {level!r}")


def _numbers(values: Values) -> Float64[np.ndarray, " n"]:
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        raise UntwineError(f"scores to compare must be one or more finite numbers [n], not {values!r:.80}")
    return array

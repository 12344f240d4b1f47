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

__all__ = ["Comparison", "Summary", "compare", "summary"]
__dir__ = directory(__all__)

Values = Sequence[Any] | np.ndarray


@dataclass(frozen=True)
class Summary:
    """The mean of several models' scores, its standard error, and intervals; a single model has only a mean.

    `interval` is Student's t; the papers' bands are `mean -+ 2 standard_error`. `bootstrap` has the percentiles of the
    means of resamples, which need no normal distribution but are too narrow for few models: of ten, 95% are 91%.
    """

    count: int
    mean: float
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


def summary(values: Values, level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Summary:
    """Mean, standard error and intervals of scores over models.

    Args:
        values: The score of each model.
        level: The probability of the intervals.
        resamples: Resamples of the bootstrap interval.
        seed: Seed of the resamples.

    >>> known = summary([0.1, 0.2, 0.3])
    >>> round(known.mean, 3), round(known.standard_error, 4), known.interval[0] < 0.2 < known.interval[1]
    (0.2, 0.0577, True)
    """
    from scipy import special

    array = _numbers(values)
    _fraction(level)
    n = len(array)
    if n < 2:
        return Summary(n, float(array.mean()), None, None, None, None)
    std = _std(array)
    rows = (np_uniform(seed, "bootstrap", (resamples, n)) * n).astype(np.int64)
    low, high = np.quantile(array[rows].mean(1), [(1 - level) / 2, (1 + level) / 2])
    mean, error = float(array.mean()), std / math.sqrt(n)
    half = float(special.stdtrit(n - 1, (1 + level) / 2)) * error
    return Summary(n, mean, std, error, (mean - half, mean + half), (float(low), float(high)))


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
    return Comparison(difference, float(test.statistic), float(test.df), float(test.pvalue), effect, interval)


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

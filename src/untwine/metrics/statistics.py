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

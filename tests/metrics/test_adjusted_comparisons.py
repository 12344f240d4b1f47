"""Comparisons with a margin, and at equal values of another number, against scipy and nested regressions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from untwine.errors import UntwineError
from untwine.metrics.statistics import against, compare, compare_given, no_higher

rng = np.random.default_rng(0)


def test_a_margin_is_a_shift_of_the_one_sided_test():
    a, b = rng.normal(0.1, 1, 9), rng.normal(0, 2, 12)
    theirs = stats.ttest_ind(a - 1.5, b, equal_var=False, alternative="less")
    assert no_higher(compare(a, b), 1.5) == pytest.approx(theirs.pvalue)
    theirs = stats.ttest_1samp(a, 0.3 + 0.2, alternative="less")
    assert no_higher(against(a, 0.3), 0.2) == pytest.approx(theirs.pvalue)


def test_what_falls_far_below_is_not_higher_and_what_rises_is():
    low, high = rng.normal(0, 1, 20), rng.normal(5, 1, 20)
    below, above = no_higher(compare(low, high), 0.1), no_higher(compare(high, low), 0.1)
    assert below is not None and above is not None
    assert below < 1e-6 and above > 1 - 1e-6
    assert no_higher(compare([1.0, 1.0], [1.0, 1.0]), 0.1) is None
    with pytest.raises(UntwineError, match="margin"):
        no_higher(compare(low, high), 0.0)


def test_at_equal_values_of_another_number_by_nested_regressions():
    """The F test of a regression with and without the group is the square of our t, with the same p value."""
    x = rng.normal(size=30)
    group = np.arange(30) < 13
    y = 2.0 * x + 0.7 * group + rng.normal(0, 0.5, 30)
    found = compare_given(y[group], y[~group], x[group], x[~group])
    without = np.polyval(np.polyfit(x, y, 1), x)
    # With the group: the slope within groups, pooled, and means of the groups.
    centred = [part - part.mean() for part in (x[group], x[~group])]
    slope = sum((c * y[side]).sum() for c, side in zip(centred, (group, ~group), strict=True))
    slope /= sum((c**2).sum() for c in centred)
    intercepts = [(y - slope * x)[side].mean() for side in (group, ~group)]
    rest = ((y - slope * x - np.where(group, *intercepts)) ** 2).sum()
    f = (((y - without) ** 2).sum() - rest) / (rest / 27)
    assert found.t is not None and found.standard_error is not None and found.interval is not None
    assert found.difference == pytest.approx(intercepts[0] - intercepts[1])
    assert found.t**2 == pytest.approx(f)
    assert found.p == pytest.approx(stats.f.sf(f, 1, 27)) and found.freedom == 27
    assert found.effect == pytest.approx(found.difference / np.sqrt(rest / 27))
    half = stats.t.ppf(0.975, 27) * found.standard_error
    assert found.interval == pytest.approx((found.difference - half, found.difference + half))


def test_the_other_number_may_explain_all_of_a_difference():
    """One set scores higher only because its other number is higher."""
    x = np.concatenate((rng.uniform(0, 2, 40), rng.uniform(1, 3, 40)))
    y = x + rng.normal(0, 0.1, 80)
    plain, given = compare(y[40:], y[:40]), compare_given(y[40:], y[:40], x[40:], x[:40])
    assert plain.p is not None and plain.p < 1e-6
    assert abs(given.difference) < 0.1 * plain.difference


def test_what_cannot_be_compared_has_no_test():
    assert compare_given([1.0], [2.0], [0.0], [0.0]).p is None
    assert compare_given([1.0, 2.0, 3.0], [1.0, 2.0, 4.0], [0.0] * 3, [1.0] * 3).p is None  # the number is the group
    with pytest.raises(UntwineError, match="numbers that are given"):
        compare_given([1.0, 2.0], [1.0], [0.0], [1.0])

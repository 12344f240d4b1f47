"""Intervals and tests over seeds, against their formulas and scipy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from untwine.errors import UntwineError
from untwine.metrics.statistics import compare, exceedance, holm, summary


def test_summary():
    values = np.random.default_rng(0).normal(3, 2, 12)
    found = summary(values)
    assert found.count == 12 and found.mean == pytest.approx(values.mean())
    assert found.standard_error == pytest.approx(stats.sem(values))
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, method="percentile", rng=0).confidence_interval
    assert found.bootstrap == pytest.approx((theirs.low, theirs.high), abs=0.05)
    assert found.interval == pytest.approx(stats.t.interval(0.95, 11, values.mean(), stats.sem(values)))
    assert summary(values) == found


def test_intervals_end_where_the_score_does():
    """Student's interval of three values near 0 goes below it: cut to the bounds, and nowhere else."""
    values = [0.01, 0.02, 0.06]
    low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    assert low < 0 and summary(values).interval == pytest.approx((low, high))
    assert summary(values, bounds=(0, 1)).interval == pytest.approx((0, high))
    mirrored = summary([1 - value for value in values], bounds=(0, 1))
    assert mirrored.interval == pytest.approx((1 - high, 1))
    passed = summary([-0.1, *values], bounds=(0, 1))  # a value below its bound is not cut off
    assert passed.interval[0] == -0.1


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 6])
def test_few_models_have_no_intervals(count):
    values = np.random.default_rng(count).uniform(size=count)
    found = summary(values)
    assert (found.interval is None) == (count < 3) and (found.bootstrap is None) == (count < 5)
    assert found.range == (values.min(), values.max()) and found.count == count
    equal = summary([0.1] * count)
    assert equal.interval is equal.bootstrap is None and equal.range == (0.1, 0.1)


def test_intervals_cover_as_they_say():
    rng = np.random.default_rng(1)
    found = [summary(rng.normal(size=30), 0.9, 500) for _ in range(300)]
    for intervals in ([one.interval for one in found], [one.bootstrap for one in found]):
        assert 0.82 < np.mean([low <= 0 <= high for low, high in intervals]) < 0.96


def test_welch_by_its_formula():
    rng = np.random.default_rng(2)
    a, b = rng.normal(0, 1, 10), rng.normal(1, 3, 7)
    va, vb = a.var(ddof=1) / 10, b.var(ddof=1) / 7
    found = compare(a, b)
    assert found.t == pytest.approx((a.mean() - b.mean()) / math.sqrt(va + vb))
    assert found.freedom == pytest.approx((va + vb) ** 2 / (va**2 / 9 + vb**2 / 6))
    assert found.p == pytest.approx(2 * stats.t.sf(abs(found.t), found.freedom))
    half = stats.t.ppf(0.975, found.freedom) * math.sqrt(va + vb)
    assert found.interval == pytest.approx((found.difference - half, found.difference + half))
    assert found.effect == pytest.approx(found.difference / math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2))
    assert compare(b, a).t == pytest.approx(-found.t)


def test_too_few_or_all_equal():
    assert summary([0.5]).interval is None and summary([0.5]).standard_error is None and summary([0.5]).mean == 0.5
    for found in (compare([1.0], [2.0, 3.0]), compare([1.0, 1.0], [2.0, 2.0]), compare([0.1] * 3, [0.3] * 3)):
        assert found.t is found.p is found.effect is None and found.difference < 0
    spread = compare([1.0, 1.5], [1.0, 2.0])
    assert spread.t is not None and math.isfinite(spread.t)


@pytest.mark.parametrize("values", [[], [float("nan"), 1.0], [[1.0]], [None, 1.0]])
def test_what_is_no_list_of_scores(values):
    with pytest.raises(UntwineError, match="finite numbers"):
        summary(values)


def test_a_level_is_a_fraction():
    for wrong in (lambda: summary([1.0, 2.0], level=95), lambda: compare([1.0, 2.0], [3.0, 4.0], level=0)):
        with pytest.raises(UntwineError, match="between 0 and 1"):
            wrong()


def test_holm_by_all_sets_of_tests():
    """A test's corrected p is the largest that Bonferroni gives any set of tests with it (the closed procedure)."""
    rng = np.random.default_rng(3)
    for count in (1, 2, 5, 7):
        p = rng.uniform(size=count) ** 3
        p[-1] = p[0]  # ties too
        sets = [one for size in range(1, count + 1) for one in itertools.combinations(range(count), size)]
        by_set = {one: min(1.0, len(one) * p[list(one)].min()) for one in sets}
        slow = [max(value for one, value in by_set.items() if i in one) for i in range(count)]
        assert holm(p.tolist()) == pytest.approx(slow, rel=1e-12)


# --- maxima ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 2), (4, 4), (2, 5)])
def test_exceedance_against_all_relabellings(m, n):
    """The probability that as many of the first, or more, lie above all others, over every choice of m of m + n."""
    scores = np.arange(m + n, dtype=float)
    counts = []
    for chosen in itertools.combinations(range(m + n), m):
        rest = [i for i in range(m + n) if i not in chosen]
        counts.append(sum(scores[i] > max(scores[rest]) for i in chosen))
    for count in set(counts):
        chosen = next(c for c, k in zip(itertools.combinations(range(m + n), m), counts, strict=True) if k == count)
        found = exceedance(scores[list(chosen)], np.delete(scores, list(chosen)))
        assert (found.count, found.among) == (count, m)
        assert found.p == pytest.approx(np.mean([k >= count for k in counts]))


def test_exceedance_counts_no_tie():
    assert exceedance([1.0, 2.0, 2.0], [2.0, 0.0]) == exceedance([0.0, 1.0, 1.5], [2.0])
    assert exceedance([1.0], [2.0]).p == 1.0

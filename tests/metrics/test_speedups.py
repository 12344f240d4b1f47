"""What is computed in parts, or only where it is needed, beside the plain computation."""

import numpy as np
import pytest

from untwine.metrics.arrays import varying
from untwine.metrics.encoder import _distinct
from untwine.metrics.families.interventions import spreads
from untwine.metrics.groups import agreeing
from untwine.metrics.learners.split import ordered

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("groups", "size", "d"), [(300, 64, 10), (7, 2, 1), (1, 50, 3), (40, 3000, 20)])
def test_variances_in_groups_and_over_all(groups, size, d):
    codes = RNG.normal(size=(groups, size, d)) + 5 * RNG.normal(size=(groups, 1, d)) + 100
    within, pooled = spreads(codes)
    assert within == pytest.approx(codes.var(1, ddof=1), rel=1e-10)
    assert pooled == pytest.approx(codes.reshape(-1, d).std(0, ddof=1), rel=1e-10)


def test_a_column_that_varies_late_varies():
    array = np.zeros((5000, 4))
    array[0, 1], array[4999, 2], array[1000, 3] = 1, 1, 1
    assert varying(array).tolist() == [False, True, True, True]
    assert varying(array.reshape(50, 100, 4)).tolist() == [False, True, True, True]
    assert varying(np.ones((1, 2))).tolist() == [False, False]


@pytest.mark.parametrize("size", [1, 2, 4, 5, 30])
def test_factors_in_which_groups_agree(size):
    factors = RNG.integers(0, 2, (200, size, 3))
    factors[:50, :-1, 1] = 1  # but for the last state
    factors[50:90, :, 2] = 0
    assert (agreeing(factors) == (factors == factors[:, :1]).all(1)).all()


@pytest.mark.parametrize("count", [60, 100_000])
def test_distinct_numbers_by_a_table_and_by_sorting(count):
    numbers = RNG.integers(0, count, 500)
    for found, expected in zip(_distinct(numbers, count), np.unique(numbers, return_inverse=True), strict=True):
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("values", [2, 10**6])
def test_codes_order_rows_of_equal_factors(values):
    factors, codes = RNG.integers(0, values, (400, 2)), RNG.normal(size=(400, 3))
    keys = [tuple(row) for row in np.hstack([factors, codes]).tolist()]
    assert ordered(codes, factors).tolist() == sorted(range(400), key=keys.__getitem__)

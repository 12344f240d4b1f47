"""The interventional robustness score against its definition, value by value."""

import numpy as np
import pytest

from untwine.errors import UntwineError
from untwine.metrics.families.irs import _by_value, _largest, deviation, irs

RNG = np.random.default_rng(0)


def defined(codes: np.ndarray, factors: np.ndarray, quantile: float) -> tuple[float, np.ndarray]:
    """The score in loops over codes, factors and values; all codes must vary."""
    largest = [max(abs(code - code.mean())) for code in codes.T]
    matrix = np.empty((codes.shape[1], factors.shape[1]))
    for j, code in enumerate(codes.T):
        for k, factor in enumerate(factors.T):
            rows = [code[factor == value] for value in sorted(set(factor.tolist()))]
            matrix[j, k] = 1 - np.mean([np.quantile(np.abs(r - r.mean()), quantile) for r in rows]) / largest[j]
    return float(np.average(matrix.max(1), weights=largest)), matrix


def in_bins(factors: np.ndarray, bins: int) -> np.ndarray:
    """Each factor's bin of equal width, found by comparing every value with every edge."""
    found = np.zeros_like(factors)
    for k, factor in enumerate(factors.T):
        low, width = min(factor), (max(factor) - min(factor)) / bins
        for row, value in enumerate(factor):
            found[row, k] = sum(value >= low + edge * width for edge in range(1, bins))
    return found


@pytest.mark.parametrize("quantile", [0.0, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize(("n", "d", "sizes"), [(300, 4, (3, 7)), (41, 2, (5, 2, 9)), (60, 1, (4,)), (12, 3, (10, 3))])
def test_equals_its_definition(n, d, sizes, quantile):
    factors = np.stack([RNG.integers(0, size, n) for size in sizes], 1)
    codes = RNG.normal(size=(n, d)) * [1.0, 5.0, 0.1, 2.0][:d] + factors @ RNG.normal(size=(len(sizes), d))
    value, matrix = defined(codes, factors, quantile)
    score = irs(codes, factors, quantile=quantile)
    assert float(score) == pytest.approx(value, abs=1e-12)
    assert score.details["irs_matrix"] == pytest.approx(matrix, abs=1e-12)
    assert (score.details["parents"] == matrix.argmax(1)).all()


def test_values_that_occur_unequally_often():
    factor = np.repeat(np.arange(9), [1, 1, 1, 40, 7, 7, 7, 2, 3])[:, None] * 10 - 30
    codes = RNG.normal(size=(len(factor), 3))
    permuted = RNG.permutation(len(factor))
    assert float(irs(codes[permuted], factor[permuted])) == pytest.approx(defined(codes, factor, 0.99)[0], abs=1e-12)


@pytest.mark.parametrize("sizes", [(64, 64, 64), (21, 40, 3), (20, 2, 7)])
def test_factors_are_cut_into_20_bins_unless_told_otherwise(sizes):
    factors = np.stack([RNG.integers(0, size, 900) for size in sizes], 1) * 3 - 50
    codes = RNG.normal(size=(900, 4)) + 0.2 * factors @ RNG.normal(size=(3, 4))
    value, matrix = defined(codes, in_bins(factors, 20), 0.99)
    score, unbinned = irs(codes, factors), irs(codes, factors, bins=None)
    assert float(score) == pytest.approx(value, abs=1e-12) and score.settings["bins"] == 20
    assert score.details["irs_matrix"] == pytest.approx(matrix, abs=1e-12)
    assert float(irs(codes, factors, bins=5)) == pytest.approx(defined(codes, in_bins(factors, 5), 0.99)[0], abs=1e-12)
    assert float(unbinned) == pytest.approx(defined(codes, factors, 0.99)[0], abs=1e-12)
    assert unbinned.settings["bins"] is None
    assert (abs(float(unbinned) - float(score)) > 1e-3) == (max(sizes) > 20)


def test_the_bins_are_those_of_numpys_histogram():
    """As the published code makes them."""
    for values in (RNG.integers(0, 64, 500), RNG.integers(-7, 90, 300), np.arange(21), RNG.integers(0, 7**9, 400)):
        edges = np.histogram(values, 20)[1]
        order, starts = _by_value(values, 20)
        labels = np.digitize(values, edges[:-1])[order]
        assert starts.tolist() == [0, *(np.flatnonzero(np.diff(labels)) + 1)]


def test_the_largest_are_those_of_a_sorted_array():
    for n, count in ((1, 1), (2, 1), (9, 9), (50, 7), (632, 7), (700, 350), (64, 2)):
        rows = RNG.integers(0, 40, (3, n, 2)) * 1.0  # with ties
        assert _largest(rows, count).tolist() == np.sort(rows, 1)[:, -count:].tolist()


def test_a_value_of_one_row_does_not_deviate():
    assert deviation(RNG.normal(size=(5, 2)), np.arange(5), 0.99).tolist() == [0.0, 0.0]


def test_a_perfect_code_has_one_and_names_its_parents():
    factors = np.indices((5, 4, 3)).reshape(3, -1).T
    score = irs(np.exp(factors[:, [2, 0, 1]]) * [1, -3, 7], factors)
    assert float(score) == pytest.approx(1, abs=1e-12) and score.details["parents"].tolist() == [2, 0, 1]


def test_rotation_lowers_it():
    factors = RNG.integers(0, 32, (4000, 2))
    turned = factors @ np.array([[1, 1], [1, -1]])
    perfect = irs(factors * 1.0, factors)
    assert float(irs(turned * 1.0, factors)) < 0.6 < 0.95 < float(perfect) < 1  # bins hold one value or two
    assert float(irs(turned * 1.0, factors, bins=None)) < 0.6 < 0.999 < float(irs(factors * 1.0, factors, bins=None))


def test_noise_has_what_the_docstring_says():
    factors = RNG.integers(0, 64, (10_000, 6))
    assert float(irs(RNG.normal(size=(10_000, 10)), factors)) == pytest.approx(0.39, abs=0.05)
    assert float(irs(RNG.uniform(size=(10_000, 10)), factors)) == pytest.approx(0, abs=0.02)


def test_invariances():
    factors = RNG.integers(0, 6, (500, 3))
    codes = RNG.normal(size=(500, 4)) + factors @ RNG.normal(size=(3, 4))
    value, rows, columns = float(irs(codes, factors)), RNG.permutation(500), RNG.permutation(4)
    assert float(irs(codes[rows], factors[rows])) == pytest.approx(value, abs=1e-12)
    assert float(irs(codes[:, columns], factors)) == pytest.approx(value, abs=1e-12)
    assert float(irs(codes * [-1, 1, -1, -1] + 3, factors)) == pytest.approx(value, abs=1e-12)
    assert float(irs(codes * 7, factors)) == pytest.approx(value, abs=1e-12)  # one scale for all: weights stay
    assert float(irs(codes, factors[:, ::-1] * 3 - 5)) == pytest.approx(value, abs=1e-12)


def test_dead_codes_have_no_weight():
    factors = RNG.integers(0, 6, (500, 3))
    codes = RNG.normal(size=(500, 2)) + factors[:, :2]
    score = irs(np.column_stack([codes, np.full(500, 0.1)]), factors)
    assert float(score) == float(irs(codes, factors)) and score.details["dead_codes"] == [2]
    assert score.details["irs_matrix"][2].tolist() == [0, 0, 0] and score.details["largest_deviations"][2] == 0
    assert float(irs(np.full((500, 3), 0.1), factors)) == 0


def test_packs_and_constant_factors():
    factors = RNG.integers(0, 6, (200, 3))
    factors[:, 1] = 4
    codes = RNG.normal(size=(2, 200, 3)) + factors
    score = irs(codes, factors)
    assert score.details["constant_factors"] == [1] and score.details["irs_matrix"].shape == (2, 3, 2)
    assert score.values.tolist() == [float(irs(one, factors[:, [0, 2]])) for one in codes]


@pytest.mark.parametrize("bins", [0, 1, -3])
def test_too_few_bins(bins):
    with pytest.raises(UntwineError, match=f"bins is a whole number, 2 or more, or None, not {bins}"):
        irs(np.eye(3), np.arange(3)[:, None], bins=bins)


@pytest.mark.parametrize("quantile", [-0.1, 1.01, float("nan")])
def test_a_quantile_out_of_range(quantile):
    with pytest.raises(
        UntwineError, match=f"quantile is a number from 0 to 1, not {quantile}|quantile of metric 'irs' must be finite"
    ):
        irs(np.eye(3), np.arange(3)[:, None], quantile=quantile)

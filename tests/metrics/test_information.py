"""Mutual information against sums written out, MIG and modularity against their equations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from untwine.errors import UntwineError
from untwine.metrics.families.information import discretised, entropy, labels, mig, modularity, mutual_information


def sample(n: int = 400, d: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    factors = np.stack([rng.integers(0, size, n) for size in (5, 3, 8)], 1)
    codes = factors @ rng.normal(size=(3, d)) + rng.normal(size=(n, d))
    return codes, factors


def by_hand(code: np.ndarray, factor: np.ndarray) -> float:
    """I(code; factor) as a sum over values, in a loop."""
    total = 0.0
    for a in set(code.tolist()):
        for b in set(factor.tolist()):
            both = np.mean((code == a) & (factor == b))
            if both:
                total += both * math.log(both / (np.mean(code == a) * np.mean(factor == b)))
    return total


@pytest.mark.parametrize("binning", ["histogram", "quantile"])
@pytest.mark.parametrize("bins", [2, 7, 20])
def test_mutual_information_is_the_sum_of_its_definition(bins, binning):
    codes, factors = sample()
    found, of_factors = mutual_information(codes, factors, bins, binning)
    cut = discretised(codes, bins, binning)
    for j in range(codes.shape[1]):
        for k in range(factors.shape[1]):
            assert found[j, k] == pytest.approx(by_hand(cut[:, j], factors[:, k]), abs=1e-12)
            assert found[j, k] == pytest.approx(mutual_info_score(cut[:, j], factors[:, k]), abs=1e-12)
            assert of_factors[k] == pytest.approx(by_hand(factors[:, k], factors[:, k]), abs=1e-12)


@pytest.mark.parametrize("bins", [2, 5, 20])
def test_histogram_bins_are_those_of_numpy(bins):
    codes, _ = sample()
    cut = discretised(codes, bins)
    for code, bin in zip(codes.T, cut.T, strict=True):
        assert np.array_equal(np.bincount(bin, minlength=bins), np.histogram(code, bins)[0])
        # as the literature's discretiser: digitize on all edges but the last
        assert np.array_equal(bin, np.digitize(code, np.histogram(code, bins)[1][:-1]) - 1)


def test_values_on_edges_and_at_the_ends_have_a_bin():
    codes = np.linspace(0, 1, 11)[:, None]
    assert discretised(codes, 10)[:, 0].tolist() == np.clip(np.arange(11), 0, 9).tolist()
    assert set(discretised(np.zeros((9, 1)), 4)[:, 0].tolist()) <= {0, 1, 2, 3}
    assert len(set(discretised(np.zeros((9, 1)), 4)[:, 0].tolist())) == 1


def test_quantiles_have_equal_counts():
    codes, _ = sample()
    assert (np.bincount(discretised(codes[:, :1], 8, "quantile")[:, 0]) == 50).all()
    few = np.repeat([0.0, 1.0], [390, 10])[:, None]
    assert len(np.unique(discretised(few, 8, "quantile"))) <= 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bins": 401}, "400 samples are fewer than 401 bins"),
        ({"bins": 1}, "2 or more"),
        ({"bins": 2.5}, "must be a whole number"),
        ({"binning": "quantiles"}, "did you mean 'quantile'"),
    ],
)
def test_what_cannot_be_binned_is_said(arguments, message):
    with pytest.raises(UntwineError, match=message):
        mig(*sample(), **arguments)


def test_labels_number_the_values_that_occur():
    values, sizes = labels(np.array([[-3, 5], [10, 5], [-3, 6]]))
    assert values.tolist() == [[0, 0], [1, 0], [0, 1]] and sizes == [2, 2]


def test_entropy_of_counts():
    assert entropy(np.array([[1, 1, 2], [4, 0, 0]])) == pytest.approx([1.5 * math.log(2), 0.0])


def test_mig_is_the_mean_gap_over_entropy():
    codes, factors = sample()
    information = np.array([[by_hand(c, f) for f in factors.T] for c in discretised(codes, 20).T])
    expected = []
    for k in range(3):
        ranked = sorted(information[:, k])
        expected.append((ranked[-1] - ranked[-2]) / by_hand(factors[:, k], factors[:, k]))
    score = mig(codes, factors)
    assert float(score) == pytest.approx(np.mean(expected), abs=1e-12)
    assert score.details["gaps"] == pytest.approx(expected, abs=1e-12)


def test_modularity_is_one_minus_the_squares_off_the_template():
    codes, factors = sample()
    information = np.array([[by_hand(c, f) for f in factors.T] for c in discretised(codes, 20).T])
    expected = []
    for row in information:
        theta = row.max()
        template = np.where(np.arange(3) == row.argmax(), theta, 0)
        expected.append(1 - ((row - template) ** 2).sum() / (theta**2 * 2))
    assert float(modularity(codes, factors)) == pytest.approx(np.mean(expected), abs=1e-12)


def test_mig_of_a_perfect_code_with_fewer_bins_than_values():
    factors = np.indices((16, 16)).reshape(2, -1).T
    assert float(mig(factors * 1.0, factors, bins=4)) == pytest.approx(math.log(4) / math.log(16))
    assert float(mig(factors * 1.0, factors, bins=16)) == pytest.approx(1.0)


def test_dead_codes_carry_no_information():
    factors = np.indices((4, 4)).reshape(2, -1).T
    codes = np.hstack([factors * 1.0, np.ones((16, 2))])
    assert float(mig(codes, factors, bins=4)) == 1.0
    score = modularity(codes, factors, bins=4)
    assert float(score) == 0.5  # two of four codes say nothing, and count as 0
    assert score.details["dead_codes"] == [2, 3]
    assert float(mig(np.ones((16, 3)), factors, bins=4)) == 0.0 == float(modularity(np.ones((16, 3)), factors, bins=4))


def test_one_code_has_no_rival_and_one_factor_nothing_to_mix():
    factor = np.arange(16)[:, None] % 4
    assert float(mig(factor * 1.0, factor, bins=4)) == 1.0
    assert float(modularity(np.hstack([factor * 1.0, np.zeros((16, 1))]), factor, bins=4)) == 0.5


def test_a_dead_code_says_nothing_whatever_rounding_makes_of_it():
    for seed in range(20):
        factors = np.random.default_rng(seed).integers(0, 20, (2_000, 3))
        codes = np.hstack([factors * 1.0, np.full((2_000, 3), 0.1)])
        assert modularity(codes, factors).details["modularity_by_code"][3:].tolist() == [0, 0, 0]


@pytest.mark.parametrize("scale", [1e308, 1e-308])
def test_codes_of_any_range_have_bins(scale):
    codes, factors = sample()
    codes = codes / np.abs(codes).max()
    assert float(mig(codes * scale, factors)) == pytest.approx(float(mig(codes, factors)), abs=0.02)
    assert float(mig(1 + np.finfo(float).eps * factors, factors)) >= 0

"""To which example a sample of a posterior is attributed, against densities computed one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from untwine.analysis import attributed
from untwine.errors import UntwineError
from untwine.streams import np_uniform


def test_two_posteriors_against_the_closed_form():
    """Two normals of deviation s, 2 apart: a sample is mistaken with probability Phi(-1 / s)."""
    for deviation in (0.5, 1.0, 4.0):
        places = attributed([[-1.0], [1.0]], np.full((2, 1), deviation**2), draws=20_000)
        mistakes = (places != np.array([[0], [1]])).mean()
        # Five standard errors of 40,000 draws.
        assert mistakes == pytest.approx(stats.norm.cdf(-1 / deviation), abs=5 * 0.5 / 200)


def test_every_density_against_scipy():
    random = np.random.default_rng(0)
    means, variances = random.normal(size=(2, 6, 3)), random.uniform(0.2, 2.0, size=(2, 6, 3))
    places = attributed(torch.from_numpy(means), variances, draws=5, seed=4)
    assert places.shape == (2, 6, 5) and (places != np.arange(6)[:, None]).any()
    noise = stats.norm.ppf(np_uniform(4, "attributed samples", (6, 5, 3)))
    for mean, variance, of_member in zip(means, variances, places, strict=True):
        samples = mean[:, None] + np.sqrt(variance)[:, None] * noise
        densities = [
            stats.multivariate_normal.logpdf(samples, m, np.diag(v)) for m, v in zip(mean, variance, strict=True)
        ]
        np.testing.assert_array_equal(np.argmax(densities, 0), of_member)


def test_samples_are_those_of_the_seed_and_no_variance_may_be_zero():
    means, variances = np.arange(8.0)[:, None], np.ones((8, 1))
    assert (attributed(means, variances, 3, seed=1) != attributed(means, variances, 3, seed=2)).any()
    np.testing.assert_array_equal(attributed(means, variances, 3, seed=1), attributed(means, variances, 3, seed=1))
    with pytest.raises(UntwineError, match="variance of 0"):
        attributed(means, np.zeros((8, 1)))

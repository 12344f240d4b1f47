"""Codes through their prior's distribution function, against scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions as D

from untwine.analysis.gaussian import gaussianised, is_standard_normal
from untwine.errors import UntwineError

ONES = torch.ones(2)
CODES = np.array([[0.0, 1.0], [-3.0, 2.5], [40.0, -40.0]])


def independent(base: D.Distribution) -> D.Distribution:
    return D.Independent(base, 1)


@pytest.mark.parametrize(
    ("base", "theirs"),
    [
        (D.StudentT(3 * ONES, 0 * ONES, ONES), stats.t(3)),
        (D.Laplace(ONES, 2 * ONES), stats.laplace(1, 2)),
        (D.Normal(ONES, 2 * ONES), stats.norm(1, 2)),
    ],
)
def test_it_is_the_normal_quantile_of_the_distribution_function(base, theirs):
    lower = np.where(theirs.median() > CODES, stats.norm.ppf(theirs.cdf(CODES)), stats.norm.isf(theirs.sf(CODES)))
    assert gaussianised(CODES, independent(base)) == pytest.approx(lower, rel=1e-6, abs=1e-6)


def test_a_standard_normal_changes_nothing():
    prior = independent(D.Normal(0 * ONES, ONES))
    assert np.array_equal(gaussianised(CODES, prior), CODES)
    assert is_standard_normal(prior) and not is_standard_normal(independent(D.Normal(ONES, ONES)))
    assert not is_standard_normal(independent(D.Laplace(0 * ONES, ONES)))


def test_a_mixture_of_independent_latents():
    mixture = D.MixtureSameFamily(
        D.Categorical(torch.tensor([[0.5, 0.5], [0.5, 0.5]])),
        D.Normal(torch.zeros(2, 2), torch.tensor([[1.0, 0.2]] * 2)),
    )
    expected = stats.norm.ppf(0.5 * stats.norm.cdf([0.3, -1]) + 0.5 * stats.norm.cdf([0.3, -1], 0, 0.2))
    assert gaussianised(np.array([[0.3, -1.0]]), independent(mixture))[0] == pytest.approx(expected, abs=1e-5)


def test_what_cannot_be_mapped_is_said():
    with pytest.raises(UntwineError, match="independent latents"):
        gaussianised(CODES, D.MultivariateNormal(torch.zeros(2), torch.eye(2)))

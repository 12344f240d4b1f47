"""Densities along one latent, and how far classes use different latents."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from untwine.analysis import class_contrast, latent_densities, magnitude_by_class
from untwine.analysis.encodings import ByClass
from untwine.errors import UntwineError

rng = np.random.default_rng(0)


def test_densities_are_those_of_normals():
    means, variances = rng.normal(size=(5, 3)), rng.uniform(1e-4, 2, size=(5, 3))
    found = latent_densities(means, variances, latent=2, prior=stats.norm.pdf)
    expected = np.stack(
        [stats.norm.pdf(found.z, m, s) for m, s in zip(means[:, 2], variances[:, 2] ** 0.5, strict=True)]
    )
    assert found.posteriors == pytest.approx(expected)
    assert found.aggregate == pytest.approx(expected.mean(0))
    assert found.prior == pytest.approx(stats.norm.pdf(found.z))
    assert found.z[0] <= -3 and found.z[-1] >= 3 and (np.diff(found.z) > 0).all()


def test_no_narrow_peak_lies_between_two_values():
    """The mass of each posterior by the trapezoidal rule is that of 3.5 standard deviations, however narrow it is."""
    found = latent_densities([[-1.0], [0.123], [2.0]], [[1e-10], [0.5], [1e-6]])
    assert np.trapezoid(found.posteriors, found.z, axis=1) == pytest.approx(np.ones(3), abs=0.005)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.0]], [[0.0]]), "variance of 0"),
        (([[0.0]], [[1.0]], 1), "latent"),
        (([[[0.0]]], [[[1.0]]]), r"\[n, d\]"),
    ],
)
def test_what_has_no_density(arguments: tuple, message: str):
    with pytest.raises(UntwineError, match=message):
        latent_densities(*arguments)


def test_contrast_by_its_definition():
    codes, labels = rng.normal(size=(2, 60, 7)), rng.integers(0, 4, 60)
    table = magnitude_by_class(codes, labels)
    for member in range(2):
        shares = [row / row.sum() for row in table.values[member]]
        overlaps = [sum(np.minimum(shares[i], shares[j])) for i in range(4) for j in range(i)]
        assert class_contrast(table)[member] == pytest.approx(1 - np.mean(overlaps))


def test_contrast_is_from_alike_to_apart():
    def contrast(values: list[list[float]]) -> float:
        return float(class_contrast(ByClass(np.array(values), np.arange(len(values)), np.ones(len(values), np.int64))))

    assert contrast([[1.0, 3.0], [2.0, 6.0]]) == 0  # scale alone does not matter
    assert contrast([[1.0, 0.0, 0.0], [0.0, 5.0, 0.0], [0.0, 0.0, 2.0]]) == 1
    assert contrast([[0.0, 0.0], [1.0, 1.0]]) == 1  # a class without codes shares nothing
    with pytest.raises(UntwineError, match="two or more"):
        contrast([[1.0, 2.0]])

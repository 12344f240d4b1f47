"""Hoyer's sparsity against its formula, and what is defined beyond it."""

import numpy as np
import pytest

from untwine.errors import UntwineError
from untwine.metrics.families.sparsity import hoyer

RNG = np.random.default_rng(0)


def defined(codes: np.ndarray) -> float:
    """mathieu2019, section 6.3, sample by sample; all codes must vary."""
    scales = [np.sqrt(np.mean((code - np.mean(code)) ** 2)) for code in codes.T]
    found = []
    for row in codes:
        z = [value / scale for value, scale in zip(row, scales, strict=True)]
        one, two = sum(abs(value) for value in z), sum(value**2 for value in z) ** 0.5
        found.append((len(z) ** 0.5 - one / two) / (len(z) ** 0.5 - 1))
    return float(np.mean(found))


@pytest.mark.parametrize(("n", "d"), [(50, 2), (30, 10), (2, 3), (7, 64)])
def test_equals_its_formula(n, d):
    codes = RNG.normal(size=(n, d)) * RNG.uniform(0.01, 9, d) + RNG.normal(size=d)
    assert float(hoyer(codes)) == pytest.approx(defined(codes), abs=1e-12)


def test_bounds_are_reached():
    assert float(hoyer(np.eye(7))) == pytest.approx(1, abs=1e-12)
    assert float(hoyer(RNG.choice([-2.0, 2.0], (20, 5)), normalise=False)) == pytest.approx(0, abs=1e-12)
    two_of_nine = np.zeros((1, 9))
    two_of_nine[0, [1, 4]] = 1
    assert float(hoyer(two_of_nine, normalise=False)) == pytest.approx((3 - 2**0.5) / 2)


def test_gaussian_codes_have_what_the_docstring_says():
    # Exactly: E |z|_1 / |z|_2 = d E|u_1| for u uniform on the sphere, E|u_1| = Gamma(d/2) / (sqrt(pi) Gamma((d+1)/2)).
    from math import gamma, pi, sqrt

    d = 10
    expected = (sqrt(d) - d * gamma(d / 2) / (sqrt(pi) * gamma((d + 1) / 2))) / (sqrt(d) - 1)
    value = float(hoyer(RNG.normal(size=(10_000, d))))
    assert value == pytest.approx(expected, abs=0.005) and value == pytest.approx(0.27, abs=0.01)


def test_scales_do_not_make_codes_sparse_unless_they_are_kept():
    codes = RNG.normal(size=(300, 6))
    scaled = codes * [1, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6]
    assert float(hoyer(scaled)) == pytest.approx(float(hoyer(codes)), abs=1e-12)
    assert float(hoyer(scaled, normalise=False)) > 0.99
    assert hoyer(scaled, normalise=False).settings["normalise"] is False


def test_invariances():
    codes = RNG.normal(size=(300, 5)) ** 3 + 0.2
    value = float(hoyer(codes))
    assert float(hoyer(codes[RNG.permutation(300)])) == pytest.approx(value, abs=1e-12)
    assert float(hoyer(codes[:, RNG.permutation(5)] * 3)) == pytest.approx(value, abs=1e-12)
    assert float(hoyer(codes * [-1, 1, -1, 1, -9])) == pytest.approx(value, abs=1e-12)
    sparse = RNG.normal(size=(300, 5)) * (RNG.uniform(size=(300, 5)) < 0.2)
    rotation = np.linalg.qr(RNG.normal(size=(5, 5)))[0]
    assert float(hoyer(sparse @ rotation)) < float(hoyer(sparse)) - 0.2


def test_dead_codes_are_left_out():
    codes = RNG.normal(size=(100, 4))
    dead = np.column_stack([codes, np.full((100, 2), 0.1)])
    score = hoyer(dead)
    assert float(score) == float(hoyer(codes)) and score.details["dead_codes"] == [4, 5]
    assert float(hoyer(dead[:, 3:])) == 0 == float(hoyer(dead[:, 4:]))  # a single code that lives, and none


def test_samples_of_zeros_count_as_zero():
    codes = np.vstack([np.eye(4), np.zeros((4, 4))])
    score = hoyer(codes)
    assert float(score) == pytest.approx(0.5) and score.details["samples_of_zeros"] == 4


def test_codes_of_any_scale():
    codes = RNG.normal(size=(50, 4))
    for scale in (1e-300, 1e300):
        value = float(hoyer(codes * scale, normalise=False))
        assert value == pytest.approx(float(hoyer(codes, normalise=False)), abs=1e-12)
    assert 0 <= float(hoyer(codes * 1e-200)) <= 1


def test_packs_and_errors():
    codes = RNG.normal(size=(3, 20, 4))
    assert hoyer(codes).values.tolist() == [float(hoyer(one)) for one in codes]
    with pytest.raises(UntwineError, match="it needs models of two or more latents, not 1"):
        hoyer(codes[0, :, :1])

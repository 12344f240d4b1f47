"""What rotations of latents cost, against numerical minima, volumes and rotations made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from untwine.analysis import alignment_angle, encoder_stages, excess, least_noise, turned
from untwine.errors import UntwineError

random = np.random.default_rng(0)
M1 = np.array([[4.0, -3.0, 5.0], [1.0, 1.0, -1.0]])  # Eq. 24, its columns as rows


def rotation(degrees: float) -> np.ndarray:
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return np.array([[cos, -sin], [sin, cos]])


@pytest.mark.parametrize("degrees", [0.0, 45.0, 70.0])
@pytest.mark.parametrize("precision", [0.0, 1.5])
def test_the_least_noise_is_the_minimum_over_all_variances(degrees, precision):
    decoder = turned(M1, degrees)

    def noise(log_variance: float) -> float:
        variances = np.exp([log_variance, -precision - log_variance])
        return float(np.trace(decoder.T @ np.diag(variances) @ decoder))

    numerical = minimize_scalar(noise, bracket=(-2, 2), tol=1e-12)
    found, variances = least_noise(decoder, precision)
    assert found == pytest.approx(numerical.fun) and -np.log(variances).sum() == pytest.approx(precision)
    assert np.log(variances[0]) == pytest.approx(numerical.x, abs=1e-5)


def test_the_numbers_of_equations_25_and_26():
    assert least_noise(M1)[0] == pytest.approx(24.5, abs=0.05)
    assert least_noise(turned(M1, 45))[0] == pytest.approx(52.4, abs=0.05)
    half = math.sqrt(0.5)
    assert turned(M1, 45) == pytest.approx(half * np.array([[5, -2, 4], [-3, 4, -6]]))  # up to order and sign


def test_the_excess_is_least_where_the_columns_are_orthogonal():
    straight = np.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.5]])
    assert excess(straight) == 1.0
    for degrees in (10, 45, 80):
        decoder = turned(straight, degrees)
        first, second = decoder
        area = np.linalg.norm(np.cross(first, second))
        assert area == pytest.approx(1.0)
        assert excess(decoder) == pytest.approx(np.linalg.norm(first) * np.linalg.norm(second) / area) and (
            excess(decoder) > 1.01
        )
    many = random.normal(size=(4, 7))
    volume = math.sqrt(np.linalg.det(many @ many.T))
    assert excess(many) == pytest.approx(np.linalg.norm(many, axis=1).prod() / volume)


@pytest.mark.parametrize("degrees", [0, 20, -35, 110])
def test_the_stages_end_with_the_codes(degrees):
    """A linear encoder that inverts the decoder, and each step by itself."""
    decoder = turned(random.normal(size=(2, 3)) @ np.diag([3.0, 1.0, 0.2]), degrees)
    codes = random.normal(size=(6, 5, 2))
    stages = encoder_stages(decoder, codes @ decoder)
    assert stages.turned == pytest.approx(codes)
    # The first step keeps lengths, the last one too, and the second one makes the axes' scales equal.
    assert np.linalg.norm(stages.aligned, axis=-1) == pytest.approx(np.linalg.norm(codes @ decoder, axis=-1))
    assert np.linalg.norm(stages.scaled, axis=-1) == pytest.approx(np.linalg.norm(codes, axis=-1))
    values = np.linalg.svd(decoder, compute_uv=False)
    assert sorted((stages.aligned / stages.scaled)[0, 0]) == pytest.approx(sorted(values))


def test_the_last_step_is_trivial_for_orthogonal_columns():
    straight = np.array([[0.0, -2.0, 0.0], [0.5, 0.0, 0.0]])
    codes = random.normal(size=(9, 2))
    stages = encoder_stages(straight, codes @ straight)
    assert stages.scaled == pytest.approx(codes) and stages.turned == pytest.approx(codes)
    bent = encoder_stages(turned(straight, 30), codes @ turned(straight, 30))
    assert alignment_angle(bent.turned, bent.scaled) == pytest.approx(30)


@pytest.mark.parametrize(("degrees", "expected"), [(0, 0), (17, 17), (45, 45), (60, 30), (-20, 20), (200, 20), (90, 0)])
@pytest.mark.parametrize("mirror", [1, -1])
def test_the_angle_of_codes_against_factors(degrees, expected, mirror):
    factors = random.uniform(size=(500, 2))
    codes = 3 * factors @ rotation(degrees) @ np.diag([1, mirror]) + [5, -1]
    assert alignment_angle(codes, factors) == pytest.approx(expected, abs=1e-6)
    assert alignment_angle(codes[:, ::-1], factors) == pytest.approx(expected, abs=1e-6)


def test_what_is_refused():
    for decoder in (np.ones((2, 3)), np.ones((3, 2)), np.ones(3)):
        with pytest.raises(UntwineError):
            excess(decoder)
    with pytest.raises(UntwineError, match="2 latents"):
        turned(np.eye(3), 10)
    with pytest.raises(UntwineError, match=r"\[n, 2\]"):
        alignment_angle(np.ones((4, 3)), np.ones((4, 2)))

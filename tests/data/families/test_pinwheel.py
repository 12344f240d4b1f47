"""The pinwheel: undo its turning and find the normal numbers that it was made of."""

from __future__ import annotations

import numpy as np
import pytest

from untwine.datasets import pinwheel
from untwine.errors import UntwineError


def published(arm: int, arms: int, radial: float, tangential: float, rate: float) -> np.ndarray:
    """The generator's last lines, for one point: a row vector times a matrix."""
    angle = np.linspace(0, 2 * np.pi, arms, endpoint=False)[arm] + rate * np.exp(radial)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return np.array([radial, tangential]) @ turn


def unturned(data) -> tuple[np.ndarray, np.ndarray]:
    """(radial, tangential) from the points and their arms alone.

    The length of a point is known, so a tangential coordinate gives the radial one, and that the angle:
    the right tangential coordinate is where this angle is the one that is seen.
    """
    points, arm = data.batch(np.arange(len(data))).astype(np.float64), data.factors_of(np.arange(len(data)))[:, 0]
    length, seen = np.linalg.norm(points, axis=1), np.arctan2(points[:, 1], points[:, 0])
    base, rate = 2 * np.pi * arm / data.spec["arms"], data.spec["rate"]
    candidates = np.linspace(-0.6, 0.6, 2401)[:, None] * length  # sine of the angle off the axis
    radial = np.sqrt(length**2 - candidates**2)
    off = np.arctan2(candidates, radial) - (base + rate * np.exp(radial)) - seen
    off = np.abs((off + np.pi) % (2 * np.pi) - np.pi)
    best = off.argmin(0), np.arange(len(points))
    return radial[best], candidates[best]


def test_points_are_those_of_the_published_formula():
    data = pinwheel(arms=5, points=7, rate=0.4, seed=3)
    indices = np.arange(35)
    points, arm = data.batch(indices), data.factors_of(indices)[:, 0]
    assert arm.tolist() == np.repeat(np.arange(5), 7).tolist()
    for point, a, (radial, tangential) in zip(points, arm, data.coordinates_of(indices), strict=True):
        assert np.allclose(point, published(a, 5, radial, tangential, 0.4), atol=1e-6)


def test_coordinates_are_normal_in_every_arm():
    data = pinwheel(points=4000)
    coordinates = data.coordinates_of(np.arange(len(data))).reshape(4, 4000, 2)
    assert np.abs(coordinates.mean(1) - [1, 0]).max() < 4 * 0.3 / np.sqrt(4000)
    assert np.abs(coordinates.std(1) / [0.3, 0.1] - 1).max() < 4 / np.sqrt(2 * 4000)
    scaled = (coordinates.reshape(-1, 2) - [1, 0]) / [0.3, 0.1]
    assert np.abs(np.corrcoef(scaled.T)[0, 1]) < 4 / np.sqrt(16_000)
    assert np.abs((scaled**3).mean(0)).max() < 4 * np.sqrt(15 / 16_000)
    assert np.abs((scaled**4).mean(0) - 3).max() < 4 * np.sqrt(96 / 16_000)
    assert np.abs((np.abs(scaled) < 1).mean(0) - 0.6827).max() < 4 * np.sqrt(0.22 / 16_000)
    first, second = coordinates[0, :, 0], coordinates[1, :, 0]
    assert np.abs(np.corrcoef(first, second)[0, 1]) < 4 / np.sqrt(4000)


def test_undoing_the_turn_gives_the_two_deviations():
    # No point lies so near to the middle, or so far out, that two turns could have brought it there.
    data = pinwheel(points=500, radial_std=0.15, tangential_std=0.05)
    radial, tangential = (part.reshape(4, 500) for part in unturned(data))
    true = data.coordinates_of(np.arange(2000)).reshape(4, 500, 2)
    assert np.allclose(radial, true[..., 0], atol=1e-3) and np.allclose(tangential, true[..., 1], atol=1e-3)
    assert np.abs(radial.mean(1) - 1).max() < 4 * 0.15 / np.sqrt(500)
    assert np.abs(tangential.mean(1)).max() < 4 * 0.05 / np.sqrt(500)
    assert np.abs(radial.std(1) / 0.15 - 1).max() < 0.13 and np.abs(tangential.std(1) / 0.05 - 1).max() < 0.13


def test_the_defaults_are_those_of_the_paper():
    data = pinwheel()
    assert data.shape == (2,) and len(data) == 400 and data.dtype == np.float32
    assert np.bincount(data.factors_of(np.arange(400))[:, 0]).tolist() == [100] * 4
    assert np.abs(data.coordinates_of(np.arange(400)).std(0) / [0.3, 0.1] - 1).max() < 0.1


def test_the_arms_are_turns_of_one_another():
    data = pinwheel(arms=4)
    states = np.array([[arm, 7, 2] for arm in range(4)])
    first, second, third, fourth = data.observe(states).astype(np.float64)
    assert np.allclose(second, [first[1], -first[0]], atol=1e-6)  # a quarter, clockwise
    assert np.allclose(third, -first, atol=1e-6) and np.allclose(fourth, -second, atol=1e-6)


def test_a_state_is_the_median_of_its_part_and_levels_are_equally_likely():
    data = pinwheel(points=5000, levels=5)
    indices = np.arange(len(data))
    factors, coordinates = data.factors_of(indices), data.coordinates_of(indices)
    for column in (0, 1):
        counts = np.bincount(factors[:, 1 + column], minlength=5)
        assert np.abs(counts - 4000).max() < 4 * np.sqrt(4000)
        medians = [np.median(coordinates[factors[:, 1 + column] == level, column]) for level in range(5)]
        edges = [coordinates[factors[:, 1 + column] == level, column].max() for level in range(4)]
        assert (np.diff(np.ravel(list(zip(medians, edges, strict=False)))) > 0).all()
        for level, median in enumerate(medians):
            state = np.array([[1, 2, 2]])
            state[0, 1 + column] = level
            expected = np.array([1.0, 0.0])  # the middle of five levels
            expected[column] = median
            assert np.allclose(data.observe(state)[0], published(1, 4, *expected, 0.25), atol=0.02)


def test_an_example_lies_near_its_state():
    data = pinwheel(levels=1_000_000)
    indices = np.arange(400)
    assert np.abs(data.observe(data.factors_of(indices)) - data.batch(indices)).max() < 5e-3


def test_more_points_leave_those_that_there_were():
    few, many = pinwheel(points=10), pinwheel(points=50)
    for arm in range(4):
        assert np.array_equal(few.batch(np.arange(10) + 10 * arm), many.batch(np.arange(10) + 50 * arm))


@pytest.mark.parametrize(
    "arguments",
    [
        {"arms": 0},
        {"points": 0},
        {"levels": 1},
        {"radial_std": 0.0},
        {"tangential_std": -1.0},
        {"rate": float("nan")},
    ],
)
def test_settings_that_make_no_sense_are_refused(arguments):
    with pytest.raises(UntwineError, match=next(iter(arguments))):
        pinwheel(**arguments)

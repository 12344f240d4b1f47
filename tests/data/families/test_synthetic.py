"""The squares of Rolinek et al. 2019."""

from __future__ import annotations

import numpy as np
import pytest

from untwine.data.families.synthetic import rotation
from untwine.datasets import synthetic_linear, synthetic_nonlinear
from untwine.errors import UntwineError


def test_rotation_is_orthogonal_fixes_its_axis_and_turns_by_45_degrees():
    turn = rotation([1, -1, 1], 45)
    assert np.allclose(turn @ turn.T, np.eye(3), atol=1e-14) and np.isclose(np.linalg.det(turn), 1)
    assert np.allclose(turn @ [1, -1, 1], [1, -1, 1], atol=1e-14)
    across = np.array([1.0, 1.0, 0.0]) / np.sqrt(2)
    assert np.isclose(across @ turn @ across, np.cos(np.pi / 4))
    assert np.cross(across, turn @ across) @ [1, -1, 1] > 0  # right-handed
    assert np.allclose(np.linalg.matrix_power(turn, 8), np.eye(3), atol=1e-13)


@pytest.mark.parametrize("ratio", [1.0, 1.5, 2.0])
def test_linear_square_is_a_stretched_isometry(ratio):
    data = synthetic_linear(ratio=ratio, samples=500)
    assert np.allclose(np.linalg.svd(data.matrix, compute_uv=False), [ratio, 1])
    assert np.allclose(np.linalg.norm(data.matrix, axis=0), [ratio, 1])
    corners = data.observe([[0, 0], [255, 0], [0, 255]])
    assert np.allclose(corners[0], 0) and np.isclose(np.linalg.norm(corners[1]), ratio)
    flat = data.batch(np.arange(500)) @ rotation([1, -1, 1], 45)
    assert np.allclose(flat[:, 2], 0, atol=1e-6)
    assert np.allclose(flat[:, :2], data.coordinates_of(np.arange(500)) * [ratio, 1], atol=1e-6)


def test_nonlinear_square_is_the_network_it_says():
    import torch

    data = synthetic_nonlinear(samples=200, weight_scale=2.0)
    network = torch.nn.Sequential(
        torch.nn.Linear(2, 10), torch.nn.Tanh(), torch.nn.Linear(10, 6), torch.nn.Tanh()
    ).double()
    for layer, (weight, bias) in zip(network[::2], data.layers, strict=True):
        layer.weight.data, layer.bias.data = torch.from_numpy(weight), torch.from_numpy(bias)
    expected = network(torch.from_numpy(data.coordinates_of(np.arange(200)))).detach().float().numpy()
    assert np.allclose(data.batch(np.arange(200)), expected, atol=1e-6)


def test_nonlinear_settings():
    plain, linear = synthetic_nonlinear(samples=50), synthetic_nonlinear(samples=50, output="linear")
    assert np.allclose(np.tanh(linear.examples()), plain.examples(), atol=1e-6)
    for scale in (1.0, 3.0):
        (first, first_bias), (second, second_bias) = synthetic_nonlinear(
            samples=1, width=2000, outputs=4, weight_scale=scale
        ).layers
        for values, fan_in in ((first, 2), (first_bias, 2), (second, 2000)):
            bound = scale / np.sqrt(fan_in)
            assert 0.99 * bound < np.abs(values).max() < bound and abs(values.mean()) < 0.05 * bound
        assert first.shape == (2000, 2) and second.shape == (4, 2000) and second_bias.shape == (4,)


def test_the_default_network_does_not_fold_the_square():
    """The factors can be recovered: the Jacobian has rank two everywhere, and no two points coincide."""
    data = synthetic_nonlinear(samples=1, levels=41)
    grid = data.observe(data.factors.factors(np.arange(41**2))).astype(np.float64).reshape(41, 41, 6)
    rows, columns = np.gradient(grid, 1 / 40, axis=(0, 1))
    jacobians = np.stack([rows, columns], -1).reshape(-1, 6, 2)
    assert np.linalg.svd(jacobians, compute_uv=False)[:, 1].min() > 0.01
    points = grid.reshape(-1, 6)
    distances = np.linalg.norm(points[:, None] - points[None], axis=-1) + np.eye(len(points))
    assert distances.min() > 1e-4


@pytest.mark.parametrize("make", [synthetic_linear, synthetic_nonlinear])
def test_coordinates_are_uniform_and_factors_their_nearest_level(make):
    data = make(samples=20_000, levels=11)
    coordinates, factors = data.coordinates_of(np.arange(20_000)), data.factors_of(np.arange(20_000))
    assert coordinates.dtype == np.float64 and coordinates.min() > 0 and coordinates.max() < 1
    assert np.abs(np.corrcoef(coordinates.T)[0, 1]) < 0.03
    counts = np.histogram2d(*coordinates.T, bins=10, range=[[0, 1]] * 2)[0]
    assert ((counts - 200) ** 2 / 200).sum() < 99 + 5 * np.sqrt(2 * 99)
    assert np.abs(factors / 10 - coordinates).max() <= 0.05
    assert data.factors.sizes == (11, 11) and set(factors.flat) == set(range(11))


@pytest.mark.parametrize("make", [synthetic_linear, synthetic_nonlinear])
def test_observed_levels_agree_with_the_samples_next_to_them(make):
    data = make(samples=300, levels=100_001)
    indices = np.arange(300)
    assert np.abs(data.observe(data.factors_of(indices)) - data.batch(indices)).max() < 5e-5
    corner = data.observe([[0, 100_000]])
    assert np.array_equal(corner, data.embed(np.array([[0.0, 1.0]])).astype(np.float32))


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (synthetic_linear, {"ratio": 0.0}, "ratio"),
        (synthetic_linear, {"samples": 0}, "samples"),
        (synthetic_linear, {"levels": 1}, "levels"),
        (synthetic_nonlinear, {"output": "tan"}, "did you mean 'tanh'"),
        (synthetic_nonlinear, {"weight_scale": -1.0}, "weight_scale"),
        (synthetic_nonlinear, {"width": 0}, "width"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, arguments, message):
    with pytest.raises(UntwineError, match=message):
        make(**arguments)

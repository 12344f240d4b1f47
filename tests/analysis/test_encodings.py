import warnings

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import untwine as uw
from untwine.analysis import aggregate
from untwine.analysis.aggregate import aggregate_density
from untwine.analysis.encodings import active_dimensions, magnitude_by_class


def posteriors(*shape: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=shape), random.uniform(0.05, 0.5, size=shape)


def covariances(*shape: int, seed: int = 0) -> np.ndarray:
    factors = np.random.default_rng(seed).normal(size=(*shape, shape[-1])) * 0.4
    return factors @ np.swapaxes(factors, -1, -2) + 0.05 * np.eye(shape[-1])


@pytest.mark.parametrize("absolute", [True, False])
def test_magnitude_by_class_against_loops(absolute: bool):
    random = np.random.default_rng(0)
    codes, labels = random.normal(size=(2, 50, 4)), random.choice([7, -1, 3], size=50)
    found = magnitude_by_class(torch.from_numpy(codes), labels, absolute)
    assert found.classes.tolist() == [-1, 3, 7] and found.counts.sum() == 50
    assert found.values.shape == (2, 3, 4)
    for member in range(2):
        for row, label in enumerate(found.classes):
            members_of = [code for code, one in zip(codes[member], labels, strict=True) if one == label]
            assert len(members_of) == found.counts[row]
            expected = np.mean([abs(code) if absolute else code for code in members_of], axis=0)
            np.testing.assert_allclose(found.values[member, row], expected, atol=1e-14)
    np.testing.assert_array_equal(magnitude_by_class(codes[1], labels, absolute).values, found.values[1])


def test_magnitudes_of_one_class_and_of_texts():
    found = magnitude_by_class([[1.0], [-3.0]], ["coat", "coat"])
    assert found.classes.tolist() == ["coat"] and found.values.tolist() == [[2.0]] and found.counts.tolist() == [2]


def test_magnitude_by_class_needs_a_label_for_each_code():
    with pytest.raises(uw.UntwineError, match=r"labels have shape \[2\] for codes \[3, 1\]; they must be \[3\]"):
        magnitude_by_class(np.zeros((3, 1)), [0, 1])


def test_active_dimensions_exceed_the_threshold():
    codes = np.array([[0.1, -3.0, 0.6, 0.5], [0.0, 0.0, 0.0, 0.0]])
    order, count = active_dimensions(codes)
    assert order.tolist() == [[1, 2, 3, 0], [0, 1, 2, 3]] and count.tolist() == [2, 0]
    order, count = active_dimensions(codes[0], threshold=0.05)
    assert order[:count].tolist() == [1, 2, 3, 0]
    with pytest.raises(uw.UntwineError, match="threshold is a magnitude"):
        active_dimensions(codes, threshold=-1.0)


def mixture(x: np.ndarray, y: np.ndarray, means: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    points = np.stack(np.meshgrid(x, y), -1)
    parts = [stats.multivariate_normal(m, c).pdf(points) for m, c in zip(means, blocks, strict=True)]
    return np.mean(parts, axis=0).reshape(len(y), len(x))


def cells(axis: np.ndarray) -> np.ndarray:
    step = axis[1] - axis[0]
    return np.stack((axis - step / 2, axis + step / 2), -1)


@pytest.mark.parametrize("latents", [(0, 1), (2, 0)])
@pytest.mark.parametrize("chunk", [2**18, 700])
def test_density_is_the_mean_over_cells(latents: tuple[int, int], chunk: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(aggregate, "_CHUNK", chunk)
    means, variances = posteriors(12, 3)
    variances[:4] /= 1e4
    found = aggregate_density(means, variances, latents, bounds=((-2, 1), (-1, 2)), points=17)
    assert found.latents == latents and found.values.shape == (17, 17)
    np.testing.assert_array_equal(found.x, np.linspace(-2, 1, 17))
    np.testing.assert_array_equal(found.y, np.linspace(-1, 2, 17))
    expected, mass = np.zeros((17, 17)), 0.0
    for mean, variance in zip(means[:, list(latents)], variances[:, list(latents)], strict=True):
        of_x, of_y = (stats.norm(m, v**0.5) for m, v in zip(mean, variance, strict=True))
        for j, (bottom, top) in enumerate(cells(found.y)):
            for i, (left, right) in enumerate(cells(found.x)):
                inside = (of_x.cdf(right) - of_x.cdf(left)) * (of_y.cdf(top) - of_y.cdf(bottom))
                expected[j, i] += inside / ((right - left) * (top - bottom)) / 12
                mass += inside / 12
    np.testing.assert_allclose(found.values, expected, rtol=1e-9, atol=1e-12)
    assert float(found.mass) == pytest.approx(mass, abs=1e-12)


@pytest.mark.parametrize("variance", [1e-6, 1e-300, 0.0])
def test_narrow_posteriors_are_not_lost(variance: float):
    means = np.random.default_rng(0).normal(size=(2, 200, 2))
    found = aggregate_density(means, np.full_like(means, variance))
    np.testing.assert_allclose(found.mass, 1, atol=1e-9)
    # As many cells as a histogram of the means fills, but for those that a posterior of sd 1e-3 lies across.
    edges = [np.append(cells(axis)[:, 0], cells(axis)[-1, 1]) for axis in (found.x, found.y)]
    for mean, values in zip(means, found.values, strict=True):
        counts = np.histogram2d(*mean.T, bins=edges)[0].T  # pyright: ignore[reportArgumentType]
        if variance < 1e-6:
            area = (found.x[1] - found.x[0]) * (found.y[1] - found.y[0])
            np.testing.assert_allclose(values * area * 200, counts, atol=1e-9)
        else:
            assert (values[counts > 0] > 0).all()


def test_a_latent_that_never_moves_has_a_density():
    found = aggregate_density([[3.0, 1.0], [3.0, 2.0]], np.zeros((2, 2)), points=10)
    assert found.x[[0, -1]].tolist() == [2.5, 3.5] and found.y[[0, -1]].tolist() == [1.0, 2.0]
    assert float(found.mass) == pytest.approx(1)


def test_means_over_small_cells_are_the_density():
    means, variances = posteriors(12, 2)
    previous = np.inf
    for points in (51, 101, 201):
        found = aggregate_density(means, variances, bounds=((-3, 3), (-3, 3)), points=points)
        expected = mixture(found.x, found.y, means, variances[..., None] * np.eye(2))
        off = np.abs(found.values - expected).max() / expected.max()
        assert off < previous / 3.5  # it falls with the square of the step
        previous = off
    assert previous < 1e-3


@pytest.mark.parametrize("latents", [(0, 1), (2, 0)])
@pytest.mark.parametrize("chunk", [2**18, 700])
@pytest.mark.filterwarnings("ignore:the grid's step")
def test_density_of_covariances_is_the_mixture_of_marginals(
    latents: tuple[int, int], chunk: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(aggregate, "_CHUNK", chunk)
    means, whole = posteriors(12, 3)[0], covariances(12, 3)
    found = aggregate_density(means, whole, latents, bounds=((-2, 1), (-1, 2)), points=17)
    chosen = list(latents)
    expected = mixture(found.x, found.y, means[:, chosen], whole[:, chosen][:, :, chosen])
    np.testing.assert_allclose(found.values, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("full", [False, True])
def test_density_integrates_to_one(full: bool):
    means, variances = posteriors(30, 2)
    whole = covariances(30, 2) if full else variances
    found = aggregate_density(means, whole, bounds=((-9, 9), (-9, 9)), points=300)
    assert integrate.trapezoid(integrate.trapezoid(found.values, found.x), found.y) == pytest.approx(1, abs=1e-6)
    assert float(found.mass) == pytest.approx(1, abs=1e-6)
    assert float(aggregate_density(means, whole, points=200).mass) == pytest.approx(1, abs=0.01)


def test_a_grid_too_coarse_for_covariances_is_warned_of():
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    whole = (turn * [0.04, 1.0]) @ turn.T  # standard deviations 0.2 and 1, neither along an axis
    means = np.zeros((1, 2))
    bounds = (-1.0, 1.0), (-1.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aggregate_density(means, whole[None], points=12, bounds=bounds)  # a step of 0.18
        aggregate_density(means, np.diag([1e-6, 1.0])[None], points=12, bounds=bounds)  # cells, not points
    with pytest.warns(UserWarning, match=r"step is 1.1 standard deviations .* take more points, or narrower bounds"):
        aggregate_density(means, whole[None], points=10, bounds=bounds)
    scale = np.array([1.0, 100.0])  # each latent has its own unit
    with pytest.warns(UserWarning, match=r"step is 1.1 "):
        aggregate_density(means, (whole * np.outer(scale, scale))[None], points=10, bounds=((-1, 1), (-100, 100)))


def test_latents_may_be_numbers_of_numpy():
    means, variances = posteriors(5, 3)
    first, second = np.array([2, 0])
    found = aggregate_density(means, variances, (first, second), points=np.int64(7))
    assert found.latents == (2, 0) and found.values.shape == (7, 7)


def test_diagonal_covariances_are_variances():
    means, variances = posteriors(5, 3)
    both = aggregate_density(means, variances), aggregate_density(means, variances[..., None] * np.eye(3))
    np.testing.assert_allclose(both[0].values, both[1].values, rtol=1e-12)


def test_members_share_the_grid():
    means, variances = posteriors(2, 10, 3)
    means[1] += 4
    found = aggregate_density(torch.from_numpy(means), torch.from_numpy(variances), points=20)
    assert found.values.shape == (2, 20, 20)
    low = (means - 3 * np.sqrt(variances)).min((0, 1))
    high = (means + 3 * np.sqrt(variances)).max((0, 1))
    assert found.x[[0, -1]].tolist() == pytest.approx([low[0], high[0]])
    assert found.y[[0, -1]].tolist() == pytest.approx([low[1], high[1]])
    for i in range(2):
        alone = aggregate_density(means[i], variances[i], grid=(found.x, found.y))
        np.testing.assert_allclose(alone.values, found.values[i], rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(latents=(0, 0)), "two different numbers from 0 to 2"),
        (dict(latents=(0, 3)), "two different numbers from 0 to 2"),
        (dict(points=1), "points must be a whole number"),
        (dict(bounds=((1.0, 0.0), (0.0, 1.0))), "bounds are"),
        (dict(bounds=((0.0, 1.0), (0.0, 1.0)), grid=([0.0], [0.0])), "not both"),
        (dict(grid=([[0.0, 1.0]], [0.0, 1.0])), "two lists of numbers"),
        (dict(grid=([0.0, 1.0], [0.0])), "two or more that increase"),
        (dict(grid=([0.0, 1.0], [1.0, 0.0])), "two or more that increase"),
        (dict(variances=np.full((4, 3), -1.0)), "are they log-variances"),
        (dict(variances=np.stack([np.diag([0.0, 1, 1])] * 3 + [np.eye(3) + 0.1])), "a variance of 0 has no density"),
        (dict(variances=np.ones((4, 2))), r"they must be the same, or \[4, 3, 3\]"),
        (dict(variances=np.tril(np.ones((4, 3, 3)))), "are they Cholesky factors"),
        (dict(variances=np.ones((4, 3, 3))), "has no density"),
        (dict(means=np.full((4, 3), np.inf)), "NaN or an infinity"),
    ],
)
def test_density_says_what_is_wrong(arguments: dict, message: str):
    right: dict = dict(means=np.zeros((4, 3)), variances=np.ones((4, 3)))
    with pytest.raises(uw.UntwineError, match=message):
        aggregate_density(**right | arguments)

"""Where columns act, against loops over pixels; components against scikit-learn and a known mixture."""

from __future__ import annotations

import numpy as np
import pytest

from untwine import analysis
from untwine.errors import UntwineError


def columns(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def spread_by_loops(column: np.ndarray) -> float:
    """The deviation of energy from its centre over that of equal pixels, pixel by pixel."""

    def deviation(energy: dict[tuple[int, int], float]) -> float:
        total = sum(energy.values())
        centre = [sum(e * place[axis] for place, e in energy.items()) / total for axis in (0, 1)]
        square = sum(e * sum((place[axis] - centre[axis]) ** 2 for axis in (0, 1)) for place, e in energy.items())
        return (square / total) ** 0.5

    places = [(y, x) for y in range(column.shape[1]) for x in range(column.shape[2])]
    own = {(y, x): sum(float(channel[y, x]) ** 2 for channel in column) for y, x in places}
    return deviation(own) / deviation(dict.fromkeys(places, 1.0))


@pytest.mark.parametrize("shape", [(1, 5, 7), (3, 4, 4), (1, 1, 6)])
def test_spread_is_that_of_a_loop_over_pixels(shape):
    several = columns(1, 3, *shape)
    np.testing.assert_allclose(analysis.column_spread(several), [spread_by_loops(c) for c in several], rtol=1e-10)


def test_spread_and_shares_do_not_depend_on_size_or_sign_and_zeros_count_as_uniform():
    one, regions = columns(2, 1, 6, 6), analysis.tile_regions(2, 3, 6, 6)
    both = np.stack([one, -7.0 * one, np.zeros_like(one)])
    spread, share = analysis.column_spread(both), analysis.largest_share(both, regions)
    assert spread[0] == pytest.approx(spread[1]) and spread[2] == pytest.approx(1)
    assert share[0] == pytest.approx(share[1]) and share[2] == pytest.approx(1 / 6)
    np.testing.assert_allclose(analysis.column_energy(both)[[1, 2]], [49 * (one**2).sum(), 0])


def test_largest_share_is_that_of_a_loop_over_regions_that_differ_by_image():
    jacobians = columns(3, 2, 4, 5, 1, 6, 8)  # members, images, latents
    centres = np.random.default_rng(4).uniform(0, 6, (4, 3, 2))
    regions = analysis.nearest_regions(centres, 6, 8)
    shares = analysis.largest_share(jacobians, regions[:, None])
    for image in range(4):
        for y in range(6):
            for x in range(8):
                away = [np.hypot(x + 0.5 - cx, y + 0.5 - cy) for cx, cy in centres[image]]
                assert regions[image, y, x] == int(np.argmin(away))
        for latent in range(5):
            energy = jacobians[1, image, latent, 0] ** 2
            expected = max(energy[regions[image] == number].sum() for number in range(3)) / energy.sum()
            assert shares[1, image, latent] == pytest.approx(expected)


def test_what_cannot_be_a_region_is_refused():
    with pytest.raises(UntwineError, match="must broadcast"):
        analysis.largest_share(np.ones((2, 1, 4, 4)), np.zeros((5, 5), int))
    with pytest.raises(UntwineError, match="whole numbers"):
        analysis.largest_share(np.ones((1, 4, 4)), np.full((4, 4), 0.5))
    with pytest.raises(UntwineError, match="cannot be cut"):
        analysis.tile_regions(3, 2, 64, 64)
    with pytest.raises(UntwineError, match="x and y of each"):
        analysis.nearest_regions(np.zeros((2, 3)), 4, 4)


def test_principal_components_are_those_of_scikit_learn():
    from sklearn.decomposition import PCA

    scales = np.arange(1, 13)
    images = (columns(5, 400, 12) * scales @ np.linalg.qr(columns(6, 12, 12))[0]).reshape(400, 1, 3, 4)
    ours = analysis.principal_components(images, 5)
    theirs = PCA(5).fit(images.reshape(400, 12)).components_
    assert ours.shape == (5, 1, 3, 4)
    # Variances are apart by a sixth or more, so a last bit hardly turns the directions.
    np.testing.assert_allclose(np.abs((ours.reshape(5, 12) * theirs).sum(1)), 1, atol=1e-8)
    assert (ours.reshape(5, 12)[np.arange(5), np.abs(ours.reshape(5, 12)).argmax(1)] > 0).all()


def test_independent_components_find_the_sources_that_principal_ones_mix():
    sources = np.random.default_rng(7).laplace(size=(4000, 3))
    patches = np.zeros((3, 4, 4))
    patches[0, 0, 0] = patches[1, 2, 1:3] = patches[2, 3, 3] = 1.0  # each acts in a place of its own
    images = np.einsum("ns,syx->nyx", sources, patches)[:, None] + 1e-6 * columns(8, 4000, 1, 4, 4)
    found = analysis.independent_components(images, 3)[:, 0].reshape(3, 16)
    match = np.abs(found @ patches.reshape(3, 16).T) / np.linalg.norm(patches.reshape(3, 16), axis=1)
    match /= np.linalg.norm(found, axis=1)[:, None]
    assert sorted(match.argmax(1)) == [0, 1, 2] and match.max(1).min() > 0.99


def test_more_components_than_there_are_dimensions_are_refused():
    with pytest.raises(UntwineError, match="from 1 to 4 components of these examples, not 5"):
        analysis.principal_components(np.ones((9, 1, 2, 2)), 5)

import numpy as np
import pytest
import torch
from scipy import optimize, stats

import untwine as uw
from untwine.analysis import encodings
from untwine.analysis.encodings import latent_ranges, usefulness
from untwine.analysis.traversal import (
    decode_grid,
    latent_grid,
    latent_line,
    latent_plane,
    sparse_direction,
    traverse,
)


def posteriors(*shape: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=shape) * 2, random.uniform(0.01, 1.5, size=shape)


def mass_below(z: float, means: np.ndarray, variances: np.ndarray) -> float:
    return float(np.mean([stats.norm.cdf(z, m, v**0.5) for m, v in zip(means, variances, strict=True)]))


@pytest.mark.parametrize("coverage", [0.5, 0.95, 0.999])
def test_ranges_are_the_quantiles_of_the_mixture(coverage: float):
    means, variances = posteriors(20, 3)
    found = latent_ranges(means, variances, coverage)
    assert found.shape == (3, 2)
    for k in range(3):
        for mass, end in zip(((1 - coverage) / 2, (1 + coverage) / 2), found[k], strict=True):
            root = optimize.brentq(
                lambda z, k=k, mass=mass: mass_below(z, means[:, k], variances[:, k]) - mass, -50, 50, xtol=1e-13
            )
            assert end == pytest.approx(root, abs=1e-10)
        low, high = (mass_below(z, means[:, k], variances[:, k]) for z in found[k])
        assert high - low == pytest.approx(coverage, abs=1e-12)


def test_ranges_of_samples():
    means, variances = posteriors(50, 2)
    random = np.random.default_rng(1)
    which = random.integers(0, 50, 400_000)
    samples = means[which] + np.sqrt(variances[which]) * random.normal(size=(400_000, 2))
    low, high = latent_ranges(means, variances).T
    np.testing.assert_allclose((samples < low).mean(0), 0.025, atol=1e-3)
    np.testing.assert_allclose((samples > high).mean(0), 0.025, atol=1e-3)


def test_ranges_of_one_posterior_are_those_of_a_normal():
    found = latent_ranges([[3.0, 0.0]], [[4.0, 1e-12]], coverage=0.9)
    z = stats.norm.ppf(0.95)
    np.testing.assert_allclose(found, [[3 - 2 * z, 3 + 2 * z], [-1e-6 * z, 1e-6 * z]], rtol=1e-9)


def test_ranges_of_a_pack_are_those_of_its_members_however_they_are_computed(monkeypatch: pytest.MonkeyPatch):
    means, variances = posteriors(3, 40, 2)
    whole = latent_ranges(means, variances)
    assert whole.shape == (3, 2, 2)
    monkeypatch.setattr(encodings, "_CHUNK", 7)
    for i in range(3):
        np.testing.assert_allclose(latent_ranges(means[i], variances[i]), whole[i], atol=1e-12)


def test_ranges_move_and_stretch_with_the_codes():
    means, variances = posteriors(30, 2)
    moved = latent_ranges(means * -3 + 5, variances * 9)
    np.testing.assert_allclose(moved, (latent_ranges(means, variances) * -3 + 5)[:, ::-1], atol=1e-10)


def test_without_variances_ranges_are_those_of_the_means():
    means, _ = posteriors(101, 2)
    found = latent_ranges(means, coverage=0.9)
    ordered = np.sort(means, 0)
    np.testing.assert_array_equal(found, np.stack([ordered[5], ordered[95]], -1))  # 5 percent of 101: the sixth
    np.testing.assert_allclose(latent_ranges(means, np.zeros_like(means), coverage=0.9), found, atol=1e-12)


def test_points_and_normals_may_be_mixed():
    # Half of the mass is a point at 0, and a quarter lies on each of its sides.
    means, variances = np.array([[0.0], [0.0]]), np.array([[0.0], [1.0]])
    np.testing.assert_allclose(latent_ranges(means, variances, coverage=0.4), [[0.0, 0.0]], atol=1e-12)
    outer = latent_ranges(means, variances, coverage=0.9)[0]
    np.testing.assert_allclose(outer, [stats.norm.ppf(0.1), stats.norm.ppf(0.9)], atol=1e-9)


def test_a_dead_latent_has_the_range_of_the_prior():
    dead = latent_ranges(np.zeros((100, 1)), np.ones((100, 1)))
    np.testing.assert_allclose(dead, [stats.norm.ppf([0.025, 0.975])], atol=1e-9)


@pytest.mark.parametrize(
    ("means", "variances", "coverage", "message"),
    [
        ([[0.0]], [[1.0]], 1.0, "coverage must lie between 0 and 1"),
        ([[0.0]], [[-2.0]], 0.9, "are they log-variances"),
        ([[0.0, 1.0]], [[1.0]], 0.9, "not the same"),
        ([[np.nan]], None, 0.9, "NaN or an infinity, first at"),
        ([0.0, 1.0], None, 0.9, "need 2 dimensions"),
        ([["a"]], None, 0.9, "must be numbers"),
        (np.zeros((0, 2)), None, 0.9, "none empty"),
    ],
)
def test_ranges_say_what_is_wrong(means, variances, coverage: float, message: str):
    with pytest.raises(uw.UntwineError, match=message):
        latent_ranges(means, variances, coverage)


def test_usefulness_is_the_mean_kl():
    means, variances = posteriors(2, 30, 4)
    means[:, :, 1], variances[:, :, 1] = 0.0, 1.0
    order, nats = usefulness(torch.from_numpy(means), torch.from_numpy(variances))
    q = torch.distributions.Normal(torch.from_numpy(means), torch.from_numpy(variances).sqrt())
    prior = torch.distributions.Normal(torch.zeros(()).double(), torch.ones(()).double())
    np.testing.assert_allclose(nats, torch.distributions.kl_divergence(q, prior).mean(1), atol=1e-12)
    assert (np.diff(np.take_along_axis(nats, order, -1)) <= 0).all()
    assert (nats[:, 1] == 0).all() and (order[:, -1] == 1).all()


def test_usefulness_of_means_alone_is_their_variance():
    means = np.stack([np.zeros(5), np.arange(5.0), 2 * np.arange(5.0)], 1)
    order, variance = usefulness(means)
    assert order.tolist() == [2, 1, 0] and variance.tolist() == [0, 2, 8]
    with pytest.raises(uw.UntwineError, match="deterministic posteriors have no KL"):
        usefulness(means, np.zeros_like(means))


def test_along_changes_one_latent():
    codes = np.random.default_rng(0).normal(size=(2, 3, 4))
    found = latent_line(codes, 2, -1, 3, steps=5)
    assert found.shape == (2, 3, 5, 4)
    for at in np.ndindex(2, 3):
        for step in range(5):
            expected = codes[at].copy()
            expected[2] = -1 + step
            np.testing.assert_array_equal(found[at][step], expected)


def test_along_takes_a_latent_and_ends_for_each_code():
    found = latent_line(np.zeros((2, 3)), [0, 2], [0, -1], [1, -2], steps=2)
    assert found.tolist() == [[[0, 0, 0], [1, 0, 0]], [[0, 0, -1], [0, 0, -2]]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(steps=1), "steps must be a whole number, 2 or more, not 1"),
        (dict(latent=3), "whole numbers from 0 to 2, not 3"),
        (dict(latent=-1), "whole numbers from 0 to 2, not -1"),
        (dict(latent=0.5), "whole numbers from 0 to 2"),
        (dict(low=np.inf), "NaN or an infinity"),
        (dict(high=[1.0, 2.0]), "one number or"),
    ],
)
def test_along_says_what_is_wrong(arguments: dict, message: str):
    right: dict = dict(latent=0, low=0.0, high=1.0)
    with pytest.raises(uw.UntwineError, match=message):
        latent_line(np.zeros(3), **right | arguments)


SOME = {"all": None, "shared": np.array([3, 1]), "own": np.array([[3, 1], [0, 2]])}
ALONE = [((), False), ((2,), False), ((2, 3), False)]
PACKS = [((2,), True), ((2, 3), True)]


@pytest.mark.parametrize(
    ("shape", "members", "some"),
    [(*case, some) for case in ALONE + PACKS for some in SOME if some != "own" or case in PACKS],
)
def test_grid_against_loops(shape: tuple[int, ...], members: bool, some: str):
    random = np.random.default_rng(0)
    codes = random.normal(size=(*shape, 4))
    pack = shape[:1] if members else ()
    ends = np.sort(random.normal(size=(*pack, 4, 2)), -1)
    latents = SOME[some]
    found = latent_grid(codes, ends, steps=5, latents=latents)
    chosen = np.arange(4) if latents is None else latents
    assert found.shape == (*shape, chosen.shape[-1], 5, 4)
    for at in np.ndindex(*shape):
        own = chosen[at[0]] if some == "own" else chosen
        for row, latent in enumerate(own):
            low, high = ends[at[0]][latent] if members else ends[latent]
            for step, value in enumerate(np.linspace(low, high, 5)):
                expected = codes[at].copy()
                expected[latent] = value
                np.testing.assert_allclose(found[at][row, step], expected, atol=1e-15)


def test_grid_says_what_is_wrong():
    with pytest.raises(uw.UntwineError, match=r"ranges have shape \[2, 2\] for codes \[3\]; they must be \[3, 2\]"):
        latent_grid(np.zeros(3), np.zeros((2, 2)))
    with pytest.raises(uw.UntwineError, match="ranges have shape"):
        latent_grid(np.zeros((4, 3)), np.zeros((5, 3, 2)))
    with pytest.raises(uw.UntwineError, match="ranges have shape"):
        latent_grid(np.zeros(3), np.zeros((3, 3, 2)))
    with pytest.raises(uw.UntwineError, match="latents have shape"):
        latent_grid(np.zeros(3), np.zeros((3, 2)), latents=[[0], [1]])


def test_a_plane_has_the_first_latent_down_and_the_second_across():
    ends = np.array([[-1, 1], [-2, 2], [-3, 3]])
    code = np.array([7.0, 8.0, 9.0])
    found = latent_plane(code, 2, 0, ends, steps=3)
    assert found.shape == (3, 3, 3)
    for i, down in enumerate((-3, 0, 3)):
        for j, across in enumerate((-1, 0, 1)):
            assert found[i, j].tolist() == [across, 8, down]
    pack = latent_plane(np.stack([code, code]), 2, 0, np.stack([ends, 2 * ends]), steps=3)
    np.testing.assert_array_equal(pack[0], found)
    assert pack[1, 0, 0].tolist() == [-2, 8, -6]
    np.testing.assert_array_equal(latent_plane(code, np.int64(2), np.int64(0), ends, steps=np.int64(3)), found)
    with pytest.raises(uw.UntwineError, match="two latents, not 1 twice"):
        latent_plane(code, 1, 1, ends)


def test_sparse_direction_leads_away_from_zero():
    codes = np.array([[0.5, -3.0], [-0.2, 4.0]])
    found = sparse_direction(codes, [0, 1], steps=3)
    assert found.tolist() == [[[0.5, -3], [1, -3], [1.5, -3]], [[-0.2, 4], [-0.2, 4.5], [-0.2, 5]]]
    np.testing.assert_array_equal(sparse_direction(codes, 0, steps=3)[1, :, 0], np.linspace(-0.2, -1.2, 3))
    with pytest.raises(uw.UntwineError, match="no sign to follow"):
        sparse_direction([0.0, 1.0], 0)
    with pytest.raises(uw.UntwineError, match=r"for codes \[2, 2\], latent is one number or \[2\] of them"):
        sparse_direction(codes, [0, 1, 1])


def one_model(z: np.ndarray) -> torch.Tensor:
    """Images [n, 3, 2, 2] that say which code they were made of."""
    assert z.ndim == 2
    return torch.tensor(z[:, :3, None, None] * np.array([[1, 10], [100, 1000]]), requires_grad=True)


def three_models(z: np.ndarray) -> torch.Tensor:
    whole = np.broadcast_to(z, (3, *z.shape)) if z.ndim == 2 else z
    return torch.stack([one_model(member) * (i + 1) for i, member in enumerate(whole)])


@pytest.mark.parametrize("cells", [(1,), (2,), (3,), (3, 1), (2, 5)])  # as many codes as members, as channels, as one
def test_decoded_keeps_the_order_of_codes(cells: tuple[int, ...]):
    codes = np.random.default_rng(0).normal(size=(*cells, 4))
    alone, pack = decode_grid(one_model, codes), decode_grid(three_models, codes)
    assert alone.shape == (*cells, 3, 2, 2) and pack.shape == (3, *cells, 3, 2, 2)
    own = decode_grid(three_models, np.stack([codes, codes + 1, codes + 2]), pack=True)
    assert own.shape == pack.shape
    for at in np.ndindex(*cells):
        expected = codes[at][:3, None, None] * np.array([[1, 10], [100, 1000]])
        np.testing.assert_allclose(alone[at], expected)
        for i in range(3):
            np.testing.assert_allclose(pack[i][at], (i + 1) * expected)
            shifted = (codes[at] + i)[:3, None, None] * np.array([[1, 10], [100, 1000]])
            np.testing.assert_allclose(own[i][at], (i + 1) * shifted)


def test_decoded_says_what_is_wrong():
    with pytest.raises(uw.UntwineError, match=r"decode gave images of shape \[9, 8\] for codes \[5, 2\]"):
        decode_grid(lambda z: np.zeros((9, 8)), np.zeros((5, 2)))
    with pytest.raises(uw.UntwineError, match=r"they must be \[members, 5, \*shape\]"):
        decode_grid(lambda z: np.zeros((5, 8)), np.zeros((3, 5, 2)), pack=True)


def test_traverse_decodes_the_grid():
    codes, ends = np.random.default_rng(0).normal(size=(3, 4)), np.tile([-2.0, 2.0], (3, 4, 1))
    images = traverse(three_models, codes, ends, steps=5, latents=[2, 0])
    assert images.shape == (3, 2, 5, 3, 2, 2)
    np.testing.assert_allclose(images[1, 0, :, 2, 0, 0], 2 * np.linspace(-2, 2, 5))
    np.testing.assert_allclose(images[1, 1, :, 2, 0, 0], np.full(5, 2 * codes[1, 2]))
    shared = traverse(three_models, codes[0], ends[0], steps=5, latents=[2, 0])
    np.testing.assert_allclose(shared[0], images[0])
    assert traverse(one_model, codes, ends[0], steps=5).shape == (3, 4, 5, 3, 2, 2)


def test_traverse_an_ensemble():
    data = uw.datasets.three_dots(size=16, positions=16, examples=64)
    run = uw.Run(method=uw.methods.vae(), dataset=data, network="mlp", latents=3, seeds=[0, 1], steps=1, batch_size=8)
    ensemble = uw.fit(run, device="cpu")
    x = data.batch(np.arange(64))
    means, variances = ensemble.encode(x), ensemble.variances(x)
    ends, (order, _) = latent_ranges(means, variances), usefulness(means, variances)
    images = traverse(ensemble.decode, means[:, 0], ends, steps=4, latents=order)
    assert images.shape == (2, 3, 4, 1, 16, 16)
    code = means[1, 0].clone()
    code[order[1, 2]] = float(ends[1, order[1, 2], 1])
    with torch.no_grad():
        expected = ensemble.member(1).decode(code[None])[0]
    np.testing.assert_allclose(images[1, 2, -1], expected, atol=1e-5)

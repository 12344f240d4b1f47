"""Distances against their definitions, computed another way."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.signal import convolve2d
from scipy.spatial.distance import cdist
from torch.distributions import Independent, Normal, kl_divergence

import untwine as uw
from untwine.analysis import losses
from untwine.analysis.distances import ground_truth, latent, perceived, posterior_kl, reconstruction
from untwine.errors import UntwineError
from untwine.model.likelihoods import Likelihood
from untwine.streams import np_uniform

Array = np.ndarray[Any, Any]


def pictures(n: int, shape: tuple[int, ...] = (2, 6, 5), seed: int = 0) -> Array:
    """Grey, black and white pixels."""
    uniforms = np_uniform(seed, "test pictures", (n, *shape))
    return (np.clip(uniforms * 3 - 1, 0, 1) * 255).astype(np.uint8)


def of(images: Array) -> tuple[Array, Array]:
    """Images with factors, which most distances do not look at."""
    return np.zeros((len(images), 1), np.int64), images


def blurred(x: Array, radius: int) -> Array:
    kernel = np.full((2 * radius + 1,) * 2, 1 / (2 * radius + 1) ** 2)
    return np.stack([convolve2d(channel, kernel, mode="same") for channel in x])


def squares(x: Array, mean: Array) -> float:
    return float(((x - mean) ** 2).sum())


def cross_entropy(x: Array, mean: Array) -> float:
    mean = np.clip(mean, np.float32(1e-6), np.float32(1 - 1e-6))  # as float32 has them
    return float(-(x * np.log(mean) + (1 - x) * np.log(1 - mean)).sum())


def normal(x: Array, mean: Array, scale: float = 1.0) -> float:
    return float(-stats.norm.logpdf(x, mean, scale).sum())


def laplace(x: Array, mean: Array, scale: float = 1.0) -> float:
    return float(-stats.laplace.logpdf(x, mean, scale).sum())


def overlap(inner: Any, radius: int, weight: float) -> Any:
    return lambda x, mean: inner(x, mean) + weight * inner(blurred(x, radius), blurred(mean, radius))


# Text and definition, for one image x and one reconstruction.
LOSSES: dict[str, Any] = {
    "squared_error": squares,
    "bernoulli": cross_entropy,
    "gaussian": normal,
    "gaussian(scale=0.1)": lambda x, mean: normal(x, mean, 0.1),
    "learned_gaussian": normal,
    "laplace(scale=0.2)": lambda x, mean: laplace(x, mean, 0.2),
    "overlap(squared-error, radius=2, weight=7)": overlap(squares, 2, 7.0),
    "overlap(bernoulli, radius=1, weight=3)": overlap(cross_entropy, 1, 3.0),
    "overlap(overlap(squared-error, radius=1, weight=2), radius=2, weight=5)": overlap(
        overlap(squares, 1, 2.0), 2, 5.0
    ),
}


def test_every_likelihood_is_in_the_table():
    ours = {name for name, entry in Likelihood.registry.items() if entry.__module__.startswith("untwine.")}
    assert ours <= {text.partition("(")[0] for text in LOSSES}


# --- ground truth ---------------------------------------------------------------------------------------


def test_categorical_factors_are_the_same_or_not():
    factors = (np_uniform(0, "test factors", (7, 3)) * 9).astype(np.int64)
    found = ground_truth(("ordered", "categorical", "cyclic"), wrap=False).matrix(factors, pictures(7))
    ordered = factors[:, [0, 2]]
    expected = cdist(ordered, ordered, "cityblock") + (factors[:, None, 1] != factors[None, :, 1])
    assert np.array_equal(found, expected) and not np.array_equal(found, ground_truth().matrix(factors, pictures(7)))
    with pytest.raises(UntwineError, match="2 kinds do not suit 3 factors"):
        ground_truth(("ordered", "categorical")).matrix(factors, pictures(7))


def test_cyclic_factors_go_the_shorter_way_round():
    sizes, kinds = (9, 9, 12), ("cyclic", "ordered", "cyclic")
    factors = (np_uniform(0, "test factors", (7, 3)) * sizes).astype(np.int64)
    found = ground_truth(kinds, sizes).matrix(factors, pictures(7))
    for i, a in enumerate(factors.tolist()):
        for j, b in enumerate(factors.tolist()):  # turn a until it is b
            first = min(t for t in range(9) if b[0] in ((a[0] + t) % 9, (a[0] - t) % 9))
            third = min(t for t in range(12) if b[2] in ((a[2] + t) % 12, (a[2] - t) % 12))
            assert found[i, j] == first + abs(a[1] - b[1]) + third
    assert np.array_equal(ground_truth(kinds, sizes).pairs(factors, factors[::-1].copy()), np.diagonal(found[:, ::-1]))
    turned = (factors + np.array([4, 0, 7])) % sizes
    assert np.array_equal(ground_truth(kinds, sizes).matrix(turned, pictures(7)), found)
    cut = ground_truth(kinds, sizes, wrap=False).matrix(factors, pictures(7))
    assert np.array_equal(cut, cdist(factors, factors, "cityblock")) and (cut > found).any()
    with pytest.raises(UntwineError, match=r"give the sizes of the factors, as in ground_truth\(space.kinds, space.s"):
        ground_truth(kinds)
    with pytest.raises(UntwineError, match="2 sizes do not suit 3 factors"):
        ground_truth(kinds, sizes[:2]).matrix(factors, pictures(7))


def test_ground_truth_is_l1_without_wrapping():
    factors = (np_uniform(0, "test factors", (7, 3)) * 9).astype(np.int64)
    found = ground_truth().matrix(factors, pictures(7))
    assert np.array_equal(found, cdist(factors, factors, "cityblock"))
    assert np.array_equal(ground_truth().pairs(factors, factors[::-1].copy()), np.diagonal(found[:, ::-1]))


# --- perceived ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", LOSSES)
@pytest.mark.parametrize("chunk", [2**20, 100])
@pytest.mark.parametrize("excess", [True, False])
def test_perceived_is_the_loss(text: str, chunk: int, excess: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(losses, "CHUNK", chunk)
    images = pictures(5)
    x = images / 255
    loss = np.array([[LOSSES[text](a, b) for b in x] for a in x])
    expected = loss - np.diagonal(loss)[:, None] if excess else loss
    close = {"rtol": 2e-5, "atol": 2e-6 * np.abs(loss).max()}
    measure, by_element = perceived(text, excess=excess), perceived(text, per_element=True, excess=excess)
    assert np.allclose(measure.matrix(*of(images)), expected, **close)
    assert np.allclose(60 * by_element.matrix(*of(images)), expected, **close)
    u, v = np.indices((5, 5)).reshape(2, -1)
    assert np.allclose(measure.pairs(images[u], images[v]), expected.reshape(-1), **close)
    assert np.allclose(60 * by_element.pairs(images[:2], images[2:4]), expected[:2, 2:4].diagonal(), **close)
    assert np.allclose(measure.of(images)(images[::-1]), expected[:, ::-1].diagonal(), **close)


@pytest.mark.parametrize("text", LOSSES)
def test_an_image_is_at_distance_zero_from_itself_alone(text: str):
    images = pictures(6)
    found = perceived(text).matrix(*of(images))
    assert not np.diagonal(found).any() and (found[~np.eye(6, dtype=bool)] > 0).all()
    assert not perceived(text).pairs(images, images).any()
    assert (perceived(text).pairs(images, images[::-1]) > 0).all()


def test_a_likelihood_of_ones_own(monkeypatch: pytest.MonkeyPatch):
    class Module(uw.LikelihoodModule):
        def __init__(self) -> None:
            super().__init__()
            self.mean = torch.nn.Identity()

        def loss_of_mean(self, mean: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return ((x - mean).abs() * (1 + x)).flatten(1).sum(1)

    @uw.part
    class OwnForDistances(uw.Likelihood):
        def build(self, info: uw.Info) -> uw.LikelihoodModule:
            return Module()

    monkeypatch.setattr(losses, "CHUNK", 400)  # two rows at once, and then one
    images = pictures(3)
    x = images / 255
    expected = np.array([[(np.abs(a - b) * (1 + a)).sum() for b in x] for a in x])
    assert np.abs(expected - expected.T).max() > 0.01
    assert np.allclose(perceived(OwnForDistances()).matrix(*of(images)), expected)
    assert np.allclose(perceived(OwnForDistances()).pairs(images, images[::-1]), np.diagonal(expected[:, ::-1]))

    @uw.part
    class OffsetForDistances(uw.Likelihood):
        def build(self, info: uw.Info) -> uw.LikelihoodModule:
            module = Module()
            module.loss_of_mean = lambda mean, x: (x - 2 * mean).square().flatten(1).sum(1)  # pyright: ignore
            return module

    raw = np.array([[((a - 2 * b) ** 2).sum() for b in x] for a in x])
    for excess, expected in ((False, raw), (True, raw - np.diagonal(raw)[:, None])):
        assert np.allclose(perceived(OffsetForDistances(), excess=excess).matrix(*of(images)), expected, atol=1e-4)
        found = perceived(OffsetForDistances(), excess=excess).pairs(images, images[::-1])
        assert np.allclose(found, np.diagonal(expected[:, ::-1]), atol=1e-4)


@pytest.mark.parametrize("text", ["squared_error", "overlap(squared-error, radius=2)", "gaussian", "laplace"])
def test_symmetric_losses(text: str):
    found = perceived(text).matrix(*of(pictures(6)))
    assert np.array_equal(found, found.T)


def test_floats_tensors_and_vectors():
    images = pictures(4)
    from_bytes = perceived("bernoulli").matrix(*of(images))
    assert np.allclose(perceived("bernoulli").matrix(*of((images / 255).astype(np.float32))), from_bytes, rtol=1e-6)
    tensor = torch.from_numpy(images)
    assert np.array_equal(perceived().pairs(tensor, tensor.flip(0)), perceived().pairs(images, images[::-1]))
    vectors = np.array([[0.0, -3.0], [4.0, 0.0]], np.float32)
    assert np.allclose(perceived().matrix(*of(vectors)), [[0, 25], [25, 0]])
    assert np.allclose(perceived().between(vectors), [[0, 25], [25, 0]])
    assert len(perceived().pairs(images[:0], images[:0])) == 0


@pytest.mark.parametrize("scale", [255.0, -1.0])
def test_pixels_beyond_0_and_1_are_warned_of(scale: float):
    images = (pictures(3) / 255 * scale).astype(np.float32)
    measure = perceived()
    with pytest.warns(UserWarning, match=r"pixels are from .* give uint8 from 0 to 255, or floats in \[0, 1\]"):
        measure.matrix(*of(images))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        measure.pairs(images, images)  # it was said
        perceived().pairs(images / scale, images / scale)
        perceived().pairs(images.reshape(3, -1), images.reshape(3, -1))  # vectors have no range
        reconstruction(lambda x: x).matrix(*of(images))
    with pytest.warns(UserWarning, match=r"pixels are from 0 to 255"):
        perceived().pairs(pictures(3).astype(np.int64), pictures(3).astype(np.int64))
    images[1, 0, 0, 0] = np.nan
    with pytest.raises(UntwineError, match=r"NaN"):
        perceived().pairs(images, images)


def test_what_cannot_be_perceived():
    vectors = np.array([[0.0, -3.0], [4.0, 0.0]], np.float32)
    with pytest.raises(UntwineError, match=r"compares values in \[0, 1\], and these are from -3 to 4"):
        perceived("bernoulli").pairs(vectors, vectors)
    with pytest.raises(UntwineError, match=r"and these are from -3 to 4"):
        perceived("bernoulli").matrix(*of(vectors))
    with pytest.raises(UntwineError, match=r"overlap blurs images"):
        perceived("overlap(squared-error)").matrix(*of(vectors))
    with pytest.raises(UntwineError, match=r"did you mean 'bernoulli'"):
        perceived("bernouli")
    with pytest.raises(UntwineError, match=r"shapes differ"):
        perceived().pairs(pictures(3), pictures(3, (2, 5, 6)))
    for text in ("gaussian(scale=[1, 2])", "overlap(laplace(scale=[1, 2]))", "overlap(bernoulli, weight=[1, 2])"):
        with pytest.raises(UntwineError, match=r"one number, not one for each member"):
            perceived(text)


# --- inside a model -------------------------------------------------------------------------------------


def codes(n: int, members: int | None = None) -> Array:
    shape = (n, 3) if members is None else (members, n, 3)
    return np_uniform(1, "test codes", shape) * 4 - 2


@pytest.mark.parametrize("members", [None, 1, 2])
def test_latent_is_l2(members: int | None):
    z = codes(5, members)
    found = latent(lambda x: z).matrix(*of(pictures(5)))
    each = [z] if members is None else list(z)
    expected = np.array([[[np.sqrt(((a - b) ** 2).sum()) for b in one] for a in one] for one in each])
    assert found.shape == (*z.shape[:-2], 5, 5) and np.allclose(found.reshape(expected.shape), expected)
    tensors = latent(lambda x: torch.from_numpy(z).float().requires_grad_()).matrix(*of(pictures(5)))
    assert np.allclose(tensors, found, atol=1e-6)


@pytest.mark.parametrize("members", [None, 2])
@pytest.mark.parametrize("symmetric", [False, True])
def test_posterior_kl_is_that_of_torch(members: int | None, symmetric: bool):
    z = codes(4, members)
    variances = np.exp(z[..., ::-1])
    found = posterior_kl(lambda x: z, lambda x: variances, symmetric).matrix(*of(pictures(4)))

    def q(member: int, i: int) -> Independent:
        pick = i if members is None else (member, i)
        return Independent(Normal(torch.tensor(z[pick]), torch.tensor(variances[pick]).sqrt()), 1)

    for member in range(members or 1):
        for u in range(4):
            for v in range(4):
                one, other = q(member, u), q(member, v)
                kl = kl_divergence(one, other).item()
                expected = (kl + kl_divergence(other, one).item()) / 2 if symmetric else kl
                assert np.isclose(found[u, v] if members is None else found[member, u, v], expected)


def test_posterior_kl_of_narrow_posteriors_far_away():
    """What cancels in the products of matrices must not be seen: compared with the sum as it is defined."""
    means = 1e3 + codes(6)
    variances = np.full_like(means, 1e-4)
    means[3], variances[4] = means[2], 2e-4
    found = posterior_kl(lambda x: means, lambda x: variances).matrix(*of(pictures(6)))
    ratio = variances[:, None] / variances[None]
    expected = 0.5 * (ratio - 1 - np.log(ratio) + (means[:, None] - means[None]) ** 2 / variances[None]).sum(-1)
    assert found.dtype == np.float64 and (found >= 0).all() and not np.diagonal(found).any()
    assert np.allclose(found, expected, rtol=1e-9, atol=1e-8) and found[2, 3] < 1e-8


@pytest.mark.parametrize("members", [None, 2])
@pytest.mark.parametrize("excess", [True, False])
def test_reconstructions_are_perceived(members: int | None, excess: bool):
    images = pictures(4)
    made = images / 510 if members is None else np.stack([images / 510, (255 - images) / 300])
    found = reconstruction(lambda x: made, "bernoulli", excess=excess).matrix(*of(images))
    each = [made] if members is None else list(made)
    own = int(excess)
    expected = np.array([[[cross_entropy(a, b) - own * cross_entropy(a, a) for b in one] for a in one] for one in each])
    assert np.allclose(found, expected[0] if members is None else expected, rtol=2e-5, atol=1e-5)
    if not excess:
        return
    by_element = reconstruction(lambda x: made, "bernoulli", per_element=True).matrix(*of(images))
    assert np.allclose(by_element * 60, found)


def test_of_a_trained_ensemble():
    data = uw.datasets.three_dots(size=16, positions=8, examples=40)
    network = uw.networks.mlp(hidden=(8,))
    ensemble = uw.fit(uw.Run(method="vae", dataset=data, network=network, latents=2, seeds=[0, 1], steps=2))
    images, factors = data.batch(range(5)), data.factors_of(range(5))
    for measure in (
        latent(ensemble.encode),
        posterior_kl(ensemble.encode, ensemble.variances),
        reconstruction(lambda x: ensemble.decode(ensemble.encode(x)), "bernoulli"),
    ):
        found = measure.matrix(factors, images)
        assert found.shape == (2, 5, 5) and np.isfinite(found).all() and not np.allclose(found[0], found[1])


def test_a_model_that_gives_something_else():
    with pytest.raises(UntwineError, match=r"codes of shape \[3, 2\] for 4 images; they must be \[4, ...\] or \[memb"):
        latent(lambda x: np.zeros((3, 2))).matrix(*of(pictures(4)))
    with pytest.raises(UntwineError, match=r"NaN"):
        latent(lambda x: np.full((4, 2), np.nan)).matrix(*of(pictures(4)))
    with pytest.raises(UntwineError, match=r"variance 0"):
        posterior_kl(lambda x: np.zeros((4, 2)), lambda x: np.zeros((4, 2))).matrix(*of(pictures(4)))
    with pytest.raises(UntwineError, match=r"variances \[4, 3\]"):
        posterior_kl(lambda x: np.zeros((4, 2)), lambda x: np.ones((4, 3))).matrix(*of(pictures(4)))
    with pytest.raises(UntwineError, match=r"images of shape \[4, 2\] for 4 images"):
        reconstruction(lambda x: np.zeros((4, 2))).matrix(*of(pictures(4)))

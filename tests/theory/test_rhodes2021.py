"""Rhodes & Lee 2021, section 4: what the ELBO's second-order form (Eq. 2) says, and what it leaves out.

Eq. 2 replaces E[log p(x|z)] by log p(x|h(x)) + tr(J^T H J S) / 2, with J the Jacobian of the mean image, H the
Hessian of log p(x; g) (the paper says of p) in the mean image g, and S the posterior covariance. The full second
order has one more term, sum_k (d log p / d g_k) tr(hess(g_k) S) / 2: the decoder's own curvature. It vanishes for
a decoder that is linear around z (ReLUs with a linear output), and for a perfect reconstruction. For Bernoulli
images it vanishes in neither way: the sigmoid is curved, and a binary image is never met exactly.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import untwine as uw
from untwine.model.info import Info
from untwine.model.networks import Network
from untwine.model.vae import VAE, create
from untwine.objective.evaluation import at_step, evaluate
from untwine.objective.penalties import jacobian, kl, linearised_reconstruction

PIXELS = 5
MEAN = torch.tensor([0.4, -0.7]).double()
VARIANCE = torch.tensor([1.0, 0.4]).double()  # the shape of the posterior; its size is the test's


class Fixed(nn.Module):
    """An encoder that answers the same posterior to everything: N(MEAN, scale^2 VARIANCE)."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("raw", torch.cat((MEAN, VARIANCE.log())))

    def resize(self, scale: float) -> None:
        self.raw[2:] = VARIANCE.log() + 2 * math.log(scale)

    def forward(self, x: Tensor) -> Tensor:
        return self.raw.expand(len(x), 4)


def model(likelihood: object, *middle: nn.Module, width: int = 6) -> VAE:
    decoder = nn.Sequential(nn.Linear(2, width), *middle, nn.Linear(width, PIXELS))
    network = Network({}, lambda info, outputs: (Fixed(), decoder))
    parts = likelihood, uw.posteriors.diagonal_normal, uw.priors.standard_normal
    vae = create(Info(2, (PIXELS,)), network, *parts).double()  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in vae.decoder.parameters():
            parameter.mul_(2.0)
    return vae


def quadrature(count: int = 24) -> tuple[Tensor, Tensor]:
    """Nodes and weights for a standard normal in the plane."""
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.hermite_e.hermegauss(count))
    return torch.cartesian_prod(nodes, nodes), torch.cartesian_prod(weights, weights).prod(1) / (2 * math.pi)


def added(vae: VAE, x: Tensor, scale: float) -> float:
    """E[-log p(x|z)] - (-log p(x|h(x))), the expectation by quadrature."""
    nodes, weights = quadrature()
    z = MEAN + scale * VARIANCE.sqrt() * nodes
    losses = vae.likelihood.loss(vae.decoder(z), x.expand(len(z), -1))
    return ((weights * losses).sum() - vae.likelihood.loss(vae.decoder(MEAN[None]), x[None])[0]).item()


def parts(vae: VAE, x: Tensor, logits: bool = False) -> tuple[float, float]:
    """For scale 1: Eq. 2's term (as a loss), and the term of the decoder's curvature that it leaves out."""
    decode = (lambda z: vae.decoder(z[None])[0]) if logits else (lambda z: vae.decode(z[None])[0])
    loss = vae.likelihood.loss if logits else vae.likelihood.loss_of_mean
    of_output = lambda g: loss(g[None], x[None])[0]
    g = decode(MEAN)
    J = torch.func.jacrev(decode)(MEAN)
    H = torch.func.hessian(of_output)(g)
    curvature = torch.einsum("k,kij->ij", torch.func.grad(of_output)(g), torch.func.hessian(decode)(MEAN))
    covariance = torch.diag(VARIANCE)
    return 0.5 * torch.trace(J.T @ H @ J @ covariance).item(), 0.5 * torch.trace(curvature @ covariance).item()


def order(errors: list[float]) -> list[float]:
    """The powers of the scale at which errors fall, for scales halved from one to the next."""
    return [math.log2(abs(a / b)) for a, b in itertools.pairwise(errors)]


SCALES = [0.04, 0.02, 0.01]
X = torch.tensor([0.0, 1.0, 1.0, 0.3, 0.8]).double()
BINARY = X.round()


# --- where Eq. 2 holds ------------------------------------------------------------------------------


def test_squared_error_and_a_linear_decoder_exactly():
    vae = model(uw.likelihoods.squared_error)
    term, curvature = parts(vae, X)
    assert abs(curvature) < 1e-12 < 0.1 < term
    for scale in (2.0, 1.0, 0.1):
        assert added(vae, X, scale) == pytest.approx(scale**2 * term, rel=1e-9)


def test_squared_error_and_relus_away_from_their_kinks():
    vae = model(uw.likelihoods.squared_error, nn.ReLU())
    assert vae.decoder[0](MEAN).abs().min() > 0.05  # twenty standard deviations of the smallest posterior
    term, _ = parts(vae, X)
    assert added(vae, X, 0.001) == pytest.approx(0.001**2 * term, rel=1e-6)
    assert added(vae, X, 1.0) != pytest.approx(term, rel=1e-2)  # a wide posterior sees the kinks


@pytest.mark.parametrize("likelihood", [uw.likelihoods.squared_error, uw.likelihoods.bernoulli])
def test_perfect_reconstruction_to_fourth_order(likelihood):
    """For a smooth decoder the error is O(scale^4) against a term of O(scale^2), where the image is met exactly."""
    vae = model(likelihood, nn.Tanh())
    x = vae.decode(MEAN[None])[0].detach()
    term, curvature = parts(vae, x)
    assert abs(curvature) < 1e-12 and term > 0.01
    errors = [added(vae, x, scale) - scale**2 * term for scale in SCALES]
    assert order(errors) == pytest.approx([4, 4], abs=0.2)
    assert abs(errors[-1]) < 0.05 * SCALES[-1] ** 2 * term


def test_the_monte_carlo_elbo_of_our_own_objective():
    """`evaluate` with many samples at small variances is Eq. 2 in all of its terms, for both likelihoods."""
    half = torch.randn(10_000, 2, generator=torch.Generator().manual_seed(0)).double()
    eps = torch.cat((half, -half))
    for likelihood in (uw.likelihoods.squared_error, uw.likelihoods.bernoulli):
        vae = model(likelihood, nn.Tanh())
        vae.encoder.resize(scale := 0.02)
        x = vae.decode(MEAN[None]).detach()
        terms = evaluate(vae, at_step({"kl": 4.0 * kl}, 0), x.expand(len(eps), -1), {"posterior": eps})
        variance = scale**2 * VARIANCE
        divergence = 0.5 * (MEAN.square() + variance - variance.log() - 1).sum().item()
        exact = vae.likelihood.loss(vae.decoder(MEAN[None]), x).item()
        second = scale**2 * parts(vae, x[0])[0]
        noise = terms["reconstruction"].item() - exact - second
        assert abs(noise) < 0.05 * second  # 20,000 samples know the term to some percent
        assert terms["loss"].item() == pytest.approx(exact + second + 4 * divergence, abs=0.05 * second)


# --- what it leaves out -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("likelihood", "x"),
    [(uw.likelihoods.squared_error, X), (uw.likelihoods.bernoulli, BINARY)],
    ids=["squares", "bits"],
)
def test_otherwise_it_drops_a_term_of_the_same_order(likelihood, x):
    """The error of Eq. 2 falls only as its own term does; with the decoder's curvature it falls as scale^4."""
    vae = model(likelihood, nn.Tanh())
    term, curvature = parts(vae, x)
    errors = [added(vae, x, scale) - scale**2 * term for scale in SCALES]
    assert order(errors) == pytest.approx([2, 2], abs=0.2)
    assert errors[-1] == pytest.approx(SCALES[-1] ** 2 * curvature, rel=0.05)
    assert abs(curvature) > 0.05 * abs(term)
    whole = [error - scale**2 * curvature for error, scale in zip(errors, SCALES, strict=True)]
    assert order(whole) == pytest.approx([4, 4], abs=0.3)


@pytest.mark.parametrize("p", [0.6, 0.9, 0.99])
def test_for_bits_it_is_too_small_by_the_odds(p):
    """A pixel that is 1, of mean p = sigmoid(a z): (1 - p)^2 a^2 s^2 / 2 by Eq. 2, in truth p (1 - p) a^2 s^2 / 2."""
    logit = math.log(p / (1 - p))
    scale, slope = 1e-2, 1.5
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.hermite_e.hermegauss(20))
    losses = torch.nn.functional.softplus(-(logit + slope * scale * nodes))
    truth = (weights * losses).sum().item() / math.sqrt(2 * math.pi) - math.log1p(math.exp(-logit))
    equation_2 = 0.5 * (1 / p**2) * (p * (1 - p) * slope) ** 2 * scale**2
    assert truth / equation_2 == pytest.approx(p / (1 - p), rel=1e-2)


def test_for_bits_it_is_right_on_average_over_calibrated_images():
    """Over x ~ Bernoulli(g(z)) the dropped term has mean zero: all 32 images, weighed by their probability."""
    vae = model(uw.likelihoods.bernoulli, nn.Tanh())
    images = torch.cartesian_prod(*[torch.tensor([0.0, 1.0]).double()] * PIXELS)
    probability = (-vae.likelihood.loss(vae.decoder(MEAN.expand(32, -1)), images)).exp().tolist()
    assert sum(probability) == pytest.approx(1)
    terms = np.array([parts(vae, x) for x in images])
    kept, dropped = np.average(terms, axis=0, weights=probability)
    assert abs(dropped) < 1e-9 * kept and np.abs(terms[:, 1]).max() > 0.1 * kept


def test_for_bits_it_holds_with_logits_in_place_of_means():
    """Reading g as the logits (J and H in them), a linear decoder of logits has no curvature, whatever the image."""
    vae = model(uw.likelihoods.bernoulli)
    term, curvature = parts(vae, BINARY, logits=True)
    assert abs(curvature) < 1e-12
    assert order([added(vae, BINARY, scale) - scale**2 * term for scale in SCALES]) == pytest.approx([4, 4], abs=0.2)
    of_means, _ = parts(vae, BINARY)
    assert of_means != pytest.approx(term, rel=0.05)


# --- rotations: why L1 ------------------------------------------------------------------------------


def rotated(weight: Tensor, angle: float) -> dict[str, float]:
    """Our penalties for the linear decoder W R(angle), at a posterior of equal variances."""
    c, s = math.cos(angle), math.sin(angle)
    vae = model(uw.likelihoods.squared_error)
    vae.decoder = nn.Sequential(nn.Linear(2, PIXELS, dtype=torch.float64))
    with torch.no_grad():
        vae.decoder[0].weight.copy_(weight @ torch.tensor([[c, -s], [s, c]], dtype=torch.float64))
        vae.encoder.raw[2:] = -2.0
    watched = {"l1": jacobian(1), "l2": jacobian(2), "linearised": linearised_reconstruction}
    terms = evaluate(vae, at_step(watched, 0), X[None], {"posterior": torch.zeros(1, 2).double()})
    return {name: terms[name].item() for name in watched}


def test_l1_chooses_a_rotation_where_l2_and_the_vae_do_not():
    """Two latents that move two separate pairs of pixels, with equal singular values."""
    weight = torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 1], [0, 0]]).double()
    angles = [k * math.pi / 16 for k in range(9)]  # up to a quarter turn
    found = [rotated(weight, angle) for angle in angles]
    for name in ("l2", "linearised"):
        assert [one[name] for one in found] == pytest.approx([found[0][name]] * 9)
    assert [one["l1"] for one in found] == pytest.approx([4 * (math.cos(a) + math.sin(a)) for a in angles])
    assert min(range(9), key=lambda k: found[k]["l1"]) in (0, 8)  # aligned, up to a swap


def test_l2_never_sees_a_rotation():
    weight = torch.randn(PIXELS, 2, generator=torch.Generator().manual_seed(0)).double()
    values = [rotated(weight, angle) for angle in (0.0, 0.3, 1.0)]
    assert [one["l2"] for one in values] == pytest.approx([weight.square().sum().item()] * 3)
    assert values[0]["l1"] != pytest.approx(values[1]["l1"], rel=1e-2)

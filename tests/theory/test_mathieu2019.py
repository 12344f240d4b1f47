"""Mathieu et al. 2019, section 4: Theorems 1 and 2 and Corollary 1, by numbers and through our own objective."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import integrate, stats
from torch import Tensor, nn
from torch import distributions as D

import untwine as uw
from untwine.model.info import Info
from untwine.model.networks import Network
from untwine.model.posteriors import FullQ
from untwine.model.vae import VAE, create
from untwine.objective.core import at_step, evaluate
from untwine.objective.penalties import kl

LATENTS, PIXELS = 3, 6
INFO = Info(LATENTS, (PIXELS,))


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(seed: int) -> Tensor:
    q = torch.linalg.qr(normal(LATENTS, LATENTS, seed=seed))[0]
    return q * torch.linalg.det(q).sign()


# --- rotations of a model ---------------------------------------------------------------------------


class Encoder(nn.Module):
    """N(R mu(x), R S(x) R^T) as a full or, its covariance's diagonal alone, a diagonal posterior."""

    def __init__(self, inner: nn.Module, turn: Tensor, kind: str):
        super().__init__()
        self.inner, self.turn, self.kind = inner, turn, kind

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q = uw.posteriors.full_normal.build(self.inner(x))
        assert isinstance(q, FullQ)
        factor = torch.diag_embed(q.variance().sqrt()) if self.kind == "diagonal" else q.factor
        return q.mean @ self.turn.T, self.turn @ factor @ factor.mT @ self.turn.T

    def forward(self, x: Tensor) -> Tensor:
        mean, covariance = self.moments(x)
        if self.kind == "diagonal":
            return torch.cat((mean, torch.diagonal(covariance, dim1=1, dim2=2).log()), 1)
        factor = torch.linalg.cholesky(covariance)
        rows, columns = torch.tril_indices(LATENTS, LATENTS, -1)
        log_diagonal = 2 * torch.diagonal(factor, dim1=1, dim2=2).log()
        return torch.cat((mean, log_diagonal, factor[:, rows, columns]), 1)


class Turned(nn.Module):
    """Dec(R^T z)."""

    def __init__(self, inner: nn.Module, turn: Tensor):
        super().__init__()
        self.inner, self.turn = inner, turn

    def forward(self, z: Tensor) -> Tensor:
        return self.inner(z @ self.turn)


def model(turn: Tensor, kind: str = "full", linear: bool = False, **parts: object) -> VAE:
    inner = nn.Sequential(nn.Linear(PIXELS, 8), nn.Tanh(), nn.Linear(8, uw.posteriors.full_normal.width(LATENTS)))
    layers = [nn.Linear(LATENTS, PIXELS)] if linear else [nn.Linear(LATENTS, 7), nn.Tanh(), nn.Linear(7, PIXELS)]
    decoder = nn.Sequential(*layers)
    for index, parameter in enumerate([*inner.parameters(), *decoder.parameters()]):
        parameter.data = 0.6 * normal(*parameter.shape, seed=index)
    network = Network({}, lambda info, outputs: (Encoder(inner, turn, kind), Turned(decoder, turn)))
    posterior = uw.posteriors.full_normal if kind == "full" else uw.posteriors.diagonal_normal
    likelihood = parts.get("likelihood", uw.likelihoods.bernoulli)
    return VAE(INFO, network, likelihood, posterior, parts.get("prior", uw.priors.standard_normal)).double()  # type: ignore[arg-type]


X = torch.rand(10, PIXELS, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
IDENTITY = torch.eye(LATENTS).double()


def objective(vae: VAE, x: Tensor, eps: Tensor, beta: float = 4.0) -> dict[str, float]:
    terms = evaluate(vae, at_step({"kl": beta * kl}, 0), x, {"posterior": eps})
    return {name: value.item() for name, value in terms.items()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("likelihood", [uw.likelihoods.bernoulli, uw.likelihoods.squared_error])
def test_theorem_2_with_a_full_covariance(likelihood, seed):
    """The beta-VAE objective of `evaluate` is the same for every rotation of encoder and decoder, whatever beta."""
    base, turned = model(IDENTITY, likelihood=likelihood), model(rotation(seed), likelihood=likelihood)
    eps = normal(10, LATENTS, seed=3)
    # The same samples in the turned model: R L eps = L' eps', an orthogonal change of the noise for each example.
    before, after = base.posterior(X), turned.posterior(X)
    moved = torch.linalg.solve(after.factor, rotation(seed) @ before.factor @ eps[..., None])[..., 0]
    assert torch.allclose(moved.norm(dim=1), eps.norm(dim=1))
    for beta in (0.5, 4.0):
        ours, theirs = objective(base, X, eps, beta), objective(turned, X, moved, beta)
        assert ours == pytest.approx(theirs, rel=1e-9)
        assert ours["kl"] > 0.1
    assert (before.mean - after.mean).abs().max() > 0.1  # it is another model


def test_theorem_2_holds_for_an_isotropic_prior_of_any_size_and_for_no_other():
    eps = normal(10, LATENTS, seed=3)
    turn = rotation(0)

    def kls(prior: D.Distribution) -> list[float]:
        part = uw.priors.given(prior)
        return [objective(model(r, prior=part), X, eps)["kl"] for r in (IDENTITY, turn)]

    for scale in (0.5, 2.0):
        first, second = kls(D.Independent(D.Normal(torch.zeros(3), torch.full((3,), scale)), 1))
        assert first == pytest.approx(second, rel=1e-9)
    first, second = kls(D.Independent(D.Normal(torch.zeros(3), torch.tensor([0.5, 1.0, 2.0])), 1))
    assert abs(first / second - 1) > 0.01


def test_a_diagonal_posterior_breaks_the_symmetry():
    """The turned posterior keeps its diagonal alone: the KL falls by half the log-ratio of the determinants
    (Hadamard), and the reconstruction changes by the covariance that is lost. Exact for a linear decoder, with
    noise at +-sqrt(d) e_j, which has the moments of a standard normal up to the third."""
    turn = rotation(1)
    corners = math.sqrt(LATENTS) * torch.cat((IDENTITY, -IDENTITY))
    x, eps = X.repeat_interleave(6, 0), corners.repeat(10, 1)
    parts = dict(kind="diagonal", linear=True, likelihood=uw.likelihoods.squared_error)
    base, turned = model(IDENTITY, **parts), model(turn, **parts)
    ours, theirs = objective(base, x, eps), objective(turned, x, eps)

    variance = base.posterior(X).variance()
    whole = turn @ torch.diag_embed(variance) @ turn.T
    kept = torch.diag_embed(torch.diagonal(whole, dim1=1, dim2=2))
    fall = 0.5 * (torch.logdet(kept) - torch.logdet(whole)).mean().item()
    assert ours["kl"] - theirs["kl"] == pytest.approx(fall) and fall > 0.01
    weight = base.decoder.inner[0].weight
    lost = turn.T @ (kept - whole) @ turn
    change = torch.einsum("pi,bij,pj->", weight, lost, weight).item() / len(X)
    assert theirs["reconstruction"] - ours["reconstruction"] == pytest.approx(change) and abs(change) > 0.01
    assert abs(theirs["loss"] - ours["loss"]) > 0.05

    full = [objective(model(r, **{**parts, "kind": "full"}), x, eps) for r in (IDENTITY, turn)]
    assert full[0] == pytest.approx(full[1], rel=1e-9)  # and the full one, on the same noise, does not


def test_a_diagonal_posterior_of_equal_variances_does_not_break_it():
    base, turned = model(IDENTITY, "diagonal"), model(rotation(2), "diagonal")
    for vae in (base, turned):
        vae.encoder.inner[2].weight.data[LATENTS:] = 0
        vae.encoder.inner[2].bias.data[LATENTS:] = 0
        vae.encoder.inner[2].bias.data[LATENTS : 2 * LATENTS] = -1.0
    eps = normal(10, LATENTS, seed=3)
    assert objective(base, X, eps) == pytest.approx(objective(turned, X, eps @ rotation(2).T), rel=1e-9)


# --- Corollary 1 ------------------------------------------------------------------------------------


def linear_gaussian(weight: Tensor, x: Tensor, mean: Tensor, covariance: Tensor) -> float:
    """E[log N(x; W z, I)] for z ~ N(mean, covariance), in closed form."""
    error = (x - weight @ mean).square().sum() + torch.trace(weight @ covariance @ weight.T)
    return (-0.5 * error - len(x) / 2 * math.log(2 * math.pi)).item()


@pytest.mark.parametrize("beta", [0.3, 1.0, 4.0])
def test_corollary_1(beta):
    """L_beta(theta, phi) = L(theta', phi') + (beta - 1) / 2 log |S'| + c, with a prior N(0, Sigma) of any Sigma."""
    weight, x, mean = normal(5, 3), normal(5, seed=1), normal(3, seed=2)
    lower = torch.tril(normal(3, 3, seed=3)) + 2 * torch.eye(3)
    covariance = 0.1 * lower @ lower.T
    sigma = normal(3, 3, seed=4)
    sigma = sigma @ sigma.T + torch.eye(3)
    prior = D.MultivariateNormal(torch.zeros(3).double(), sigma)

    def divergence(mean: Tensor, covariance: Tensor) -> float:
        q = FullQ(mean[None], torch.linalg.cholesky(covariance)[None])
        ours = q.kl(prior).item()
        assert ours == pytest.approx(D.kl_divergence(D.MultivariateNormal(mean, covariance), prior).item())
        return ours

    left = linear_gaussian(weight, x, mean, covariance) - beta * divergence(mean, covariance)
    scaled = linear_gaussian(weight / math.sqrt(beta), x, math.sqrt(beta) * mean, beta * covariance)
    right = scaled - divergence(math.sqrt(beta) * mean, beta * covariance)
    log_f = (
        1.5 * (1 - beta) * math.log(2 * math.pi) + (1 - beta) / 2 * torch.logdet(sigma).item() - 1.5 * math.log(beta)
    )
    constant = 1.5 * (beta - 1) * (1 + math.log(2 * math.pi / beta)) + log_f
    assert left == pytest.approx(right + (beta - 1) / 2 * torch.logdet(beta * covariance).item() + constant)


def test_the_constant_of_corollary_1():
    """F_beta is the integral of p^beta, by quadrature, in one dimension."""
    sigma = 1.7
    for beta in (0.5, 3.0):
        integral = integrate.quad(lambda z, b=beta: stats.norm.pdf(z, scale=sigma) ** b, -60, 60)[0]
        closed = (2 * math.pi * sigma**2) ** ((1 - beta) / 2) / math.sqrt(beta)
        assert integral == pytest.approx(closed)


@pytest.mark.parametrize("beta", [0.4, 3.0])
def test_theorem_1_for_a_prior_that_is_not_gaussian(beta):
    """L_beta(x) = ELBO of p(x|z) p(z)^beta / F + (beta - 1) H(q) + log F, one latent, Laplace prior, by quadrature."""
    q, prior = stats.norm(0.4, 0.6), stats.laplace(scale=0.8)
    likelihood = lambda z: stats.norm.logpdf(0.3, loc=math.sin(2 * z), scale=0.5)
    mean = lambda f: integrate.quad(lambda z: q.pdf(z) * f(z), -8, 8, points=[0.0], limit=200)[0]
    log_f = math.log(integrate.quad(lambda z: prior.pdf(z) ** beta, -60, 60, points=[0.0], limit=200)[0])
    left = mean(likelihood) - beta * mean(lambda z: q.logpdf(z) - prior.logpdf(z))
    adjusted = mean(lambda z: likelihood(z) + beta * prior.logpdf(z) - log_f - q.logpdf(z))
    assert left == pytest.approx(adjusted + (beta - 1) * q.entropy() + log_f, rel=1e-7)


# --- our methods, said in their words ---------------------------------------------------------------


def test_beta_scales_the_latent_space_alone():
    """Corollary 1 through `evaluate`: beta-VAE, and the rescaled model's ELBO with its entropy term."""
    beta = 4.0
    base = create(INFO, uw.networks.mlp((8,), activation="tanh"), *_parts()).double()
    scaled = create(INFO, uw.networks.mlp((8,), activation="tanh"), *_parts()).double()
    with torch.no_grad():
        head, first = scaled.encoder[-1], scaled.decoder[0]
        head.weight[:LATENTS] *= math.sqrt(beta)
        head.bias[:LATENTS] *= math.sqrt(beta)
        head.bias[LATENTS:] += math.log(beta)
        first.weight /= math.sqrt(beta)
    eps = normal(10, LATENTS, seed=5)
    left = -objective(base, X, eps, beta)["loss"]
    right = -objective(scaled, X, eps, 1.0)["loss"]
    entropy = (beta - 1) / 2 * scaled.posterior(X).variance().log().sum(1).mean().item()
    log_f = LATENTS / 2 * ((1 - beta) * math.log(2 * math.pi) - math.log(beta))
    constant = LATENTS * (beta - 1) / 2 * (1 + math.log(2 * math.pi / beta)) + log_f
    assert left == pytest.approx(right + entropy + constant)


def _parts() -> tuple[object, ...]:
    return uw.likelihoods.bernoulli, uw.posteriors.diagonal_normal, uw.priors.standard_normal

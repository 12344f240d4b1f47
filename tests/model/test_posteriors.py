"""Posteriors against torch.distributions, Monte Carlo, and themselves under vmap."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions as D

from untwine.errors import UntwineError
from untwine.model.posteriors import DiagonalQ, FullQ, Q, deterministic, diagonal_normal, full_normal

LATENTS = 3
LOWER = torch.tensor([[1.2, 0, 0], [-0.7, 0.5, 0], [0.4, 0.9, 2.0]], dtype=torch.float64)
LOC = torch.tensor([0.5, -1.0, 0.2], dtype=torch.float64)
SCALE = torch.tensor([0.5, 1.5, 2.0], dtype=torch.float64)
KINDS = {"diagonal": diagonal_normal, "full": full_normal}
PRIORS = {
    "standard": D.Independent(D.Normal(torch.zeros(3).double(), torch.ones(3).double()), 1),
    "anisotropic": D.Independent(D.Normal(LOC, SCALE), 1),
    "multivariate": D.MultivariateNormal(LOC, scale_tril=LOWER),
}
# No closed form for at least one of the posteriors.
OTHERS = {
    "laplace": D.Independent(D.Laplace(LOC, SCALE), 1),
    "student": D.Independent(D.StudentT(torch.full((3,), 4.0).double(), LOC, SCALE), 1),
    "mixture": D.MixtureSameFamily(
        D.Categorical(torch.tensor([0.3, 0.7]).double()),
        D.Independent(D.Normal(torch.stack((LOC, -LOC)), torch.stack((SCALE, SCALE.flip(0)))), 1),
    ),
}


def raw(kind: str, batch: int = 4) -> torch.Tensor:
    made = torch.randn(batch, KINDS[kind].width(LATENTS), generator=torch.Generator().manual_seed(5))
    return made.double()


def same(q: Q) -> D.MultivariateNormal:
    """The posterior as torch's own multivariate normal, from its samples' exact linear map."""
    zero = torch.zeros_like(q.mean)
    columns = [q.sample(zero + torch.eye(LATENTS).double()[j]) - q.sample(zero) for j in range(LATENTS)]
    factor = torch.stack(columns, -1)
    return D.MultivariateNormal(q.sample(zero), covariance_matrix=factor @ factor.mT)


# --- what the raw output means ----------------------------------------------------------------------


def test_diagonal_reads_means_then_log_variances():
    values = raw("diagonal")
    q = diagonal_normal.build(values)
    assert torch.equal(q.mean, values[:, :3])
    assert torch.allclose(q.variance(), values[:, 3:].exp())
    assert torch.equal(values[:, diagonal_normal.log_variances(3)], values[:, 3:])


def test_full_reads_means_log_squares_of_the_diagonal_then_what_is_below():
    values = raw("full")
    q = full_normal.build(values)
    assert isinstance(q, FullQ)
    expected = torch.zeros(4, 3, 3).double()
    for row, column, index in ((1, 0, 6), (2, 0, 7), (2, 1, 8)):
        expected[:, row, column] = values[:, index]
    for j in range(3):
        expected[:, j, j] = (values[:, 3 + j] / 2).exp()
    assert torch.equal(q.mean, values[:, :3]) and torch.allclose(q.factor, expected)
    assert torch.allclose(q.variance(), torch.diagonal(expected @ expected.mT, dim1=1, dim2=2))


@pytest.mark.parametrize("latents", [1, 2, 3, 10, 25, 64])
def test_widths(latents):
    assert diagonal_normal.width(latents) == 2 * latents and deterministic.width(latents) == latents
    width = full_normal.width(latents)
    assert width == latents + latents * (latents + 1) // 2
    assert full_normal.build(torch.zeros(2, width)).mean.shape == (2, latents)


def test_full_with_nothing_below_the_diagonal_is_diagonal():
    values = raw("diagonal")
    full = full_normal.build(torch.cat((values, torch.zeros(4, 3)), 1))
    diagonal, eps = diagonal_normal.build(values), torch.randn(4, 3).double()
    assert torch.allclose(full.sample(eps), diagonal.sample(eps))
    assert torch.allclose(full.log_prob(eps), diagonal.log_prob(eps))
    assert torch.allclose(full.spread(), diagonal.spread())
    for prior in PRIORS.values():
        assert torch.allclose(full.kl(prior), diagonal.kl(prior))


def test_half_precision_is_lifted_to_float32():
    for kind in (diagonal_normal, full_normal, deterministic):
        assert kind.build(torch.zeros(2, kind.width(3), dtype=torch.bfloat16)).mean.dtype == torch.float32


# --- samples and densities --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_samples_have_the_mean_and_the_covariance(kind):
    q = KINDS[kind].build(raw(kind, 1).expand(200_000, -1))
    z = q.sample(torch.randn(200_000, 3, generator=torch.Generator().manual_seed(0)).double())
    factor = q.factor[0] if isinstance(q, FullQ) else torch.diag_embed(q.variance()[0].sqrt())
    covariance = factor @ factor.T
    spread = covariance.diagonal().sqrt()
    assert ((z.mean(0) - q.mean[0]).abs() < 5 * spread / math.sqrt(200_000)).all()
    # The standard error of a covariance of normals is at most sqrt(2 / n) of the product of the spreads.
    assert ((z.T.cov() - covariance).abs() < 5 * math.sqrt(2 / 200_000) * torch.outer(spread, spread)).all()
    assert torch.allclose(torch.einsum("kbi,kbj->bij", q.spread(), q.spread())[0], covariance)


@pytest.mark.parametrize("kind", KINDS)
def test_log_prob(kind):
    q, z = KINDS[kind].build(raw(kind)), 2 * torch.randn(4, 3, generator=torch.Generator().manual_seed(1)).double()
    assert torch.allclose(q.log_prob(z), same(q).log_prob(z))


@pytest.mark.parametrize("kind", KINDS)
def test_the_sample_is_differentiable_in_the_raw_output(kind):
    eps = torch.randn(4, 3, generator=torch.Generator().manual_seed(2)).double()
    values = raw(kind).requires_grad_()
    assert torch.autograd.gradcheck(lambda r: KINDS[kind].build(r).sample(eps), values)
    assert torch.autograd.gradcheck(lambda r: KINDS[kind].build(r).kl(PRIORS["multivariate"]), values)


# --- KL ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("kind", KINDS)
def test_closed_kl_against_torch(kind, prior):
    q, p = KINDS[kind].build(raw(kind)), PRIORS[prior]
    if isinstance(p, D.Independent):
        p = D.MultivariateNormal(p.base_dist.loc, scale_tril=torch.diag(p.base_dist.scale))
    closed = q.closed_kl(PRIORS[prior])
    assert closed is not None and torch.allclose(closed, D.kl_divergence(same(q), p))
    assert torch.equal(closed, q.kl(PRIORS[prior])) and (closed > 0).all()


def quadrature(q: Q, p: D.Distribution) -> float:
    """KL(q || p) of the first posterior: its entropy, and E log p by Gauss-Hermite quadrature."""
    normal = same(q)
    normal = D.MultivariateNormal(normal.loc[0], normal.covariance_matrix[0])
    if isinstance(p, D.Independent) and isinstance(p.base_dist, D.Laplace):  # a kink: fold each normal instead
        scale = normal.variance.sqrt().numpy()
        distance = stats.foldnorm((normal.loc - LOC).abs().numpy() / scale, scale=scale).mean()
        return (-normal.entropy() + ((2 * SCALE).log() + torch.from_numpy(distance) / SCALE).sum()).item()
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.hermite_e.hermegauss(32))
    grid = torch.cartesian_prod(nodes, nodes, nodes)
    density = torch.cartesian_prod(weights, weights, weights).prod(1) / math.sqrt(2 * math.pi) ** 3
    z = normal.loc + grid @ normal.scale_tril.T
    return (-normal.entropy() - (density * p.log_prob(z)).sum()).item()


@pytest.mark.parametrize("prior", [*PRIORS, *OTHERS])
@pytest.mark.parametrize("kind", KINDS)
def test_kl_is_right_or_unbiased(kind, prior):
    """In closed form it equals the integral; otherwise its mean over samples comes to it."""
    p, n = (PRIORS | OTHERS)[prior], 40_000
    q = KINDS[kind].build(raw(kind, 1))
    expected = quadrature(q, p)
    if q.closed_kl(p) is not None:
        assert q.kl(p).item() == pytest.approx(expected, abs=1e-6)
    eps = torch.randn(n, 3, generator=torch.Generator().manual_seed(4)).double()
    many = KINDS[kind].build(raw(kind, 1).expand(n, -1))
    samples = many.log_prob(many.sample(eps)) - p.log_prob(many.sample(eps))
    error = samples.std().item() / math.sqrt(n)
    assert error < 0.05 and samples.mean().item() == pytest.approx(expected, abs=4 * error)
    if q.closed_kl(p) is None:
        assert torch.equal(many.kl(p, many.sample(eps)), samples)


def test_which_kls_are_closed():
    diagonal, full = (KINDS[kind].build(raw(kind)) for kind in ("diagonal", "full"))
    for prior in PRIORS.values():
        assert diagonal.closed_kl(prior) is not None and full.closed_kl(prior) is not None
    assert diagonal.closed_kl(OTHERS["laplace"]) is not None  # torch has it
    for q, name in ((full, "laplace"), (diagonal, "student"), (full, "student"), (diagonal, "mixture")):
        assert q.closed_kl(OTHERS[name]) is None
        with pytest.raises(UntwineError, match="needs a sample"):
            q.kl(OTHERS[name])


def test_kl_of_rolinek_s77():
    q = full_normal.build(raw("full"))
    covariance = q.factor @ q.factor.mT
    trace, log_det = torch.diagonal(covariance, dim1=1, dim2=2).sum(1), torch.linalg.slogdet(covariance)[1]
    expected = 0.5 * (q.mean.square().sum(1) + trace - log_det - 3)
    assert torch.allclose(q.kl(PRIORS["standard"]), expected)


def test_kl_of_rolinek_equation_4_and_its_zero():
    q = diagonal_normal.build(raw("diagonal"))
    expected = 0.5 * (q.mean.square() + q.variance() - q.variance().log() - 1).sum(1)
    assert torch.allclose(q.kl(PRIORS["standard"]), expected)
    for kind in (diagonal_normal, full_normal):
        assert kind.build(torch.zeros(2, kind.width(3))).kl(PRIORS["standard"]).abs().max() == 0


def test_kl_is_finite_for_extreme_variances():
    values = torch.cat((torch.zeros(3, 3), torch.tensor([-60.0, 0.0, 60.0])[:, None].expand(3, 3)), 1).double()
    expected = 1.5 * (torch.tensor([-60.0, 0.0, 60.0]).double().exp() - 1 - torch.tensor([-60.0, 0.0, 60.0]))
    assert torch.allclose(diagonal_normal.build(values).kl(PRIORS["standard"]), expected)
    full = full_normal.build(torch.cat((values, torch.zeros(3, 3)), 1))
    assert torch.allclose(full.kl(PRIORS["standard"]), expected)


# --- the point --------------------------------------------------------------------------------------


def test_deterministic_is_a_point_and_refuses_what_a_point_cannot_do():
    values = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    q = deterministic.build(values)
    assert torch.equal(q.sample(torch.full((4, 3), 9.0)), values) and torch.equal(q.mean, values)
    assert q.variance().abs().max() == 0 == q.spread().abs().max()
    assert values[:, deterministic.log_variances(3)].numel() == 0
    with pytest.raises(UntwineError, match="no density"):
        q.log_prob(values)
    with pytest.raises(UntwineError, match="ae and wae_mmd"):
        q.kl(PRIORS["standard"], values)


# --- packs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [*PRIORS, *OTHERS])
@pytest.mark.parametrize("kind", KINDS)
def test_under_vmap_as_in_a_loop(kind, prior):
    """Members differ in their posteriors and in the location of their priors, which are made inside."""

    def made(location: torch.Tensor) -> D.Distribution:
        scale, off = SCALE, False
        if prior in ("standard", "anisotropic"):
            return D.Independent(D.Normal(location, scale, validate_args=off), 1)
        if prior == "multivariate":
            return D.MultivariateNormal(location, scale_tril=LOWER, validate_args=off)
        if prior == "laplace":
            return D.Independent(D.Laplace(location, scale, validate_args=off), 1)
        if prior == "student":
            return D.Independent(D.StudentT(torch.full((3,), 4.0).double(), location, scale, validate_args=off), 1)
        weights = D.Categorical(torch.tensor([0.3, 0.7]).double(), validate_args=off)
        parts = D.Normal(torch.stack((location, -location)), torch.stack((scale, scale.flip(0))), validate_args=off)
        return D.MixtureSameFamily(weights, D.Independent(parts, 1), validate_args=off)

    def member(values: torch.Tensor, eps: torch.Tensor, location: torch.Tensor) -> torch.Tensor:
        q = KINDS[kind].build(values)
        z = q.sample(eps)
        columns = (q.log_prob(z), q.kl(made(location), z), q.variance().sum(1), q.spread().sum((0, 2)), z.sum(1))
        return torch.stack(columns)

    values = torch.stack([factor * raw(kind) for factor in (0.5, 1.0, 1.5)])
    eps = torch.randn(3, 4, 3, generator=torch.Generator().manual_seed(6)).double()
    locations = torch.stack([factor * LOC for factor in (1.0, 0.0, -2.0)])
    together = torch.func.vmap(member)(values, eps, locations)
    singly = torch.stack([member(*one) for one in zip(values, eps, locations, strict=True)])
    assert torch.allclose(together, singly, rtol=1e-12, atol=1e-12)
    assert together.shape == (3, 5, 4) and len({v.item() for v in together[:, 1, 0]}) == 3


def test_a_diagonal_q_can_be_made_by_hand():
    q = DiagonalQ(torch.zeros(1, 2), torch.zeros(1, 2))
    assert q.log_prob(torch.zeros(1, 2)).item() == pytest.approx(-math.log(2 * math.pi))

"""Likelihoods against torch.distributions."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import distributions as D

import untwine as uw
from untwine.model import likelihoods
from untwine.model.info import Info
from untwine.model.vae import create
from untwine.objective.core import at_step, evaluate
from untwine.parts import Each, from_json, to_json

INFO = Info(latents=2, shape=(3, 4, 5))
N = 60


def example(dtype: torch.dtype = torch.float32, scale: float = 3.0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    out = scale * torch.randn(7, *INFO.shape, generator=generator)
    return out.to(dtype), torch.rand(7, *INFO.shape, generator=generator).to(dtype)


def total(distribution: D.Distribution, x: torch.Tensor) -> torch.Tensor:
    return -distribution.log_prob(x).flatten(1).sum(1)


def test_bernoulli():
    out, x = example()
    built = likelihoods.bernoulli.build(INFO)
    # A continuous x has no Bernoulli probability, but the same formula: support checks are off.
    assert torch.allclose(built.loss(out, x), total(D.Bernoulli(logits=out, validate_args=False), x), rtol=1e-6)
    assert torch.allclose(built.loss(out, x.round()), total(D.Bernoulli(logits=out), x.round()), rtol=1e-6)
    assert torch.equal(built.mean(out), out.sigmoid())


@pytest.mark.parametrize("logit", [-1e4, -100.0, -20.0, 20.0, 100.0, 1e4])
def test_bernoulli_of_extreme_logits(logit):
    built = likelihoods.bernoulli.build(Info(2, (1,)))
    out = torch.full((1, 1), logit, requires_grad=True)
    for x in (0.0, 0.3, 1.0):
        expected = max(logit, 0.0) - logit * x + math.log1p(math.exp(-abs(logit)))
        loss = built.loss(out, torch.full((1, 1), x))
        assert loss.item() == pytest.approx(expected, rel=1e-6, abs=1e-8)
        slope = torch.autograd.grad(loss.sum(), out)[0].item()
        assert slope == pytest.approx((1.0 if logit > 0 else 0.0) - x, abs=1e-6)


def test_bernoulli_of_a_mean_is_finite_at_the_ends():
    built = likelihoods.bernoulli.build(Info(2, (1,)))
    for mean, x in ((0.0, 1.0), (1.0, 0.0), (0.0, 0.0), (1.0, 1.0)):
        loss = built.loss_of_mean(torch.tensor([[mean]]), torch.tensor([[x]])).item()
        assert loss == pytest.approx(0.0 if mean == x else -math.log(1e-6), rel=0.01, abs=2e-6)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("scale", [0.05, 1.0, 3.0])
def test_gaussian(scale, learned):
    out, x = example()
    built = likelihoods.gaussian(scale, learned).build(INFO)
    assert torch.allclose(built.loss(out, x), total(D.Normal(out, scale), x), rtol=1e-5)
    assert torch.equal(built.mean(out), out)
    assert len(list(built.parameters())) == int(learned)
    assert built.state_dict().keys() == ({"log_scale"} if learned else set())  # a fixed scale is no weight


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_laplace(scale):
    out, x = example()
    built = likelihoods.laplace(scale).build(INFO)
    assert torch.allclose(built.loss(out, x), total(D.Laplace(out, scale), x), rtol=1e-5)


def test_the_learned_scale_finds_the_spread_of_the_errors():
    out, x = example(torch.float64)
    built = likelihoods.gaussian(1.0, learned=True).build(INFO).double()
    optimal = (x - out).square().mean().sqrt()
    with torch.no_grad():
        built.log_scale.copy_(optimal.log())
    slope = torch.autograd.grad(built.loss(out, x).sum(), built.log_scale)[0]
    assert abs(slope.item()) < 1e-9
    assert torch.allclose(built.loss(out, x).mean(), N * (0.5 + optimal.log() + 0.5 * math.log(2 * math.pi)))


def test_squared_error_is_a_normal_of_variance_one_half():
    out, x = example(torch.float64)
    loss = likelihoods.squared_error.build(INFO).loss(out, x)
    assert torch.allclose(loss, total(D.Normal(out, math.sqrt(0.5)), x) - N / 2 * math.log(math.pi))


@pytest.mark.parametrize(("sigma", "beta"), [(0.1, 1.0), (1.0, 4.0), (2.0, 0.3)])
def test_gaussian_and_beta_are_squared_error_and_two_sigma_squared_beta(sigma, beta):
    """FACTS, "Squared error and nats": the two losses differ by the factor 2 sigma^2 and a constant."""
    x = example()[1].double()
    noise = {"posterior": torch.randn(7, 2, generator=torch.Generator().manual_seed(1)).double()}
    losses, slopes = [], []
    for likelihood, weight in ((likelihoods.gaussian(sigma), beta), (likelihoods.squared_error, 2 * sigma**2 * beta)):
        parts = likelihood, uw.posteriors.diagonal_normal, uw.priors.standard_normal
        vae = create(INFO, uw.networks.mlp((6,)), *parts).double()
        loss = evaluate(vae, at_step({"kl": weight * uw.penalties.kl}, 0), x, noise)["loss"]
        losses.append(loss)
        slopes.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(vae.parameters()))]))
    constant = N * (math.log(sigma) + 0.5 * math.log(2 * math.pi))
    assert losses[0] > 0 and torch.allclose(2 * sigma**2 * (losses[0] - constant), losses[1], rtol=1e-6)
    assert torch.allclose(2 * sigma**2 * slopes[0], slopes[1], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, [1.0, -1.0]])
def test_scales_that_are_none_are_refused(scale):
    for make in (likelihoods.gaussian, likelihoods.laplace):
        with pytest.raises(uw.UntwineError, match=r"must be (positive|finite)"):
            make(scale)


def test_a_scale_for_each_member():
    made = likelihoods.gaussian([0.1, 0.2])
    assert made.scale == Each((0.1, 0.2))
    assert from_json(json.loads(json.dumps(to_json(made)))) == made


def test_named():
    assert likelihoods.named("squared-error") is likelihoods.squared_error
    assert likelihoods.named(likelihoods.laplace(2.0)) == likelihoods.laplace(2.0)
    assert likelihoods.named("learned-gaussian") == likelihoods.gaussian(1.0, learned=True)
    with pytest.raises(uw.UntwineError, match="unknown likelihood 'bernouli'; did you mean 'bernoulli'"):
        likelihoods.named("bernouli")

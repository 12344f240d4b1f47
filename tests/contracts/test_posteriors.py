"""What every posterior must keep to: all those that the module offers, found by looking."""

from __future__ import annotations

import json
import math

import pytest
import torch
from torch import Tensor
from torch import distributions as D

import untwine as uw
from untwine.errors import UntwineError
from untwine.model import posteriors
from untwine.model.info import Info
from untwine.model.vae import create
from untwine.objective.evaluation import at_step, evaluate
from untwine.parts import from_json, is_part, to_json

ALL = {name: value for name, value in vars(posteriors).items() if isinstance(value, posteriors.Posterior)}
# Those that are points, and have neither a density nor a KL.
POINTS = {"deterministic"}
SPREAD = sorted(ALL.keys() - POINTS)
PRIOR = D.Independent(D.Normal(torch.zeros(3).double(), torch.ones(3).double()), 1)


def raw(name: str, batch: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(batch, ALL[name].width(3), generator=generator).double()


def eps(batch: int = 4) -> Tensor:
    return torch.randn(batch, 3, generator=torch.Generator().manual_seed(1)).double()


def test_there_are_some():
    assert (
        ALL.keys() >= {"diagonal_normal", "isotropic_normal", "full_normal", "deterministic"} and ALL.keys() >= POINTS
    )


@pytest.mark.parametrize("name", ALL)
def test_it_is_a_part_with_a_json_form(name):
    assert is_part(ALL[name])
    assert from_json(json.loads(json.dumps(to_json(ALL[name])))) == ALL[name]


@pytest.mark.parametrize("name", ALL)
def test_shapes(name):
    q = ALL[name].build(raw(name))
    assert q.mean.shape == q.variance().shape == q.sample(eps()).shape == (4, 3)
    assert q.spread().shape == (3, 4, 3)
    if name in SPREAD:
        assert q.log_prob(eps()).shape == q.kl(PRIOR).shape == (4,)


@pytest.mark.parametrize("name", ALL)
def test_examples_do_not_mix(name):
    whole, one = ALL[name].build(raw(name)), ALL[name].build(raw(name)[2:3])
    assert torch.allclose(whole.sample(eps())[2:3], one.sample(eps()[2:3]))
    if name in SPREAD:
        assert torch.allclose(whole.kl(PRIOR)[2:3], one.kl(PRIOR))


@pytest.mark.parametrize("name", ALL)
def test_the_sample_of_no_noise_is_the_mean_and_noise_has_its_variance(name):
    q = ALL[name].build(raw(name))
    assert torch.allclose(q.sample(torch.zeros(4, 3).double()), q.mean)
    # The sample is affine in the noise here, so that its covariance is the map's square.
    columns = torch.stack([q.sample(torch.eye(3).double()[j].expand(4, 3)) - q.mean for j in range(3)])
    covariance = torch.einsum("kbi,kbj->bij", columns, columns)
    assert torch.allclose(torch.diagonal(covariance, dim1=1, dim2=2), q.variance())
    assert torch.allclose(torch.einsum("kbi,kbj->bij", q.spread(), q.spread()), covariance)


@pytest.mark.parametrize("name", SPREAD)
def test_the_density_is_that_of_the_samples(name):
    """E_q[p/q] = 1 for a p that is covered, and E_q[log q] by samples is minus the entropy of the KL."""
    n = 40_000
    q = ALL[name].build(raw(name, 1).expand(n, -1))
    z = q.sample(eps(n))
    log_q = q.log_prob(z)
    narrow = D.MultivariateNormal(q.mean[0], scale_tril=0.7 * torch.linalg.cholesky(z.T.cov()))
    ratio = (narrow.log_prob(z) - log_q).exp()
    assert ratio.mean().item() == pytest.approx(1.0, abs=5 * ratio.std().item() / math.sqrt(n))
    samples = log_q - PRIOR.log_prob(z)
    error = samples.std().item() / math.sqrt(n)
    assert samples.mean().item() == pytest.approx(q.kl(PRIOR, z).mean().item(), abs=5 * error)


@pytest.mark.parametrize("name", ALL)
def test_the_covariance_is_that_of_the_spread(name):
    q = ALL[name].build(raw(name))
    columns = torch.stack([q.sample(torch.eye(3).double()[j].expand(4, 3)) - q.mean for j in range(3)], -1)
    assert torch.allclose(q.covariance(), columns @ columns.mT)
    assert torch.allclose(torch.diagonal(q.covariance(), dim1=1, dim2=2), q.variance())


def same(q: posteriors.Q) -> D.MultivariateNormal:
    """The same posterior as torch has it."""
    return D.MultivariateNormal(q.mean, q.covariance())


@pytest.mark.parametrize("name", SPREAD)
def test_densities_at_other_points_than_their_own(name):
    """Every posterior at every point: of whole vectors, and of each latent on its own."""
    q, z = ALL[name].build(raw(name)), 2 * eps(7)
    matrix, marginals = q.log_matrix(z), q.log_marginals(z)
    assert matrix.shape == (7, 4) and marginals.shape == (7, 4, 3)
    for i in range(7):
        assert torch.allclose(matrix[i], q.log_prob(z[i].expand(4, 3)))
        assert torch.allclose(matrix[i], same(q).log_prob(z[i]))
        assert torch.allclose(marginals[i], D.Normal(q.mean, q.variance().sqrt()).log_prob(z[i]))
    assert torch.allclose(torch.diagonal(q.log_matrix(eps())), q.log_prob(eps()))
    together = torch.allclose(marginals.sum(-1), matrix)
    assert together == bool((q.covariance() - torch.diag_embed(q.variance())).abs().max() < 1e-12)


@pytest.mark.parametrize("name", SPREAD)
def test_entropy(name):
    q, n = ALL[name].build(raw(name)), 40_000
    assert q.entropy().shape == (4,) and torch.allclose(q.entropy(), same(q).entropy())
    many = ALL[name].build(raw(name, 1).expand(n, -1))
    samples = -many.log_prob(many.sample(eps(n)))
    assert samples.mean().item() == pytest.approx(many.entropy()[0].item(), abs=5 * samples.std().item() / math.sqrt(n))
    # The KL to a prior is what its density costs, less the entropy.
    cost = 0.5 * (q.mean.square() + q.variance() + math.log(2 * math.pi)).sum(1)
    assert torch.allclose(q.kl(PRIOR), cost - q.entropy())


def test_isotropic_posteriors_have_one_variance():
    q = posteriors.isotropic_normal.build(raw("isotropic_normal"))
    assert torch.equal(q.variance(), q.variance()[:, :1].expand(4, 3))
    assert len(q.variance()[:, 0].unique()) == 4


@pytest.mark.parametrize("name", ALL)
def test_log_variances_are_where_it_says(name):
    where = ALL[name].log_variances(3)
    values = torch.zeros(1, ALL[name].width(3))
    values[:, where] = -8.0
    variance = ALL[name].build(values).variance()
    assert torch.allclose(variance, torch.full((1, 3), math.exp(-8.0) if name in SPREAD else 0.0))


@pytest.mark.parametrize("name", SPREAD)
def test_a_posterior_that_is_the_prior_costs_nothing(name):
    assert ALL[name].build(torch.zeros(2, ALL[name].width(3)).double()).kl(PRIOR).abs().max() < 1e-12
    assert (ALL[name].build(raw(name)).kl(PRIOR) > 0).all()


@pytest.mark.parametrize("name", sorted(POINTS))
def test_points_refuse_densities(name):
    q = ALL[name].build(raw(name))
    with pytest.raises(UntwineError):
        q.log_prob(eps())
    with pytest.raises(UntwineError):
        q.kl(PRIOR, eps())
    for refused in (q.entropy, lambda: q.log_matrix(eps()), lambda: q.log_marginals(eps())):
        with pytest.raises(UntwineError, match="a deterministic posterior has no"):
            refused()


@pytest.mark.parametrize("name", ALL)
def test_under_vmap_as_in_a_loop(name):
    def member(values: Tensor, noise: Tensor) -> Tensor:
        q = ALL[name].build(values)
        z = q.sample(noise)
        terms = [z.sum(1), q.variance().sum(1), q.spread().sum((0, 2)), q.covariance().sum((1, 2))]
        if name in SPREAD:
            prior = D.Independent(D.Normal(torch.zeros(3).double(), torch.ones(3).double(), validate_args=False), 1)
            terms += [q.log_prob(z), q.kl(prior, z), q.entropy()]
            terms += [q.log_matrix(2 * z).sum(0), q.log_marginals(2 * z).square().sum((0, 2))]
        return torch.stack(terms)

    values = torch.stack([raw(name), 2 * raw(name)])
    noise = torch.stack([eps(), -eps()])
    expected = torch.stack([member(values[i], noise[i]) for i in range(2)])
    assert torch.allclose(torch.func.vmap(member)(values, noise), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_it_serves_in_a_model(name):
    info = Info(3, (5,))
    vae = create(info, uw.networks.mlp((4,)), uw.likelihoods.squared_error, ALL[name], uw.priors.standard_normal)
    penalties = {} if name in POINTS else at_step({"kl": uw.penalties.kl}, 0)
    x = torch.rand(4, 5, generator=torch.Generator().manual_seed(2))
    loss = evaluate(vae, penalties, x, {"posterior": eps().float()})["loss"]
    assert all(g.abs().max() > 0 for g in torch.autograd.grad(loss, list(vae.parameters())))

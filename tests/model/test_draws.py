"""Draws: samples from uniforms follow their distribution, whatever it is, alone and under vmap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.stats import qmc
from torch import Tensor
from torch import distributions as D

from untwine.errors import UntwineError
from untwine.model.draws import GeneralisedNormal, draw, width

LOC, SCALE = torch.tensor([0.5, -1.0]).double(), torch.tensor([0.5, 2.0]).double()
LOWER = torch.tensor([[1.2, 0.0], [-0.7, 0.5]]).double()
MEANS = torch.tensor([[0.0, 4.0], [4.0, 0.0], [-4.0, -4.0]]).double()
WEIGHTS = torch.tensor([0.5, 0.2, 0.3]).double()


def independent(base: D.Distribution) -> D.Independent:
    return D.Independent(base, 1, validate_args=False)


def family(name: str, loc: Tensor, scale: Tensor) -> D.Distribution:
    """One of every kind over two latents, with a location and a scale for each."""
    off: Any = dict(validate_args=False)
    if name in ("Normal", "Laplace", "Cauchy", "Gumbel"):
        return independent(getattr(D, name)(loc, scale, **off))
    if name.startswith("StudentT"):
        return independent(D.StudentT(torch.full_like(loc, float(name[8:])), loc, scale, **off))
    if name.startswith("GeneralisedNormal"):
        return independent(GeneralisedNormal(torch.full_like(scale, float(name[17:])), scale, **off))
    if name == "MultivariateNormal":
        return D.MultivariateNormal(loc, scale_tril=scale[:, None] * LOWER.to(loc), **off)
    if name == "LowRank":
        return D.LowRankMultivariateNormal(loc, LOWER[:, :1].to(loc), scale, **off)
    weights, means = WEIGHTS.to(loc), MEANS.to(loc)
    if name == "mixture":
        return D.MixtureSameFamily(
            D.Categorical(weights), independent(D.Normal(means + loc, scale.expand(3, 2))), **off
        )
    if name == "mixture of Student-t":
        parts = independent(D.StudentT(torch.full_like(means, 3.0), means + loc, scale.expand(3, 2)))
        return D.MixtureSameFamily(D.Categorical(weights), parts, **off)
    if name == "mixture of multivariate":
        lower = (scale[:, None] * LOWER.to(loc)).expand(3, 2, 2)
        parts = D.MultivariateNormal(means + loc, scale_tril=lower, **off)
        return D.MixtureSameFamily(D.Categorical(weights), parts, **off)
    assert name == "mixture in each latent"
    parts = D.Normal(torch.stack((loc, -loc, 3 * loc), 1), torch.stack((scale, scale / 5, scale), 1), **off)
    return independent(D.MixtureSameFamily(D.Categorical(weights.expand(2, 3)), parts, **off))


NAMES = [
    *("Normal", "Laplace", "Cauchy", "Gumbel", "StudentT 0.7", "StudentT 3", "StudentT 30"),
    *("GeneralisedNormal 0.5", "GeneralisedNormal 1", "GeneralisedNormal 4"),
    *("MultivariateNormal", "LowRank", "mixture", "mixture of Student-t", "mixture of multivariate"),
    "mixture in each latent",
]


def uniforms(count: int, n: int = 2**14) -> Tensor:
    return torch.from_numpy(qmc.Sobol(count, rng=np.random.default_rng(0)).random(n)).clamp(1e-9, 1 - 1e-9)


def cdf(name: str, latent: int) -> Any:
    """The cumulative distribution function of one latent."""
    loc, scale = LOC[latent].item(), SCALE[latent].item()
    if name.startswith("StudentT"):
        return stats.t(float(name[8:]), loc, scale).cdf
    if name.startswith("GeneralisedNormal"):
        return stats.gennorm(float(name[17:]), 0, scale).cdf
    known = {"Normal": stats.norm, "Laplace": stats.laplace, "Cauchy": stats.cauchy, "Gumbel": stats.gumbel_r}
    if name in known:
        return known[name](loc, scale).cdf
    if name == "MultivariateNormal":
        return stats.norm(loc, scale * LOWER[latent].norm().item()).cdf
    if name == "LowRank":
        return stats.norm(loc, math.sqrt(LOWER[latent, 0].item() ** 2 + scale)).cdf
    weights, spread = WEIGHTS.tolist(), [scale] * 3
    means = (MEANS[:, latent] + loc).tolist()
    if name == "mixture in each latent":
        means, spread = [loc, -loc, 3 * loc], [scale, scale / 5, scale]
    if name == "mixture of multivariate":
        spread = [scale * LOWER[latent].norm().item()] * 3
    one = (lambda m, s: stats.t(3, m, s)) if name == "mixture of Student-t" else stats.norm
    return lambda z: sum(w * one(m, s).cdf(z) for w, m, s in zip(weights, means, spread, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_each_latent_follows_its_distribution(name):
    """Kolmogorov and Smirnov's distance, with uniforms that fill the space evenly."""
    p = family(name, LOC, SCALE)
    z = draw(p, uniforms(width(p)))
    assert z.shape == (2**14, 2)
    for latent in range(2):
        assert stats.kstest(z[:, latent].numpy(), cdf(name, latent)).statistic < 4e-3


@pytest.mark.parametrize("name", ["MultivariateNormal", "LowRank", "mixture of multivariate"])
def test_latents_vary_together(name):
    p = family(name, LOC, SCALE)
    z = draw(p, uniforms(width(p)))
    if isinstance(p, D.MixtureSameFamily):
        inner = p.component_distribution.covariance_matrix[0]
        offsets = MEANS - WEIGHTS @ MEANS
        expected = inner + offsets.T @ torch.diag(WEIGHTS) @ offsets
    else:
        expected = p.covariance_matrix
    assert torch.allclose(z.T.cov(), expected, atol=0.02 * expected.abs().max().item())


def test_a_mixture_has_its_proportions():
    p = family("mixture", LOC, 0.1 * SCALE)
    z = draw(p, uniforms(width(p)))
    nearest = torch.cdist(z, MEANS + LOC).argmin(1)
    assert torch.allclose(nearest.bincount().double() / len(z), WEIGHTS, atol=1e-3)


@pytest.mark.parametrize(("weights", "only"), [((1.0, 0.0), 0), ((0.0, 1.0), 1)])
def test_a_weight_of_zero_is_never_chosen(weights, only):
    p = D.MixtureSameFamily(
        D.Categorical(logits=torch.tensor(weights).log()), independent(D.Normal(torch.tensor([[0.0], [9.0]]), 0.01))
    )
    extreme = torch.tensor([2.0**-24, 0.5, 1 - 2.0**-24])
    z = draw(p, torch.cartesian_prod(extreme, extreme))
    assert ((z - 9.0 * only).abs() < 0.1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NAMES)
def test_finite_for_the_most_extreme_uniforms(name, dtype):
    p = family(name, LOC.to(dtype), SCALE.to(dtype))
    extreme = torch.tensor([2.0**-24, 0.5, 0.5 + 2.0**-24, 1 - 2.0**-24], dtype=dtype)
    grid = torch.cartesian_prod(*[extreme] * width(p))
    z = draw(p, grid)
    assert z.dtype == dtype and z.isfinite().all() and z.shape == (len(grid), 2)
    # Both precisions agree: the numbers are the same, but for rounding (Cauchy's tails are the steepest).
    middle = uniforms(width(p), 64).float()
    exact, ours = draw(family(name, LOC, SCALE), middle.double()), draw(p, middle.to(dtype))
    assert torch.allclose(ours.double(), exact, rtol=1e-3 if name == "Cauchy" else 3e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_under_vmap_as_in_a_loop(name):
    def member(loc: Tensor, scale: Tensor, u: Tensor) -> Tensor:
        return draw(family(name, loc, scale), u)

    u = torch.stack([uniforms(width(family(name, LOC, SCALE)), 32), uniforms(width(family(name, LOC, SCALE)), 64)[32:]])
    locs, scales = torch.stack((LOC, -2 * LOC)), torch.stack((SCALE, 3 * SCALE))
    expected = torch.stack([member(*one) for one in zip(locs, scales, u, strict=True)])
    assert torch.allclose(torch.func.vmap(member)(locs, scales, u), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_locations_and_scales_get_the_gradients_of_the_samples(name):
    def samples(loc: Tensor, scale: Tensor) -> Tensor:
        return draw(family(name, loc, scale), u)

    u = uniforms(width(family(name, LOC, SCALE)), 8)
    loc, scale = LOC.clone().requires_grad_(), SCALE.clone().requires_grad_()
    assert torch.autograd.gradcheck(samples, (loc, scale), atol=1e-4)
    assert all(g is not None for g in torch.autograd.grad(samples(loc, scale).sum(), (scale,)))


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5, 1.0, 1.3, 2.0, 4.0, 8.0, 50.0])
def test_the_quantiles_of_the_generalised_normal(p):
    """To a few rounding errors of the distribution's width, in the tails of each value's own size."""
    ends = [2.0**-24, 2.0**-20, 1e-4, 0.5 - 2.0**-24, 0.5, 0.5 + 2.0**-24, 1 - 2.0**-24]
    u = np.concatenate((ends, np.linspace(0.001, 0.999, 999)))
    expected = stats.gennorm.ppf(u, p)
    for dtype, most in ((torch.float64, 3e-7), (torch.float32, 1e-5)):
        exact = torch.from_numpy(u).to(dtype)
        ours = GeneralisedNormal(torch.tensor(p, dtype=dtype), torch.ones((), dtype=dtype)).icdf(exact).double().numpy()
        if dtype == torch.float32:
            expected = stats.gennorm.ppf(exact.double().numpy(), p)
        assert (np.abs(ours - expected) <= most * np.maximum(np.abs(expected), stats.gennorm.ppf(0.841, p))).all()
    assert GeneralisedNormal(torch.tensor(p), torch.tensor(2.0)).icdf(torch.tensor(0.5)) == 0


def test_widths():
    assert width(independent(D.Normal(LOC, SCALE))) == 2 == width(D.MultivariateNormal(LOC, torch.eye(2).double()))
    assert width(family("StudentT 3", LOC, SCALE)) == 4 and width(family("LowRank", LOC, SCALE)) == 3
    assert width(family("mixture", LOC, SCALE)) == 3 and width(family("mixture in each latent", LOC, SCALE)) == 4
    assert width(D.Independent(independent(D.Normal(LOC, SCALE)), 0)) == 2


@pytest.mark.parametrize(
    ("p", "name"),
    [
        (D.Independent(D.VonMises(LOC, SCALE), 1), "VonMises"),
        (D.Independent(D.Beta(SCALE, SCALE), 1), "Beta"),
        (D.Dirichlet(SCALE), "Dirichlet"),
        (D.Normal(LOC, SCALE), "Normal"),
        (D.MixtureSameFamily(D.Categorical(WEIGHTS[:2]), D.Independent(D.VonMises(MEANS[:2], SCALE), 1)), "VonMises"),
    ],
)
def test_what_cannot_be_sampled_says_so(p, name):
    for attempt in (lambda: width(p), lambda: draw(p, torch.full((1, 3), 0.5).double())):
        with pytest.raises(UntwineError, match=f"samples of {name} cannot be made .* not those that need samples"):
            attempt()

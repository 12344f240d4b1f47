"""DIP-VAE's penalties, against loops over examples and latents."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import untwine as uw
from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.model.passes import trace
from untwine.model.posteriors import DiagonalQ, FullQ, PointQ, Q
from untwine.model.vae import VAE, create
from untwine.objective.core import Penalty
from untwine.objective.evaluation import at_step, evaluate
from untwine.objective.moments import covariance, dip_i, dip_ii
from untwine.objective.schedules import ramp
from untwine.objective.terms import Pass
from untwine.parts import each, from_json, resolve, structure, to_json

LATENTS, BATCH = 3, 5


@functools.cache
def model(posterior: Any = uw.posteriors.diagonal_normal) -> VAE:
    parts = uw.likelihoods.bernoulli, posterior, uw.priors.standard_normal
    return create(Info(LATENTS, (4,)), uw.networks.mlp((6,), activation="tanh"), *parts).double()


def passing(q: Q) -> Pass:
    vae = model()
    x = torch.zeros(len(q.mean), 4).double()
    return Pass(x, q, vae.prior(), q.mean, trace(nn.Identity(), q.mean), vae, {}, 0)


def value(penalty: Penalty, q: Q) -> Tensor:
    return at_step({"p": penalty}, 0)["p"].term.value(passing(q))


def posterior(kind: str) -> Q:
    generator = torch.Generator().manual_seed(0)
    mean = (
        torch.randn(BATCH, LATENTS, generator=generator).double()
        @ torch.tensor([[1.0, 0.6, -0.3], [0.0, 0.8, 0.4], [0.0, 0.0, 1.5]]).double()
    )
    if kind == "point":
        return PointQ(mean)
    if kind == "diagonal":
        return DiagonalQ(mean, torch.randn(BATCH, LATENTS, generator=generator).double())
    factor = torch.randn(BATCH, LATENTS, LATENTS, generator=generator).double().tril()
    return FullQ(mean, factor + 2 * torch.eye(LATENTS).double())


def by_loops(q: Q, aggregate: bool) -> np.ndarray:
    """The covariance, entry by entry."""
    mean = q.mean.numpy()
    found = np.zeros((LATENTS, LATENTS))
    for i in range(LATENTS):
        for j in range(LATENTS):
            average = [sum(mean[n, k] for n in range(BATCH)) / BATCH for k in (i, j)]
            for n in range(BATCH):
                found[i, j] += (mean[n, i] - average[0]) * (mean[n, j] - average[1]) / BATCH
                if not aggregate:
                    continue
                if isinstance(q, FullQ):
                    factor = q.factor[n].numpy()
                    found[i, j] += sum(factor[i, k] * factor[j, k] for k in range(LATENTS)) / BATCH
                elif isinstance(q, DiagonalQ) and i == j:
                    found[i, j] += np.exp(q.log_variance[n, i].item()) / BATCH
    return found


@pytest.mark.parametrize("kind", ["point", "diagonal", "full"])
@pytest.mark.parametrize(("make", "aggregate"), [(dip_i, False), (dip_ii, True)])
def test_dip_by_loops(make, aggregate, kind):
    q = posterior(kind)
    matrix = by_loops(q, aggregate)
    off = sum(matrix[i, j] ** 2 for i in range(LATENTS) for j in range(LATENTS) if i != j)
    diagonal = sum((matrix[i, i] - 1) ** 2 for i in range(LATENTS))
    of = "aggregate" if aggregate else "mean"
    assert value(covariance(of, "off_diagonal"), q).item() == pytest.approx(off)
    assert value(covariance(of, "diagonal"), q).item() == pytest.approx(diagonal)
    assert value(make(2.0, 7.0), q).item() == pytest.approx(2 * off + 7 * diagonal)


def test_a_diagonal_posterior_adds_to_the_variances_alone():
    q = posterior("diagonal")
    mean, aggregate = (value(covariance(of, "off_diagonal"), q) for of in ("mean", "aggregate"))
    assert torch.allclose(mean, aggregate) and mean > 0
    q = posterior("full")
    assert not torch.allclose(*(value(covariance(of, "off_diagonal"), q) for of in ("mean", "aggregate")))


def test_the_aggregate_is_the_covariance_of_the_batch_s_mixture():
    """Samples of the mixture of posteriors, many of each: hence the division by n, not by n - 1."""
    q = posterior("full")
    corners = 3**0.5 * torch.cat((torch.eye(LATENTS), -torch.eye(LATENTS))).double()  # moments of a standard normal
    samples = torch.cat([q.sample(corner.expand(BATCH, LATENTS)) for corner in corners])
    expected = np.cov(samples.numpy(), rowvar=False, bias=True)
    off = (expected**2).sum() - (np.diag(expected) ** 2).sum()
    assert value(covariance("aggregate", "off_diagonal"), q).item() == pytest.approx(off)
    assert value(covariance("aggregate", "diagonal"), q).item() == pytest.approx(((np.diag(expected) - 1) ** 2).sum())


def test_uncorrelated_unit_variances_cost_nothing():
    signs = torch.tensor([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]).double()
    assert value(dip_i(5.0, 50.0), PointQ(signs + 7)).item() == pytest.approx(0, abs=1e-20)
    assert value(dip_i(5.0, 50.0), PointQ(2 * signs)).item() == pytest.approx(50 * 3 * 9)
    assert value(dip_i(0.0, 1.0), PointQ(signs[:1])).item() == LATENTS  # one example has no variance


def test_weights_are_leaves():
    penalty = dip_ii(each(1, 2), ramp(8.0, 4))
    spec = to_json(penalty)
    assert from_json(json.loads(json.dumps(spec))) == penalty
    own = [from_json(resolve(spec, member)) for member in range(2)]
    assert own == [dip_ii(1.0, ramp(8.0, 4)), dip_ii(2.0, ramp(8.0, 4))]
    assert structure(resolve(spec, 0)) == structure(resolve(spec, 1))
    assert dip_i(each(1, 2), 3) == dip_i([1.0, 2.0], 3.0)
    q = posterior("full")
    off, diagonal = (value(covariance("aggregate", entries), q).item() for entries in ("off_diagonal", "diagonal"))
    at = lambda step: at_step({"p": own[1]}, step)["p"].term.value(passing(q)).item()
    assert [at(step) for step in (0, 1, 4)] == pytest.approx([2 * off, 2 * off + 2 * diagonal, 2 * off + 8 * diagonal])


@pytest.mark.parametrize("make", [dip_i, dip_ii])
@pytest.mark.parametrize("kind", ["diagonal_normal", "full_normal", "deterministic"])
def test_members_under_vmap_and_gradients(kind, make):
    vae = model(getattr(uw.posteriors, kind))
    x, eps = torch.rand(2, BATCH, 4).double(), torch.randn(2, BATCH, LATENTS).double()
    penalties = at_step({"p": make(2.0, 3.0)}, 0)
    one = lambda x, eps: evaluate(vae, penalties, x, {"posterior": eps})["p"]
    together = torch.func.vmap(one)(x, eps)
    assert torch.allclose(together, torch.stack([one(x[i], eps[i]) for i in range(2)]))
    loss = together.sum()
    head = [parameter for name, parameter in vae.named_parameters() if name.startswith("encoder")]
    slopes = torch.autograd.grad(loss, head)
    direction = [torch.randn_like(parameter) for parameter in head]
    found = sum((s * d).sum() for s, d in zip(slopes, direction, strict=True))

    def moved(step: float) -> Tensor:
        with torch.no_grad():
            for parameter, d in zip(head, direction, strict=True):
                parameter += step * d
            made = torch.func.vmap(one)(x, eps).sum()
            for parameter, d in zip(head, direction, strict=True):
                parameter -= step * d
        return made

    assert found.item() == pytest.approx(((moved(1e-6) - moved(-1e-6)) / 2e-6).item(), rel=1e-5, abs=1e-7)


def test_under_bfloat16_the_covariance_is_float32():
    q = posterior("full")
    q = FullQ(q.mean.float(), q.factor.float())
    exact = value(dip_ii(), q)
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", torch.bfloat16):
        found = value(dip_ii(), q)
    assert found.dtype == torch.float32 and torch.allclose(found, exact)


def test_refusals():
    with pytest.raises(UntwineError, match="of of penalty 'covariance' must be 'mean' or 'aggregate', not 'sample'"):
        covariance("sample")
    with pytest.raises(UntwineError, match="'off_diagonal' or 'diagonal', not 'all'"):
        covariance("mean", "all")

"""Penalties on each posterior: the KL, the entropy, and distances from a target."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch import distributions as D

import untwine as uw
from untwine.errors import UntwineError
from untwine.metrics.families import alignment
from untwine.model.info import Info
from untwine.model.vae import VAE, create
from untwine.objective.core import Objective, Penalty, is_leaf
from untwine.objective.divergence import DeltaKL, Distance, capacity, delta_kl, distance, entropy, kl
from untwine.objective.evaluation import at_step, evaluate
from untwine.objective.schedules import Constant, ramp
from untwine.objective.terms import Needs, Pass, Term
from untwine.parts import each, from_json, leaves, part, rebuild, resolve, structure, to_json

INFO = Info(latents=3, shape=(5,))
PARTS = uw.likelihoods.bernoulli, uw.posteriors.diagonal_normal, uw.priors.standard_normal


def model(posterior: Any = uw.posteriors.diagonal_normal) -> VAE:
    return create(INFO, uw.networks.mlp((6,), activation="tanh"), PARTS[0], posterior, PARTS[2]).double()


def batch() -> tuple[Tensor, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(4, 5, generator=generator).double()
    return x, {"posterior": torch.randn(4, 3, generator=generator).double()}


def term(penalty: Penalty, vae: VAE | None = None, step: int = 0, **noise: Tensor) -> Tensor:
    x, eps = batch()
    return evaluate(vae or model(), at_step({"p": penalty}, step), x, eps | noise)["p"]


# --- entropy ----------------------------------------------------------------------------------------


def test_entropy_of_every_posterior():
    x, _ = batch()
    vae = model()
    raw = vae.encoder(x)
    normal = D.Normal(raw[:, :3], (raw[:, 3:] / 2).exp())
    assert torch.allclose(term(entropy, vae), normal.entropy().sum(1).mean())
    vae = model(uw.posteriors.full_normal)
    q = vae.posterior(x)
    expected = D.MultivariateNormal(q.mean, q.covariance()).entropy().mean()
    assert torch.allclose(term(entropy, vae), expected)
    with pytest.raises(UntwineError, match="a deterministic posterior has no entropy"):
        term(entropy, model(uw.posteriors.deterministic))


def test_the_entropy_regularised_elbo():
    """mathieu2019, Eq. 5: the negative ELBO - (beta - 1) / 2 log|S|, up to a constant, gradients included."""
    vae, beta, (x, noise) = model(), 3.0, batch()
    penalties = {"kl": kl, "entropy": -(beta - 1) * entropy}
    ours = evaluate(vae, at_step(penalties, 0), x, noise)["loss"]
    elbo = evaluate(vae, at_step({"kl": kl}, 0), x, noise)["loss"]
    theirs = elbo - (beta - 1) / 2 * vae.encoder(x)[:, 3:].sum(1).mean()
    assert torch.allclose(theirs - ours, torch.tensor((beta - 1) * 3 / 2 * math.log(2 * math.pi * math.e)).double())
    for a, b in zip(*(torch.autograd.grad(loss, list(vae.parameters())) for loss in (ours, theirs)), strict=True):
        assert torch.allclose(a, b)


# --- the polarised regime ---------------------------------------------------------------------------


def polarised(vae: VAE) -> VAE:
    """A model with one active latent, one passive and one between."""
    bias = [m for m in vae.encoder.modules() if isinstance(m, torch.nn.Linear)][-1].bias
    with torch.no_grad():
        bias[3:6] = torch.tensor([-5.0, 0.0, -0.5])
    return vae


@pytest.mark.parametrize("posterior", [uw.posteriors.diagonal_normal, uw.posteriors.full_normal])
def test_delta_kl_is_the_metric_on_the_batch(posterior):
    vae, (x, _) = polarised(model(posterior)), batch()
    q = vae.posterior(x)
    with torch.no_grad():
        score = alignment.delta_kl(q.mean.numpy(), q.variance().numpy())
    assert score.details["active"] == [0] and float(score) > 1e-3
    assert term(delta_kl, vae).item() == pytest.approx(float(score))
    assert term(Penalty(DeltaKL(0.9)), vae).item() != pytest.approx(float(score))


def test_delta_kl_under_vmap():
    """Which latents are active, and whether there is any KL, differ by member."""
    (x, noise), raw = batch(), torch.zeros(3, 6).double()
    raw[0] = torch.tensor([0.3, -1.0, 0.0, -4.0, -3.0, 0.1])
    raw[1] = torch.tensor([0.1, 0.0, 0.0, -0.5, 0.0, 0.0])  # no active one: 1; the last member is the prior itself: 0

    class Constant(torch.nn.Module):
        def __init__(self, row: Tensor):
            super().__init__()
            self.row = row

        def forward(self, x: Tensor) -> Tensor:
            return self.row.expand(len(x), 6)

    def one(row: Tensor) -> Tensor:
        vae = model()
        vae.encoder = Constant(row)
        return evaluate(vae, at_step({"p": delta_kl}, 0), x, noise)["p"]

    found = torch.func.vmap(one)(raw)
    rows = raw.numpy()
    expected = [float(alignment.delta_kl(row[None, :3], np.exp(row[None, 3:]))) for row in rows]
    assert found.tolist() == pytest.approx(expected)
    assert expected[1:] == [pytest.approx(1), 0] and 0 < expected[0] < 0.2
    slopes = torch.autograd.grad(torch.func.vmap(one)(raw.requires_grad_()).sum(), raw)[0]
    assert slopes.isfinite().all()


def test_delta_kl_is_logged_while_a_model_trains():
    settings = {"network": uw.networks.mlp(()), "latents": 2, "steps": 60, "batch_size": 16, "lr": 0.1}
    data = uw.datasets.synthetic_linear(samples=64, seed=3)
    method = uw.methods.beta_vae(beta=1e-3, likelihood="squared_error")
    run = uw.Run(method=method, dataset=data, seeds=[0, 1], log_every=20, watch=("delta-kl",), **settings)
    history = uw.fit(run, device="cpu").history
    values = [row["members"][name]["delta_kl"] for row in history for name in ("seed-0", "seed-1")]
    assert [row["step"] for row in history] == [20, 40, 60] and all(0 < value <= 1 for value in values)
    assert len(set(values)) > 2 and max(values[-2:]) < 0.5  # variances have become small
    with pytest.raises(UntwineError, match="delta_kl needs a posterior with a variance"):
        uw.fit(uw.Run(method="ae", dataset=data, log_every=2, watch=("delta_kl",), **settings), device="cpu")


# --- distances --------------------------------------------------------------------------------------


@part
class NoisyAmount(Term):
    """The mean of noise of its own."""

    def needs(self, info: Info) -> Needs:
        return Needs({"own": ("uniform", (2,))}, prior=True)

    def value(self, passed: Pass) -> Tensor:
        return passed.noise["own"].mean() + 0.0 * passed.z.sum()

    def adversary_loss(self, passed: Pass) -> Tensor:
        return 2 * passed.noise["own"].sum()


def test_the_distance_from_a_target():
    value = term(kl).item()
    for target in (0.0, value / 2, value, 3 * value):
        assert term(distance(kl, target)).item() == pytest.approx(abs(value - target), abs=1e-12)
    assert term(distance(2.0 * kl, value)).item() == pytest.approx(value)  # the inner weight counts
    assert term(distance(ramp(4.0, 4) * kl, 0.0), step=3).item() == pytest.approx(3 * value)
    both = distance(kl + 2.0 * entropy, 0.0)
    assert term(both).item() == pytest.approx(abs(value + 2 * term(entropy).item()))


def test_the_gradient_points_to_the_target():
    vae = model()
    slopes = lambda penalty: torch.cat(
        [
            g.flatten()
            for g in torch.autograd.grad(
                term(penalty, vae), list(vae.parameters()), allow_unused=True, materialize_grads=True
            )
        ]
    )
    value = term(kl, vae).item()
    assert torch.equal(slopes(distance(kl, value / 2)), slopes(kl))
    assert torch.equal(slopes(distance(kl, value * 2)), -slopes(kl))
    assert slopes(kl).abs().max() > 0


def test_capacity_rises():
    """gamma |KL - C(t)| with C linear from 0 to its maximum."""
    value = term(kl).item()
    penalty = 10.0 * capacity(maximum=4.0, steps=100)
    for step, target in ((0, 0.0), (25, 1.0), (50, 2.0), (100, 4.0), (1000, 4.0)):
        now = at_step({"p": penalty}, step)["p"]
        assert now.weight == 10.0 and now.term.target == target and now.term.penalty.weight == 1.0
        assert term(penalty, step=step).item() == pytest.approx(abs(value - target))
    assert capacity() == distance(kl, ramp(25.0, 100_000))
    assert capacity(3.0, 0).term.target == Constant(3.0)


def test_what_the_inner_penalty_needs_is_asked_for_and_given():
    inner = kl + 10.0 * Penalty(NoisyAmount())
    objective = Objective(*PARTS, {"p": 2.0 * distance(inner, 1.0)})
    needs = objective.needs(INFO)
    assert needs.noise == {"p/1/own": ("uniform", (2,)), "prior": ("uniform", (3,))} and needs.prior
    own = {"p/1/own": torch.tensor([[0.1, 0.5]] * 4).double()}
    x, eps = batch()
    terms = evaluate(model(), at_step(objective.penalties, 0), x, eps | own)
    assert terms["p"].item() == pytest.approx(abs(term(kl).item() + 3.0 - 1.0))
    assert terms["p_adversary"].item() == pytest.approx(2 * 0.6 * 4)
    assert "p_adversary" not in evaluate(model(), at_step({"p": distance(kl, 1.0)}, 0), x, eps)


def test_targets_are_leaves():
    penalty = distance(each(1, 2) * kl, [3.0, 4.0])
    spec = to_json(penalty)
    assert from_json(json.loads(json.dumps(spec))) == penalty
    own = [from_json(resolve(spec, member)) for member in range(2)]
    assert own == [distance(kl, 3.0), distance(2.0 * kl, 4.0)]
    assert structure(resolve(spec, 0)) == structure(resolve(spec, 1))
    assert len(list(leaves(capacity(), is_leaf))) == 3  # the inner weight, the target, the weight
    assert capacity(each(5, 10), 100).term.target == ramp(each(5, 10), 100)


def test_targets_that_differ_by_member_under_vmap():
    vae, (x, noise) = model(), batch()
    weights, targets = torch.tensor([1.0, 2.0]).double(), torch.tensor([0.3, 5.0]).double()

    def one(weight: Tensor, target: Tensor) -> Tensor:
        made = rebuild({"p": distance(kl, 0.0)}, is_leaf, iter((weight, target, torch.ones(()).double())))
        return evaluate(vae, made, x, noise)["p"]

    found = torch.func.vmap(one)(weights, targets)
    expected = [term(distance(float(w) * kl, float(t)), vae) for w, t in zip(weights, targets, strict=True)]
    assert torch.allclose(found, torch.stack(expected))


def test_refusals():
    with pytest.raises(UntwineError, match="only watched has no distance"):
        distance(kl.watch(), 1.0)
    with pytest.raises(UntwineError, match="0 or more, not -1"):
        capacity(1.0, -1)
    assert isinstance(distance(kl, 1.0).watch().term, Distance)

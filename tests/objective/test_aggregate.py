"""Divergences of the aggregate posterior, against loops, closed forms, quadrature and enumeration."""

from __future__ import annotations

import functools
import itertools
import json
import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor, nn

import untwine as uw
from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.model.passes import trace
from untwine.model.posteriors import DiagonalQ, FullQ, PointQ, Q
from untwine.model.vae import VAE, create
from untwine.objective.aggregate import (
    kl_aggregate_prior,
    kl_prior_aggregate,
    mmd,
    stratified_weights,
    total_correlation,
)
from untwine.objective.core import Objective, Penalty, is_leaf
from untwine.objective.evaluation import at_step, evaluate
from untwine.objective.penalties import adversarial_total_correlation, dip_i, named
from untwine.objective.terms import Pass
from untwine.parts import from_json, leaves, rebuild, to_json

DENSITIES = [total_correlation(), total_correlation("stratified"), kl_aggregate_prior("stratified")]


@functools.cache
def model(latents: int) -> VAE:
    parts = uw.likelihoods.bernoulli, uw.posteriors.diagonal_normal, uw.priors.standard_normal
    return create(Info(latents, (4,)), uw.networks.mlp((6,), activation="tanh"), *parts).double()


def passing(q: Q, z: Tensor, data_size: int = 0, prior_sample: Tensor | None = None) -> Pass:
    vae = model(z.shape[1])
    x = torch.zeros(len(z), 4, dtype=z.dtype)
    return Pass(x, q, vae.prior(), z, trace(nn.Identity(), z), vae, {}, data_size, prior_sample=prior_sample)


def value(penalty: Penalty, q: Q, z: Tensor, data_size: int = 0, prior_sample: Tensor | None = None) -> Tensor:
    return at_step({"p": penalty}, 0)["p"].term.value(passing(q, z, data_size, prior_sample))


def normals(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def some(kind: str, batch: int = 5, latents: int = 3) -> tuple[Q, Tensor]:
    """Posteriors that overlap, and a sample of each."""
    mean = normals(batch, latents)
    q: Q = DiagonalQ(mean, 0.5 * normals(batch, latents, seed=1))
    if kind == "full":
        q = FullQ(mean, 0.5 * normals(batch, latents, latents, seed=2).tril(-1) + torch.eye(latents).double())
    return q, q.sample(normals(batch, latents, seed=3))


# --- total correlation ------------------------------------------------------------------------------


def log_densities(q: Q, z: Tensor, weight: np.ndarray) -> tuple[list[float], list[list[float]]]:
    """log q(z_i) and log q(z_ik), from scipy's densities one by one."""
    mean, covariance = q.mean.numpy(), q.covariance().numpy()
    batch, latents = z.shape
    joint, marginals = [], []
    for i in range(batch):
        terms = [weight[i, j] * stats.multivariate_normal(mean[j], covariance[j]).pdf(z[i]) for j in range(batch)]
        joint.append(math.log(sum(terms)))
        row = []
        for k in range(latents):
            one = [
                weight[i, j] * stats.norm(mean[j, k], covariance[j, k, k] ** 0.5).pdf(z[i, k].item())
                for j in range(batch)
            ]
            row.append(math.log(sum(one)))
        marginals.append(row)
    return joint, marginals


def weights(estimator: str, batch: int, size: int) -> np.ndarray:
    """Chen et al. 2018's weights, entry by entry."""
    others, found = batch - 1, np.zeros((batch, batch))
    for i in range(batch):
        for j in range(batch):
            if estimator == "weighted":
                found[i, j] = 1 / (size * batch)
            elif estimator == "mixture":
                found[i, j] = 1 / batch
            elif i == j:
                found[i, j] = 1 / size
            elif j == (i + 1) % batch:
                found[i, j] = (size - others) / (size * others)
            else:
                found[i, j] = 1 / others
    return found


@pytest.mark.parametrize("kind", ["diagonal", "full"])
@pytest.mark.parametrize("estimator", ["weighted", "stratified"])
def test_total_correlation_by_loops(estimator, kind):
    q, z = some(kind)
    joint, marginals = log_densities(q, z, weights(estimator, 5, 40))
    expected = sum(joint[i] - sum(marginals[i]) for i in range(5)) / 5
    assert value(total_correlation(estimator), q, z, 40).item() == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_the_total_correlation_of_a_correlated_gaussian(kind):
    """-1/2 log det R, by closed form, as the batch (all of the data) grows; the weighted one less (d - 1) log N."""
    correlation = torch.tensor([[1.0, 0.6, 0.2], [0.6, 1.0, -0.3], [0.2, -0.3, 1.0]]).double()
    truth = -0.5 * torch.logdet(correlation).item()
    share = 0.3  # of the variance that is within posteriors
    within = share * torch.linalg.eigvalsh(correlation)[0] * torch.eye(3).double()
    if kind == "full":
        within = share * correlation
    between = torch.linalg.cholesky(correlation - within)
    errors = {"weighted": {}, "stratified": {}}
    for size in (100, 1600):
        mean = normals(size, 3, seed=size) @ between.T
        factor = torch.linalg.cholesky(within).expand(size, 3, 3)
        q = FullQ(mean, factor) if kind == "full" else DiagonalQ(mean, within.diagonal().log().expand(size, 3))
        z = q.sample(normals(size, 3, seed=size + 1))
        for estimator, found in errors.items():
            excess = 2 * math.log(size) if estimator == "weighted" else 0.0
            found[size] = value(total_correlation(estimator), q, z, size).item() - excess - truth
    assert truth > 0.3
    for found in errors.values():
        assert abs(found[1600]) < 0.1 and abs(found[1600]) < abs(found[100]) + 0.02


def test_stratified_weights_are_unbiased():
    """Over all ordered batches of a tiny dataset: the mean of sum_j w_ij q(z|x_j) is (1/N) sum_n q(z|x_n)."""
    size, batch = 5, 3
    densities = np.random.default_rng(0).uniform(size=(size, size))  # q(z_n | x_m), whatever it is
    weight = stratified_weights(batch, size, torch.float64).numpy()
    assert np.allclose(weight, weights("stratified", batch, size)) and np.allclose(weight.sum(1), 1)
    for n in range(size):
        for place in range(batch):
            batches = [b for b in itertools.permutations(range(size), batch) if b[place] == n]
            estimates = [sum(weight[place, j] * densities[n, b[j]] for j in range(batch)) for b in batches]
            assert np.mean(estimates) == pytest.approx(densities[n].mean())
            assert np.std(estimates) > 0.01


def test_a_batch_larger_than_the_data():
    for batch, size in ((4, 3), (5, 3), (9, 1), (2, 1)):
        weight = stratified_weights(batch, size)
        assert (weight > 0).all() and torch.allclose(weight.sum(1), torch.ones(batch))
        assert torch.equal(weight, stratified_weights(batch, batch))
    q, z = some("diagonal")
    for penalty in DENSITIES:
        assert value(penalty, q, z, 1).isfinite()


def test_invariances():
    q, z = some("full")
    order, latents = torch.tensor([3, 0, 4, 1, 2]), torch.tensor([2, 0, 1])
    shuffled = FullQ(q.mean[order], q.factor[order])
    assert torch.allclose(value(total_correlation(), q, z, 9), value(total_correlation(), shuffled, z[order], 9))
    q, z = some("diagonal")
    turned = DiagonalQ(q.mean[:, latents], q.log_variance[:, latents])
    for penalty in DENSITIES:
        assert torch.allclose(value(penalty, q, z, 9), value(penalty, turned, z[:, latents], 9))


@pytest.mark.parametrize("estimator", ["weighted", "stratified"])
def test_one_latent_has_no_total_correlation(estimator):
    q, z = some("diagonal", latents=1)
    assert value(total_correlation(estimator), q, z, 9).item() == pytest.approx(0, abs=1e-12)


def test_the_size_of_the_data_matters_to_the_weighted_value_not_to_its_gradient():
    q, z = some("diagonal")
    mean = q.mean.clone().requires_grad_()
    found = [value(total_correlation(), DiagonalQ(mean, q.log_variance), z, size) for size in (10, 1000)]
    assert (found[1] - found[0]).item() == pytest.approx(2 * math.log(100))
    slopes = [torch.autograd.grad(one, mean)[0] for one in found]
    assert torch.allclose(*slopes) and slopes[0].abs().max() > 1e-3


# --- KL to and from the prior -----------------------------------------------------------------------

MEANS, SCALES = (-1.0, 0.8, 2.0, -2.5), (0.4, 0.6, 0.3, 0.5)


def mixture(count: int) -> tuple[DiagonalQ, stats.rv_continuous]:
    """The first few posteriors, and the density of their mixture."""
    mean, scale = torch.tensor(MEANS[:count]).double()[:, None], torch.tensor(SCALES[:count]).double()[:, None]
    density = lambda z: np.mean([stats.norm(m, s).pdf(z) for m, s in zip(MEANS[:count], SCALES, strict=False)], 0)
    return DiagonalQ(mean, 2 * scale.log()), density


def quadrature(first, second) -> float:
    """KL(first || second) of two densities on a line."""
    inner = lambda z: first(z) * (np.log(first(z)) - np.log(second(z)))
    return integrate.quad(inner, -8, 8, limit=200, points=[-2.5, -1, 0, 0.8, 2])[0]


def quantiles(count: int) -> Tensor:
    """A standard normal's, at the middles of equal parts: averages over them are integrals."""
    return torch.special.ndtri((torch.arange(count).double() + 0.5) / count)[:, None]


def test_kl_prior_aggregate_of_two_components():
    q, density = mixture(2)
    truth = quadrature(stats.norm.pdf, density)
    found = value(kl_prior_aggregate, q, q.mean, prior_sample=quantiles(20_000))
    assert found.item() == pytest.approx(truth, abs=2e-3) and truth > 0.1


@pytest.mark.parametrize("estimator", ["mixture", "stratified"])
def test_kl_aggregate_prior_of_two_components(estimator):
    """Every component often, with the quantiles of each as its samples: the batch is all of the data."""
    (q, density), count = mixture(2), 700
    many = DiagonalQ(q.mean.repeat(count, 1), q.log_variance.repeat(count, 1))
    z = many.sample(quantiles(count).repeat_interleave(2, 0))
    truth = quadrature(density, stats.norm.pdf)
    found = value(kl_aggregate_prior(estimator), many, z, data_size=2 * count)
    assert found.item() == pytest.approx(truth, abs=3e-3) and truth > 0.1


@pytest.mark.parametrize("estimator", ["mixture", "stratified"])
@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_kl_aggregate_prior_by_loops(kind, estimator):
    q, z = some(kind)
    joint, _ = log_densities(q, z, weights(estimator, 5, 40))
    prior = [stats.norm.logpdf(z[i].numpy()).sum() for i in range(5)]
    expected = sum(joint[i] - prior[i] for i in range(5)) / 5
    assert value(kl_aggregate_prior(estimator), q, z, 40).item() == pytest.approx(expected)


def test_which_way_the_estimates_err():
    """Batches of two of four examples, all of them, many samples of each: the signs that the docstrings state."""
    q, density = mixture(4)
    truth = quadrature(density, stats.norm.pdf)
    eps = normals(4000, 2, 1)
    found = {"mixture": [], "stratified": []}
    for pair in itertools.permutations(range(4), 2):
        own = DiagonalQ(q.mean[list(pair)], q.log_variance[list(pair)])
        for estimator, rows in found.items():
            one = lambda e, own=own, estimator=estimator: value(kl_aggregate_prior(estimator), own, own.sample(e), 4)
            rows.append(torch.func.vmap(one)(eps).mean().item())
    assert 0.1 < np.mean(found["mixture"]) - truth < math.log(4 / 2)
    assert np.mean(found["stratified"]) - truth < -0.05
    reverse = quadrature(stats.norm.pdf, density)
    halves = [
        value(kl_prior_aggregate, DiagonalQ(q.mean[list(p)], q.log_variance[list(p)]), q.mean[:2], 4, quantiles(2000))
        for p in itertools.combinations(range(4), 2)
    ]
    assert torch.stack(halves).mean() - reverse > 0.1


# --- MMD --------------------------------------------------------------------------------------------


def kernel(name: str, square: float, constant: float) -> float:
    return constant / (constant + square) if name == "imq" else math.exp(-square / constant)


@pytest.mark.parametrize("per_dimension", [False, True])
@pytest.mark.parametrize("name", ["imq", "rbf"])
def test_mmd_by_loops(name, per_dimension):
    z, p = normals(4, 3).numpy(), normals(5, 3, seed=1).numpy() + 0.5
    total = 0.0
    for scale in (0.3, 2.0):
        for dims in [[0], [1], [2]] if per_dimension else [[0, 1, 2]]:
            constant = 2 * len(dims) * scale
            k = lambda a, b, dims=dims, c=constant: kernel(name, ((a - b)[dims] ** 2).sum(), c)
            total += np.mean([k(z[i], z[j]) for i in range(4) for j in range(4) if i != j])
            total += np.mean([k(p[i], p[j]) for i in range(5) for j in range(5) if i != j])
            total -= 2 * np.mean([k(a, b) for a in z for b in p])
    z, p = torch.from_numpy(z), torch.from_numpy(p)
    found = value(mmd(name, (0.3, 2.0), per_dimension), PointQ(z), z, prior_sample=p)
    assert found.item() == pytest.approx(total)


def expected_kernel(name: str, shift: float, variance: float, constant: float) -> float:
    """E k(d^2) for a difference d ~ N(shift, variance)."""
    if name == "rbf":
        return math.sqrt(constant / (constant + 2 * variance)) * math.exp(-(shift**2) / (constant + 2 * variance))
    spread = variance**0.5
    density = stats.norm(shift, spread).pdf
    inner = lambda d: constant / (constant + d**2) * density(d)
    return integrate.quad(inner, shift - 10 * spread, shift + 10 * spread, points=[0.0, shift])[0]


@pytest.mark.parametrize(("shift", "variance"), [(0.0, 1.0), (0.7, 1.0), (0.0, 0.25)])
@pytest.mark.parametrize("name", ["imq", "rbf"])
def test_mmd_is_unbiased(name, shift, variance):
    """The mean of many is that of the two Gaussians, by closed form or quadrature; 0 if they are the same."""
    scales, repeats = (0.1, 1.0), 600
    truth = sum(
        expected_kernel(name, 0, 2 * variance, 2 * s)
        + expected_kernel(name, 0, 2, 2 * s)
        - 2 * expected_kernel(name, shift, 1 + variance, 2 * s)
        for s in scales
    )
    z, p = shift + variance**0.5 * normals(repeats, 16, 2), normals(repeats, 16, 2, seed=1)
    one = lambda z, p: value(mmd(name, scales, per_dimension=True), PointQ(z), z, prior_sample=p)
    found = torch.func.vmap(one)(z, p)
    error = found.std().item() / repeats**0.5
    assert abs(found.mean().item() - 2 * truth) < 3.5 * error
    assert (2 * truth < 1e-12) == (shift == 0 and variance == 1)
    assert 2 * truth > 10 * error or (shift == 0 and variance == 1)


def test_the_joint_mmd_sees_dependence_and_each_dimension_alone_does_not():
    independent = normals(800, 2)
    z = independent @ torch.tensor([[1.0, 0.9], [0.0, 0.19**0.5]]).double()  # standard normals, correlated
    p = normals(800, 2, seed=1)
    joint, alone = (value(mmd(per_dimension=each), PointQ(z), z, prior_sample=p).item() for each in (False, True))
    assert joint > 0.05 and abs(alone) < 0.01


@pytest.mark.parametrize("per_dimension", [False, True])
@pytest.mark.parametrize("name", ["imq", "rbf"])
def test_gradients_of_mmd(name, per_dimension):
    z, p = normals(4, 3).requires_grad_(), (normals(5, 3, seed=1) + 0.5).requires_grad_()
    penalty = mmd(name, (0.3, 2.0), per_dimension)
    assert torch.autograd.gradcheck(lambda z, p: value(penalty, PointQ(z), z, prior_sample=p), (z, p))


@pytest.mark.parametrize("per_dimension", [False, True])
def test_mmd_keeps_no_matrix_of_pairs(per_dimension):
    kept = []
    z = normals(50, 3).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        value(mmd(per_dimension=per_dimension), PointQ(z), z, prior_sample=normals(50, 3, seed=1))
    assert max(kept) <= 150


def test_scales_are_leaves():
    penalty = mmd("rbf", (1, 2.5))
    assert penalty.term.scales == (1.0, 2.5) and len(list(leaves(penalty, is_leaf))) == 3
    assert from_json(json.loads(json.dumps(to_json(penalty)))) == penalty
    assert mmd(scales=2) == mmd(scales=(2.0,))
    z, p = normals(2, 6, 3), normals(2, 6, 3, seed=1) + 0.5
    scales = torch.tensor([[0.3, 1.0], [2.0, 4.0]]).double()

    def one(z: Tensor, p: Tensor, scales: Tensor) -> Tensor:
        made = rebuild(mmd("imq", (1.0, 1.0)), is_leaf, iter((scales[0], scales[1], torch.ones(()))))
        return made.term.value(passing(PointQ(z), z, prior_sample=p))

    leaf = z.clone().requires_grad_()
    together = torch.func.vmap(one)(leaf, p, scales)
    (slopes,) = torch.autograd.grad(together.sum(), leaf)
    for i in range(2):
        mine = z[i].clone().requires_grad_()
        alone = value(mmd("imq", scales[i].tolist()), PointQ(mine), mine, prior_sample=p[i])
        assert torch.allclose(together[i], alone)
        assert torch.allclose(slopes[i], torch.autograd.grad(alone, mine)[0])


def test_under_bfloat16_mmd_is_float32():
    z, p = normals(20, 3).float(), normals(20, 3, seed=1).float()
    exact = value(mmd(), PointQ(z), z, prior_sample=p)
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(value(mmd(), PointQ(z), z, prior_sample=p), exact)


# --- all of them ------------------------------------------------------------------------------------


@pytest.mark.parametrize("posterior", [uw.posteriors.diagonal_normal, uw.posteriors.full_normal])
@pytest.mark.filterwarnings("error:There is a performance drop")  # an operation that vmap would loop over
@pytest.mark.parametrize(
    "penalty",
    [*DENSITIES, kl_aggregate_prior(), kl_prior_aggregate, mmd(), mmd("rbf"), mmd(per_dimension=True)],
    ids=lambda penalty: str(penalty.term),
)
def test_members_under_vmap_are_members_alone(penalty, posterior):
    """Values and gradients of a whole model, float64."""
    info = Info(3, (4,), data_size=50)
    parts = uw.likelihoods.bernoulli, posterior, uw.priors.standard_normal
    objective = Objective(*parts, {"p": penalty})
    members = [create(info, uw.networks.mlp((6,)), *parts, seed=seed).double() for seed in range(2)]
    noise = {"posterior": normals(2, 5, 3)}
    for name, (kind, shape) in objective.needs(info).noise.items():
        assert kind == "uniform"
        noise[name] = torch.rand(2, 5, *shape, generator=torch.Generator().manual_seed(5)).double()
    x = torch.rand(2, 5, 4, generator=torch.Generator().manual_seed(4)).double()

    class Loss(nn.Module):
        def __init__(self, vae: VAE):
            super().__init__()
            self.vae = vae

        def forward(self, x: Tensor, noise: dict[str, Tensor]) -> Tensor:
            return evaluate(self.vae, at_step(objective.penalties, 0), x, noise, info.data_size)["p"]

    parameters = {
        f"vae.{key}": torch.stack([dict(m.named_parameters())[key].detach() for m in members]).requires_grad_()
        for key, _ in members[0].named_parameters()
    }
    template = Loss(members[0])
    together = torch.func.vmap(lambda p, x, n: torch.func.functional_call(template, p, (x, n)))(parameters, x, noise)
    options = {"allow_unused": True, "materialize_grads": True}
    slopes = torch.autograd.grad(together.sum(), list(parameters.values()), **options)
    for i, member in enumerate(members):
        alone = Loss(member)(x[i], {key: one[i] for key, one in noise.items()})
        assert torch.allclose(together[i], alone)
        own = torch.autograd.grad(alone, list(member.parameters()), **options)
        for ours, theirs in zip(slopes, own, strict=True):
            assert torch.allclose(ours[i], theirs, atol=1e-12)
        assert max(g.abs().max() for g in own) > 1e-4


def test_needs():
    info = Info(3, (4,))
    assert all(penalty.term.needs(info).prior for penalty in (kl_prior_aggregate, mmd()))
    assert not any(penalty.term.needs(info).prior for penalty in DENSITIES)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: total_correlation("mixture"), "'weighted' or 'stratified', not 'mixture'"),
        (lambda: kl_aggregate_prior("weighted"), "'mixture' or 'stratified', not 'weighted'"),
        (lambda: mmd("linear"), "'imq' or 'rbf', not 'linear'"),
        (lambda: mmd(scales=()), r"must be positive numbers, not \(\)"),
        (lambda: mmd(scales=(1.0, -1.0)), "item 2 of scales of penalty 'mmd' must be positive, not -1"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(UntwineError, match=message):
        make()


def test_what_cannot_be_estimated_is_refused():
    q, z = some("diagonal")
    for penalty in DENSITIES:
        with pytest.raises(UntwineError, match="needs the number of training examples"):
            value(penalty, q, z)
        with pytest.raises(UntwineError, match="deterministic posterior has no density"):
            value(penalty, PointQ(z), z, 9)
    assert value(kl_aggregate_prior(), q, z).isfinite()  # a mixture needs no size
    one = DiagonalQ(q.mean[:1], q.log_variance[:1])
    with pytest.raises(UntwineError, match="stratified sampling needs a batch of 2 examples or more"):
        value(total_correlation("stratified"), one, z[:1], 9)
    with pytest.raises(UntwineError, match="mmd needs a batch of 2 examples or more"):
        value(mmd(), one, z[:1], prior_sample=z)
    assert value(total_correlation(), one, z[:1], 9).isfinite()


def test_divergences_by_name():
    assert named("mmd") == mmd() and named("kl-prior-aggregate") == kl_prior_aggregate
    assert named("mmd(per_dimension=true)") == mmd(per_dimension=True)
    assert named("kl-aggregate-prior(stratified)") == kl_aggregate_prior("stratified")
    assert named("total_correlation(estimator=stratified)") == total_correlation("stratified")
    assert named("dip-i(1, 2)") == dip_i(1.0, 2.0)
    assert named("adversarial-total-correlation(hidden=10, lr=1e-3)") == adversarial_total_correlation(10, lr=1e-3)
    own = 2.0 * mmd()
    assert named(own) is own
    with pytest.raises(UntwineError, match="unknown divergence 'mdm'; did you mean 'mmd'"):
        named("mdm")


def test_mmd_far_from_the_origin():
    """Distances do not depend on where the origin is; in float32 their squares must not either."""
    z, p = normals(40, 5).float(), normals(40, 5, seed=1).float()

    def found(penalty: Penalty, shift: float) -> tuple[float, Tensor]:
        moved = (z + shift).requires_grad_()
        worth = value(penalty, PointQ(moved), moved, prior_sample=p + shift)
        return worth.item(), torch.autograd.grad(worth, moved)[0]

    for name in ("imq", "rbf"):
        (near, slope), (far, slope_there) = found(mmd(name), 0.0), found(mmd(name), 3000.0)
        assert far == pytest.approx(near, rel=2e-3, abs=2e-3)
        assert (slope_there - slope).norm() < 5e-3 * slope.norm()

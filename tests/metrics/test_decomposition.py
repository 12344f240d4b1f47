"""Overlap and its relatives, against quadrature, closed forms and densities one by one."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor
from torch import distributions as D

import untwine as uw
from untwine.errors import UntwineError
from untwine.metrics.families import aggregate
from untwine.metrics.families.aggregate import check_posterior, log_aggregate, log_marginals, mapped, rows
from untwine.metrics.families.decomposition import decomposition, estimator_bias
from untwine.model.info import Info
from untwine.model.posteriors import DiagonalQ, FullQ, PointQ, Q

Density = Callable[[Any], Any]
PARTS = ("kl", "kl_aggregate_prior", "total_correlation", "dimension_wise_kl")


def normals(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def standard(latents: int, dtype: torch.dtype = torch.float64) -> D.Distribution:
    return D.Independent(D.Normal(torch.zeros(latents, dtype=dtype), torch.ones(latents, dtype=dtype)), 1)


def some(kind: str = "diagonal", n: int = 30, latents: int = 3) -> Q:
    """Posteriors that overlap in part."""
    mean, log_variance = normals(n, latents), 0.5 * normals(n, latents, seed=1) - 1.5
    if kind == "diagonal":
        return DiagonalQ(mean, log_variance)
    below = 0.3 * normals(n, latents, latents, seed=2).tril(-1)
    return FullQ(mean, below + torch.diag_embed((0.5 * log_variance).exp()))


def near(score: Any, name: str, truth: float, slack: float = 0.0) -> bool:
    """Whether a number is within four standard errors of the truth."""
    value = float(score) if name == "mutual_information" else score.details[name]
    return abs(value - truth) <= 4 * score.details["standard_errors"][name] + slack


# --- the aggregate posterior ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_the_aggregate_posterior_by_loops(kind: str):
    q = some(kind, n=7)
    z = q.sample(normals(7, 3, seed=5))
    joint, marginals = log_aggregate(q, z)
    means, covariances = q.mean.numpy(), q.covariance().numpy()
    for i in range(7):
        densities = [stats.multivariate_normal(means[j], covariances[j]).pdf(z[i].numpy()) for j in range(7)]
        assert joint[i].item() == pytest.approx(math.log(sum(densities) / 7))
        for k in range(3):
            one = [stats.norm(means[j, k], covariances[j, k, k] ** 0.5).pdf(z[i, k].item()) for j in range(7)]
            assert marginals[i, k].item() == pytest.approx(math.log(sum(one) / 7))


def test_far_from_all_posteriors_the_density_does_not_vanish():
    q = some(n=4)
    z = torch.full((2, 3), 300.0).double()
    expected = q.log_matrix(z).logsumexp(1) - math.log(4)
    assert torch.allclose(log_aggregate(q, z, marginals=False)[0], expected) and expected.max() < -1e4


def test_narrow_posteriors_keep_their_digits():
    """z^2 / variance is 1e9 here, and log q(z|x) about 1."""
    q = DiagonalQ(5 * normals(50, 2), torch.full((50, 2), math.log(1e-8)).double())
    z = q.sample(normals(50, 2, seed=1))
    joint, marginals = log_aggregate(q, z)
    assert torch.allclose(joint, q.log_prob(z) - math.log(50), atol=1e-5)
    exact = q.log_marginals(z).logsumexp(1) - math.log(50)
    assert torch.allclose(marginals, exact, atol=1e-5)


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_posteriors_that_are_almost_points(kind: str):
    """z^2 / variance is 1e18 here: the difference of such squares would be noise."""
    q: Q = DiagonalQ(5 * normals(50, 2), torch.full((50, 2), math.log(1e-17)).double())
    if kind == "full":
        q = FullQ(q.mean, 10**-8.5 * torch.eye(2).double().expand(50, 2, 2))
    score = decomposition(q, standard(2))
    assert float(score) == pytest.approx(math.log(50), abs=1e-9)
    assert score.details["total_correlation"] == pytest.approx(math.log(50), abs=1e-9)  # -log n + 2 log n


# --- quadrature -------------------------------------------------------------------------------------

MEANS, SCALES = (-1.0, 0.8, 2.0, -2.5), (0.4, 0.6, 0.3, 0.5)
LINE = DiagonalQ(torch.tensor(MEANS).double()[:, None], 2 * torch.tensor(SCALES).double().log()[:, None])
EACH: list[Density] = [stats.norm(m, s).pdf for m, s in zip(MEANS, SCALES, strict=True)]


def whole(z: Any) -> Any:
    return np.mean([density(z) for density in EACH], 0)


def expectation(density: Density, value: Density, reach: float = 7.0) -> float:
    """By the trapezium rule."""
    z = np.linspace(-reach, reach, 8001)
    return float(integrate.trapezoid(density(z) * value(z), z))


def divergence(first: Density, second: Density) -> float:
    return expectation(first, lambda z: np.log(first(z)) - np.log(second(z)))


def often(q: Q, times: int) -> Q:
    """The same examples many times over: the same aggregate posterior, and many samples."""
    return mapped(q, lambda tensor: tensor.repeat(times, *(1,) * (tensor.ndim - 1)))


def test_on_a_line_by_quadrature():
    score = decomposition(often(LINE, 1000), standard(1), draws=2)
    overlap = np.mean([divergence(density, whole) for density in EACH])
    from_prior = divergence(whole, stats.norm.pdf)
    kl = np.mean([divergence(density, stats.norm.pdf) for density in EACH])
    assert kl == pytest.approx(overlap + from_prior, abs=1e-6) and 0.8 < overlap < math.log(4)
    assert score.details["closed_kl"] == pytest.approx(kl, abs=1e-6)
    assert near(score, "mutual_information", float(overlap)) and near(score, "kl", float(kl))
    assert near(score, "kl_aggregate_prior", from_prior)
    assert max(score.details["standard_errors"].values()) < 0.03
    assert score.details["dimension_wise_kl"] == pytest.approx(score.details["kl_aggregate_prior"], abs=1e-9)
    assert score.details["total_correlation"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_in_the_plane_by_quadrature(kind: str):
    mean = torch.tensor([[-1.2, -0.8], [0.9, 1.0], [0.2, 0.3]]).double()
    lower = torch.tensor([[0.5, 0.0], [0.3, 0.4]]).double() if kind == "full" else torch.diag(torch.tensor([0.5, 0.4]))
    q: Q = FullQ(mean, lower.double().expand(3, 2, 2))
    if kind == "diagonal":
        q = DiagonalQ(mean, lower.double().diagonal().square().log().expand(3, 2))
    score = decomposition(often(q, 1200), standard(2))
    side = np.linspace(-5, 5, 401)
    area, grid = (side[1] - side[0]) ** 2, np.stack(np.meshgrid(side, side, indexing="ij"), -1)
    each = [
        stats.multivariate_normal(m, c).pdf(grid) for m, c in zip(q.mean.numpy(), q.covariance().numpy(), strict=True)
    ]
    both = np.mean(each, 0)
    rows_, columns = both.sum(1) * (side[1] - side[0]), both.sum(0) * (side[1] - side[0])
    log = lambda density: np.log(np.maximum(density, 1e-300))
    prior = stats.norm.logpdf(grid).sum(-1)
    truth = {
        "mutual_information": np.mean([(one * (log(one) - log(both))).sum() * area for one in each]),
        "kl": np.mean([(one * (log(one) - prior)).sum() * area for one in each]),
        "kl_aggregate_prior": (both * (log(both) - prior)).sum() * area,
        "total_correlation": (both * (log(both) - log(rows_)[:, None] - log(columns))).sum() * area,
    }
    truth["dimension_wise_kl"] = truth["kl_aggregate_prior"] - truth["total_correlation"]
    assert truth["total_correlation"] > 0.1 and truth["mutual_information"] > 0.3
    for name, value in truth.items():
        assert near(score, name, float(value)) and score.details["standard_errors"][name] < 0.03, name


@dataclass(frozen=True)
class LaplaceQ(Q):
    """A posterior of the user's own: no closed form, marginals that are not normal."""

    mean: Tensor
    scale: Tensor

    def sample(self, eps: Tensor) -> Tensor:
        return D.Laplace(self.mean, self.scale).icdf(torch.special.ndtr(eps))

    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    def log_prob(self, z: Tensor) -> Tensor:
        return D.Laplace(self.mean, self.scale).log_prob(z).sum(-1)

    def log_marginals(self, z: Tensor) -> Tensor:
        return D.Laplace(self.mean, self.scale).log_prob(z[:, None])

    def log_matrix(self, z: Tensor) -> Tensor:
        return self.log_marginals(z).sum(-1)


def test_a_posterior_of_the_users_own():
    q = LaplaceQ(LINE.mean, torch.tensor(SCALES).double()[:, None])
    each = [stats.laplace(m, s).pdf for m, s in zip(MEANS, SCALES, strict=True)]
    mixed = lambda z: np.mean([density(z) for density in each], 0)
    log_ratio = lambda density: expectation(density, lambda z: np.log(density(z) / mixed(z)), 15.0)
    score = decomposition(often(q, 1000), standard(1))
    assert near(score, "mutual_information", float(np.mean([log_ratio(density) for density in each])))
    assert score.details["closed_kl"] is None
    assert score.details["total_correlation"] == pytest.approx(0, abs=1e-9)


# --- closed forms -----------------------------------------------------------------------------------


def test_posteriors_that_are_all_the_same_share_nothing():
    q = DiagonalQ(torch.full((40, 2), 0.3), torch.full((40, 2), -1.0))
    score = decomposition(q, standard(2))
    assert float(score) == pytest.approx(0, abs=1e-9)
    assert score.details["standard_errors"]["mutual_information"] == pytest.approx(0, abs=1e-9)
    assert score.details["total_correlation"] == pytest.approx(0, abs=1e-9)
    assert score.details["kl"] == pytest.approx(score.details["kl_aggregate_prior"], abs=1e-9)


def test_posteriors_that_nowhere_overlap_share_all():
    q = DiagonalQ(50.0 * torch.arange(60.0)[:, None] * torch.tensor([1.0, 0.0]), torch.zeros(60, 2))
    score = decomposition(q, standard(2))
    assert float(score) == pytest.approx(math.log(60), abs=1e-9)
    few = decomposition(q, standard(2), points=5)
    assert float(few) == pytest.approx(math.log(60), abs=1e-9)  # of all data, not of five


def test_a_linear_gaussian_model():
    """Means on the quantiles of a normal, correlated: q(z) is a normal up to the spacing."""
    side = torch.special.ndtri((torch.arange(60).double() + 0.5) / 60)
    side = side / side.square().mean().sqrt()
    between = torch.tensor([[1.0, 0.0], [0.7, 0.5]]).double()
    mean = torch.cartesian_prod(side, side) @ between.T
    within = torch.tensor([0.3, 0.2]).double()
    total = between @ between.T + torch.diag(within)
    score = decomposition(DiagonalQ(mean, within.log().expand(3600, 2)), standard(2))
    assert near(score, "mutual_information", 0.5 * (total.logdet() - within.log().sum()).item(), 0.02)
    correlation = (total[0, 1] / (total[0, 0] * total[1, 1]).sqrt()).item()
    assert near(score, "total_correlation", -0.5 * math.log(1 - correlation**2), 0.02)
    from_prior = 0.5 * (total.trace() - 2 - total.logdet()).item()
    assert near(score, "kl_aggregate_prior", from_prior, 0.02)
    by_latent = 0.5 * (total.diagonal() - 1 - total.diagonal().log())
    assert near(score, "dimension_wise_kl", by_latent.sum().item(), 0.02)
    assert score.details["dimension_wise_kl_by_latent"] == pytest.approx(by_latent.numpy(), abs=0.05)


# --- identities -------------------------------------------------------------------------------------

PRIORS = {
    "standard": uw.priors.standard_normal,
    "anisotropic": uw.priors.anisotropic_normal((2.0, 0.5, 1.0)),
    "student_t": uw.priors.student_t(4.0),
    "laplace": uw.priors.laplace(0.7),
    "sparse": uw.priors.sparse(0.8, 0.05),
    "generalised": uw.priors.generalised_normal(4.0),
    "mixture": uw.priors.mixture_of_normals(((0.0, 1.0, 0.0), (1.0, 0.0, 2.0)), 0.3, (0.2, 0.8)),
    "correlated": uw.priors.given(D.MultivariateNormal(torch.zeros(3), torch.eye(3) + 0.5)),
}


@pytest.mark.parametrize("kind", ["diagonal", "full"])
@pytest.mark.parametrize("name", PRIORS)
def test_the_parts_add_up(name: str, kind: str):
    prior = PRIORS[name].build(Info(latents=3, shape=(5,)))()
    score = decomposition(some(kind, n=200), prior)
    details, value = score.details, float(score)
    assert details["kl"] == pytest.approx(value + details["kl_aggregate_prior"], abs=1e-9)
    rest = details["total_correlation"] + details["dimension_wise_kl"]
    if name in ("mixture", "correlated"):  # no product over latents
        assert abs(details["kl_aggregate_prior"] - rest) > 0.05
    else:
        assert details["kl"] == pytest.approx(value + rest, abs=1e-4)  # the prior is in float32
    assert details["dimension_wise_kl_by_latent"].sum() == pytest.approx(details["dimension_wise_kl"])
    if details["closed_kl"] is not None:
        assert near(score, "kl", details["closed_kl"])
    assert (details["closed_kl"] is None) == (name not in ("standard", "anisotropic", "laplace", "correlated")) or (
        name == "laplace" and kind == "full"
    )


def test_marginals_of_priors_by_quadrature():
    weights, means = (0.2, 0.8), ((0.0, 1.0), (1.0, -0.5))
    covariance = np.array([[0.5, 0.2], [0.2, 0.3]])
    correlated = D.MixtureSameFamily(
        D.Categorical(torch.tensor(weights).double()),
        D.MultivariateNormal(torch.tensor(means).double(), torch.tensor(covariance)),
    )
    density = lambda a, b: sum(
        w * stats.multivariate_normal(m, covariance).pdf([a, b]) for w, m in zip(weights, means, strict=True)
    )
    z = torch.tensor([[0.3, -0.2]]).double()
    found = log_marginals(correlated, z)
    assert found is not None and found.shape == (1, 2)
    first = integrate.quad(lambda b: density(0.3, b), -8, 8)[0]
    second = integrate.quad(lambda a: density(a, -0.2), -8, 8)[0]
    assert found[0].exp().tolist() == pytest.approx([first, second])
    low_rank = D.LowRankMultivariateNormal(torch.zeros(2), torch.tensor([[1.0], [2.0]]), torch.ones(2))
    assert torch.allclose(
        log_marginals(low_rank, z.float())[0],  # type: ignore[index]
        D.Normal(0.0, torch.tensor([2.0, 5.0]).sqrt()).log_prob(z[0].float()),
    )
    assert log_marginals(D.Independent(standard(2), 0), z).tolist() == standard(2).base_dist.log_prob(z).tolist()


def test_a_prior_whose_marginals_are_not_known():
    turned = D.TransformedDistribution(standard(3), [D.transforms.AffineTransform(0.0, 2 * torch.ones(3), event_dim=1)])
    score = decomposition(some(), turned)
    assert score.details["dimension_wise_kl"] is None and score.details["closed_kl"] is None
    assert score.details["standard_errors"]["dimension_wise_kl"] is None
    assert "marginals" in score.details["undefined"]["dimension_wise_kl"]
    wide = D.Independent(D.Normal(torch.zeros(3), 2 * torch.ones(3)), 1)
    assert score.details["kl"] == pytest.approx(decomposition(some(), wide).details["kl"], rel=1e-5)


def test_full_covariances_that_are_diagonal():
    q = some(n=50)
    full = FullQ(q.mean, torch.diag_embed((0.5 * q.log_variance).exp()))  # type: ignore[attr-defined]
    one, other = decomposition(q, standard(3)), decomposition(full, standard(3))
    assert float(one) == pytest.approx(float(other), rel=1e-9)
    assert [one.details[name] for name in PARTS] == pytest.approx([other.details[name] for name in PARTS], rel=1e-9)


def test_the_order_of_latents_and_examples_matters_to_the_samples_alone():
    q = some(n=400)
    score = decomposition(q, standard(3))
    error = score.details["standard_errors"]["mutual_information"]
    order = torch.arange(399, -1, -1)
    for same in (rows(q, order), mapped(q, lambda tensor: tensor[:, [2, 0, 1]])):
        other = decomposition(same, standard(3))
        assert 0 < abs(float(other) - float(score)) < 4 * math.sqrt(2) * error
        assert other.details["closed_kl"] == pytest.approx(score.details["closed_kl"])


# --- samples ----------------------------------------------------------------------------------------


def test_samples_are_a_function_of_the_seed():
    q, prior = some(n=60), standard(3)
    assert float(decomposition(q, prior, seed=3)) == float(decomposition(q, prior, seed=3))
    assert float(decomposition(q, prior, seed=3)) != float(decomposition(q, prior, seed=4))
    assert float(decomposition(q, prior, points=20)) != float(decomposition(q, prior, points=20, seed=1))


def test_points_and_samples():
    q, prior = some(n=600), standard(3)
    score, few, many = (decomposition(q, prior, points=p, draws=s) for p, s in ((None, 1), (100, 1), (None, 30)))
    assert score.settings == {"draws": 1, "points": 600, "seed": 0, "examples": 600}
    assert few.settings["points"] == 100 and not few.comparable(score)
    for name in ("mutual_information", *PARTS):
        errors = [one.details["standard_errors"][name] for one in (few, score, many)]
        assert errors[0] > 1.5 * errors[1] > errors[2] > 0
        value = float(many) if name == "mutual_information" else many.details[name]
        assert near(score, name, value) and near(few, name, value)


def test_standard_errors_are_those_of_the_samples():
    """Examples that are alike: nothing differs but the samples."""
    q = DiagonalQ(torch.tensor([[-1.0], [1.0]]).double().repeat(100, 1), torch.zeros(200, 1).double())
    scores = [decomposition(q, standard(1), seed=seed) for seed in range(60)]
    spread = np.std([float(score) for score in scores])
    assert np.mean([score.details["standard_errors"]["mutual_information"] for score in scores]) == pytest.approx(
        spread, rel=0.3
    )


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_chunks_change_nothing(kind: str, monkeypatch: pytest.MonkeyPatch):
    q, prior = some(kind, n=50), standard(3)
    once = decomposition(q, prior)
    monkeypatch.setattr(aggregate, "_PAIRS", {"cpu": 7 * 50})
    assert float(decomposition(q, prior)) == pytest.approx(float(once), rel=1e-12)


def test_single_precision():
    q = some(n=80)
    rough = mapped(q, lambda tensor: tensor.float())
    single, double = decomposition(rough, standard(3, torch.float32)), decomposition(q, standard(3))
    assert float(single) == pytest.approx(float(double), abs=1e-5)
    assert rough.mean.dtype == torch.float32


def test_learned_posteriors_and_priors_leave_no_graph():
    mean = normals(20, 2).requires_grad_()
    scale = torch.ones(2).requires_grad_()
    prior = D.Independent(D.Normal(torch.zeros(2), scale), 1)
    score = decomposition(DiagonalQ(mean, torch.zeros(20, 2).double()), prior)
    assert math.isfinite(float(score)) and mean.grad is None and scale.grad is None


def test_packs():
    members, priors = [some(n=40), some("full", n=40)], [standard(3), standard(3)]
    pack = decomposition(members, priors)
    alone = [decomposition(q, prior) for q, prior in zip(members, priors, strict=True)]
    assert pack.values.tolist() == [float(one) for one in alone]
    assert set(pack.scores()) == {"decomposition", *(f"decomposition {name}" for name in PARTS)}
    for name in PARTS:
        assert pack.details[name].tolist() == [one.details[name] for one in alone]


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [decomposition, estimator_bias])
def test_what_has_no_density_is_refused(function: Callable[..., Any]):
    with pytest.raises(UntwineError, match="a deterministic posterior has no density"):
        function(PointQ(torch.zeros(5, 2)), standard(2))


@pytest.mark.parametrize(
    ("posterior", "prior", "message"),
    [
        (some(), standard(2), "over 3 latents"),
        (some(), D.Normal(torch.zeros(3), torch.ones(3)), "Independent"),
        (some(), "standard_normal", "torch distribution over 3 latents"),
        (torch.zeros(5, 3), standard(3), "a posterior is what vae.posterior"),
        (some(n=1), standard(3), "2 examples or more, not of 1"),
        (DiagonalQ(torch.full((3, 3), torch.nan), torch.zeros(3, 3)), standard(3), "diverge"),
    ],
)
def test_what_is_wrong_is_said(posterior: Any, prior: Any, message: str):
    with pytest.raises(UntwineError, match=message):
        check_posterior(posterior, prior)
    with pytest.raises(UntwineError, match=message):
        decomposition(posterior, prior)


def test_numbers_out_of_bounds_are_refused():
    with pytest.raises(UntwineError, match="draws must be a whole number, 1 or more, not 0"):
        decomposition(some(), standard(3), draws=0)
    with pytest.raises(UntwineError, match=r"points must be a whole number, from 2 to 30 \(the examples\), not 31"):
        decomposition(some(), standard(3), points=31)
    with pytest.raises(UntwineError, match="a batch size must be a whole number, from 2 to 30"):
        estimator_bias(some(), standard(3), batch_sizes=(8, 64))
    with pytest.raises(UntwineError, match="repeats must be a whole number, 2 or more"):
        estimator_bias(some(), standard(3), batch_sizes=(8,), repeats=1)


# --- what batches cost ------------------------------------------------------------------------------


def test_the_bias_of_pairs_by_quadrature():
    """Batches of two of four examples, all of them."""
    found = estimator_bias(LINE, standard(1), batch_sizes=(2,), repeats=500)
    differ: dict[str, list[float]] = {"mixture": [], "stratified": [], "reverse": []}
    for a, b in itertools.permutations(EACH, 2):
        pair = lambda z, a=a, b=b: (a(z) + b(z)) / 2
        weighed = lambda z, a=a, b=b: a(z) / 4 + 3 / 4 * b(z)
        differ["mixture"].append(divergence(pair, whole))
        differ["stratified"].append(expectation(a, lambda z, w=weighed: np.log(w(z)) - np.log(whole(z))))
        differ["reverse"].append(expectation(stats.norm.pdf, lambda z, p=pair: np.log(whole(z)) - np.log(p(z))))
    names = {
        "mixture": "kl_aggregate_prior(mixture)",
        "stratified": "kl_aggregate_prior(stratified)",
        "reverse": "kl_prior_aggregate",
    }
    for name, expected in differ.items():
        curve = found["bias"][names[name]]
        assert abs(np.mean(expected)) > 0.05
        assert curve["mean"][0] == pytest.approx(np.mean(expected), abs=4 * curve["error"][0])
    for estimator in ("weighted", "stratified"):  # one latent has none
        assert found["bias"][f"total_correlation({estimator})"]["mean"][0] == pytest.approx(0, abs=1e-9)
    truth = found["truth"]
    assert truth["kl_aggregate_prior"]["mean"] == pytest.approx(
        divergence(whole, stats.norm.pdf), abs=4 * truth["kl_aggregate_prior"]["error"]
    )
    assert truth["kl_prior_aggregate"]["mean"] == pytest.approx(
        divergence(stats.norm.pdf, whole), abs=4 * truth["kl_prior_aggregate"]["error"]
    )


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_bias_shrinks_as_batches_grow(kind: str):
    n = 128
    found = estimator_bias(some(kind, n=n), standard(3), batch_sizes=(4, 16, 64, n), repeats=8)
    assert found["batch_sizes"] == [4, 16, 64, n] and json.loads(json.dumps(found)) == found
    assert found["settings"] == {"examples": n, "latents": 3, "repeats": 8, "seed": 0}
    for name in ("kl_aggregate_prior(mixture)", "kl_prior_aggregate"):
        curve = found["bias"][name]["mean"]
        assert curve[0] > curve[1] > curve[2] > 0.01, name  # upwards, as their docstrings say
        assert curve[3] == pytest.approx(0, abs=1e-9)  # all of the data
    weighted, stratified = (found["bias"][f"total_correlation({name})"]["mean"] for name in ("weighted", "stratified"))
    assert weighted[3] == pytest.approx(2 * math.log(n), abs=1e-9)  # (d - 1) log N, a constant
    assert abs(weighted[2] - 2 * math.log(n)) < abs(weighted[0] - 2 * math.log(n)) < 2 * math.log(n)
    assert abs(stratified[2]) < abs(stratified[0])
    score = decomposition(some(kind, n=n), standard(3), draws=20)
    for name in ("total_correlation", "kl_aggregate_prior"):
        truth = found["truth"][name]
        assert abs(truth["mean"] - score.details[name]) < 4 * (truth["error"] + score.details["standard_errors"][name])


def test_batches_are_a_function_of_the_seed():
    prior = PRIORS["correlated"].build(Info(latents=3, shape=(5,)))()  # float32, products of matrices
    found = estimator_bias(some(n=40), prior, batch_sizes=(40,), repeats=3, seed=5)
    assert found["bias"]["kl_aggregate_prior(mixture)"]["mean"][0] == pytest.approx(0, abs=1e-9)
    other = estimator_bias(some(n=40), prior, batch_sizes=(10,), repeats=3, seed=6)
    assert other["bias"] != estimator_bias(some(n=40), prior, batch_sizes=(10,), repeats=3, seed=5)["bias"]
    assert other == estimator_bias(some(n=40), prior, batch_sizes=(10,), repeats=3, seed=6)


def test_one_latent_has_no_total_correlation():
    for q, reason in ((LINE, "there is only one latent"), (DiagonalQ(normals(5, 2), normals(5, 2)), None)):
        prior = torch.distributions.Independent(
            torch.distributions.Normal(torch.zeros(q.mean.shape[1]).double(), 1.0), 1
        )
        score = uw.metrics.decomposition(q, prior)
        assert score.reasons("total_correlation") == (reason,) and score.reasons() == (None,)

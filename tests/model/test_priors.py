"""Priors: those with names, and any torch distribution as data and back."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import distributions as D

import untwine as uw
from untwine.errors import UntwineError
from untwine.model.given import Given
from untwine.model.info import Info
from untwine.model.priors import (
    Prior,
    anisotropic_normal,
    generalised_normal,
    given,
    laplace,
    mixture_of_normals,
    named,
    sparse,
    standard_normal,
    student_t,
)
from untwine.parts import from_json, resolve, to_json
from untwine.train.steps.pack import build

INFO = Info(latents=3, shape=(1, 8, 8))
LOC, SCALE = torch.tensor([0.5, -1.0, 0.2]), torch.tensor([0.5, 1.0, 2.0])
LOWER = torch.tensor([[1.2, 0, 0], [-0.7, 0.5, 0], [0.4, 0.9, 2.0]])
CASES = {
    "laplace": D.Independent(D.Laplace(LOC, SCALE), 1),
    "student": D.Independent(D.StudentT(torch.tensor([3.0, 4.0, 5.0]), LOC, SCALE), 1),
    "student of one shape": D.Independent(D.StudentT(3.0, LOC, 2.0), 1),
    "multivariate": D.MultivariateNormal(LOC, scale_tril=LOWER),
    "multivariate by precision": D.MultivariateNormal(LOC, precision_matrix=torch.linalg.inv(LOWER @ LOWER.T)),
    "low rank": D.LowRankMultivariateNormal(LOC, LOWER[:, :1], SCALE),
    "mixture": D.MixtureSameFamily(
        D.Categorical(logits=torch.tensor([0.3, -0.7])),
        D.Independent(D.Normal(torch.stack((LOC, -LOC)), torch.stack((SCALE, SCALE.flip(0)))), 1),
    ),
    "mixture in each dimension": D.Independent(
        D.MixtureSameFamily(
            D.Categorical(torch.tensor([[0.2, 0.8]]).expand(3, 2)),
            D.Normal(torch.zeros(3, 2), torch.tensor([[1.0, 0.05]]).expand(3, 2)),
        ),
        1,
    ),
    "gumbel": D.Independent(D.Gumbel(LOC, SCALE), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_log_prob_survives_the_trip_through_json(name):
    distribution = CASES[name]
    prior = given(distribution)
    again = from_json(json.loads(json.dumps(to_json(prior))))
    assert again == prior and isinstance(again, Given)
    z = distribution.sample((50,))
    for part in (prior, again):
        built = part.build(INFO)
        assert built().event_shape == (3,)
        assert torch.allclose(built().log_prob(z), distribution.log_prob(z), rtol=1e-5, atol=1e-5)
        assert not list(built.parameters()) and not built.state_dict()  # fixed: no weights, nothing to save


def test_log_prob_can_differ():
    near = given(D.Independent(D.Laplace(LOC + 0.01, SCALE), 1))
    assert near != given(CASES["laplace"])
    z = torch.zeros(1, 3)
    assert not torch.allclose(near.build(INFO)().log_prob(z), CASES["laplace"].log_prob(z), rtol=1e-5)


def test_numbers_move_with_the_module():
    built = given(CASES["mixture"]).build(INFO).double()
    assert built().log_prob(torch.zeros(3).double()).dtype == torch.float64
    assert {tuple(b.shape) for b in built.buffers()} == {(2,), (2, 3)}


def test_standard_normal():
    built = standard_normal.build(INFO)
    z = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    expected = D.MultivariateNormal(torch.zeros(3), torch.eye(3)).log_prob(z)
    assert torch.allclose(built().log_prob(z), expected, rtol=1e-5) and not built.state_dict()


@pytest.mark.parametrize(
    "distribution",
    [
        D.Independent(D.Normal(torch.zeros(4), 1.0), 1),
        D.Normal(torch.zeros(2), 1.0),
        D.Normal(torch.zeros(2, 3), 1.0),  # six scalars, not one vector
        D.Independent(D.Normal(torch.zeros(2, 3), 1.0), 2),
        D.Independent(D.Normal(torch.zeros(2, 3), 1.0), 1),  # two vectors
    ],
)
def test_other_shapes_than_the_latents_are_refused(distribution):
    with pytest.raises(UntwineError, match=r"over vectors of shape .* but there are 3 latents"):
        given(distribution).build(INFO)


class Mine(D.Normal):
    pass


@pytest.mark.parametrize(
    "distribution",
    [
        Mine(torch.zeros(3), 1.0),
        D.Independent(Mine(torch.zeros(3), 1.0), 1),
        D.TransformedDistribution(D.Normal(torch.zeros(3), 1.0), [D.transforms.ExpTransform()]),
        D.Wishart(torch.tensor(3.0), torch.eye(2)),
    ],
)
def test_what_cannot_be_written_down_is_refused_at_once(distribution):
    with pytest.raises(UntwineError, match=r"a prior (must|cannot) be"):
        given(distribution)


def test_an_objective_takes_a_distribution_as_it_is():
    objective = uw.Objective(uw.likelihoods.bernoulli, uw.posteriors.diagonal_normal, CASES["laplace"])
    assert objective.prior == given(CASES["laplace"])
    assert from_json(json.loads(json.dumps(to_json(objective)))) == objective


@pytest.mark.parametrize("name", ["laplace", "student", "mixture", "mixture in each dimension", "multivariate"])
def test_a_stack_of_priors_under_vmap(name):
    built = given(CASES[name]).build(INFO)
    buffers = dict(built.named_buffers())
    z = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(1))
    stacked = {key: torch.stack((value, value)) for key, value in buffers.items()}

    class Density(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.prior = built

        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return self.prior().log_prob(z)

    def call(numbers: dict[str, torch.Tensor], z: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(Density(), {f"prior.{k}": v for k, v in numbers.items()}, (z,))

    together = torch.func.vmap(call)(stacked, z)
    assert torch.allclose(together, CASES[name].log_prob(z), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "bounded",
    [
        D.Independent(D.Uniform(-5 * SCALE, 5 * SCALE), 1),
        D.Independent(D.LogNormal(LOC, SCALE), 1),
        D.Independent(D.HalfNormal(SCALE), 1),
        D.Dirichlet(SCALE),
        D.Independent(D.VonMises(LOC, SCALE), 1),  # torch says all numbers, but its integral over them is infinite
    ],
)
def test_a_prior_on_a_part_of_the_space_is_refused(bounded):
    """Outside of its support a density is zero, and the KL infinite, whatever log_prob says there."""
    with pytest.raises(UntwineError, match="over all real vectors"):
        given(bounded).build(Info(latents=len(SCALE), shape=(5,)))


def test_scalars_are_taken_as_independent():
    made = given(D.Laplace(LOC, SCALE)).build(Info(latents=len(SCALE), shape=(5,)))()
    torch.testing.assert_close(made.log_prob(SCALE), D.Laplace(LOC, SCALE).log_prob(SCALE).sum())


# --- those with names -------------------------------------------------------------------------------

TWO = Info(latents=2, shape=(5,))
PLACES = np.array([-30.0, -2.0, -0.3, 0.0, 1e-3, 0.7, 5.0, 100.0])


def one(prior: Prior, latents: int = 1) -> Any:
    """The distribution of a prior, in double precision."""
    return prior.build(Info(latents=latents, shape=(5,))).double()()


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        (student_t(), stats.t(9.0)),
        (student_t(nu=0.7), stats.t(0.7)),
        (laplace(), stats.laplace()),
        (laplace(scale=0.3), stats.laplace(scale=0.3)),
        (generalised_normal(), stats.gennorm(4.0)),
        (generalised_normal(p=0.5, scale=2.0), stats.gennorm(0.5, scale=2.0)),
        (generalised_normal(p=2, scale=math.sqrt(2)), stats.norm()),
        (anisotropic_normal([0.25]), stats.norm(scale=0.5)),
        (mixture_of_normals(means=[[1.0]], variance=4), stats.norm(1.0, 2.0)),
    ],
)
def test_densities_and_moments_against_scipy(prior, expected):
    made = one(prior)
    ours = made.log_prob(torch.from_numpy(PLACES)[:, None]).numpy()
    assert ours == pytest.approx(expected.logpdf(PLACES), rel=1e-6, abs=1e-6)
    if math.isfinite(expected.var()):
        assert made.variance.item() == pytest.approx(expected.var(), rel=1e-5)
        assert made.mean.item() == pytest.approx(expected.mean(), abs=1e-6)


@pytest.mark.parametrize(
    "prior",
    [
        *(standard_normal, anisotropic_normal([3.0]), student_t(), student_t(1.0), laplace(0.2)),
        *(generalised_normal(0.5), generalised_normal(1.0), generalised_normal(8.0, 3.0)),
        *(sparse(), sparse(0.0), sparse(1.0), sparse(0.5, 1e-4), mixture_of_normals([[-1.0], [2.0]], weights=[1, 3])),
    ],
)
def test_each_integrates_to_one(prior):
    made = one(prior)
    density = lambda z: made.log_prob(torch.tensor([z]).double()).exp().item()
    ends = [-math.inf, -4.0, -0.1, 0.0, 0.1, 4.0, math.inf]
    whole = sum(integrate.quad(density, a, b, limit=300)[0] for a, b in itertools.pairwise(ends))
    assert whole == pytest.approx(1.0, abs=1e-6)


def test_the_mixtures_are_those_of_the_paper():
    """Section 6.2: four clusters of equal weight; section 6.3: a spike and a slab for each latent."""
    z = np.random.default_rng(0).normal(size=(20, 2))
    places = [(0, 1), (0, -1), (1, 0), (-1, 0)]
    expected = sum(stats.multivariate_normal(place, 0.03 * np.eye(2)).pdf(z) for place in places) / 4
    assert one(mixture_of_normals(), 2).log_prob(torch.from_numpy(z)).exp().numpy() == pytest.approx(expected, rel=1e-5)
    slab, spike = stats.norm(), stats.norm(scale=math.sqrt(0.05))
    expected = (0.2 * slab.pdf(z) + 0.8 * spike.pdf(z)).prod(1)
    assert one(sparse(), 2).log_prob(torch.from_numpy(z)).exp().numpy() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("gamma", "same"), [(0.0, standard_normal), (1.0, anisotropic_normal((0.05, 0.05)))], ids=["slab", "spike"]
)
def test_sparse_at_its_ends_is_a_normal_to_the_last_digit(gamma, same):
    ours, expected = sparse(gamma).build(TWO)(), same.build(TWO)()
    for scale in (0.0, 1.0, 50.0):
        z = (scale * torch.randn(64, 2, generator=torch.Generator().manual_seed(0))).requires_grad_()
        values = [p.log_prob(z) for p in (ours, expected)]
        assert torch.equal(*values)
        assert torch.equal(*[torch.autograd.grad(v.sum(), z)[0] for v in values])


def test_student_t_becomes_a_normal():
    z = torch.randn(50, 2, generator=torch.Generator().manual_seed(0)).double()
    far = [(one(student_t(nu), 2).log_prob(z) - one(standard_normal, 2).log_prob(z)).abs().max() for nu in (10, 1e4)]
    assert far[1] < 0.005 < far[0]


def test_weights_are_scaled_and_a_mixture_may_be_uneven():
    made = one(mixture_of_normals([[0, 0], [3, 3]], weights=[1, 3]), 2)
    assert torch.allclose(made.mixture_distribution.probs, torch.tensor([0.25, 0.75]).double())
    assert mixture_of_normals(np.eye(2), weights=np.array([1.0, 3.0])) == mixture_of_normals(
        [[1, 0], [0, 1]], 0.03, [1, 3]
    )


def test_anisotropic_variances_are_used_as_they_are_or_follow_the_data():
    assert one(anisotropic_normal((4, 0.25)), 2).variance.tolist() == [4.0, 0.25]
    info = Info(latents=3, shape=(5,), principal=lambda count: (0.6, 0.3, 0.1, 0.05)[:count])
    for learned in (False, True):
        made = anisotropic_normal(learned=learned).build(info)
        assert torch.allclose(made().variance, torch.tensor([1.8, 0.9, 0.3]))  # in proportion, and three in all
        assert set(made.state_dict()) == {"logits" if learned else "variances"}
    start = anisotropic_normal((4.0, 1.0, 1.0), learned=True).build(info)().variance
    assert torch.allclose(start, torch.tensor([2.0, 0.5, 0.5]))
    assert not anisotropic_normal((4.0, 1.0, 1.0)).build(info).state_dict()  # its spec has them


def test_learned_variances_keep_their_sum():
    made = anisotropic_normal((4.0, 1.0, 1.0), learned=True).build(INFO)
    optimiser = torch.optim.SGD(made.parameters(), 0.5)
    for _ in range(20):
        optimiser.zero_grad()
        (-made().log_prob(torch.tensor([0.1, 1.0, 2.0]))).backward()
        optimiser.step()
    assert made().variance.sum().item() == pytest.approx(3.0, rel=1e-5)
    assert made().variance[2] > made().variance[1] > made().variance[0]


def test_numbers_within_lists_differ_by_member():
    prior = anisotropic_normal((uw.each(4, 0.25), uw.each(0.25, 4)))
    assert from_json(resolve(to_json(prior), 0)) == anisotropic_normal((4.0, 0.25))
    assert from_json(resolve(to_json(prior), 1)) == anisotropic_normal((0.25, 4.0))
    clusters = mixture_of_normals([[uw.each(1, 2), 0.0], [0.0, 1.0]], weights=[uw.each(1, 9), 1.0])
    assert from_json(resolve(to_json(clusters), 1)) == mixture_of_normals([[2.0, 0], [0, 1]], weights=[9, 1])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: anisotropic_normal((1.0, -1.0)),
            "item 2 of variances of prior .* must be positive, not -1",
        ),
        (
            lambda: anisotropic_normal((1.0, 0.0)),
            "item 2 of variances of prior .* must be positive, not 0",
        ),
        (
            lambda: anisotropic_normal((uw.each(1.0, -2.0), 1.0)),
            "item 1 of variances of prior .* must be positive, not -2",
        ),
        (lambda: anisotropic_normal("svd"), "'pca' or a list of numbers, not 'svd'"),
        (lambda: anisotropic_normal(()), "list of numbers"),
        (lambda: anisotropic_normal([(4, 0.25), (0.25, 4)]), r"uw.each\(...\) for one that differs by member"),
        (lambda: anisotropic_normal((1.0, 2.0)).build(INFO), "2 variances for 3 latents"),
        (lambda: student_t(nu=0), "nu of prior 'student_t' must be positive, not 0"),
        (lambda: laplace(-1), "scale of prior 'laplace' must be positive, not -1"),
        (lambda: generalised_normal(p=0.01), "p of prior 'generalised_normal' must be from 0.1 to 30, not 0.01"),
        (lambda: generalised_normal(scale=0), "scale of prior 'generalised_normal' must be positive"),
        (lambda: sparse(gamma=1.5), "gamma of prior 'sparse' must be from 0 to 1, not 1.5"),
        (lambda: sparse(variance=0), "variance of prior 'sparse' must be positive"),
        (lambda: mixture_of_normals(3.0), "means of prior 'mixture_of_normals' must be a list of lists, not 3.0"),
        (
            lambda: mixture_of_normals([1.0, 2.0]),
            "item 1 of means of prior .* must be a list of numbers, not 1.0",
        ),
        (lambda: mixture_of_normals([[1.0, 2.0], [1.0]]), "as many coordinates each"),
        (lambda: mixture_of_normals([[1.0], [2.0]], weights=[1.0]), "1 weights for 2 means"),
        (
            lambda: mixture_of_normals([[1.0], [2.0]], weights=[1.0, 0.0]),
            "item 2 of weights .* must be positive",
        ),
        (lambda: mixture_of_normals().build(INFO), "2 coordinates for 3 latents"),
        (lambda: named("sparce"), "unknown prior 'sparce'; did you mean 'sparse'"),
        (lambda: named(3), "a prior is a name"),
    ],
)
def test_what_is_wrong_is_said(make, says):
    with pytest.raises(UntwineError, match=says):
        make()


@pytest.mark.parametrize("found", [(0.5, 0.2), (0.5, 0.2, 0.0)])
def test_too_few_principal_components_are_refused(found):
    info = Info(latents=3, shape=(5,), principal=lambda count: found)
    with pytest.raises(UntwineError, match=r"needs 3 principal components .* the data has 2: use fewer latents"):
        anisotropic_normal().build(info)


def test_priors_by_text_and_from_distributions():
    assert named("sparse(gamma=0.5, variance=0.1)") == sparse(0.5, 0.1)
    assert named("anisotropic-normal((4, 0.25), learned=true)") == anisotropic_normal((4, 0.25), learned=True)
    assert named("mixture-of-normals(((0, 1), (1, 0)), weights=(1, 2))") == mixture_of_normals(
        [[0, 1], [1, 0]], weights=[1, 2]
    )
    assert named(standard_normal) is standard_normal
    assert named(CASES["laplace"]) == given(CASES["laplace"])


# --- learned, in a pack -----------------------------------------------------------------------------


def run(prior: Prior, seeds: list[int], **changes: Any) -> uw.Run:
    terms = {"kl": 0.1 * uw.penalties.kl}
    objective = uw.Objective(uw.likelihoods.squared_error, uw.posteriors.diagonal_normal, prior, terms)
    settings: dict[str, Any] = dict(
        dataset=uw.datasets.synthetic_linear(samples=500),
        network=uw.networks.mlp((8,)),
        latents=2,
        steps=50,
        batch_size=16,
        lr=1e-2,
    )
    return uw.Run(method=objective, seeds=seeds, **(settings | changes))


@pytest.mark.parametrize("prior", [anisotropic_normal(learned=True), anisotropic_normal((1.5, 0.5), learned=True)])
def test_a_learned_prior_trains_in_a_pack_and_is_loaded(tmp_path: Path, prior):
    both = run(prior, [0, 1])
    ensemble = uw.fit(both, out=tmp_path / "run")
    start = build(both.members()[0], both.info()).prior().variance
    found = [ensemble.member(i).prior().variance for i in range(2)]
    for variance in found:
        assert (variance - start).abs().max() > 0.01 and variance.sum().item() == pytest.approx(2.0, rel=1e-5)
    assert (found[0] - found[1]).abs().max() > 1e-3
    again = uw.load(tmp_path / "run")
    for i, variance in enumerate(found):
        assert torch.equal(again.member(i).prior().variance, variance)
    alone = uw.fit(run(prior, [1])).member(0)
    assert torch.allclose(alone.prior().variance, found[1], atol=1e-5)
    x = torch.from_numpy(uw.datasets.synthetic_linear(samples=9).examples())
    assert torch.allclose(alone.encode(x), ensemble.encode(x)[1], atol=1e-5)


def test_a_prior_of_the_data_is_stored_and_loaded(tmp_path: Path):
    """What the run found of its data is in the weights: loading needs no data."""
    both = run(anisotropic_normal(), [0, 1], steps=3)
    ensemble = uw.fit(both, out=tmp_path / "run")
    variance = ensemble.member(1).prior().variance
    assert variance.sum().item() == pytest.approx(2.0)
    assert torch.equal(uw.load(tmp_path / "run").member(1).prior().variance, variance)
    assert variance.tolist() == pytest.approx([1.6, 0.4], abs=0.1)  # the sides are 2 and 1


def test_a_mixture_that_is_learned_moves_in_a_pack():
    prior = mixture_of_normals(learned=True)
    ensemble = uw.fit(run(prior, [0, 1]))
    start = dict(prior.build(TWO).named_parameters())
    for i in range(2):
        for key, value in ensemble.member(i).prior.named_parameters():
            assert (value - start[key]).abs().max() > 1e-3, key

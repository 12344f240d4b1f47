"""Priors: any torch distribution as data and back."""

from __future__ import annotations

import json

import pytest
import torch
from torch import distributions as D

import untwine as uw
from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.model.priors import Given, given, standard_normal
from untwine.parts import from_json, to_json

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
    ],
)
def test_a_prior_on_a_part_of_the_space_is_refused(bounded):
    """Outside of its support a density is zero, and the KL infinite, whatever log_prob says there."""
    with pytest.raises(UntwineError, match="over all real vectors"):
        given(bounded).build(Info(latents=len(SCALE), shape=(5,)))


def test_scalars_are_taken_as_independent():
    made = given(D.Laplace(LOC, SCALE)).build(Info(latents=len(SCALE), shape=(5,)))()
    torch.testing.assert_close(made.log_prob(SCALE), D.Laplace(LOC, SCALE).log_prob(SCALE).sum())

"""What every prior must keep to: all those that the module offers, found by looking."""

from __future__ import annotations

import functools
import inspect
import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import qmc
from torch import Tensor
from torch import distributions as D

import untwine as uw
from untwine.errors import UntwineError
from untwine.model import given, posteriors, priors
from untwine.model.info import Info
from untwine.model.priors import Prior, PriorModule
from untwine.parts import Each, from_json, is_part, part, resolve, structure, to_json

# Arguments for two latents, and others of the same structure. Every kind of a prior's answers is here once.
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "standard normal": ("standard_normal", {}, {}),
    "anisotropic": ("anisotropic_normal", {"variances": (4.0, 0.25)}, {"variances": (0.5, 3.0)}),
    "anisotropic, of the data": ("anisotropic_normal", {}, {}),
    "anisotropic, learned": (
        "anisotropic_normal",
        {"variances": (4.0, 0.25), "learned": True},
        {"variances": (0.5, 3.0), "learned": True},
    ),
    "anisotropic, learned from the data": ("anisotropic_normal", {"learned": True}, {"learned": True}),
    "student-t": ("student_t", {}, {"nu": 2.5}),
    "laplace": ("laplace", {}, {"scale": 0.3}),
    "generalised normal, light tails": ("generalised_normal", {}, {"p": 2.5, "scale": 0.7}),
    "generalised normal, heavy tails": ("generalised_normal", {"p": 0.7, "scale": 2}, {"p": 1.0, "scale": 0.5}),
    "sparse": ("sparse", {}, {"gamma": 0.0, "variance": 0.1}),
    "sparse, all spikes": ("sparse", {"gamma": 1.0}, {"gamma": 0.5}),
    "mixture": ("mixture_of_normals", {}, {"variance": 0.2}),
    "mixture, uneven": (
        "mixture_of_normals",
        {"means": [[1.0, 0.5], [-1.0, 0.0]], "weights": [3.0, 1.0], "variance": 0.3},
        {"means": [[1.0, 0.2], [-1.5, 0.0]], "weights": [2.0, 1.0], "variance": 0.2},
    ),
    "mixture, learned": (
        "mixture_of_normals",
        {"means": [[1.0, 0.5], [-1.0, 0.0]], "variance": 0.3, "learned": True},
        {"means": [[1.0, 0.2], [-1.5, 0.0]], "variance": 0.4, "learned": True},
    ),
    "given": (
        "given",
        {"distribution": D.MultivariateNormal(torch.zeros(2), torch.tensor([[1.0, 0.5], [0.5, 2.0]]))},
        {"distribution": D.MultivariateNormal(torch.ones(2), torch.tensor([[2.0, 0.5], [0.5, 2.0]]))},
    ),
}
LEARNED = [name for name in CASES if "learned" in name]
# All priors by their public names: classes, functions that make one, and priors that need no arguments.
OFFERED = {
    name
    for name, value in vars(priors).items()
    if name in priors.__all__
    and name.islower()
    and (
        isinstance(value, Prior)
        or (isinstance(value, type) and issubclass(value, Prior))
        or (inspect.isfunction(value) and inspect.signature(value).return_annotation == "Prior")
    )
}
INFO = Info(2, (5,), principal=lambda count: (0.3, 0.1, 0.02)[:count])
POSTERIORS = {n: v for n, v in vars(posteriors).items() if isinstance(v, posteriors.Posterior) and n != "deterministic"}


def make(name: str, which: int = 1) -> Prior:
    function, arguments = getattr(priors, CASES[name][0]), CASES[name][which]
    return function if isinstance(function, Prior) else function(**arguments)


def built(name: str, which: int = 1) -> PriorModule:
    return make(name, which).build(INFO).double()


def sobol(count: int, n: int) -> Tensor:
    return torch.from_numpy(qmc.Sobol(count, rng=np.random.default_rng(0)).random(n)).clamp(1e-9, 1 - 1e-9)


def test_none_is_missing():
    assert {case[0] for case in CASES.values()} == OFFERED and len(OFFERED) >= 8
    everything = [*vars(priors).values(), *vars(given).values()]
    parts = {value for value in everything if isinstance(value, type) and issubclass(value, Prior)}
    assert {type(make(name)) for name in CASES} == parts - {Prior}


@pytest.mark.parametrize("name", CASES)
def test_it_is_a_part_with_a_json_form(name):
    prior = make(name)
    assert is_part(prior)
    assert from_json(json.loads(json.dumps(to_json(prior)))) == prior
    assert hash(str(prior)) == hash(str(make(name)))


@pytest.mark.parametrize("name", CASES)
def test_other_numbers_have_the_same_structure(name):
    first, second = make(name), make(name, 2)
    assert structure(to_json(first)) == structure(to_json(second))
    if CASES[name][1] != CASES[name][2]:
        assert first != second


def merged(first: Any, second: Any) -> Any:
    """The JSON of a prior whose numbers differ by member: the first's, and the second's."""
    if isinstance(first, dict):
        return {key: merged(first[key], second[key]) for key in first}
    if isinstance(first, list):
        return [merged(a, b) for a, b in zip(first, second, strict=True)]
    return {"each": [first, second]} if isinstance(first, float) else first


@pytest.mark.parametrize("name", CASES)
def test_numbers_by_member_resolve(name):
    one, two = to_json(make(name)), to_json(make(name, 2))
    both = to_json(from_json(merged(one, two)))
    assert resolve(both, 0) == one and resolve(both, 1) == two


NUMBERS = [
    (name, key)
    for name in sorted(OFFERED)
    if callable(getattr(priors, name))
    for key, parameter in inspect.signature(getattr(priors, name)).parameters.items()
    if isinstance(parameter.default, float)
]


@pytest.mark.parametrize(("name", "key"), NUMBERS)
def test_functions_take_numbers_by_member(name, key):
    function = getattr(priors, name)
    for values in (uw.each(0.5, 0.75), [0.5, 0.75], torch.tensor([0.5, 0.75]).double()):
        prior = function(**{key: values})
        assert getattr(prior, key) == Each((0.5, 0.75))
        for member, value in enumerate((0.5, 0.75)):
            assert from_json(resolve(to_json(prior), member)) == function(**{key: value})
    for wrong in (-1.0, [0.5, -1.0], float("nan"), "many"):
        with pytest.raises(UntwineError, match=r"must be|was expected"):
            function(**{key: wrong})


@pytest.mark.parametrize("name", CASES)
def test_the_density_is_finite_and_so_are_its_gradients(name):
    for which in (1, 2):
        for dtype in (torch.float32, torch.float64):
            prior = make(name, which).build(INFO).to(dtype)
            places = torch.tensor([0.0, -0.0, 1e-38, 1e-30, -1e-8, 0.3, 1.0, -7.0, 300.0, -1e4], dtype=dtype)
            z = torch.cartesian_prod(places, places).requires_grad_()
            log_prob = prior().log_prob(z)
            assert log_prob.shape == (100,) and log_prob.isfinite().all() and log_prob.dtype == dtype
            (slope,) = torch.autograd.grad(log_prob.sum(), z)
            assert slope.isfinite().all()


@functools.cache
def grid(side: int = 1200) -> tuple[Tensor, Tensor]:
    """Points all over the plane, at the middles of cells of equal Cauchy probability, and what each stands for."""
    u = (torch.arange(side).double() + 0.5) / side
    z = torch.tan(math.pi * (u - 0.5))
    weight = math.pi * (1 + z.square()) / side
    return torch.cartesian_prod(z, z), torch.cartesian_prod(weight, weight).prod(1)


@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_the_density_integrates_to_one_and_the_samples_follow_it(name, which):
    """The samples' characteristic function at some places, against the density's by integration."""
    prior = built(name, which)
    z, weight = grid()
    with torch.no_grad():
        mass = prior().log_prob(z).exp() * weight
        assert mass.sum().item() == pytest.approx(1.0, abs=2e-3)
        samples = prior.sample(sobol(prior.uniforms, 2**14))
    assert samples.shape == (2**14, 2)
    for place in ((0.7, 0.0), (0.0, 0.7), (1.0, 1.0), (1.0, -2.0), (0.0, 3.0)):
        direction = torch.tensor(place).double()
        for wave in (torch.cos, torch.sin):
            expected = (mass * wave(z @ direction)).sum().item()
            assert wave(samples @ direction).mean().item() == pytest.approx(expected, abs=5e-3)


@pytest.mark.parametrize("name", CASES)
def test_samples_are_finite_and_single_precision_will_do(name):
    prior = make(name).build(INFO)
    ends = torch.tensor([2.0**-24, 0.3, 1 - 2.0**-24])
    samples = prior.sample(torch.cartesian_prod(*[ends] * prior.uniforms))
    assert samples.isfinite().all() and samples.dtype == torch.float32
    assert prior().log_prob(samples).isfinite().all()


def call(module: PriorModule, state: dict[str, Tensor], function: Any) -> Any:
    class Caller(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.prior = module

        def forward(self) -> Any:
            return function(self.prior)

    return torch.func.functional_call(Caller(), {f"prior.{key}": value for key, value in state.items()})


@pytest.mark.parametrize("name", CASES)
def test_members_with_other_numbers_under_vmap_as_in_a_loop(name):
    members = [built(name), built(name, 2)]
    u = sobol(members[0].uniforms, 16)
    z = torch.randn(16, 2, generator=torch.Generator().manual_seed(0)).double()

    def both(prior: PriorModule) -> Tensor:
        samples = prior.sample(u)
        return torch.cat((prior().log_prob(z)[:, None], prior().log_prob(samples)[:, None], samples), 1)

    states = [{**dict(m.named_parameters()), **dict(m.named_buffers())} for m in members]
    stacked = {key: torch.stack([state[key].detach() for state in states]) for key in states[0]}
    together = torch.func.vmap(lambda state: call(members[0], state, both))(stacked)
    assert torch.allclose(together, torch.stack([both(m) for m in members]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_stored_weights_are_enough_without_the_data(name):
    with_data, without = make(name).build(INFO), make(name).build(Info(2, (5,)))
    if "mixture, learned" in name:
        with torch.no_grad():
            with_data.means += 0.3
    state = with_data.state_dict()
    assert bool(state) == ("data" in name or "learned" in name)
    without.load_state_dict(state)
    z = torch.randn(9, 2, generator=torch.Generator().manual_seed(0))
    assert torch.equal(without().log_prob(z), with_data().log_prob(z))


@pytest.mark.parametrize("name", CASES)
def test_what_is_learned_gets_gradients(name):
    prior = built(name)
    learned = dict(prior.named_parameters())
    assert bool(learned) == (name in LEARNED)
    if not learned:
        return
    z = torch.tensor([[0.5, -1.0], [2.0, 0.1]]).double()
    for value, unmoved in (
        (prior().log_prob(z).sum(), ()),
        (prior.sample(sobol(prior.uniforms, 8)).square().sum(), ("logits",)),
    ):
        unmoved = unmoved if name.startswith("mixture") else ()  # a choice has no gradient
        found = torch.autograd.grad(value, list(learned.values()), allow_unused=True, materialize_grads=True)
        for key, gradient in zip(learned, found, strict=True):
            assert gradient.isfinite().all() and bool(gradient.abs().max() > 0) == (key not in unmoved)


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("name", CASES)
def test_kl_in_closed_form_is_that_of_samples(name, posterior):
    n, generator = 60_000, torch.Generator().manual_seed(3)
    prior = built(name)()
    row = 0.5 * torch.randn(1, POSTERIORS[posterior].width(2), generator=generator).double()
    q = POSTERIORS[posterior].build(row.expand(n, -1))
    z = q.sample(torch.randn(n, 2, generator=generator).double())
    samples = q.log_prob(z) - prior.log_prob(z)
    closed = POSTERIORS[posterior].build(row).closed_kl(prior)
    assert closed is not None or not name.startswith(("standard", "anisotropic", "given"))
    if closed is None:
        assert torch.equal(q.kl(prior, z), samples)
        assert samples.mean() > 0  # a divergence
    else:
        error = samples.std().item() / math.sqrt(n)
        assert samples.mean().item() == pytest.approx(closed.item(), abs=4 * error + 1e-9)


@part
class ApartFromPrior(uw.Term):
    """Something that takes samples of the prior, and whose gradient reaches the model and the prior."""

    def needs(self, info: Info) -> uw.Needs:
        return uw.Needs(prior=True)

    def value(self, passed: uw.Pass) -> Tensor:
        assert passed.prior_sample is not None
        return torch.log1p((passed.prior_sample - passed.z).square()).sum(1).mean()


@pytest.mark.parametrize("name", CASES)
def test_it_trains_in_a_pack_as_alone(name):
    """Members that differ in the prior's numbers, by KL and by samples; each as if the other were not there."""

    def run(prior: Prior, seeds: list[int]) -> uw.Run:
        terms = {"kl": 0.1 * uw.penalties.kl, "apart": 0.1 * uw.Penalty(ApartFromPrior())}
        objective = uw.Objective(uw.likelihoods.squared_error, uw.posteriors.diagonal_normal, prior, terms)
        dataset = uw.datasets.synthetic_linear(samples=200)
        common: Any = dict(network=uw.networks.mlp((6,)), latents=2, steps=12, batch_size=16, lr=1e-2)
        return uw.Run(method=objective, dataset=dataset, seeds=seeds, **common)

    both = from_json(merged(to_json(make(name)), to_json(make(name, 2))))
    pack = uw.fit(run(both, [0, 1]))
    alone = uw.fit(run(make(name, 2), [1]))
    ours, theirs = pack.member(1), alone.member(0)
    for key, value in theirs.state_dict().items():
        assert torch.allclose(ours.state_dict()[key], value, atol=1e-5), key
    x = torch.from_numpy(uw.datasets.synthetic_linear(samples=9).examples())
    assert torch.allclose(pack.encode(x)[1], alone.encode(x)[0], atol=1e-5)


@pytest.mark.parametrize("name", sorted(OFFERED - {"given"}))
def test_by_name(name):
    expected = getattr(priors, name)
    expected = expected if isinstance(expected, Prior) else expected()
    assert priors.named(name) == expected == priors.named(name.replace("_", "-")) == priors.named(expected)

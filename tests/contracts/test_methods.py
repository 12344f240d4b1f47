"""What every method must keep to: above all its own equation, written out here in plain torch.

A new method needs a line in the table: a function that computes its loss from the encoder's and the decoder's
raw outputs, with nothing of Untwine's.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import untwine as uw
from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.model.vae import VAE, create
from untwine.objective.core import Objective, at_step, evaluate
from untwine.parts import from_json, resolve, structure, to_json

LATENTS, PIXELS, BATCH = 3, 6, 4
INFO = Info(LATENTS, (PIXELS,), data_size=100)
STEP = 3


@dataclass
class Plain:
    """A model's raw pieces and a batch."""

    encoder: nn.Module
    decoder: nn.Module
    x: Tensor
    eps: Tensor
    noise: dict[str, Tensor]

    def moments(self) -> tuple[Tensor, Tensor]:
        raw = self.encoder(self.x)
        return raw[:, :LATENTS], raw[:, LATENTS:]

    def z(self) -> Tensor:
        mean, log_variance = self.moments()
        return mean + torch.exp(log_variance / 2) * self.eps

    def cross_entropy(self, z: Tensor) -> Tensor:
        out = self.decoder(z)
        return -(self.x * F.logsigmoid(out) + (1 - self.x) * F.logsigmoid(-out)).sum() / BATCH

    def kl(self) -> Tensor:
        mean, log_variance = self.moments()
        return 0.5 * (mean**2 + log_variance.exp() - log_variance - 1).sum() / BATCH

    def columns(self) -> Tensor:
        """[batch, pixel, latent], of the sigmoid output."""
        image = lambda v: torch.sigmoid(self.decoder(v[None]))[0]
        return torch.func.vmap(torch.func.jacrev(image))(self.z())


def ramped(weight: float, anneal: int) -> float:
    return weight * min(1.0, STEP / anneal) if anneal else weight


def elbo(plain: Plain, beta: float) -> Tensor:
    return plain.cross_entropy(plain.z()) + beta * plain.kl()


def jacobian_vae(power: int) -> Callable[..., Tensor]:
    def loss(plain: Plain, beta: float = 4.0, gamma: float = 0.1, anneal: int = 100_000, **rest: Any) -> Tensor:
        columns = plain.columns()
        if rest.get("through") == "decoder":
            with torch.no_grad():
                z = plain.z()
            image = lambda v: torch.sigmoid(plain.decoder(v[None]))[0]
            columns = torch.func.vmap(torch.func.jacrev(image))(z)
        if rest.get("estimator") == "finite":
            z, steps = plain.z(), 1e-3 * torch.eye(LATENTS, dtype=plain.x.dtype)
            image = lambda z: torch.sigmoid(plain.decoder(z))
            columns = torch.stack([(image(z + step) - image(z)) / 1e-3 for step in steps], -1)
        norms = columns.abs().pow(power).sum(1)  # [batch, latent]
        if rest.get("columns"):
            chosen = plain.noise["jacobian/columns"].argsort(1)[:, : rest["columns"]]
            norms = norms.gather(1, chosen) * LATENTS / rest["columns"]
        return elbo(plain, ramped(beta, anneal)) + ramped(gamma, anneal) * norms.sum() / BATCH

    return loss


def gaussian_beta(plain: Plain, beta: float, **_: Any) -> Tensor:
    out = plain.decoder(plain.z())
    density = torch.distributions.Normal(out, 1.0).log_prob(plain.x).sum() / BATCH
    return -density + beta * plain.kl()


# Each method with its equation, and the arguments to try it with.
TABLE: dict[str, list[tuple[Callable[..., Tensor], dict[str, Any]]]] = {
    "ae": [(lambda plain: plain.cross_entropy(plain.encoder(plain.x)), {})],
    "vae": [(lambda plain: elbo(plain, 1.0), {})],
    "beta_vae": [
        (lambda plain: elbo(plain, 4.0), {}),
        (lambda plain, beta, anneal: elbo(plain, ramped(beta, anneal)), {"beta": 2.5, "anneal": 10}),
        (lambda plain, beta, **_: gaussian_beta(plain, beta), {"beta": 0.5, "likelihood": "gaussian"}),
    ],
    "jl1_vae": [
        (jacobian_vae(1), {}),
        (jacobian_vae(1), {"beta": 2.0, "gamma": 3.0, "anneal": 0}),
        (jacobian_vae(1), {"gamma": 3.0, "anneal": 5, "columns": 2}),
        (jacobian_vae(1), {"gamma": 3.0, "anneal": 5, "through": "decoder"}),
        (jacobian_vae(1), {"gamma": 3.0, "anneal": 5, "estimator": "finite"}),
    ],
    "jl2_vae": [
        (jacobian_vae(2), {}),
        (jacobian_vae(2), {"beta": 2.0, "gamma": 3.0, "anneal": 0}),
        (jacobian_vae(2), {"gamma": 3.0, "anneal": 5, "columns": 1}),
    ],
}
CASES = [pytest.param(name, *case, id=f"{name}{i}") for name in TABLE for i, case in enumerate(TABLE[name])]
NAMES = uw.methods.names()
# Every argument that is a number, with its default.
NUMBERS = [
    (name, key, parameter.default)
    for name in NAMES
    for key, parameter in inspect.signature(uw.methods.get(name)).parameters.items()
    if isinstance(parameter.default, float)
]


def model(objective: Objective, seed: int = 0) -> VAE:
    parts = objective.likelihood, objective.posterior, objective.prior
    return create(INFO, uw.networks.mlp((5,), activation="tanh"), *parts, seed=seed).double()


def draw(objective: Objective) -> tuple[Tensor, dict[str, Tensor]]:
    """A batch, and all the noise that an objective asks for."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(BATCH, PIXELS, generator=generator).double()
    noise = {"posterior": torch.randn(BATCH, LATENTS, generator=generator).double()}
    for name, (kind, shape) in objective.needs(INFO).noise.items():
        make = torch.rand if kind == "uniform" else torch.randn
        noise[name] = make(BATCH, *shape, generator=generator).double()
    return x, noise


def gradients(vae: VAE, loss: Tensor) -> Tensor:
    wanted = list(vae.parameters())
    found = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)
    return torch.cat([g.flatten() for g in found])


# --- the table --------------------------------------------------------------------------------------


def test_the_table_is_complete():
    assert sorted(TABLE) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_it_is_in_the_public_namespace(name):
    method = getattr(uw.methods, name)
    assert method is uw.methods.get(name) is uw.methods.get(name.replace("_", "-")) and name in uw.methods.__all__
    parameters = inspect.signature(method).parameters.values()
    assert all(p.default is not p.empty for p in parameters), "a method works without arguments"
    assert method.__doc__ and "(" in method.__doc__, "its docstring cites its equation"


# --- the equation -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "equation", "arguments"), CASES)
def test_the_loss_is_its_equation(name, equation, arguments):
    objective = uw.methods.get(name)(**arguments)
    vae, (x, noise) = model(objective), draw(objective)
    ours = evaluate(vae, at_step(objective.penalties, STEP), x, noise, INFO.data_size)["loss"]
    theirs = equation(Plain(vae.encoder, vae.decoder, x, noise["posterior"], noise), **arguments)
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-9)
    ours, theirs = gradients(vae, ours), gradients(vae, theirs)
    assert torch.allclose(ours, theirs, rtol=1e-6, atol=1e-9) and ours.abs().max() > 1e-3


@pytest.mark.parametrize(("name", "key", "default"), NUMBERS)
def test_every_number_matters(name, key, default):
    """Once the schedules have come to rest, each weight moves the loss."""
    base = uw.methods.get(name)()
    vae, (x, noise) = model(base), draw(base)

    def loss(objective: Objective) -> float:
        return evaluate(vae, at_step(objective.penalties, 10**9), x, noise)["loss"].item()

    assert loss(uw.methods.get(name)(**{key: 3 * default})) != pytest.approx(loss(base), rel=1e-6)


# --- specs and packs --------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "equation", "arguments"), CASES)
def test_json_makes_an_equal_objective(name, equation, arguments):
    objective = uw.methods.get(name)(**arguments)
    assert from_json(json.loads(json.dumps(to_json(objective)))) == objective
    spec = objective.method
    assert spec["name"] == name and {k: spec[k] for k in arguments} == arguments
    rest = {key: value for key, value in json.loads(json.dumps(spec)).items() if key != "name"}
    assert uw.methods.get(name)(**rest) == objective
    assert list(rest) == list(inspect.signature(uw.methods.get(name)).parameters)


@pytest.mark.parametrize(("name", "key", "default"), NUMBERS)
def test_every_number_may_differ_by_member(name, key, default):
    method = uw.methods.get(name)
    for values in ([default, 2 * default], (default, 2 * default), np.array([default, 2 * default])):
        spec = to_json(method(**{key: values}))
        for member, value in enumerate((default, 2 * default)):
            assert from_json(resolve(spec, member)) == method(**{key: value})
        assert structure(resolve(spec, 0)) == structure(resolve(spec, 1))  # so that they share a pack


@pytest.mark.parametrize(("name", "key", "default"), NUMBERS)
def test_every_number_may_be_a_schedule(name, key, default):
    method = uw.methods.get(name)
    rest = {"anneal": 0} if "anneal" in inspect.signature(method).parameters else {}
    objective = method(**{key: uw.cyclic(uw.ramp(2 * default, 2), 3)}, **rest)
    assert from_json(json.loads(json.dumps(to_json(objective)))) == objective
    constant = method(**{key: default}, **rest)
    assert at_step(objective.penalties, 4) == at_step(constant.penalties, 4)  # half-way in its second cycle
    assert at_step(objective.penalties, 5) != at_step(constant.penalties, 5)


@pytest.mark.parametrize(("name", "key", "default"), NUMBERS)
def test_what_is_no_number_is_refused(name, key, default):
    with pytest.raises(UntwineError, match=f"{key} of method '{name}' must be a number, not 'lots'"):
        uw.methods.get(name)(**{key: "lots"})


class Terms(nn.Module):
    """All terms of an objective as one module, for `functional_call`."""

    def __init__(self, vae: VAE, objective: Objective):
        super().__init__()
        self.vae, self.penalties = vae, at_step(objective.penalties, STEP)

    def forward(self, x: Tensor, noise: dict[str, Tensor]) -> Tensor:
        return torch.stack(list(evaluate(self.vae, self.penalties, x, noise, INFO.data_size, watch=True).values()))


@pytest.mark.parametrize(("name", "equation", "arguments"), CASES)
def test_members_under_vmap_are_members_alone(name, equation, arguments):
    """Values and gradients, with everything watched that can be."""
    objective = uw.methods.get(name)(**arguments)
    names = uw.penalties.WATCHABLE.keys() - objective.penalties.keys()
    if isinstance(objective.posterior, type(uw.posteriors.deterministic)):
        names -= {"kl"}
    objective = objective.watching({key: uw.penalties.WATCHABLE[key] for key in sorted(names)})
    members, (x, noise) = [model(objective, seed) for seed in range(3)], draw(objective)
    xs, noises = torch.stack([x, x + 0.1, x - 0.1]), {key: torch.stack([v, v.flip(0), v]) for key, v in noise.items()}
    template = Terms(members[0], objective)
    states = [Terms(member, objective).state_dict(keep_vars=True) for member in members]
    stacked = {key: torch.stack([s[key].detach() for s in states]).requires_grad_() for key in states[0]}
    buffers = {
        key: torch.stack([dict(Terms(m, objective).named_buffers())[key] for m in members])
        for key, _ in template.named_buffers()
    }

    def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor], x: Tensor, noise: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(template, (parameters, buffers), (x, noise))

    together = torch.func.vmap(one)(stacked, buffers, xs, noises)
    slopes = torch.autograd.grad(
        together[:, 0].sum(), list(stacked.values()), allow_unused=True, materialize_grads=True
    )
    rows = torch.cat([g.flatten(1) for g in slopes], 1)
    for i, member in enumerate(members):
        alone = Terms(member, objective)(xs[i], {key: value[i] for key, value in noises.items()})
        assert torch.allclose(together[i], alone, rtol=1e-9)
        assert torch.allclose(rows[i], gradients(member, alone[0]), rtol=1e-7, atol=1e-10)
    assert together.shape[1] == 2 + len(objective.penalties)

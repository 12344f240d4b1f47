"""What every network must keep to. A new one needs a line in the table, and gets these tests for free."""

from __future__ import annotations

import copy
import functools
import json
import random
import typing

import numpy as np
import pytest
import torch
from torch import nn

from untwine.model import likelihoods, networks, posteriors, priors
from untwine.model.check import check_jacobian
from untwine.model.info import Info
from untwine.model.jacobian import jacobian
from untwine.model.passes import is_known
from untwine.model.vae import VAE, create

# Settings, and the shapes to try them on.
TABLE: dict[str, list[tuple[dict[str, typing.Any], tuple[int, ...]]]] = {
    "rhodes64": [({}, (1, 64, 64)), ({"decoder_activation": "silu"}, (1, 64, 64))],
    "locatello64": [({}, (1, 64, 64)), ({"kernels": "4x4"}, (3, 64, 64))],
    "rhodes16": [
        ({"padding": "same"}, (2, 16, 16)),
        ({"decoder_activation": "softplus"}, (1, 16, 16)),
        ({"decoder_activation": "gelu"}, (1, 16, 16)),
    ],
    "conv": [({"channels": (4, 4), "hidden": 16}, (1, 17, 17)), ({"activation": "gelu", "hidden": 16}, (3, 20, 20))],
    "mlp": [({"hidden": (16, 8), "activation": "elu"}, (6,)), ({"hidden": ()}, (2, 3, 3)), ({}, (1, 8, 8))],
    "rolinek_dsprites": [({}, (1, 4, 4))],
    "rolinek_linear": [({}, (3,))],
    "rolinek_nonlinear": [({}, (3,))],
    "rolinek_mnist": [({}, (1, 6, 6))],
    "mathieu_dsprites": [({}, (1, 64, 64))],
    "mathieu_pinwheel": [({}, (2,))],
    "mathieu_fashion": [({"base": 4}, (1, 32, 32))],
    "michlo64": [({}, (3, 64, 64))],
}
CASES = [pytest.param(name, *case, id=f"{name}{i}") for name in TABLE for i, case in enumerate(TABLE[name])]
LATENTS = 3
PARTS = likelihoods.bernoulli, posteriors.diagonal_normal, priors.standard_normal


@functools.cache
def _made(name: str, settings: str, shape: tuple[int, ...]) -> VAE:
    network = networks.networks[name](
        **{k: tuple(v) if isinstance(v, list) else v for k, v in json.loads(settings).items()}
    )
    return create(Info(LATENTS, shape), network, *PARTS)


def make(name: str, settings: dict[str, typing.Any], shape: tuple[int, ...]) -> VAE:
    """A model of its own, but drawn once for all tests."""
    return copy.deepcopy(_made(name, json.dumps(settings), shape))


def points(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(count, LATENTS, generator=torch.Generator().manual_seed(0)).to(dtype)


def test_the_table_is_complete():
    assert networks.networks.names() == sorted(TABLE)


@pytest.mark.parametrize(("name", "settings", "shape"), CASES)
def test_shapes(name, settings, shape):
    vae = make(name, settings, shape)
    x = torch.rand(2, *shape)
    assert vae.encoder(x).shape == (2, 2 * LATENTS)
    assert vae.decoder(points(2)).shape == x.shape
    for posterior in (posteriors.full_normal, posteriors.deterministic):
        encoder, _ = networks.networks[name](**settings).build(Info(LATENTS, shape), posterior.width(LATENTS))
        assert encoder(x).shape == (2, posterior.width(LATENTS))


@pytest.mark.parametrize(("name", "settings", "shape"), CASES)
def test_examples_do_not_mix(name, settings, shape):
    vae = make(name, settings, shape)
    x = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(vae.encoder(x)[1:2], vae.encoder(x[1:2]), atol=1e-6)
    assert torch.allclose(vae.decoder(points(3))[1:2], vae.decoder(points(3)[1:2]), atol=1e-6)


@pytest.mark.parametrize(("name", "settings", "shape"), CASES)
def test_its_spec_is_json_and_makes_it_again(name, settings, shape):
    network = networks.networks[name](**settings)
    again = networks.build(json.loads(json.dumps(network.spec)))
    assert again == network and network.spec["name"] == name
    assert (again.log_variance, again.scheme) == (network.log_variance, network.scheme)
    first, second = (n.build(Info(LATENTS, shape), 6) for n in (network, again))
    assert str(first) == str(second)


@pytest.mark.parametrize(("name", "settings", "shape"), CASES)
def test_every_parameter_is_filled_from_the_seed_and_no_generator_is_used(name, settings, shape, monkeypatch):
    expected = make(name, settings, shape).state_dict()
    rng, numpy_rng = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002

    def poisoned(*args: object, **kwargs: object) -> typing.NoReturn:
        raise AssertionError("a random generator with state was used")

    # Not random.getrandbits: beartype chooses by it which elements of a container it checks.
    for module, functions in (
        (torch, "rand randn randint randperm normal bernoulli rand_like randn_like multinomial"),
        (torch.Tensor, "uniform_ normal_ random_ bernoulli_ exponential_"),
        (np.random, "default_rng rand randn random randint normal uniform permutation choice"),
        (random, "random randint shuffle"),
    ):
        for function in functions.split():
            monkeypatch.setattr(module, function, poisoned)
    # Memory is handed out dirty: a parameter that is not filled would show.
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *args, **kwargs: empty(*args, **kwargs).fill_(torch.nan))
    made = create(Info(LATENTS, shape), networks.networks[name](**settings), *PARTS).state_dict()
    assert all(torch.equal(made[key], expected[key]) for key in expected)
    assert all(torch.isfinite(value).all() for value in made.values())
    assert torch.equal(rng, torch.get_rng_state())
    assert np.array_equal(numpy_rng, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize(("name", "settings", "shape"), CASES)
def test_the_exact_jacobian_is_that_of_reverse_mode(name, settings, shape):
    """Some pixels alone, and random combinations of all of them, to 1e-5 in float32."""
    vae, z = make(name, settings, shape), points(2)
    columns = vae.jacobian(z).flatten(2)  # [batch, latent, pixels]
    pixels = columns.shape[-1]
    generator = torch.Generator().manual_seed(1)
    some = torch.randperm(pixels, generator=generator)[:12]
    mixing = torch.randn(4, pixels, generator=generator) / pixels**0.5

    def seen(v: torch.Tensor) -> torch.Tensor:
        image = vae.decode(v[None]).flatten()
        return torch.cat((image[some], mixing @ image))

    expected = torch.stack([torch.func.jacrev(seen)(one) for one in z]).mT
    ours = torch.cat((columns[..., some], columns @ mixing.T), -1)
    assert expected.abs().max() > 1e-6
    assert (ours - expected).abs().max() < 1e-5 * expected.abs().max()


@pytest.mark.parametrize(("name", "settings", "shape"), CASES)
def test_gradients_of_the_jacobian_against_finite_differences(name, settings, shape):
    """L1 and L2 in float64, along a random direction of all parameters of the decoder and of z at once."""
    vae = make(name, settings, shape).double()
    decode = nn.Sequential(vae.decoder, vae.likelihood.mean)
    z = points(2, torch.float64).requires_grad_()
    wanted = [z, *decode.parameters()]
    generator = torch.Generator().manual_seed(2)
    directions = [torch.randn(w.shape, generator=generator, dtype=torch.float64) for w in wanted]
    length = sum(d.square().sum().item() for d in directions) ** 0.5
    start, eps = [w.detach().clone() for w in wanted], 1e-6

    def values(step: float) -> torch.Tensor:
        with torch.no_grad():
            for w, s, d in zip(wanted, start, directions, strict=True):
                w.copy_(s + step / length * d)
        columns = jacobian(decode, z)
        return torch.stack((columns.abs().sum(), columns.square().sum()))

    exact = []
    for norm in values(0.0):
        gradients = torch.autograd.grad(norm, wanted, retain_graph=True, allow_unused=True, materialize_grads=True)
        exact.append(sum((g * d).sum().item() for g, d in zip(gradients, directions, strict=True)) / length)
    with torch.no_grad():
        differences = ((values(eps) - values(-eps)) / (2 * eps)).tolist()
    # Both |.| and ReLU have kinks, a few of which are crossed even by a step as small as this.
    assert 0.0 not in exact and differences == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize(("estimator", "eps"), [("finite", 1e-3), ("finite", 0.5), ("central", 0.5)])
@pytest.mark.parametrize(("name", "settings", "shape"), CASES)
def test_differences_are_those_of_two_passes(name, settings, shape, estimator, eps):
    """Their L1 and L2 norms, and the gradients of these by z and all parameters, kinks that are crossed included."""
    vae = make(name, settings, shape).double()
    decode = nn.Sequential(vae.decoder, vae.likelihood.mean)
    z = points(2, torch.float64).requires_grad_()
    wanted = [z, *decode.parameters()]
    with torch.no_grad():  # biases start at zero, or nearly so: kinks would be crossed for no latent or for all
        for seed, parameter in enumerate(decode.parameters()):
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
            parameter.add_(0.05 * noise)
    start = {"finite": 0.0, "central": -eps / 2}[estimator]
    ends = [(z + (start + eps) * step, z + start * step) for step in torch.eye(LATENTS).double()]
    plain = torch.stack([(decode(after) - decode(before)) / eps for after, before in ends], 1)
    ours = jacobian(decode, z, estimator, eps)
    assert (ours - plain).abs().max() < 1e-10 * plain.abs().max()
    assert eps < 0.1 or (ours - jacobian(decode, z)).abs().max() > 1e-6  # they are not the exact columns
    for p in (1, 2):
        found, expected = (
            torch.autograd.grad(columns.abs().pow(p).sum(), wanted, retain_graph=True, materialize_grads=True)
            for columns in (ours, plain)
        )
        largest = max(gradient.abs().max() for gradient in expected)
        for mine, theirs in zip(found, expected, strict=True):
            assert (mine - theirs).abs().max() <= 1e-10 * largest


@pytest.mark.parametrize(("name", "settings", "shape"), CASES)
def test_its_decoder_is_known_or_passes_the_check_of_users_decoders(name, settings, shape):
    decoder = make(name, settings, shape).decoder
    assert is_known(decoder) == (settings.get("activation") != "elu")
    if not is_known(decoder):
        check_jacobian(decoder, LATENTS)

"""Building a VAE: its initial parameters, and what it computes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import distributions as D
from torch import nn

import untwine as uw
from untwine.errors import UntwineError
from untwine.kernels.layers import Conv2d, ConvTranspose2d, Linear
from untwine.model import likelihoods, networks, posteriors, priors
from untwine.model.info import Info
from untwine.model.networks.initial import initialise
from untwine.model.vae import VAE, create

PARTS = likelihoods.bernoulli, posteriors.diagonal_normal, priors.standard_normal
IMAGES = Info(latents=4, shape=(1, 16, 16))


SMALL = networks.conv((8, 16), 32, log_variance=-3.0)


def make(network: networks.Network = SMALL, seed: int = 0, posterior: posteriors.Posterior = PARTS[1]) -> VAE:
    return create(IMAGES, network, likelihoods.bernoulli, posterior, PARTS[2], seed)


def state(vae: nn.Module) -> dict[str, torch.Tensor]:
    return {key: value.clone() for key, value in vae.state_dict().items()}


# --- initial parameters -----------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_values_and_another_gives_others():
    torch.manual_seed(1)
    first = state(make())
    torch.manual_seed(2)
    again, other = state(make()), state(make(seed=1))
    assert first.keys() == again.keys() and all(torch.equal(first[key], again[key]) for key in first)
    heads = {"encoder.7.bias"}  # the log-variances of the head's bias do not depend on the seed
    assert all((first[key] != other[key]).float().mean() > 0.99 for key in first.keys() - heads)


def test_values_depend_on_the_name_of_the_parameter_alone():
    def network(*more: nn.Module) -> networks.Network:
        def build(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
            return nn.Sequential(nn.Flatten(), Linear(256, outputs)), nn.Sequential(Linear(4, 256), *more, nn.Flatten())

        return networks.Network({}, build)

    plain, longer = state(make(network())), state(make(network(Linear(256, 256))))
    assert longer.keys() - plain.keys() == {"decoder.1.weight", "decoder.1.bias"}
    assert all(torch.equal(plain[key], longer[key]) for key in plain)
    square = nn.Sequential(Linear(8, 8), Linear(8, 8))
    initialise(square, 0)
    assert not torch.equal(square[0].weight, square[1].weight)


@pytest.mark.parametrize(
    ("layer", "fan_in"),
    [
        (Linear(50, 200), 50),
        (Conv2d(6, 40, 5), 6 * 25),
        (ConvTranspose2d(40, 6, 5), 6 * 25),
        (Conv2d(8, 40, 5, groups=2), 4 * 25),
        (nn.Linear(50, 200), 50),  # a user's plain layers are filled as well
    ],
)
def test_uniform_within_one_over_the_root_of_fan_in(layer, fan_in):
    module = nn.Sequential(layer)
    initialise(module, 3)
    # The same rule as torch's own reset_parameters, for transposed convolutions too.
    assert nn.init._calculate_fan_in_and_fan_out(layer.weight)[0] == fan_in
    scaled = layer.weight.detach().flatten().numpy() * math.sqrt(fan_in)
    assert np.abs(scaled).max() <= 1 and stats.kstest(scaled, "uniform", (-1, 2)).pvalue > 1e-3
    bias = layer.bias.detach().numpy() * math.sqrt(fan_in)
    assert np.abs(bias).max() <= 1 and len(set(bias.tolist())) == len(bias)


def test_xavier_normal():
    layer = Conv2d(20, 30, 5)
    initialise(nn.Sequential(layer), 0, "xavier_normal")
    scaled = layer.weight.detach().flatten().numpy() / math.sqrt(2 / (20 * 25 + 30 * 25))
    assert stats.kstest(scaled, "norm").pvalue > 1e-3 and layer.bias.abs().max() == 0


def test_a_users_layer_is_reset_by_seed_and_name():
    def embedding(seed: int, before: int = 0) -> torch.Tensor:
        module = nn.Sequential(*[nn.Identity()] * before, nn.Embedding(5, 3), nn.Bilinear(2, 2, 2))
        initialise(module, seed)
        return module[before].weight.detach().clone()

    torch.manual_seed(0)
    first = embedding(0)
    rng = torch.get_rng_state()
    assert torch.equal(first, embedding(0)) and not torch.equal(first, embedding(1))
    assert torch.equal(embedding(0, before=1), embedding(0, before=1)) and not torch.equal(first, embedding(0, 1))
    # The generator moves while layers are made, which is the user's own doing, but not by the reset.
    module = nn.Sequential(nn.Embedding(5, 3))
    rng = torch.get_rng_state()
    initialise(module, 0)
    assert torch.equal(rng, torch.get_rng_state())


def test_a_users_random_parameters_depend_on_the_seed_alone():
    class Mine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.randn(4))

        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return (z * self.scale).repeat(1, 64).reshape(-1, 1, 16, 16)

    network = networks.Network({}, lambda info, outputs: (nn.Sequential(nn.Flatten(), Linear(256, outputs)), Mine()))
    torch.manual_seed(1)
    rng = torch.get_rng_state()
    first = make(network).decoder.scale.detach().clone()
    assert torch.equal(rng, torch.get_rng_state())
    torch.manual_seed(2)
    assert torch.equal(first, make(network).decoder.scale)
    assert not torch.equal(first, make(network, seed=1).decoder.scale)


@pytest.mark.parametrize("start", [-3.0, 0.5])
def test_where_the_log_variances_start(start):
    for posterior in (posteriors.diagonal_normal, posteriors.full_normal):
        bias = make(networks.conv((8, 16), 32, log_variance=start), posterior=posterior).encoder[-1].bias
        assert (bias[4:8] == start).all()
        others = torch.cat((bias[:4], bias[8:]))
        assert ((others.abs() < 1 / math.sqrt(32)) & (others != 0)).all()
    bias = make(networks.conv((8, 16), 32, log_variance=start), posterior=posteriors.deterministic).encoder[-1].bias
    assert bias.shape == (4,) and (bias.abs() < 1 / math.sqrt(32)).all()


def test_an_mlp_starts_its_log_variances_like_any_weight():
    bias = make(networks.mlp((64,))).encoder[-1].bias
    assert (bias.abs() <= 1 / 8).all() and len(set(bias.tolist())) == 8


# --- what it computes -------------------------------------------------------------------------------


def test_encode_decode_and_forward():
    vae = make()
    x = torch.rand(3, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    raw = vae.encoder(x)
    assert torch.equal(vae.encode(x), raw[:, :4])
    assert torch.equal(vae.posterior(x).variance(), raw[:, 4:].exp())
    assert torch.equal(vae.decode(raw[:, :4]), torch.sigmoid(vae.decoder(raw[:, :4])))
    assert torch.equal(vae(x), vae.decode(vae.encode(x)))


@pytest.mark.parametrize("likelihood", [likelihoods.bernoulli, likelihoods.squared_error, likelihoods.gaussian(0.1)])
def test_the_jacobian_is_that_of_the_mean_image(likelihood):
    vae = create(Info(3, (5,)), networks.mlp((8,), activation="tanh"), likelihood, *PARTS[1:])
    z = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([torch.func.jacrev(lambda v: vae.decode(v[None])[0])(one).T for one in z])
    assert torch.allclose(vae.jacobian(z), expected, atol=1e-6)
    assert torch.allclose(vae.jacobian(z, "finite"), expected, atol=1e-3)


def test_the_state_holds_weights_only():
    vae = create(
        Info(2, (5,)),
        networks.mlp((8,)),
        likelihoods.gaussian(0.1, learned=True),
        posteriors.full_normal,
        priors.given(D.Independent(D.Laplace(torch.zeros(2), torch.ones(2)), 1)),
    )
    assert "likelihood.log_scale" in vae.state_dict()
    assert vae.state_dict().keys() == dict(vae.named_parameters()).keys()
    assert vae.likelihood.log_scale.item() == pytest.approx(math.log(0.1))  # not filled at random


def test_running_statistics_are_refused():
    def network(norm: nn.Module) -> networks.Network:
        encoder = lambda outputs: nn.Sequential(nn.Flatten(), Linear(256, outputs))
        decoder = nn.Sequential(Linear(4, 256), norm, nn.Unflatten(1, (1, 16, 16)))
        return networks.Network({}, lambda info, outputs: (encoder(outputs), decoder))

    with pytest.raises(UntwineError, match=r"BatchNorm1d keeps running statistics.*use GroupNorm"):
        make(network(nn.BatchNorm1d(256)))
    assert make(network(nn.GroupNorm(2, 256))).decode(torch.zeros(2, 4)).shape == (2, 1, 16, 16)


def test_the_surface_offers_it():
    assert uw.VAE is VAE and isinstance(make(), nn.Module)

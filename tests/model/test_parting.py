"""A decoder's pass that serves gradients of z and of the weights apart, beside two passes."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from untwine.kernels.layers import Conv2d, ConvTranspose2d, Linear
from untwine.model.networks.initial import initialise
from untwine.model.parting import parted
from untwine.model.passes import Trace, push, trace


class Wave(nn.Module):
    """A user's own layer, with a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(self.scale * x)


DECODERS = {
    "images": lambda: nn.Sequential(
        *(Linear(3, 32), nn.ReLU(), nn.Unflatten(1, (2, 4, 4)), Conv2d(2, 4, 3, 1, 1), nn.ReLU()),
        *(ConvTranspose2d(4, 6, 4, 2, 1), nn.LeakyReLU(0.1), ConvTranspose2d(6, 1, 4, 2, 1)),
    ),
    "in place": lambda: nn.Sequential(
        nn.Linear(3, 8), nn.ReLU(inplace=True), nn.Linear(8, 4, bias=False), nn.Sigmoid()
    ),
    "in place, without a rule": lambda: nn.Sequential(
        *(nn.Linear(3, 8), nn.ELU(inplace=True), nn.Linear(8, 4), nn.LeakyReLU(0.2, inplace=True), nn.Linear(4, 4)),
        *(nn.Sequential(nn.Hardswish(inplace=True), Wave()), nn.Linear(4, 4)),
    ),
    "others": lambda: nn.Sequential(
        *(nn.Linear(3, 32), nn.GroupNorm(2, 32), nn.SiLU(), nn.Unflatten(1, (2, 4, 4)), Wave()),
        *(nn.Conv2d(2, 2, 3, padding="same"), nn.Conv2d(2, 3, 3, 1, 1, padding_mode="circular"), nn.Flatten()),
    ),
    "grouped": lambda: nn.Sequential(
        *(nn.Linear(3, 32), nn.Unflatten(1, (2, 4, 4)), nn.Conv2d(2, 4, 3, 2, 2, 2, 2), nn.ReLU()),
        nn.ConvTranspose2d(4, 2, 3, 2, 1, 1, 2, True, 1),
    ),
}


def make(name: str, seed: int = 0) -> nn.Module:
    decoder = DECODERS[name]().double()
    initialise(decoder, seed, "uniform")
    return decoder


def loss(decoded: Trace, fixed: Trace, finite: bool) -> Tensor:
    """Something of every value of both passes, and of what is pushed through the second."""
    steps = 0.5 * torch.eye(3, dtype=torch.float64)[:, None].expand(3, len(decoded.output), 3)
    return (
        sum((weight * value.sin()).sum() for weight, value in enumerate(decoded.values, 1))
        + (2 * decoded.output.cos() + fixed.output.square()).sum()
        + push(fixed, steps, finite).abs().sum()
    )


@pytest.mark.parametrize("finite", [False, True])
@pytest.mark.parametrize("name", DECODERS)
def test_gradients_are_those_of_two_passes(name, finite):
    """By brute force: one pass at z, and another one at z without its gradient."""
    decoder, z = make(name), torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    wanted = (z, *decoder.parameters())
    ours = loss(*parted(decoder, z, finite), finite)
    theirs = loss(trace(decoder, z, finite), trace(decoder, z.detach(), finite), finite)
    assert torch.allclose(ours, theirs, rtol=1e-13)
    for a, b in zip(torch.autograd.grad(ours, wanted), torch.autograd.grad(theirs, wanted), strict=True):
        assert torch.allclose(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["images", "others"])
def test_members_of_a_pack_are_each_as_alone(name):
    """Under vmap, as a pack maps its members, with gradients taken outside of it."""
    decoders, template = [make(name, seed) for seed in range(2)], make(name)
    weights = {
        key: torch.stack([dict(decoder.named_parameters())[key].detach() for decoder in decoders]).requires_grad_()
        for key, _ in template.named_parameters()
    }
    z = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)

    class Loss(nn.Module):
        def __init__(self, decoder: nn.Module) -> None:
            super().__init__()
            self.decoder = decoder

        def forward(self, z: Tensor) -> Tensor:
            return loss(*parted(self.decoder, z, True), True)

    module = Loss(copy.deepcopy(template))
    mapped = vmap(lambda w, z: functional_call(module, {f"decoder.{k}": v for k, v in w.items()}, (z,)))(weights, z)
    found = torch.autograd.grad(mapped.sum(), (z, *weights.values()))
    for i, decoder in enumerate(decoders):
        own = z[i].detach().requires_grad_()
        alone = loss(*parted(decoder, own, True), True)
        assert torch.allclose(mapped[i], alone, rtol=1e-12)
        for a, b in zip(found, torch.autograd.grad(alone, (own, *decoder.parameters())), strict=True):
            assert torch.allclose(a[i], b, rtol=1e-10, atol=1e-12)


def test_every_known_layer_is_computed_once():
    decoder, calls = make("images"), []
    for layer in decoder:
        layer.register_forward_hook(lambda layer, *_: calls.append(type(layer)))
    decoded, fixed = parted(decoder, torch.randn(4, 3, dtype=torch.float64, requires_grad=True))
    known = (Linear, Conv2d, ConvTranspose2d, nn.ReLU)
    assert [kind for kind in calls if kind in known] == [type(layer) for layer in decoder if type(layer) in known]
    assert all(torch.equal(a, b) for a, b in zip(decoded.values, fixed.values, strict=True))
    assert decoded.output.data_ptr() == fixed.output.data_ptr()  # nor is it copied


def test_the_precision_of_autocast():
    decoder, z = make("images").float(), torch.randn(4, 3, requires_grad=True)
    wanted = (z, *decoder.parameters())
    with torch.autocast("cpu", torch.bfloat16):
        passes = parted(decoder, z), (trace(decoder, z), trace(decoder, z.detach()))
    found, expected = (
        torch.autograd.grad((a.output.float().sin() + b.output.float().square()).sum(), wanted) for a, b in passes
    )
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == torch.float32
        assert (a - b).norm() <= 0.05 * b.norm()

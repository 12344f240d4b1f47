"""Layers that are computed in a way of their own, beside torch's."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jvp, vmap
from torch.nn import functional as F

from untwine.kernels import layers
from untwine.kernels.layers import FEW_CHANNELS, ConvTranspose2d, relu_gradient, transposed

SIZES = [
    (4, 2, 1),
    (3, 1, 1),
    (3, 2, 0),
    (5, 3, 2),
    (2, 2, 0),
    (1, 1, 0),
    (2, 3, 0),
    (4, 2, 3),
]  # kernel, stride, padding


def thin(kernel: int, stride: int, padding: int, channels: int = 3) -> ConvTranspose2d:
    layer = ConvTranspose2d(5, channels, kernel, stride, padding).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    return layer


def both_ways(layer: ConvTranspose2d) -> list[Callable[[Tensor, Tensor], Tensor]]:
    """The layer as a function of its weight and its input, and torch's."""
    bias = layer.bias.detach()
    return [
        lambda weight, x: functional_call(layer, {"weight": weight, "bias": bias}, (x,)),
        lambda weight, x: F.conv_transpose2d(x, weight, bias, layer.stride, layer.padding),
    ]


def agree(ours: Tensor, theirs: Tensor) -> None:
    assert ours.shape == theirs.shape
    assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("kernel", "stride", "padding"), SIZES)
@pytest.mark.parametrize("channels", [1, FEW_CHANNELS])
def test_few_channels_have_the_values_and_gradients_of_torch(kernel, stride, padding, channels, monkeypatch):
    calls = []
    monkeypatch.setattr(
        layers._Thin, "apply", lambda *given, apply=layers._Thin.apply: calls.append(1) or apply(*given)
    )
    layer = thin(kernel, stride, padding, channels)
    assert list(layer.state_dict()) == ["weight", "bias"] and layer.weight.shape == (5, channels, kernel, kernel)
    x = torch.randn(3, 5, 4, 6, dtype=torch.float64, requires_grad=True)
    for given in (x, x.to(memory_format=torch.channels_last)):
        results = [f(layer.weight, given) for f in both_ways(layer)]
        agree(*results)
        direction = torch.randn_like(results[0])
        for pair in zip(*(torch.autograd.grad(y, (x, layer.weight), direction) for y in results), strict=True):
            agree(*pair)
    assert len(calls) == 2
    agree(transposed(layer, x), results[1] - layer.bias[:, None, None])


@pytest.mark.parametrize(("kernel", "stride", "padding"), SIZES[:3])
def test_few_channels_under_every_transformation(kernel, stride, padding):
    layer = thin(kernel, stride, padding)
    weights = torch.randn(2, *layer.weight.shape, dtype=torch.float64)
    inputs = torch.randn(2, 3, 5, 4, 6, dtype=torch.float64)
    ways = both_ways(layer)
    for places in [(0, 0), (0, None), (None, 0)]:
        given = [t if place == 0 else t[0] for t, place in zip((weights, inputs), places, strict=True)]
        agree(*(vmap(f, places)(*given) for f in ways))
        slopes = [vmap(grad(lambda *a, f=f: f(*a).sin().sum(), (0, 1)), places)(*given) for f in ways]
        for pair in zip(*slopes, strict=True):
            agree(*pair)
    agree(*(jvp(f, (weights[0], inputs[0]), (weights[1], inputs[1]))[1] for f in ways))
    agree(*(vmap(lambda t, f=f: jvp(lambda x: f(weights[0], x), (inputs[0],), (t,))[1])(inputs) for f in ways))
    twice = [
        grad(lambda x, f=f: grad(lambda y: f(weights[0], y).sin().sum())(x).square().sum())(inputs[0]) for f in ways
    ]
    agree(*twice)


@pytest.mark.parametrize(
    "layer",
    [
        ConvTranspose2d(4, FEW_CHANNELS + 1, 4, 2, 1),
        ConvTranspose2d(4, 2, 4, 2, 1, groups=2),
        ConvTranspose2d(4, 1, 4, 2, 1, output_padding=1),
        ConvTranspose2d(4, 1, 3, 2, 1, dilation=2),
        ConvTranspose2d(4, 1, (4, 3), 2, 1),
    ],
    ids=["channels", "groups", "output padding", "dilation", "not square"],
)
def test_other_transposed_convolutions_are_bitwise_those_of_torch(layer):
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(2, 4, 5, 6)
    assert torch.equal(layer(x), nn.ConvTranspose2d.forward(layer, x))


def test_few_channels_keep_the_precision_and_the_sizes_that_torch_would_choose():
    layer, x = thin(4, 2, 1).float(), torch.randn(2, 5, 4, 4)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(layer(x), nn.ConvTranspose2d.forward(layer, x))
    assert torch.equal(layer(x, [9, 9]), nn.ConvTranspose2d.forward(layer, x, [9, 9]))
    assert torch.equal(layer(x[0]), nn.ConvTranspose2d.forward(layer, x[0]))


def test_the_gradient_of_a_relu():
    y, g = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True), torch.tensor([[3.0, 4.0, 5.0]] * 2, requires_grad=True)
    found = relu_gradient(g, y)
    assert found.tolist() == [[0.0, 0.0, 5.0]] * 2
    of_g, of_y = torch.autograd.grad(found.square().sum(), (g, y), allow_unused=True)
    assert of_g.tolist() == [[0.0, 0.0, 10.0]] * 2 and of_y is None
    for places in itertools.product((0, None), repeat=2):
        if places != (None, None):
            given = [t if place is None else torch.stack([t, 2 * t]) for t, place in zip((g, y), places, strict=True)]
            assert vmap(relu_gradient, places)(*given).shape == (2, 2, 3)

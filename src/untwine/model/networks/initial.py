"""Initial parameters from counter-based streams: a function of the seed and each parameter's name."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from untwine import streams
from untwine.errors import unknown

Layer: TypeAlias = nn.Linear | nn.Conv2d | nn.ConvTranspose2d
# Draws the numbers of a parameter, from a kind of stream.
Draw: TypeAlias = Callable[[Callable[..., Tensor]], Tensor]
# Makes the values of a parameter from its numbers, the fan in and the fan out of its layer.
Fill: TypeAlias = Callable[[Draw, float, float], Tensor]


def _symmetric(draw: Draw) -> Tensor:
    """Uniforms in (-1, 1)."""
    return 2 * draw(streams.uniform) - 1


def _zero(draw: Draw, fan_in: float, fan_out: float) -> Tensor:
    return 0 * draw(streams.uniform)


def _uniform(draw: Draw, fan_in: float, fan_out: float) -> Tensor:
    return _symmetric(draw) / math.sqrt(fan_in)


def _xavier_normal(draw: Draw, fan_in: float, fan_out: float) -> Tensor:
    return draw(streams.normal) * math.sqrt(2 / (fan_in + fan_out))


def _glorot_uniform(draw: Draw, fan_in: float, fan_out: float) -> Tensor:
    return _symmetric(draw) * math.sqrt(6 / (fan_in + fan_out))


def _dcgan(draw: Draw, fan_in: float, fan_out: float) -> Tensor:
    return draw(streams.normal) * 0.02


# How weights and biases start.
SCHEMES: dict[str, tuple[Fill, Fill]] = {
    "uniform": (_uniform, _uniform),
    "xavier_normal": (_xavier_normal, _zero),
    "glorot_uniform": (_glorot_uniform, _zero),
    "dcgan": (_dcgan, _zero),
}


def initialise(module: nn.Module, seed: int, scheme: str = "uniform") -> None:
    """Fill the weights and biases of every linear and convolutional layer.

    Other parameters (a learned scale, a learned prior) keep their values. A user's layer that has `reset_parameters`
    is reset under a generator forked for it, so that its values too depend on the seed and its name alone.

    Args:
        module: The module whose layers are filled in place.
        seed: The seed of the member.
        scheme: uniform, torch's default, U(-1, 1) / sqrt(fan in) for weights and biases; or one with zero biases:
            xavier_normal, weights of variance 2 / (fan in + fan out) (michlo2023); glorot_uniform, U(-1, 1) times
            sqrt(6 / (fan in + fan out)), TensorFlow's default; dcgan, N(0, 0.02^2) (mathieu2019, Fashion-MNIST).
    """
    if scheme not in SCHEMES:
        raise unknown("scheme of initial weights", scheme, SCHEMES)
    for name, layer in module.named_modules():
        if isinstance(layer, Layer):
            _fill(layer, seed, name, scheme)
        elif hasattr(layer, "reset_parameters") and any(True for _ in layer.parameters(recurse=False)):
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(int(_draw(seed, name, 1, streams.bits)))
                layer.reset_parameters()  # type: ignore[operator]


def _fill(layer: Layer, seed: int, name: str, scheme: str) -> None:
    fans = _fans(layer)
    with torch.no_grad():
        for key, fill in zip(("weight", "bias"), SCHEMES[scheme], strict=True):
            parameter: Tensor | None = getattr(layer, key)
            if parameter is not None:
                draw = functools.partial(_draw, seed, f"{name}.{key}", parameter.numel())
                parameter.copy_(fill(draw, *fans).reshape(parameter.shape))


def _fans(layer: Layer) -> tuple[float, float]:
    """The fan in and the fan out of a layer; heads that are computed as one are layers of their own."""
    field = math.prod(layer.weight.shape[2:])
    return layer.weight.shape[1] * field, layer.weight.shape[0] * field / getattr(layer, "heads", 1)


def _draw(seed: int, name: str, count: int, kind: Callable[..., Tensor]) -> Tensor:
    """Numbers of a kind of stream, for a parameter of a member."""
    zero = torch.zeros(1, dtype=torch.int64)
    return kind(torch.tensor([seed]), f"initial/{name}", zero, count)[0, 0]

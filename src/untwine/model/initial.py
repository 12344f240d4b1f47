"""Initial parameters from counter-based streams: a function of the seed and each parameter's name."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from untwine import streams


def _fans(weight: Tensor) -> tuple[int, int]:
    """The fan in and the fan out of a layer."""
    field = math.prod(weight.shape[2:])
    return weight.shape[1] * field, weight.shape[0] * field


def _draw(seed: int, name: str, count: int, kind: Callable[..., Tensor]) -> Tensor:
    """Numbers of a kind of stream, for a parameter of a member."""
    zero = torch.zeros(1, dtype=torch.int64)
    return kind(torch.tensor([seed]), f"initial/{name}", zero, count)[0, 0]


def initialise(module: nn.Module, seed: int, scheme: str = "uniform") -> None:
    """Fill the weights and biases of every linear and convolutional layer.

    Other parameters (a learned scale, a learned prior) keep their values. A user's layer that has `reset_parameters`
    is reset under a generator forked for it, so that its values too depend on the seed and its name alone.

    Args:
        module: The module whose layers are filled in place.
        seed: The seed of the member.
        scheme: uniform, torch's default, U(-1, 1) / sqrt(fan in) for weights and biases; or xavier_normal, weights of
            variance 2 / (fan in + fan out) and zero biases (michlo2023).
    """
    for name, layer in module.named_modules():
        if isinstance(layer, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            _fill(layer, seed, name, scheme)
        elif hasattr(layer, "reset_parameters") and any(True for _ in layer.parameters(recurse=False)):
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(int(_draw(seed, name, 1, streams.bits)))
                layer.reset_parameters()  # type: ignore[operator]


def _fill(layer: nn.Linear | nn.Conv2d | nn.ConvTranspose2d, seed: int, name: str, scheme: str) -> None:
    fan_in, fan_out = _fans(layer.weight)
    with torch.no_grad():
        for key, parameter in (("weight", layer.weight), ("bias", layer.bias)):
            if parameter is None:
                continue
            full = f"{name}.{key}"
            if scheme == "uniform":
                values = (2 * _draw(seed, full, parameter.numel(), streams.uniform) - 1) / math.sqrt(fan_in)
            elif key == "weight":
                values = _draw(seed, full, parameter.numel(), streams.normal) * math.sqrt(2 / (fan_in + fan_out))
            else:
                values = torch.zeros(parameter.numel())
            parameter.copy_(values.reshape(parameter.shape))

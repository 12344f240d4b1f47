"""How tangents and finite differences pass through layers, and the activations that networks know by name.

`rule(layer)` maps a tangent through a layer whose input and output are known; `None` means that the layer
has no rule and `torch.func.jvp` must serve. `difference_rule(layer)` does the same for finite differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untwine.kernels.differences import activation_difference, activation_slope, is_smooth, is_supported
from untwine.kernels.layers import torch_type

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "elu": nn.ELU,
    "softplus": nn.Softplus,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
}

# A rule maps (layer, input, output, tangent) to the tangent behind the layer. The tangent has the columns
# as a leading dimension: [columns, batch, ...]; input and output are [batch, ...].
Rule: TypeAlias = Callable[[Any, Tensor, Tensor, Tensor], Tensor]


def _conv(layer: nn.Conv2d, x: Tensor, y: Tensor, t: Tensor) -> Tensor:
    out = F.conv2d(t.flatten(0, 1), layer.weight, None, layer.stride, layer.padding, layer.dilation, layer.groups)
    return out.unflatten(0, t.shape[:2])


def _conv_transpose(layer: nn.ConvTranspose2d, x: Tensor, y: Tensor, t: Tensor) -> Tensor:
    out = F.conv_transpose2d(
        t.flatten(0, 1),
        layer.weight,
        None,
        layer.stride,  # type: ignore[arg-type]
        layer.padding,  # type: ignore[arg-type]
        layer.output_padding,  # type: ignore[arg-type]
        layer.groups,
        layer.dilation,  # type: ignore[arg-type]
    )
    return out.unflatten(0, t.shape[:2])


def _group_norm(layer: nn.GroupNorm, x: Tensor, y: Tensor, t: Tensor) -> Tensor:
    """The tangent of (x - mean) / deviation: its part that changes neither the mean nor the deviation of a group."""
    groups = x.to(t.dtype).reshape(len(x), layer.num_groups, -1)
    centred = groups - groups.mean(-1, keepdim=True)
    inverse = (centred.square().mean(-1, keepdim=True) + layer.eps).rsqrt()
    unit, tangent = centred * inverse, t.reshape(len(t), *groups.shape)
    rest = tangent - tangent.mean(-1, keepdim=True) - unit * (unit * tangent).mean(-1, keepdim=True)
    scale = layer.weight.reshape(-1, *(1 for _ in x.shape[2:])) if layer.affine else 1.0
    return (rest * inverse).reshape(t.shape) * scale


def _shape(layer: nn.Module, x: Tensor, y: Tensor, t: Tensor) -> Tensor:
    return t.reshape(*t.shape[:2], *y.shape[1:])


def _smooth(layer: nn.Module, x: Tensor, y: Tensor, t: Tensor) -> Tensor:
    return t * activation_slope(layer, x)


_RULES: dict[type[nn.Module], Rule] = {
    nn.Identity: lambda layer, x, y, t: t,
    nn.Linear: lambda layer, x, y, t: F.linear(t, layer.weight),
    nn.Conv2d: _conv,
    nn.ConvTranspose2d: _conv_transpose,
    nn.GroupNorm: _group_norm,
    nn.Flatten: _shape,
    nn.Unflatten: _shape,
    nn.ReLU: lambda layer, x, y, t: t * (y > 0),
    nn.LeakyReLU: lambda layer, x, y, t: torch.where(x > 0, t, layer.negative_slope * t),
    nn.Tanh: lambda layer, x, y, t: t * _SLOPES[nn.Tanh](y),
    nn.Sigmoid: lambda layer, x, y, t: t * _SLOPES[nn.Sigmoid](y),
}

# Smooth layers that act on each number alone: their derivative, from their output.
_SLOPES: dict[type[nn.Module], Callable[[Tensor], Tensor]] = {
    nn.Tanh: lambda y: 1 - y * y,
    nn.Sigmoid: lambda y: y * (1 - y),
}


def slope(layer: nn.Module, y: Tensor) -> Tensor | None:
    """The derivative of a smooth layer that acts on each number alone; None for other layers.

    Args:
        layer: The layer.
        y: Its output.
    """
    known = _SLOPES.get(type(layer))
    return None if known is None else known(y)


def rule(layer: nn.Module) -> Rule | None:
    """The tangent rule of a layer, or None; exact types only, since a subclass may do something else."""
    kind = torch_type(layer)
    if is_smooth(layer):
        return _smooth
    if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d) and layer.padding_mode != "zeros":
        return None
    if kind is nn.Flatten and layer.start_dim != 1:
        return None
    return _RULES.get(kind)


# For linear layers a difference is a tangent.
_LINEAR = (nn.Identity, nn.Linear, nn.Conv2d, nn.ConvTranspose2d, nn.Flatten, nn.Unflatten)


def difference_rule(layer: nn.Module) -> Rule:
    """The rule of a layer for finite differences d of its input x: f(x + d) - f(x), with gradients of both.

    Layers without a rule of their own are applied at both ends.

    >>> x, d = torch.tensor([[-1.0, 1.0]]), torch.tensor([[[3.0, 0.5]], [[0.5, -3.0]]])
    >>> difference_rule(nn.ReLU())(nn.ReLU(), x, x.relu(), d)
    tensor([[[ 2.0000,  0.5000]],
    <BLANKLINE>
            [[ 0.0000, -1.0000]]])
    """
    if is_supported(layer):
        return lambda layer, x, y, d: activation_difference(layer, x, d)
    known = rule(layer)
    return known if known is not None and isinstance(layer, _LINEAR) else _difference_of_ends


def _difference_of_ends(layer: nn.Module, x: Tensor, y: Tensor, d: Tensor) -> Tensor:
    """f(x + d) - f(x), both in the precision of the differences; a layer that works in place gets copies."""
    return layer((x + d).flatten(0, 1)).unflatten(0, d.shape[:2]) - layer(x.clone())


def held(module: nn.Module) -> Callable[..., Any]:
    """A module with its parameters held fixed: gradients reach its input alone."""
    state = {name: value.detach() for name, value in module.named_parameters()}
    return lambda *arguments: torch.func.functional_call(module, state, arguments)

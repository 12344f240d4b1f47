"""The difference f(a + d) - f(a) that an activation f makes when its input `a` moves by `d`, with its gradient.

No two large numbers are subtracted, so that a small `d` needs no more precision than a tangent does (a GELU's are, but
in float32 or better).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from untwine.kernels.geometry import sum_unrolled
from untwine.kernels.layers import relu_gradient


class _Activation:
    """The difference of one kind of activation, and its derivatives."""

    def supports(self, layer: Any) -> bool:
        """Whether a layer of this kind has settings that are known here."""
        return True

    def difference(self, layer: Any, a: Tensor, d: Tensor) -> Tensor:
        """f(a + d) - f(a)."""
        raise NotImplementedError

    def slopes(self, layer: Any, a: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        """The derivatives of the difference by d and by a: f'(a + d), and f'(a + d) - f'(a)."""
        raise NotImplementedError

    def gradients(self, layer: Any, a: Tensor, d: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of d, and of a for each column, from the gradient g of the difference."""
        by_d, by_a = self.slopes(layer, a, d)
        return g * by_d, g * by_a


class _ReLU(_Activation):
    """A ReLU, or a leaky one: slope 1 above zero, another below. On a CPU each pass over memory counts."""

    def difference(self, layer: Any, a: Tensor, d: Tensor) -> Tensor:
        below = getattr(layer, "negative_slope", 0.0)
        relu = torch.maximum(d, -a).add_(a.clamp(max=0))
        return relu if below == 0 else below * d + (1 - below) * relu

    def slopes(self, layer: Any, a: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        return self.gradients(layer, a, d, torch.ones_like(d))

    def gradients(self, layer: Any, a: Tensor, d: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        below = getattr(layer, "negative_slope", 0.0)
        after = relu_gradient(g, a + d)
        change = after - relu_gradient(g, a)
        return (after, change) if below == 0 else (below * g + (1 - below) * after, (1 - below) * change)


class _Sigmoid(_Activation):
    def difference(self, layer: Any, a: Tensor, d: Tensor) -> Tensor:
        sign = 1 - 2 * (d < 0).to(d.dtype)  # so that no exponential overflows
        return -sign * torch.expm1(-d.abs()) * (-sign * a).sigmoid() * (sign * (a + d)).sigmoid()

    def slopes(self, layer: Any, a: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        after = (a + d).sigmoid()
        return after * (1 - after), self.difference(layer, a, d) * (1 - a.sigmoid() - after)


class _Tanh(_Activation):
    def difference(self, layer: Any, a: Tensor, d: Tensor) -> Tensor:
        return d.tanh() * (1 - a.tanh() * (a + d).tanh())

    def slopes(self, layer: Any, a: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        after = (a + d).tanh()
        return 1 - after * after, -self.difference(layer, a, d) * (a.tanh() + after)


class _Smooth(_Activation):
    """An activation whose slope at its input is known."""

    def slope(self, layer: Any, x: Tensor) -> Tensor:
        """f'(x)."""
        raise NotImplementedError

    def slope_difference(self, layer: Any, a: Tensor, d: Tensor) -> Tensor:
        """f'(a + d) - f'(a)."""
        raise NotImplementedError

    def slopes(self, layer: Any, a: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        return self.slope(layer, a + d), self.slope_difference(layer, a, d)


class _SiLU(_Smooth):
    """x s(x) with the sigmoid s."""

    def difference(self, layer: Any, a: Tensor, d: Tensor) -> Tensor:
        return d * (a + d).sigmoid() + a * _SIGMOID.difference(None, a, d)

    def slope(self, layer: Any, x: Tensor) -> Tensor:
        s = x.sigmoid()
        return s * (1 + x * (1 - s))

    def slope_difference(self, layer: Any, a: Tensor, d: Tensor) -> Tensor:
        after, moved = (a + d).sigmoid(), _SIGMOID.difference(None, a, d)
        return d * after * (1 - after) + moved * (1 + a * (1 - a.sigmoid() - after))


class _Softplus(_Smooth):
    """log(1 + exp(beta x)) / beta; torch rounds it to x above a threshold, which makes no difference from 20 on."""

    def supports(self, layer: Any) -> bool:
        return layer.threshold >= 20

    def difference(self, layer: Any, a: Tensor, d: Tensor) -> Tensor:
        a, d = layer.beta * a, layer.beta * d
        b = a + d
        small = torch.log1p(a.sigmoid() * torch.expm1(d.clamp(-1, 1)))
        rest = torch.log1p(torch.exp(-b.abs())) - torch.log1p(torch.exp(-a.abs()))  # what it has beyond a ReLU
        return torch.where(d.abs() < 1, small, _RELU.difference(None, a, d) + rest) / layer.beta

    def slope(self, layer: Any, x: Tensor) -> Tensor:
        return (layer.beta * x).sigmoid()

    def slope_difference(self, layer: Any, a: Tensor, d: Tensor) -> Tensor:
        return _SIGMOID.difference(None, layer.beta * a, layer.beta * d)


class _GELU(_Smooth):
    """x P(x) with the normal distribution function P, of which differences have no closed form."""

    def supports(self, layer: Any) -> bool:
        return layer.approximate == "none"

    def difference(self, layer: Any, a: Tensor, d: Tensor) -> Tensor:
        dtype, (a, d) = d.dtype, _precise(a, d)
        return (d * _normal_distribution(a + d) + a * (_normal_distribution(a + d) - _normal_distribution(a))).to(dtype)

    def slope(self, layer: Any, x: Tensor) -> Tensor:
        return _normal_distribution(x) + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi)

    def slope_difference(self, layer: Any, a: Tensor, d: Tensor) -> Tensor:
        dtype, (a, d) = d.dtype, _precise(a, d)
        return (self.slope(layer, a + d) - self.slope(layer, a)).to(dtype)


def _precise(*tensors: Tensor) -> list[Tensor]:
    """The tensors in float32, or in float64 if they are."""
    return [tensor.to(torch.promote_types(tensor.dtype, torch.float32)) for tensor in tensors]


def _normal_distribution(x: Tensor) -> Tensor:
    return torch.erfc(x * -math.sqrt(0.5)) / 2


_RELU, _SIGMOID = _ReLU(), _Sigmoid()
_ACTIVATIONS: dict[type[nn.Module], _Activation] = {
    nn.ReLU: _RELU,
    nn.LeakyReLU: _RELU,
    nn.Sigmoid: _SIGMOID,
    nn.Tanh: _Tanh(),
    nn.SiLU: _SiLU(),
    nn.Softplus: _Softplus(),
    nn.GELU: _GELU(),
}


class _Difference(torch.autograd.Function):
    """The difference of an activation, with gradients of `a` and `d`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(layer: nn.Module, a: Tensor, d: Tensor) -> Tensor:
        return _ACTIVATIONS[type(layer)].difference(layer, a, d.to(_common_dtype(a, d)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.layer = inputs[0]
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (a, d), [g] = ctx.saved_tensors, gradients
        of_d, of_a = _ACTIVATIONS[type(ctx.layer)].gradients(ctx.layer, a, d.to(_common_dtype(a, d)), g)
        sum_dtype = torch.promote_types(g.dtype, torch.float32)  # of the sum over columns
        return None, sum_unrolled(of_a.to(sum_dtype), 0).to(a.dtype), of_d.to(d.dtype)


def _common_dtype(a: Tensor, d: Tensor) -> torch.dtype:
    return torch.promote_types(a.dtype, d.dtype)


def is_supported(layer: nn.Module) -> bool:
    """Whether `activation_difference` knows an activation; exact types only, since a subclass may do something else."""
    known = _ACTIVATIONS.get(type(layer))
    return known is not None and known.supports(layer)


def is_smooth(layer: nn.Module) -> bool:
    """Whether `activation_slope` knows an activation."""
    return is_supported(layer) and isinstance(_ACTIVATIONS[type(layer)], _Smooth)


def activation_slope(layer: nn.Module, x: Tensor) -> Tensor:
    """The derivative at x of an activation that `is_smooth`.

    Args:
        layer: The activation.
        x: Its input.

    >>> activation_slope(nn.Softplus(), torch.zeros(2))
    tensor([0.5000, 0.5000])
    """
    known = _ACTIVATIONS[type(layer)]
    assert isinstance(known, _Smooth)
    return known.slope(layer, x)


def activation_difference(layer: nn.Module, a: Tensor, d: Tensor) -> Tensor:
    """f(a + d) - f(a) of an activation that `is_supported`, `[columns, batch, ...]`.

    Args:
        layer: The activation f.
        a: Its input, `[batch, ...]`.
        d: What is added to the input, `[columns, batch, ...]`.

    >>> a, d = torch.tensor([[-1.0, 1.0]]), torch.tensor([[[3.0, 0.5]], [[0.5, -3.0]]])
    >>> activation_difference(nn.ReLU(), a, d)
    tensor([[[ 2.0000,  0.5000]],
    <BLANKLINE>
            [[ 0.0000, -1.0000]]])
    """
    return _Difference.apply(layer, a, d)


def difference_and_slopes(layer: nn.Module, a: Tensor, d: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """f(a + d) - f(a) of an activation that `is_supported`, and its derivatives by d and by a.

    Args:
        layer: The activation f.
        a: Its input.
        d: What is added to the input.
    """
    known = _ACTIVATIONS[type(layer)]
    return known.difference(layer, a, d), *known.slopes(layer, a, d)

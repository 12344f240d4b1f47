"""The difference f(a + d) - f(a) that an activation f makes when its input `a` moves by `d`, with its gradient.

No two large numbers are subtracted, so that a small `d` needs no more precision than a tangent does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from untwine.kernels.geometry import sum_unrolled


class _Activation:
    """The difference of one kind of activation, and its derivatives."""

    def difference(self, layer: Any, a: Tensor, d: Tensor) -> Tensor:
        """f(a + d) - f(a)."""
        raise NotImplementedError

    def slopes(self, layer: Any, a: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        """The derivatives of the difference by d and by a: f'(a + d), and f'(a + d) - f'(a)."""
        raise NotImplementedError


class _ReLU(_Activation):
    """A ReLU, or a leaky one: slope 1 above zero, another below."""

    def difference(self, layer: Any, a: Tensor, d: Tensor) -> Tensor:
        below = getattr(layer, "negative_slope", 0.0)
        relu = torch.maximum(d, -a) + a.clamp(max=0)
        return relu if below == 0 else below * d + (1 - below) * relu

    def slopes(self, layer: Any, a: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
        below = getattr(layer, "negative_slope", 0.0)
        after, before = (d > -a).to(d.dtype), (a > 0).to(d.dtype)
        return below + (1 - below) * after, (1 - below) * (after - before)


class _Sigmoid(_Activation):
    def difference(self, layer: Any, a: Tensor, d: Tensor) -> Tensor:
        sign = torch.where(d < 0, -1.0, 1.0).to(d.dtype)  # so that no exponential overflows
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


_ACTIVATIONS: dict[type[nn.Module], _Activation] = {
    nn.ReLU: _ReLU(),
    nn.LeakyReLU: _ReLU(),
    nn.Sigmoid: _Sigmoid(),
    nn.Tanh: _Tanh(),
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
        by_d, by_a = _ACTIVATIONS[type(ctx.layer)].slopes(ctx.layer, a, d.to(_common_dtype(a, d)))
        sum_dtype = torch.promote_types(g.dtype, torch.float32)  # of the sum over columns
        return None, sum_unrolled((g * by_a).to(sum_dtype), 0).to(a.dtype), (g * by_d).to(d.dtype)


def _common_dtype(a: Tensor, d: Tensor) -> torch.dtype:
    return torch.promote_types(a.dtype, d.dtype)


def is_supported(layer: nn.Module) -> bool:
    """Whether `activation_difference` knows an activation; exact types only, since a subclass may do something else."""
    return type(layer) in _ACTIVATIONS


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

"""One forward pass of a decoder with two kinds of gradients: some reach z, others the weights alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from untwine.model.layers import adjoint, held
from untwine.model.passes import Trace, by_kernels, layer_value, trace


def parted(decoder: nn.Module, z: Float[Tensor, "batch ..."], finite: bool = False) -> tuple[Trace, Trace]:
    """The pass of a decoder, and the same pass with z held fixed, whose gradients reach the weights alone.

    The first consists of two passes: one holds z fixed, the other the weights. So gradients of both results share one
    backward pass to the weights, and only those of the first take the other one, to z. Values are computed once:
    the other pass takes them from the first, or a compiler finds that they are equal.

    Args:
        decoder: The decoder.
        z: Its input.
        finite: Whether differences are to be pushed through the passes.
    """
    fixed = trace(decoder, z.detach(), finite)
    other = held(_Tracing(decoder, finite))(z) if by_kernels(fixed.layers) else _repeated(fixed, z)
    values = _joined(other.values[1:], fixed.values[1:])
    kept = tuple(map(_joined, other.kept, fixed.kept)) if finite else fixed.kept
    return replace(fixed, values=(z, *values), kept=kept), fixed


class _Tracing(nn.Module):
    """`trace` of a network as a module."""

    def __init__(self, network: nn.Module, finite: bool):
        super().__init__()
        self.network = network
        self.finite = finite

    def forward(self, z: Tensor) -> Trace:
        return trace(self.network, z, self.finite)


def _repeated(passed: Trace, z: Tensor) -> Trace:
    """A pass with the values of one that has been made, whose gradients reach z alone."""
    values = [z]
    for layer, y in zip(passed.layers, passed.values[1:], strict=True):
        if adjoint(layer) is None:
            values.append(held(_Applied(layer))(values[-1]))
        else:
            values.append(_Repeated.apply(layer, getattr(layer, "weight", None), values[-1], y.detach()))
    return replace(passed, values=tuple(values))


class _Applied(nn.Module):
    """A layer that works in place on a copy."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return layer_value(self.layer, x)


class _Repeated(torch.autograd.Function):
    """The output of a layer, known already, with a gradient for its input."""

    generate_vmap_rule = True

    @staticmethod
    def forward(layer: nn.Module, weight: Tensor | None, x: Tensor, y: Tensor) -> Tensor:
        return y.view_as(y)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.layer = inputs[0]
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (weight, x, y), [g] = ctx.saved_tensors, gradients
        backwards = adjoint(ctx.layer)
        assert backwards is not None
        weight = None if weight is None else weight.to(g.dtype)
        return None, None, backwards(ctx.layer, weight, x, y, g).to(x.dtype), None


class _Joined(torch.autograd.Function):
    """The first of two equal tensors, with a gradient for both."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        return a.view_as(a)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0], gradients[0]


def _joined(first: Sequence[Tensor], second: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Pairs of equal tensors, each as one tensor with a gradient for both; bits of masks have none."""
    return tuple(_Joined.apply(a, b) if a.is_floating_point() else b for a, b in zip(first, second, strict=True))

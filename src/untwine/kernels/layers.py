"""Torch's layers with parameters, except that construction draws nothing from a random generator.

`untwine.model.networks.initial` fills their parameters from counter-based streams instead. Transposed convolutions with
few output channels are computed in another way on a CPU.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# Up to so many output channels, a matrix product and shifted sums take a CPU at most half as long as torch's transposed
# convolution, whose vectors hold 16 channels. (Forwards: torch's backward pass is fast.)
FEW_CHANNELS = 4


class Linear(nn.Linear):
    """A dense layer whose parameters are filled later: one, or several `heads` that are computed as one."""

    heads = 1

    def reset_parameters(self) -> None:
        """Do nothing: the streams fill the parameters."""


class Conv2d(nn.Conv2d):
    """A convolution whose parameters are filled later."""

    def reset_parameters(self) -> None:
        """Do nothing: the streams fill the parameters."""


class ConvTranspose2d(nn.ConvTranspose2d):
    """A transposed convolution whose parameters are filled later."""

    def reset_parameters(self) -> None:
        """Do nothing: the streams fill the parameters."""

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        return transposed(self, input, self.bias) if output_size is None else super().forward(input, output_size)


def transposed(layer: nn.ConvTranspose2d, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """The transposed convolution of a layer, computed in the faster of two ways.

    Args:
        layer: A layer that pads with zeros.
        x: Its input, `[batch, channels, height, width]`.
        bias: Its bias; None adds nothing.
    """
    if _is_thin(layer, x):
        image = _Thin.apply(x, layer.weight, layer.stride[0], layer.padding[0])
        return image if bias is None else image + bias[:, None, None]
    sizes: Any = layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation
    return F.conv_transpose2d(x, layer.weight, bias, *sizes)


def _is_thin(layer: nn.ConvTranspose2d, x: Tensor) -> bool:
    """Whether `_Thin` can compute a layer, and faster than torch; under autocast torch chooses the precision."""
    return (
        layer.out_channels <= FEW_CHANNELS
        and all(len(set(pair)) == 1 for pair in (layer.kernel_size, layer.stride, layer.padding))
        and layer.groups == 1
        and set(layer.dilation) == {1}
        and set(layer.output_padding) == {0}
        and x.ndim == 4
        and x.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
    )


class _Thin(torch.autograd.Function):
    """A transposed convolution: a matrix product gives what each pixel adds to the image, and shifted sums add it.

    Gradients are torch's own.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
        (height, width), (channels, kernel) = x.shape[2:], weight.shape[1:3]
        # Kernel row i is tap i // stride of the rows of the image whose number is i modulo the stride.
        taps = -(-kernel // stride)
        missing = taps * stride - kernel
        weight = F.pad(weight, (0, missing, 0, missing)) if missing else weight
        added = (weight.flatten(1).mT @ x.flatten(2)).unflatten(1, (channels, taps, stride, taps, stride))
        added = added.unflatten(-1, (height, width))
        phases = added.new_zeros(x.shape[0], channels, stride, stride, height + taps - 1, width + taps - 1)
        for i, j in itertools.product(range(taps), repeat=2):
            phases[..., i : i + height, j : j + width] += added[:, :, i, :, j]
        image = phases.permute(0, 1, 4, 2, 5, 3).flatten(4, 5).flatten(2, 3)
        rows, columns = (slice(padding, (n - 1) * stride + kernel - padding) for n in (height, width))
        return image[:, :, rows, columns]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, *ctx.sizes = inputs
        ctx.save_for_backward(x, weight)
        ctx.save_for_forward(x, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        stride, padding = ([size, size] for size in ctx.sizes)
        needed = [*ctx.needs_input_grad[:2], False]
        x, weight = ctx.saved_tensors
        by_x, by_weight, _ = torch.ops.aten.convolution_backward(
            gradients[0], x, weight, None, stride, padding, [1, 1], True, [0, 0], 1, needed
        )
        return by_x, by_weight, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        x, weight = ctx.saved_tensors
        return _Thin.apply(tangents[0], weight, *ctx.sizes) + _Thin.apply(x, tangents[1], *ctx.sizes)


def relu_gradient(g: Tensor, y: Tensor) -> Tensor:
    """`g` where the output `y` of a ReLU is positive, else zero, in one pass over memory.

    Args:
        g: A gradient or tangents; may have further leading dimensions.
        y: The output, or the input, of the ReLU.
    """
    return torch.ops.aten.threshold_backward(g, y.detach(), 0)


def torch_type(layer: nn.Module) -> type[nn.Module]:
    """The torch class that computes exactly what a layer does.

    For the classes of this module it is their base; for any other layer it is its own type, since a
    subclass may compute something else.

    >>> torch_type(Linear(2, 3)).__name__
    'Linear'
    >>> torch_type(Linear(2, 3)) is nn.Linear
    True
    """
    layer_type = type(layer)
    return layer_type.__bases__[0] if layer_type in (Linear, Conv2d, ConvTranspose2d) else layer_type

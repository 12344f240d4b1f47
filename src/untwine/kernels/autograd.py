"""A chain of convolutions with ReLUs between them, as one differentiable operation of all members of a pack.

Forward and backward passes are the operations of `operators`. A kernel that computes a gradient masks it by the ReLU
before it, so that masks are read once. Tangents go through the same chain with the masks of the pass that they
belong to (and without biases).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from untwine.kernels import operators
from untwine.kernels.geometry import Geometry, sum_unrolled


@dataclass(frozen=True)
class Mask:
    """Where the output of a ReLU is not zero: the output itself, and the same as bits (empty if they are not known)."""

    values: Tensor
    bits: Tensor

    def for_kernel(self, cuda: bool) -> Tensor:
        """The bits if they are known and a CUDA kernel reads them, else the values."""
        return self.bits if cuda and self.bits.shape[-1] else self.values


@dataclass(frozen=True)
class Link:
    """A convolution (`up` if it is a transposed one), and whether a ReLU follows."""

    geometry: Geometry
    up: bool
    relu: bool

    def forward(
        self, x: Tensor, w: Tensor, bias: Tensor | None, mask: Mask | None, relu: bool
    ) -> tuple[Tensor, Tensor]:
        """The output, and the bits of where it is not zero."""
        return self._convolve(self.up, x, w, bias, mask, relu)

    def backward(self, g: Tensor, w: Tensor, mask: Mask | None, sums: bool) -> tuple[Tensor, Tensor]:
        """The gradient of the input, masked, and with `sums` its channel sums, in parts."""
        return self._convolve(not self.up, g, w, None, mask, False, sums)

    def _convolve(
        self, up: bool, x: Tensor, w: Tensor, bias: Tensor | None, mask: Mask | None, relu: bool, sums: bool = False
    ) -> tuple[Tensor, Tensor]:
        g = self.geometry
        cuda = operators.has_cuda_kernel(x, g, "conv_up" if up else "conv_down")
        laid_out = g.up_weight(w, x.dtype, cuda) if up else g.down_weight(w, x.dtype, cuda)
        operator = operators.conv_up if up else operators.conv_down
        return operator(x, laid_out, bias, None if mask is None else mask.for_kernel(cuda), g.to_list(), relu, sums)

    def forward_fold(
        self, x: Tensor, w: Tensor, bias: Tensor | None, mask: Mask | None, relu: bool,
        last: Geometry, last_w: Tensor, last_bias: Tensor | None, precise: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """The output of this link, its bits, and the output of the last link, to few channels."""
        g = self.geometry
        cuda = operators.has_cuda_fold(x, g, last)
        laid_out, head = g.up_weight(w, x.dtype, cuda), last.head_weight(last_w, x.dtype)
        kernel_mask, sizes = None if mask is None else mask.for_kernel(cuda), (g.to_list(), last.to_list())
        return operators.conv_up_fold(x, laid_out, bias, kernel_mask, head, last_bias, *sizes, relu, precise)

    def weight_gradient(self, x: Tensor, g: Tensor) -> Tensor:
        """The gradient of the weights, from the input and the gradient of the output."""
        small, big = (x, g) if self.up else (g, x)
        return operators.weight_gradient(small, big, self.geometry.to_list())


@dataclass(frozen=True)
class Plan:
    """The links of a chain, and whether it carries values (with biases and ReLUs) or tangents (with masks)."""

    links: tuple[Link, ...]
    tangents: bool = False

    @property
    def folds(self) -> bool:
        """Whether the last two links, to few channels, are one `conv_up_fold`."""
        if len(self.links) < 2:
            return False
        before, last = self.links[-2:]
        return last.up and before.up and last.geometry.taps_fit_tile and not last.relu

    def forward(
        self, x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor | None], masks: Sequence[Mask | None]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The output of every link, and the bits of every ReLU."""
        outputs, bits = [], []
        for number, link in enumerate(self.links):
            w, bias, mask, relu = weights[number], biases[number], masks[number], link.relu and not self.tangents
            if self.folds and number == len(self.links) - 2:
                last, precise = self.links[-1].geometry, not self.tangents
                before_last, before_last_bits, output = link.forward_fold(
                    x, w, bias, mask, relu, last, weights[-1], biases[-1], precise
                )
                return [*outputs, before_last, output], [*bits, before_last_bits]
            x, output_bits = link.forward(x, w, bias, mask, relu)
            outputs.append(x)
            bits.append(output_bits)
        return outputs, bits if self.links[-1].relu else bits[:-1]

    def backward(
        self, g: Tensor, inputs: Sequence[Tensor], weights: Sequence[Tensor], masks: Sequence[Mask | None],
        biased: Sequence[bool], needs_input: bool,
    ) -> tuple[Tensor | None, list[Tensor], list[Tensor | None]]:  # fmt: skip
        """The gradients of the input, the weights and the biases.

        Args:
            g: The gradient of the output, already masked by the last ReLU.
            inputs: The input of each link.
            weights: The weights of each link.
            masks: The mask of the ReLU behind each link.
            biased: Whether each link has a bias.
            needs_input: Whether the gradient of the input is needed; else it is None.
        """
        count = len(self.links)
        weight_gradients: list[Tensor] = []
        bias_gradients: list[Tensor | None] = [None] * count
        if biased[-1]:
            bias_gradients[-1] = g.sum((1, 2, 3), dtype=weights[-1].dtype)
        for number in reversed(range(count)):
            link, w = self.links[number], weights[number]
            g = g.contiguous()
            weight_gradients.append(link.weight_gradient(inputs[number], g).to(w.dtype))
            if number:
                g, sums = link.backward(g, w, masks[number - 1], biased[number - 1])
                if biased[number - 1]:
                    bias_gradients[number - 1] = sums.sum(1).to(w.dtype)
            elif needs_input:
                g = link.backward(g, w, None, False)[0]
        return g if needs_input else None, weight_gradients[::-1], bias_gradients


def _masks(plan: Plan, values: Sequence[Tensor], bits: Sequence[Tensor]) -> list[Mask | None]:
    """The mask of each link's ReLU, None for a link without one."""
    pairs = iter(zip(values, bits, strict=True))
    return [Mask(*next(pairs)) if link.relu else None for link in plan.links]


class Chain(torch.autograd.Function):
    """`(plan, x, *weights, *rest) -> (output, *outputs of the ReLUs, *their bits)`.

    For values `rest` are the biases, for tangents the masks: outputs of the ReLUs, then their bits. The first
    dimension of all tensors is members (at least one); `x` is `[members, images, height, width, channels]`.
    Members that vmap maps over join that dimension.
    """

    @staticmethod
    def forward(plan: Plan, x: Tensor, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        count = len(plan.links)
        weights, rest = tensors[:count], tensors[count:]
        half, none = len(rest) // 2, [None] * count
        if plan.tangents:
            masks = _masks(plan, rest[:half], rest[half:])  # type: ignore[arg-type]
            outputs, _ = plan.forward(x, weights, none, masks)  # type: ignore[arg-type]
            return tuple(reversed(outputs))  # the backward pass needs those of all links
        # The biases of a pack are columns of one matrix of parameters; kernels need them contiguous.
        biases = [bias if bias is None else bias.contiguous() for bias in rest]
        outputs, bits = plan.forward(x, weights, biases, none)  # type: ignore[arg-type]
        last = [outputs[-1].clone()] if plan.links[-1].relu else []
        return outputs[-1], *outputs[:-1], *last, *bits

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.plan = inputs[0]
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[1:], *output[1:])

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, *_: Any) -> Any:
        plan: Plan = ctx.plan
        count, relus = len(plan.links), sum(link.relu for link in plan.links)
        inputs = 1 + count + (2 * relus if plan.tangents else count)
        if g is None:
            return (None,) * (1 + inputs)
        x, weights, rest = ctx.saved_tensors[0], ctx.saved_tensors[1 : 1 + count], ctx.saved_tensors[1 + count : inputs]
        outputs = ctx.saved_tensors[inputs:]
        if plan.tangents:
            values, masks = [x, *reversed(outputs)], _masks(plan, rest[:relus], rest[relus:])
        else:
            values, masks = [x, *outputs[: count - 1]], _masks(plan, outputs[:relus], outputs[relus:])
        g = g.to(x.dtype)
        if masks[-1] is not None:
            relu = masks[-1].values
            g = g.unflatten(1, (-1, relu.shape[1])).where((relu > 0)[:, None], 0.0).flatten(1, 2)
        biased = [not plan.tangents and rest[number] is not None for number in range(count)]
        g, weight_gradients, sums = plan.backward(g, values, weights, masks, biased, ctx.needs_input_grad[1])
        return None, g, *weight_gradients, *([None] * len(rest) if plan.tangents else sums)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], plan: Plan, *tensors: Tensor | None) -> Any:
        outputs = Chain.apply(plan, *operators.merge_members(info.batch_size, tensors, in_dims[1:]))
        return tuple(output.unflatten(0, (info.batch_size, -1)) for output in outputs), (0,) * len(outputs)


class ChainNorm(torch.autograd.Function):
    """A chain of tangents, and the sum of u |t|^p over its output t; the gradient of the last two links comes with it.

    `(links, p, x, *weights, *masks, u) -> (sums [members], ...)`: the masks are the outputs of the ReLUs, then their
    bits; `u` has a weight for each image and pixel, the same for all columns. The gradient of the sum scales all other
    gradients. So those of the last links are computed in the forward pass and kept, and the scale is applied at the
    end, where the tensors are smallest.
    """

    @staticmethod
    def forward(links: tuple[Link, ...], p: int, x: Tensor, *tensors: Tensor) -> Any:
        first, (g, last) = Plan(links[:-2], True), (link.geometry for link in links[-2:])
        weights, masks, u = _split(links, tensors)
        outputs, _ = first.forward(x, weights, [None] * len(first.links), masks)
        x, (w, last_w), cuda = outputs[-1], weights[-2:], x.is_cuda
        mask, before = (masks[number].for_kernel(cuda) for number in (-1, -2))
        laid_out = (g.up_weight(w, x.dtype, True), last.head_weight(last_w, x.dtype)) if cuda else (w, last_w)
        t, slope, *slopes = operators.tangent_norm(x, *laid_out, mask, before, u, g.to_list(), last.to_list(), p)
        columns = t.squeeze(-1).unflatten(1, (-1, u.shape[1])).to(u.dtype)
        powers = sum_unrolled(columns.abs() if p == 1 else columns.square(), 1)
        weight_slopes = [gradient.to(w.dtype) for gradient in slopes]
        return (powers * u).sum((1, 2, 3)), powers, slope, *weight_slopes, *outputs

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.links = inputs[0]
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[2:], *output[1:])

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, *_: Any) -> Any:
        links, count = ctx.links, 3 * len(ctx.links)
        if g is None:
            return (None,) * (2 + count)
        x, *tensors = ctx.saved_tensors[:count]
        powers, slope, *rest = ctx.saved_tensors[count:]
        weights, masks = _split(links, tensors)[:2]
        first, last_slopes, outputs = Plan(links[:-2], True), rest[:2], rest[2:]
        biased = [False] * len(first.links)
        needs_input = ctx.needs_input_grad[2]
        x_slope, slopes = first.backward(slope, [x, *outputs], weights, masks, biased, needs_input)[:2]

        def scaled(slope: Tensor | None) -> Tensor | None:
            return None if slope is None else (slope * g.reshape(-1, *[1] * (slope.ndim - 1))).to(slope.dtype)

        no_masks = [None] * (2 * len(masks))
        return None, None, scaled(x_slope), *map(scaled, (*slopes, *last_slopes)), *no_masks, scaled(powers)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], links: Any, p: int, *tensors: Tensor) -> Any:
        outputs = ChainNorm.apply(links, p, *operators.merge_members(info.batch_size, tensors, in_dims[2:]))
        return tuple(output.unflatten(0, (info.batch_size, -1)) for output in outputs), (0,) * len(outputs)


def _split(links: Sequence[Link], tensors: Sequence[Tensor]) -> tuple[Sequence[Tensor], list[Mask], Tensor]:
    """The weights, the masks of all ReLUs, and the weights u of the output."""
    count = len(links)
    values, bits = tensors[count : 2 * count - 1], tensors[2 * count - 1 : -1]
    return tensors[:count], [Mask(*pair) for pair in zip(values, bits, strict=True)], tensors[-1]

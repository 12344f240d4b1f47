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
from untwine.kernels.epilogue import unpacked
from untwine.kernels.geometry import Geometry, sum_unrolled


@dataclass(frozen=True)
class Mask:
    """Where the input of a ReLU is positive: numbers that are positive there, and the same as bits.

    Either may be empty, if it is not known.
    """

    values: Tensor
    bits: Tensor

    def for_kernel(self, cuda: bool) -> Tensor:
        """The bits if they are known and a CUDA kernel reads them, else the values."""
        if self.bits.shape[-1] and (cuda or not self.values.shape[-1]):
            return self.bits if cuda else unpacked(self.bits, self.values.dtype)
        return self.values


@dataclass(frozen=True)
class Link:
    """A convolution (`up` if it is a transposed one), and whether a ReLU follows."""

    geometry: Geometry
    up: bool
    relu: bool

    def forward(
        self, x: Tensor, w: Tensor, bias: Tensor | None, mask: Mask | None, relu: bool, keep: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The output, the bits of where it is not zero, and with `keep` the input of the ReLU."""
        return self._convolve(self.up, x, w, mask, bias=bias, relu=relu, keep=keep)

    def step(self, x: Tensor, w: Tensor, inputs: Tensor) -> tuple[Tensor, Mask]:
        """The difference behind the ReLU with these inputs, and its mask after the step."""
        out, bits, values = self._convolve(self.up, x, w, inputs, difference=True)
        return out, Mask(values, bits)

    def backward(
        self, g: Tensor, w: Tensor, mask: Mask | None, sums: bool, added: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The gradient of the input, masked and with `added`, and with `sums` its channel sums, in parts."""
        return self._convolve(not self.up, g, w, mask, added=added, sums=sums)[:2]

    def backward_step(self, g: Tensor, w: Tensor, mask: Mask, other: Mask) -> tuple[Tensor, Tensor]:
        """The gradients of the step before a ReLU, and of the input of that ReLU.

        Args:
            g: The gradient of the output.
            w: The weights.
            mask: The ReLU's mask after the step.
            other: Its mask without the step.
        """
        out, _, crossed = self._convolve(not self.up, g, w, mask, other=other)
        return out, crossed

    def _convolve(
        self, up: bool, x: Tensor, w: Tensor, mask: Mask | Tensor | None, *, bias: Tensor | None = None,
        other: Mask | None = None, added: Tensor | None = None,
        relu: bool = False, difference: bool = False, keep: bool = False, sums: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        g = self.geometry
        cuda = operators.has_cuda_kernel(x, g, "conv_up" if up else "conv_down")
        laid_out = g.up_weight(w, x.dtype, cuda) if up else g.down_weight(w, x.dtype, cuda)
        operator = operators.conv_up if up else operators.conv_down
        masks = (one.for_kernel(cuda) if isinstance(one, Mask) else one for one in (mask, other))
        return operator(x, laid_out, bias, *masks, added, g.to_list(), relu, difference, keep, sums)

    def forward_fold(
        self, x: Tensor, w: Tensor, bias: Tensor | None, mask: Mask | Tensor | None, relu: bool, keep: bool,
        last: Geometry, last_w: Tensor, last_bias: Tensor | None, precise: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
        """The output of this link, its bits, the input of its ReLU, and the output of the last link, to few channels.

        A `mask` that is a tensor is the input of the ReLU, which the product moves (see `step`).
        """
        g, difference = self.geometry, isinstance(mask, Tensor)
        cuda = operators.has_cuda_fold(x, g, last)
        laid_out, head = g.up_weight(w, x.dtype, cuda), last.head_weight(last_w, x.dtype)
        given, sizes = mask.for_kernel(cuda) if isinstance(mask, Mask) else mask, (g.to_list(), last.to_list())
        return operators.conv_up_fold(
            x, laid_out, bias, given, head, last_bias, *sizes, relu, difference, keep, precise
        )

    def weight_gradient(self, x: Tensor, g: Tensor) -> Tensor:
        """The gradient of the weights, from the input and the gradient of the output."""
        small, big = (x, g) if self.up else (g, x)
        return operators.weight_gradient(small, big, self.geometry.to_list())


@dataclass(frozen=True)
class Plan:
    """The links of a chain, and what it carries.

    Args:
        links: The links.
        tangents: Whether it carries tangents (with masks) instead of values (with biases and ReLUs).
        finite: Whether a chain of values returns the inputs of its ReLUs too, which finite differences need.
    """

    links: tuple[Link, ...]
    tangents: bool = False
    finite: bool = False

    @property
    def relus(self) -> int:
        """The number of ReLUs."""
        return sum(link.relu for link in self.links)

    @property
    def folds(self) -> bool:
        """Whether the last two links, to few channels, are one `conv_up_fold`."""
        if len(self.links) < 2:
            return False
        before, last = self.links[-2:]
        return last.up and before.up and last.geometry.taps_fit_tile and not last.relu

    def forward(
        self, x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor | None], masks: Sequence[Mask | None]
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """The output of every link, the bits of every ReLU, and their inputs if the plan is `finite`."""
        outputs, bits, inputs = [], [], []
        for number, link in enumerate(self.links):
            w, bias, mask, relu = weights[number], biases[number], masks[number], link.relu and not self.tangents
            keep = relu and self.finite
            if self.folds and number == len(self.links) - 2:
                last, precise = self.links[-1].geometry, not self.tangents
                x, output_bits, relu_input, output = link.forward_fold(
                    x, w, bias, mask, relu, keep, last, weights[-1], biases[-1], precise
                )
                return [*outputs, x, output], [*bits, output_bits], [*inputs, relu_input]
            x, output_bits, relu_input = link.forward(x, w, bias, mask, relu, keep)
            outputs.append(x)
            if link.relu:
                bits.append(output_bits)
                inputs.append(relu_input)
        return outputs, bits, inputs

    def backward(
        self, g: Tensor, inputs: Sequence[Tensor], weights: Sequence[Tensor], masks: Sequence[Mask | None],
        biased: Sequence[bool], needs_input: bool, relu_gradients: Sequence[Tensor | None] = (),
    ) -> tuple[Tensor | None, list[Tensor], list[Tensor | None]]:  # fmt: skip
        """The gradients of the input, the weights and the biases.

        Args:
            g: The gradient of the output, already masked by the last ReLU.
            inputs: The input of each link.
            weights: The weights of each link.
            masks: The mask of the ReLU behind each link.
            biased: Whether each link has a bias.
            needs_input: Whether the gradient of the input is needed; else it is None.
            relu_gradients: For each link a gradient of the input of its ReLU, which is added, or None; empty for none.
        """
        count = len(self.links)
        relu_gradients = [None if one is None else one.to(g.dtype).contiguous() for one in relu_gradients]
        relu_gradients = relu_gradients or [None] * count
        weight_gradients: list[Tensor] = []
        bias_gradients: list[Tensor | None] = [None] * count
        last = relu_gradients[-1]
        g = g if last is None else g + last
        if biased[-1]:
            bias_gradients[-1] = g.sum((1, 2, 3), dtype=weights[-1].dtype)
        for number in reversed(range(count)):
            link, w = self.links[number], weights[number]
            g = g.contiguous()
            weight_gradients.append(link.weight_gradient(inputs[number], g).to(w.dtype))
            if number:
                g, sums = link.backward(g, w, masks[number - 1], biased[number - 1], relu_gradients[number - 1])
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
    """`(plan, x, *weights, *rest) -> (output, *outputs of the ReLUs, *their bits)`, and their inputs if `plan.finite`.

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
            outputs = plan.forward(x, weights, none, masks)[0]  # type: ignore[arg-type]
            return tuple(reversed(outputs))  # the backward pass needs those of all links
        # The biases of a pack are columns of one matrix of parameters; kernels need them contiguous.
        biases = [bias if bias is None else bias.contiguous() for bias in rest]
        outputs, bits, inputs = plan.forward(x, weights, biases, none)  # type: ignore[arg-type]
        last = [outputs[-1].clone()] if plan.links[-1].relu else []
        return outputs[-1], *outputs[:-1], *last, *bits, *(inputs if plan.finite else [])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        plan: Plan = inputs[0]
        masks = output[1 : len(output) - plan.relus] if plan.finite else output[1:]
        ctx.plan = plan
        ctx.output_shape = output[0].shape
        ctx.mark_non_differentiable(*masks)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[1:], *masks)

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, *other_gradients: Tensor | None) -> Any:
        plan: Plan = ctx.plan
        count, relus = len(plan.links), plan.relus
        inputs = 1 + count + (2 * relus if plan.tangents else count)
        last_gradients = iter(other_gradients[len(other_gradients) - relus :] if plan.finite else ())
        relu_gradients = [next(last_gradients, None) if link.relu else None for link in plan.links]
        if g is None and all(gradient is None for gradient in relu_gradients):
            return (None,) * (1 + inputs)
        x, weights, rest = ctx.saved_tensors[0], ctx.saved_tensors[1 : 1 + count], ctx.saved_tensors[1 + count : inputs]
        outputs = ctx.saved_tensors[inputs:]
        if plan.tangents:
            values, masks = [x, *reversed(outputs)], _masks(plan, rest[:relus], rest[relus:])
        else:
            values, masks = [x, *outputs[: count - 1]], _masks(plan, outputs[:relus], outputs[relus:])
        slope: Tensor = x.new_zeros(ctx.output_shape) if g is None else g.to(x.dtype)
        if masks[-1] is not None:
            relu = masks[-1].values
            slope = slope.unflatten(1, (-1, relu.shape[1])).where((relu > 0)[:, None], 0.0).flatten(1, 2)
        biased = [not plan.tangents and rest[number] is not None for number in range(count)]
        needs_input = ctx.needs_input_grad[1]
        x_slope, weight_gradients, sums = plan.backward(
            slope, values, weights, masks, biased, needs_input, relu_gradients
        )
        return None, x_slope, *weight_gradients, *([None] * len(rest) if plan.tangents else sums)

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
        outputs = first.forward(x, weights, [None] * len(first.links), masks)[0]
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

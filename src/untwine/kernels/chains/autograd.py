"""A chain of convolutions with ReLUs between them, as one differentiable operation of all members of a pack.

Its passes are those of `links`. Tangents go through the same chain with the masks of the pass that they belong to (and
without biases).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from untwine.kernels import norm_operators, operators
from untwine.kernels.chains.links import Link, Mask, Plan, known_values, masks_of, scaled
from untwine.kernels.geometry import sum_unrolled


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
            masks = masks_of(plan, rest[:half], rest[half:])  # type: ignore[arg-type]
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
        relu_inputs = output[len(output) - plan.relus :] if plan.finite else ()
        ctx.plan = plan
        ctx.output_shape = output[0].shape
        ctx.mark_non_differentiable(*masks)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[1:], *masks, *relu_inputs)

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
            values, masks = [x, *reversed(outputs)], masks_of(plan, rest[:relus], rest[relus:])
        else:
            outputs, bits, relu_inputs = (outputs[relus * n : relus * (n + 1)] for n in range(3))
            outputs = known_values(outputs, relu_inputs)
            values, masks = [x, *outputs[: count - 1]], masks_of(plan, outputs, bits)
        slope: Tensor = x.new_zeros(ctx.output_shape) if g is None else g.to(x.dtype)
        if masks[-1] is not None:
            relu = masks[-1].values
            slope = slope.unflatten(1, (-1, relu.shape[1])).where((relu > 0)[:, None], 0.0).flatten(1, 2)
        # Biases that are held need no gradient, and so no sums.
        biased = [not plan.tangents and ctx.needs_input_grad[2 + count + number] for number in range(count)]
        needs_input = ctx.needs_input_grad[1]
        x_slope, weight_gradients, sums = plan.backward(
            slope, values, weights, masks, biased, needs_input, relu_gradients
        )
        return None, x_slope, *weight_gradients, *([None] * len(rest) if plan.tangents else sums)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], plan: Plan, *tensors: Tensor | None) -> Any:
        return operators.over_members(Chain.apply, info, in_dims, (plan, *tensors))


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
        t, slope, *slopes = norm_operators.tangent_norm(x, *laid_out, mask, before, u, g.to_list(), last.to_list(), p)
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
        x_slope = None if x_slope is None else scaled(x_slope, g)
        by_weights = (scaled(one, g) for one in (*slopes, *last_slopes))
        return None, None, x_slope, *by_weights, *[None] * (2 * len(masks)), scaled(powers, g)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], links: Any, p: int, *tensors: Tensor) -> Any:
        return operators.over_members(ChainNorm.apply, info, in_dims, (links, p, *tensors))


def _split(links: Sequence[Link], tensors: Sequence[Tensor]) -> tuple[Sequence[Tensor], list[Mask], Tensor]:
    """The weights, the masks of all ReLUs, and the weights u of the output."""
    count = len(links)
    values, bits = tensors[count : 2 * count - 1], tensors[2 * count - 1 : -1]
    return tensors[:count], Mask.pairs(values, bits), tensors[-1]

"""Finite differences through a chain of convolutions with ReLUs between them, for all members of a pack.

A difference is the step of an input: W d behind a convolution, relu(a + d) - relu(a) behind a ReLU with input a. The
gradient of the latter by d has the mask of a + d. By a it has that mask, minus the mask of a: it is not zero only where
the step crosses the kink, and reaches the chain of values through the inputs of its ReLUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from untwine.kernels import norm_operators, operators
from untwine.kernels.chains.links import Link, Mask, Plan, scaled
from untwine.kernels.geometry import sum_unrolled


@dataclass(frozen=True)
class _Given:
    """The tensors of a chain by their roles: for each link the weights, for each ReLU what the pass of values kept."""

    weights: Sequence[Tensor]
    masks: Sequence[Mask]  # of the ReLUs, without the step
    inputs: Sequence[Tensor]  # of the ReLUs, without the step

    @classmethod
    def split(cls, links: Sequence[Link], tensors: Sequence[Tensor]) -> _Given:
        """From weights, outputs of the ReLUs, their bits, and their inputs."""
        count, relus = len(links), Plan(tuple(links)).relus
        values, bits, inputs = (tensors[count + relus * n : count + relus * (n + 1)] for n in range(3))
        return cls(tensors[:count], Mask.pairs(values, bits), inputs)


def _forward(links: Sequence[Link], x: Tensor, given: _Given) -> tuple[list[Tensor], list[Mask]]:
    """The differences behind every link, and the masks of its ReLUs after the step."""
    outputs, moved = [], []
    for number, link in enumerate(links):
        w = given.weights[number]
        if number == len(links) - 2 and Plan(tuple(links)).folds:
            last = links[-1].geometry, given.weights[-1], None, False
            x, bits, values, output = link.forward_fold(x, w, None, given.inputs[number], False, False, *last)
            return [*outputs, x, output], [*moved, Mask(values, bits)]
        if link.relu:
            x, mask = link.step(x, w, given.inputs[number])
            moved.append(mask)
        else:
            x = link.forward(x, w, None, None, False)[0]
        outputs.append(x)
    return outputs, moved


def _backward(
    links: Sequence[Link], g: Tensor, steps: Sequence[Tensor], moved: Sequence[Mask], given: _Given, needs_input: bool
) -> tuple[Tensor | None, list[Tensor], list[Tensor]]:
    """The gradients of the first step, of the weights, and for each column of the inputs of all ReLUs but a last one.

    Args:
        links: The links.
        g: The gradient of the output, already masked by the last ReLU.
        steps: The input of each link.
        moved: The masks of the ReLUs after the step.
        given: The tensors of the chain.
        needs_input: Whether the gradient of the first step is needed; else it is None.
    """
    slopes, crossed = [], []
    for number in reversed(range(len(links))):
        link, w = links[number], given.weights[number]
        g = g.contiguous()
        slopes.append(link.weight_gradient(steps[number], g).to(w.dtype))
        if number:
            g, crossing = link.backward_step(g, w, moved[number - 1], given.masks[number - 1])
            crossed.append(crossing)
        elif needs_input:
            g = link.backward(g, w, None, False)[0]
    return g if needs_input else None, slopes[::-1], crossed[::-1]


def _column_sum(crossed: Tensor, images: int, scale: Tensor | None = None) -> Tensor:
    """The gradient of the inputs of a ReLU: the sum over columns, times a number for each member."""
    if crossed.shape[1] == images:  # one column
        return crossed if scale is None else operators.scaled(crossed, scale.contiguous())
    columns = crossed.unflatten(1, (-1, images))
    total = sum_unrolled(columns.to(torch.promote_types(crossed.dtype, torch.float32)), 1)
    return (total if scale is None else scaled(total, scale)).to(crossed.dtype)


class DifferenceChain(torch.autograd.Function):
    """`(links, x, *weights, *outputs of the ReLUs, *their bits, *their inputs) -> (differences, ...)`.

    Shapes as for `autograd.Chain`; the images of x are those of the pass, once for each column.
    """

    @staticmethod
    def forward(links: tuple[Link, ...], x: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        outputs, moved = _forward(links, x, _Given.split(links, tensors))
        return *reversed(outputs), *(mask.values for mask in moved), *(mask.bits for mask in moved)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.links = inputs[0]
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[1:], *output[1:])

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, *_: Any) -> Any:
        links, count, relus = ctx.links, len(ctx.links), Plan(ctx.links).relus
        if g is None:
            return (None,) * (2 + count + 3 * relus)
        x, *tensors = ctx.saved_tensors[: 1 + count + 3 * relus]
        kept = ctx.saved_tensors[1 + count + 3 * relus :]
        given, steps = _Given.split(links, tensors), [x, *reversed(kept[: count - 1])]
        moved = Mask.pairs(kept[count - 1 : count - 1 + relus], kept[count - 1 + relus :])
        crossed_last = []
        if links[-1].relu:
            after, before = moved[-1].for_kernel(False) > 0, given.masks[-1].for_kernel(False) > 0
            g = g.to(x.dtype)
            columns = g.unflatten(1, (-1, before.shape[1]))
            g = g * after
            crossed_last = [g - (columns * before[:, None]).flatten(1, 2)]
        slope, slopes, crossed = _backward(links, g.to(x.dtype), steps, moved, given, ctx.needs_input_grad[1])
        images = [len(one[0]) for one in given.inputs]
        sums = [_column_sum(one, count) for one, count in zip([*crossed, *crossed_last], images, strict=True)]
        return None, slope, *slopes, *[None] * (2 * relus), *sums

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], links: Any, *tensors: Tensor) -> Any:
        return operators.over_members(DifferenceChain.apply, info, in_dims, (links, *tensors))


class DifferenceNorm(torch.autograd.Function):
    """A chain of differences d, and the sum of |sigmoid(a + d) - sigmoid(a)|^p, where `a` are the outputs of the pass.

    `(links, p, x, *weights, *outputs of the ReLUs, *their bits, *their inputs, a) -> (sums [members], ...)`. As in
    `autograd.ChainNorm` the gradients of the last two links come with the forward pass, and are scaled in the end.
    """

    @staticmethod
    def forward(links: tuple[Link, ...], p: int, x: Tensor, *tensors: Tensor) -> Any:
        given, logits, (g, last) = _Given.split(links, tensors), tensors[-1], (link.geometry for link in links[-2:])
        outputs, moved = _forward(links[:-2], x, given)
        step, cuda = outputs[-1], x.is_cuda
        w, last_w = given.weights[-2:]
        laid_out = (g.up_weight(w, x.dtype, True), last.head_weight(last_w, x.dtype)) if cuda else (w, last_w)
        masks = moved[-1].for_kernel(cuda), given.masks[-2].for_kernel(cuda)
        sizes = g.to_list(), last.to_list()
        sums, by_logits, slope, *slopes = norm_operators.difference_norm(
            step, *laid_out, given.inputs[-1], *masks, logits, *sizes, p
        )
        columns = by_logits.squeeze(-1).unflatten(1, (-1, logits.shape[1]))
        logit_slopes = sum_unrolled(columns.to(logits.dtype), 1)
        weight_slopes = [gradient.to(w.dtype) for gradient in slopes[:2]]
        kept = *outputs, *(mask.values for mask in moved), *(mask.bits for mask in moved)
        return sums.sum(1), logit_slopes, slope, *weight_slopes, *slopes[2:], *kept

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.links = inputs[0]
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[2:], *output[1:])

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, *_: Any) -> Any:
        links, count, relus = ctx.links, len(ctx.links), Plan(ctx.links).relus
        inputs = 1 + count + 3 * relus
        if g is None:
            return (None,) * (3 + inputs)
        x, *tensors = ctx.saved_tensors[:inputs]
        given, first = _Given.split(links, tensors), links[:-2]
        logit_slopes, slope, w_slope, last_slope, last_crossed, before_crossed, *kept = ctx.saved_tensors[inputs + 1 :]
        split = len(first)
        outputs, moved = kept[:split], Mask.pairs(kept[split:-split], kept[-split:])
        x_slope, slopes, crossed = _backward(first, slope, [x, *outputs], moved, given, ctx.needs_input_grad[2])
        x_slope = None if x_slope is None else scaled(x_slope, g)
        by_weights = (scaled(one, g) for one in (*slopes, w_slope, last_slope))
        images = given.inputs[0].shape[1]
        sums = [_column_sum(one, images, g) for one in (*crossed, before_crossed, last_crossed)]
        return None, None, x_slope, *by_weights, *[None] * (2 * relus), *sums, scaled(logit_slopes, g)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], links: Any, p: int, *tensors: Tensor) -> Any:
        return operators.over_members(DifferenceNorm.apply, info, in_dims, (links, p, *tensors))

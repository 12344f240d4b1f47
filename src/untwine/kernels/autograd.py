"""A chain of convolutions with ReLUs between them as one differentiable operation of a whole pack.

Forward and backward are the three products of `tiles.py`. A gradient is masked by the ReLU before it where
it is made, so that masks are read once, and tangents go through the same chain with the masks of the pass
that they belong to (and without biases).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from untwine.kernels import operators
from untwine.kernels.geometry import Geometry, added


@dataclass(frozen=True)
class Mask:
    """Where the output of a ReLU is not zero: the output itself, and the same as bits, if they are known."""

    values: Tensor
    bits: Tensor

    def for_cuda(self, cuda: bool) -> Tensor:
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
        """The output, and where it is not zero."""
        return self._across(self.up, x, w, bias, mask, relu)

    def backward(self, g: Tensor, w: Tensor, mask: Mask | None, sums: bool) -> tuple[Tensor, Tensor]:
        """The gradient of the input, masked, and its channels' sums, in parts, if they are wanted."""
        return self._across(not self.up, g, w, None, mask, False, sums)

    def _across(
        self, up: bool, x: Tensor, w: Tensor, bias: Tensor | None, mask: Mask | None, relu: bool, sums: bool = False
    ) -> tuple[Tensor, Tensor]:
        g = self.geometry
        cuda = operators.serves(x, g, "up" if up else "down")
        laid = g.up_weight(w, x.dtype, cuda) if up else g.down_weight(w, x.dtype, cuda)
        run = operators.up if up else operators.down
        return run(x, laid, bias, None if mask is None else mask.for_cuda(cuda), g.tuple(), relu, sums)

    def folded(
        self, x: Tensor, w: Tensor, bias: Tensor | None, mask: Mask | None, relu: bool,
        last: Geometry, last_w: Tensor, last_bias: Tensor | None, precise: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        """This link and the last one, to few channels."""
        g = self.geometry
        cuda = operators.folds(x, g, last)
        laid, head = g.up_weight(w, x.dtype, cuda), last.head_weight(last_w, x.dtype)
        known = None if mask is None else mask.for_cuda(cuda)
        return operators.up_fold(x, laid, bias, known, head, last_bias, g.tuple(), last.tuple(), relu, precise)

    def weight(self, x: Tensor, g: Tensor) -> Tensor:
        """The gradient of the weights."""
        small, big = (x, g) if self.up else (g, x)
        return operators.weight(small, big, self.geometry.tuple())


@dataclass(frozen=True)
class Plan:
    """The links of a chain, and whether it carries values (with biases and ReLUs) or tangents (with masks)."""

    links: tuple[Link, ...]
    tangents: bool = False

    @property
    def folds(self) -> bool:
        """Whether the last link, to a few channels, is done as products and then their sums."""
        if len(self.links) < 2:
            return False
        before, last = self.links[-2:]
        return last.up and before.up and last.geometry.whole and not last.relu

    def run(
        self, x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor | None], masks: Sequence[Mask | None]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The output of every link, and where it is not zero."""
        outputs, bits = [], []
        for number, link in enumerate(self.links):
            w, bias, mask, relu = weights[number], biases[number], masks[number], link.relu and not self.tangents
            if self.folds and number == len(self.links) - 2:
                last = self.links[-1].geometry
                made = link.folded(x, w, bias, mask, relu, last, weights[-1], biases[-1], not self.tangents)
                return [*outputs, made[0], made[2]], [*bits, made[1]]
            x, known = link.forward(x, w, bias, mask, relu)
            outputs.append(x)
            bits.append(known)
        return outputs, bits if self.links[-1].relu else bits[:-1]

    def pulled(
        self, g: Tensor, values: Sequence[Tensor], weights: Sequence[Tensor], masks: Sequence[Mask | None],
        biased: Sequence[bool], wanted: bool,
    ) -> tuple[Tensor | None, list[Tensor], list[Tensor | None]]:  # fmt: skip
        """Gradients of the input (if it is wanted), the weights and the biases, from that of the output, masked."""
        count = len(self.links)
        slopes: list[Tensor] = []
        others: list[Tensor | None] = [None] * count
        if biased[-1]:
            others[-1] = g.sum((1, 2, 3), dtype=weights[-1].dtype)
        for number in reversed(range(count)):
            link, w = self.links[number], weights[number]
            g = g.contiguous()
            slopes.append(link.weight(values[number], g).to(w.dtype))
            if number:
                g, sums = link.backward(g, w, masks[number - 1], biased[number - 1])
                if biased[number - 1]:
                    others[number - 1] = sums.sum(1).to(w.dtype)
            elif wanted:
                g = link.backward(g, w, None, False)[0]
        return g if wanted else None, slopes[::-1], others


def _masks(plan: Plan, values: Sequence[Tensor], bits: Sequence[Tensor]) -> list[Mask | None]:
    """For every link the mask of its ReLU."""
    rest = iter(zip(values, bits, strict=True))
    return [Mask(*next(rest)) if link.relu else None for link in plan.links]


class Chain(torch.autograd.Function):
    """`(plan, x, *weights, *rest) -> (output, *the outputs of the ReLUs, *their bits)`.

    For values the rest are biases, for tangents the masks: outputs of the ReLUs, and their bits. All tensors
    have members as their first dimension (one is enough), `x` is `[members, images, height, width, channels]`;
    under vmap the members of the map join them.
    """

    @staticmethod
    def forward(plan: Plan, x: Tensor, *tensors: Tensor | None) -> tuple[Tensor, ...]:
        count = len(plan.links)
        weights, rest = tensors[:count], tensors[count:]
        half, none = len(rest) // 2, [None] * count
        if plan.tangents:
            outputs, _ = plan.run(x, weights, none, _masks(plan, rest[:half], rest[half:]))  # type: ignore[arg-type]
            return tuple(reversed(outputs))  # what the links before the last gave is for the backward pass
        # The biases of a pack are columns of one matrix of parameters; kernels take them one after the other.
        biases = [bias if bias is None else bias.contiguous() for bias in rest]
        outputs, bits = plan.run(x, weights, biases, none)  # type: ignore[arg-type]
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
        given = 1 + count + (2 * relus if plan.tangents else count)
        if g is None:
            return (None,) * (1 + given)
        x, weights, rest = ctx.saved_tensors[0], ctx.saved_tensors[1 : 1 + count], ctx.saved_tensors[1 + count : given]
        made = ctx.saved_tensors[given:]
        if plan.tangents:
            values, masks = [x, *reversed(made)], _masks(plan, rest[:relus], rest[relus:])
        else:
            values, masks = [x, *made[: count - 1]], _masks(plan, made[:relus], made[relus:])
        g = g.to(x.dtype)
        if masks[-1] is not None:
            there = masks[-1].values
            g = g.unflatten(1, (-1, there.shape[1])).where((there > 0)[:, None], 0.0).flatten(1, 2)
        biased = [not plan.tangents and rest[number] is not None for number in range(count)]
        g, slopes, sums = plan.pulled(g, values, weights, masks, biased, ctx.needs_input_grad[1])
        return None, g, *slopes, *([None] * len(rest) if plan.tangents else sums)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], plan: Plan, *tensors: Tensor | None) -> Any:
        found = Chain.apply(plan, *operators.joined(info.batch_size, tensors, in_dims[1:]))
        return tuple(one.unflatten(0, (info.batch_size, -1)) for one in found), (0,) * len(found)


class Norm(torch.autograd.Function):
    """A chain of tangents and the sum of u |t|^p over its output t, the last two links with their gradient at once.

    `(links, p, x, *weights, *masks, u) -> (sums [members], ...)`: the masks of the ReLUs as values, then as bits;
    `u` has a weight for each image and pixel, the same for all columns. A gradient of the sum scales all others,
    so those of the last links are computed with the output, and kept; it enters where the tensors are smallest.
    """

    @staticmethod
    def forward(links: tuple[Link, ...], p: int, x: Tensor, *tensors: Tensor) -> Any:
        first, (g, last) = Plan(links[:-2], True), (link.geometry for link in links[-2:])
        weights, masks, u = _parted(links, tensors)
        outputs, _ = first.run(x, weights, [None] * len(first.links), masks)
        x, (w, last_w), cuda = outputs[-1], weights[-2:], x.is_cuda
        mask, before = (masks[at].for_cuda(cuda) for at in (-1, -2))
        laid = (g.up_weight(w, x.dtype, True), last.head_weight(last_w, x.dtype)) if cuda else (w, last_w)
        t, back, *slopes = operators.tail(x, *laid, mask, before, u, g.tuple(), last.tuple(), p)
        columns = t.squeeze(-1).unflatten(1, (-1, u.shape[1])).to(u.dtype)
        powers = added(columns.abs() if p == 1 else columns.square(), 1)
        slopes = [slope.to(w.dtype) for slope in slopes]
        return (powers * u).sum((1, 2, 3)), powers, back, *slopes, *outputs

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
        powers, back, *slopes = ctx.saved_tensors[count:]
        weights, masks = _parted(links, tensors)[:2]
        first, slopes, outputs = Plan(links[:-2], True), slopes[:2], slopes[2:]
        none = [False] * len(first.links)
        pulled, more = first.pulled(back, [x, *outputs], weights, masks, none, ctx.needs_input_grad[2])[:2]

        def scaled(one: Tensor | None) -> Tensor | None:
            return None if one is None else (one * g.reshape(-1, *[1] * (one.ndim - 1))).to(one.dtype)

        none = [None] * (2 * len(masks))
        return None, None, scaled(pulled), *map(scaled, (*more, *slopes)), *none, scaled(powers)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], links: Any, p: int, *tensors: Tensor) -> Any:
        found = Norm.apply(links, p, *operators.joined(info.batch_size, tensors, in_dims[2:]))
        return tuple(one.unflatten(0, (info.batch_size, -1)) for one in found), (0,) * len(found)


def _parted(links: Sequence[Link], tensors: Sequence[Tensor]) -> tuple[Sequence[Tensor], list[Mask], Tensor]:
    """Weights, the masks of all ReLUs, and what weighs the output."""
    count = len(links)
    values, bits = tensors[count : 2 * count - 1], tensors[2 * count - 1 : -1]
    return tensors[:count], [Mask(*pair) for pair in zip(values, bits, strict=True)], tensors[-1]

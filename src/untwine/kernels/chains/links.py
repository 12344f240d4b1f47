"""A chain of convolutions with ReLUs between them: what it consists of, and its passes forward and backward.

A kernel that computes a gradient masks it by the ReLU before it, so that masks are read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from untwine.kernels import operators
from untwine.kernels.epilogue import unpacked
from untwine.kernels.geometry import Geometry


@dataclass(frozen=True)
class Mask:
    """Where the input of a ReLU is positive: numbers that are positive there, and the same as bits.

    Either may be empty, if it is not known.
    """

    values: Tensor
    bits: Tensor

    @classmethod
    def pairs(cls, values: Sequence[Tensor], bits: Sequence[Tensor]) -> list[Mask]:
        """A mask for each ReLU."""
        return [cls(*pair) for pair in zip(values, bits, strict=True)]

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
        return operator(x, laid_out, bias, *masks, added, None, g.to_list(), relu, difference, keep, sums)

    def forward_fold(
        self, x: Tensor, w: Tensor, bias: Tensor | None, mask: Mask | Tensor | None, relu: bool, keep: bool,
        last: Geometry, last_w: Tensor, last_bias: Tensor | None, precise: bool,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
        """The output of this link, its bits, the input of its ReLU, and the output of the last link, to few channels.

        With `keep` there is no output of this link: it is the input of its ReLU without what is negative.
        A `mask` that is a tensor is the input of the ReLU, which the product moves (see `step`).
        """
        g, difference = self.geometry, isinstance(mask, Tensor)
        cuda = operators.has_cuda_fold(x, g, last)
        laid_out, head = g.up_weight(w, x.dtype, cuda), last.head_weight(last_w, x.dtype)
        given, sizes = mask.for_kernel(cuda) if isinstance(mask, Mask) else mask, (g.to_list(), last.to_list())
        return operators.conv_up_fold(
            x, laid_out, bias, given, head, last_bias, *sizes, relu, difference, keep, precise
        )

    def weight_gradient(self, x: Tensor, g: Tensor, relu: bool = False) -> Tensor:
        """The gradient of the weights, from the gradient of the output and the input, or with `relu` that of a ReLU."""
        assert self.up or not relu
        small, big = (x, g) if self.up else (g, x)
        return operators.weight_gradient(small, big, self.geometry.to_list(), relu)


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
        """The output of every link, the bits of every ReLU, and their inputs if the plan is `finite`.

        Where both `folds` and `finite` hold, the output of the last ReLU is empty, since it follows from its input.
        """
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
            inputs: The input of each link; that of the last ReLU for a last link that `folds`, if the plan is `finite`.
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
            relu = self.finite and self.folds and number == count - 1
            weight_gradients.append(link.weight_gradient(inputs[number], g, relu).to(w.dtype))
            if number:
                g, sums = link.backward(g, w, masks[number - 1], biased[number - 1], relu_gradients[number - 1])
                if biased[number - 1]:
                    bias_gradients[number - 1] = sums.sum(1).to(w.dtype)
            elif needs_input:
                g = link.backward(g, w, None, False)[0]
        return g if needs_input else None, weight_gradients[::-1], bias_gradients


def known_values(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """The outputs of ReLUs; in the place of one that is empty, its input, which is positive where the output is.

    Args:
        outputs: The outputs of some ReLUs.
        inputs: Their inputs; empty if no output is.
    """
    if not inputs:
        return list(outputs)
    return [out if out.shape[-1] else given.detach() for out, given in zip(outputs, inputs, strict=True)]


def masks_of(plan: Plan, values: Sequence[Tensor], bits: Sequence[Tensor]) -> list[Mask | None]:
    """The mask of each link's ReLU, None for a link without one."""
    masks = iter(Mask.pairs(values, bits))
    return [next(masks) if link.relu else None for link in plan.links]


def scaled(slope: Tensor, scale: Tensor) -> Tensor:
    """A gradient times a number for each member."""
    return (slope * scale.reshape(-1, *[1] * (slope.ndim - 1))).to(slope.dtype)

"""What follows the product of a convolution, before its result is written."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Behind:
    """What follows a product, in the same kernel.

    Args:
        bias: A number for each channel, `[members, channels]`.
        relu: Whether a ReLU follows.
        mask: The output is zero where this is not positive (a ReLU's output, or bits); for the images in turn.
        difference: Whether `mask` is the input of a ReLU instead, and the product a step d of it: then the output is
            the step behind it, relu(mask + d) - relu(mask).
        other: A second mask. Besides the output there is what only the first mask lets through, minus what only the
            second does: the gradient of a ReLU's input a, where relu(a + d) - relu(a) has the masks of a + d and of a.
        added: What is added to the output at the end, of its shape.
        factor: A number for each member that `added` is multiplied by, `[members]` in float32; None for 1.
        keep: Whether the input of the ReLU is written, too.
        sums: Whether the channels of the output are summed.
    """

    bias: Tensor | None = None
    relu: bool = False
    mask: Tensor | None = None
    difference: bool = False
    other: Tensor | None = None
    added: Tensor | None = None
    factor: Tensor | None = None
    keep: bool = False
    sums: bool = False

    @property
    def has_extra(self) -> bool:
        """Whether there is a second result: what crossed, a ReLU's input, or where it is positive after a step."""
        return self.keep or self.difference or self.other is not None


def empty_bits(out: Tensor, has_bits: bool) -> Tensor:
    """Memory for a bit for each number of an output; empty without bits."""
    return out.new_empty((*out.shape[:-1], out.shape[-1] // 8 if has_bits else 0), dtype=torch.uint8)


def unpacked(bits: Tensor, dtype: torch.dtype) -> Tensor:
    """Bits as zeros and ones.

    >>> unpacked(torch.tensor([[5]], dtype=torch.uint8), torch.float32)
    tensor([[1., 0., 1., 0., 0., 0., 0., 0.]])
    """
    places = torch.arange(8, dtype=torch.uint8, device=bits.device)
    return ((bits[..., None] >> places) & 1).flatten(-2).to(dtype)

"""The last two layers of a decoder, a norm of their output, and its gradient, as torch operators (see `operators`)."""

# Without postponed annotations: an operator's schema is made from them.
import torch
from torch import Tensor

from untwine.kernels import torch_reference
from untwine.kernels.geometry import Geometry
from untwine.kernels.operators import cuda_kernels, empty_weights, has_cuda_kernel, triton_or_torch
from untwine.kernels.tiling import LAST


def has_tangent_norm(x: Tensor, g: Geometry, last: Geometry, mask_bits: bool) -> bool:
    """Whether `tangent_norm` does the last two layers, of input x; `mask_bits` says that masks are known as bits."""
    if not x.is_cuda:
        return last.cb == 1
    return mask_bits and last == LAST and has_cuda_kernel(x, g, "tangent_norm")


@torch.library.custom_op("untwine::tangent_norm", mutates_args=())
def tangent_norm(
    small: Tensor,
    weight: Tensor,
    head: Tensor,
    mask: Tensor,
    before: Tensor,
    u: Tensor,
    geometry: list[int],
    last: list[int],
    p: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The output t of the last two layers, and the gradients of the sum of u |t|^p: of the input and both weights.

    Args:
        small: Tangents `[members, images, height, width, channels]`.
        weight: Weights of the first layer: on a GPU as `Geometry.up_weight` lays them out, else as torch has them.
        head: Weights of the last layer: on a GPU as `Geometry.head_weight` lays them out, else as torch has them.
        mask, before: The masks of the ReLU between the two layers, and of the one before them.
        u: A weight for each image and pixel of the output; for the images in turn.
        geometry, last: The sizes of both layers.
        p: 1 or 2.
    """
    g, after = Geometry(*geometry), Geometry(*last)
    with torch.cuda.device_of(small):
        if small.is_cuda:
            t, slope, parts, head_parts = cuda_kernels().tangent_norm(small, weight, head, mask, before, u, g, p)
        else:
            t, slope, parts, head_parts = torch_reference.tangent_norm(
                small, weight, head, mask, before, u, g, after, p
            )
        kernels = triton_or_torch(small)
        return t, slope, kernels.sum_parts(parts, g), kernels.sum_parts(head_parts, after)


@tangent_norm.register_fake
def _(small, weight, head, mask, before, u, geometry, last, p):
    g, after = Geometry(*geometry), Geometry(*last)
    members, images = small.shape[:2]
    return (
        small.new_empty(members, images, after.hb, after.wb, after.cb),
        small.new_empty(small.shape),
        empty_weights(members, small, g),
        empty_weights(members, small, after),
    )


@torch.library.custom_op("untwine::difference_norm", mutates_args=())
def difference_norm(
    small: Tensor,
    weight: Tensor,
    head: Tensor,
    inputs: Tensor,
    before: Tensor,
    other: Tensor,
    logits: Tensor,
    geometry: list[int],
    last: list[int],
    p: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The sum of |sigmoid(logits + d) - sigmoid(logits)|^p over the differences d behind two layers, and its gradients.

    The sum is in parts, `[members, parts]`. The gradients are those of the logits (for each column), of the input, of
    both weights, and of the inputs of the ReLUs behind and before the first layer (for each column).

    Args:
        small: Differences `[members, images, height, width, channels]`.
        weight, head: Weights of both layers, as for `tangent_norm`.
        inputs: The inputs of the ReLU between the two layers, without the step; for the images in turn.
        before: The mask of the ReLU before them with the step, for each image.
        other: The same without the step, for the images in turn.
        logits: The output of the layers without the step, `[members, images, height, width]`; for the images in turn.
        geometry, last: The sizes of both layers.
        p: 1 or 2.
    """
    g, after = Geometry(*geometry), Geometry(*last)
    with torch.cuda.device_of(small):
        given = (small, weight, head, inputs, before, other, logits, g)
        if small.is_cuda:
            *slopes, parts, head_parts, last_crossed, crossed = cuda_kernels().difference_norm(*given, p)
        else:
            *slopes, parts, head_parts, last_crossed, crossed = torch_reference.difference_norm(*given, after, p)
        kernels = triton_or_torch(small)
        by_weights = kernels.sum_parts(parts, g), kernels.sum_parts(head_parts, after)
        return slopes[0], slopes[1], slopes[2], *by_weights, last_crossed, crossed


@difference_norm.register_fake
def _(small, weight, head, inputs, before, other, logits, geometry, last, p):
    g, after = Geometry(*geometry), Geometry(*last)
    members, images = small.shape[:2]
    parts = images
    if small.is_cuda:
        parts = cuda_kernels().sum_parts_count(g, "tangent_norm", members, images, small.device.index or 0)
    return (
        logits.new_empty(members, parts),
        small.new_empty(members, images, after.hb, after.wb, after.cb),
        small.new_empty(small.shape),
        empty_weights(members, small, g),
        empty_weights(members, small, after),
        small.new_empty(members, images, g.hb, g.wb, g.cb),
        small.new_empty(small.shape),
    )


OPERATORS = (tangent_norm, difference_norm)

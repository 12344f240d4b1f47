"""The kernels as torch operators: opaque to a tracer, with output shapes known without running them.

On a GPU bfloat16 goes to the CUDA kernels where they support a layer (`has_cuda_kernel`), everything else to
Triton's; other devices use `torch_reference`. The CUDA kernels also say where the output of a ReLU is not zero,
as bits.
"""

# Without postponed annotations: an operator's schema is made from them.
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from untwine.kernels import torch_reference
from untwine.kernels.epilogue import Behind, empty_bits
from untwine.kernels.geometry import Geometry
from untwine.kernels.tiling import LAST


def has_cuda_kernel(x: Tensor, g: Geometry, operation: str) -> bool:
    """Whether the CUDA kernels do an operation.

    Args:
        x: The input of the operation.
        g: The sizes of the layer.
        operation: `conv_down`, `conv_up`, `conv_up_fold`, `weight_gradient` or `tangent_norm`.
    """
    if not x.is_cuda or x.dtype != torch.bfloat16 or torch.cuda.get_device_capability(x.device) < (8, 0):
        return False
    return _cuda().tiling_for(g, operation, x.device.index or 0) is not None


def has_cuda_fold(x: Tensor, g: Geometry, last: Geometry) -> bool:
    """Whether the CUDA kernels do a `conv_up` of x together with the last one, to one channel of doubled sides."""
    doubled = Geometry(2 * g.hb, 2 * g.wb, 1, g.hb, g.wb, g.cb, kernel=4, stride=2, padding=1)
    return last == doubled and has_cuda_kernel(x, g, "conv_up_fold")


def has_tangent_norm(x: Tensor, g: Geometry, last: Geometry, mask_bits: bool) -> bool:
    """Whether `tangent_norm` does the last two layers, of input x; `mask_bits` says that masks are known as bits."""
    if not x.is_cuda:
        return last.cb == 1
    return mask_bits and last == LAST and has_cuda_kernel(x, g, "tangent_norm")


def _cuda():  # a module, which is imported where there is a GPU
    from untwine.kernels import cuda_launch

    return cuda_launch


def _triton_or_torch(x: Tensor):  # one of two modules
    if not x.is_cuda:
        return torch_reference
    from untwine.kernels import triton_launch

    return triton_launch


def _sum_dtype(x: Tensor) -> torch.dtype:
    """The dtype of sums over many numbers of x: float32, or float64 for float64."""
    return torch.promote_types(x.dtype, torch.float32)


def _summary(out: Tensor, sums: bool) -> Tensor:
    """The summary of an output that the CUDA kernels did not make: its channel sums, or nothing."""
    return out.sum((2, 3), dtype=_sum_dtype(out)) if sums else empty_bits(out, False)


def _fake(x: Tensor, out: Tensor, g: Geometry, operation: str, behind: Behind) -> tuple[Tensor, Tensor, Tensor]:
    """An output, its summary and the second result, without their content."""
    cuda = has_cuda_kernel(x, g, operation)
    out, summary, extra = _fake_outputs(out, behind, cuda)
    if behind.sums:
        images, device = x.shape[1], x.device.index or 0
        parts = _cuda().sum_parts_count(g, operation, x.shape[0], images, device) if cuda else images
        summary = out.new_empty(out.shape[0], parts, out.shape[-1], dtype=_sum_dtype(out))
    return out, summary, extra


def _fake_outputs(out: Tensor, behind: Behind, cuda: bool) -> tuple[Tensor, Tensor, Tensor]:
    """An output, its bits and the second result, without their content."""
    bits = empty_bits(out, (behind.relu or behind.difference) and cuda)
    has_extra = behind.has_extra and not (behind.difference and cuda)
    return out, bits, torch.empty_like(out) if has_extra else out.new_empty(len(out), 0)


@torch.library.custom_op("untwine::conv_down", mutates_args=())
def conv_down(
    big: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    other: Tensor | None,
    added: Tensor | None,
    geometry: list[int],
    relu: bool,
    difference: bool,
    keep: bool,
    sums: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The small image from the big one, its summary, and a second result: a convolution, or a gradient.

    The summary is the output's channel sums, in parts, with `sums`; else it has a bit for each number that is not zero
    where the CUDA kernels made it and a ReLU follows, or for each input of a ReLU that is positive after a step. The
    second result is what crossed between two masks, the input of the ReLU, or, without bits, where it is positive.

    Args:
        big: Images `[members, images, height, width, channels]`.
        weight: Weights as `Geometry.down_weight` lays them out.
        bias, mask, other, added, relu, difference, keep, sums: What follows the product (see `Behind`).
        geometry: The sizes of the layer.
    """
    g, behind = Geometry(*geometry), Behind(bias, relu, mask, difference, other, added, keep, sums)
    with torch.cuda.device_of(big):
        if has_cuda_kernel(big, g, "conv_down"):
            return _cuda().conv_down(big, weight, behind, g)
        out, extra = _triton_or_torch(big).conv_down(big, weight, behind, g)
        return out, _summary(out, sums), extra


@conv_down.register_fake
def _(big, weight, bias, mask, other, added, geometry, relu, difference, keep, sums):
    g, behind = Geometry(*geometry), Behind(bias, relu, mask, difference, other, added, keep, sums)
    return _fake(big, big.new_empty(*big.shape[:2], g.hs, g.ws, g.cs), g, "conv_down", behind)


@torch.library.custom_op("untwine::conv_up", mutates_args=())
def conv_up(
    small: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    other: Tensor | None,
    added: Tensor | None,
    geometry: list[int],
    relu: bool,
    difference: bool,
    keep: bool,
    sums: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The big image from the small one, its summary, and a second result: a transposed convolution, or a gradient.

    Arguments and results as for `conv_down`, with weights as `Geometry.up_weight` lays them out.
    """
    g, behind = Geometry(*geometry), Behind(bias, relu, mask, difference, other, added, keep, sums)
    with torch.cuda.device_of(small):
        if has_cuda_kernel(small, g, "conv_up"):
            return _cuda().conv_up(small, weight, behind, g)[:3]
        out, extra, _ = _triton_or_torch(small).conv_up(small, weight, behind, g)
        return out, _summary(out, sums), extra


@conv_up.register_fake
def _(small, weight, bias, mask, other, added, geometry, relu, difference, keep, sums):
    g, behind = Geometry(*geometry), Behind(bias, relu, mask, difference, other, added, keep, sums)
    return _fake(small, small.new_empty(*small.shape[:2], g.hb, g.wb, g.cb), g, "conv_up", behind)


@torch.library.custom_op("untwine::conv_up_fold", mutates_args=())
def conv_up_fold(
    small: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    head: Tensor,
    head_bias: Tensor | None,
    geometry: list[int],
    last: list[int],
    relu: bool,
    difference: bool,
    keep: bool,
    precise: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A `conv_up` and the next one, to few channels: the three results of the first, and the output of the second.

    Args:
        small, weight, bias, mask: As for `conv_up`.
        head: The weights of the next layer, as `Geometry.head_weight` lays them out.
        head_bias: Its bias.
        geometry, last: The sizes of both layers.
        relu, difference, keep: What follows the first layer, as for `conv_up`.
        precise: Whether the output of the second layer is in float32.
    """
    g, after, behind = Geometry(*geometry), Geometry(*last), Behind(bias, relu, mask, difference, keep=keep)
    with torch.cuda.device_of(small):
        if has_cuda_fold(small, g, after):
            out, bits, extra, folded = _cuda().conv_up(small, weight, behind, g, head, head_bias, precise)
            assert folded is not None
            return out, bits, extra, folded
        kernels = _triton_or_torch(small)
        out, extra, taps = kernels.conv_up(small, weight, behind, g, head)
        return out, empty_bits(out, False), extra, kernels.fold(taps, head_bias, after, precise)


@conv_up_fold.register_fake
def _(small, weight, bias, mask, head, head_bias, geometry, last, relu, difference, keep, precise):
    g, after, behind = Geometry(*geometry), Geometry(*last), Behind(bias, relu, mask, difference, keep=keep)
    out = small.new_empty(*small.shape[:2], g.hb, g.wb, g.cb)
    dtype = _sum_dtype(small) if precise else small.dtype
    folded = small.new_empty(*small.shape[:2], after.hb, after.wb, after.cb, dtype=dtype)
    return *_fake_outputs(out, behind, has_cuda_fold(small, g, after)), folded


def _empty_weights(members: int, x: Tensor, g: Geometry) -> Tensor:
    """Memory for the gradient of the weights."""
    return x.new_empty(members, g.cs, g.cb, g.kernel, g.kernel, dtype=_sum_dtype(x))


@torch.library.custom_op("untwine::weight_gradient", mutates_args=())
def weight_gradient(small: Tensor, big: Tensor, geometry: list[int]) -> Tensor:
    """The gradient of the weights: `[members, cs, cb, k, k]`.

    Args:
        small: The small images of a transposed convolution, or the gradient of a convolution's output.
        big: The other of the two.
        geometry: The sizes of the layer.
    """
    g = Geometry(*geometry)
    with torch.cuda.device_of(small):
        kernels = _triton_or_torch(small)
        source = _cuda() if has_cuda_kernel(small, g, "weight_gradient") else kernels
        return kernels.sum_parts(source.weight_gradient(small, big, g), g)


@weight_gradient.register_fake
def _(small, big, geometry):
    return _empty_weights(small.shape[0], small, Geometry(*geometry))


def merge_members(count: int, arguments: Sequence[Any], dims: Sequence[Any]) -> list[Any]:
    """Arguments whose tensors have the members of a vmap and their own members as one first dimension.

    Args:
        count: The number of members that vmap maps over.
        arguments: The arguments of an operator; those that are no tensors stay as they are.
        dims: The dimension of each argument that vmap maps over, or None.
    """
    merged = []
    for argument, dim in zip(arguments, dims, strict=True):
        if isinstance(argument, Tensor):
            mapped = argument.expand(count, *argument.shape) if dim is None else argument.movedim(dim, 0)
            argument = mapped.flatten(0, 1)
        merged.append(argument)
    return merged


def _register_vmap(operator: Any) -> None:
    """Let vmap treat the members that it maps over as members of the operator."""

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        merged = merge_members(info.batch_size, arguments, in_dims)
        outputs = operator(*(value.contiguous() if isinstance(value, Tensor) else value for value in merged))
        if isinstance(outputs, Tensor):
            return outputs.unflatten(0, (info.batch_size, -1)), 0
        return tuple(output.unflatten(0, (info.batch_size, -1)) for output in outputs), (0,) * len(outputs)

    operator.register_vmap(rule)


for _operator in (conv_down, conv_up, conv_up_fold, weight_gradient):
    _register_vmap(_operator)


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
            t, slope, parts, head_parts = _cuda().tangent_norm(small, weight, head, mask, before, u, g, p)
        else:
            t, slope, parts, head_parts = torch_reference.tangent_norm(
                small, weight, head, mask, before, u, g, after, p
            )
        kernels = _triton_or_torch(small)
        return t, slope, kernels.sum_parts(parts, g), kernels.sum_parts(head_parts, after)


@tangent_norm.register_fake
def _(small, weight, head, mask, before, u, geometry, last, p):
    g, after = Geometry(*geometry), Geometry(*last)
    members, images = small.shape[:2]
    return (
        small.new_empty(members, images, after.hb, after.wb, after.cb),
        small.new_empty(small.shape),
        _empty_weights(members, small, g),
        _empty_weights(members, small, after),
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
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The difference d behind two layers, and gradients of the sum of |sigmoid(logits + d) - sigmoid(logits)|^p.

    They are those of the input, of both weights, and of the inputs of the ReLUs behind and before the first layer (for
    each column).

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
            d, slope, parts, head_parts, *crossed = _cuda().difference_norm(*given, p)
        else:
            d, slope, parts, head_parts, *crossed = torch_reference.difference_norm(*given, after, p)
        kernels = _triton_or_torch(small)
        return d, slope, kernels.sum_parts(parts, g), kernels.sum_parts(head_parts, after), crossed[0], crossed[1]


@difference_norm.register_fake
def _(small, weight, head, inputs, before, other, logits, geometry, last, p):
    g, after = Geometry(*geometry), Geometry(*last)
    members, images = small.shape[:2]
    return (
        small.new_empty(members, images, after.hb, after.wb, after.cb),
        small.new_empty(small.shape),
        _empty_weights(members, small, g),
        _empty_weights(members, small, after),
        small.new_empty(members, images, g.hb, g.wb, g.cb),
        small.new_empty(small.shape),
    )


OPERATORS = (conv_down, conv_up, conv_up_fold, weight_gradient, tangent_norm, difference_norm)

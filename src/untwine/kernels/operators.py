"""The kernels as torch operators: opaque to a tracer, with output shapes known without running them.

On a GPU bfloat16 goes to the CUDA kernels where they support a layer (`has_cuda_kernel`), everything else to
Triton's; other devices use `torch_reference`. The CUDA kernels also say where the output of a ReLU is not zero,
as bits.
"""

# Without postponed annotations: an operator's schema is made from them.
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from untwine.kernels import torch_reference
from untwine.kernels.epilogue import Behind, empty_bits
from untwine.kernels.geometry import Geometry


def has_cuda_kernel(x: Tensor, g: Geometry, operation: str) -> bool:
    """Whether the CUDA kernels do an operation.

    Args:
        x: The input of the operation.
        g: The sizes of the layer.
        operation: `conv_down`, `conv_up`, `conv_up_fold`, `weight_gradient` or `tangent_norm`.
    """
    if not x.is_cuda or x.dtype != torch.bfloat16 or torch.cuda.get_device_capability(x.device) < (8, 0):
        return False
    return cuda_kernels().tiling_for(g, operation, x.device.index or 0) is not None


def has_cuda_fold(x: Tensor, g: Geometry, last: Geometry) -> bool:
    """Whether the CUDA kernels do a `conv_up` of x together with the last one, to one channel of doubled sides."""
    doubled = Geometry(2 * g.hb, 2 * g.wb, 1, g.hb, g.wb, g.cb, kernel=4, stride=2, padding=1)
    return last == doubled and has_cuda_kernel(x, g, "conv_up_fold")


def cuda_kernels():  # a module, which is imported where there is a GPU
    from untwine.kernels import cuda_launch

    return cuda_launch


def triton_or_torch(x: Tensor):  # one of two modules
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
        parts = cuda_kernels().sum_parts_count(g, operation, x.shape[0], images, device) if cuda else images
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
    factor: Tensor | None,
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
        bias, mask, other, added, factor, relu, difference, keep, sums: What follows the product (see `Behind`).
        geometry: The sizes of the layer.
    """
    g, behind = Geometry(*geometry), Behind(bias, relu, mask, difference, other, added, factor, keep, sums)
    with torch.cuda.device_of(big):
        if has_cuda_kernel(big, g, "conv_down"):
            return cuda_kernels().conv_down(big, weight, behind, g)
        out, extra = triton_or_torch(big).conv_down(big, weight, behind, g)
        return out, _summary(out, sums), extra


@conv_down.register_fake
def _(big, weight, bias, mask, other, added, factor, geometry, relu, difference, keep, sums):
    g, behind = Geometry(*geometry), Behind(bias, relu, mask, difference, other, added, factor, keep, sums)
    return _fake(big, big.new_empty(*big.shape[:2], g.hs, g.ws, g.cs), g, "conv_down", behind)


@torch.library.custom_op("untwine::conv_up", mutates_args=())
def conv_up(
    small: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    other: Tensor | None,
    added: Tensor | None,
    factor: Tensor | None,
    geometry: list[int],
    relu: bool,
    difference: bool,
    keep: bool,
    sums: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The big image from the small one, its summary, and a second result: a transposed convolution, or a gradient.

    Arguments and results as for `conv_down`, with weights as `Geometry.up_weight` lays them out.
    """
    g, behind = Geometry(*geometry), Behind(bias, relu, mask, difference, other, added, factor, keep, sums)
    with torch.cuda.device_of(small):
        if has_cuda_kernel(small, g, "conv_up"):
            return cuda_kernels().conv_up(small, weight, behind, g)[:3]
        out, extra, _ = triton_or_torch(small).conv_up(small, weight, behind, g)
        return out, _summary(out, sums), extra


@conv_up.register_fake
def _(small, weight, bias, mask, other, added, factor, geometry, relu, difference, keep, sums):
    g, behind = Geometry(*geometry), Behind(bias, relu, mask, difference, other, added, factor, keep, sums)
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

    With `keep` the first of them is empty: the input of the ReLU, the third, says the same.

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
            out, bits, extra, folded = cuda_kernels().conv_up(small, weight, behind, g, head, head_bias, precise)
            assert folded is not None
            return out, bits, extra, folded
        kernels = triton_or_torch(small)
        out, extra, taps = kernels.conv_up(small, weight, behind, g, head)
        bits, folded = empty_bits(out, False), kernels.fold(taps, head_bias, after, precise)
        return out.new_empty(len(out), 0) if keep else out, bits, extra, folded


@conv_up_fold.register_fake
def _(small, weight, bias, mask, head, head_bias, geometry, last, relu, difference, keep, precise):
    g, after, behind = Geometry(*geometry), Geometry(*last), Behind(bias, relu, mask, difference, keep=keep)
    out = small.new_empty(*small.shape[:2], g.hb, g.wb, g.cb)
    dtype = _sum_dtype(small) if precise else small.dtype
    folded = small.new_empty(*small.shape[:2], after.hb, after.wb, after.cb, dtype=dtype)
    bits, extra = _fake_outputs(out, behind, has_cuda_fold(small, g, after))[1:]
    return out.new_empty(len(out), 0) if keep else out, bits, extra, folded


def empty_weights(members: int, x: Tensor, g: Geometry) -> Tensor:
    """Memory for the gradient of the weights."""
    return x.new_empty(members, g.cs, g.cb, g.kernel, g.kernel, dtype=_sum_dtype(x))


@torch.library.custom_op("untwine::weight_gradient", mutates_args=())
def weight_gradient(small: Tensor, big: Tensor, geometry: list[int], relu: bool) -> Tensor:
    """The gradient of the weights: `[members, cs, cb, k, k]`.

    Args:
        small: The small images of a transposed convolution, or the gradient of a convolution's output.
        big: The other of the two.
        geometry: The sizes of the layer.
        relu: Whether the small images pass a ReLU first.
    """
    g = Geometry(*geometry)
    with torch.cuda.device_of(small):
        kernels = triton_or_torch(small)
        if has_cuda_kernel(small, g, "weight_gradient"):
            parts = cuda_kernels().weight_gradient(small, big, g, relu)
        else:
            parts = kernels.weight_gradient(small.relu() if relu else small, big, g)
        return kernels.sum_parts(parts, g)


@weight_gradient.register_fake
def _(small, big, geometry, relu):
    return empty_weights(small.shape[0], small, Geometry(*geometry))


@torch.library.custom_op("untwine::scaled", mutates_args=())
def scaled(x: Tensor, factor: Tensor) -> Tensor:
    """`x` times a number for each member: an operator, so that `fusion` can leave it to the kernel that adds it.

    Args:
        x: Numbers, `[members, ...]`.
        factor: The number of each member.
    """
    return (x * factor.reshape(-1, *[1] * (x.ndim - 1))).to(x.dtype)


@scaled.register_fake
def _(x, factor):
    return torch.empty_like(x)


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


def over_members(function: Callable[..., Any], info: Any, dims: Sequence[Any], arguments: Sequence[Any]) -> Any:
    """What a vmap rule returns for a function whose first dimension is members: those that vmap maps over join them.

    Args:
        function: A function of the arguments, which returns a tensor or several.
        info: What torch tells a vmap rule.
        dims: The dimension of each argument that vmap maps over, or None.
        arguments: The arguments.
    """
    outputs = function(*merge_members(info.batch_size, arguments, dims))
    if isinstance(outputs, Tensor):
        return outputs.unflatten(0, (info.batch_size, -1)), 0
    return tuple(output.unflatten(0, (info.batch_size, -1)) for output in outputs), (0,) * len(outputs)


def _register_vmap(operator: Any) -> None:
    """Let vmap treat the members that it maps over as members of the operator."""

    def contiguous(*arguments: Any) -> Any:
        return operator(*(value.contiguous() if isinstance(value, Tensor) else value for value in arguments))

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> Any:
        return over_members(contiguous, info, in_dims, arguments)

    operator.register_vmap(rule)


OPERATORS = (conv_down, conv_up, conv_up_fold, weight_gradient, scaled)
for _operator in OPERATORS:
    _register_vmap(_operator)

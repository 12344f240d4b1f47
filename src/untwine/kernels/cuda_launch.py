"""Launches of the CUDA kernels."""

from __future__ import annotations

import functools
import warnings

import torch
from torch import Tensor

from untwine.errors import UntwineError
from untwine.kernels import tiling
from untwine.kernels.cuda_compiler import LongLong, kernel, libraries
from untwine.kernels.epilogue import Behind, empty_bits
from untwine.kernels.geometry import Geometry, contiguous_members, mask_strides
from untwine.kernels.tiling import Tiling


def tiling_for(g: Geometry, operation: str, device: int) -> Tiling | None:
    """The tiling of an operation on a device; None where the CUDA kernels do not support it.

    Args:
        g: The sizes of the layer.
        operation: `conv_down`, `conv_up`, `conv_up_fold`, `weight_gradient` or `tangent_norm`.
        device: The number of the GPU.
    """
    return tiling.tiling_for(g, operation, _limits(device)[1]) if _has_compiler() else None


@functools.cache
def _has_compiler() -> bool:
    """Whether NVRTC was found; without it Triton's kernels do everything."""
    try:
        libraries()
    except UntwineError as error:
        warnings.warn(f"{error}; its kernels are left to Triton, which is slower", stacklevel=2)
        return False
    return True


@functools.cache
def _limits(device: int) -> tuple[int, int]:
    """Multiprocessors of a device, and bytes of shared memory that a block can have."""
    properties = torch.cuda.get_device_properties(device)
    default = tiling.MAX_SHARED if properties.major == 9 else 101_376  # for versions of torch that do not tell
    return properties.multi_processor_count, getattr(properties, "shared_memory_per_block_optin", default)


def _supported(g: Geometry, operation: str, device: int) -> Tiling:
    """The tiling of an operation that is known to be supported."""
    tiles = tiling_for(g, operation, device)
    assert tiles is not None
    return tiles


def _blocks(tiles: Tiling, members: int, images: int, device: int) -> int:
    return tiles.blocks(members, images, _limits(device)[0])


def sum_parts_count(g: Geometry, operation: str, members: int, images: int, device: int) -> int:
    """The number of parts in which a kernel gives its sums: the channel sums of its output, or a norm.

    Args:
        g: The sizes of the layer.
        operation: `conv_down`, `conv_up` or `tangent_norm`.
        members: Members of the pack.
        images: Images of each member.
        device: The number of the GPU.
    """
    tiles = _supported(g, operation, device)
    return _blocks(tiles, members, images, device) * tiles.threads // 32


def conv_down(big: Tensor, weight: Tensor, behind: Behind, g: Geometry) -> tuple[Tensor, Tensor, Tensor]:
    """The small image, its summary and what else was asked for; arguments as for `operators.conv_down`."""
    device = big.device.index or 0
    tiles = _supported(g, "conv_down", device)
    big = contiguous_members(big)
    members, images = big.shape[:2]
    blocks = _blocks(tiles, members, images, device)
    out = big.new_empty(members, images, g.hs, g.ws, g.cs)
    summary, extra = _empty_outputs(out, behind, blocks * tiles.threads // 32)
    kernel(tiles.kernel, _macros(g, tiles, **_flags(behind)), tiles.shared, device)(
        (blocks, members), tiles.threads, big, weight,
        behind.bias, behind.mask, behind.other, behind.added, behind.factor,
        out, summary, extra, LongLong(big.stride(0)), images,
        *_mask_arguments(behind.mask), *_mask_arguments(behind.other),
    )  # fmt: skip
    return out, summary, extra


def conv_up(
    small: Tensor, weight: Tensor, behind: Behind, g: Geometry,
    head: Tensor | None = None, head_bias: Tensor | None = None, precise: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:  # fmt: skip
    """The big image, its summary, what else was asked for, and with a `head` the output of the next layer.

    Results and arguments as for `operators.conv_up_fold`.
    """
    device = small.device.index or 0
    tiles = _supported(g, "conv_up" if head is None else "conv_up_fold", device)
    small = contiguous_members(small)
    members, images = small.shape[:2]
    blocks = _blocks(tiles, members, images, device)
    out, folded = small.new_empty(members, images, g.hb, g.wb, g.cb), None
    if head is not None:
        dtype = torch.float32 if precise else small.dtype
        folded = torch.empty(members, images, 2 * g.hb, 2 * g.wb, 1, dtype=dtype, device=small.device)
    summary, extra = _empty_outputs(out, behind, blocks * tiles.threads // 32)
    if behind.keep and head is not None:  # the input of the ReLU takes the place of its output
        out = small.new_empty(members, 0)
    macros = _macros(g, tiles, **_flags(behind), HEAD=head is not None, OUT32=precise)
    kernel(tiles.kernel, macros, tiles.shared, device)(
        (blocks, members), tiles.threads, small, weight,
        behind.bias, behind.mask, behind.other, behind.added, behind.factor,
        head, head_bias, out, summary, extra, folded, LongLong(small.stride(0)), images,
        *_mask_arguments(behind.mask), *_mask_arguments(behind.other),
    )  # fmt: skip
    return out, summary, extra, folded


def weight_gradient(small: Tensor, big: Tensor, g: Geometry, relu: bool = False) -> Tensor:
    """The gradient of the weights in parts, one for each block: `[parts, members, 16 * cb, cs]`.

    Args:
        small: Small images, or their gradient.
        big: Big images, or their gradient.
        g: The sizes of the layer.
        relu: Whether the small images pass a ReLU first.
    """
    small, relu = (small.relu(), False) if relu and g.cb > 1 else (small, relu)
    device = small.device.index or 0
    small, big = contiguous_members(small), contiguous_members(big)
    members, images = small.shape[:2]
    tiles = _supported(g, "weight_gradient", device).balanced(members, images, _limits(device)[0])
    blocks = _blocks(tiles, members, images, device)
    out = torch.empty(blocks, members, 16 * g.cb, g.cs, dtype=torch.float32, device=small.device)
    kernel(tiles.kernel, _macros(g, tiles, RELU=relu), tiles.shared, device)(
        (blocks, members), tiles.threads, small, big, out, LongLong(small.stride(0)), LongLong(big.stride(0)), images,
    )  # fmt: skip
    return out


def tangent_norm(
    small: Tensor, weight: Tensor, head: Tensor, mask: Tensor, before: Tensor, u: Tensor, g: Geometry, p: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The output t of two layers, and the gradients of the sum of u |t|^p: of the input, and of both weights in parts.

    Arguments as for `norm_operators.tangent_norm`.
    """
    return _norm(small, weight, head, mask, before, None, u, g, p)[1:5]


def difference_norm(
    small: Tensor, weight: Tensor, head: Tensor, inputs: Tensor, before: Tensor, other: Tensor, logits: Tensor,
    g: Geometry, p: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The sum of |sigmoid(logits + d) - sigmoid(logits)|^p over the differences d behind two layers, and its gradients.

    The sum is in parts, and so are the gradients of both weights; all results and arguments are as for
    `norm_operators.difference_norm`.
    """
    return _norm(small, weight, head, inputs, before, other, logits, g, p)


def _norm(
    small: Tensor, weight: Tensor, head: Tensor, mask: Tensor, before: Tensor, other: Tensor | None, u: Tensor,
    g: Geometry, p: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The norm of tangents, or with an `other` mask of differences: its parts are empty for tangents."""
    device, finite = small.device.index or 0, other is not None
    tiles = _supported(g, "tangent_norm", device)
    small, u = contiguous_members(small), contiguous_members(u)
    members, images = small.shape[:2]
    blocks = _blocks(tiles, members, images, device)
    t, slope = small.new_empty(members, images, 64, 64, 1), torch.empty_like(small)
    parts = torch.empty(blocks, members, 512, 32, dtype=torch.float32, device=small.device)
    head_parts = torch.empty(blocks * tiles.threads // 32, members, 16, 32, dtype=torch.float32, device=small.device)
    sums = torch.empty(members, blocks * tiles.threads // 32 if finite else 0, device=small.device)
    middle_crossed = small.new_empty(members, images if finite else 0, 32, 32, 32)
    small_crossed = torch.empty_like(small) if finite else small.new_empty(members, 0)
    kernel(tiles.kernel, _macros(g, tiles, MASK=3 if finite else 1, POWER=p), tiles.shared, device)(
        (blocks, members), tiles.threads, small, weight, head, mask, before, other, u,
        t, slope, middle_crossed, small_crossed, parts, head_parts, sums,
        LongLong(small.stride(0)), images, *_mask_arguments(mask), *_mask_arguments(before),
        *_mask_arguments(other)[1:], LongLong(u.stride(0)), LongLong(u.stride(1)),
    )  # fmt: skip
    return sums, t, slope, parts, head_parts, middle_crossed, small_crossed


def _macros(g: Geometry, tiles: Tiling, **more: int) -> tuple[tuple[str, int], ...]:
    sizes = {"HB": g.hb, "WB": g.wb, "CB": g.cb, "HS": g.hs, "WS": g.ws, "CS": g.cs, "PAD": g.padding}
    tile = {"IM": tiles.images, "TI": tiles.rows, "THREADS": tiles.threads, "STAGES": tiles.stages}
    flags = dict.fromkeys(("RELU", "BIAS", "MASK", "OTHER", "ADDED", "FACTOR", "KEEP", "SUMS", "HEAD", "OUT32"), 0)
    values = {key: int(value) for key, value in more.items()}
    return tuple({**sizes, **tile, "SHARED": tiles.shared, **flags, **values}.items())


def _mask_arguments(mask: Tensor | None) -> tuple[int, LongLong, LongLong]:
    """The number of images of a mask, and how many channels apart members and images are."""
    channels = 8 if _mask_kind(mask) == 1 else 1  # of an element
    images, member_stride, image_stride = mask_strides(mask)
    return images, LongLong(member_stride * channels), LongLong(image_stride * channels)


def _mask_kind(mask: Tensor | None) -> int:
    """The macros MASK and OTHER of the kernels: 0 for no mask, 1 for bits, 2 for the output of a ReLU."""
    return 0 if mask is None else 1 if mask.dtype == torch.uint8 else 2


def _flags(behind: Behind) -> dict[str, int]:
    """The macros that say what follows a product."""
    return {
        "RELU": behind.relu,
        "BIAS": behind.bias is not None,
        "MASK": 3 if behind.difference else _mask_kind(behind.mask),
        "OTHER": _mask_kind(behind.other),
        "ADDED": behind.added is not None,
        "FACTOR": behind.factor is not None,
        "KEEP": behind.keep,
        "SUMS": behind.sums,
    }


def _empty_outputs(out: Tensor, behind: Behind, parts: int) -> tuple[Tensor, Tensor]:
    """Memory for the summary of an output (see `operators.conv_down`), and for what else is asked for."""
    if behind.sums:
        summary = torch.empty(out.shape[0], parts, out.shape[-1], dtype=torch.float32, device=out.device)
    else:
        summary = empty_bits(out, behind.relu or behind.difference)
    return summary, torch.empty_like(out) if behind.keep or behind.other is not None else out.new_empty(len(out), 0)

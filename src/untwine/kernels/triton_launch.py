"""Launches of the Triton kernels: the sizes of their tiles, and the strides of their arguments."""

from __future__ import annotations

import math

import torch
import triton  # type: ignore[import-not-found]
from torch import Tensor

from untwine.kernels import triton_kernels
from untwine.kernels.epilogue import Behind
from untwine.kernels.geometry import Geometry, contiguous_members, mask_strides, tile_width

# By bytes of a number, measured on an H200: rows of a tile, warps, stages, columns of a tile (and phases of a program).
DOWN = {2: (64, 4, 3, 128), 4: (64, 4, 2, 64)}
UP = {2: (64, 4, 1, 128, 4), 4: (64, 4, 1, 64, 4)}
WEIGHT_GRADIENT = {2: (64, 4, 3, 4096), 4: (32, 4, 2, 4096)}
PROGRAMS = 528  # that keep a GPU busy: sums over positions are split into about so many
PRECISION = "tf32x3"  # float32 products as three products of the tensor cores, nearly as exact as float32


def _stages(stages: int, x: Tensor) -> int:
    """The pipeline stages of a launch: one where reads are short, since Triton 3.6 then misplaces some of them."""
    return stages if x.shape[-1] * x.element_size() >= 16 else 1


def _contiguous_images(mask: Tensor | None) -> Tensor | None:
    """The mask itself if each image is contiguous, else a copy."""
    return mask if mask is None or mask[0, 0].is_contiguous() else mask.contiguous()


def _pointers(behind: Behind, x: Tensor) -> tuple[Tensor, ...]:
    """What follows a product as a kernel takes it: bias, masks, what is added and its factor, or any tensor instead."""
    given = (
        behind.bias,
        _contiguous_images(behind.mask),
        _contiguous_images(behind.other),
        behind.added,
        behind.factor,
    )
    return tuple(x if tensor is None else tensor for tensor in given)


def _flags(behind: Behind) -> tuple[bool, ...]:
    """What follows a product, as a kernel is compiled for it."""
    there = (tensor is not None for tensor in (behind.bias, behind.mask, behind.other, behind.added, behind.factor))
    return behind.relu, *there, behind.difference, behind.has_extra


def _empty_extra(out: Tensor, behind: Behind) -> Tensor:
    return torch.empty_like(out) if behind.has_extra else out.new_empty(len(out), 0)


def conv_down(big: Tensor, weight: Tensor, behind: Behind, g: Geometry) -> tuple[Tensor, Tensor]:
    """The small image from the big one, and what else was asked for; arguments as for `operators.conv_down`."""
    big = contiguous_members(big)
    members, images = big.shape[:2]
    out = big.new_empty(members, images, g.hs, g.ws, g.cs)
    extra, pointers = _empty_extra(out, behind), _pointers(behind, big)
    rows, warps, stages, columns = DOWN[big.element_size()]
    grid = (triton.cdiv(images * g.hs * g.ws, rows), members)
    triton_kernels.conv_down[grid](  # type: ignore[index]
        big, weight, *pointers, out, extra, big.stride(0), images,
        *mask_strides(None if behind.mask is None else pointers[1]),
        *mask_strides(None if behind.other is None else pointers[2]),
        g.hb, g.wb, g.cb, g.hs, g.ws, g.cs, g.kernel, g.stride, g.padding, *_flags(behind), PRECISION,
        rows, tile_width(g.cs), min(columns, tile_width(g.kernel**2 * g.cb)),
        num_warps=warps, num_stages=_stages(stages, big),
    )  # fmt: skip
    return out, extra


def conv_up(
    small: Tensor, weight: Tensor, behind: Behind, g: Geometry, head: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The big image from the small one, what else was asked for, and products for `fold`.

    These are the products of the big image with the next layer's weights, the `head`; nothing without one.
    """
    small = contiguous_members(small)
    members, images = small.shape[:2]
    out = small.new_empty(members, images, g.hb, g.wb, g.cb)
    extra, pointers = _empty_extra(out, behind), _pointers(behind, small)
    # With more channels Triton 3.6 gets the second product of a program wrong in bfloat16.
    fused_head = head if head is not None and (g.cb <= 32 or small.element_size() == 4) else None
    taps = small.new_empty((0,) if fused_head is None else (members, images, g.hb, g.wb, fused_head.shape[-1]))
    rows, warps, stages, columns, phases = UP[small.element_size()]
    tiles = triton.cdiv(images * -(-g.hb // g.stride) * -(-g.wb // g.stride), rows)
    phases = math.gcd(phases if tiles * members >= PROGRAMS else 1, g.stride**2)  # so that all programs have as many
    grid = (tiles * (g.stride**2 // phases), members)
    triton_kernels.conv_up[grid](  # type: ignore[index]
        small, weight, *pointers, small if fused_head is None else fused_head, out, extra, taps,
        small.stride(0), images,
        *mask_strides(None if behind.mask is None else pointers[1]),
        *mask_strides(None if behind.other is None else pointers[2]),
        g.hb, g.wb, g.cb, g.hs, g.ws, g.cs, g.taps, g.stride, g.padding, *_flags(behind),
        0 if fused_head is None else fused_head.shape[-1], PRECISION,
        rows, tile_width(g.cb), min(columns, tile_width(g.taps**2 * g.cs)), phases,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    if head is not None and fused_head is None:
        taps = (out.flatten(1, 3) @ head).unflatten(1, out.shape[1:4])
    return out, extra, taps


def _tile_rows(g: Geometry, tile_numbers: int) -> int:
    """The rows of the weight gradient that one program sums."""
    return min(tile_numbers // tile_width(g.cs), tile_width(g.kernel**2 * g.cb))


def _tiles(g: Geometry, tile_numbers: int) -> int:
    """The number of programs that share the rows of the weight gradient."""
    return triton.cdiv(g.kernel**2 * g.cb, _tile_rows(g, tile_numbers))


def weight_gradient(small: Tensor, big: Tensor, g: Geometry) -> Tensor:
    """The gradient of the weights in parts: `[parts, members, k * k * cb, cs]`."""
    small, big = contiguous_members(small), contiguous_members(big)
    members, images = small.shape[:2]
    rows, warps, stages, tile_numbers = WEIGHT_GRADIENT[small.element_size()]
    positions = images * g.hs * g.ws
    max_parts = max(1, min(PROGRAMS // (_tiles(g, tile_numbers) * members), positions // (4 * rows)))
    chunk = triton.cdiv(triton.cdiv(positions, max_parts), rows) * rows
    count = triton.cdiv(positions, chunk)
    out = torch.empty(count, members, g.kernel * g.kernel * g.cb, g.cs, dtype=torch.float32, device=small.device)
    triton_kernels.weight_gradient[(count * _tiles(g, tile_numbers), members)](  # type: ignore[index]
        small, big, out, small.stride(0), big.stride(0), images, chunk,
        g.hb, g.wb, g.cb, g.hs, g.ws, g.cs, g.kernel, g.stride, g.padding, PRECISION,
        rows, tile_width(g.cs), _tile_rows(g, tile_numbers),
        num_warps=warps, num_stages=_stages(stages, big),
    )  # fmt: skip
    return out


def sum_parts(parts: Tensor, g: Geometry) -> Tensor:
    """The sum of the parts that `weight_gradient` gives, in the layout of the weights: `[members, cs, cb, k, k]`."""
    count, members = parts.shape[:2]
    out = torch.empty(members, g.cs, g.cb, g.kernel, g.kernel, dtype=parts.dtype, device=parts.device)
    block, all_taps = min(32, tile_width(g.cs)), g.kernel**2
    # With few channels a program sums many parts of one tap, so that there are enough programs.
    parts_at_once, taps = (4, tile_width(all_taps)) if g.cb > 8 else (64, 1)
    grid = (g.cb * triton.cdiv(all_taps, taps) * triton.cdiv(g.cs, block), members)
    triton_kernels.sum_parts[grid](parts, out, count, g.cb, g.cs, all_taps, parts_at_once, taps, block)  # type: ignore[index]
    return out


def fold(taps: Tensor, bias: Tensor | None, g: Geometry, precise: bool) -> Tensor:
    """The output of a layer from the products of its input with all taps, which `conv_up` gives.

    Args:
        taps: The products, `[members, images, height, width, taps]`.
        bias: The bias of the layer.
        g: The sizes of the layer.
        precise: Whether the output is in float32.
    """
    members, images = taps.shape[:2]
    dtype = torch.float32 if precise else taps.dtype
    out = torch.empty(members, images, g.hb, g.wb, g.cb, dtype=dtype, device=taps.device)
    block = 1024
    triton_kernels.fold[(members * images, triton.cdiv(g.hb * g.wb * g.cb, block))](  # type: ignore[index]
        taps, taps if bias is None else bias, out, images,
        g.hb, g.wb, g.cb, g.hs, g.ws, taps.shape[-1], g.kernel, g.taps, g.stride, g.padding, bias is not None,
        block,
    )  # fmt: skip
    return out

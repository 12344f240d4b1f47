"""Launches of the Triton kernels: sizes of tiles, and where everything lies in memory."""

from __future__ import annotations

import math

import torch
import triton  # type: ignore[import-not-found]
from torch import Tensor

from untwine.kernels import triton_kernels as tiles
from untwine.kernels.geometry import Geometry, apart, whole, wide

# Rows of a tile, warps, stages, widest run (and phases), by kernel and bytes of a number: measured on an H200.
DOWN = {2: (64, 4, 3, 128), 4: (64, 4, 2, 64)}
UP = {2: (64, 4, 1, 128, 4), 4: (64, 4, 1, 64, 4)}
WEIGHT = {2: (64, 4, 3, 4096), 4: (32, 4, 2, 4096)}
PROGRAMS = 528  # that keep a GPU busy: what a sum over positions is split into, about
EXACT = "tf32x3"  # products of float32 numbers: three of the tensor cores' own, nearly as exact as float32


def _stages(stages: int, x: Tensor) -> int:
    """Reads of few bytes are not pipelined: Triton (3.6) then puts some where they do not belong."""
    return stages if x.shape[-1] * x.element_size() >= 16 else 1


def _rows(mask: Tensor | None) -> Tensor | None:
    """Contiguous for each image."""
    return mask if mask is None or mask[0, 0].is_contiguous() else mask.contiguous()


def down(big: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None, g: Geometry, relu: bool) -> Tensor:
    big, mask = whole(big), _rows(mask)
    members, images = big.shape[:2]
    out = big.new_empty(members, images, g.hs, g.ws, g.cs)
    rows, warps, stages, most = DOWN[big.element_size()]
    grid = (triton.cdiv(images * g.hs * g.ws, rows), members)
    tiles.down[grid](  # type: ignore[index]
        big, weight, weight if bias is None else bias, big if mask is None else mask, out,
        big.stride(0), images, *apart(mask),
        g.hb, g.wb, g.cb, g.hs, g.ws, g.cs, g.kernel, g.stride, g.padding,
        relu, bias is not None, mask is not None, EXACT,
        rows, wide(g.cs), min(most, wide(g.kernel**2 * g.cb)),
        num_warps=warps, num_stages=_stages(stages, big),
    )  # fmt: skip
    return out


def up(
    small: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None, head: Tensor | None,
    g: Geometry, relu: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    small, mask = whole(small), _rows(mask)
    members, images = small.shape[:2]
    out = small.new_empty(members, images, g.hb, g.wb, g.cb)
    # The second product of a program is wrong for more channels (Triton 3.6, bfloat16).
    within = head if head is not None and (g.cb <= 32 or small.element_size() == 4) else None
    taps = small.new_empty((0,) if within is None else (members, images, g.hb, g.wb, within.shape[-1]))
    rows, warps, stages, most, phases = UP[small.element_size()]
    tiled = triton.cdiv(images * -(-g.hb // g.stride) * -(-g.wb // g.stride), rows)
    phases = math.gcd(phases if tiled * members >= PROGRAMS else 1, g.stride**2)  # each program does as many
    grid = (tiled * (g.stride**2 // phases), members)
    tiles.up[grid](  # type: ignore[index]
        small, weight, weight if bias is None else bias, small if mask is None else mask,
        small if within is None else within, out, taps,
        small.stride(0), images, *apart(mask),
        g.hb, g.wb, g.cb, g.hs, g.ws, g.cs, g.taps, g.stride, g.padding,
        relu, bias is not None, mask is not None, 0 if within is None else within.shape[-1], EXACT,
        rows, wide(g.cb), min(most, wide(g.taps**2 * g.cs)), phases,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    if head is not None and within is None:
        taps = (out.flatten(1, 3) @ head).unflatten(1, out.shape[1:4])
    return out, taps


def _wide(g: Geometry, most: int) -> int:
    """How many of the numbers under a kernel one program sums."""
    return min(most // wide(g.cs), wide(g.kernel**2 * g.cb))


def _groups(g: Geometry, most: int) -> int:
    return triton.cdiv(g.kernel**2 * g.cb, _wide(g, most))


def weight(small: Tensor, big: Tensor, g: Geometry) -> Tensor:
    small, big = whole(small), whole(big)
    members, images = small.shape[:2]
    rows, warps, stages, most = WEIGHT[small.element_size()]
    positions = images * g.hs * g.ws
    most_parts = max(1, min(PROGRAMS // (_groups(g, most) * members), positions // (4 * rows)))
    chunk = triton.cdiv(triton.cdiv(positions, most_parts), rows) * rows
    count = triton.cdiv(positions, chunk)
    out = torch.empty(count, members, g.kernel * g.kernel * g.cb, g.cs, dtype=torch.float32, device=small.device)
    tiles.weight[(count * _groups(g, most), members)](  # type: ignore[index]
        small, big, out, small.stride(0), big.stride(0), images, chunk,
        g.hb, g.wb, g.cb, g.hs, g.ws, g.cs, g.kernel, g.stride, g.padding, EXACT,
        rows, wide(g.cs), _wide(g, most),
        num_warps=warps, num_stages=_stages(stages, big),
    )  # fmt: skip
    return out


def gradient(parts: Tensor, g: Geometry) -> Tensor:
    count, members = parts.shape[:2]
    out = torch.empty(members, g.cs, g.cb, g.kernel, g.kernel, dtype=parts.dtype, device=parts.device)
    block, many = min(32, wide(g.cs)), g.kernel**2
    at_once, taps = (4, wide(many)) if g.cb > 8 else (64, 1)  # of few channels all parts at once, to be many programs
    grid = (g.cb * triton.cdiv(many, taps) * triton.cdiv(g.cs, block), members)
    tiles.gradient[grid](parts, out, count, g.cb, g.cs, many, at_once, taps, block)  # type: ignore[index]
    return out


def fold(taps: Tensor, bias: Tensor | None, g: Geometry, precise: bool) -> Tensor:
    members, images = taps.shape[:2]
    kind = torch.float32 if precise else taps.dtype
    out = torch.empty(members, images, g.hb, g.wb, g.cb, dtype=kind, device=taps.device)
    block = 1024
    tiles.fold[(members * images, triton.cdiv(g.hb * g.wb * g.cb, block))](  # type: ignore[index]
        taps, taps if bias is None else bias, out, images,
        g.hb, g.wb, g.cb, g.hs, g.ws, taps.shape[-1], g.kernel, g.taps, g.stride, g.padding, bias is not None,
        block,
    )  # fmt: skip
    return out

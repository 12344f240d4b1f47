"""The kernels in plain torch: what they compute, for devices without Triton, and for tests."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from untwine.kernels.geometry import Geometry


def _patches(big: Tensor, g: Geometry) -> Tensor:
    """The pixels under the kernel at each place of the small image: `[members, images, hs, ws, k * k * cb]`."""
    low = max(0, g.stride * (g.hs - 1) + g.kernel - g.padding - g.hb)
    right = max(0, g.stride * (g.ws - 1) + g.kernel - g.padding - g.wb)
    padded = F.pad(big, (0, 0, g.padding, right, g.padding, low))
    windows = padded.unfold(2, g.kernel, g.stride).unfold(3, g.kernel, g.stride)[:, :, : g.hs, : g.ws]
    return windows.permute(0, 1, 2, 3, 5, 6, 4).flatten(4)


def _behind(out: Tensor, bias: Tensor | None, mask: Tensor | None, relu: bool) -> Tensor:
    if bias is not None:
        out = out + bias[:, None, None, None]
    if relu:
        out = out.relu()
    if mask is not None:
        out = out * (mask > 0).repeat(1, out.shape[1] // mask.shape[1], 1, 1, 1)
    return out


def down(big: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None, g: Geometry, relu: bool) -> Tensor:
    out = torch.einsum("snijk,skc->snijc", _patches(big, g), weight)
    return _behind(out, bias, mask, relu).to(big.dtype).contiguous()


def up(
    small: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None, head: Tensor | None,
    g: Geometry, relu: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    high, broad = -(-g.hb // g.stride), -(-g.wb // g.stride)
    out = small.new_zeros(*small.shape[:2], high, g.stride, broad, g.stride, g.cb)
    edge = g.taps + g.kernel  # zeros enough for every shift
    padded = F.pad(small, (0, 0, edge, edge + broad, edge, edge + high))
    for phase in range(g.stride**2):
        py, px = divmod(phase, g.stride)
        for ty in range(g.taps):
            for tx in range(g.taps):
                i, j = (py + g.padding) // g.stride - ty + edge, (px + g.padding) // g.stride - g.taps + 1 + tx + edge
                part = weight[:, phase, ty, tx * g.cs : (tx + 1) * g.cs]
                moved = padded[:, :, i : i + high, j : j + broad]
                out[:, :, :, py, :, px] += torch.einsum("snijc,scd->snijd", moved, part)
    whole = out.flatten(4, 5).flatten(2, 3)[:, :, : g.hb, : g.wb]
    whole = _behind(whole, bias, mask, relu).to(small.dtype).contiguous()
    none = small.new_empty(0)
    taps = none if head is None else torch.einsum("snijc,sct->snijt", whole, head).contiguous()
    return whole, taps


def weight(small: Tensor, big: Tensor, g: Geometry) -> Tensor:
    patches = _patches(big, g)
    kind = torch.promote_types(small.dtype, torch.float32)
    return torch.einsum("snijk,snijc->skc", patches.to(kind), small.to(kind))[None]


def gradient(parts: Tensor, g: Geometry) -> Tensor:
    whole = parts.sum(0).unflatten(1, (g.kernel, g.kernel, g.cb))
    return whole.permute(0, 4, 3, 1, 2).contiguous()


def fold(taps: Tensor, bias: Tensor | None, g: Geometry, precise: bool) -> Tensor:
    kind = torch.promote_types(taps.dtype, torch.float32)
    high, broad = g.stride * (g.hs - 1) + g.kernel, g.stride * (g.ws - 1) + g.kernel
    size = max(high, g.padding + g.hb), max(broad, g.padding + g.wb)
    out = torch.zeros(*taps.shape[:2], *size, g.cb, dtype=kind, device=taps.device)
    each = taps[..., : g.kernel**2 * g.cb].to(kind).unflatten(-1, (g.kernel, g.kernel, g.cb))
    for ky in range(g.kernel):
        for kx in range(g.kernel):
            rows = slice(ky, ky + g.stride * g.hs, g.stride)
            columns = slice(kx, kx + g.stride * g.ws, g.stride)
            out[:, :, rows, columns] += each[..., ky, kx, :]
    whole = out[:, :, g.padding : g.padding + g.hb, g.padding : g.padding + g.wb]
    return _behind(whole, bias, None, False).to(kind if precise else taps.dtype).contiguous()


def tail(
    small: Tensor, w: Tensor, last_w: Tensor, mask: Tensor, before: Tensor, u: Tensor,
    g: Geometry, last: Geometry, p: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The output t of two layers, and the gradients of the sum of u |t|^p: of the input, and of both weights."""
    kind = small.dtype
    middle, taps = up(small, g.up_weight(w, kind), None, mask, last.head_weight(last_w, kind), g, False)
    t = fold(taps, None, last, False)
    slopes = (t.sign() if p == 1 else 2 * t) * u[..., None].repeat(1, t.shape[1] // u.shape[1], 1, 1, 1).to(kind)
    inner = down(slopes, last.down_weight(last_w, kind), None, mask, last, False)
    back = down(inner, g.down_weight(w, kind), None, before, g, False)
    return t, back, weight(small, inner, g), weight(middle, slopes, last)

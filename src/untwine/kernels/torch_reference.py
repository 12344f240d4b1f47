"""The kernels in plain torch: for devices without Triton, and as what tests compare the others with."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from untwine.kernels.geometry import Geometry


def _patches(big: Tensor, g: Geometry) -> Tensor:
    """The pixels under the kernel at each place of the small image: `[members, images, hs, ws, k * k * cb]`."""
    bottom = max(0, g.stride * (g.hs - 1) + g.kernel - g.padding - g.hb)
    right = max(0, g.stride * (g.ws - 1) + g.kernel - g.padding - g.wb)
    padded = F.pad(big, (0, 0, g.padding, right, g.padding, bottom))
    windows = padded.unfold(2, g.kernel, g.stride).unfold(3, g.kernel, g.stride)[:, :, : g.hs, : g.ws]
    return windows.permute(0, 1, 2, 3, 5, 6, 4).flatten(4)


def _finish(out: Tensor, bias: Tensor | None, mask: Tensor | None, relu: bool) -> Tensor:
    """An output after bias, ReLU and the mask of another ReLU."""
    if bias is not None:
        out = out + bias[:, None, None, None]
    if relu:
        out = out.relu()
    if mask is not None:
        out = out * (mask > 0).repeat(1, out.shape[1] // mask.shape[1], 1, 1, 1)
    return out


def conv_down(big: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None, g: Geometry, relu: bool) -> Tensor:
    """The small image from the big one; arguments as for `operators.conv_down`."""
    out = torch.einsum("snijk,skc->snijc", _patches(big, g), weight)
    return _finish(out, bias, mask, relu).to(big.dtype).contiguous()


def conv_up(
    small: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None, head: Tensor | None,
    g: Geometry, relu: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The big image from the small one, and with a `head` its products with the next layer's weights, for `fold`."""
    height, width = -(-g.hb // g.stride), -(-g.wb // g.stride)
    out = small.new_zeros(*small.shape[:2], height, g.stride, width, g.stride, g.cb)
    edge = g.taps + g.kernel  # enough zeros for every shift
    padded = F.pad(small, (0, 0, edge, edge + width, edge, edge + height))
    for phase in range(g.stride**2):
        py, px = divmod(phase, g.stride)
        for ty in range(g.taps):
            for tx in range(g.taps):
                i, j = (py + g.padding) // g.stride - ty + edge, (px + g.padding) // g.stride - g.taps + 1 + tx + edge
                part = weight[:, phase, ty, tx * g.cs : (tx + 1) * g.cs]
                shifted = padded[:, :, i : i + height, j : j + width]
                out[:, :, :, py, :, px] += torch.einsum("snijc,scd->snijd", shifted, part)
    big = out.flatten(4, 5).flatten(2, 3)[:, :, : g.hb, : g.wb]
    big = _finish(big, bias, mask, relu).to(small.dtype).contiguous()
    if head is None:
        return big, small.new_empty(0)
    return big, torch.einsum("snijc,sct->snijt", big, head).contiguous()


def weight_gradient(small: Tensor, big: Tensor, g: Geometry) -> Tensor:
    """The gradient of the weights in parts, here one: `[1, members, k * k * cb, cs]`."""
    patches = _patches(big, g)
    dtype = torch.promote_types(small.dtype, torch.float32)
    return torch.einsum("snijk,snijc->skc", patches.to(dtype), small.to(dtype))[None]


def sum_parts(parts: Tensor, g: Geometry) -> Tensor:
    """The sum of the parts that `weight_gradient` gives, in the layout of the weights: `[members, cs, cb, k, k]`."""
    total = parts.sum(0).unflatten(1, (g.kernel, g.kernel, g.cb))
    return total.permute(0, 4, 3, 1, 2).contiguous()


def fold(taps: Tensor, bias: Tensor | None, g: Geometry, precise: bool) -> Tensor:
    """The output of a layer from the products of its input with all taps, which `conv_up` gives.

    Args:
        taps: The products, `[members, images, height, width, taps]`.
        bias: The bias of the layer.
        g: The sizes of the layer.
        precise: Whether the output is in float32 or better.
    """
    dtype = torch.promote_types(taps.dtype, torch.float32)
    height, width = g.stride * (g.hs - 1) + g.kernel, g.stride * (g.ws - 1) + g.kernel
    size = max(height, g.padding + g.hb), max(width, g.padding + g.wb)
    out = torch.zeros(*taps.shape[:2], *size, g.cb, dtype=dtype, device=taps.device)
    products = taps[..., : g.kernel**2 * g.cb].to(dtype).unflatten(-1, (g.kernel, g.kernel, g.cb))
    for ky in range(g.kernel):
        for kx in range(g.kernel):
            rows = slice(ky, ky + g.stride * g.hs, g.stride)
            columns = slice(kx, kx + g.stride * g.ws, g.stride)
            out[:, :, rows, columns] += products[..., ky, kx, :]
    cropped = out[:, :, g.padding : g.padding + g.hb, g.padding : g.padding + g.wb]
    return _finish(cropped, bias, None, False).to(dtype if precise else taps.dtype).contiguous()


def tangent_norm(
    small: Tensor, w: Tensor, last_w: Tensor, mask: Tensor, before: Tensor, u: Tensor,
    g: Geometry, last: Geometry, p: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The output t of two layers, and the gradients of the sum of u |t|^p: of the input, and of both weights.

    Arguments as for `operators.tangent_norm`.
    """
    dtype = small.dtype
    middle, taps = conv_up(small, g.up_weight(w, dtype), None, mask, last.head_weight(last_w, dtype), g, False)
    t = fold(taps, None, last, False)
    slopes = (t.sign() if p == 1 else 2 * t) * u[..., None].repeat(1, t.shape[1] // u.shape[1], 1, 1, 1).to(dtype)
    inner = conv_down(slopes, last.down_weight(last_w, dtype), None, mask, last, False)
    slope = conv_down(inner, g.down_weight(w, dtype), None, before, g, False)
    return t, slope, weight_gradient(small, inner, g), weight_gradient(middle, slopes, last)

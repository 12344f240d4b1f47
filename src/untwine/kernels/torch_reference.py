"""The kernels in plain torch: for devices without Triton, and as what tests compare the others with."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from untwine.kernels.differences import difference_and_slopes
from untwine.kernels.epilogue import Behind
from untwine.kernels.geometry import Geometry


def _patches(big: Tensor, g: Geometry) -> Tensor:
    """The pixels under the kernel at each place of the small image: `[members, images, hs, ws, k * k * cb]`."""
    bottom = max(0, g.stride * (g.hs - 1) + g.kernel - g.padding - g.hb)
    right = max(0, g.stride * (g.ws - 1) + g.kernel - g.padding - g.wb)
    padded = F.pad(big, (0, 0, g.padding, right, g.padding, bottom))
    windows = padded.unfold(2, g.kernel, g.stride).unfold(3, g.kernel, g.stride)[:, :, : g.hs, : g.ws]
    return windows.permute(0, 1, 2, 3, 5, 6, 4).flatten(4)


def _in_turn(mask: Tensor, images: int) -> Tensor:
    """A mask for each image, from masks for some of them in turn."""
    return mask.repeat(1, images // mask.shape[1], 1, 1, 1)


def _finish(out: Tensor, behind: Behind) -> tuple[Tensor, Tensor]:
    """An output after all that follows the product, and the second result (`Behind.has_extra`, else empty)."""
    if behind.bias is not None:
        out = out + behind.bias[:, None, None, None]
    extra, count = out, out.shape[1]
    if behind.relu:
        out = out.relu()
    if behind.mask is not None:
        mask = _in_turn(behind.mask, count)
        if behind.difference:
            extra = (out > -mask).to(out.dtype)
            out = torch.maximum(out, -mask) + mask.clamp(max=0)
        else:
            out = out * (mask > 0)
    if behind.other is not None:
        extra = out - extra * (_in_turn(behind.other, count) > 0)
    if behind.added is not None:
        factor = 1.0 if behind.factor is None else behind.factor[:, None, None, None, None]
        out = out + factor * behind.added
    return out, extra if behind.has_extra else out.new_empty(len(out), 0)


def conv_down(big: Tensor, weight: Tensor, behind: Behind, g: Geometry) -> tuple[Tensor, Tensor]:
    """The small image from the big one, and what else was asked for; arguments as for `operators.conv_down`."""
    out, extra = _finish(torch.einsum("snijk,skc->snijc", _patches(big, g), weight), behind)
    return out.to(big.dtype).contiguous(), extra.to(big.dtype).contiguous()


def conv_up(
    small: Tensor, weight: Tensor, behind: Behind, g: Geometry, head: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The big image from the small one, what else was asked for, and products for `fold`.

    These are the products of the big image with the next layer's weights, the `head`; nothing without one.
    """
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
    big, extra = (one.to(small.dtype).contiguous() for one in _finish(big, behind))
    taps = small.new_empty(0) if head is None else torch.einsum("snijc,sct->snijt", big, head).contiguous()
    return big, extra, taps


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
    return _finish(cropped, Behind(bias))[0].to(dtype if precise else taps.dtype).contiguous()


def tangent_norm(
    small: Tensor, w: Tensor, last_w: Tensor, mask: Tensor, before: Tensor, u: Tensor,
    g: Geometry, last: Geometry, p: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The output t of two layers, and the gradients of the sum of u |t|^p: of the input, and of both weights.

    Arguments as for `norm_operators.tangent_norm`.
    """
    dtype = small.dtype
    middle, _, taps = conv_up(small, g.up_weight(w, dtype), Behind(mask=mask), g, last.head_weight(last_w, dtype))
    t = fold(taps, None, last, False)
    slopes = (t.sign() if p == 1 else 2 * t) * _in_turn(u[..., None], t.shape[1]).to(dtype)
    inner = conv_down(slopes, last.down_weight(last_w, dtype), Behind(mask=mask), last)[0]
    slope = conv_down(inner, g.down_weight(w, dtype), Behind(mask=before), g)[0]
    return t, slope, weight_gradient(small, inner, g), weight_gradient(middle, slopes, last)


def difference_norm(
    small: Tensor, w: Tensor, last_w: Tensor, inputs: Tensor, before: Tensor, other: Tensor, logits: Tensor,
    g: Geometry, last: Geometry, p: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """The sum of |sigmoid(logits + d) - sigmoid(logits)|^p over the differences d behind two layers, and its gradients.

    Results and arguments as for `norm_operators.difference_norm`; a part of the sum is an image.
    """
    dtype = small.dtype
    behind, head = Behind(mask=inputs, difference=True), last.head_weight(last_w, dtype)
    middle, moved, taps = conv_up(small, g.up_weight(w, dtype), behind, g, head)
    d = fold(taps, None, last, False)
    start = _in_turn(logits[..., None], d.shape[1])
    difference, by_step, by_logits = difference_and_slopes(nn.Sigmoid(), start, d.to(start.dtype))
    powers, outer = (difference.abs(), difference.sign()) if p == 1 else (difference.square(), 2 * difference)
    slopes, logit_slopes = ((outer * inner).to(dtype) for inner in (by_step, by_logits))
    behind = Behind(mask=moved, other=inputs)
    inner, middle_crossed = conv_down(slopes, last.down_weight(last_w, dtype), behind, last)
    slope, crossed = conv_down(inner, g.down_weight(w, dtype), Behind(mask=before, other=other), g)
    gradients = weight_gradient(small, inner, g), weight_gradient(middle, slopes, last)
    return powers.sum((2, 3, 4)), logit_slopes, slope, *gradients, middle_crossed, crossed

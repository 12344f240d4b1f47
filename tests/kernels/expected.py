"""The expected outputs of kernels, from torch's own convolutions: for the tests here and for those on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from untwine.kernels.geometry import Geometry


def geometry(height: int, width: int, cb: int, cs: int, kernel: int, stride: int, padding: int) -> Geometry:
    """A geometry from its big image; pixels that a convolution leaves over are the transposed one's output padding."""
    hs, ws = ((side + 2 * padding - kernel) // stride + 1 for side in (height, width))
    return Geometry(height, width, cb, hs, ws, cs, kernel, stride, padding)


GEOMETRIES = {
    "4x4/2 padded": geometry(8, 8, 4, 8, 4, 2, 1),
    "4x4/2 unpadded": geometry(10, 8, 3, 5, 4, 2, 0),
    "4x4/2 odd": geometry(9, 11, 3, 5, 4, 2, 0),
    "4x4/2 odd and padded": geometry(7, 9, 2, 3, 4, 2, 1),
    "4x4/2 of one channel": geometry(8, 8, 1, 16, 4, 2, 1),
    "3x3/2 with output padding": geometry(8, 8, 8, 4, 3, 2, 1),
    "3x3/2": geometry(7, 9, 16, 4, 3, 2, 1),
    "3x3/1": geometry(6, 5, 3, 4, 3, 1, 1),
    "5x5/3": geometry(12, 10, 3, 2, 5, 3, 2),
    "2x2/2": geometry(6, 4, 3, 2, 2, 2, 0),
    "1x1": geometry(4, 3, 3, 5, 1, 1, 0),
    "all of it": geometry(4, 4, 3, 7, 4, 1, 0),
}


def numbers(*shape: int, seed: int = 0, kind: torch.dtype = torch.float64) -> Tensor:
    """Random numbers from a seed, on the CPU."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(kind)


def _first(x: Tensor) -> Tensor:
    """Channels before height and width."""
    return x.permute(0, 3, 1, 2)


def small_image(big: Tensor, w: Tensor, g: Geometry) -> Tensor:
    """A convolution for each member."""
    made = [F.conv2d(_first(x), v, None, g.stride, g.padding) for x, v in zip(big, w, strict=True)]
    return torch.stack(made).permute(0, 1, 3, 4, 2)


def big_image(small: Tensor, w: Tensor, g: Geometry) -> Tensor:
    """A transposed convolution for each member."""
    more = [(side + 2 * g.padding - g.kernel) % g.stride for side in (g.hb, g.wb)]
    made = [F.conv_transpose2d(_first(x), v, None, g.stride, g.padding, more) for x, v in zip(small, w, strict=True)]
    return torch.stack(made).permute(0, 1, 3, 4, 2)


def weight_gradient(small: Tensor, big: Tensor, w: Tensor, g: Geometry) -> Tensor:
    """The gradient of the weights, where `small` is the gradient of the convolution of `big`."""
    w = w.detach().requires_grad_()
    return torch.autograd.grad((small_image(big, w, g) * small).sum(), w)[0]


def followed(out: Tensor, bias: Tensor | None, mask: Tensor | None, relu: bool) -> Tensor:
    """A product followed by bias, ReLU and mask; the masks are for the images in turn."""
    if bias is not None:
        out = out + bias[:, None, None, None]
    out = out.relu() if relu else out
    if mask is None:
        return out
    turns = torch.arange(out.shape[1]) % mask.shape[1]
    return torch.where(mask[:, turns.to(mask.device)] > 0, out, 0.0)


def error(found: Tensor, right: Tensor) -> float:
    """The error of a tensor relative to the norm of the right one."""
    assert found.shape == right.shape
    return ((found.double() - right).norm() / right.norm()).item()

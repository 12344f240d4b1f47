"""Blurring images by a wide separable kernel, for the overlap loss of michlo2023."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from untwine.errors import unknown

Kernel: TypeAlias = Literal["box", "gaussian"]
KERNELS: tuple[Kernel, ...] = get_args(Kernel)


class Blur(nn.Module):
    """Each channel convolved with a kernel of (2 radius + 1)^2 pixels that sums to 1, zeros around the image.

    `box` is flat (michlo2023, section 6.1); `gaussian` has a standard deviation of radius / 2, so that the
    radius cuts it at two of them. Radius 0 leaves an image as it is.

    The kernel is an outer product, so the convolution is A x B with banded matrices A and B. The paper uses
    the FFT; at its radius of 31 on 64x64 images, forward and backward, that took 5 to 11 times as long on a
    CPU (64 or 256 images, 1 or 3 channels, with no more padding than needed), and 1.2 to 6 times on an H200.

    >>> Blur(3, 3, radius=1)(torch.eye(3)[None, None] * 9)
    tensor([[[[2., 2., 1.], [2., 3., 2.], [1., 2., 2.]]]])
    """

    rows: Tensor
    columns: Tensor

    def __init__(self, height: int, width: int, radius: int, kernel: str = "box") -> None:
        super().__init__()
        self.register_buffer("rows", _band(height, radius, kernel), persistent=False)
        self.register_buffer("columns", _band(width, radius, kernel), persistent=False)

    def forward(self, x: Float[Tensor, "*lead height width"]) -> Float[Tensor, "*lead height width"]:
        dtype = torch.promote_types(x.dtype, self.rows.dtype)
        # The loss compares sums of thousands of pixels, and weighs the difference by thousands: no bfloat16.
        with torch.autocast(x.device.type, enabled=False):
            return self.rows.to(dtype) @ x.to(dtype) @ self.columns.to(dtype)


def _band(size: int, radius: int, kernel: str) -> Float[Tensor, "size size"]:
    """The matrix of a convolution along one side of an image; it is symmetric, since the kernels are."""

    def taps(offsets: Tensor) -> Tensor:
        if kernel == "box":
            return torch.ones_like(offsets)
        if kernel == "gaussian":
            return (-0.5 * (2 * offsets / max(radius, 1)).square()).exp()
        raise unknown("kernel", kernel, KERNELS)

    total = taps(torch.arange(-radius, radius + 1, dtype=torch.float64)).sum()
    place = torch.arange(size, dtype=torch.float64)
    offsets = (place[:, None] - place).abs()
    return torch.where(offsets <= radius, taps(offsets) / total, 0.0).to(torch.get_default_dtype())

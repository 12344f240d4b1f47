"""The sizes of a convolution between a big and a small image, and its weights in the layouts of the kernels."""

from __future__ import annotations

import functools
from dataclasses import astuple, dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


def tile_width(count: int) -> int:
    """The width of the smallest tile that holds `count` numbers: a power of two, at least 16."""
    return max(16, 1 << (count - 1).bit_length())


def _in_fragment_order(w: Tensor) -> Tensor:
    """Reorder columns so that the numbers that one CUDA thread computes are neighbours in memory.

    In every group of 32, column 8 q + 2 t + e holds what was in column 8 t + 2 q + e.
    """
    return w.unflatten(-1, (-1, 4, 4, 2)).transpose(-3, -2).flatten(-4)


def sum_unrolled(x: Tensor, dim: int) -> Tensor:
    """The sum over a dimension, as a chain of additions if it is short.

    A compiler fuses such a chain with what comes before it, but not `sum`.

    Args:
        x: Any tensor.
        dim: The dimension to sum over.
    """
    return functools.reduce(torch.add, x.unbind(dim)) if x.shape[dim] <= 32 else x.sum(dim)


def contiguous_members(x: Tensor) -> Tensor:
    """`x` itself if each member is contiguous, else a copy; the members may share memory (stride 0)."""
    step = 1
    for size, stride in zip(reversed(x.shape[1:]), reversed(x.stride()[1:]), strict=True):
        if size > 1 and stride != step:
            return x.contiguous()
        step *= size
    return x


def mask_strides(mask: Tensor | None) -> tuple[int, int, int]:
    """The number of images of a mask, and its strides between members and between images."""
    return (1, 0, 0) if mask is None else (mask.shape[1], mask.stride(0), mask.stride(1))


@dataclass(frozen=True)
class Geometry:
    """The sizes of a convolution: big image, small image, kernel.

    A convolution maps the big image to the small one, a transposed convolution the small one to the big one.
    """

    hb: int  # height, width and channels of the big image
    wb: int
    cb: int
    hs: int  # and of the small one
    ws: int
    cs: int
    kernel: int
    stride: int
    padding: int

    @property
    def taps(self) -> int:
        """Kernel rows (and columns) that reach each phase of the big image."""
        return -(-self.kernel // self.stride)

    @property
    def taps_fit_tile(self) -> bool:
        """Whether the big image has so few channels that all taps of a pixel fit into one tile."""
        return self.kernel * self.kernel * self.cb <= 64

    def to_list(self) -> list[int]:
        """The sizes as a list, which is how torch operators take them."""
        return list(astuple(self))

    def down_weight(self, w: Tensor, dtype: torch.dtype, for_cuda: bool = False) -> Tensor:
        """Weights `[members, cs, cb, k, k]` laid out for `conv_down`: `[members, k * k * cb, cs]`.

        Args:
            w: Weights as torch has them.
            dtype: The dtype of the result.
            for_cuda: Whether the columns are in the order of the CUDA kernels.
        """
        laid = w.permute(0, 3, 4, 2, 1).reshape(len(w), -1, self.cs)
        return (_in_fragment_order(laid) if for_cuda else laid).to(dtype).contiguous()

    def up_weight(self, w: Tensor, dtype: torch.dtype, for_cuda: bool = False) -> Tensor:
        """Weights `[members, cs, cb, k, k]` laid out for `conv_up`: `[members, phases, taps, taps * cs, cb]`.

        Args:
            w: Weights as torch has them.
            dtype: The dtype of the result.
            for_cuda: Whether the columns are in the order of the CUDA kernels.
        """
        missing = self.taps * self.stride - self.kernel
        w = F.pad(w, (0, missing, 0, missing)) if missing else w
        w = w.unflatten(4, (self.taps, self.stride)).unflatten(3, (self.taps, self.stride))
        order = [(phase + self.padding) % self.stride for phase in range(self.stride)]
        if order != sorted(order):
            w = w.index_select(4, torch.tensor(order, device=w.device)) if self.stride > 2 else w.flip(4)
            w = w.index_select(6, torch.tensor(order, device=w.device)) if self.stride > 2 else w.flip(6)
        w = w.flip(5).permute(0, 4, 6, 3, 5, 1, 2)  # members, py, px, ty, tx, cs, cb
        w = w.reshape(len(w), self.stride**2, self.taps, self.taps * self.cs, self.cb)
        return (_in_fragment_order(w) if for_cuda else w).to(dtype).contiguous()

    def head_weight(self, w: Tensor, dtype: torch.dtype) -> Tensor:
        """Weights `[members, cs, cb, k, k]` laid out for `fold`: `[members, cs, k * k * cb]`, padded to a tile.

        Args:
            w: Weights as torch has them.
            dtype: The dtype of the result.
        """
        flat = w.permute(0, 1, 3, 4, 2).flatten(2)
        return F.pad(flat, (0, tile_width(flat.shape[2]) - flat.shape[2])).to(dtype).contiguous()

"""How a convolution ties a big image to a small one, and its weights as the kernels want them."""

from __future__ import annotations

import functools
from dataclasses import astuple, dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


def wide(count: int) -> int:
    """The width of a tile that takes so many numbers: a power of two, 16 or more."""
    return max(16, 1 << (count - 1).bit_length())


def _mixed(w: Tensor) -> Tensor:
    """Columns such that 8 q + 2 t + e is 8 t + 2 q + e, in every 32: what a thread computes then lies side by side."""
    return w.unflatten(-1, (-1, 4, 4, 2)).transpose(-3, -2).flatten(-4)


def added(x: Tensor, place: int) -> Tensor:
    """The sum over a dimension, one by one if they are few: a compiler makes a single pass of that, unlike of `sum`."""
    return functools.reduce(torch.add, x.unbind(place)) if x.shape[place] <= 32 else x.sum(place)


def whole(x: Tensor) -> Tensor:
    """Contiguous for each member; members may be one and the same."""
    step = 1
    for size, stride in zip(reversed(x.shape[1:]), reversed(x.stride()[1:]), strict=True):
        if size > 1 and stride != step:
            return x.contiguous()
        step *= size
    return x


def apart(mask: Tensor | None) -> tuple[int, int, int]:
    """How many images a mask has, and how far apart members and images are."""
    return (1, 0, 0) if mask is None else (mask.shape[1], mask.stride(0), mask.stride(1))


@dataclass(frozen=True)
class Geometry:
    """Height, width and channels of the big and of the small image, and the kernel's size, stride and padding."""

    hb: int
    wb: int
    cb: int
    hs: int
    ws: int
    cs: int
    kernel: int
    stride: int
    padding: int

    @property
    def taps(self) -> int:
        """Taps a side of each phase."""
        return -(-self.kernel // self.stride)

    @property
    def whole(self) -> bool:
        """Whether the big image has so few channels that all taps of a pixel make one tile."""
        return self.kernel * self.kernel * self.cb <= 64

    def tuple(self) -> list[int]:
        return list(astuple(self))

    def down_weight(self, w: Tensor, kind: torch.dtype, mixed: bool = False) -> Tensor:
        """`[members, cs, cb, k, k]` as `[members, k * k * cb, cs]`; the columns may be mixed for the CUDA kernels."""
        laid = w.permute(0, 3, 4, 2, 1).reshape(len(w), -1, self.cs)
        return (_mixed(laid) if mixed else laid).to(kind).contiguous()

    def up_weight(self, w: Tensor, kind: torch.dtype, mixed: bool = False) -> Tensor:
        """`[members, cs, cb, k, k]` by phases, taps from left to right: `[members, phases, t, t * cs, cb]`."""
        more = self.taps * self.stride - self.kernel
        w = F.pad(w, (0, more, 0, more)) if more else w
        w = w.unflatten(4, (self.taps, self.stride)).unflatten(3, (self.taps, self.stride))
        order = [(phase + self.padding) % self.stride for phase in range(self.stride)]
        if order != sorted(order):
            w = w.index_select(4, torch.tensor(order, device=w.device)) if self.stride > 2 else w.flip(4)
            w = w.index_select(6, torch.tensor(order, device=w.device)) if self.stride > 2 else w.flip(6)
        w = w.flip(5).permute(0, 4, 6, 3, 5, 1, 2)  # members, py, px, ty, tx, cs, cb
        w = w.reshape(len(w), self.stride**2, self.taps, self.taps * self.cs, self.cb)
        return (_mixed(w) if mixed else w).to(kind).contiguous()

    def head_weight(self, w: Tensor, kind: torch.dtype) -> Tensor:
        """`[members, cs, cb, k, k]` as `[members, cs, k * k * cb]`, padded to the width of a tile."""
        flat = w.permute(0, 1, 3, 4, 2).flatten(2)
        return F.pad(flat, (0, wide(flat.shape[2]) - flat.shape[2])).to(kind).contiguous()

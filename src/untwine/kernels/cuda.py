"""Launches of the CUDA kernels: which layers they can do, and how those are cut into tiles."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from untwine.kernels.geometry import Geometry
from untwine.kernels.nvrtc import Wide, kernel

SHARED = 115_712  # bytes that leave room for two blocks on a multiprocessor
WORDS = 9  # that a pixel's taps take where they are folded


def _half(size: int) -> int:
    return (size + 1) // 2


def _standard(g: Geometry) -> bool:
    return g.kernel == 4 and g.stride == 2 and g.padding in (0, 1)


def _tile(rows: int, columns: int, most: int, bytes_of: object) -> tuple[int, int] | None:
    """Images and rows of a tile: at most so many positions that fit into shared memory, in equal bands."""
    best = None
    for bands in range(1, rows + 1):
        high = -(-rows // bands)
        if high * columns <= most:
            many = 1
            while bands == 1 and 2 * many * high * columns <= most and bytes_of(2 * many, high) <= SHARED:  # type: ignore[operator]
                many *= 2
            if bytes_of(many, high) <= SHARED:  # type: ignore[operator]
                best = many, high
                break
    return best


def _big_bytes(g: Geometry, many: int, high: int) -> int:
    return many * (2 * high + 2) * 2 * (g.ws + 1) * g.cb * 2


@functools.cache
def down_tile(g: Geometry) -> tuple[int, int] | None:
    if not _standard(g) or g.cs not in (32, 64):
        return None
    if g.cb == 1:
        return (1, min(g.hs, 16)) if g.wb % 8 == 0 and g.wb <= 1024 else None
    if g.cb not in (32, 64):
        return None
    most = 256 if g.cs == 32 else 128
    return _tile(g.hs, g.ws, most, lambda many, high: _big_bytes(g, many, high) + 32 * g.cb * g.cs)


@functools.cache
def up_tile(g: Geometry, head: bool) -> tuple[int, int] | None:
    if not _standard(g) or g.cb not in (32, 64) or g.cs not in (32, 64):
        return None
    high, broad = _half(g.hb), _half(g.wb)

    def size(many: int, rows: int) -> int:
        taps = g.hb * g.wb * WORDS * 4 if head else 0
        return many * (rows + 2) * max(broad + 2, g.ws + 1) * g.cs * 2 + 32 * g.cs * g.cb + taps

    most = 256 if g.cb == 32 else 128
    if not head:
        return _tile(high, broad, most, size)
    return (1, high) if g.cb == 32 and high * broad <= 256 and size(1, high) <= SHARED else None


@functools.cache
def weight_tile(g: Geometry) -> tuple[int, int] | None:
    if not _standard(g) or g.cs not in (32, 64):
        return None
    if g.cb == 1:
        return (1, min(g.hs, 8)) if g.wb % 8 == 0 and g.wb <= 1024 else None
    if g.cb != 32:
        return None
    return _tile(
        g.hs,
        g.ws,
        128 if g.cs == 32 else 256,
        lambda many, high: _big_bytes(g, many, high) + _padded(many * high * g.ws) * g.cs * 2,
    )


def _lines(g: Geometry, high: int) -> int:
    return -(-(2 * high + 2) * (2 * g.ws + 4) * 2 // 128) * 128


def _padded(positions: int) -> int:
    return -(-positions // 16) * 16


@functools.cache
def tile(g: Geometry, what: str) -> tuple[int, int] | None:
    """Images and rows of a tile, or None where the kernels do not serve."""
    if what == "down":
        return down_tile(g)
    return weight_tile(g) if what == "weight" else up_tile(g, what == "fold")


@functools.cache
def _blocks(device: int, members: int, each: int) -> int:
    """Blocks for each member, so that all of them run at once."""
    return max(1, each * torch.cuda.get_device_properties(device).multi_processor_count // members)


def _macros(g: Geometry, tile: tuple[int, int], **more: int) -> tuple[tuple[str, int], ...]:
    sizes = {"HB": g.hb, "WB": g.wb, "CB": g.cb, "HS": g.hs, "WS": g.ws, "CS": g.cs, "PAD": g.padding}
    flags = {"RELU": 0, "BIAS": 0, "MASK": 0, "HEAD": 0, "OUT32": 0, "THREADS": 128, "STAGES": 1}
    return tuple({**sizes, "IM": tile[0], "TI": tile[1], **flags, **more}.items())


def _mask(mask: Tensor | None) -> tuple[int, Wide, Wide]:
    """How many images a mask has, and how many channels apart members and images are."""
    if mask is None:
        return 1, Wide(0), Wide(0)
    each = 8 if mask.dtype == torch.uint8 else 1
    return mask.shape[1], Wide(mask.stride(0) * each), Wide(mask.stride(1) * each)


def _kind(mask: Tensor | None) -> int:
    """What a mask is for the kernels: none, bits, or the output of a ReLU."""
    return 0 if mask is None else 1 if mask.dtype == torch.uint8 else 2


def _twice(tile: int, rest: int) -> tuple[int, int]:
    """Whether there is room for a second tile, and the bytes of shared memory then."""
    stages = 2 if 2 * tile + rest <= SHARED else 1
    return stages, stages * tile + rest


def _bits(out: Tensor, relu: bool) -> Tensor:
    """Room for a bit for each channel."""
    return out.new_empty((*out.shape[:-1], out.shape[-1] // 8 if relu else 0), dtype=torch.uint8)


def down(
    big: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None, g: Geometry, relu: bool
) -> tuple[Tensor, Tensor]:
    """The small image, and with a ReLU where it is not zero, as bits."""
    cut = down_tile(g)
    assert cut is not None
    members, images = big.shape[:2]
    out = big.new_empty(members, images, g.hs, g.ws, g.cs)
    bits = _bits(out, relu)
    threads = 256 if g.cb > 1 and cut[0] * cut[1] * g.ws > 128 else 128
    macros = _macros(g, cut, RELU=int(relu), BIAS=int(bias is not None), MASK=_kind(mask), THREADS=threads)
    if g.cb == 1:
        name, shared = "down1", _lines(g, cut[1])
    else:
        name, shared = "down", _big_bytes(g, *cut) + 32 * g.cb * g.cs
    count = -(-images // cut[0]) * -(-g.hs // cut[1])
    blocks = min(count, _blocks(big.device.index, members, 16 if g.cb == 1 else 2))
    kernel(name, macros, shared, big.device.index)(
        (blocks, members), threads, big, weight, bias, mask, out, bits, Wide(big.stride(0)), images, *_mask(mask)
    )
    return out, bits


def up(
    small: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None, g: Geometry, relu: bool,
    head: Tensor | None = None, head_bias: Tensor | None = None, precise: bool = False,
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """The big image, with a ReLU where it is not zero, as bits, and with a `head` what the next layer makes of it."""
    cut = up_tile(g, head is not None)
    assert cut is not None
    members, images = small.shape[:2]
    out = small.new_empty(members, images, g.hb, g.wb, g.cb)
    folded = None
    if head is not None:
        kind = torch.float32 if precise else small.dtype
        folded = torch.empty(members, images, 2 * g.hb, 2 * g.wb, 1, dtype=kind, device=small.device)
    bits = _bits(out, relu)
    threads = 256 if cut[0] * cut[1] * _half(g.wb) > 128 else 128
    flags = {"RELU": int(relu), "BIAS": int(bias is not None), "MASK": _kind(mask), "THREADS": threads}
    stages, shared = _twice(
        cut[0] * (cut[1] + 2) * max(_half(g.wb) + 2, g.ws + 1) * g.cs * 2,
        32 * g.cs * g.cb + (g.hb * g.wb * WORDS * 4 if head is not None else 0),
    )
    macros = _macros(g, cut, **flags, HEAD=int(head is not None), OUT32=int(precise), STAGES=stages)
    count = -(-images // cut[0]) * -(-_half(g.hb) // cut[1])
    blocks = min(count, _blocks(small.device.index, members, 2))
    kernel("up", macros, shared, small.device.index)(
        (blocks, members), threads, small, weight, bias, mask, head, head_bias, out, bits, folded,
        Wide(small.stride(0)), images, *_mask(mask),
    )  # fmt: skip
    return out, bits, folded


def parts(members: int, images: int, g: Geometry, device: int) -> int:
    """How many parts the sum over positions of `weight` falls into."""
    cut = weight_tile(g)
    assert cut is not None
    count = -(-images // cut[0]) * -(-g.hs // cut[1])
    return min(count, _blocks(device, members, 8 if g.cb == 1 else 2 if g.cs == 32 else 1)) * (4 if g.cb == 1 else 1)


def weight(small: Tensor, big: Tensor, g: Geometry) -> Tensor:
    cut = weight_tile(g)
    assert cut is not None
    members, images = small.shape[:2]
    count = parts(members, images, g, small.device.index)
    out = torch.empty(count, members, 16 * g.cb, g.cs, dtype=torch.float32, device=small.device)
    places = _padded(cut[0] * cut[1] * g.ws) * g.cs * 2
    if g.cb == 1:
        name, threads, blocks = "weight1", 128, count // 4
        stages, shared = 1, _lines(g, cut[1]) + places
    else:
        name, threads, blocks = "weight", 256, count
        stages, shared = _twice(_big_bytes(g, *cut) + places, 0)
    kernel(name, _macros(g, cut, STAGES=stages), shared, small.device.index)(
        (blocks, members), threads, small, big, out, Wide(small.stride(0)), Wide(big.stride(0)), images
    )
    return out


TAIL = 2 * 18 * 18 * 64 + 32_768 + 1024 * (64 + 4 * WORDS) + 9088 + 2 * (16_384 + 4096 + 1024)  # bytes of shared memory
TAIL_THREADS = 256


def has_tail(g: Geometry, last: Geometry) -> bool:
    """Whether the last two layers can be done with their norm at once: 16 x 16 x 32 to 32 x 32 x 32 to 64 x 64."""
    return g == Geometry(32, 32, 32, 16, 16, 32, 4, 2, 1) and last == Geometry(64, 64, 1, 32, 32, 32, 4, 2, 1)


def tail_parts(members: int, images: int, device: int) -> tuple[int, int]:
    """How many parts the gradients of both layers' weights have."""
    blocks = min(images, _blocks(device, members, 1))
    return blocks, blocks * TAIL_THREADS // 32


def tail(
    small: Tensor, weight: Tensor, head: Tensor, mask: Tensor, before: Tensor, u: Tensor, g: Geometry, p: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The output t, and the gradients of the sum of u |t|^p: of the input, and of both layers' weights in parts."""
    small, u = (x if x[0].is_contiguous() else x.contiguous() for x in (small, u))
    members, images = small.shape[:2]
    blocks, heads = tail_parts(members, images, small.device.index)
    t = small.new_empty(members, images, 64, 64, 1)
    slope = torch.empty_like(small)
    parts = torch.empty(blocks, members, 512, 32, dtype=torch.float32, device=small.device)
    head_parts = torch.empty(heads, members, 16, 32, dtype=torch.float32, device=small.device)
    macros = _macros(g, (1, 16), MASK=1, STAGES=2, POWER=p, THREADS=TAIL_THREADS)
    kernel("tail", macros, TAIL, small.device.index)(
        (blocks, members), TAIL_THREADS, small, weight, head, mask, before, u, t, slope, parts, head_parts,
        Wide(small.stride(0)), images, *_mask(mask), *_mask(before)[1:], Wide(u.stride(0)), Wide(u.stride(1)),
    )  # fmt: skip
    return t, slope, parts, head_parts

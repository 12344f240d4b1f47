"""Launches of the CUDA kernels."""

from __future__ import annotations

import functools
import warnings

import torch
from torch import Tensor

from untwine.errors import UntwineError
from untwine.kernels import tiling as cuts
from untwine.kernels.cuda_compiler import Wide, kernel, libraries
from untwine.kernels.geometry import Geometry, apart, whole
from untwine.kernels.tiling import Cut


def cut(g: Geometry, what: str, device: int) -> Cut | None:
    """How a device cuts a layer; None where the kernels do not serve."""
    return cuts.cut(g, what, _device(device)[1]) if _found() else None


@functools.cache
def _found() -> bool:
    """Whether there is a compiler; without one Triton has to do all."""
    try:
        libraries()
    except UntwineError as error:
        warnings.warn(f"{error}; kernels that it would make are left to Triton, which takes longer", stacklevel=2)
        return False
    return True


@functools.cache
def _device(device: int) -> tuple[int, int]:
    """Multiprocessors, and bytes of shared memory that a block can have."""
    found = torch.cuda.get_device_properties(device)
    usual = cuts.LARGEST if found.major == 9 else 101_376  # where torch does not tell
    return found.multi_processor_count, getattr(found, "shared_memory_per_block_optin", usual)


def _made(g: Geometry, what: str, device: int) -> Cut:
    found = cut(g, what, device)
    assert found is not None
    return found


def _blocks(made: Cut, members: int, images: int, device: int) -> int:
    return made.blocks(members, images, _device(device)[0])


def note_parts(g: Geometry, what: str, members: int, images: int, device: int) -> int:
    """How many parts the sums of an output's channels have."""
    made = _made(g, what, device)
    return _blocks(made, members, images, device) * made.threads // 32


def down(
    big: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None, g: Geometry, relu: bool, sums: bool = False
) -> tuple[Tensor, Tensor]:
    """The small image, and what is noted of it: see `_note`."""
    device = big.device.index or 0
    made = _made(g, "down", device)
    big = whole(big)
    members, images = big.shape[:2]
    blocks = _blocks(made, members, images, device)
    out = big.new_empty(members, images, g.hs, g.ws, g.cs)
    note = _note(out, relu, sums, blocks * made.threads // 32)
    macros = _macros(g, made, RELU=relu, BIAS=bias is not None, MASK=_kind(mask), SUMS=sums)
    kernel(made.kernel, macros, made.shared, device)(
        (blocks, members), made.threads, big, weight, bias, mask, out, note, Wide(big.stride(0)), images, *_mask(mask)
    )
    return out, note


def up(
    small: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None, g: Geometry,
    relu: bool, sums: bool = False,
    head: Tensor | None = None, head_bias: Tensor | None = None, precise: bool = False,
) -> tuple[Tensor, Tensor, Tensor | None]:  # fmt: skip
    """The big image, what is noted of it (`_note`), and with a `head` what the next layer makes of it."""
    device = small.device.index or 0
    made = _made(g, "up" if head is None else "fold", device)
    small = whole(small)
    members, images = small.shape[:2]
    blocks = _blocks(made, members, images, device)
    out, folded = small.new_empty(members, images, g.hb, g.wb, g.cb), None
    if head is not None:
        kind = torch.float32 if precise else small.dtype
        folded = torch.empty(members, images, 2 * g.hb, 2 * g.wb, 1, dtype=kind, device=small.device)
    note = _note(out, relu, sums, blocks * made.threads // 32)
    flags = {"RELU": relu, "BIAS": bias is not None, "MASK": _kind(mask), "SUMS": sums}
    macros = _macros(g, made, **flags, HEAD=head is not None, OUT32=precise)
    kernel(made.kernel, macros, made.shared, device)(
        (blocks, members), made.threads, small, weight, bias, mask, head, head_bias, out, note, folded,
        Wide(small.stride(0)), images, *_mask(mask),
    )  # fmt: skip
    return out, note, folded


def weight(small: Tensor, big: Tensor, g: Geometry) -> Tensor:
    """The gradient of the weights, in parts, one for each block."""
    device = small.device.index or 0
    small, big = whole(small), whole(big)
    members, images = small.shape[:2]
    made = _made(g, "weight", device).balanced(members, images, _device(device)[0])
    blocks = _blocks(made, members, images, device)
    out = torch.empty(blocks, members, 16 * g.cb, g.cs, dtype=torch.float32, device=small.device)
    kernel(made.kernel, _macros(g, made), made.shared, device)(
        (blocks, members), made.threads, small, big, out, Wide(small.stride(0)), Wide(big.stride(0)), images,
    )  # fmt: skip
    return out


def tail(
    small: Tensor, weight: Tensor, head: Tensor, mask: Tensor, before: Tensor, u: Tensor, g: Geometry, p: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The output t, and the gradients of the sum of u |t|^p: of the input, and of both layers' weights in parts."""
    device = small.device.index or 0
    made = _made(g, "tail", device)
    small, u = whole(small), whole(u)
    members, images = small.shape[:2]
    blocks = _blocks(made, members, images, device)
    t, slope = small.new_empty(members, images, 64, 64, 1), torch.empty_like(small)
    out = torch.empty(blocks, members, 512, 32, dtype=torch.float32, device=small.device)
    head_out = torch.empty(blocks * made.threads // 32, members, 16, 32, dtype=torch.float32, device=small.device)
    kernel(made.kernel, _macros(g, made, MASK=1, POWER=p), made.shared, device)(
        (blocks, members), made.threads, small, weight, head, mask, before, u, t, slope, out, head_out,
        Wide(small.stride(0)), images, *_mask(mask), *_mask(before)[1:], Wide(u.stride(0)), Wide(u.stride(1)),
    )  # fmt: skip
    return t, slope, out, head_out


def _macros(g: Geometry, made: Cut, **more: int) -> tuple[tuple[str, int], ...]:
    sizes = {"HB": g.hb, "WB": g.wb, "CB": g.cb, "HS": g.hs, "WS": g.ws, "CS": g.cs, "PAD": g.padding}
    tile = {"IM": made.many, "TI": made.high, "THREADS": made.threads, "STAGES": made.stages, "SHARED": made.shared}
    flags = {"RELU": 0, "BIAS": 0, "MASK": 0, "SUMS": 0, "HEAD": 0, "OUT32": 0}
    return tuple({**sizes, **tile, **flags, **{key: int(value) for key, value in more.items()}}.items())


def _mask(mask: Tensor | None) -> tuple[int, Wide, Wide]:
    """How many images a mask has, and how many channels apart members and images are."""
    each = 8 if _kind(mask) == 1 else 1
    images, members, one = apart(mask)
    return images, Wide(members * each), Wide(one * each)


def _kind(mask: Tensor | None) -> int:
    """What a mask is for the kernels: none, bits, or the output of a ReLU."""
    return 0 if mask is None else 1 if mask.dtype == torch.uint8 else 2


def _note(out: Tensor, relu: bool, sums: bool, parts: int) -> Tensor:
    """Room for what is noted of an output: with a ReLU a bit for each number that is not zero, or channels' sums."""
    if sums:
        return torch.empty(out.shape[0], parts, out.shape[-1], dtype=torch.float32, device=out.device)
    return out.new_empty((*out.shape[:-1], out.shape[-1] // 8 if relu else 0), dtype=torch.uint8)

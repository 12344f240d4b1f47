"""The kernels as torch operators: opaque to a tracer, with shapes known without running them.

On a GPU bfloat16 goes to the CUDA kernels where they serve (`serves`), everything else to Triton's; other
devices have the plain torch of `reference`. Who makes the output of a ReLU also says where it is not zero,
as bits, if it is the CUDA kernels.
"""

# Without postponed annotations: an operator's schema is made from them.
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from untwine.kernels import reference
from untwine.kernels.geometry import Geometry
from untwine.kernels.tiling import LAST


def serves(x: Tensor, g: Geometry, what: str) -> bool:
    """Whether the CUDA kernels do this: `down`, `up`, `fold`, `weight` or `tail` of a convolution."""
    if not x.is_cuda or x.dtype != torch.bfloat16 or torch.cuda.get_device_capability(x.device) < (8, 0):
        return False
    return _cuda().cut(g, what, x.device.index or 0) is not None


def folds(x: Tensor, g: Geometry, last: Geometry) -> bool:
    """Whether the CUDA kernels do an `up` together with the `last` one, which must double the sides, to one channel."""
    doubled = Geometry(2 * g.hb, 2 * g.wb, 1, g.hb, g.wb, g.cb, kernel=4, stride=2, padding=1)
    return last == doubled and serves(x, g, "fold")


def has_tail(x: Tensor, g: Geometry, last: Geometry, known: bool) -> bool:
    """Whether the last two layers can be done with their norm at once; `known` says that masks are there as bits."""
    if not x.is_cuda:
        return last.cb == 1
    return known and last == LAST and serves(x, g, "tail")


def _cuda():  # a module, which is imported where there is a GPU
    from untwine.kernels import cuda_launch as cuda

    return cuda


def _kernels(x: Tensor):  # one of two modules
    if not x.is_cuda:
        return reference
    from untwine.kernels import triton_launch as launch

    return launch


def _precise(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _noted(out: Tensor, sums: bool) -> Tensor:
    """What is noted of an output that other kernels than those of CUDA made: its channels' sums, or nothing."""
    return out.sum((2, 3), dtype=_precise(out)) if sums else _room(out, False)


def _room(out: Tensor, known: bool) -> Tensor:
    """Room for the bits of an output."""
    return out.new_empty((*out.shape[:-1], out.shape[-1] // 8 if known else 0), dtype=torch.uint8)


def _faked(x: Tensor, out: Tensor, g: Geometry, what: str, relu: bool, sums: bool) -> tuple[Tensor, Tensor]:
    """An output and its note, without their content."""
    cuda = serves(x, g, what)
    if not sums:
        return out, _room(out, relu and cuda)
    parts = _cuda().note_parts(g, what, x.shape[0], x.shape[1], x.device.index or 0) if cuda else x.shape[1]
    return out, out.new_empty(out.shape[0], parts, out.shape[-1], dtype=_precise(out))


@torch.library.custom_op("untwine::down", mutates_args=())
def down(
    big: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None, geometry: list[int], relu: bool, sums: bool
) -> tuple[Tensor, Tensor]:
    """The small image from the big one; and with `sums` those of its channels, in parts, or where it is not zero."""
    g = Geometry(*geometry)
    with torch.cuda.device_of(big):
        if serves(big, g, "down"):
            return _cuda().down(big, weight, bias, mask, g, relu, sums)
        out = _kernels(big).down(big, weight, bias, mask, g, relu)
        return out, _noted(out, sums)


@down.register_fake
def _(big, weight, bias, mask, geometry, relu, sums):
    g = Geometry(*geometry)
    return _faked(big, big.new_empty(*big.shape[:2], g.hs, g.ws, g.cs), g, "down", relu, sums)


@torch.library.custom_op("untwine::up", mutates_args=())
def up(
    small: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None, geometry: list[int], relu: bool, sums: bool
) -> tuple[Tensor, Tensor]:
    """The big image from the small one; and with `sums` those of its channels, in parts, or where it is not zero."""
    g = Geometry(*geometry)
    with torch.cuda.device_of(small):
        if serves(small, g, "up"):
            return _cuda().up(small, weight, bias, mask, g, relu, sums)[:2]
        out = _kernels(small).up(small, weight, bias, mask, None, g, relu)[0]
        return out, _noted(out, sums)


@up.register_fake
def _(small, weight, bias, mask, geometry, relu, sums):
    g = Geometry(*geometry)
    return _faked(small, small.new_empty(*small.shape[:2], g.hb, g.wb, g.cb), g, "up", relu, sums)


@torch.library.custom_op("untwine::up_fold", mutates_args=())
def up_fold(
    small: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    head: Tensor,
    head_bias: Tensor | None,
    geometry: list[int],
    last: list[int],
    relu: bool,
    precise: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """`up`, and what the next `up`, to few channels, makes of it: in float32 if it is to be `precise`."""
    g, after = Geometry(*geometry), Geometry(*last)
    with torch.cuda.device_of(small):
        if folds(small, g, after):
            out, bits, folded = _cuda().up(small, weight, bias, mask, g, relu, False, head, head_bias, precise)
            assert folded is not None
            return out, bits, folded
        kernels = _kernels(small)
        out, taps = kernels.up(small, weight, bias, mask, head, g, relu)
        return out, _room(out, False), kernels.fold(taps, head_bias, after, precise)


@up_fold.register_fake
def _(small, weight, bias, mask, head, head_bias, geometry, last, relu, precise):
    g, after = Geometry(*geometry), Geometry(*last)
    out = small.new_empty(*small.shape[:2], g.hb, g.wb, g.cb)
    kind = _precise(small) if precise else small.dtype
    folded = small.new_empty(*small.shape[:2], after.hb, after.wb, after.cb, dtype=kind)
    return out, _room(out, relu and folds(small, g, after)), folded


def _laid(members: int, x: Tensor, g: Geometry) -> Tensor:
    """Room for the gradient of the weights."""
    return x.new_empty(members, g.cs, g.cb, g.kernel, g.kernel, dtype=_precise(x))


@torch.library.custom_op("untwine::weight", mutates_args=())
def weight(small: Tensor, big: Tensor, geometry: list[int]) -> Tensor:
    """The gradient of the weights: `[members, cs, cb, k, k]`."""
    g = Geometry(*geometry)
    with torch.cuda.device_of(small):
        made = _cuda() if serves(small, g, "weight") else _kernels(small)
        return _kernels(small).gradient(made.weight(small, big, g), g)


@weight.register_fake
def _(small, big, geometry):
    return _laid(small.shape[0], small, Geometry(*geometry))


def joined(count: int, tensors: Sequence[Any], places: Sequence[Any]) -> list[Any]:
    """The members of a map and those that tensors have already as one first dimension; other arguments as they are."""
    found = []
    for tensor, place in zip(tensors, places, strict=True):
        if isinstance(tensor, Tensor):
            whole = tensor.expand(count, *tensor.shape) if place is None else tensor.movedim(place, 0)
            tensor = whole.flatten(0, 1)
        found.append(tensor)
    return found


def _mapped(operator: Any) -> None:
    """Teach an operator vmap: the members of a map are members."""

    def rule(info: Any, in_dims: tuple[Any, ...], *given: Any) -> tuple[Any, Any]:
        whole = joined(info.batch_size, given, in_dims)
        found = operator(*(one.contiguous() if isinstance(one, Tensor) else one for one in whole))
        if isinstance(found, Tensor):
            return found.unflatten(0, (info.batch_size, -1)), 0
        return tuple(one.unflatten(0, (info.batch_size, -1)) for one in found), (0,) * len(found)

    operator.register_vmap(rule)


for _operator in (down, up, up_fold, weight):
    _mapped(_operator)


@torch.library.custom_op("untwine::tail", mutates_args=())
def tail(
    small: Tensor,
    weight: Tensor,
    head: Tensor,
    mask: Tensor,
    before: Tensor,
    u: Tensor,
    geometry: list[int],
    last: list[int],
    p: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The output t of the last two layers, and the gradients of the sum of u |t|^p.

    These are of the input, and of the weights of both layers. On a GPU the weights come laid out.
    """
    g, after = Geometry(*geometry), Geometry(*last)
    with torch.cuda.device_of(small):
        if small.is_cuda:
            t, slope, parts, heads = _cuda().tail(small, weight, head, mask, before, u, g, p)
        else:
            t, slope, parts, heads = reference.tail(small, weight, head, mask, before, u, g, after, p)
        kernels = _kernels(small)
        return t, slope, kernels.gradient(parts, g), kernels.gradient(heads, after)


@tail.register_fake
def _(small, weight, head, mask, before, u, geometry, last, p):
    g, after = Geometry(*geometry), Geometry(*last)
    members, images = small.shape[:2]
    return (
        small.new_empty(members, images, after.hb, after.wb, after.cb),
        small.new_empty(small.shape),
        _laid(members, small, g),
        _laid(members, small, after),
    )


OPERATORS = (down, up, up_fold, weight, tail)

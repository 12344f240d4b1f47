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


def serves(x: Tensor, g: Geometry, what: str) -> bool:
    """Whether the CUDA kernels do this: `down`, `up`, `fold` or `weight` of a convolution."""
    if not x.is_cuda or x.dtype != torch.bfloat16 or torch.cuda.get_device_capability(x.device) < (8, 0):
        return False
    from untwine.kernels import cuda

    return cuda.tile(g, what) is not None


def folds(x: Tensor, g: Geometry, last: Geometry) -> bool:
    """Whether the CUDA kernels do an `up` together with the `last` one, which must double the sides, to one channel."""
    doubled = Geometry(2 * g.hb, 2 * g.wb, 1, g.hb, g.wb, g.cb, kernel=4, stride=2, padding=1)
    return last == doubled and serves(x, g, "fold")


def has_tail(x: Tensor, g: Geometry, last: Geometry, known: bool) -> bool:
    """Whether the last two layers can be done with their norm at once; `known` says that masks are there as bits."""
    if not x.is_cuda:
        return last.cb == 1
    from untwine.kernels import cuda

    return known and serves(x, g, "fold") and cuda.has_tail(g, last)


def _kernels(x: Tensor):  # one of two modules
    if not x.is_cuda:
        return reference
    from untwine.kernels import launch

    return launch


def _bits(out: Tensor, known: bool) -> Tensor:
    return out.new_empty((*out.shape[:-1], out.shape[-1] // 8 if known else 0), dtype=torch.uint8)


@torch.library.custom_op("untwine::down", mutates_args=())
def down(
    big: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None, geometry: list[int], relu: bool
) -> tuple[Tensor, Tensor]:
    """The small image from the big one, and where it is not zero."""
    g = Geometry(*geometry)
    if serves(big, g, "down"):
        from untwine.kernels import cuda

        return cuda.down(big, weight, bias, mask, g, relu)
    out = _kernels(big).down(big, weight, bias, mask, g, relu)
    return out, _bits(out, False)


@down.register_fake
def _(big, weight, bias, mask, geometry, relu):
    g = Geometry(*geometry)
    out = big.new_empty(*big.shape[:2], g.hs, g.ws, g.cs)
    return out, _bits(out, relu and serves(big, g, "down"))


@torch.library.custom_op("untwine::up", mutates_args=())
def up(
    small: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None, geometry: list[int], relu: bool
) -> tuple[Tensor, Tensor]:
    """The big image from the small one, and where it is not zero."""
    g = Geometry(*geometry)
    if serves(small, g, "up"):
        from untwine.kernels import cuda

        return cuda.up(small, weight, bias, mask, g, relu)[:2]
    out = _kernels(small).up(small, weight, bias, mask, None, g, relu)[0]
    return out, _bits(out, False)


@up.register_fake
def _(small, weight, bias, mask, geometry, relu):
    g = Geometry(*geometry)
    out = small.new_empty(*small.shape[:2], g.hb, g.wb, g.cb)
    return out, _bits(out, relu and serves(small, g, "up"))


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
    if folds(small, g, after):
        from untwine.kernels import cuda

        out, bits, folded = cuda.up(small, weight, bias, mask, g, relu, head, head_bias, precise)
        assert folded is not None
        return out, bits, folded
    kernels = _kernels(small)
    out, taps = kernels.up(small, weight, bias, mask, head, g, relu)
    return out, _bits(out, False), kernels.fold(taps, head_bias, after, precise)


@up_fold.register_fake
def _(small, weight, bias, mask, head, head_bias, geometry, last, relu, precise):
    g, after = Geometry(*geometry), Geometry(*last)
    out = small.new_empty(*small.shape[:2], g.hb, g.wb, g.cb)
    kind = torch.promote_types(small.dtype, torch.float32) if precise else small.dtype
    folded = small.new_empty(*small.shape[:2], after.hb, after.wb, after.cb, dtype=kind)
    return out, _bits(out, relu and folds(small, g, after)), folded


@torch.library.custom_op("untwine::weight", mutates_args=())
def weight(small: Tensor, big: Tensor, geometry: list[int]) -> Tensor:
    """The gradient of the weights, in parts that are to be added."""
    g = Geometry(*geometry)
    if serves(small, g, "weight"):
        from untwine.kernels import cuda

        return cuda.weight(small, big, g)
    return _kernels(small).weight(small, big, g)


@weight.register_fake
def _(small, big, geometry):
    g = Geometry(*geometry)
    if serves(small, g, "weight"):
        from untwine.kernels import cuda

        parts = cuda.parts(small.shape[0], small.shape[1], g, small.device.index)
    else:
        parts = _kernels(small).parts(small.shape, small.element_size(), g)
    kind = torch.promote_types(small.dtype, torch.float32)
    return small.new_empty(parts, small.shape[0], g.kernel**2 * g.cb, g.cs, dtype=kind)


def joined(count: int, tensors: Sequence[Any], places: Sequence[Any]) -> list[Any]:
    """The members of a map and those that tensors have already as one first dimension; other arguments as they are."""
    found = []
    for tensor, place in zip(tensors, places, strict=True):
        if isinstance(tensor, Tensor):
            whole = tensor.expand(count, *tensor.shape) if place is None else tensor.movedim(place, 0)
            tensor = whole.flatten(0, 1)
        found.append(tensor)
    return found


def _mapped(operator: Any, place: int = 0) -> None:
    """Teach an operator vmap: the members of a map are members. `place` is where they are in what it gives."""

    def rule(info: Any, in_dims: tuple[Any, ...], *given: Any) -> tuple[Any, Any]:
        whole = joined(info.batch_size, given, in_dims)
        found = operator(*(one.contiguous() if isinstance(one, Tensor) else one for one in whole))
        if isinstance(found, Tensor):
            return found.unflatten(place, (info.batch_size, -1)), place
        return tuple(one.unflatten(place, (info.batch_size, -1)) for one in found), (place,) * len(found)

    operator.register_vmap(rule)


for _operator in (down, up, up_fold):
    _mapped(_operator)
_mapped(weight, 1)


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

    These are of the input, and, in parts, of the weights of both layers. On a GPU the weights come laid out.
    """
    g = Geometry(*geometry)
    if not small.is_cuda:
        return reference.tail(small, weight, head, mask, before, u, g, Geometry(*last), p)
    from untwine.kernels import cuda

    return cuda.tail(small, weight, head, mask, before, u, g, p)


@tail.register_fake
def _(small, weight, head, mask, before, u, geometry, last, p):
    g, after = Geometry(*geometry), Geometry(*last)
    members, images = small.shape[:2]
    parts, heads = 1, 1
    if small.is_cuda:
        from untwine.kernels import cuda

        parts, heads = cuda.tail_parts(members, images, small.device.index)
    kind = torch.promote_types(small.dtype, torch.float32)
    return (
        small.new_empty(members, images, after.hb, after.wb, after.cb),
        small.new_empty(small.shape),
        small.new_empty(parts, members, 16 * g.cb, g.cs, dtype=kind),
        small.new_empty(heads, members, 16 * after.cb, after.cs, dtype=kind),
    )

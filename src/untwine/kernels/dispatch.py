"""Where layers run as kernels of a whole pack: convolutions in a row become one stage.

`with fast():` makes `stages` join what the kernels can do, and has dense layers whose gradients lie as their weights
do; everything else stays an ordinary layer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from untwine.kernels.layers import torch_type

if TYPE_CHECKING:
    from untwine.kernels.autograd import Plan

_FAST: ContextVar[bool] = ContextVar("fast", default=False)


@contextlib.contextmanager
def fast() -> Iterator[None]:
    """Let convolutions run as kernels, in what is called inside."""
    token = _FAST.set(True)
    try:
        yield
    finally:
        _FAST.reset(token)


def is_fast() -> bool:
    return _FAST.get()


def fits(layer: nn.Module) -> bool:
    """Whether the kernels can do this layer: a convolution with square kernels, of one group, without dilation."""
    if torch_type(layer) not in (nn.Conv2d, nn.ConvTranspose2d):
        return False
    assert isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)
    same = all(len(set(pair)) == 1 for pair in (layer.kernel_size, layer.stride, layer.padding))
    return (
        layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
        and same
        and layer.groups == 1
        and set(layer.dilation) == {1}
        and layer.stride[0] <= layer.kernel_size[0]
        and layer.kernel_size[0] * max(layer.in_channels, layer.out_channels) <= 1024
    )


def stages(layers: Sequence[nn.Module]) -> list[nn.Module]:
    """The same layers, those in a row that the kernels can do joined."""
    if not is_fast():
        return list(layers)
    found: list[nn.Module] = []
    place = 0
    while place < len(layers):
        stop = place
        while stop < len(layers) and fits(layers[stop]):
            stop += 1 + (stop + 1 < len(layers) and type(layers[stop + 1]) is nn.ReLU)
            if type(layers[stop - 1]) is not nn.ReLU:
                break  # without a ReLU in between there is no mask to share
        if stop > place:
            found.append(Stage(layers[place:stop]))
        else:
            layer = layers[place]
            found.append(Dense(layer) if isinstance(layer, nn.Linear) and torch_type(layer) is nn.Linear else layer)
        place = max(stop, place + 1)
    return found


class Stage(nn.Module):
    """Convolutions in a row, each but the last with a ReLU behind it."""

    def __init__(self, layers: Sequence[nn.Module]):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def _plan(self, shape: Sequence[int], tangents: bool) -> Plan:
        from untwine.kernels.autograd import Link, Plan
        from untwine.kernels.geometry import Geometry

        links, (height, width) = [], shape
        layers = list(self.layers)
        for number, layer in enumerate(layers):
            if type(layer) is nn.ReLU:
                continue
            assert isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)
            relu = number + 1 < len(layers) and type(layers[number + 1]) is nn.ReLU
            kernel, stride, padding = layer.kernel_size[0], layer.stride[0], int(layer.padding[0])
            here = height, width
            if isinstance(layer, nn.ConvTranspose2d):
                height, width = (
                    (n - 1) * stride - 2 * padding + kernel + o for n, o in zip(here, layer.output_padding, strict=True)
                )
                sizes = height, width, layer.out_channels, *here, layer.in_channels
            else:
                height, width = ((n + 2 * padding - kernel) // stride + 1 for n in here)
                sizes = *here, layer.in_channels, height, width, layer.out_channels
            links.append(Link(Geometry(*sizes, kernel, stride, padding), isinstance(layer, nn.ConvTranspose2d), relu))
        return Plan(tuple(links), tangents)

    def _run(self, x: Tensor, rest: Sequence[Tensor | None], tangents: bool) -> list[Tensor]:
        from untwine.kernels.autograd import Chain

        plan = self._plan(x.shape[2:], tangents)
        return list(Chain.apply(plan, _inside(x), *self._weights(), *rest))  # type: ignore[no-untyped-call]

    def _convolutions(self) -> list[nn.Conv2d | nn.ConvTranspose2d]:
        return [layer for layer in self.layers if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)]

    def _weights(self) -> list[Tensor]:
        return [layer.weight[None] for layer in self._convolutions()]

    def trace(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The output, and what tangents need: the outputs of the ReLUs (channels last), and where they are not zero."""
        biases = [None if layer.bias is None else layer.bias[None] for layer in self._convolutions()]
        output, *kept = self._run(x, biases, tangents=False)
        return output[0].permute(0, 3, 1, 2), tuple(kept)

    def forward(self, x: Tensor) -> Tensor:
        return self.trace(x)[0]

    def norm(self, masks: Sequence[Tensor], tangents: Tensor, u: Tensor, p: int) -> Tensor | None:
        """The sum of u |t|^p over tangents t behind the stage, `u` being `[batch, ...]`; None where `push` must do."""
        from untwine.kernels import operators
        from untwine.kernels.autograd import Norm

        plan, half = self._plan(tangents.shape[3:], True), len(masks) // 2
        if not plan.folds or half < 2 or len(plan.links) != half + 1:
            return None
        x, (before, last) = _inside(tangents.flatten(0, 1)), (link.geometry for link in plan.links[-2:])
        known = all(bits.shape[-1] > 0 for bits in masks[-2:])
        if not operators.has_tail(x, before, last, known):
            return None
        return Norm.apply(plan.links, p, x, *self._weights(), *masks, u[None, :, 0])[0][0]  # type: ignore[no-untyped-call]

    def push(self, masks: Sequence[Tensor], tangents: Tensor) -> Tensor:
        """Tangents `[columns, batch, ...]` behind the stage."""
        found = self._run(tangents.flatten(0, 1), masks, tangents=True)[0]
        return found[0].permute(0, 3, 1, 2).unflatten(0, tangents.shape[:2])


class Dense(nn.Module):
    """A dense layer."""

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        made = _product(x, self.layer.weight)
        return made if self.layer.bias is None else made + self.layer.bias  # in float32, as vmap has it

    def push(self, kept: Sequence[Tensor], tangents: Tensor) -> Tensor:
        """Tangents `[columns, batch, ...]` behind the layer."""
        return _product(tangents, self.layer.weight)


class _Product(torch.autograd.Function):
    """`x @ w.T`, with a gradient of w that is made as it lies: torch makes its transpose, which is then turned."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, w: Tensor) -> Tensor:
        return x @ w.mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (x, w), [g] = ctx.saved_tensors, gradients
        return g @ w, g.flatten(0, -2).mT @ x.flatten(0, -2)


def _product(x: Tensor, w: Tensor) -> Tensor:
    kind = _precision(x)
    return _Product.apply(x.to(kind), w.to(kind))


def _precision(x: Tensor) -> torch.dtype:
    """Of the pass."""
    return torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype


def _inside(x: Tensor) -> Tensor:
    """Images as the kernels want them: one member, channels last, in the precision of the pass."""
    return x.permute(0, 2, 3, 1)[None].to(_precision(x)).contiguous()

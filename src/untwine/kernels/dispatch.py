"""Which layers of a network run as kernels for all members of a pack.

Inside `with fast():`, `stages` joins successive convolutions that the kernels support into one `Stage`, and replaces
dense layers by `Dense`, whose weight gradient needs no transposition; all other layers stay as they are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from untwine.kernels import norm_operators
from untwine.kernels.chains.autograd import Chain, ChainNorm
from untwine.kernels.chains.differences import DifferenceChain, DifferenceNorm
from untwine.kernels.chains.links import Link, Plan, known_values
from untwine.kernels.geometry import Geometry
from untwine.kernels.layers import torch_type

_FAST: ContextVar[bool] = ContextVar("fast", default=False)


@contextlib.contextmanager
def fast() -> Iterator[None]:
    """Let `stages` use the kernels inside this context."""
    token = _FAST.set(True)
    try:
        yield
    finally:
        _FAST.reset(token)


def is_fast() -> bool:
    """Whether this is inside of `with fast():`."""
    return _FAST.get()


def _is_supported(layer: nn.Module) -> bool:
    """Whether the kernels support a layer: a convolution with square kernels, of one group, without dilation."""
    if torch_type(layer) not in (nn.Conv2d, nn.ConvTranspose2d):
        return False
    assert isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)
    square = all(len(set(pair)) == 1 for pair in (layer.kernel_size, layer.stride, layer.padding))
    return (
        layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
        and square
        and layer.groups == 1
        and set(layer.dilation) == {1}
        and layer.stride[0] <= layer.kernel_size[0]
        and layer.kernel_size[0] * max(layer.in_channels, layer.out_channels) <= 1024
    )


def stages(layers: Sequence[nn.Module]) -> list[nn.Module]:
    """The layers as modules to run one after the other; inside of `fast`, those that the kernels support are joined."""
    if not is_fast():
        return list(layers)
    joined: list[nn.Module] = []
    start = 0
    while start < len(layers):
        stop = start
        while stop < len(layers) and _is_supported(layers[stop]):
            stop += 1 + (stop + 1 < len(layers) and type(layers[stop + 1]) is nn.ReLU)
            if type(layers[stop - 1]) is not nn.ReLU:
                break  # without a ReLU in between there is no mask to share
        if stop > start:
            joined.append(Stage(layers[start:stop]))
        else:
            layer = layers[start]
            joined.append(Dense(layer) if isinstance(layer, nn.Linear) and torch_type(layer) is nn.Linear else layer)
        start = max(stop, start + 1)
    return joined


class Stage(nn.Module):
    """Successive convolutions, each followed by a ReLU, except perhaps the last."""

    def __init__(self, layers: Sequence[nn.Module]):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def _plan(self, shape: Sequence[int], tangents: bool) -> Plan:
        """The chain for images of this height and width."""
        links, (height, width) = [], shape
        layers = list(self.layers)
        for number, layer in enumerate(layers):
            if type(layer) is nn.ReLU:
                continue
            assert isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)
            relu = number + 1 < len(layers) and type(layers[number + 1]) is nn.ReLU
            kernel, stride, padding = layer.kernel_size[0], layer.stride[0], int(layer.padding[0])
            size = height, width
            if isinstance(layer, nn.ConvTranspose2d):
                height, width = (
                    (n - 1) * stride - 2 * padding + kernel + o for n, o in zip(size, layer.output_padding, strict=True)
                )
                sizes = height, width, layer.out_channels, *size, layer.in_channels
            else:
                height, width = ((n + 2 * padding - kernel) // stride + 1 for n in size)
                sizes = *size, layer.in_channels, height, width, layer.out_channels
            links.append(Link(Geometry(*sizes, kernel, stride, padding), isinstance(layer, nn.ConvTranspose2d), relu))
        return Plan(tuple(links), tangents)

    def _apply_chain(
        self, x: Tensor, rest: Sequence[Tensor | None], tangents: bool, finite: bool = False
    ) -> list[Tensor]:
        plan = replace(self._plan(x.shape[2:], tangents), finite=finite)
        return list(Chain.apply(plan, _to_kernel_layout(x), *self._weights(), *rest))  # type: ignore[no-untyped-call]

    def _convolutions(self) -> list[nn.Conv2d | nn.ConvTranspose2d]:
        return [layer for layer in self.layers if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d)]

    def _weights(self) -> list[Tensor]:
        return [layer.weight[None] for layer in self._convolutions()]

    def _relus(self) -> int:
        """The number of ReLUs; `trace` keeps an output and its bits for each, and with `finite` an input."""
        return sum(type(layer) is nn.ReLU for layer in self.layers)

    def trace(self, x: Tensor, finite: bool = False) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The output, and the masks that tangents need: the outputs of the ReLUs (channels last), then their bits.

        In the place of the output of a ReLU there may be its input, which is positive at the same places.

        Args:
            x: The input.
            finite: Whether to keep what finite differences need too: the inputs of the ReLUs.
        """
        biases = [None if layer.bias is None else layer.bias[None] for layer in self._convolutions()]
        output, *kept = self._apply_chain(x, biases, tangents=False, finite=finite)
        relus = self._relus()
        kept[:relus] = known_values(kept[:relus], kept[2 * relus :])
        return output[0].permute(0, 3, 1, 2), tuple(kept)

    def forward(self, x: Tensor) -> Tensor:
        return self.trace(x)[0]

    def norm(self, masks: Sequence[Tensor], tangents: Tensor, u: Tensor, p: int) -> Tensor | None:
        """The sum of u |t|^p over the tangents t behind the stage; None where no kernel does it and `push` must.

        Args:
            masks: The masks of the pass, from `trace`.
            tangents: Tangents in front of the stage, `[columns, batch, ...]`.
            u: A weight for each number of the output, `[batch, ...]`.
            p: 1 or 2.
        """
        links = self._links_of_norm(masks, tangents)
        if links is None:
            return None
        given = (*self._weights(), *masks[: 2 * self._relus()], u[None, :, 0])
        return ChainNorm.apply(links, p, _flat(tangents), *given)[0][0]  # type: ignore[no-untyped-call]

    def sigmoid_difference_norm(
        self, kept: Sequence[Tensor], differences: Tensor, logits: Tensor, p: int
    ) -> Tensor | None:
        """The sum of |sigmoid(logits + d) - sigmoid(logits)|^p over the differences d behind the stage.

        It is None where no kernel does it and `push_differences` must.

        Args:
            kept: What the pass kept, from `trace` with `finite`.
            differences: Differences in front of the stage, `[columns, batch, ...]`.
            logits: The output of the stage, `[batch, ...]`.
            p: 1 or 2.
        """
        links = self._links_of_norm(kept, differences)
        if links is None:
            return None
        given = (*self._weights(), *kept, logits[None, :, 0])
        return DifferenceNorm.apply(links, p, _flat(differences), *given)[0][0]  # type: ignore[no-untyped-call]

    def _links_of_norm(self, kept: Sequence[Tensor], tangents: Tensor) -> tuple[Link, ...] | None:
        """The links, if a kernel does the last two and a norm at once."""
        plan, relus = self._plan(tangents.shape[3:], True), self._relus()
        if not plan.folds or relus < 2 or len(plan.links) != relus + 1:
            return None
        before, last = (link.geometry for link in plan.links[-2:])
        has_bits = all(bits.shape[-1] > 0 for bits in kept[relus : 2 * relus][-2:])
        x = tangents.new_empty(0, dtype=_autocast_dtype(tangents))
        return plan.links if norm_operators.has_tangent_norm(x, before, last, has_bits) else None

    def push(self, masks: Sequence[Tensor], tangents: Tensor) -> Tensor:
        """The tangents behind the stage.

        Args:
            masks: The masks of the pass, from `trace`.
            tangents: Tangents in front of the stage, `[columns, batch, ...]`.
        """
        pushed = self._apply_chain(tangents.flatten(0, 1), masks[: 2 * self._relus()], tangents=True)[0]
        return pushed[0].permute(0, 3, 1, 2).unflatten(0, tangents.shape[:2])

    def push_differences(self, kept: Sequence[Tensor], differences: Tensor) -> Tensor:
        """The finite differences behind the stage.

        Args:
            kept: What the pass kept, from `trace` with `finite`.
            differences: Differences in front of the stage, `[columns, batch, ...]`.
        """
        links = self._plan(differences.shape[3:], True).links
        pushed = DifferenceChain.apply(links, _flat(differences), *self._weights(), *kept)[0]  # type: ignore[no-untyped-call]
        return pushed[0].permute(0, 3, 1, 2).unflatten(0, differences.shape[:2])


class Dense(nn.Module):
    """A dense layer whose weight gradient is computed in the layout of the weights."""

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        product = _product(x, self.layer.weight)
        return product if self.layer.bias is None else product + self.layer.bias  # in float32, as under vmap

    def push(self, masks: Sequence[Tensor], tangents: Tensor) -> Tensor:
        """The tangents behind the layer.

        Args:
            masks: Not used: a dense layer has none.
            tangents: Tangents in front of the layer, `[columns, batch, ...]`.
        """
        return _product(tangents, self.layer.weight)

    push_differences = push  # the layer is linear


class _Product(torch.autograd.Function):
    """`x @ w.T`, with the gradient of w computed in its layout; torch computes the transpose and transposes it."""

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
    dtype = _autocast_dtype(x)
    return _Product.apply(x.to(dtype), w.to(dtype))


def _autocast_dtype(x: Tensor) -> torch.dtype:
    """The dtype that autocast computes in on the device of x, or the dtype of x without autocast."""
    return torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype


def _flat(tangents: Tensor) -> Tensor:
    """Tangents `[columns, batch, ...]` as images in the layout of the kernels."""
    return _to_kernel_layout(tangents.flatten(0, 1))


def _to_kernel_layout(x: Tensor) -> Tensor:
    """Images in the layout of the kernels: one member, channels last, in the dtype of autocast."""
    return x.permute(0, 2, 3, 1)[None].to(_autocast_dtype(x)).contiguous()

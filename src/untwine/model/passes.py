"""The forward pass of a network, layer by layer, and tangents or finite differences pushed forward through it.

Known layers use their rule (a ReLU's tangent shares the primal's mask), any other module `torch.func.jvp`, or its
outputs at both ends of a difference. All of it is ordinary torch code, so one backward pass gives the gradients of any
function of what is pushed.

Differences that are pushed are g(z + d) - g(z), with its gradient, kinks included. But no two large numbers are
subtracted, so that a small step needs no more precision than a tangent does.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from untwine.errors import UntwineError
from untwine.kernels.dispatch import Dense, Stage, stages
from untwine.model.layers import difference_rule, rule


@dataclass(frozen=True)
class Trace:
    """The forward pass of a decoder, layer by layer, through which tangents can be pushed; differences if `finite`."""

    layers: tuple[nn.Module, ...]
    values: tuple[Tensor, ...]  # the input of each layer, then the output of the last
    kept: tuple[tuple[Tensor, ...], ...]  # what else is needed: the masks of a stage, `[1, batch, ...]`
    finite: bool = False

    @property
    def output(self) -> Tensor:
        return self.values[-1]

    def then(self, layer: nn.Module) -> Trace:
        """The trace continued by one more layer."""
        value, kept = _apply(layer, self.values[-1], self.finite)
        return replace(self, layers=(*self.layers, layer), values=(*self.values, value), kept=(*self.kept, kept))

    def shorter(self) -> Trace:
        """The trace without its last layer."""
        return replace(self, layers=self.layers[:-1], values=self.values[:-1], kept=self.kept[:-1])

    def at(self, places: slice) -> Trace:
        """The pass of some examples of the batch."""
        kept = tuple(tuple(mask[:, places] for mask in masks) for masks in self.kept)
        return replace(self, values=tuple(value[places] for value in self.values), kept=kept)


def flatten(module: nn.Module) -> list[nn.Module]:
    """A module as a list of layers; only plain `nn.Sequential`s are taken apart."""
    if type(module) is nn.Sequential:
        return [layer for child in module for layer in flatten(child)]
    return [module]


def _apply(layer: nn.Module, x: Tensor, finite: bool = False) -> tuple[Tensor, tuple[Tensor, ...]]:
    return layer.trace(x, finite) if isinstance(layer, Stage) else (layer_value(layer, x), ())


def layer_value(layer: nn.Module, x: Tensor) -> Tensor:
    """A layer's output; one that works in place gets a copy, since a trace keeps its input (and jvp its tangent)."""
    return layer(x.clone() if any(getattr(inner, "inplace", False) for inner in layer.modules()) else x)


def applied(network: nn.Module, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
    """The output of a network, computed as `trace` computes it, without keeping anything."""
    for layer in stages(flatten(network)):
        x = _apply(layer, x)[0]
    return x


def trace(decoder: nn.Module, z: Float[Tensor, "batch ..."], finite: bool = False) -> Trace:
    """Run a network, and keep what tangents need.

    Args:
        decoder: The network.
        z: Its input.
        finite: Whether to keep what finite differences need too.
    """
    passed = Trace((), (z,), (), finite)
    for layer in stages(flatten(decoder)):
        passed = passed.then(layer)
    return passed


def _push(
    layers: Sequence[nn.Module],
    values: Sequence[Tensor],
    kept: Sequence[Sequence[Tensor]],
    tangents: Tensor,
    finite: bool,
) -> Tensor:
    if not by_kernels(layers):  # tangents keep their precision (float32) even where the pass ran in bfloat16
        values = [value.to(tangents.dtype) for value in values]
    for layer, x, y, masks in zip(layers, values[:-1], values[1:], kept, strict=True):
        if isinstance(layer, Stage | Dense):
            tangents = layer.push_differences(masks, tangents) if finite else layer.push(masks, tangents)
            continue
        if finite:
            tangents = difference_rule(layer)(layer, x, y, tangents)
            continue
        known = rule(layer)
        if known is not None:
            tangents = known(layer, x, y, tangents)
        else:
            f = functools.partial(layer_value, layer)
            tangents = torch.func.vmap(lambda t, f=f, x=x: torch.func.jvp(f, (x,), (t,))[1])(tangents)
    return tangents


def by_kernels(layers: Sequence[nn.Module]) -> bool:
    """Whether a pass ran by kernels, at least in part."""
    return any(isinstance(layer, Stage | Dense) for layer in layers)


def _precision(layers: Sequence[nn.Module], tangents: Tensor) -> contextlib.AbstractContextManager[Any]:
    """Tangents are in float32; those that go through kernels in the precision of the pass."""
    device = tangents.device.type
    return contextlib.nullcontext() if by_kernels(layers) else torch.autocast(device, enabled=False)


def push(
    passed: Trace, tangents: Float[Tensor, "columns batch latent"], finite: bool = False
) -> Float[Tensor, "columns batch ..."]:
    """The directional derivatives of a pass, in the precision of the tangents.

    Args:
        passed: The pass; for differences it must be `finite`.
        tangents: Directions at its input.
        finite: Whether the tangents are steps of the input, and the result the differences g(z + step) - g(z).

    >>> layer = nn.Linear(2, 3)
    >>> columns = push(trace(layer, torch.ones(1, 2)), torch.eye(2)[:, None])
    >>> torch.allclose(columns[:, 0].T, layer.weight)
    True
    """
    _require_finite(passed, finite)
    with _precision(passed.layers, tangents):
        return _push(passed.layers, passed.values, passed.kept, tangents, finite)


def _require_finite(passed: Trace, finite: bool) -> None:
    if finite and not passed.finite:  # by kernels something would be missing
        raise UntwineError(
            "this pass did not keep what finite differences need: trace it with finite=True, or declare "
            "Needs(differences=True) if this is a penalty"
        )


def tangent_bytes(passed: Trace) -> int:
    """About how many bytes the tangents of one column keep for a backward pass."""
    return 2 * 4 * sum(value.numel() for value in (*passed.values, *(m for masks in passed.kept for m in masks)))


class _Push(nn.Module):
    """The layers of a trace as one module, so that `functional_call` can put their weights in place."""

    def __init__(self, passed: Trace, function: Callable[[Tensor], Tensor], finite: bool):
        super().__init__()
        self.layers = nn.ModuleList(passed.layers)
        self.function, self.finite = function, finite
        self.counts = [len(masks) for masks in passed.kept]

    def forward(self, tangents: Tensor, *values: Tensor) -> Tensor:
        layers, count = list(self.layers), len(self.layers) + 1
        rest = iter(values[count:])
        kept = [tuple(itertools.islice(rest, masks)) for masks in self.counts]
        with _precision(layers, tangents):
            return self.function(_push(layers, values[:count], kept, tangents, self.finite))


class _Recomputed(torch.autograd.Function):
    """A function of tensors of which only the inputs are kept; the backward pass computes it again.

    `torch.utils.checkpoint` does the same, but not under vmap: it would compute it again outside of it.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
        return function(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.function = inputs[0]
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        tensors = ctx.saved_tensors
        places = [place for place, tensor in enumerate(tensors) if tensor.is_floating_point()]  # not bits of masks

        def function(*floats: Tensor) -> Tensor:
            arguments = list(tensors)
            for place, tensor in zip(places, floats, strict=True):
                arguments[place] = tensor
            return ctx.function(*arguments)

        pull = torch.func.vjp(function, *(tensors[place] for place in places))[1]
        pulled = dict(zip(places, pull(*gradients), strict=True))
        return None, *(pulled.get(place) for place in range(len(tensors)))


def recomputed(passed: Trace, tangents: Tensor, function: Callable[[Tensor], Tensor], finite: bool = False) -> Tensor:
    """`function(push(passed, tangents, finite))`, computed again in the backward pass instead of keeping anything.

    Args:
        passed: The pass.
        tangents: Directions at its input.
        function: A pure function of the pushed tangents.
        finite: Whether the tangents are steps of the input (see `push`).
    """
    _require_finite(passed, finite)
    module = _Push(passed, function, finite)
    values = (*passed.values, *(mask for masks in passed.kept for mask in masks))
    state = {k: v for k, v in (*module.named_parameters(), *module.named_buffers()) if v.is_floating_point()}
    names, count = list(state), len(values)

    def pushed(tangents: Tensor, *rest: Tensor) -> Tensor:
        state = dict(zip(names, rest[count:], strict=True))
        return torch.func.functional_call(module, state, (tangents, *rest[:count]))

    return _Recomputed.apply(pushed, tangents, *values, *state.values())


def is_known(decoder: nn.Module) -> bool:
    """Whether every layer has a tangent rule, so that its Jacobian needs no check of its own."""
    return all(rule(layer) is not None for layer in flatten(decoder))

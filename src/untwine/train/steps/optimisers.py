"""Optimisers over the flat parameters of a pack: `[members, parameters]`, all members at once.

The rate may differ by member. The arithmetic is that of `torch.optim` (a test compares them).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from untwine.errors import UntwineError
from untwine.registry import Registry

optimisers = Registry("optimiser")


@dataclass(frozen=True)
class Optimiser:
    """An optimiser with its settings.

    Args:
        state: The names of its buffers.
        update: One step: (parameters, gradients, buffers, rate, corrections) -> new parameters and buffers.
        corrections: The numbers that depend on the step alone, `[steps, count]`, for steps counted from one.
    """

    state: tuple[str, ...]
    update: Callable[[Tensor, Tensor, Mapping[str, Tensor], Tensor, Tensor], tuple[Tensor, dict[str, Tensor]]]
    corrections: Callable[[np.ndarray], np.ndarray] = lambda t: np.empty((len(t), 0))

    def start(self, parameters: Float[Tensor, "members parameters"]) -> dict[str, Tensor]:
        """The buffers before the first step."""
        return {name: torch.zeros_like(parameters) for name in self.state}


def make(spec: Mapping[str, Any]) -> Optimiser:
    """The optimiser of a spec `{"name": ..., **settings}`."""
    return optimisers.call(spec["name"], {key: value for key, value in spec.items() if key != "name"})


def _refuse_zero(eps: float) -> None:
    """Refuse an eps of zero: a parameter that no gradient has reached yet would become 0 / 0."""
    if not torch.finfo(torch.float32).tiny <= eps < float("inf"):
        raise UntwineError(f"the eps of an optimiser must be positive, as a float32, not {eps!r}")


def _refuse_ones(**betas: float) -> None:
    """Refuse a decay of one: a mean that forgets nothing starts as 0 / 0."""
    for name, beta in betas.items():
        if not 0 <= beta < 1:
            raise UntwineError(f"the {name} of an optimiser must be from 0 to less than 1, not {beta!r}")


@optimisers.add
def adam(beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8, amsgrad: bool = False) -> Optimiser:
    """Adam (Kingma & Ba 2015), optionally with the amsgrad maximum.

    Args:
        beta1: Decay of the mean of the gradients.
        beta2: Decay of the mean of their squares.
        eps: Added to the root of that mean.
        amsgrad: Whether the largest such mean so far takes its place.
    """
    _refuse_zero(eps)
    _refuse_ones(beta1=beta1, beta2=beta2)

    def update(
        p: Tensor, g: Tensor, state: Mapping[str, Tensor], rate: Tensor, corrections: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        first = torch.lerp(state["first"], g, 1 - beta1)
        second = (state["second"] * beta2).addcmul_(g, g, value=1 - beta2)
        new = {"first": first, "second": second}
        if amsgrad:
            new["largest"] = second = torch.maximum(state["largest"], second)
        scale = second.sqrt().div_(corrections[1]).add_(eps)
        return p - (rate / corrections[0])[:, None] * (first / scale), new

    def corrections(t: np.ndarray) -> np.ndarray:
        """Make up for means that began at zero."""
        return np.stack((1 - beta1**t, np.sqrt(1 - beta2**t)), -1)

    return Optimiser(("first", "second", "largest") if amsgrad else ("first", "second"), update, corrections)


@optimisers.add
def amsgrad(beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8) -> Optimiser:
    """Adam with amsgrad (mathieu2019).

    Args:
        beta1: Decay of the mean of the gradients.
        beta2: Decay of the mean of their squares.
        eps: Added to the root of the largest such mean.
    """
    return adam(beta1, beta2, eps, amsgrad=True)


@optimisers.add
def adagrad(eps: float = 1e-10) -> Optimiser:
    """AdaGrad (rolinek2019, Table S3).

    Args:
        eps: Added to the root of the sum of squares.
    """
    _refuse_zero(eps)

    def update(
        p: Tensor, g: Tensor, state: Mapping[str, Tensor], rate: Tensor, corrections: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        total = torch.addcmul(state["total"], g, g)
        return p - rate[:, None] * (g / (total.sqrt() + eps)), {"total": total}

    return Optimiser(("total",), update)

"""A check of decoders with unknown layers: are the Jacobian and its gradients right?"""

from __future__ import annotations

import copy

import torch
from jaxtyping import Float
from torch import Tensor, nn

from untwine.errors import UntwineError
from untwine.model.jacobian import jacobian
from untwine.model.layers import rule

_STEPS = (1e-5, 1e-6, 1e-7)  # of the finite differences, in float64


def check_jacobian(decoder: nn.Module, latents: int, tolerance: float = 1e-4) -> None:
    """Refuse a decoder whose Jacobian is wrong, or has wrong gradients, in float64 against finite differences.

    Reverse-over-forward differentiation is silently wrong for some layers (train-mode BatchNorm, LayerNorm
    and InstanceNorm in torch 2.13), and a layer that mixes the examples of a batch has no Jacobian for each
    of them, so a decoder with layers that have no rule is tried once before training.

    Args:
        decoder: The decoder, which stays as it is.
        latents: The number of its inputs.
        tolerance: The largest relative error.
    """
    decoder = copy.deepcopy(decoder).double().cpu()
    latent = torch.linspace(-1.0, 1.0, 3 * latents, dtype=torch.float64).sin().reshape(3, latents)
    parameters = [p for p in decoder.parameters() if p.requires_grad]

    def value() -> Tensor:
        columns = jacobian(decoder, latent)
        weights = torch.arange(columns.numel(), dtype=torch.float64).cos().reshape(columns.shape)
        return (columns * weights).sum()

    try:
        wrong = _worst_column(decoder, latent)
        total = value()
        gradients = torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
    except (RuntimeError, NotImplementedError) as error:
        raise UntwineError(f"the decoder's Jacobian cannot be differentiated: {error}") from None
    if not wrong <= tolerance:
        raise UntwineError(
            f"this decoder's Jacobian is wrong (by {wrong:.2g} of its size): a layer mixes the examples of a batch, "
            "as BatchNorm does in training, or changes its input in place"
        )
    directions = [torch.linspace(1.0, 9.0, p.numel(), dtype=torch.float64).cos().reshape(p.shape) for p in parameters]
    length = sum(d.square().sum().item() for d in directions) ** 0.5 or 1.0
    exact = sum((g * d).sum().item() for g, d in zip(gradients, directions, strict=True)) / length

    def at(step: float) -> float:
        for p, d in zip(parameters, directions, strict=True):
            p.add_(d, alpha=step / length)
        moved = value().item()
        for p, d in zip(parameters, directions, strict=True):
            p.sub_(d, alpha=step / length)
        return moved

    # A step may cross the kink of some ReLU, but not every step does: a right gradient agrees with one of them.
    with torch.no_grad():
        rounding = 1e-9 * jacobian(decoder, latent).abs().sum().item()
        estimates = [(at(eps) - at(-eps)) / (2 * eps) for eps in _STEPS]
    differences = min(estimates, key=lambda estimate: abs(estimate - exact))
    if not abs(exact - differences) <= tolerance * max(abs(exact), abs(differences)) + rounding:
        names = sorted({type(layer).__name__ for layer in decoder.modules() if rule(layer) is None})
        raise UntwineError(
            "this decoder's Jacobian has wrong gradients in this version of torch "
            f"({exact:.6g} by differentiation, {differences:.6g} by finite differences); "
            f"suspect among its layers: {', '.join(names)}. GroupNorm and all common activations are right."
        )


def _worst_column(decoder: nn.Module, z: Float[Tensor, "batch latent"]) -> float:
    """The largest relative error of the Jacobian, compared with how outputs move when one example moves alone."""

    def error(example: int, eps: float) -> float:
        step = torch.zeros_like(z)
        step[example] = eps * direction
        moved = (decoder(z + step) - decoder(z - step)) / (2 * eps)
        expected = torch.zeros_like(moved)
        expected[example] = torch.tensordot(direction, columns[example], 1)
        return (moved - expected).abs().max().item() / max(1.0, moved.abs().max().item())

    with torch.no_grad():
        columns, direction = jacobian(decoder, z), torch.linspace(1.0, 3.0, z.shape[-1], dtype=z.dtype).cos()
        return max(min(error(example, eps) for eps in _STEPS) for example in range(len(z)))

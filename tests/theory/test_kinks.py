"""rhodes2021, 4.1: finite differences in place of the Jacobian. For ReLUs their gradients have different means.

The mean of a norm of tangents depends on where kinks lie among the examples, though no tangent does.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call

from untwine.model.jacobian import power_sum, unit_tangents
from untwine.model.passes import trace


class Norm(nn.Module):
    """The mean L1 norm of exact columns, or of differences."""

    def __init__(self, inner: nn.Module, eps: float | None = None):
        super().__init__()
        self.inner, self.eps = inner, eps

    def forward(self, z: Tensor) -> Tensor:
        return power_sum(trace(self.inner, z, self.eps is not None), unit_tangents(z), 1, self.eps) / len(z)


def decoder() -> nn.Sequential:
    made = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    for seed, parameter in enumerate(made.parameters()):
        generator = torch.Generator().manual_seed(seed)
        parameter.data = 0.8 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return made


def slopes(norm: Norm, z: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(norm(z), list(norm.parameters()), allow_unused=True, materialize_grads=True))


def test_the_gradient_of_a_mean_norm() -> None:
    """How the mean over many points changes with the weights, along a few ways on which some points cross a kink.

    That is the gradient of differences. That of exact columns is far from it: for biases it is zero.
    """
    made, step = decoder(), 0.005
    z = torch.randn(500_000, 2, generator=torch.Generator().manual_seed(20), dtype=torch.float64)
    given = dict(made.named_parameters())
    exact, rough = slopes(Norm(made), z), slopes(Norm(made, 0.01), z)
    assert exact[1].abs().max() == 0 < rough[1].abs().max()
    expected, errors = [], []
    for seed in range(3):
        generator = torch.Generator().manual_seed(102 + seed)
        way = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in given.values()]
        ends = []
        for by in (step, -step):
            moved = {f"inner.{name}": p.detach() + by * d for (name, p), d in zip(given.items(), way, strict=True)}
            ends.append(functional_call(Norm(made), moved, (z,)).item())
        expected.append((ends[0] - ends[1]) / (2 * step))
        along = [sum((g * d).sum().item() for g, d in zip(found, way, strict=True)) for found in (exact, rough)]
        errors.append([abs(one - expected[-1]) for one in along])
    size = max(map(abs, expected))
    assert max(error for error, _ in errors) > 0.5 * size
    assert max(error for _, error in errors) < 0.1 * size

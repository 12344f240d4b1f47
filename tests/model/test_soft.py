"""The kinks of ReLUs: the mean of a norm of tangents depends on where they are, though no tangent does."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from untwine.model.jacobian import finite_differences, power_sum, push, trace, unit_tangents
from untwine.model.layers import soft_step


class Norm(nn.Module):
    def __init__(self, inner: nn.Module, soft: float):
        super().__init__()
        self.inner, self.soft = inner, soft

    def forward(self, z: Tensor) -> Tensor:
        return power_sum(trace(self.inner, z).softly(self.soft), unit_tangents(z), 1) / len(z)


def decoder() -> nn.Sequential:
    made = nn.Sequential(nn.Linear(2, 6), nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    for seed, parameter in enumerate(made.parameters()):
        generator = torch.Generator().manual_seed(seed)
        parameter.data = 0.8 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return made


def points(count: int) -> Tensor:
    return torch.randn(count, 2, generator=torch.Generator().manual_seed(20), dtype=torch.float64)


def slopes(made: nn.Module, z: Tensor, soft: float) -> list[Tensor]:
    value = Norm(made, soft)(z)
    return list(torch.autograd.grad(value, list(made.parameters()), allow_unused=True, materialize_grads=True))


def test_a_ramp_in_place_of_a_step() -> None:
    y = torch.tensor([0.0, 0.1, 0.5, 1.4], dtype=torch.float64)
    assert soft_step(y, 0.4).tolist() == pytest.approx([0, 0.5, 1, 1])
    assert soft_step(torch.zeros(3), 0.4).tolist() == [0, 0, 0]
    assert soft_step(y.bfloat16(), 0.4).dtype == torch.float32


def test_tangents_of_a_rounded_decoder() -> None:
    """By hand: those of y^2 / 2w below w and y - w / 2 above, y being the ReLU's output."""
    made, z = decoder()[:3], points(50)
    y = made[:2](z)
    w = 0.7 * y.mean()
    rounded = lambda a: torch.where(a.relu() < w, a.relu().square() / (2 * w), a.relu() - w / 2)
    expected = torch.func.vmap(torch.func.jacrev(lambda v: made[2](rounded(made[0](v)))))(z)
    found = push(trace(made, z).softly(0.7), unit_tangents(z))
    assert torch.allclose(found.permute(1, 2, 0), expected)


def test_the_gradient_of_a_mean_norm() -> None:
    """How the mean over many points changes with the weights, along a few ways on which some points cross a kink.

    The gradient of exact columns is far from it: for biases it is zero.
    """
    made, z, step = decoder(), points(500_000), 0.005
    given = dict(made.named_parameters())
    found = {soft: slopes(made, z, soft) for soft in (0.0, 0.05)}
    assert found[0.0][1].abs().max() == 0 < found[0.05][1].abs().max()
    errors: dict[float, list[float]] = {soft: [] for soft in found}
    expected = []
    for seed in range(3):
        generator = torch.Generator().manual_seed(102 + seed)
        way = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in given.values()]
        ends = []
        for by in (step, -step):
            moved = {f"inner.{name}": p.detach() + by * d for (name, p), d in zip(given.items(), way, strict=True)}
            ends.append(functional_call(Norm(made, 0.0), moved, (z,)).item())
        expected.append((ends[0] - ends[1]) / (2 * step))
        for soft, gradients in found.items():
            errors[soft].append(sum((g * d).sum().item() for g, d in zip(gradients, way, strict=True)) - expected[-1])
    size = max(map(abs, expected))
    assert max(map(abs, errors[0.05])) < 0.1 * size
    assert max(map(abs, errors[0.0])) > 0.5 * size


def test_finite_differences_notice_kinks_too() -> None:
    made, z = decoder(), points(400_000)
    exact, soft = (torch.cat([slope.flatten() for slope in slopes(made, z, width)[:4]]) for width in (0.0, 0.05))
    columns = finite_differences(made, z, unit_tangents(z), 0.01)
    rough = torch.autograd.grad(columns.abs().sum() / len(z), list(made.parameters())[:4])
    rough = torch.cat([slope.flatten() for slope in rough])
    assert (rough - soft).norm() < 0.15 * rough.norm()
    assert (rough - exact).norm() > 0.4 * rough.norm()


def test_a_dead_layer_and_a_dead_unit() -> None:
    """Nothing passes a layer that is zero for all, and a unit that is has no gradient of its own: all finite."""
    made, z = decoder(), points(20)
    for dead in (slice(2, 3), slice(None)):
        made[0].bias.data[dead] = -100.0
        found = slopes(made, z, 0.1)
        assert all(slope.isfinite().all() for slope in found)
        assert found[0][dead].abs().max() == 0
    assert Norm(made, 0.1)(z).item() == 0

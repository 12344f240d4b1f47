"""What every likelihood must keep to. A new name needs a line in the table, and gets these tests for free."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch import distributions as D

from untwine.model import likelihoods
from untwine.model.check import check_jacobian
from untwine.model.info import Info
from untwine.parts import from_json, is_part, to_json

# What torch calls it, and what the loss leaves out for each element.
TABLE: dict[str, tuple[Callable[[Tensor], D.Distribution], float]] = {
    "bernoulli": (lambda out: D.Bernoulli(logits=out, validate_args=False), 0.0),
    "squared_error": (lambda out: D.Normal(out, 0.5**0.5), 0.5 * math.log(math.pi)),
    "gaussian": (lambda out: D.Normal(out, 1.0), 0.0),
    "learned_gaussian": (lambda out: D.Normal(out, 1.0), 0.0),
    "laplace": (lambda out: D.Laplace(out, 1.0), 0.0),
}
# Those that are no density: as they are called here.
OTHERS = {
    "overlap": [
        "overlap(squared-error, radius=1, weight=9)",
        "overlap(bernoulli, radius=2)",
        "overlap(gaussian(scale=0.5, learned=True), kernel=gaussian)",
        "overlap(overlap(laplace, 1), 3, 2.5)",
    ],
}
TEXTS = [*TABLE, *(text for texts in OTHERS.values() for text in texts)]
SHAPES = [(6,), (2, 4, 3)]


def example(shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(5, *shape, generator=generator).double(), torch.rand(5, *shape, generator=generator).double()


def is_ours(entry: Any) -> bool:
    """Whether a likelihood comes with Untwine, not with another test."""
    cls = entry if isinstance(entry, type) else type(entry)
    return cls.__module__.startswith("untwine.")


def test_the_table_is_complete():
    registry = likelihoods.Likelihood.registry
    ours = [name for name in registry if is_ours(registry[name])]
    assert sorted(ours) == sorted([*TABLE, *OTHERS])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", TABLE)
def test_the_loss_is_minus_the_log_density_of_each_example(name, shape):
    """In nats, summed over elements, one number for each example."""
    built = likelihoods.named(name).build(Info(2, shape)).double()
    out, x = example(shape)
    distribution, left_out = TABLE[name]
    expected = -distribution(out).log_prob(x).flatten(1).sum(1) - left_out * x[0].numel()
    assert torch.allclose(built.loss(out, x), expected, rtol=1e-6)
    assert torch.allclose(built.mean(out), distribution(out).mean)
    assert torch.allclose(built.loss(out[1:2], x[1:2]), expected[1:2], rtol=1e-6)


@pytest.mark.parametrize("text", TEXTS)
def test_the_loss_is_one_number_for_each_example(text):
    built = likelihoods.named(text).build(Info(2, (2, 4, 3))).double()
    out, x = example((2, 4, 3))
    loss = built.loss(out, x)
    assert loss.shape == (5,) and loss.isfinite().all()
    assert torch.allclose(built.loss(out[1:2], x[1:2]), loss[1:2])


@pytest.mark.parametrize("text", TEXTS)
def test_the_loss_is_that_of_the_mean(text):
    built = likelihoods.named(text).build(Info(2, (2, 4, 3))).double()
    out, x = example((2, 4, 3))
    out.requires_grad_()
    by_output, by_mean = built.loss(out, x).sum(), built.loss_of_mean(built.mean(out), x).sum()
    assert torch.allclose(by_output, by_mean)
    slopes = [torch.autograd.grad(value, out)[0] for value in (by_output, by_mean)]
    assert torch.allclose(*slopes) and slopes[0].abs().max() > 0


@pytest.mark.parametrize("text", TEXTS)
def test_the_best_mean_is_the_example(text):
    built = likelihoods.named(text).build(Info(2, (2, 4, 3))).double()
    _, x = example((2, 4, 3))
    for other in (x + 0.1 * (x < 0.5), x - 0.1 * (x >= 0.5)):
        assert (built.loss_of_mean(x, x) < built.loss_of_mean(other, x)).all()


@pytest.mark.parametrize("text", TEXTS)
def test_members_map_by_vmap_and_may_differ_in_buffers(text):
    """A pack stacks buffers and parameters; in it each member has the loss that it has alone."""
    built = likelihoods.named(text).build(Info(2, (2, 4, 3))).double()
    state = {**dict(built.named_parameters()), **dict(built.named_buffers())}
    stacked = {key: torch.stack([value, 1.5 * value, 0 * value]) for key, value in state.items()}
    out, x = (torch.stack([one, one + 1, 2 * one]) for one in example((2, 4, 3)))
    x = x / 4

    def loss(values: dict[str, Tensor], out: Tensor, x: Tensor) -> Tensor:
        return torch.func.functional_call(_Loss(built), {f"built.{k}": v for k, v in values.items()}, (out, x))

    mapped = torch.func.vmap(torch.func.grad_and_value(lambda *a: loss(*a).sum(), argnums=1))(stacked, out, x)
    for i in range(3):
        alone = torch.func.grad_and_value(lambda *a: loss(*a).sum(), argnums=1)(
            {key: value[i] for key, value in stacked.items()}, out[i], x[i]
        )
        assert all(torch.allclose(one[i], other) for one, other in zip(mapped, alone, strict=True))


class _Loss(torch.nn.Module):
    def __init__(self, built: likelihoods.LikelihoodModule) -> None:
        super().__init__()
        self.built = built

    def forward(self, out: Tensor, x: Tensor) -> Tensor:
        return self.built.loss(out, x)


@pytest.mark.parametrize("text", TEXTS)
def test_the_mean_is_a_layer_that_a_jacobian_can_pass(text):
    check_jacobian(
        torch.nn.Sequential(torch.nn.Linear(3, 6), likelihoods.named(text).build(Info(3, (1, 2, 3))).mean), 3
    )


@pytest.mark.parametrize("text", TEXTS)
def test_it_is_a_part_with_a_json_form(text):
    part = likelihoods.named(text)
    assert is_part(part) and isinstance(part, likelihoods.Likelihood)
    assert from_json(json.loads(json.dumps(to_json(part)))) == part
    assert likelihoods.named(text.replace("_", "-")) == part == likelihoods.named(part)
    assert len(part.domain) == 2 and part.domain[0] < part.domain[1]

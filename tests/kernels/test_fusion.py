"""Rewriting a traced graph changes what is computed, not the results."""

from collections.abc import Callable

import pytest
import torch
from expected import GEOMETRIES, numbers
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from untwine.kernels import operators
from untwine.kernels.fusion import fold_factors

G = GEOMETRIES["4x4/2 of one channel"]
FACTOR = torch.tensor([0.5, -3.0], dtype=torch.float64)


def given() -> tuple[Tensor, Tensor, Tensor]:
    """Two images of two members, weights, and what is added to the convolution."""
    w = G.down_weight(numbers(2, G.cs, G.cb, 4, 4, seed=2), torch.float64)
    return numbers(2, 2, G.hb, G.wb, G.cb), w, numbers(2, 2, G.hs, G.ws, G.cs, seed=1)


def added_to(big: Tensor, w: Tensor, more: Tensor) -> Tensor:
    return operators.conv_down(big, w, None, None, None, more, None, G.to_list(), False, False, False, False)[0]


def viewed(more: Tensor) -> Tensor:
    """The same numbers in the same order, by the views that autograd and vmap leave."""
    return more.unflatten(0, (2, 1)).permute(1, 0, 2, 3, 4, 5).squeeze(0)


CASES: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "as it is": (lambda scaled: scaled, 1),
    "by views": (viewed, 1),
    "twice as much": (lambda scaled: 2 * scaled, 0),
    "images turned round": (lambda scaled: scaled.flip(1), 0),
    "images and members swapped": (lambda scaled: scaled.transpose(0, 1), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_a_factor_is_left_to_the_kernel_that_adds(name: str) -> None:
    between, count = CASES[name]
    big, w, more = given()

    def function(big: Tensor, w: Tensor, more: Tensor, factor: Tensor) -> list[Tensor]:
        scaled = operators.scaled(more, factor)
        return [added_to(big, w, between(scaled)), scaled.sum()]

    traced = make_fx(function, tracing_mode="fake")(big, w, more, FACTOR)
    assert fold_factors(traced.graph) == count
    traced.recompile()
    scaled = FACTOR[:, None, None, None, None] * more
    found, total = traced(big, w, more, FACTOR)
    torch.testing.assert_close(found, added_to(big, w, between(scaled)))
    torch.testing.assert_close(total, scaled.sum())


def test_what_is_no_longer_used_is_erased() -> None:
    big, w, more = given()
    traced = make_fx(lambda big, w, *rest: added_to(big, w, viewed(operators.scaled(*rest))))(big, w, more, FACTOR)
    fold_factors(traced.graph)
    called = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert operators.scaled._opoverload not in called and torch.ops.aten.permute.default not in called
    traced.recompile()
    expected = added_to(big, w, FACTOR[:, None, None, None, None] * more)
    torch.testing.assert_close(traced(big, w, more, FACTOR), expected)

"""The kernels as torch operators: shapes are known without running them, and vmap gives the same as a loop."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from expected import GEOMETRIES, geometry, numbers
from torch import Tensor
from torch.func import vmap

from untwine.kernels import operators
from untwine.kernels.geometry import Geometry

MAPPED, MEMBERS, IMAGES = 2, 3, 4
G = GEOMETRIES["3x3/2 with output padding"]
LAST = geometry(2 * G.hb, 2 * G.wb, 3, G.cb, 4, 2, 1)


def given(g: Geometry) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Each operator with its arguments; tensors have a first dimension to map over."""

    def made(*shape: int, seed: int = 0) -> Tensor:
        return numbers(MAPPED, MEMBERS, *shape, seed=seed)

    big, small = made(IMAGES, g.hb, g.wb, g.cb), made(IMAGES, g.hs, g.ws, g.cs, seed=1)
    weight = made(g.cs, g.cb, g.kernel, g.kernel, seed=2)
    down, up = (vmap(lambda w, lay=lay: lay(w, w.dtype))(weight) for lay in (g.down_weight, g.up_weight))
    head = vmap(lambda w: LAST.head_weight(w, w.dtype))(made(g.cb, LAST.cb, 4, 4, seed=3))
    behind = (made(g.cb, seed=4), made(2, g.hb, g.wb, g.cb, seed=5).relu())
    masks = made(2, g.hb, g.wb, g.cb, seed=8), made(2, g.hb, g.wb, g.cb, seed=9)

    def flags(*set_to_true: str) -> tuple[bool, ...]:
        return tuple(name in set_to_true for name in ("relu", "difference", "keep", "sums"))

    size, four = g.to_list(), (None, None, None, None)
    up_fold = (small, up, *behind, head, made(LAST.cb, seed=7), size, LAST.to_list())
    return {
        "down": (operators.conv_down, (big, down, made(g.cs, seed=6), *four, size, *flags("relu"))),
        "down, with sums": (operators.conv_down, (big, down, None, *four, size, *flags("sums"))),
        "up": (operators.conv_up, (small, up, *behind, None, None, None, size, *flags("relu"))),
        "up, with sums": (operators.conv_up, (small, up, *behind, None, None, None, size, *flags("sums"))),
        "up, with inputs": (operators.conv_up, (small, up, behind[0], *four, size, *flags("relu", "keep"))),
        "up, differences": (
            operators.conv_up,
            (small, up, None, masks[0], None, None, None, size, *flags("difference")),
        ),
        "up, crossed": (operators.conv_up, (small, up, None, *masks, None, None, size, *flags())),
        "up, added": (operators.conv_up, (small, up, None, masks[0], None, big, None, size, *flags("sums"))),
        "up, added with factors": (
            operators.conv_up,
            (small, up, None, masks[0], None, big, made(seed=10), size, *flags()),
        ),
        "up_fold": (operators.conv_up_fold, (*up_fold, True, False, False, False)),
        "up_fold, with inputs": (operators.conv_up_fold, (*up_fold, True, False, True, True)),
        "scaled": (operators.scaled, (big, made(seed=10))),
        "weight": (operators.weight_gradient, (small, big, g.to_list(), False)),
        "weight, behind a ReLU": (operators.weight_gradient, (small, big, g.to_list(), True)),
    }


def at(place: int, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(one[place] if isinstance(one, Tensor) else one for one in arguments)


every_operator = pytest.mark.parametrize("name", given(G))


@every_operator
def test_shapes_are_known_to_a_tracer(name: str) -> None:
    operator, arguments = given(G)[name]
    found = torch.library.opcheck(operator, at(0, arguments), test_utils=("test_schema", "test_faketensor"))
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.filterwarnings("error:There is a performance drop")
@pytest.mark.parametrize("place", [0, 1])
@every_operator
def test_mapped(name: str, place: int) -> None:
    operator, arguments = given(G)[name]
    tensors = [i for i, one in enumerate(arguments) if isinstance(one, Tensor)]

    def call(*some: Tensor) -> Any:
        whole = list(arguments)
        for i, one in zip(tensors, some, strict=True):
            whole[i] = one
        return operator(*whole)

    moved = [arguments[i].movedim(0, place) for i in tensors]
    assert_same(vmap(call, in_dims=place)(*moved), lambda i: operator(*at(i, arguments)))
    first = (0, *[None] * (len(tensors) - 1))  # the others are the same for all
    rest = [arguments[i][1] for i in tensors[1:]]
    one = vmap(call, in_dims=first)(arguments[tensors[0]], *rest)
    assert_same(one, lambda i: call(arguments[tensors[0]][i], *rest))


def assert_same(found: Any, right: Callable[[int], Any]) -> None:
    for number in range(MAPPED):
        many = [found] if isinstance(found, Tensor) else found
        expected = right(number)
        for a, b in zip(many, [expected] if isinstance(expected, Tensor) else expected, strict=True):
            torch.testing.assert_close(a[number], b, rtol=1e-13, atol=1e-13)

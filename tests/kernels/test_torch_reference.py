"""The kernels in plain torch compute torch's convolutions and their gradients; weights have the layouts described."""

import itertools

import pytest
import torch
from expected import GEOMETRIES, big_image, error, followed, geometry, numbers, small_image, weight_gradient
from torch import Tensor

from untwine.kernels import torch_reference as reference
from untwine.kernels.epilogue import Behind
from untwine.kernels.geometry import Geometry, tile_width

EXACT, MEMBERS, IMAGES, MASKS = 1e-13, 2, 6, 3
BEHIND = [(True, False, True), (False, True, False), (False, False, False), (True, True, True)]
every_geometry = pytest.mark.parametrize("g", GEOMETRIES.values(), ids=GEOMETRIES.keys())


def images(g: Geometry) -> tuple[Tensor, Tensor, Tensor]:
    """Big ones, small ones, and weights."""
    big, small = numbers(MEMBERS, IMAGES, g.hb, g.wb, g.cb), numbers(MEMBERS, IMAGES, g.hs, g.ws, g.cs, seed=1)
    return big, small, numbers(MEMBERS, g.cs, g.cb, g.kernel, g.kernel, seed=2)


@pytest.mark.parametrize(("biased", "masked", "relu"), BEHIND)
@every_geometry
def test_down_and_up(g: Geometry, biased: bool, masked: bool, relu: bool) -> None:
    big, small, w = images(g)
    bias, mask = numbers(MEMBERS, g.cs, seed=3), numbers(MEMBERS, MASKS, g.hs, g.ws, g.cs, seed=4).relu()
    behind = bias if biased else None, mask if masked else None, relu
    follows = Behind(behind[0], relu, behind[1])
    found, extra = reference.conv_down(big, g.down_weight(w, w.dtype), follows, g)
    assert extra.numel() == 0
    assert error(found, followed(small_image(big, w, g), *behind)) < EXACT
    bias, mask = numbers(MEMBERS, g.cb, seed=5), numbers(MEMBERS, MASKS, g.hb, g.wb, g.cb, seed=6).relu()
    behind = bias if biased else None, mask if masked else None, relu
    found, _, taps = reference.conv_up(small, g.up_weight(w, w.dtype), Behind(behind[0], relu, behind[1]), g)
    assert error(found, followed(big_image(small, w, g), *behind)) < EXACT
    assert taps.numel() == 0


@every_geometry
def test_each_is_the_gradient_of_the_other(g: Geometry) -> None:
    big, small, w = images(g)
    x = big.clone().requires_grad_()
    [slope] = torch.autograd.grad((small_image(x, w, g) * small).sum(), x)
    assert error(reference.conv_up(small, g.up_weight(w, w.dtype), Behind(), g)[0], slope) < EXACT
    x = small.clone().requires_grad_()
    [slope] = torch.autograd.grad((big_image(x, w, g) * big).sum(), x)
    assert error(reference.conv_down(big, g.down_weight(w, w.dtype), Behind(), g)[0], slope) < EXACT


@every_geometry
def test_what_else_follows_a_product(g: Geometry) -> None:
    """A kept input, a step of a ReLU's input, its gradients, and a sum."""
    big, small, w = images(g)
    a, step = numbers(MEMBERS, MASKS, g.hb, g.wb, g.cb, seed=3), big_image(small, w, g)
    laid, turns = g.up_weight(w, w.dtype), torch.arange(IMAGES) % MASKS
    found, kept, _ = reference.conv_up(small, laid, Behind(relu=True, keep=True), g)
    assert error(kept, step) < EXACT and torch.equal(found, kept.relu())
    found, moved, _ = reference.conv_up(small, laid, Behind(mask=a, difference=True), g)
    assert error(found, (a[:, turns] + step).relu() - a[:, turns].relu()) < EXACT
    assert torch.equal(moved > 0, a[:, turns] + step > 0)
    # The gradients of relu(a + d) - relu(a) behind the layer whose gradient `small` is.
    a, d = (numbers(MEMBERS, IMAGES, g.hb, g.wb, g.cb, seed=seed).requires_grad_() for seed in (4, 5))
    by_a, by_d = torch.autograd.grad((((a + d).relu() - a.relu()) * step).sum(), (a, d))
    behind = Behind(mask=(a + d).detach(), other=a.detach())
    found, crossed, _ = reference.conv_up(small, laid, behind, g)
    assert error(found, by_d) < EXACT and error(crossed, by_a) < EXACT
    found = reference.conv_up(small, laid, Behind(mask=a.detach(), added=big), g)[0]
    assert error(found, step * (a > 0) + big) < EXACT


@every_geometry
def test_the_gradient_of_the_weights(g: Geometry) -> None:
    big, small, w = images(g)
    found = reference.weight_gradient(small, big, g)
    assert error(reference.sum_parts(found, g), weight_gradient(small, big, w, g)) < EXACT


@every_geometry
def test_products_that_are_folded(g: Geometry) -> None:
    """The last of two layers, from the products that the first one computes along with its output."""
    before = geometry(g.hs, g.ws, g.cs, 3, 3, 1, 1)
    x, first, last = numbers(MEMBERS, IMAGES, g.hs, g.ws, 3), numbers(MEMBERS, 3, g.cs, 3, 3, seed=1), images(g)[2]
    bias, head = numbers(MEMBERS, g.cb, seed=3), g.head_weight(last, last.dtype)
    middle, _, taps = reference.conv_up(x, before.up_weight(first, x.dtype), Behind(relu=True), before, head)
    assert error(middle, big_image(x, first, before).relu()) < EXACT
    assert error(reference.fold(taps, bias, g, True), followed(big_image(middle, last, g), bias, None, False)) < EXACT


@every_geometry
def test_weights_for_down(g: Geometry) -> None:
    w = images(g)[2]
    laid = g.down_weight(w, w.dtype)
    for ky, kx, b in itertools.product(range(g.kernel), range(g.kernel), range(g.cb)):
        assert torch.equal(laid[:, (ky * g.kernel + kx) * g.cb + b], w[:, :, b, ky, kx])


@every_geometry
def test_weights_for_up(g: Geometry) -> None:
    """Phase (py, px): the pixels `stride i + py, stride j + px`; its taps reach up, and from left to right."""
    w = images(g)[2]
    laid = g.up_weight(w, w.dtype)
    assert laid.shape == (MEMBERS, g.stride**2, g.taps, g.taps * g.cs, g.cb)
    phases, taps = range(g.stride), range(g.taps)
    for py, px, ty, tx in itertools.product(phases, phases, taps, taps):
        ky = (py + g.padding) % g.stride + g.stride * ty
        kx = (px + g.padding) % g.stride + g.stride * (g.taps - 1 - tx)
        inside = ky < g.kernel and kx < g.kernel
        right = w[..., ky, kx] if inside else torch.zeros(MEMBERS, g.cs, g.cb, dtype=w.dtype)
        assert torch.equal(laid[:, py * g.stride + px, ty, tx * g.cs : (tx + 1) * g.cs], right)


@every_geometry
def test_weights_of_a_head(g: Geometry) -> None:
    w = images(g)[2]
    laid, count = g.head_weight(w, w.dtype), g.kernel**2 * g.cb
    assert laid.shape == (MEMBERS, g.cs, tile_width(count)) and not laid[:, :, count:].any()
    for c in range(g.cs):
        assert torch.equal(laid[:, c, :count].flatten(), w[:, c].permute(0, 2, 3, 1).flatten())


@pytest.mark.parametrize("channels", [32, 64])
def test_columns_in_fragment_order(channels: int) -> None:
    """The pairs of a thread in four fragments are 8 neighbouring channels."""
    g = geometry(8, 8, channels, channels, 4, 2, 1)
    w = numbers(1, channels, channels, 4, 4)
    for lay in (g.down_weight, g.up_weight):
        plain, mixed = lay(w, w.dtype), lay(w, w.dtype, True)
        assert mixed.is_contiguous()
        seen = set()
        for group, q, t, e in itertools.product(range(channels // 32), range(4), range(4), range(2)):
            column, channel = 32 * group + 8 * q + 2 * t + e, 32 * group + 8 * t + 2 * q + e
            assert torch.equal(mixed[..., column], plain[..., channel])
            seen.add(channel)
        assert seen == set(range(channels))


@pytest.mark.parametrize(("count", "width"), [(1, 16), (16, 16), (17, 32), (48, 64), (64, 64)])
def test_width_of_a_tile(count: int, width: int) -> None:
    assert tile_width(count) == width

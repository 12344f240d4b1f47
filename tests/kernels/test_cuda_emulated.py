"""The CUDA kernels, emulated on a CPU, against plain torch in float64. `tests/gpu` tests them on a GPU."""

from __future__ import annotations

import cuda_emulator
import pytest
import torch
from cuda_emulator import bits
from expected import error, followed, geometry, numbers
from torch import Tensor

from untwine.kernels import cuda_launch as cuda
from untwine.kernels import tiling
from untwine.kernels import torch_reference as reference
from untwine.kernels.geometry import Geometry

pytestmark = pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="needs g++")
HALF = torch.bfloat16
ROUNDING = 4e-3  # of bfloat16, relative to the norm
LAYERS = {
    "decoder 2": geometry(16, 16, 32, 64, 4, 2, 1),
    "decoder 3": tiling.BEFORE_LAST,
    "decoder 4": tiling.LAST,
    "encoder 2": geometry(31, 31, 32, 32, 4, 2, 0),
}


@pytest.fixture(autouse=True)
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU of one multiprocessor, so that blocks go on to further tiles."""
    monkeypatch.setattr(cuda, "kernel", cuda_emulator.kernel)
    monkeypatch.setattr(cuda, "_limits", lambda device: (1, tiling.MAX_SHARED))
    monkeypatch.setattr(cuda, "_has_compiler", lambda: True)


def supporting(operation: str) -> pytest.MarkDecorator:
    names = [name for name, g in LAYERS.items() if tiling.tiling_for(g, operation) is not None]
    return pytest.mark.parametrize("g", [LAYERS[name] for name in names], ids=names)


class Data:
    """Two members with three images each, and masks for one or all of them."""

    def __init__(self, g: Geometry):
        self.big, self.small = (
            numbers(2, 3, *shape, seed=seed).to(HALF)
            for seed, shape in enumerate(((g.hb, g.wb, g.cb), (g.hs, g.ws, g.cs)))
        )
        self.w = (0.1 * numbers(2, g.cs, g.cb, 4, 4, seed=2)).to(HALF)
        self.bias = {channels: numbers(2, channels, seed=3).float() for channels in (g.cb, g.cs)}
        self.big_mask, self.small_mask = (one.float().roll(1, 1).relu().to(HALF) for one in (self.big, self.small))


def assert_sums(sums: Tensor, found: Tensor) -> None:
    torch.testing.assert_close(sums.sum(1).double(), found.double().sum((1, 2, 3)), rtol=1e-4, atol=1e-3)


@supporting("conv_down")
def test_down(g: Geometry) -> None:
    data = Data(g)
    w = g.down_weight(data.w, HALF, for_cuda=True)
    right = reference.conv_down(data.big.double(), g.down_weight(data.w, torch.float64), None, None, g, False)
    if g.cs == 32:
        found, known = cuda.conv_down(data.big, w, data.bias[g.cs], None, g, True)
        assert error(found, followed(right, data.bias[g.cs].double(), None, True)) < ROUNDING
        assert torch.equal(known, bits(found))
    for mask in (data.small_mask, data.small_mask[:, 1:2]):
        found, sums = cuda.conv_down(data.big, w, None, bits(mask), g, False, sums=True)
        assert error(found, followed(right, None, mask, False)) < ROUNDING
        assert_sums(sums, found)
    if g == tiling.BEFORE_LAST:  # the output of a ReLU as the mask
        assert torch.equal(cuda.conv_down(data.big, w, None, mask, g, False)[0], found)


@supporting("conv_up")
def test_up(g: Geometry) -> None:
    data = Data(g)
    w = g.up_weight(data.w, HALF, for_cuda=True)
    right = reference.conv_up(data.small.double(), g.up_weight(data.w, torch.float64), None, None, None, g, False)[0]
    if g.cs == 32:
        found, known, _ = cuda.conv_up(data.small, w, data.bias[g.cb], None, g, True)
        assert error(found, followed(right, data.bias[g.cb].double(), None, True)) < ROUNDING
        assert torch.equal(known, bits(found))
    for mask in (data.big_mask, data.big_mask[:, 1:2]):
        found, sums, _ = cuda.conv_up(data.small, w, None, bits(mask), g, False, sums=True)
        assert error(found, followed(right, None, mask, False)) < ROUNDING
        assert_sums(sums, found)
    if g == tiling.BEFORE_LAST:
        assert torch.equal(cuda.conv_up(data.small, w, None, mask, g, False)[0], found)


@supporting("weight_gradient")
def test_weight(g: Geometry) -> None:
    data = Data(g)
    found = cuda.weight_gradient(data.small, data.big, g)
    assert error(found.double().sum(0), reference.weight_gradient(data.small.double(), data.big.double(), g)[0]) < 1e-5


@pytest.mark.parametrize("precise", [True, False])
def test_up_with_the_next_layer(precise: bool) -> None:
    """In float32 with biases and a ReLU, as values go; in bfloat16 with masks, as tangents do."""
    g, last = tiling.BEFORE_LAST, tiling.LAST
    data, head = Data(g), last.head_weight(0.1 * numbers(2, 32, 1, 4, 4, seed=5), HALF)
    bias, mask = (data.bias[32], None) if precise else (None, data.big_mask)
    after = numbers(2, 1, seed=6).float() if precise else None
    w = g.up_weight(data.w, HALF, for_cuda=True)
    kept = None if mask is None else bits(mask)
    found, _, folded = cuda.conv_up(data.small, w, bias, kept, g, precise, False, head, after, precise)
    behind = None if bias is None else bias.double(), None if mask is None else mask.double()
    plain = g.up_weight(data.w, torch.float64)
    right, taps = reference.conv_up(data.small.double(), plain, *behind, head.double(), g, precise)
    assert folded is not None and folded.dtype == (torch.float32 if precise else HALF)
    assert error(found, right) < ROUNDING
    assert error(folded, reference.fold(taps, None if after is None else after.double(), last, True)) < ROUNDING


@pytest.mark.parametrize("p", [1, 2])
def test_the_norm_of_the_last_two_layers(p: int) -> None:
    """The gradients are compared with those at the kernel's own output: the sign of a small number is chance."""
    g, last = tiling.BEFORE_LAST, tiling.LAST
    data, last_w = Data(g), (0.1 * numbers(2, 32, 1, 4, 4, seed=5)).to(HALF)
    u = numbers(2, 3, 64, 64, seed=6).abs().float()
    w, head = g.up_weight(data.w, HALF, for_cuda=True), last.head_weight(last_w, HALF)
    t, back, parts, heads = cuda.tangent_norm(data.small, w, head, bits(data.big_mask), bits(data.small_mask), u, g, p)
    small, mask, before = (one.double() for one in (data.small, data.big_mask, data.small_mask))
    kind = torch.float64
    middle, taps = reference.conv_up(
        small, g.up_weight(data.w, kind), None, mask, last.head_weight(last_w, kind), g, False
    )
    assert error(t, reference.fold(taps, None, last, True)) < ROUNDING
    slopes = (t.double().sign() if p == 1 else 2 * t.double()) * u.double()[..., None]
    inner = reference.conv_down(slopes, last.down_weight(last_w, kind), None, mask, last, False)
    assert error(back, reference.conv_down(inner, g.down_weight(data.w, kind), None, before, g, False)) < 1e-2
    assert error(parts.double().sum(0), reference.weight_gradient(small, inner, g)[0]) < 1e-2
    assert error(heads.double().sum(0), reference.weight_gradient(middle, slopes, last)[0]) < 1e-2


def test_members_with_the_same_images() -> None:
    """They are not copied: their stride between members is 0."""
    g = LAYERS["decoder 2"]
    data = Data(g)
    big = data.big[:1].expand_as(data.big)
    assert torch.equal(*(cuda.weight_gradient(data.small, x, g) for x in (big, big.contiguous())))

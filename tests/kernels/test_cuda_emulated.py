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
from untwine.kernels.epilogue import Behind, unpacked
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


def checkered(size: int) -> Tensor:
    """Signs of a kernel of stride 2 such that all products of a pixel of the big image have one sign."""
    return (-1.0) ** torch.arange(size).add(torch.arange(size)[:, None])


def assert_sums(sums: Tensor, found: Tensor) -> None:
    torch.testing.assert_close(sums.sum(1).double(), found.double().sum((1, 2, 3)), rtol=1e-4, atol=1e-3)


@supporting("conv_down")
def test_down(g: Geometry) -> None:
    data = Data(g)
    w = g.down_weight(data.w, HALF, for_cuda=True)
    right = reference.conv_down(data.big.double(), g.down_weight(data.w, torch.float64), Behind(), g)[0]
    if g.cs == 32:
        found, known, _ = cuda.conv_down(data.big, w, Behind(data.bias[g.cs], relu=True), g)
        assert error(found, followed(right, data.bias[g.cs].double(), None, True)) < ROUNDING
        assert torch.equal(known, bits(found))
    for mask in (data.small_mask, data.small_mask[:, 1:2]):
        found, sums, _ = cuda.conv_down(data.big, w, Behind(mask=bits(mask), sums=True), g)
        assert error(found, followed(right, None, mask, False)) < ROUNDING
        assert_sums(sums, found)
    if g == tiling.BEFORE_LAST:  # the output of a ReLU as the mask, or its input
        for values in (mask, mask.where(mask > 0, -1.0)):
            assert torch.equal(cuda.conv_down(data.big, w, Behind(mask=values), g)[0], found)


@supporting("conv_up")
def test_up(g: Geometry) -> None:
    data = Data(g)
    w = g.up_weight(data.w, HALF, for_cuda=True)
    right = reference.conv_up(data.small.double(), g.up_weight(data.w, torch.float64), Behind(), g)[0]
    if g.cs == 32:
        found, known, *_ = cuda.conv_up(data.small, w, Behind(data.bias[g.cb], relu=True), g)
        assert error(found, followed(right, data.bias[g.cb].double(), None, True)) < ROUNDING
        assert torch.equal(known, bits(found))
    for mask in (data.big_mask, data.big_mask[:, 1:2]):
        found, sums, *_ = cuda.conv_up(data.small, w, Behind(mask=bits(mask), sums=True), g)
        assert error(found, followed(right, None, mask, False)) < ROUNDING
        assert_sums(sums, found)
    if g == tiling.BEFORE_LAST:
        assert torch.equal(cuda.conv_up(data.small, w, Behind(mask=mask), g)[0], found)


@supporting("weight_gradient")
def test_weight(g: Geometry) -> None:
    data = Data(g)
    found = cuda.weight_gradient(data.small, data.big, g)
    assert error(found.double().sum(0), reference.weight_gradient(data.small.double(), data.big.double(), g)[0]) < 1e-5
    if g.cb == 1:
        rectified = cuda.weight_gradient(data.small.relu(), data.big, g)
        assert torch.equal(cuda.weight_gradient(data.small, data.big, g, relu=True), rectified)


@pytest.mark.parametrize("precise", [True, False])
def test_up_with_the_next_layer(precise: bool) -> None:
    """In float32 with biases and a ReLU, as values go; in bfloat16 with masks, as tangents do."""
    g, last = tiling.BEFORE_LAST, tiling.LAST
    data, head = Data(g), last.head_weight(0.1 * numbers(2, 32, 1, 4, 4, seed=5), HALF)
    bias, mask = (data.bias[32], None) if precise else (None, data.big_mask)
    after = numbers(2, 1, seed=6).float() if precise else None
    w = g.up_weight(data.w, HALF, for_cuda=True)
    kept = None if mask is None else bits(mask)
    found, _, _, folded = cuda.conv_up(data.small, w, Behind(bias, precise, kept), g, head, after, precise)
    behind = Behind(None if bias is None else bias.double(), precise, None if mask is None else mask.double())
    plain = g.up_weight(data.w, torch.float64)
    right, _, taps = reference.conv_up(data.small.double(), plain, behind, g, head.double())
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
    middle, _, taps = reference.conv_up(
        small, g.up_weight(data.w, kind), Behind(mask=mask), g, last.head_weight(last_w, kind)
    )
    assert error(t, reference.fold(taps, None, last, True)) < ROUNDING
    slopes = (t.double().sign() if p == 1 else 2 * t.double()) * u.double()[..., None]
    inner = reference.conv_down(slopes, last.down_weight(last_w, kind), Behind(mask=mask), last)[0]
    assert error(back, reference.conv_down(inner, g.down_weight(data.w, kind), Behind(mask=before), g)[0]) < 1e-2
    assert error(parts.double().sum(0), reference.weight_gradient(small, inner, g)[0]) < 1e-2
    assert error(heads.double().sum(0), reference.weight_gradient(middle, slopes, last)[0]) < 1e-2


@pytest.mark.parametrize("p", [1, 2])
def test_the_norm_of_differences(p: int) -> None:
    """With p of 1 the sign of a small difference would be chance: products are such that none is small."""
    g, last, kind = tiling.BEFORE_LAST, tiling.LAST, torch.float64
    data, last_w = Data(g), (0.1 * numbers(2, 32, 1, 4, 4, seed=5)).to(HALF)
    if p == 1:
        last_w, data.w, data.small = last_w.abs() / 64 * checkered(4), data.w.abs(), data.small.abs()
    inputs, logits = data.big.roll(1, 1)[:, :1], numbers(2, 1, 64, 64, seed=6).float()
    before, other = data.small_mask, data.small_mask[:, 1:2]
    w, head = g.up_weight(data.w, HALF, for_cuda=True), last.head_weight(last_w, HALF)
    sums, by_logits, back, parts, heads, middle_crossed, crossed = cuda.difference_norm(
        data.small, w, head, inputs, bits(before), bits(other), logits, g, p
    )
    small, inputs, before, other = (one.double() for one in (data.small, inputs, before, other))
    middle, moved, taps = reference.conv_up(
        small, g.up_weight(data.w, kind), Behind(mask=inputs, difference=True), g, last.head_weight(last_w, kind)
    )
    d, start = reference.fold(taps, None, last, True), logits.double()[..., None].expand(-1, 3, -1, -1, -1)
    end = (start + d).sigmoid()
    difference, by_start = end - start.sigmoid(), end * (1 - end) - start.sigmoid() * (1 - start.sigmoid())
    outer = difference.sign() if p == 1 else 2 * difference
    slopes = outer * end * (1 - end)
    assert error(sums.double().sum(1), difference.abs().pow(p).sum((1, 2, 3, 4))) < ROUNDING
    assert error(by_logits, outer * by_start) < 1e-2
    behind = Behind(mask=moved, other=inputs)
    inner, right_middle = reference.conv_down(slopes, last.down_weight(last_w, kind), behind, last)
    right, right_crossed = reference.conv_down(inner, g.down_weight(data.w, kind), Behind(mask=before, other=other), g)
    for found, expected in ((back, right), (middle_crossed, right_middle), (crossed, right_crossed)):
        assert error(found, expected) < 1e-2
    assert error(parts.double().sum(0), reference.weight_gradient(small, inner, g)[0]) < 1e-2
    assert error(heads.double().sum(0), reference.weight_gradient(middle, slopes, last)[0]) < 1e-2


def test_the_input_of_a_relu_is_kept() -> None:
    g, data = tiling.BEFORE_LAST, Data(tiling.BEFORE_LAST)
    w, bias = g.up_weight(data.w, HALF, for_cuda=True), data.bias[32]
    head = tiling.LAST.head_weight(0.1 * numbers(2, 32, 1, 4, 4, seed=5), HALF)
    plain = reference.conv_up(data.small.double(), g.up_weight(data.w, torch.float64), Behind(bias.double()), g)[0]
    for more in ((), (head, None, True)):
        found, known, inputs, folded = cuda.conv_up(data.small, w, Behind(bias, relu=True, keep=True), g, *more)
        assert error(inputs, plain) < ROUNDING
        out, _, _, expected = cuda.conv_up(data.small, w, Behind(bias, relu=True), g, *more)
        assert torch.equal(out, inputs.relu()) and torch.equal(known, bits(inputs))
        if more:  # the output is not written, and the next layer takes it all the same
            assert folded is not None and expected is not None
            assert found.numel() == 0 and torch.equal(folded, expected)
        else:
            assert torch.equal(found, out)


def test_steps_of_the_input_of_a_relu() -> None:
    """Differences behind the ReLU, and where its input is positive after the step."""
    g, data = LAYERS["decoder 2"], Data(LAYERS["decoder 2"])
    inputs = 3 * data.big.roll(1, 1)[:, :1]
    behind = Behind(mask=inputs, difference=True)
    found, known, *_ = cuda.conv_up(data.small, g.up_weight(data.w, HALF, for_cuda=True), behind, g)
    behind = Behind(mask=inputs.double(), difference=True)
    right, moved, _ = reference.conv_up(data.small.double(), g.up_weight(data.w, torch.float64), behind, g)
    assert error(found, right) < ROUNDING
    assert (unpacked(known, moved.dtype) != moved).double().mean() < 1e-3  # rounding may move one across zero


@pytest.mark.parametrize("name", ["decoder 3", "decoder 4"])
def test_gradients_of_the_input_of_a_relu(name: str) -> None:
    """What crosses between two masks, as bits or values; and what is added to a masked gradient, with its sums."""
    g, data = LAYERS[name], Data(LAYERS[name])
    w, exact = g.down_weight(data.w, HALF, for_cuda=True), g.down_weight(data.w, torch.float64)
    mask, other = data.small_mask, data.small_mask.roll(1, 2)[:, :1]
    behind = Behind(mask=mask.double(), other=other.double())
    right, right_crossed = reference.conv_down(data.big.double(), exact, behind, g)
    inputs = mask.where(mask > 0, -1.0), other.where(other > 0, -1.0)
    for masks in ((bits(mask), bits(other)), (mask, other), inputs)[: 3 if name == "decoder 4" else 1]:
        found, _, crossed = cuda.conv_down(data.big, w, Behind(mask=masks[0], other=masks[1]), g)
        assert error(found, right) < ROUNDING and error(crossed, right_crossed) < ROUNDING
    found, sums, _ = cuda.conv_down(data.big, w, Behind(mask=bits(mask), added=data.small, sums=True), g)
    assert error(found, right + data.small.double()) < ROUNDING
    assert_sums(sums, found)
    factor = torch.tensor([0.5, -3.0])
    found = cuda.conv_down(data.big, w, Behind(mask=bits(mask), added=data.small, factor=factor, sums=True), g)[0]
    assert error(found, right + factor.double()[:, None, None, None, None] * data.small.double()) < ROUNDING


def test_members_with_the_same_images() -> None:
    """They are not copied: their stride between members is 0."""
    g = LAYERS["decoder 2"]
    data = Data(g)
    big = data.big[:1].expand_as(data.big)
    assert torch.equal(*(cuda.weight_gradient(data.small, x, g) for x in (big, big.contiguous())))

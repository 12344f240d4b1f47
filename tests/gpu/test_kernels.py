"""The CUDA and Triton kernels on a GPU against plain torch in float64, and a chain of convolutions of a pack."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from untwine.kernels import cuda_launch as cuda
from untwine.kernels import operators, tiling
from untwine.kernels import torch_reference as reference
from untwine.kernels.dispatch import Stage, fast
from untwine.kernels.epilogue import Behind, unpacked
from untwine.kernels.geometry import Geometry
from untwine.kernels.layers import Conv2d, ConvTranspose2d

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))
from expected import GEOMETRIES, error, followed, geometry, numbers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]
DEVICE, HALF = "cuda", torch.bfloat16
ROUNDING = {torch.float32: 1e-5, HALF: 4e-3}  # of an output, relative to its norm
EXACT = 1e-5  # sums that stay in float32
SERVED = {
    "rhodes64, encoder 1": geometry(64, 64, 1, 32, 4, 2, 0),
    "rhodes64, encoder 2": geometry(31, 31, 32, 32, 4, 2, 0),
    "rhodes64, encoder 3": geometry(14, 14, 32, 64, 4, 2, 0),
    "rhodes64, decoder 2": geometry(16, 16, 32, 64, 4, 2, 1),
    "rhodes64, decoder 3": geometry(32, 32, 32, 32, 4, 2, 1),
    "rhodes64, decoder 4": geometry(64, 64, 1, 32, 4, 2, 1),
    "from 64 channels": geometry(16, 16, 64, 32, 4, 2, 1),
    "to 64 channels from one": geometry(32, 32, 1, 64, 4, 2, 1),
    "odd": geometry(25, 25, 32, 32, 4, 2, 1),
    "odd and unpadded": geometry(13, 15, 32, 64, 4, 2, 0),
    "oblong": geometry(20, 36, 32, 32, 4, 2, 1),
    "in bands": geometry(64, 64, 32, 32, 4, 2, 1),
    "wide": geometry(12, 100, 32, 64, 4, 2, 1),
    "large, of one channel": geometry(128, 128, 1, 32, 4, 2, 1),
    "tiny": geometry(4, 4, 32, 32, 4, 2, 1),
}
# Members, images, and images that have masks of their own: also numbers that divide no tile.
SIZES = [(1, 1, 1), (2, 14, 7), (3, 5, 5), (2, 33, 11)]


def supporting(operation: str) -> Any:
    """The geometries for which the CUDA kernels support an operation."""
    names = [name for name, g in SERVED.items() if tiling.tiling_for(g, operation) is not None]
    return pytest.mark.parametrize("g", [SERVED[name] for name in names], ids=names)


sizes = pytest.mark.parametrize(("members", "images", "masks"), SIZES)


class Data:
    """Random images, weights and masks of a dtype; `exact` has the same numbers in float64."""

    def __init__(self, g: Geometry, members: int, images: int, masks: int, kind: torch.dtype = HALF):
        def made(*shape: int, seed: int, kind: torch.dtype = kind) -> Tensor:
            return numbers(*shape, seed=seed, kind=kind).to(DEVICE)

        self.kind = kind
        self.big = made(members, images, g.hb, g.wb, g.cb, seed=0)
        self.small = made(members, images, g.hs, g.ws, g.cs, seed=1)
        self.w = 0.1 * made(members, g.cs, g.cb, g.kernel, g.kernel, seed=2)
        self.big_bias, self.small_bias = (made(members, c, seed=c, kind=torch.float32) for c in (g.cb, g.cs))
        self.big_mask = made(members, 2 * masks, g.hb, g.wb, g.cb, seed=3).relu()
        self.small_mask = made(members, 2 * masks, g.hs, g.ws, g.cs, seed=4).relu()

    def exact(self, name: str) -> Tensor:
        return getattr(self, name).double()


def bits(values: Tensor) -> Tensor:
    """A bit for each number that is above zero, the first of eight lowest."""
    powers = 2 ** torch.arange(8, device=values.device)
    return ((values > 0).unflatten(-1, (-1, 8)) * powers).sum(-1).to(torch.uint8)


def assert_close(found: Tensor, right: Tensor, most: float) -> None:
    """For each member."""
    assert found.shape == right.shape
    for number, (a, b) in enumerate(zip(found, right, strict=True)):
        assert error(a, b) < most, number


@sizes
@supporting("conv_down")
def test_down(g: Geometry, members: int, images: int, masks: int) -> None:
    data = Data(g, members, images, masks)
    w, plain = g.down_weight(data.w, HALF, True), g.down_weight(data.exact("w"), torch.float64)
    right = reference.conv_down(data.exact("big"), plain, Behind(), g)[0]
    found, known, _ = cuda.conv_down(data.big, w, Behind(data.small_bias, relu=True), g)
    assert_close(found, followed(right, data.exact("small_bias"), None, True), ROUNDING[HALF])
    assert torch.equal(known, bits(found))
    for mask in (data.small_mask[:, :masks], data.small_mask[:, ::2]):
        found, known, _ = cuda.conv_down(data.big, w, Behind(mask=mask), g)
        assert_close(found, followed(right, None, mask, False), ROUNDING[HALF])
        assert known.shape[-1] == 0
    by_bits, sums, _ = cuda.conv_down(data.big, w, Behind(mask=bits(data.small_mask)[:, ::2], sums=True), g)
    assert torch.equal(by_bits, found)
    torch.testing.assert_close(sums.sum(1).double(), found.double().sum((1, 2, 3)), rtol=1e-4, atol=1e-2)


@sizes
@supporting("conv_up")
def test_up(g: Geometry, members: int, images: int, masks: int) -> None:
    data = Data(g, members, images, masks)
    w, plain = g.up_weight(data.w, HALF, True), g.up_weight(data.exact("w"), torch.float64)
    right = reference.conv_up(data.exact("small"), plain, Behind(), g)[0]
    found, known, _, folded = cuda.conv_up(data.small, w, Behind(data.big_bias, relu=True), g)
    assert_close(found, followed(right, data.exact("big_bias"), None, True), ROUNDING[HALF])
    assert torch.equal(known, bits(found)) and folded is None
    for mask in (data.big_mask[:, :masks], data.big_mask[:, ::2]):
        found, known, *_ = cuda.conv_up(data.small, w, Behind(mask=mask), g)
        assert_close(found, followed(right, None, mask, False), ROUNDING[HALF])
        assert known.shape[-1] == 0
    by_bits, sums, *_ = cuda.conv_up(data.small, w, Behind(mask=bits(data.big_mask)[:, ::2], sums=True), g)
    assert torch.equal(by_bits, found)
    torch.testing.assert_close(sums.sum(1).double(), found.double().sum((1, 2, 3)), rtol=1e-4, atol=1e-2)


@sizes
@supporting("conv_up_fold")
def test_up_with_the_next_layer(g: Geometry, members: int, images: int, masks: int) -> None:
    """In float32 with biases and a ReLU, as values go; in bfloat16 with masks, as tangents do."""
    data, last = Data(g, members, images, masks), geometry(2 * g.hb, 2 * g.wb, 1, g.cb, 4, 2, 1)
    next_w, next_bias = (numbers(members, *shape, seed=8).to(DEVICE) for shape in ((g.cb, 1, 4, 4), (1,)))
    w, plain = g.up_weight(data.w, HALF, True), g.up_weight(data.exact("w"), torch.float64)
    head = last.head_weight(next_w, HALF)
    for bias, mask, precise in ((data.big_bias, None, True), (None, data.big_mask[:, ::2], False)):
        after = next_bias if precise else None
        found, known, _, folded = cuda.conv_up(
            data.small, w, Behind(bias, precise, mask), g, head, None if after is None else after.float(), precise
        )
        behind = Behind(None if bias is None else bias.double(), precise, None if mask is None else mask.double())
        right, _, taps = reference.conv_up(data.exact("small"), plain, behind, g, head.double())
        assert folded is not None and folded.dtype == (torch.float32 if precise else HALF)
        assert_close(found, right, ROUNDING[HALF])
        assert_close(folded, reference.fold(taps, after, last, True), ROUNDING[HALF])
        assert torch.equal(known, bits(found)) if precise else known.shape[-1] == 0


@sizes
@supporting("weight_gradient")
def test_weight(g: Geometry, members: int, images: int, masks: int) -> None:
    data = Data(g, members, images, masks)
    found = cuda.weight_gradient(data.small, data.big, g)
    right = reference.weight_gradient(data.exact("small"), data.exact("big"), g).sum(0)
    assert_close(found.double().sum(0), right, EXACT)
    assert torch.equal(cuda.weight_gradient(data.small, data.big, g), found)
    rectified = cuda.weight_gradient(data.small.relu(), data.big, g)
    assert torch.equal(cuda.weight_gradient(data.small, data.big, g, relu=True), rectified)


@pytest.mark.parametrize("p", [1, 2])
@sizes
def test_the_norm_of_the_last_two_layers(members: int, images: int, masks: int, p: int) -> None:
    """The gradients are compared with those at the kernel's own output: the sign of a small number is chance."""
    g, last = SERVED["rhodes64, decoder 3"], SERVED["rhodes64, decoder 4"]
    assert (g, last) == (tiling.BEFORE_LAST, tiling.LAST)
    data, last_w = Data(g, members, images, masks), 0.1 * numbers(members, 32, 1, 4, 4, seed=7, kind=HALF).to(DEVICE)
    u = numbers(members, masks, 64, 64, seed=8, kind=torch.float32).to(DEVICE).abs()
    mask, before = (one[:, ::2] for one in (data.big_mask, data.small_mask))
    known = [bits(one)[:, ::2] for one in (data.big_mask, data.small_mask)]
    w, head = g.up_weight(data.w, HALF, True), last.head_weight(last_w, HALF)
    t, back, parts, heads = cuda.tangent_norm(data.small, w, head, *known, u, g, p)
    small, both = data.exact("small"), (data.exact("w"), last_w.double())
    right = reference.tangent_norm(small, *both, mask.double(), before.double(), u.double(), g, last, p)
    assert_close(t, right[0], ROUNDING[HALF])
    slopes = (t.double().sign() if p == 1 else 2 * t.double()) * u.double().repeat(1, images // masks, 1, 1)[..., None]
    masked, kind = Behind(mask=mask.double()), torch.float64
    inner = reference.conv_down(slopes, last.down_weight(both[1], kind), masked, last)[0]
    outer = reference.conv_down(inner, g.down_weight(both[0], kind), Behind(mask=before.double()), g)[0]
    middle = reference.conv_up(small, g.up_weight(both[0], kind), masked, g)[0]
    assert_close(back, outer, 1e-2)
    assert_close(parts.sum(0), reference.weight_gradient(small, inner, g)[0], 1e-2)
    assert_close(heads.sum(0), reference.weight_gradient(middle, slopes, last)[0], 1e-2)


def behinds(mask: Tensor, other: Tensor, inputs: Tensor, added: Tensor, bias: Tensor) -> list[Behind]:
    """What follows a product where finite differences are trained."""
    return [
        Behind(bias, relu=True, keep=True),
        Behind(mask=inputs, difference=True),
        Behind(mask=mask, other=other),
        Behind(mask=mask, added=added, sums=True),
        Behind(mask=mask, added=added, factor=torch.linspace(-3, 2, len(added), device=added.device)),
    ]


@sizes
@pytest.mark.parametrize("g", SERVED.values(), ids=SERVED.keys())
def test_what_else_follows_a_product(g: Geometry, members: int, images: int, masks: int) -> None:
    """By CUDA where it serves, and by Triton: inputs of ReLUs, their steps, gradients of both, and sums."""
    from untwine.kernels import triton_launch

    data = Data(g, members, images, masks)
    for up in (True, False):
        x, added, own = (data.small, data.big, data.big_mask) if up else (data.big, data.small, data.small_mask)
        mask, other = own[:, :masks], own[:, 1::2]
        inputs, bias = (added - 0.3)[:, :masks], data.big_bias if up else data.small_bias
        operation, lay = ("conv_up", g.up_weight) if up else ("conv_down", g.down_weight)
        for behind in behinds(mask, other, inputs, added, bias):
            exact = {k: v.double() if isinstance(v, Tensor) else v for k, v in vars(behind).items()}
            reference_weight = lay(data.exact("w"), torch.float64)
            right, extra = getattr(reference, operation)(x.double(), reference_weight, Behind(**exact), g)[:2]
            found = [getattr(triton_launch, operation)(x, lay(data.w, HALF), behind, g)[:2]]
            if tiling.tiling_for(g, operation) is not None:
                out, summary, more = getattr(cuda, operation)(x, lay(data.w, HALF, True), behind, g)[:3]
                found.append((out, unpacked(summary, HALF) if behind.difference else more))
                if behind.sums:
                    torch.testing.assert_close(
                        summary.sum(1).double(), out.double().sum((1, 2, 3)), rtol=1e-4, atol=1e-2
                    )
            for out, more in found:
                assert_close(out, right, ROUNDING[HALF])
                if behind.difference:
                    assert (more.double() != extra).double().mean() < 1e-3  # rounding may move one across zero
                elif behind.has_extra:
                    assert_close(more, extra, ROUNDING[HALF])


@pytest.mark.parametrize("p", [1, 2])
@sizes
def test_the_norm_of_differences(members: int, images: int, masks: int, p: int) -> None:
    """With p of 1 the sign of a small difference would be chance: products are such that none is small."""
    g, last, kind = tiling.BEFORE_LAST, tiling.LAST, torch.float64
    data, last_w = Data(g, members, images, masks), 0.1 * numbers(members, 32, 1, 4, 4, seed=7, kind=HALF).to(DEVICE)
    if p == 1:
        signs = (-1.0) ** torch.arange(4).add(torch.arange(4)[:, None]).to(DEVICE)
        last_w, data.w, data.small = last_w.abs() / 64 * signs.to(HALF), data.w.abs(), data.small.abs()
    logits = numbers(members, masks, 64, 64, seed=8, kind=torch.float32).to(DEVICE)
    before = numbers(members, images, g.hs, g.ws, g.cs, seed=9, kind=HALF).to(DEVICE).relu()
    other, inputs = data.small_mask[:, ::2], (data.big_mask - 0.4)[:, ::2]
    w, head = g.up_weight(data.w, HALF, True), last.head_weight(last_w, HALF)
    sums, by_logits, back, parts, heads, middle_crossed, crossed = cuda.difference_norm(
        data.small, w, head, inputs, bits(before), bits(data.small_mask)[:, ::2], logits, g, p
    )
    small, exact_w, exact_last = data.exact("small"), data.exact("w"), last_w.double()
    moving = Behind(mask=inputs.double(), difference=True)
    middle, moved, taps = reference.conv_up(
        small, g.up_weight(exact_w, kind), moving, g, last.head_weight(exact_last, kind)
    )
    d, start = reference.fold(taps, None, last, True), logits.double().repeat(1, images // masks, 1, 1)[..., None]
    end = (start + d).sigmoid()
    difference, by_start = end - start.sigmoid(), end * (1 - end) - start.sigmoid() * (1 - start.sigmoid())
    outer = difference.sign() if p == 1 else 2 * difference
    slopes = outer * end * (1 - end)
    assert_close(sums.sum(1), difference.abs().pow(p).sum((1, 2, 3, 4)), ROUNDING[HALF])
    assert_close(by_logits, outer * by_start, 1e-2)
    both = Behind(mask=moved, other=inputs.double())
    inner, right_middle = reference.conv_down(slopes, last.down_weight(exact_last, kind), both, last)
    both = Behind(mask=before.double(), other=other.double())
    right, right_crossed = reference.conv_down(inner, g.down_weight(exact_w, kind), both, g)
    for found, expected in ((back, right), (middle_crossed, right_middle), (crossed, right_crossed)):
        assert_close(found, expected, 1e-2)
    assert_close(parts.sum(0), reference.weight_gradient(small, inner, g)[0], 1e-2)
    assert_close(heads.sum(0), reference.weight_gradient(middle, slopes, last)[0], 1e-2)


def test_members_with_the_same_images() -> None:
    """They are not copied: their stride between members is 0."""
    g = SERVED["rhodes64, encoder 2"]
    data = Data(g, 3, 5, 5)
    big, small = (one[:1].expand_as(one) for one in (data.big, data.small))
    down, up = g.down_weight(data.w, HALF, True), g.up_weight(data.w, HALF, True)
    assert torch.equal(*(cuda.conv_down(x, down, Behind(), g)[0] for x in (big, big.contiguous())))
    assert torch.equal(*(cuda.conv_up(x, up, Behind(), g)[0] for x in (small, small.contiguous())))
    assert torch.equal(*(cuda.weight_gradient(x, data.big, g) for x in (small, small.contiguous())))


@pytest.mark.parametrize("kind", ROUNDING, ids=str)
@pytest.mark.parametrize(("members", "images", "masks"), [(1, 1, 1), (2, 14, 7)])
@pytest.mark.parametrize("g", [*GEOMETRIES.values(), *SERVED.values()], ids=[*GEOMETRIES, *SERVED])
def test_triton(g: Geometry, members: int, images: int, masks: int, kind: torch.dtype) -> None:
    from untwine.kernels import triton_launch as launch

    data, most = Data(g, members, images, masks, kind), ROUNDING[kind]
    down, up = g.down_weight(data.w, kind), g.up_weight(data.w, kind)
    right = reference.conv_down(data.exact("big"), down.double(), Behind(), g)[0]
    mask = data.small_mask[:, ::2]
    found = launch.conv_down(data.big, down, Behind(data.small_bias, relu=True), g)[0]
    assert_close(found, followed(right, data.exact("small_bias"), None, True), most)
    assert_close(launch.conv_down(data.big, down, Behind(mask=mask), g)[0], followed(right, None, mask, False), most)

    right = reference.conv_up(data.exact("small"), up.double(), Behind(), g)[0]
    mask, head = data.big_mask[:, ::2], numbers(members, g.cb, 16, seed=9, kind=kind).to(DEVICE)
    found, _, taps = launch.conv_up(data.small, up, Behind(data.big_bias, relu=True), g, head)
    assert_close(found, followed(right, data.exact("big_bias"), None, True), most)
    assert_close(taps, torch.einsum("snijc,sct->snijt", found.double(), head.double()), most)
    found = launch.conv_up(data.small, up, Behind(mask=mask), g)[0]
    assert_close(found, followed(right, None, mask, False), most)

    found = launch.weight_gradient(data.small, data.big, g)
    right = reference.weight_gradient(data.exact("small"), data.exact("big"), g)
    assert_close(found.double().sum(0), right.sum(0), EXACT)
    assert_close(launch.sum_parts(found, g), reference.sum_parts(right, g), EXACT)

    taps = torch.einsum("snijc,sct->snijt", data.small, g.head_weight(data.w, kind)).contiguous()
    for bias, precise in ((data.big_bias, True), (None, False)):
        found = launch.fold(taps, bias, g, precise)
        right = reference.fold(taps.double(), None if bias is None else bias.double(), g, True)
        assert found.dtype == (torch.float32 if precise else kind)
        assert_close(found, right, EXACT if precise else most)


@pytest.mark.parametrize("kind", ROUNDING, ids=str)
@pytest.mark.parametrize("name", ["rhodes64, encoder 1", "rhodes64, encoder 3", "rhodes64, decoder 3", "odd"])
def test_shapes_are_known_to_a_tracer(name: str, kind: torch.dtype) -> None:
    """Outputs have the shapes that a trace expects, whichever kernels compute them: bits and parts of sums, too."""
    g, last = SERVED[name], geometry(2 * SERVED[name].hb, 2 * SERVED[name].wb, 1, SERVED[name].cb, 4, 2, 1)
    data, known = Data(g, 2, 6, 3, kind), ("test_schema", "test_faketensor")
    x, bias, size = data.small, data.big_bias, g.to_list()
    down, up = g.down_weight(data.w, kind), g.up_weight(data.w, kind)
    for relu in (True, False):
        flags = (relu, False, relu, not relu)
        torch.library.opcheck(operators.conv_down, (data.big, down, *[None] * 5, size, *flags), test_utils=known)
        torch.library.opcheck(operators.conv_up, (x, up, bias, *[None] * 4, size, *flags), test_utils=known)
        if name == "rhodes64, decoder 3":
            head = last.head_weight(numbers(2, g.cb, 1, 4, 4, kind=kind).to(DEVICE), kind)
            given = (x, up, bias, None, head, bias[:, :1].contiguous(), size, last.to_list(), relu, False, relu, relu)
            torch.library.opcheck(operators.conv_up_fold, given, test_utils=known)
    torch.library.opcheck(operators.weight_gradient, (x, data.big, size, True), test_utils=known)
    inputs = data.big_mask[:, :3].contiguous()
    for masks, flags in (((inputs, None, None), (True, False)), ((inputs, inputs, data.big), (False, True))):
        given = (x, up, None, *masks, None, size, False, flags[0], False, flags[1])
        torch.library.opcheck(operators.conv_up, given, test_utils=known)


CHAINS = {
    "encoder": [Conv2d(1, 32, 4, 2), nn.ReLU(), Conv2d(32, 32, 4, 2), nn.ReLU(), Conv2d(32, 64, 4, 2), nn.ReLU()],
    "decoder": [
        *(ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU()),
        ConvTranspose2d(32, 1, 4, 2, 1),
    ],
    "another last layer": [ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), ConvTranspose2d(32, 1, 4, 2, 0)],
    "three colours": [ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), ConvTranspose2d(32, 3, 3, 2, 1, 1)],
    "small kernels": [Conv2d(3, 16, 3, 1, 1), nn.ReLU(), Conv2d(16, 8, 3, 2, 1)],
}


class Pushed(nn.Module):
    """The output of a stage, and its tangents."""

    def __init__(self, layers: list[nn.Module]):
        super().__init__()
        self.stage = Stage(layers)

    def forward(self, x: Tensor, tangents: Tensor) -> tuple[Tensor, Tensor]:
        output, kept = self.stage.trace(x)
        return output, self.stage.push(kept, tangents)


@pytest.mark.parametrize("kind", ROUNDING, ids=str)
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_of_a_pack(name: str, kind: torch.dtype) -> None:
    """Values, tangents and gradients of members whose parameters are columns of one matrix, against float64."""
    members, batch, columns = 3, 5, 2
    made = Pushed(CHAINS[name])
    shapes = {key: value.shape for key, value in made.named_parameters()}
    counts = [shape.numel() for shape in shapes.values()]
    rows = numbers(members, sum(counts), seed=1).float().double()
    side = 32 if name == "encoder" else 8
    first = made.stage.layers[0].in_channels
    assert isinstance(first, int)
    x = numbers(members, batch, first, side, side)
    tangents = numbers(members, columns, batch, first, side, side, seed=2)

    def found(device: str, precision: torch.dtype) -> list[Tensor]:
        high = torch.float64 if precision == torch.float64 else torch.float32
        own = rows.to(device, high).requires_grad_()
        scales = [(2 / shape[1:].numel()) ** 0.5 for shape in shapes.values()]
        pieces = [piece * scale for piece, scale in zip(own.split(counts, 1), scales, strict=True)]
        matrix = torch.cat(pieces, 1)  # so that a bias is a column of it
        parameters = {
            key: piece.view(members, *shape)
            for piece, (key, shape) in zip(matrix.split(counts, 1), shapes.items(), strict=True)
        }
        given = x.to(device, high).requires_grad_(), tangents.to(device, high).requires_grad_()
        with fast(), torch.autocast(device, HALF, enabled=precision == HALF):
            outputs = vmap(lambda p, *a: functional_call(made, p, a))(parameters, *given)
        total = sum((one * numbers(*one.shape, seed=3).to(device, one.dtype)).sum() for one in outputs)
        return [*outputs, *torch.autograd.grad(total, [own, *given])]  # type: ignore[arg-type]

    # Rounding moves some numbers across the zero of a ReLU: values hardly notice, tangents and gradients do.
    values, others = {torch.float32: (1e-5, 3e-3), HALF: (1e-2, 2e-1)}[kind]
    for number, (a, b) in enumerate(zip(found(DEVICE, kind), found("cpu", torch.float64), strict=True)):
        assert_close(a.detach().cpu(), b.detach(), others if number else values)

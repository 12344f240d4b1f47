"""The networks' layers, sizes and refusals."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

import untwine as uw
from untwine.errors import UntwineError
from untwine.model import networks
from untwine.model.info import Info
from untwine.model.layers import ACTIVATIONS
from untwine.model.networks.initial import initialise
from untwine.model.vae import create


def shapes(module: nn.Module, x: torch.Tensor) -> list[tuple[int, ...]]:
    """The output shape of every layer that has weights."""
    found = []
    for layer in module:  # type: ignore[attr-defined]
        x = layer(x)
        if list(layer.parameters()):
            found.append(tuple(x.shape[1:]))
    return found


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def build(network: networks.Network, shape: tuple[int, ...], latents: int = 10) -> tuple[nn.Module, nn.Module]:
    return network.build(Info(latents, shape), 2 * latents)


# --- the papers' tables -----------------------------------------------------------------------------

DECODER_64 = [(256,), (1024,), (64, 8, 8), (32, 16, 16), (32, 32, 32)]
DECODER_16 = [(128,), (1024,), (64, 8, 8), (32, 16, 16)]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("padding", "sides", "flat"), [("valid", (31, 14, 6, 2), 64 * 2 * 2), ("same", (32, 16, 8, 4), 64 * 4 * 4)]
)
def test_rhodes64_is_table_1(channels, padding, sides, flat):
    encoder, decoder = build(networks.rhodes64(padding), (channels, 64, 64))
    widths = (32, 32, 64, 64)
    expected = [(w, s, s) for w, s in zip(widths, sides, strict=True)]
    assert shapes(encoder, torch.zeros(1, channels, 64, 64)) == [*expected, (256,), (20,)]
    assert shapes(decoder, torch.zeros(1, 10)) == [*DECODER_64, (channels, 64, 64)]
    kernels = sum(16 * a * b + b for a, b in itertools.pairwise((channels, *widths)))
    assert count(encoder) == kernels + (flat + 1) * 256 + 257 * 20
    back = 11 * 256 + 257 * 1024 + sum(16 * a * b + b for a, b in itertools.pairwise((64, 64, 32, 32, channels)))
    assert count(decoder) == back
    assert [type(layer) for layer in encoder[1::2][:4]] == [nn.ReLU] * 4
    assert type(decoder[-1]) is not nn.Sigmoid  # the likelihood's mean is the sigmoid


@pytest.mark.parametrize(("padding", "sides"), [("valid", (7, 3)), ("same", (8, 4))])
def test_rhodes16_is_table_2(padding, sides):
    encoder, decoder = build(networks.rhodes16(padding), (1, 16, 16))
    first, second = sides
    assert shapes(encoder, torch.zeros(1, 1, 16, 16)) == [(64, first, first), (128, second, second), (128,), (20,)]
    assert shapes(decoder, torch.zeros(1, 10)) == [*DECODER_16, (1, 16, 16)]
    assert count(encoder) == (9 * 64 + 64) + (9 * 64 * 128 + 128) + (128 * second**2 + 1) * 128 + 129 * 20
    assert count(decoder) == 11 * 128 + 129 * 1024 + (9 * 64 * 64 + 64) + (9 * 64 * 32 + 32) + (9 * 32 + 1)
    assert decoder[-1].stride == (1, 1) and decoder[-1].kernel_size == (3, 3)


@pytest.mark.parametrize(("name", "side"), [("rhodes64", 64), ("rhodes16", 16)])
def test_a_decoder_with_another_activation(name, side):
    """Its layers and initial weights are those of the published network; the encoder does not change."""
    make, info = networks.networks[name], Info(3, (1, side, side))
    smooth = make(decoder_activation="silu")
    assert smooth.spec == {**make().spec, "decoder_activation": "silu"} and networks.build(smooth.spec) == smooth
    assert make(decoder_activation="relu") == make() and "decoder_activation" not in make().spec
    parts = uw.likelihoods.bernoulli, uw.posteriors.diagonal_normal, uw.priors.standard_normal
    models = [create(info, network, *parts) for network in (make(), smooth)]
    first, second = (model.state_dict() for model in models)
    assert first.keys() == second.keys() and all(torch.equal(first[key], second[key]) for key in first)
    assert str(models[0].encoder) == str(models[1].encoder)
    assert str(models[0].decoder).replace("ReLU", "SiLU") == str(models[1].decoder) != str(models[0].decoder)
    with pytest.raises(UntwineError, match="unknown activation 'sliu'; did you mean 'silu'"):
        make(decoder_activation="sliu")


def dense(*widths: int) -> int:
    return sum((a + 1) * b for a, b in itertools.pairwise(widths))


def square(*planes: int) -> int:
    """Parameters of 4x4 kernels."""
    return sum(16 * a * b + b for a, b in itertools.pairwise(planes))


@pytest.mark.parametrize(
    ("network", "shape", "forth", "kind", "back", "back_kind", "counts"),
    [
        # 4096 * 1200 + 1200 + 1200 * 1200 + 1200 + 1200 * 10 + 10, and so on
        (
            *(networks.rolinek_dsprites(), (1, 64, 64)),
            *((1200, 1200), nn.ReLU, (1200, 1200, 1200), nn.Tanh, (6_369_610, 7_808_896)),
        ),
        (networks.rolinek_linear(), (3,), (), nn.ReLU, (), nn.ReLU, (3 * 10 + 10, 5 * 3 + 3)),
        # The decoder has the same order as the encoder: it is not mirrored.
        (networks.rolinek_nonlinear(), (3,), (60, 40, 20), nn.Tanh, (60, 40, 20), nn.Tanh, (3710, 3683)),
        (networks.rolinek_mnist(), (1, 28, 28), (400,), nn.ReLU, (500, 500), nn.Tanh, (318_010, 646_284)),
        (networks.mathieu_pinwheel(), (2,), (100,), nn.ReLU, (100,), nn.ReLU, (300 + 1010, 600 + 202)),
    ],
)
def test_fully_connected_tables(network, shape, forth, kind, back, back_kind, counts):
    """rolinek2019, Table S3; mathieu2019's pinwheel. Five latents, ten outputs."""
    encoder, decoder = build(network, shape, latents=5)
    size = torch.zeros(shape).numel()
    assert shapes(encoder, torch.zeros(1, *shape)) == [(w,) for w in (*forth, 10)]
    assert shapes(decoder, torch.zeros(1, 5)) == [(w,) for w in (*back, size)]
    assert (count(encoder), count(decoder)) == counts == (dense(size, *forth, 10), dense(5, *back, size))
    plain = (nn.Linear, nn.Flatten, nn.Unflatten)
    for module, wanted, hidden in ((encoder, kind, forth), (decoder, back_kind, back)):
        assert [type(layer) for layer in module if not isinstance(layer, plain)] == [wanted] * len(hidden)
    assert all(layer.bias is not None for layer in (*encoder, *decoder) if isinstance(layer, nn.Linear))
    assert network.scheme == "uniform" and network.log_variance is None


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("make", "hidden", "up"),
    [(networks.michlo64, 256, (64, 64, 32, 32)), (networks.mathieu_dsprites, 128, (64, 64, 64, 32))],
)
def test_michlo64_is_table_a3_and_mathieu_dsprites_what_facts_says(make, hidden, up, channels):
    encoder, decoder = build(make(), (channels, 64, 64))
    expected = [(32, 32, 32), (32, 16, 16), (64, 8, 8), (64, 4, 4), (hidden,), (20,)]
    assert shapes(encoder, torch.zeros(1, channels, 64, 64)) == expected
    sides = zip((*up[1:], channels), (8, 16, 32, 64), strict=True)
    assert shapes(decoder, torch.zeros(1, 10)) == [(hidden,), (1024,), *((w, s, s) for w, s in sides)]
    assert count(encoder) == square(channels, 32, 32, 64, 64) + dense(1024, hidden, 20)
    assert count(decoder) == dense(10, hidden, 1024) + square(*up, channels)
    if channels == 1:
        # Kernels: 544 + 16,416 + 32,832 + 65,600; back 65,600 + 32,800 + 16,416 + 513, or 2 * 65,600 + 32,800 + 513.
        counts = {256: (115_392 + 262_400 + 5_140, 115_329 + 2_816 + 263_168)}
        counts[128] = (115_392 + 131_200 + 2_580, 164_513 + 1_408 + 132_096)
        assert (count(encoder), count(decoder)) == counts[hidden]
    for layer in (*encoder, *decoder):
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
            assert (layer.kernel_size, layer.stride, layer.padding) == ((4, 4), (2, 2), (1, 1))
    kinds = {type(layer) for layer in (*encoder, *decoder) if not list(layer.parameters())}
    assert kinds == {nn.ReLU, nn.Flatten, nn.Unflatten}
    assert not isinstance(decoder[-1], nn.ReLU)


def test_michlo64_starts_xavier_normal():
    network = networks.michlo64()
    assert network.scheme == "xavier_normal" and network.log_variance is None
    assert networks.build(network.spec).scheme == "xavier_normal"
    parts = uw.likelihoods.squared_error, uw.posteriors.diagonal_normal, uw.priors.standard_normal
    vae = create(Info(9, (3, 64, 64)), network, *parts)
    assert all((value == 0).all() for name, value in vae.named_parameters() if name.endswith("bias"))
    weight = next(layer for layer in vae.encoder if isinstance(layer, nn.Linear)).weight  # 256 by 1024
    assert weight.std().item() == pytest.approx((2 / (256 + 1024)) ** 0.5, rel=0.01)


# --- conv -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [16, 17, 23, 28, 31, 32, 33, 48, 64, 65, 96, 100, 127, 128, 255, 256])
def test_conv_gives_back_the_size_it_was_given(size):
    channels = {16: 1, 28: 5, 100: 5}.get(size, 3)
    encoder, decoder = build(networks.conv(channels=() if size < 100 else (2, 4, 4), hidden=8), (channels, size, size))
    x = torch.zeros(2, channels, size, size)
    assert encoder(x).shape == (2, 20) and decoder(torch.zeros(2, 10)).shape == x.shape


@pytest.mark.parametrize(("size", "widths"), [(16, (32, 64)), (31, (32, 64)), (64, (32, 32, 64, 64)), (256, None)])
def test_conv_halves_down_to_four_to_seven_pixels(size, widths):
    encoder, decoder = build(networks.conv(), (3, size, size))
    convolutions = [layer for layer in encoder if isinstance(layer, nn.Conv2d)]
    widths = widths or (32, 32, 32, 64, 64, 64)
    assert tuple(layer.out_channels for layer in convolutions) == widths
    assert 4 <= size >> len(widths) <= 7
    mirrored = [layer.in_channels for layer in decoder if isinstance(layer, nn.ConvTranspose2d)]
    assert tuple(reversed(mirrored)) == widths


def test_conv_takes_its_widths_and_activation():
    encoder, decoder = build(networks.conv((7, 9, 11), 13, "silu"), (2, 40, 40))
    assert shapes(encoder, torch.zeros(1, 2, 40, 40)) == [(7, 20, 20), (9, 10, 10), (11, 5, 5), (13,), (20,)]
    assert shapes(decoder, torch.zeros(1, 10)) == [(13,), (275,), (9, 10, 10), (7, 20, 20), (2, 40, 40)]
    kinds = {type(layer) for layer in (*encoder, *decoder) if not list(layer.parameters())}
    assert kinds == {nn.SiLU, nn.Flatten, nn.Unflatten}
    encoder, _ = build(networks.conv((2, 2, 2, 2)), (1, 16, 16))  # down to a single pixel
    assert shapes(encoder, torch.zeros(1, 1, 16, 16))[3] == (2, 1, 1)


# --- mlp --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6,), (1,), (1, 8, 8), (3, 5, 7)])
def test_mlp_takes_any_shape(shape):
    encoder, decoder = build(networks.mlp((12, 9)), shape)
    x = torch.zeros(4, *shape)
    assert encoder(x).shape == (4, 20) and decoder(torch.zeros(4, 10)).shape == x.shape
    pixels = x[0].numel()
    assert shapes(encoder, x) == [(12,), (9,), (20,)]
    assert shapes(decoder, torch.zeros(4, 10)) == [(9,), (12,), (pixels,)]
    assert count(encoder) == (pixels + 1) * 12 + 13 * 9 + 10 * 20


def test_mlp_without_hidden_layers_is_linear():
    encoder, decoder = build(networks.mlp(()), (6,))
    generator = torch.Generator().manual_seed(0)
    for module, width in ((encoder, 6), (decoder, 10)):
        initialise(module, 0)
        a = torch.randn(3, width, generator=generator)
        zero = module(torch.zeros_like(a))
        assert torch.allclose(module(2 * a) - zero, 2 * (module(a) - zero), atol=1e-5)
        assert len(list(module.parameters())) == 2


def test_mlp_has_its_own_decoder_if_asked():
    encoder, decoder = build(networks.mlp((12,), (4, 5), "tanh", "elu"), (6,))
    assert [type(layer) for layer in encoder][2] is nn.Tanh
    assert [type(layer) for layer in decoder][1::2] == [nn.ELU, nn.ELU, nn.Unflatten]
    assert shapes(decoder, torch.zeros(1, 10)) == [(4,), (5,), (6,)]
    assert build(networks.mlp((12,), ()), (6,))[1](torch.zeros(1, 10)).shape == (1, 6)


# --- refusals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("network", "shape", "message"),
    [
        (networks.rhodes64(), (1, 32, 32), "'rhodes64' cannot take 32x32 images; it takes 64x64"),
        (networks.rhodes16(), (1, 64, 64), "'rhodes16' cannot take 64x64 images; it takes 16x16"),
        (networks.michlo64(), (3, 32, 32), "'michlo64' cannot take 32x32 images; it takes 64x64"),
        (networks.michlo64(), (3,), "'michlo64' takes images"),
        (networks.locatello64(), (1, 32, 32), "'locatello64' cannot take 32x32 images; it takes 64x64"),
        (networks.mathieu_dsprites(), (1, 28, 28), "'mathieu_dsprites' cannot take 28x28 images; it takes 64x64"),
        (networks.mathieu_fashion(), (1, 28, 28), "'mathieu_fashion' cannot take 28x28 images; it takes 32x32"),
        (networks.conv(), (1, 15, 15), "'conv' cannot take 15x15 images; it takes square images from 16x16 to 256x256"),
        (networks.conv(), (1, 257, 257), "cannot take 257x257"),
        (networks.conv(), (3, 32, 48), "cannot take 32x48"),
        (networks.conv(), (10,), r"takes images \[channels, height, width\], not \[10\]; try 'mlp'"),
        (networks.rhodes64(), (64, 64), "takes images"),
        (networks.conv((2,) * 6), (1, 32, 32), "6 halvings of a 32x32 image leave nothing"),
        (networks.conv(activation="rellu"), (1, 32, 32), "unknown activation 'rellu'; did you mean 'relu'"),
        (networks.mlp(decoder_activation="tan"), (6,), "unknown activation 'tan'; did you mean 'tanh'"),
    ],
)
def test_refusals_name_the_sizes(network, shape, message):
    with pytest.raises(UntwineError, match=message):
        build(network, shape)


@pytest.mark.parametrize("make", [networks.rhodes64, networks.rhodes16])
def test_unknown_padding(make):
    with pytest.raises(
        UntwineError, match=r"padding of .* must be 'valid' or 'same', not 'vald'; did you mean 'valid'"
    ):
        make("vald")


def test_a_base_of_nothing():
    with pytest.raises(UntwineError, match=r"base of network .* must be a whole number, 1 or more, not 0"):
        networks.mathieu_fashion(0)


def test_every_activation_serves():
    for name, kind in ACTIVATIONS.items():
        encoder, _ = build(networks.mlp((4,), activation=name), (6,))
        assert type(encoder[2]) is kind
    assert len(ACTIVATIONS) == 8


# --- specs ------------------------------------------------------------------------------------------


def test_a_spec_names_every_setting():
    assert networks.rhodes64().spec == {"name": "rhodes64", "padding": "valid", "log_variance": -3.0}
    assert networks.mlp((3,)).spec["hidden"] == [3]
    made = networks.build({"name": "mlp", "hidden": [3, 4], "activation": "tanh"})
    assert made == networks.mlp((3, 4), activation="tanh") != networks.mlp((3, 4))
    for spec, message in (
        ({"name": "mpl"}, "unknown network 'mpl'; did you mean 'mlp'"),
        ({"name": "mlp", "hiden": [3]}, "unknown argument of network 'mlp': 'hiden'; did you mean 'hidden'"),
    ):
        with pytest.raises(UntwineError, match=message):
            networks.build(spec)


@pytest.mark.parametrize(
    ("shape", "name"),
    [((64,), "mlp"), ((3, 64, 64), "rhodes64"), ((1, 16, 16), "rhodes16"), ((1, 28, 28), "conv"), ((1, 8, 8), "mlp")],
)
def test_suited(shape, name):
    network = networks.suited(shape)
    assert network.spec["name"] == name
    encoder, decoder = network.build(Info(3, shape), 6)
    assert encoder(torch.zeros(1, *shape)).shape == (1, 6) and decoder(torch.zeros(1, 3)).shape == (1, *shape)


def test_what_is_published_for_a_shape_comes_first():
    """By height and width for images, whatever their channels; by length for vectors."""
    published = {(64, 64): "michlo64", (3,): {"name": "mlp", "hidden": [60, 40]}, (24, 32): "rolinek-mnist"}
    for channels in (1, 3):
        assert networks.suited((channels, 64, 64), published) == networks.michlo64()
    assert networks.suited((3,), published) == networks.mlp((60, 40))
    assert networks.suited((1, 24, 32), published) == networks.rolinek_mnist()
    for shape in ((1, 16, 16), (2,), (3, 28, 28), (3, 32, 24), (24, 32, 1)):
        assert networks.suited(shape, published) == networks.suited(shape) == networks.suited(shape, {})
    with pytest.raises(UntwineError, match="unknown network 'michlo'; did you mean 'michlo64'"):
        networks.suited((1, 64, 64), {(64, 64): "michlo"})


@pytest.mark.parametrize("shape", [(1, 15, 15), (3, 24, 32), (1, 257, 257)])
def test_what_is_suited_can_be_built(shape):
    """`network="auto"` must not choose a network that then refuses the images."""
    _, decoder = networks.suited(shape).build(Info(3, shape), 6)
    assert decoder(torch.zeros(1, 3)).shape == (1, *shape)


def test_a_network_of_ones_own():
    @uw.network
    def tiny_for_this_test(width: int = 3) -> networks.Builder:
        """One layer."""

        def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
            return nn.Linear(info.shape[0], outputs), nn.Linear(info.latents, info.shape[0])

        return make

    try:
        assert networks.build({"name": "tiny-for-this-test"}).spec == {"name": "tiny_for_this_test", "width": 3}
        assert tiny_for_this_test().log_variance is None and tiny_for_this_test().scheme == "uniform"
    finally:
        del networks.networks._entries["tiny_for_this_test"]

"""Networks of public code, against its conventions computed another way: padding, initial weights, layers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import untwine as uw
from untwine.errors import UntwineError
from untwine.model import networks
from untwine.model.info import Info
from untwine.model.networks.initial import SCHEMES, initialise
from untwine.model.vae import VAE, create
from untwine.train.steps.pack import Pack

PARTS = uw.likelihoods.bernoulli, uw.posteriors.diagonal_normal, uw.priors.standard_normal
LATENTS = 10


def make(network: networks.Network, shape: tuple[int, ...] = (1, 64, 64)) -> VAE:
    return create(Info(LATENTS, shape), network, *PARTS)


def layers(module: nn.Module, *kinds: type[nn.Module]) -> list[nn.Module]:
    return [
        layer for layer in module.modules() if isinstance(layer, kinds or (nn.Linear, nn.Conv2d, nn.ConvTranspose2d))
    ]


def normals(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


# --- locatello64: TensorFlow's conventions ----------------------------------------------------------


def same_convolution(x: Tensor, weight: Tensor, stride: int = 2) -> Tensor:
    """TensorFlow's padding SAME: as many outputs as strides fit, the odd zero behind."""
    before_and_after = []
    for size, kernel in zip(x.shape[:1:-1], weight.shape[:1:-1], strict=True):  # the width comes first
        total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
        before_and_after += [total // 2, total - total // 2]
    return F.conv2d(F.pad(x, before_and_after), weight, stride=stride)


@pytest.mark.parametrize("kernel", [2, 4])
def test_locatello64_has_tensorflows_padding(kernel):
    vae = make(networks.locatello64(f"{kernel}x{kernel}")).double()
    sides, colours = [64, 32, 16, 8], [1, 32, 32, 64]
    for layer, side, colour in zip(layers(vae.encoder, nn.Conv2d), sides, colours, strict=True):
        x = normals(2, colour, side, side)
        assert torch.allclose(layer(x), same_convolution(x, layer.weight), atol=1e-12)  # biases are zero
    for layer, side in zip(layers(vae.decoder, nn.ConvTranspose2d), [4, 8, 16, 32], strict=True):
        # TensorFlow's transposed convolution is the gradient of a convolution, from twice the side.
        small = normals(2, layer.in_channels, side, side)
        big = torch.zeros(2, layer.out_channels, 2 * side, 2 * side).double().requires_grad_()
        same_convolution(big, layer.weight).backward(small)
        assert torch.allclose(layer(small), big.grad, atol=1e-12)


@pytest.mark.parametrize(("kernel", "channels"), [(2, 1), (4, 3)])
def test_locatello64_layer_by_layer(kernel, channels):
    vae = make(networks.locatello64(f"{kernel}x{kernel}"), (channels, 64, 64))
    sizes = [layer.kernel_size for layer in layers(vae, nn.Conv2d, nn.ConvTranspose2d)]
    assert sizes == [(4, 4), (4, 4), (kernel, kernel), (kernel, kernel), *[(4, 4)] * 4]
    field = kernel**2
    convolutions = 16 * channels * 32 + 32 + 16 * 32 * 32 + 32 + field * 32 * 64 + 64 + field * 64 * 64 + 64
    assert count(vae.encoder) == convolutions + 1025 * 256 + 257 * 20
    back = 16 * 64 * 64 + 64 + 16 * 64 * 32 + 32 + 16 * 32 * 32 + 32 + 16 * 32 * channels + channels
    assert count(vae.decoder) == 11 * 256 + 257 * 1024 + back
    assert networks.locatello64().spec == {"name": "locatello64", "kernels": "2x2"}
    with pytest.raises(UntwineError, match="kernels of network 'locatello64' must be '2x2' or '4x4', not '3x3'"):
        networks.locatello64("3x3")  # type: ignore[arg-type]


def tensorflow_kernels(vae: VAE) -> list[tuple[tuple[int, ...], Tensor]]:
    """Each weight with the shape of its variable in TensorFlow, whose two heads are layers of their own."""
    found: list[tuple[tuple[int, ...], Tensor]] = []
    for layer in layers(vae):
        weight = layer.weight
        assert isinstance(weight, Tensor)
        if isinstance(layer, nn.Conv2d):  # height, width, input, output
            found.append(((*layer.kernel_size, layer.in_channels, layer.out_channels), weight))
        elif isinstance(layer, nn.ConvTranspose2d):  # height, width, output, input
            found.append(((*layer.kernel_size, layer.out_channels, layer.in_channels), weight))
        elif layer is vae.encoder[-1]:  # type: ignore[index]
            found += [((256, LATENTS), head) for head in weight.chunk(2)]
        else:
            found.append(((layer.in_features, layer.out_features), weight))  # type: ignore[arg-type]
    return found


def test_locatello64_starts_as_tensorflow_does():
    """Glorot-uniform: every weight within its limit, the largest near it, and the variance a third of its square."""
    vae = make(networks.locatello64())
    assert all((value == 0).all() for name, value in vae.named_parameters() if name.endswith("bias"))
    kernels = tensorflow_kernels(vae)
    assert len(kernels) == 13
    for shape, weight in kernels:
        field = math.prod(shape[:-2])
        limit = math.sqrt(6 / (field * shape[-2] + field * shape[-1]))
        assert weight.numel() == math.prod(shape)
        # The largest of n uniforms is about limit / n below the limit; their variance is known to about 1 / sqrt(n).
        assert limit * (1 - 12 / weight.numel()) < weight.abs().max() <= limit, shape
        assert weight.square().mean().item() / limit**2 == pytest.approx(1 / 3, rel=4 / math.sqrt(weight.numel()))


def test_log_variances_have_no_offset():
    """Over seeds, their mean is 0 at the start; that of rhodes64 is -3."""
    x = torch.rand(1, 1, 64, 64, generator=torch.Generator().manual_seed(0))
    means = {}
    for name in ("locatello64", "rhodes64"):
        network = networks.build({"name": name})
        models = [create(Info(LATENTS, (1, 64, 64)), network, *PARTS, seed=seed) for seed in range(8)]
        means[name] = torch.stack([vae.encoder(x)[0, LATENTS:] for vae in models]).mean().item()
    assert abs(means["locatello64"]) < 0.3 and means["rhodes64"] == pytest.approx(-3, abs=0.05)


def test_a_discriminator_starts_as_its_network_does():
    data = uw.datasets.three_dots(examples=5)
    run = uw.Run(method=uw.methods.factor_vae(hidden=60), dataset=data, network="locatello64")
    pack = Pack(run.members(), run.info(), torch.device("cpu"), "loop")
    dense = layers(pack.template.adversaries, nn.Linear)
    assert len(dense) == 7 and all((layer.bias == 0).all() for layer in dense)
    for layer in dense[:-1]:
        limit = math.sqrt(6 / sum(layer.weight.shape))
        assert 0.97 * limit < layer.weight.abs().max() <= limit


def test_unknown_schemes_are_refused():
    assert set(SCHEMES) == {"uniform", "xavier_normal", "glorot_uniform", "dcgan"}
    with pytest.raises(UntwineError, match="unknown scheme of initial weights 'glorot'; did you mean 'glorot_uniform'"):
        initialise(nn.Linear(2, 2), 0, "glorot")


# --- mathieu2019 ------------------------------------------------------------------------------------


def test_mathieu_dsprites_has_no_relu_between_its_dense_layers():
    """Behind the convolutions the encoder is affine: one matrix, the product of two."""
    encoder = make(networks.mathieu_dsprites()).double().encoder
    features = normals(5, 64, 4, 4)
    first, second = encoder[-2], encoder[-1]  # type: ignore[index]
    matrix = second.weight @ first.weight
    expected = features.flatten(1) @ matrix.T + second.weight @ first.bias + second.bias
    assert torch.allclose(encoder[8:](features), expected, atol=1e-12)  # type: ignore[index]
    assert [type(layer) for layer in encoder[:8]] == [
        *(layer for _ in range(4) for layer in (type(encoder[0]), nn.ReLU))
    ]  # type: ignore[index]


@pytest.mark.parametrize(("base", "channels", "groups"), [(32, 1, (8, 8, 8)), (5, 3, (2, 4, 1))])
def test_mathieu_fashion_is_the_authors_but_for_the_normalisation(base, channels, groups):
    vae = make(networks.mathieu_fashion(base), (channels, 32, 32))
    one, two, four = base, 2 * base, 4 * base
    kernels, norms = 16 * (channels * one + one * two + two * four), 2 * (two + four)
    assert count(vae.encoder) == kernels + norms + 16 * four * 2 * LATENTS + 2 * LATENTS  # only the heads have biases
    assert count(vae.decoder) == 16 * LATENTS * four + kernels + norms + 2 * one
    leaky = layers(vae.encoder, nn.LeakyReLU)
    assert len(leaky) == 3 and {layer.negative_slope for layer in leaky} == {0.2} and not layers(vae.encoder, nn.ReLU)
    assert len(layers(vae.decoder, nn.ReLU)) == 3 and not layers(vae.decoder, nn.LeakyReLU)
    found = [layer.num_groups for layer in layers(vae.encoder, nn.GroupNorm)]
    assert (
        found == list(groups[:2]) and [layer.num_groups for layer in layers(vae.decoder, nn.GroupNorm)][2] == groups[2]
    )
    assert networks.mathieu_fashion().spec == {"name": "mathieu_fashion", "base": 32}


def test_mathieu_fashion_normalises_each_image_by_groups():
    """By a loop: behind the second convolution every group of channels of every image has mean 0 and deviation 1."""
    encoder = make(networks.mathieu_fashion(16), (1, 32, 32)).double().encoder
    maps = encoder[:4](normals(3, 1, 32, 32))  # type: ignore[index]
    before = encoder[:3](normals(3, 1, 32, 32))  # type: ignore[index]
    for image in range(3):
        for group in range(8):
            part, raw = maps[image, 4 * group : 4 * group + 4], before[image, 4 * group : 4 * group + 4]
            variance = raw.var(unbiased=False)
            assert abs(part.mean()) < 1e-10
            assert part.var(unbiased=False).item() == pytest.approx((variance / (variance + 1e-5)).item(), rel=1e-9)


def test_mathieu_fashion_starts_as_dcgan():
    vae = make(networks.mathieu_fashion(), (1, 32, 32))
    for layer in layers(vae):
        n = layer.weight.numel()
        assert layer.weight.std().item() == pytest.approx(0.02, rel=4 / math.sqrt(2 * n))
        assert layer.bias is None or (layer.bias == 0).all()
    for norm in layers(vae, nn.GroupNorm):
        assert (norm.weight == 1).all() and (norm.bias == 0).all()


# --- rhodes2021 -------------------------------------------------------------------------------------


def test_rhodes16_is_the_mirror_image_of_the_authors_decoder():
    """Theirs drops the last row and column of what a transposed convolution gives, ours the first."""
    decoder = make(networks.rhodes16(), (1, 16, 16)).double().decoder
    x = normals(2, 64, 4, 4)
    ours, theirs = x, x.flip(2, 3)
    for layer in decoder[5:]:  # type: ignore[index]
        ours = layer(ours)
        if isinstance(layer, nn.ConvTranspose2d):
            stride, side = layer.stride[0], theirs.shape[-1]
            complete = F.conv_transpose2d(theirs, layer.weight.flip(2, 3), layer.bias, stride)
            before = (complete.shape[-1] - stride * side) // 2  # the odd row and column are behind
            theirs = complete[..., before : before + stride * side, before : before + stride * side]
        else:
            theirs = layer(theirs)
    assert torch.allclose(ours, theirs.flip(2, 3), atol=1e-12)
    assert not torch.allclose(ours, theirs, atol=1e-3)

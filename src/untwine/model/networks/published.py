"""Networks of the papers, layer by layer, with their initial weights."""

from __future__ import annotations

import math
from typing import Literal

from torch import nn

from untwine.arguments import Count
from untwine.kernels.layers import Conv2d, ConvTranspose2d, Linear
from untwine.model.info import Info
from untwine.model.networks.architecture import (
    Builder,
    Network,
    Padding,
    activation_layer,
    image_size,
    network,
    strided,
)
from untwine.model.networks.general import mlp


@network(added=["decoder_activation"])
def rhodes64(padding: Padding = "valid", log_variance: float = -3.0, decoder_activation: str = "relu") -> Network:
    """rhodes2021, Table 1: 64x64 images, 4x4 kernels, stride 2, ReLU.

    Args:
        padding: The encoder's padding: valid (none), as in the authors' code, or same.
        log_variance: The initial bias of the posterior's log-variances.
        decoder_activation: relu, as published, or another of the decoder: silu, softplus, gelu, tanh, leaky_relu,
            sigmoid or elu.
    """
    activation = activation_layer(decoder_activation)

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        image_size(info.shape, "rhodes64", "64x64 images", lambda n: n == 64)
        widths = (32, 32, 64, 64), (256,), (64, 64, 32, 32)
        return strided(info, outputs, *widths, padding=padding, decoder_activation=activation)

    return Network({}, make, log_variance)


@network(added=["decoder_activation"])
def rhodes16(padding: Padding = "valid", log_variance: float = -3.0, decoder_activation: str = "relu") -> Network:
    """rhodes2021, Table 2: 16x16 images, 3x3 kernels, stride 2 except in the decoder's last layer, ReLU.

    A transposed 3x3 kernel of stride 2 gives one row and one column too many. The decoder drops the first ones, that of
    the authors' code the last: the two are mirror images of each other, and so are their initial weights.

    Args:
        padding: The encoder's padding: valid (none), as in the authors' code, or same.
        log_variance: The initial bias of the posterior's log-variances.
        decoder_activation: relu, as published, or another of the decoder: silu, softplus, gelu, tanh, leaky_relu,
            sigmoid or elu.
    """
    activation = activation_layer(decoder_activation)

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        channels, _ = image_size(info.shape, "rhodes16", "16x16 images", lambda n: n == 16)
        pad, side = (1, 4) if padding == "same" else (0, 3)
        encoder = nn.Sequential(
            *(Conv2d(channels, 64, 3, 2, pad), nn.ReLU()),
            *(Conv2d(64, 128, 3, 2, pad), nn.ReLU()),
            *(nn.Flatten(), Linear(128 * side * side, 128), nn.ReLU()),
            Linear(128, outputs),
        )
        decoder = nn.Sequential(
            *(Linear(info.latents, 128), activation()),
            *(Linear(128, 64 * 4 * 4), activation(), nn.Unflatten(1, (64, 4, 4))),
            *(ConvTranspose2d(64, 64, 3, 2, 1, 1), activation()),
            *(ConvTranspose2d(64, 32, 3, 2, 1, 1), activation()),
            ConvTranspose2d(32, channels, 3, 1, 1),
        )
        return encoder, decoder

    return Network({}, make, log_variance)


@network
def locatello64(kernels: Literal["2x2", "4x4"] = "2x2") -> Network:
    """Locatello et al. 2019: 64x64 images, 4x4 and 2x2 kernels, stride 2, ReLU; weights start Glorot-uniform.

    The network of disentanglement_lib, with which rhodes2021 trained the baselines of its Figure 5: TensorFlow's
    initial weights, all biases at 0 and so no offset of the log-variances.

    Args:
        kernels: The encoder's third and fourth kernels: 2x2, as in disentanglement_lib and in the copy of it that
            rhodes2021 published; or 4x4, as in rhodes2021's Table 1 (its appendix B says that its baselines had them).
    """

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        image_size(info.shape, "locatello64", "64x64 images", lambda n: n == 64)
        deep = {"2x2": 2, "4x4": 4}[kernels]
        sizes = (4, 4, deep, deep)
        encoder, decoder = strided(info, outputs, (32, 32, 64, 64), (256,), (64, 64, 32, 32), kernels=sizes)
        head = encoder[-1]
        assert isinstance(head, Linear)
        head.heads = outputs // info.latents  # means and log-variances are layers of their own
        return encoder, decoder

    return Network({}, make, scheme="glorot_uniform")


@network
def rolinek_dsprites() -> Network:
    """rolinek2019, Table S3, dSprites: fully connected, two hidden layers of 1200 ReLUs; back, three of 1200 tanh."""
    return mlp((1200, 1200), (1200, 1200, 1200), "relu", "tanh")


@network
def rolinek_linear() -> Network:
    """rolinek2019, Table S3, the linear synthetic data: no hidden layers."""
    return mlp(())


@network
def rolinek_nonlinear() -> Network:
    """rolinek2019, Table S3, the nonlinear synthetic data: 60, 40 and 20 tanh, in the decoder in the same order."""
    return mlp((60, 40, 20), (60, 40, 20), "tanh")


@network
def rolinek_mnist() -> Network:
    """rolinek2019, Table S3, MNIST and Fashion-MNIST: fully connected, 400 ReLUs; back, 500 and 500 tanh."""
    return mlp((400,), (500, 500), "relu", "tanh")


@network
def mathieu_pinwheel() -> Network:
    """mathieu2019, the pinwheel: one hidden layer of 100 ReLUs each way.

    The authors' decoder has a second output, the scale of each coordinate of each point; here the scale belongs to the
    likelihood: one that is learned for all points (`learned-gaussian`).
    """
    return mlp((100,))


@network
def mathieu_dsprites() -> Builder:
    """mathieu2019, dSprites: 64x64 images, 4x4 kernels, stride 2, a dense layer of 128, ReLU.

    As in the authors' code, the encoder's dense layer of 128 has no ReLU.
    """

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        image_size(info.shape, "mathieu_dsprites", "64x64 images", lambda n: n == 64)
        encoder, decoder = strided(info, outputs, (32, 32, 64, 64), (128,), (64, 64, 64, 32))
        *before, _relu, head = encoder
        return nn.Sequential(*before, head), decoder

    return make


@network
def mathieu_fashion(base: Count = 32) -> Network:
    """mathieu2019, Fashion-MNIST: 32x32 images, DCGAN: 4x4 kernels, stride 2, normalised, leaky ReLU, back ReLU.

    No layer that is normalised has a bias, and weights start as N(0, 0.02^2). The authors' code has BatchNorm, which
    mixes examples; here it is GroupNorm with 8 groups. They also read off the posterior's deviation by a softplus, here
    it is the exponential of half of the log-variance.

    Args:
        base: Channels of the first layer; the next ones have twice and four times as many.
    """

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        channels, _ = image_size(info.shape, "mathieu_fashion", "32x32 images", lambda n: n == 32)
        one, two, four = base, 2 * base, 4 * base
        encoder = nn.Sequential(
            *(Conv2d(channels, one, 4, 2, 1, bias=False), nn.LeakyReLU(0.2)),
            *(Conv2d(one, two, 4, 2, 1, bias=False), _normalised(two), nn.LeakyReLU(0.2)),
            *(Conv2d(two, four, 4, 2, 1, bias=False), _normalised(four), nn.LeakyReLU(0.2)),
            *(nn.Flatten(), Linear(four * 4 * 4, outputs)),
        )
        decoder = nn.Sequential(
            *(
                Linear(info.latents, four * 4 * 4, bias=False),
                nn.Unflatten(1, (four, 4, 4)),
                _normalised(four),
                nn.ReLU(),
            ),
            *(ConvTranspose2d(four, two, 4, 2, 1, bias=False), _normalised(two), nn.ReLU()),
            *(ConvTranspose2d(two, one, 4, 2, 1, bias=False), _normalised(one), nn.ReLU()),
            ConvTranspose2d(one, channels, 4, 2, 1, bias=False),
        )
        return encoder, decoder

    return Network({}, make, scheme="dcgan")


def _normalised(channels: int) -> nn.GroupNorm:
    """A normalisation by groups: eight of them, or fewer where eight do not divide the channels."""
    return nn.GroupNorm(math.gcd(channels, 8), channels)


@network
def michlo64() -> Network:
    """michlo2023, Table A3: 64x64 images, 4x4 kernels, stride 2, ReLU; weights start Xavier-normal, biases at 0."""

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        image_size(info.shape, "michlo64", "64x64 images", lambda n: n == 64)
        return strided(info, outputs, (32, 32, 64, 64), (256,), (64, 64, 32, 32))

    return Network({}, make, scheme="xavier_normal")

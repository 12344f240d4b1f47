"""Networks: an encoder and a decoder for a given shape of examples, by name.

A network is a function of its settings that returns a builder (`untwine.model.architecture`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from torch import nn

from untwine.arguments import Count
from untwine.errors import UntwineError
from untwine.kernels.layers import Conv2d, ConvTranspose2d, Linear
from untwine.model.architecture import (
    Builder,
    Network,
    activation_layer,
    build,
    dense,
    image_size,
    network,
    networks,
    strided,
)
from untwine.model.info import Info
from untwine.namespace import directory


def suited(shape: tuple[int, ...], published: Any = None) -> Network:
    """The default network for a shape: the paper's where it fits, else `conv`, or `mlp` where that does not.

    Args:
        shape: The shape of an example.
        published: The networks, by name or as specs, with which a method was published: by height and width for
            images, by length for vectors; or one network for all shapes.

    >>> suited((3, 64, 64)).spec["name"], suited((3, 64, 64), {(64, 64): "michlo64"}).spec["name"]
    ('rhodes64', 'michlo64')
    """
    chosen: Any = published
    if isinstance(published, Mapping) and "name" not in published:
        chosen = published.get(shape[1:] if len(shape) == 3 else shape)
    if chosen is not None:
        return build({"name": chosen} if isinstance(chosen, str) else chosen)
    if len(shape) != 3 or shape[1] != shape[2] or not 16 <= shape[1] <= 256:
        return mlp()
    if shape[1:] == (64, 64):
        return rhodes64()
    if shape[1:] == (16, 16):
        return rhodes16()
    return conv()


@network
def rhodes64(padding: Literal["valid", "same"] = "valid", log_variance: float = -3.0) -> Network:
    """rhodes2021, Table 1: 64x64 images, 4x4 kernels, stride 2, ReLU.

    Args:
        padding: The encoder's padding: valid (none), as in the authors' code, or same, as in disentanglement_lib.
        log_variance: The initial bias of the posterior's log-variances.
    """

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        image_size(info.shape, "rhodes64", "64x64 images", lambda n: n == 64)
        pad = 1 if padding == "same" else 0
        return strided(info, outputs, (32, 32, 64, 64), (256,), (64, 64, 32, 32), padding=pad)

    return Network({}, make, log_variance)


@network
def rhodes16(padding: Literal["valid", "same"] = "valid", log_variance: float = -3.0) -> Network:
    """rhodes2021, Table 2: 16x16 images, 3x3 kernels, stride 2 except in the decoder's last layer, ReLU.

    Args:
        padding: The encoder's padding: valid (none), as in the authors' code, or same.
        log_variance: The initial bias of the posterior's log-variances.
    """

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
            *(Linear(info.latents, 128), nn.ReLU()),
            *(Linear(128, 64 * 4 * 4), nn.ReLU(), nn.Unflatten(1, (64, 4, 4))),
            *(ConvTranspose2d(64, 64, 3, 2, 1, 1), nn.ReLU()),
            *(ConvTranspose2d(64, 32, 3, 2, 1, 1), nn.ReLU()),
            ConvTranspose2d(32, channels, 3, 1, 1),
        )
        return encoder, decoder

    return Network({}, make, log_variance)


@network
def conv(
    channels: tuple[Count, ...] = (),
    hidden: Count = 256,
    activation: str = "relu",
    log_variance: float = 0.0,
) -> Network:
    """Stride-2 4x4 convolutions for any square image from 16 to 256 px, with any number of channels.

    The decoder mirrors the encoder.

    Args:
        channels: Width of each layer; by default as many layers as halve the image to 4..7 px, 32 wide, the
            deeper half 64.
        hidden: Width of the dense layer between the convolutions and the latents.
        activation: relu, tanh, leaky_relu, sigmoid, elu, softplus, silu or gelu.
        log_variance: The initial bias of the posterior's log-variances.
    """

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        _, size = image_size(info.shape, "conv", "square images from 16x16 to 256x256", lambda n: 16 <= n <= 256)
        depth = int(math.log2(size / 4))
        widths = channels or tuple(32 if layer < depth / 2 else 64 for layer in range(depth))
        if 2 ** len(widths) > size:
            raise UntwineError(f"{len(widths)} halvings of a {size}x{size} image leave nothing: give fewer channels")
        return strided(info, outputs, widths, (hidden,), tuple(reversed(widths)), activation_layer(activation))

    return Network({}, make, log_variance)


@network
def mlp(
    hidden: tuple[Count, ...] = (256, 256),
    decoder_hidden: tuple[Count, ...] | None = None,
    activation: str = "relu",
    decoder_activation: str | None = None,
) -> Builder:
    """Fully connected layers for vectors and images of any shape; `hidden=()` is linear.

    Args:
        hidden: Widths of the encoder's hidden layers.
        decoder_hidden: Widths of the decoder's hidden layers; None takes the encoder's in reverse.
        activation: relu, tanh, leaky_relu, sigmoid, elu, softplus, silu or gelu.
        decoder_activation: The decoder's activation; None takes the encoder's.
    """

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        size = math.prod(info.shape)
        back = tuple(reversed(hidden)) if decoder_hidden is None else decoder_hidden
        encoder = nn.Sequential(nn.Flatten(), *dense((size, *hidden, outputs), activation_layer(activation)))
        activation_back = activation_layer(decoder_activation or activation)
        decoder = nn.Sequential(*dense((info.latents, *back, size), activation_back), nn.Unflatten(1, info.shape))
        return encoder, decoder

    return make


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
    """mathieu2019, the pinwheel: one hidden layer of 100 ReLUs each way."""
    return mlp((100,))


@network
def mathieu_dsprites() -> Builder:
    """mathieu2019, dSprites: 64x64 images, 4x4 kernels, stride 2, a dense layer of 128, ReLU."""

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        image_size(info.shape, "mathieu_dsprites", "64x64 images", lambda n: n == 64)
        return strided(info, outputs, (32, 32, 64, 64), (128,), (64, 64, 64, 32))

    return make


@network
def mathieu_fashion(base: Count = 32) -> Builder:
    """mathieu2019, Fashion-MNIST: 32x32 images, like DCGAN: 4x4 kernels, stride 2, ReLU, no dense layer between.

    The last step down to the posterior is a 4x4 convolution of a 4x4 map: a linear layer. No BatchNorm.

    Args:
        base: Channels of the first layer; the next ones have twice and four times as many.
    """

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        image_size(info.shape, "mathieu_fashion", "32x32 images", lambda n: n == 32)
        return strided(info, outputs, (base, 2 * base, 4 * base), (), (4 * base, 2 * base, base))

    return make


@network
def michlo64() -> Network:
    """michlo2023, Table A3: 64x64 images, 4x4 kernels, stride 2, ReLU; weights start Xavier-normal, biases at 0."""

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        image_size(info.shape, "michlo64", "64x64 images", lambda n: n == 64)
        return strided(info, outputs, (32, 32, 64, 64), (256,), (64, 64, 32, 32))

    return Network({}, make, scheme="xavier_normal")


__all__ = [
    "Builder",
    "Network",
    "build",
    "conv",
    "mathieu_dsprites",
    "mathieu_fashion",
    "mathieu_pinwheel",
    "michlo64",
    "mlp",
    "network",
    "networks",
    "rhodes16",
    "rhodes64",
    "rolinek_dsprites",
    "rolinek_linear",
    "rolinek_mnist",
    "rolinek_nonlinear",
    "suited",
]
__dir__ = directory(__all__)

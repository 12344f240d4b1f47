"""Networks for examples of any size: convolutions and fully connected layers."""

from __future__ import annotations

import math

from torch import nn

from untwine.arguments import Count
from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.model.networks.architecture import Builder, Network, activation_layer, dense, image_size, network, strided


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

"""Networks: an encoder and a decoder for a given shape of examples, by name.

A network is a function of its settings that returns a builder; `@network` makes its name known, so that a
spec or the command line can use it. A builder gets `(info, outputs)` and returns the encoder
(example -> `outputs` raw values of the posterior) and the decoder (latents -> the likelihood's output).
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from torch import nn

from untwine.errors import UntwineError, unknown
from untwine.kernels.layers import Conv2d, ConvTranspose2d, Linear
from untwine.model.info import Info
from untwine.model.layers import ACTIVATIONS
from untwine.registry import Registry

Builder: TypeAlias = Callable[[Info, int], tuple[nn.Module, nn.Module]]

networks = Registry("network")


@dataclass(frozen=True)
class Network:
    """A named network with its settings: `build(info, outputs)` makes the modules."""

    spec: dict[str, Any]
    build: Builder = field(compare=False)
    log_variance: float | None = None
    scheme: str = "uniform"


def network(function: Callable[..., Builder | Network]) -> Callable[..., Network]:
    """Register a network. The function returns a builder, or a Network with further settings."""

    @functools.wraps(function)
    def made(*args: Any, **kwargs: Any) -> Network:
        bound = inspect.signature(function).bind(*args, **kwargs)
        spec = networks.spec(function.__name__, bound.arguments)
        inner = function(*args, **kwargs)
        if isinstance(inner, Network):
            return Network(spec, inner.build, inner.log_variance, inner.scheme)
        return Network(spec, inner)

    return networks.add(made)


def build(spec: dict[str, Any]) -> Network:
    """The network of a spec `{"name": ..., **settings}`; unknown names and settings are refused."""
    arguments = {k: tuple(v) if isinstance(v, list) else v for k, v in spec.items() if k != "name"}
    try:
        return networks.call(spec["name"], arguments)
    except TypeError as error:
        raise UntwineError(f"network {spec['name']!r} cannot be made of {arguments}: {error}") from None


def suited(shape: tuple[int, ...], published: Any = None) -> Network:
    """The default network for a shape: the paper's where it fits, else `conv`, or `mlp` where that does not.

    `published` has the networks, by name or as specs, with which a paper treats a dataset or method: by
    height and width for images, by length for vectors; or it is one for all.

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


def _image(shape: tuple[int, ...], name: str, sizes: str, accepts: Callable[[int], bool]) -> tuple[int, int]:
    if len(shape) != 3:
        raise UntwineError(f"network {name!r} takes images [channels, height, width], not {list(shape)}; try 'mlp'")
    channels, height, width = shape
    if height != width or not accepts(height):
        raise UntwineError(f"network {name!r} cannot take {height}x{width} images; it takes {sizes}")
    return channels, height


def _activation(name: str) -> type[nn.Module]:
    if name not in ACTIVATIONS:
        raise unknown("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]


def _strided(
    info: Info,
    outputs: int,
    down: tuple[int, ...],
    hidden: tuple[int, ...],
    up: tuple[int, ...],
    kind: type[nn.Module] = nn.ReLU,
    padding: int = 1,
) -> tuple[nn.Module, nn.Module]:
    """4x4 convolutions of stride 2 with `down` channels, dense layers, and back: `up` are the inputs' channels."""
    colours, size, _ = info.shape
    sizes = [size >> layer for layer in range(len(up) + 1)]
    side = size
    encoder: list[nn.Module] = []
    for before, after in itertools.pairwise((colours, *down)):
        encoder += [Conv2d(before, after, 4, 2, padding), kind()]
        side = (side + 2 * padding - 4) // 2 + 1
    encoder += [nn.Flatten(), *_dense((down[-1] * side**2, *hidden, outputs), kind)]
    start = (up[0], sizes[-1], sizes[-1])
    decoder = [*_dense((info.latents, *reversed(hidden), math.prod(start)), kind), kind(), nn.Unflatten(1, start)]
    for layer, (before, after) in enumerate(itertools.pairwise((*up, colours)), 1):
        odd = sizes[-layer - 1] - 2 * sizes[-layer]  # an odd size was rounded down on the way in
        decoder += [ConvTranspose2d(before, after, 4, 2, 1, odd), kind()]
    return nn.Sequential(*encoder), nn.Sequential(*decoder[:-1])


@network
def rhodes64(padding: str = "valid", log_variance: float = -3.0) -> Network:
    """rhodes2021, Table 1: 64x64 images, 4x4 kernels, stride 2, ReLU.

    Args:
        padding: Of the encoder: valid (none), as in the authors' code, or same, as in disentanglement_lib.
        log_variance: Where the bias of the posterior's log-variances starts.
    """
    if padding not in ("valid", "same"):
        raise unknown("padding", padding, ("valid", "same"))

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        _image(info.shape, "rhodes64", "64x64 images", lambda n: n == 64)
        pad = 1 if padding == "same" else 0
        return _strided(info, outputs, (32, 32, 64, 64), (256,), (64, 64, 32, 32), padding=pad)

    return Network({}, make, log_variance)


@network
def rhodes16(padding: str = "valid", log_variance: float = -3.0) -> Network:
    """rhodes2021, Table 2: 16x16 images, 3x3 kernels, stride 2 except in the decoder's last layer, ReLU.

    Args:
        padding: Of the encoder: valid (none), as in the authors' code, or same.
        log_variance: Where the bias of the posterior's log-variances starts.
    """
    if padding not in ("valid", "same"):
        raise unknown("padding", padding, ("valid", "same"))

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        channels, _ = _image(info.shape, "rhodes16", "16x16 images", lambda n: n == 16)
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
    channels: tuple[int, ...] = (),
    hidden: int = 256,
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
        log_variance: Where the bias of the posterior's log-variances starts.
    """

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        _, size = _image(info.shape, "conv", "square images from 16x16 to 256x256", lambda n: 16 <= n <= 256)
        depth = int(math.log2(size / 4))
        widths = channels or tuple(32 if layer < depth / 2 else 64 for layer in range(depth))
        if 2 ** len(widths) > size:
            raise UntwineError(f"{len(widths)} halvings of a {size}x{size} image leave nothing: give fewer channels")
        _widths("conv", *widths, hidden)
        return _strided(info, outputs, widths, (hidden,), tuple(reversed(widths)), _activation(activation))

    return Network({}, make, log_variance)


@network
def mlp(
    hidden: tuple[int, ...] = (256, 256),
    decoder_hidden: tuple[int, ...] | None = None,
    activation: str = "relu",
    decoder_activation: str | None = None,
) -> Builder:
    """Fully connected layers for vectors and images of any shape; `hidden=()` is linear.

    Args:
        hidden: Widths of the encoder's hidden layers.
        decoder_hidden: Widths of the decoder's; the encoder's in reverse if none.
        activation: relu, tanh, leaky_relu, sigmoid, elu, softplus, silu or gelu.
        decoder_activation: The decoder's; the encoder's if none.
    """

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        size = math.prod(info.shape)
        _widths("mlp", *hidden, *(decoder_hidden or ()))
        back = tuple(reversed(hidden)) if decoder_hidden is None else decoder_hidden
        encoder = nn.Sequential(nn.Flatten(), *_dense((size, *hidden, outputs), _activation(activation)))
        kind = _activation(decoder_activation or activation)
        decoder = nn.Sequential(*_dense((info.latents, *back, size), kind), nn.Unflatten(1, info.shape))
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
        _image(info.shape, "mathieu_dsprites", "64x64 images", lambda n: n == 64)
        return _strided(info, outputs, (32, 32, 64, 64), (128,), (64, 64, 64, 32))

    return make


@network
def mathieu_fashion(base: int = 32) -> Builder:
    """mathieu2019, Fashion-MNIST: 32x32 images, like DCGAN: 4x4 kernels, stride 2, ReLU, no dense layer between.

    The last step down to the posterior is a 4x4 convolution of a 4x4 map: a linear layer. No BatchNorm.

    Args:
        base: Channels of the first layer; the next ones have twice and four times as many.
    """
    _widths("mathieu_fashion", base)

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        _image(info.shape, "mathieu_fashion", "32x32 images", lambda n: n == 32)
        return _strided(info, outputs, (base, 2 * base, 4 * base), (), (4 * base, 2 * base, base))

    return make


@network
def michlo64() -> Network:
    """michlo2023, Table A3: 64x64 images, 4x4 kernels, stride 2, ReLU; weights start Xavier-normal, biases at 0."""

    def make(info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
        _image(info.shape, "michlo64", "64x64 images", lambda n: n == 64)
        return _strided(info, outputs, (32, 32, 64, 64), (256,), (64, 64, 32, 32))

    return Network({}, make, scheme="xavier_normal")


def _widths(name: str, *widths: int) -> None:
    if any(not isinstance(width, int) or width < 1 for width in widths):
        raise UntwineError(f"the layers of network {name!r} must be 1 wide or more, not {list(widths)}")


def _dense(widths: tuple[int, ...], kind: type[nn.Module]) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [Linear(before, after), kind()]
    return layers[:-1]

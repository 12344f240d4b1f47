"""How a network gets its name: `@network` on a function of settings that returns a builder.

A builder gets `(info, outputs)` and returns the encoder (example -> `outputs` raw values of the posterior) and
the decoder (latents -> the likelihood's output). `network` makes its name known, so that a spec or the command
line can use it.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, ParamSpec, TypeAlias, overload

from torch import nn

from untwine.arguments import bind
from untwine.errors import UntwineError, unknown
from untwine.kernels.layers import Conv2d, ConvTranspose2d, Linear
from untwine.model.info import Info
from untwine.model.layers import ACTIVATIONS
from untwine.registry import Registry

P = ParamSpec("P")
Builder: TypeAlias = Callable[[Info, int], tuple[nn.Module, nn.Module]]
Padding: TypeAlias = Literal["valid", "same"]

networks = Registry("network")


@dataclass(frozen=True)
class Network:
    """A named network with its settings: `build(info, outputs)` makes the modules.

    Args:
        spec: Its name and settings.
        build: Makes the encoder and the decoder.
        log_variance: The initial bias of the posterior's log-variances; None starts them as any bias.
        scheme: How its weights start (`untwine.model.networks.initial`).
    """

    spec: dict[str, Any]
    build: Builder = field(compare=False)
    log_variance: float | None = None
    scheme: str = "uniform"


@overload
def network(function: Callable[P, Builder | Network]) -> Callable[P, Network]: ...
@overload
def network(*, added: Sequence[str]) -> Callable[[Callable[P, Builder | Network]], Callable[P, Network]]: ...


def network(function: Any = None, *, added: Sequence[str] = ()) -> Any:
    """Register a network. The function returns a builder, or a Network with further settings.

    Args:
        function: The function; its name is the name of the network.
        added: Settings that the network got after runs with it were stored. Its spec leaves them out at their
            defaults, so that the ids of stored runs stay.
    """
    if function is None:
        return functools.partial(network, added=added)
    name = function.__name__
    defaults = {key: parameter.default for key, parameter in inspect.signature(function).parameters.items()}

    @functools.wraps(function)
    def make(*args: Any, **kwargs: Any) -> Network:
        settings = bind(f"network {name!r}", function, args, kwargs)
        built = function(**settings)
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()}
        stored = {key: value for key, value in plain.items() if key not in added or value != defaults[key]}
        spec = {"name": name, **stored}
        if isinstance(built, Network):
            return Network(spec, built.build, built.log_variance, built.scheme)
        return Network(spec, built)

    return networks.add(make)


def build(spec: dict[str, Any]) -> Network:
    """The network of a spec `{"name": ..., **settings}`; unknown names and settings are refused."""
    return networks.call(spec["name"], {key: value for key, value in spec.items() if key != "name"})


# --- what networks are made of ----------------------------------------------------------------------


def image_size(shape: tuple[int, ...], name: str, sizes: str, accepts: Callable[[int], bool]) -> tuple[int, int]:
    """The channels and the side of square images that a network takes, or an error that says which it takes.

    Args:
        shape: The shape of an example.
        name: The name of the network.
        sizes: The sizes that it takes, in words.
        accepts: Whether it takes images of a side.
    """
    if len(shape) != 3:
        raise UntwineError(f"network {name!r} takes images [channels, height, width], not {list(shape)}; try 'mlp'")
    channels, height, width = shape
    if height != width or not accepts(height):
        raise UntwineError(f"network {name!r} cannot take {height}x{width} images; it takes {sizes}")
    return channels, height


def activation_layer(name: str) -> type[nn.Module]:
    """The layer of an activation function, by its name."""
    if name not in ACTIVATIONS:
        raise unknown("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]


def strided(
    info: Info,
    outputs: int,
    down: tuple[int, ...],
    hidden: tuple[int, ...],
    up: tuple[int, ...],
    activation: type[nn.Module] = nn.ReLU,
    padding: Padding = "same",
    kernels: tuple[int, ...] = (),
    decoder_activation: type[nn.Module] | None = None,
) -> tuple[nn.Sequential, nn.Sequential]:
    """Convolutions of stride 2, dense layers, and the same back.

    Args:
        info: The shape of the images and the number of latents.
        outputs: The number of raw values of the posterior.
        down: The output channels of the encoder's convolutions.
        hidden: The widths of the dense layers, in the decoder in reverse.
        up: The input channels of the decoder's convolutions.
        activation: The layer between the others.
        padding: The padding of the encoder's convolutions: same halves the image, valid is none.
        kernels: The sizes of the encoder's kernels, by default 4; the decoder's are 4.
        decoder_activation: The layer between the decoder's others; None takes the encoder's.
    """
    back_activation = decoder_activation or activation
    colours, size, _ = info.shape
    sizes = [size >> layer for layer in range(len(up) + 1)]
    side = size
    encoder: list[nn.Module] = []
    widths = itertools.pairwise((colours, *down))
    for (before, after), kernel in zip(widths, kernels or (4,) * len(down), strict=True):
        border = kernel // 2 - 1 if padding == "same" else 0
        encoder += [Conv2d(before, after, kernel, 2, border), activation()]
        side = (side + 2 * border - kernel) // 2 + 1
    encoder += [nn.Flatten(), *dense((down[-1] * side**2, *hidden, outputs), activation)]
    start = (up[0], sizes[-1], sizes[-1])
    back = (info.latents, *reversed(hidden), math.prod(start))
    decoder = [*dense(back, back_activation), back_activation(), nn.Unflatten(1, start)]
    for layer, (before, after) in enumerate(itertools.pairwise((*up, colours)), 1):
        odd = sizes[-layer - 1] - 2 * sizes[-layer]  # an odd size was rounded down on the way in
        decoder += [ConvTranspose2d(before, after, 4, 2, 1, odd), back_activation()]
    return nn.Sequential(*encoder), nn.Sequential(*decoder[:-1])


def dense(widths: tuple[int, ...], activation: type[nn.Module]) -> list[nn.Module]:
    """Linear layers with activations between them.

    Args:
        widths: The widths of the input, of the layers between, and of the output.
        activation: The layer between two linear ones.
    """
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [Linear(before, after), activation()]
    return layers[:-1]

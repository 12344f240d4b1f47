"""The modules of a network, checked as they come: a user's builder may return anything."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from untwine.errors import UntwineError, brief
from untwine.model.info import Info
from untwine.model.networks import Network
from untwine.room import refuse_larger

_SMALLER = "take fewer latents, smaller layers or smaller examples"


def modules(network: Network, info: Info, outputs: int) -> tuple[nn.Module, nn.Module]:
    """The encoder and the decoder of a network.

    Args:
        network: The network.
        info: The shape of an example and the number of latents.
        outputs: The number of raw values of the posterior.
    """
    _refuse_larger(network, info, outputs)
    name = _named(network)
    if not callable(network.build):
        raise UntwineError(
            f"{name}: its function must return a builder, (info, outputs) -> (encoder, decoder), not "
            f"{network.build!r:.100}"
        )
    try:
        built = network.build(info, outputs)
    except UntwineError:
        raise
    except Exception as error:
        if is_ours(network):
            raise
        raise UntwineError(f"{name} cannot be built: {brief(error)}") from error
    if not (isinstance(built, tuple) and len(built) == 2):
        raise UntwineError(f"{name}: a network's builder returns an encoder and a decoder, not {built!r:.100}")
    for half, module in zip(("encoder", "decoder"), built, strict=True):
        _refuse_module(f"the {half} of {name}", module)
    return built


def is_ours(network: Network) -> bool:
    """Whether a network comes with untwine: a failure in it is no slip of the user's."""
    return (getattr(network.build, "__module__", None) or "").startswith("untwine.")


def refuse_outputs(network: Network, info: Info, outputs: int, halves: tuple[nn.Module, nn.Module]) -> None:
    """Refuse an encoder or a decoder of a user that cannot be trained: its weights are not of the kind that runs train,
    it fails on two examples, or it returns what nobody can use.

    Args:
        network: The network.
        info: The shape of an example and the number of latents.
        outputs: The number of raw values of the posterior.
        halves: Its encoder and its decoder.
    """
    if is_ours(network):
        return
    given = {"encoder": (2, *info.shape), "decoder": (2, info.latents)}
    due = {"encoder": (2, outputs), "decoder": (2, *info.shape)}
    why = {
        "encoder": f"{outputs} numbers for each example (the builder's `outputs`)",
        "decoder": "an example for each code",
    }
    device = next((p.device for half in halves for p in half.parameters()), torch.device("cpu"))
    for (half, shape), module in zip(given.items(), halves, strict=True):
        what = f"the {half} of {_named(network)}"
        for name, weight in module.named_parameters():
            if weight.dtype != torch.get_default_dtype():
                kind = str(weight.dtype).removeprefix("torch.")
                raise UntwineError(f"{what}: {name} is {kind}; build it as torch does by default, in float32")
        try:
            with torch.no_grad():
                found = module(torch.full(shape, 0.5, device=device))
        except Exception as error:
            raise UntwineError(f"{what} fails on an input of shape {list(shape)}: {brief(error)}") from error
        actual = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        if actual != list(due[half]):
            raise UntwineError(
                f"{what} returns {actual} for an input of shape {list(shape)}; it must return {list(due[half])}: "
                f"{why[half]}"
            )


def _refuse_module(what: str, module: object) -> None:
    """Refuse what is no module, or one whose weights have no numbers."""
    if not isinstance(module, nn.Module):
        raise UntwineError(f"{what} is no torch.nn.Module but {module!r:.100}")
    for name, weight in module.named_parameters():
        if isinstance(weight, nn.parameter.UninitializedParameter):
            raise UntwineError(f"{what}: {name} has no size yet: lazy layers are not known; give their inputs' sizes")
        if weight.is_meta:
            raise UntwineError(f"{what}: {name} has no numbers: it is on the device 'meta'")


def _refuse_larger(network: Network, info: Info, outputs: int) -> None:
    """Refuse a network whose weights do not fit into memory, before they are there."""
    count = parameters(network, info, outputs)
    what = f"{_named(network)} with {info.latents:,} latents on examples of {list(info.shape)}: its {count:,} weights"
    refuse_larger(4 * count, what, _SMALLER)


def parameters(network: Network, info: Info, outputs: int) -> int:
    """How many weights a network would have, without making them; 0 where that cannot be told."""
    if not is_ours(network):
        return 0  # a builder may draw, or count how often it is called
    try:
        with torch.device("meta"):
            halves = network.build(info, outputs)
    except (RuntimeError, TypeError) as error:  # torch counts bytes with 64 bits
        if "overflow" not in str(error).lower():
            raise
        raise UntwineError(f"{_named(network)} has too many weights to count: {_SMALLER}") from None
    return sum(math.prod(weight.shape) for half in halves for weight in half.parameters())


def _named(network: Network) -> str:
    return f"network {network.spec.get('name', '?')!r}"

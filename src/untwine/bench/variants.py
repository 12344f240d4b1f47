"""Variants of a method as text: `jl1-vae columns=1 gamma=0.05,0.1 padding=same precision=bfloat16`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from untwine import methods
from untwine.data.contract import Dataset
from untwine.errors import UntwineError, refuse_unknown
from untwine.methods.registry import PARTS
from untwine.model import networks
from untwine.parts import each
from untwine.train.run import Run

NETWORK: dict[tuple[int, ...], str] = {(64, 64): "rhodes64", (16, 16): "rhodes16"}
LAYOUT = ("padding", "log_variance", "decoder_activation")  # arguments of these networks
SETTINGS = ("precision", "steps", "batch_size", "lr", "latents", "clip", "sampling")

Pairs = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Variant:
    """A method with its arguments, arguments of its network, and settings of its run.

    `several` is a number of the method with several values, which train side by side in one pack.
    """

    method: str
    arguments: Pairs
    layout: Pairs
    settings: Pairs
    several: tuple[str, tuple[float, ...]] | None = None

    @property
    def precision(self) -> str:
        return dict(self.settings)["precision"]

    @property
    def names(self) -> list[str]:
        """The name of the variant, or one for each of several values; steps and precision have columns instead."""
        settings = [pair for pair in self.settings if pair[0] not in ("steps", "precision")]
        text = " ".join(f"{key}={value}" for key, value in (*self.arguments, *self.layout, *settings))
        name = f"{self.method} {text}".strip()
        if self.several is None:
            return [name]
        return [f"{name} {self.several[0]}={value:g}" for value in self.several[1]]

    def members(self, count: int) -> Iterator[tuple[str, range]]:
        """Each name with the places of its members in a pack of so many."""
        names = self.names
        share = count // len(names)
        for i, name in enumerate(names):
            yield name, range(i * share, (i + 1) * share)

    def to_run(self, dataset: Dataset, seeds: Sequence[int]) -> Run:
        """The run of a variant: all seeds for the first of several values, then all for the next."""
        arguments = dict(self.arguments)
        count = 1
        if self.several is not None:
            key, values = self.several
            count = len(values)
            arguments[key] = each(*(value for value in values for _ in seeds))
        network = {"name": NETWORK.get(dataset.shape[1:], "conv"), **dict(self.layout)}
        return Run(
            method=methods.get(self.method)(**arguments),
            dataset=dataset,
            network=networks.build(network),
            seeds=tuple(seeds) * count,
            **dict(self.settings),
        )


def read_variant(text: str, steps: int, precision: str) -> Variant:
    """The variant that a text describes.

    Args:
        text: A method, and then what differs from its defaults, as name=value.
        steps: Training steps, if the text does not name them.
        precision: float32 or bfloat16, if the text does not name one.

    >>> variant = read_variant("jl1-vae columns=1 gamma=0.1,0.2 padding=same", 100, "float32")
    >>> variant.names
    ['jl1_vae columns=1 padding=same gamma=0.1', 'jl1_vae columns=1 padding=same gamma=0.2']
    >>> variant.settings
    (('steps', 100), ('precision', 'float32'))
    """
    method, *words = text.split() or [""]
    method = method.replace("-", "_")
    defaults = {k: p.default for k, p in inspect.signature(methods.get(method)).parameters.items() if k not in PARTS}
    arguments: dict[str, Any] = {}
    layout: dict[str, Any] = {}
    settings: dict[str, Any] = {"steps": steps, "precision": precision}
    several = None
    for word in words:
        key, equals, value = word.partition("=")
        key = key.replace("-", "_")
        if not equals:
            raise UntwineError(
                f"a variant is a method and then name=value, but {word!r} in {text!r} is not of that form"
            )
        refuse_unknown("word of a variant:", [key], [*defaults, *LAYOUT, *SETTINGS])
        if "," in value:
            if several is not None or not isinstance(defaults.get(key), float):
                raise UntwineError(f"one number of a method may have several values, and {word!r} in {text!r} may not")
            several = key, tuple(_number(number, text) for number in value.split(","))
        else:
            (arguments if key in defaults else layout if key in LAYOUT else settings)[key] = _value(value)
    return Variant(method, tuple(arguments.items()), tuple(layout.items()), tuple(settings.items()), several)


def _number(word: str, text: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise UntwineError(f"{word!r} in {text!r} is not a number") from None


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None if text.lower() == "none" else text

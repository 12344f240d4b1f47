"""Networks: an encoder and a decoder for a given shape of examples, by name.

A network is a function of its settings that returns a builder (`architecture`). Those of the papers are in `published`,
those for examples of any size in `general`; `initial` fills their weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from untwine.model.networks.architecture import Builder, Network, build, network, networks
from untwine.model.networks.general import conv, mlp
from untwine.model.networks.published import (
    locatello64,
    mathieu_dsprites,
    mathieu_fashion,
    mathieu_pinwheel,
    michlo64,
    rhodes16,
    rhodes64,
    rolinek_dsprites,
    rolinek_linear,
    rolinek_mnist,
    rolinek_nonlinear,
)
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


__all__ = [
    "Builder",
    "Network",
    "build",
    "conv",
    "locatello64",
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

"""Torch's layers with parameters, except that construction draws nothing from a random generator.

`untwine.model.networks.initial` fills their parameters from counter-based streams instead.
"""

from __future__ import annotations

from torch import nn


class Linear(nn.Linear):
    """A dense layer whose parameters are filled later: one, or several `heads` that are computed as one."""

    heads = 1

    def reset_parameters(self) -> None:
        """Do nothing: the streams fill the parameters."""


class Conv2d(nn.Conv2d):
    """A convolution whose parameters are filled later."""

    def reset_parameters(self) -> None:
        """Do nothing: the streams fill the parameters."""


class ConvTranspose2d(nn.ConvTranspose2d):
    """A transposed convolution whose parameters are filled later."""

    def reset_parameters(self) -> None:
        """Do nothing: the streams fill the parameters."""


def torch_type(layer: nn.Module) -> type[nn.Module]:
    """The torch class that computes exactly what a layer does.

    For the classes of this module it is their base; for any other layer it is its own type, since a
    subclass may compute something else.

    >>> torch_type(Linear(2, 3)).__name__
    'Linear'
    >>> torch_type(Linear(2, 3)) is nn.Linear
    True
    """
    layer_type = type(layer)
    return layer_type.__bases__[0] if layer_type in (Linear, Conv2d, ConvTranspose2d) else layer_type

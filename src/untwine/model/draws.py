"""Samples of torch distributions as functions of uniforms: no generator, so they work under vmap and repeat."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch import distributions as D

from untwine.errors import UntwineError


def width(distribution: D.Distribution) -> int:
    """How many uniforms a sample takes."""
    if isinstance(distribution, D.Independent) and isinstance(distribution.base_dist, D.Normal):
        return distribution.event_shape.numel()
    raise UntwineError(f"{distribution} cannot be sampled from uniforms")


def draw(distribution: D.Distribution, uniforms: Float[Tensor, "n width"]) -> Float[Tensor, "n latent"]:
    """One sample for each row of uniforms."""
    if isinstance(distribution, D.Independent) and isinstance(distribution.base_dist, D.Normal):
        base = distribution.base_dist
        return base.loc + base.scale * torch.special.ndtri(uniforms)
    raise UntwineError(f"{distribution} cannot be sampled from uniforms")

"""A likelihood's loss between images: of all pairs at once, or of many images to the same ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn import functional as F

from untwine.model.likelihoods import Bernoulli, Gaussian, Laplace, Likelihood, Overlap, SquaredError

CHUNK = 2**20  # elements of images at once: they stay in a cache


def floats(images: Shaped[np.ndarray, "..."] | Tensor) -> Float[Tensor, "..."]:
    """Images as float32, those of uint8 in [0, 1]."""
    x = images if isinstance(images, Tensor) else torch.from_numpy(np.ascontiguousarray(images))
    return x.float().div_(255.0) if x.dtype == torch.uint8 else x.float()


def to_means(likelihood: Likelihood, module: Any, mean: Float[Tensor, "n ..."]) -> Callable[[Tensor], Tensor]:
    """The function x -> L(x, mean), with all that depends on the mean alone computed once."""
    if type(likelihood) is Overlap:
        inner, blur, weight = likelihood.likelihood, module.blur, module.weight.double()
        sharp, blurred = to_means(inner, module.inner, mean), to_means(inner, module.inner, blur(mean))
        return lambda x: sharp(x) + weight * blurred(blur(x))
    if (location := _location(likelihood, module, mean[0].numel())) is not None:
        power, factor, constant = location
        # One pass over the memory for the differences and their powers: it is what takes the time.
        loss = F.mse_loss if power == 2 else F.l1_loss
        return lambda x: factor * loss(mean, x, reduction="none").flatten(1).sum(1).double() + constant
    if type(likelihood) is Bernoulli:
        clamped = mean.clamp(1e-6, 1 - 1e-6)
        white, black = clamped.log(), clamped.neg_().log1p_()
        return lambda x: -torch.lerp(black, white, x).flatten(1).sum(1).double()
    return lambda x: module.loss_of_mean(mean, x).double()


def all_pairs(likelihood: Likelihood, module: Any, x: Float[Tensor, "m ..."]) -> Float[Tensor, "m m"]:
    """L(x_u, x_v) for all u and v. The sums of our own likelihoods are products of matrices, or nearly so."""
    flat = x.flatten(1)
    m, elements = flat.shape
    if type(likelihood) is Overlap:
        inner = likelihood.likelihood
        blurred = all_pairs(inner, module.inner, module.blur(x))
        return all_pairs(inner, module.inner, x) + module.weight.double() * blurred
    if (location := _location(likelihood, module, elements)) is not None:
        power, factor, constant = location
        wide = flat.double()
        return factor * (_squares(wide) if power == 2 else torch.cdist(wide, wide, p=1.0)) + constant
    if type(likelihood) is Bernoulli:
        mean = flat.clamp(1e-6, 1 - 1e-6).double()  # clamped in float32, as the likelihood does
        return -(flat.double() @ mean.log().T + (1 - flat.double()) @ (-mean).log1p().T)
    rows = max(1, CHUNK // (elements * m))
    parts = []
    for some in x.split(rows):
        seen = some[:, None].expand(len(some), *x.shape).flatten(0, 1)
        means = x[None].expand(len(some), *x.shape).flatten(0, 1)
        parts.append(module.loss_of_mean(means, seen).reshape(len(some), m).double())
    return torch.cat(parts)


def _location(likelihood: Likelihood, module: Any, elements: int) -> tuple[int, float, float] | None:
    """A likelihood as factor * sum |x - mean|^power + constant, if it is one of these: (power, factor, constant)."""
    if type(likelihood) is SquaredError:
        return 2, 1.0, 0.0
    if type(likelihood) is Gaussian:
        log_scale = module.log_scale.item()
        return 2, 0.5 * math.exp(-2 * log_scale), elements * (log_scale + 0.5 * math.log(2 * math.pi))
    if type(likelihood) is Laplace:
        log_scale = module.log_scale.item()
        return 1, math.exp(-log_scale), elements * (log_scale + math.log(2.0))
    return None


def _squares(flat: Float[Tensor, "m elements"]) -> Float[Tensor, "m m"]:
    """|x_u - x_v|^2 as |x_u|^2 + |x_v|^2 - 2 x_u x_v: in float64 what cancels does not matter."""
    products = flat @ flat.T
    products = (products + products.T) / 2  # symmetric to the last bit
    norms = products.diagonal()
    return (norms[:, None] + norms - 2 * products).clamp_min(0.0)

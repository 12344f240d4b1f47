"""Perceived distance: the distance between images that a loss sees (michlo2023, Eq. 7)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64, Shaped
from torch import Tensor
from torch.nn import functional as F

from untwine.errors import UntwineError, warn
from untwine.model.info import Info
from untwine.model.likelihoods import (
    Bernoulli,
    Gaussian,
    Laplace,
    Likelihood,
    LikelihoodModule,
    Overlap,
    SquaredError,
    named,
)

CHUNK = 2**20  # elements of images at once: they stay in a cache
_SLACK = 1e-3  # by which a reconstruction may miss the range of a likelihood's data

# Maps reconstructions to their losses for fixed images.
OfMeans = Callable[[Any], np.ndarray]


class Perceived:
    """A perceived distance; `perceived` makes one."""

    def __init__(self, likelihood: Likelihood, per_element: bool, excess: bool, pixels: bool = True) -> None:
        self.likelihood, self.per_element, self.excess = likelihood, per_element, excess
        self._in_range = not pixels  # True silences the warning about images beyond [0, 1], which is given once
        self._built: dict[tuple[Any, ...], LikelihoodModule] = {}

    def matrix(
        self, factors: Int64[np.ndarray, "m k"], images: Shaped[np.ndarray, "m ..."]
    ) -> Float64[np.ndarray, "m m"]:
        return self.between(images)

    def between(self, images: Shaped[np.ndarray, "m ..."] | Tensor) -> Float64[np.ndarray, "m m"]:
        """All distances d(u, v) of images, arrays or tensors: u is the row, v its reconstruction."""
        x = self._floats(images)
        with torch.no_grad():
            losses = all_pairs(self.likelihood, self._module(x), x, self.excess)
        return losses.cpu().numpy() / self._unit(x)

    def pairs(
        self, a: Shaped[np.ndarray, "n ..."] | Tensor, b: Shaped[np.ndarray, "n ..."] | Tensor
    ) -> Float64[np.ndarray, " n"]:
        """The distances of images a from their reconstructions b, pair by pair."""
        if a.shape != b.shape:
            raise UntwineError(f"images {list(a.shape)} and {list(b.shape)} do not make pairs: their shapes differ")
        size = max(1, CHUNK // max(1, math.prod(a.shape[1:])))
        parts = [slice(start, start + size) for start in range(0, len(a), size)]
        distances = [self.of(a[part])(b[part]) for part in parts]
        return np.concatenate(distances) if distances else np.empty(0)

    def of(self, images: Shaped[np.ndarray, "n ..."] | Tensor) -> OfMeans:
        """A function from reconstructions of these images to distances, to compare the same images several times."""
        x = self._floats(images)
        with torch.no_grad():
            loss = of_images(self.likelihood, self._module(x), x, self.excess)

        def distances(means: Shaped[np.ndarray, "n ..."] | Tensor) -> Float64[np.ndarray, " n"]:
            with torch.no_grad():
                return loss(self._floats(means)).cpu().numpy() / self._unit(x)

        return distances

    def _unit(self, x: Tensor) -> int:
        return math.prod(x.shape[1:]) if self.per_element else 1

    def _module(self, x: Tensor) -> LikelihoodModule:
        key = shape, device = tuple(x.shape[1:]), x.device
        if key not in self._built:
            self._built[key] = self.likelihood.build(Info(latents=1, shape=shape)).to(device)
        return self._built[key]

    def _floats(self, images: Shaped[np.ndarray, "..."] | Tensor) -> Float[Tensor, "..."]:
        """Images as float32 (uint8 scaled to [0, 1]), refused if the likelihood cannot compare them."""
        x = images if isinstance(images, Tensor) else torch.from_numpy(np.ascontiguousarray(images))
        if x.dtype == torch.uint8:
            return x.float().div_(255.0)
        x = x.float()
        if not x.numel():
            return x
        least, most = (end.item() for end in x.aminmax())
        if not math.isfinite(least + most):
            raise UntwineError("images hold a NaN or an infinity: they cannot be compared")
        low, high = self.likelihood.domain
        if not low - _SLACK <= least <= most <= high + _SLACK:
            raise UntwineError(
                f"a {type(self.likelihood).__name__} likelihood compares values in [{low}, {high}], and these "
                f"are from {least:.3g} to {most:.3g}: squared-error would suit them"
            )
        if x.ndim == 4 and not self._in_range and not -_SLACK <= least <= most <= 1 + _SLACK:
            self._in_range = True
            warn(
                f"pixels are from {least:.3g} to {most:.3g}, and perceived distances are those of pixels in [0, 1]: "
                "give uint8 from 0 to 255, or floats in [0, 1]",
            )
        return x


def perceived(likelihood: Any = "squared_error", per_element: bool = False, excess: bool = True) -> Perceived:
    """The perceived distance L(x_a, x_b) - L(x_a, x_a), with x_b as the reconstruction of x_a (michlo2023, Eq. 7).

    It is in nats, summed over the elements of an image with pixels in [0, 1]. The loss L(x_a, x_a) of a perfect
    reconstruction is subtracted: it is 0 for squared error, but not for densities or the cross-entropy of grey pixels.
    A learned scale has its initial value.

    Args:
        likelihood: The loss, by name or as a part; the paper uses `overlap(squared-error)` where objects never overlap.
        per_element: Whether to take the mean over elements, as in Table A1, in place of the sum.
        excess: False returns the loss L(x_a, x_b) itself.

    >>> import untwine.datasets
    >>> squares = untwine.datasets.xy_squares()
    >>> a, b = squares.observe([[0, 0, 0, 0, 0, 0], [5, 0, 0, 0, 0, 0]])
    >>> perceived().pairs(a[None], b[None]), perceived(per_element=True).pairs(a[None], b[None]).round(4)
    (array([128.]), array([0.0104]))
    """
    return Perceived(of_one_model(likelihood), per_element, excess)


def of_one_model(likelihood: Any) -> Likelihood:
    """A likelihood by name or as a part; one with numbers by member is refused."""
    part = inner = named(likelihood)
    numbers = []
    while isinstance(inner, Overlap):
        numbers.append(inner.weight)
        inner = inner.inner
    for value in (*numbers, getattr(inner, "scale", 1.0)):
        if not isinstance(value, int | float):
            raise UntwineError(f"a distance needs one number, not one for each member: {value!r}")
    return part


# --- sums -----------------------------------------------------------------------------------------------


def of_images(
    likelihood: Likelihood, module: Any, x: Float[Tensor, "n ..."], excess: bool
) -> Callable[[Tensor], Tensor]:
    """The function mean -> L(x, mean), or its excess over L(x, x). Terms that depend on x alone are computed once."""
    if type(likelihood) is Overlap:
        inner, blur, weight = likelihood.inner, module.blur, module.weight.double()
        sharp = of_images(inner, module.inner, x, excess)
        blurred = of_images(inner, module.inner, blur(x), excess)
        return lambda mean: sharp(mean) + weight * blurred(blur(mean))
    if (location := _location(likelihood, module, x[0].numel())) is not None:
        power, factor, constant = location
        constant = 0.0 if excess else constant
        # One pass over memory computes differences and powers: memory traffic takes the time.
        loss = F.mse_loss if power == 2 else F.l1_loss
        return lambda mean: factor * loss(mean, x, reduction="none").flatten(1).sum(1).double() + constant
    if type(likelihood) is Bernoulli:

        def log(mean: Tensor) -> Tensor:
            clamped = mean.clamp(1e-6, 1 - 1e-6)
            white, black = clamped.log(), clamped.neg_().log1p_()
            return black.lerp_(white, x)

        if not excess:
            return lambda mean: -log(mean).flatten(1).sum(1).double()
        perfect = log(x)  # subtracted by element, so that equal pixels count exactly 0
        return lambda mean: (perfect - log(mean)).flatten(1).sum(1).double().clamp_min(0.0)
    itself = module.loss_of_mean(x, x).double() if excess else 0.0
    return lambda mean: module.loss_of_mean(mean, x).double() - itself


def all_pairs(likelihood: Likelihood, module: Any, x: Float[Tensor, "m ..."], excess: bool) -> Float[Tensor, "m m"]:
    """L(x_u, x_v), or its excess, for all u and v; built-in likelihoods use matrix products where they can."""
    flat = x.flatten(1)
    m, elements = flat.shape
    if type(likelihood) is Overlap:
        inner = likelihood.inner
        blurred = all_pairs(inner, module.inner, module.blur(x), excess)
        return all_pairs(inner, module.inner, x, excess) + module.weight.double() * blurred
    if (location := _location(likelihood, module, elements)) is not None:
        power, factor, constant = location
        wide = flat.double()
        losses = factor * (_squares(wide) if power == 2 else torch.cdist(wide, wide, p=1.0))
        return losses if excess else losses + constant
    if type(likelihood) is Bernoulli:
        mean = flat.clamp(1e-6, 1 - 1e-6).double()  # clamped in float32, as the likelihood does
        losses = -(flat.double() @ mean.log().T + (1 - flat.double()) @ (-mean).log1p().T)
        return (losses - losses.diagonal()[:, None]).clamp_min(0.0) if excess else losses
    parts = []
    for images in x.split(max(1, CHUNK // (elements * m))):
        seen = images[:, None].expand(len(images), *x.shape).flatten(0, 1)
        means = x[None].expand(len(images), *x.shape).flatten(0, 1)
        parts.append(module.loss_of_mean(means, seen).reshape(len(images), m).double())
    losses = torch.cat(parts)
    return losses - losses.diagonal()[:, None] if excess else losses


def _location(likelihood: Likelihood, module: Any, elements: int) -> tuple[int, float, float] | None:
    """(power, factor, constant) of a likelihood that is factor * sum |x - mean|^power + constant; None for others."""
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
    """|x_u - x_v|^2 as |x_u|^2 + |x_v|^2 - 2 x_u x_v: float64 leaves enough digits after the cancellation."""
    products = flat @ flat.T
    products = (products + products.T) / 2  # symmetric to the last bit
    norms = products.diagonal()
    return (norms[:, None] + norms - 2 * products).clamp_min(0.0)

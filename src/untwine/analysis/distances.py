"""Distances between states: between their factors, as a loss sees their images, or inside a model (michlo2023, 4).

Every distance has `matrix(factors [m, k], images [m, *shape])`, `[m, m]`, or `[members, m, m]` of several models.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64, Shaped
from torch import Tensor

from untwine.analysis.encodings import checked, diagonal
from untwine.analysis.losses import CHUNK, all_pairs, floats, to_means
from untwine.errors import UntwineError
from untwine.model.info import Info
from untwine.model.likelihoods import Likelihood, LikelihoodModule, Overlap, named

# Images `[m, *shape]` to codes, variances or images: `[m, ...]`, or `[members, m, ...]` of several models.
OfImages = Callable[[np.ndarray], Any]
# Images, arrays or tensors, to their distances from others.
ToMean = Callable[[Any], np.ndarray]

_SLACK = 1e-3  # by which a reconstruction may miss the range of a likelihood's data


class Distance(ABC):
    """A distance over a set of states."""

    @abstractmethod
    def matrix(
        self, factors: Int64[np.ndarray, "m k"], images: Shaped[np.ndarray, "m ..."]
    ) -> Float64[np.ndarray, "*members m m"]:
        """All distances d(u, v) of the states, u by row."""


# --- between factors ------------------------------------------------------------------------------------


class _GroundTruth(Distance):
    def matrix(
        self, factors: Int64[np.ndarray, "m k"], images: Shaped[np.ndarray, "m ..."]
    ) -> Float64[np.ndarray, "*members m m"]:
        return np.abs(factors[:, None] - factors[None]).sum(-1).astype(np.float64)

    def pairs(self, a: Int64[np.ndarray, "n k"], b: Int64[np.ndarray, "n k"]) -> Float64[np.ndarray, " n"]:
        return np.abs(a - b).sum(-1).astype(np.float64)


def ground_truth() -> _GroundTruth:
    """L1 between the indices of factors, |y_a - y_b|_1 (michlo2023, Eq. 5). Cyclic factors do not wrap.

    >>> ground_truth().pairs(np.array([[0, 0]]), np.array([[3, 1]]))
    array([4.])
    """
    return _GroundTruth()


# --- as a loss sees images ------------------------------------------------------------------------------


class _Perceived(Distance):
    def __init__(self, likelihood: Likelihood, per_element: bool) -> None:
        self.likelihood, self.per_element = likelihood, per_element
        self._built: dict[tuple[Any, ...], LikelihoodModule] = {}

    def matrix(
        self, factors: Int64[np.ndarray, "m k"], images: Shaped[np.ndarray, "m ..."]
    ) -> Float64[np.ndarray, "*members m m"]:
        return self.between(images)

    def between(self, images: Shaped[np.ndarray, "m ..."] | Tensor) -> Float64[np.ndarray, "m m"]:
        """All distances of images, arrays or tensors."""
        x = floats(images)
        with torch.no_grad():
            found = all_pairs(self.likelihood, self._module(x), x)
        return found.cpu().numpy() / self._unit(x)

    def pairs(
        self, a: Shaped[np.ndarray, "n ..."] | Tensor, b: Shaped[np.ndarray, "n ..."] | Tensor
    ) -> Float64[np.ndarray, " n"]:
        """The distances L(a, b) of images and other images, one by one."""
        if a.shape != b.shape:
            raise UntwineError(f"images {list(a.shape)} and {list(b.shape)} do not make pairs: their shapes differ")
        size = max(1, CHUNK // max(1, math.prod(a.shape[1:])))
        parts = [slice(start, start + size) for start in range(0, len(a), size)]
        found = [self.to(b[part])(a[part]) for part in parts]
        return np.concatenate(found) if found else np.empty(0)

    def to(self, mean: Shaped[np.ndarray, "n ..."] | Tensor) -> ToMean:
        """The function that takes images x to L(x, mean), for those who compare several images with the same means."""
        made = floats(mean)
        with torch.no_grad():
            loss = to_means(self.likelihood, self._module(made), made)

        def distances(x: Shaped[np.ndarray, "n ..."] | Tensor) -> Float64[np.ndarray, " n"]:
            seen = floats(x)
            self._module(seen)
            with torch.no_grad():
                return loss(seen).cpu().numpy() / self._unit(seen)

        return distances

    def _unit(self, x: Tensor) -> int:
        return math.prod(x.shape[1:]) if self.per_element else 1

    def _module(self, x: Tensor) -> LikelihoodModule:
        """The likelihood for images of this shape, whose values it can take."""
        low, high = self.likelihood.domain
        if math.isfinite(low) or math.isfinite(high):
            least, most = (end.item() for end in x.aminmax())
            if not low - _SLACK <= least <= most <= high + _SLACK:
                raise UntwineError(
                    f"a {type(self.likelihood).__name__} likelihood compares values in [{low}, {high}], and these "
                    f"are from {least:.3g} to {most:.3g}: squared-error would suit them"
                )
        key = shape, device = tuple(x.shape[1:]), x.device
        if key not in self._built:
            self._built[key] = self.likelihood.build(Info(latents=1, shape=shape)).to(device)
        return self._built[key]


def perceived(likelihood: Any = "squared_error", per_element: bool = False) -> _Perceived:
    """The loss of taking one image for another, L(x_a, x_b) (michlo2023, Eq. 7): d(u, v) has v as the reconstruction.

    Nats, summed over an image's elements, of pixels in [0, 1]. A learned scale counts as it is at the start.

    Args:
        likelihood: By name or as a part; `overlap(squared-error)` is the paper's cure for squares that never meet.
        per_element: The mean over elements instead, as in Table A1.

    >>> import untwine.datasets
    >>> squares = untwine.datasets.xy_squares()
    >>> a, b = squares.observe([[0, 0, 0, 0, 0, 0], [5, 0, 0, 0, 0, 0]])
    >>> perceived().pairs(a[None], b[None]), perceived(per_element=True).pairs(a[None], b[None]).round(4)
    (array([128.]), array([0.0104]))
    """
    made = named(likelihood)
    inner = made
    while isinstance(inner, Overlap):
        _one_number(inner.weight)
        inner = inner.likelihood
    _one_number(getattr(inner, "scale", 1.0))
    return _Perceived(made, per_element)


def _one_number(value: Any) -> None:
    if not isinstance(value, int | float):
        raise UntwineError(f"a distance needs one number, not one for each member: {value!r}")


# --- inside a model -------------------------------------------------------------------------------------


class _Latent(Distance):
    def __init__(self, encode: OfImages) -> None:
        self.encode = encode

    def matrix(
        self, factors: Int64[np.ndarray, "m k"], images: Shaped[np.ndarray, "m ..."]
    ) -> Float64[np.ndarray, "*members m m"]:
        means = _of(checked(self.encode(images), "codes", 2), len(images), "codes", 1)
        return np.sqrt(np.square(means[..., :, None, :] - means[..., None, :, :]).sum(-1))


def latent(encode: OfImages) -> _Latent:
    """L2 between the codes of images, such as posterior means (michlo2023, Figure 4); `ensemble.encode` serves.

    >>> images = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> latent(lambda x: x).matrix(np.zeros((2, 1), int), images).tolist()
    [[0.0, 5.0], [5.0, 0.0]]
    """
    return _Latent(encode)


class _PosteriorKL(Distance):
    def __init__(self, encode: OfImages, variances: OfImages, symmetric: bool) -> None:
        self.encode, self.variances, self.symmetric = encode, variances, symmetric

    def matrix(
        self, factors: Int64[np.ndarray, "m k"], images: Shaped[np.ndarray, "m ..."]
    ) -> Float64[np.ndarray, "*members m m"]:
        means, variances = diagonal(self.encode(images), self.variances(images))
        means, variances = _of(means, len(images), "codes", 1), _of(variances, len(images), "variances", 1)
        if not variances.all():
            raise UntwineError("a posterior has variance 0: its KL to others is infinite")
        mean_u, mean_v = means[..., :, None, :], means[..., None, :, :]
        variance_u, variance_v = variances[..., :, None, :], variances[..., None, :, :]
        ratio = variance_u / variance_v
        kl = 0.5 * (ratio - 1 - np.log(ratio) + (mean_u - mean_v) ** 2 / variance_v).sum(-1)
        return (kl + np.swapaxes(kl, -1, -2)) / 2 if self.symmetric else kl


def posterior_kl(encode: OfImages, variances: OfImages, symmetric: bool = False) -> _PosteriorKL:
    """KL(q_u || q_v) between the normal posteriors of images, or its symmetric form (michlo2023, Figure 4, Eq. 14).

    >>> images = np.array([[0.0], [2.0]])
    >>> posterior_kl(lambda x: x, np.ones_like).matrix(np.zeros((2, 1), int), images).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    return _PosteriorKL(encode, variances, symmetric)


class _Reconstruction(Distance):
    def __init__(self, reconstruct: OfImages, perceived: _Perceived) -> None:
        self.reconstruct, self.perceived = reconstruct, perceived

    def matrix(
        self, factors: Int64[np.ndarray, "m k"], images: Shaped[np.ndarray, "m ..."]
    ) -> Float64[np.ndarray, "*members m m"]:
        made = _of(checked(self.reconstruct(images), "reconstructions", 2), len(images), "images", images.ndim - 1)
        one_model = made.ndim == images.ndim
        found = np.stack([self.perceived.between(member) for member in (made[None] if one_model else made)])
        return found[0] if one_model else found


def reconstruction(
    reconstruct: OfImages, likelihood: Any = "squared_error", per_element: bool = False
) -> _Reconstruction:
    """The perceived distance between reconstructions of images in [0, 1] (michlo2023, Figure 4).

    `reconstruct` is `lambda x: ensemble.decode(ensemble.encode(x))`, say.

    >>> images = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> reconstruction(lambda x: x / 5).matrix(np.zeros((2, 1), int), images).round(6).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    return _Reconstruction(reconstruct, perceived(likelihood, per_element))


def _of(array: np.ndarray, count: int, what: str, dimensions: int) -> np.ndarray:
    """An array of so many images, `[m, ...]` or `[members, m, ...]`, with so many dimensions for each."""
    if array.ndim - dimensions not in (1, 2) or array.shape[-dimensions - 1] != count:
        raise UntwineError(
            f"a model gave {what} of shape {list(array.shape)} for {count} images; they must be [{count}, ...] or "
            f"[members, {count}, ...]"
        )
    return array

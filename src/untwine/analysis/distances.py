"""Distances between states: between their factors, between their images, inside a model (michlo2023, section 4).

A distance has `matrix(factors [m, k], images [m, *shape])`, which returns `[m, m]`, or `[members, m, m]` of several
models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float64, Int64, Shaped

from untwine.analysis.arrays import diagonal_posteriors, finite_array
from untwine.analysis.losses import Perceived, of_one_model, perceived
from untwine.data.circle import shorter_way
from untwine.errors import UntwineError
from untwine.namespace import directory

__all__ = ["Distance", "ground_truth", "latent", "perceived", "posterior_kl", "reconstruction"]
__dir__ = directory(__all__)


# Maps images `[m, *shape]` to codes, variances or images `[m, ...]`, or `[members, m, ...]` of several models.
OfImages = Callable[[np.ndarray], Any]


@runtime_checkable
class Distance(Protocol):
    """A distance over a set of states."""

    def matrix(
        self, factors: Int64[np.ndarray, "m k"], images: Shaped[np.ndarray, "m ..."]
    ) -> Float64[np.ndarray, "*members m m"]:
        """All distances d(u, v) of the states; rows are u."""
        ...


# --- between factors ------------------------------------------------------------------------------------


class _GroundTruth:
    def __init__(self, kinds: Sequence[str] | None, sizes: Sequence[int] | None, wrap: bool) -> None:
        self.kinds = None if kinds is None else np.array(kinds)
        self.sizes = None if sizes is None else np.array(sizes)
        if wrap and self.kinds is not None and "cyclic" in self.kinds and self.sizes is None:
            raise UntwineError(
                "the way round a cyclic factor depends on how many values it has: give the sizes of the factors, as in "
                "ground_truth(space.kinds, space.sizes), or take cyclic factors as ordered by wrap=False"
            )
        self.wrap = wrap

    def matrix(
        self, factors: Int64[np.ndarray, "m k"], images: Shaped[np.ndarray, "m ..."]
    ) -> Float64[np.ndarray, "m m"]:
        return self._sum(factors[:, None] - factors[None])

    def pairs(self, a: Int64[np.ndarray, "n k"], b: Int64[np.ndarray, "n k"]) -> Float64[np.ndarray, " n"]:
        return self._sum(a - b)

    def _sum(self, differences: Int64[np.ndarray, "*batch k"]) -> Float64[np.ndarray, "*batch"]:
        steps = np.abs(differences)
        for name, entries in (("kinds", self.kinds), ("sizes", self.sizes)):
            if entries is not None and len(entries) != steps.shape[-1]:
                raise UntwineError(f"{len(entries)} {name} do not suit {steps.shape[-1]} factors")
        if self.kinds is not None:
            steps = np.where(self.kinds == "categorical", steps > 0, steps)
            if self.wrap and self.sizes is not None:
                steps = np.where(self.kinds == "cyclic", shorter_way(differences, self.sizes), steps)
        return steps.sum(-1).astype(np.float64)


def ground_truth(
    kinds: Sequence[str] | None = None, sizes: Sequence[int] | None = None, wrap: bool = True
) -> _GroundTruth:
    """L1 between the indices of factors, |y_a - y_b|_1 (michlo2023, Eq. 5).

    With the kinds of the factors, any two values of a categorical factor have distance 1, and a cyclic factor is
    walked the shorter way round. The paper has neither: it takes all factors as ordered, as does `ground_truth()`.

    Args:
        kinds: The kind of each factor; None takes all as ordered.
        sizes: How many values each factor has; needed where a factor is cyclic.
        wrap: Whether cyclic factors go round; False takes them as ordered.

    >>> ground_truth().pairs(np.array([[0, 0]]), np.array([[3, 9]]))
    array([12.])
    >>> ground_truth(("categorical", "cyclic"), (4, 10)).pairs(np.array([[0, 0]]), np.array([[3, 9]]))
    array([2.])
    """
    return _GroundTruth(kinds, sizes, wrap)


# --- inside a model -------------------------------------------------------------------------------------


# The results of functions by images, kept while several distances between the same images are computed.
_results: ContextVar[list[tuple[OfImages, np.ndarray, Any]] | None] = ContextVar("results", default=None)


@contextmanager
def encoded_once() -> Iterator[None]:
    """Let all distances within this context share what a model makes of the same images."""
    before = _results.set([])
    try:
        yield
    finally:
        _results.reset(before)


def _of(function: OfImages, images: np.ndarray, what: str, dimensions: int) -> Float64[np.ndarray, "..."]:
    """The output of a model for images, `[m, ...]` or `[members, m, ...]`, with `dimensions` for each image."""
    known = _results.get()
    array = next((value for by, of, value in known or () if by == function and of is images), None)
    if array is None:
        array = finite_array(function(images), what, 2)
        if known is not None:
            known.append((function, images, array))
    count = len(images)
    if array.ndim - dimensions not in (1, 2) or array.shape[-dimensions - 1] != count:
        raise UntwineError(
            f"a model gave {what} of shape {list(array.shape)} for {count} images; they must be [{count}, ...] or "
            f"[members, {count}, ...]"
        )
    return array


class _Latent:
    def __init__(self, encode: OfImages) -> None:
        self.encode = encode

    def matrix(
        self, factors: Int64[np.ndarray, "m k"], images: Shaped[np.ndarray, "m ..."]
    ) -> Float64[np.ndarray, "*members m m"]:
        means = torch.from_numpy(_of(self.encode, images, "codes", 1))
        return torch.cdist(means, means, compute_mode="donot_use_mm_for_euclid_dist").numpy()


def latent(encode: OfImages) -> _Latent:
    """L2 between the codes of images (michlo2023, Figure 4), as with `latent(ensemble.encode)`.

    >>> images = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> latent(lambda x: x).matrix(np.zeros((2, 1), int), images).tolist()
    [[0.0, 5.0], [5.0, 0.0]]
    """
    return _Latent(encode)


class _PosteriorKL:
    def __init__(self, encode: OfImages, variances: OfImages, symmetric: bool) -> None:
        self.encode, self.variances, self.symmetric = encode, variances, symmetric

    def matrix(
        self, factors: Int64[np.ndarray, "m k"], images: Shaped[np.ndarray, "m ..."]
    ) -> Float64[np.ndarray, "*members m m"]:
        means, variances = diagonal_posteriors(
            _of(self.encode, images, "codes", 1), _of(self.variances, images, "variances", 1)
        )
        if not variances.all():
            raise UntwineError("a posterior has variance 0: its KL to others is infinite")
        means = means - means.mean(-2, keepdims=True)  # a shift that all share would only cancel
        precision, log_volume = 1 / variances, np.log(variances).sum(-1)
        # sum_d (v_u + m_u^2) p_v - 2 m_u m_v p_v + m_v^2 p_v, without an array [m, m, d].
        kl = (variances + means**2) @ np.swapaxes(precision, -1, -2)
        kl += -2 * means @ np.swapaxes(means * precision, -1, -2) + (means**2 * precision).sum(-1)[..., None, :]
        kl += log_volume[..., None, :] - log_volume[..., :, None] - means.shape[-1]
        kl = np.maximum(kl / 2, 0.0)
        index = np.arange(len(images))
        kl[..., index, index] = 0.0
        return (kl + np.swapaxes(kl, -1, -2)) / 2 if self.symmetric else kl


def posterior_kl(encode: OfImages, variances: OfImages, symmetric: bool = False) -> _PosteriorKL:
    """KL(q_u || q_v) between the normal posteriors of images (michlo2023, Figure 4, Eq. 14).

    Args:
        encode: Maps images to posterior means, as `ensemble.encode` does.
        variances: Maps images to posterior variances, as `ensemble.variances` does.
        symmetric: Whether to take the mean of both directions.

    >>> images = np.array([[0.0], [2.0]])
    >>> posterior_kl(lambda x: x, np.ones_like).matrix(np.zeros((2, 1), int), images).tolist()
    [[0.0, 2.0], [2.0, 0.0]]
    """
    return _PosteriorKL(encode, variances, symmetric)


class _Reconstruction:
    def __init__(self, reconstruct: OfImages, perceived: Perceived) -> None:
        self.reconstruct, self.perceived = reconstruct, perceived

    def matrix(
        self, factors: Int64[np.ndarray, "m k"], images: Shaped[np.ndarray, "m ..."]
    ) -> Float64[np.ndarray, "*members m m"]:
        means = _of(self.reconstruct, images, "images", images.ndim - 1)
        if means.ndim == images.ndim:
            return self.perceived.between(means)
        return np.stack([self.perceived.between(member) for member in means])


def reconstruction(
    reconstruct: OfImages, likelihood: Any = "squared_error", per_element: bool = False, excess: bool = True
) -> _Reconstruction:
    """The perceived distance between reconstructions of images in [0, 1] (michlo2023, Figure 4).

    Args:
        reconstruct: Maps images to reconstructions, such as `lambda x: ensemble.decode(ensemble.encode(x))`.
        likelihood: As for `perceived`.
        per_element: As for `perceived`.
        excess: As for `perceived`.

    >>> images = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> reconstruction(lambda x: x / 5).matrix(np.zeros((2, 1), int), images).round(6).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    # A decoder without a squashing layer may well leave [0, 1].
    return _Reconstruction(reconstruct, Perceived(of_one_model(likelihood), per_element, excess, pixels=False))

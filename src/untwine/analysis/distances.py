"""Distances between states (of their factors, of their images, inside a model) and their matrices (michlo2023, 4).

A distance has `matrix(factors [m, k], images [m, *shape])`, `[m, m]`, or `[members, m, m]` of several models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float64, Int64, Shaped

from untwine.analysis.encodings import checked, diagonal
from untwine.analysis.losses import Perceived, of_one_model, perceived
from untwine.analysis.states import Track, check_dataset, no_pairs, states_of, tracked
from untwine.checks import whole
from untwine.errors import UntwineError

__all__ = ["Distance", "distance_matrices", "ground_truth", "latent", "perceived", "posterior_kl", "reconstruction"]

# Images `[m, *shape]` to codes, variances or images: `[m, ...]`, or `[members, m, ...]` of several models.
OfImages = Callable[[np.ndarray], Any]


@runtime_checkable
class Distance(Protocol):
    """A distance over a set of states."""

    def matrix(
        self, factors: Int64[np.ndarray, "m k"], images: Shaped[np.ndarray, "m ..."]
    ) -> Float64[np.ndarray, "*members m m"]:
        """All distances d(u, v) of the states, u by row."""
        ...


# --- between factors ------------------------------------------------------------------------------------


class _GroundTruth:
    def __init__(self, kinds: Sequence[str] | None) -> None:
        self.labels = None if kinds is None else np.array(kinds) == "categorical"

    def matrix(
        self, factors: Int64[np.ndarray, "m k"], images: Shaped[np.ndarray, "m ..."]
    ) -> Float64[np.ndarray, "m m"]:
        return self._sum(np.abs(factors[:, None] - factors[None]))

    def pairs(self, a: Int64[np.ndarray, "n k"], b: Int64[np.ndarray, "n k"]) -> Float64[np.ndarray, " n"]:
        return self._sum(np.abs(a - b))

    def _sum(self, steps: Int64[np.ndarray, "*batch k"]) -> Float64[np.ndarray, "*batch"]:
        if self.labels is not None:
            if len(self.labels) != steps.shape[-1]:
                raise UntwineError(f"{len(self.labels)} kinds do not suit {steps.shape[-1]} factors")
            steps = np.where(self.labels, steps > 0, steps)
        return steps.sum(-1).astype(np.float64)


def ground_truth(kinds: Sequence[str] | None = None) -> _GroundTruth:
    """L1 between the indices of factors, |y_a - y_b|_1 (michlo2023, Eq. 5). Cyclic factors do not wrap.

    With the `kinds` of factors, two values of a categorical one are 1 apart, whichever they are.

    >>> ground_truth().pairs(np.array([[0, 0]]), np.array([[3, 1]]))
    array([4.])
    >>> ground_truth(["categorical", "ordered"]).pairs(np.array([[0, 0]]), np.array([[3, 1]]))
    array([2.])
    """
    return _GroundTruth(kinds)


# --- inside a model -------------------------------------------------------------------------------------


# What functions have made of which images, while someone asks for several distances between the same ones.
_made: ContextVar[list[tuple[OfImages, np.ndarray, Any]] | None] = ContextVar("made", default=None)


@contextmanager
def _encoded_once() -> Iterator[None]:
    before = _made.set([])
    try:
        yield
    finally:
        _made.reset(before)


def _of(function: OfImages, images: np.ndarray, what: str, dimensions: int) -> Float64[np.ndarray, "..."]:
    """What a model makes of images, `[m, ...]` or `[members, m, ...]`, with so many dimensions for each."""
    known = _made.get()
    array = next((value for by, of, value in known or () if by == function and of is images), None)
    if array is None:
        array = checked(function(images), what, 2)
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
    """L2 between the codes of images, such as posterior means (michlo2023, Figure 4); `ensemble.encode` serves.

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
        means, variances = diagonal(_of(self.encode, images, "codes", 1), _of(self.variances, images, "variances", 1))
        if not variances.all():
            raise UntwineError("a posterior has variance 0: its KL to others is infinite")
        means = means - means.mean(-2, keepdims=True)  # what all share would only cancel
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
    """KL(q_u || q_v) between the normal posteriors of images, or its symmetric form (michlo2023, Figure 4, Eq. 14).

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
        made = _of(self.reconstruct, images, "images", images.ndim - 1)
        if made.ndim == images.ndim:
            return self.perceived.between(made)
        return np.stack([self.perceived.between(member) for member in made])


def reconstruction(
    reconstruct: OfImages, likelihood: Any = "squared_error", per_element: bool = False, excess: bool = True
) -> _Reconstruction:
    """The perceived distance between reconstructions of images in [0, 1] (michlo2023, Figure 4).

    `reconstruct` is `lambda x: ensemble.decode(ensemble.encode(x))`, say; the rest is as for `perceived`.

    >>> images = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> reconstruction(lambda x: x / 5).matrix(np.zeros((2, 1), int), images).round(6).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    # A decoder without a squashing layer may well leave [0, 1].
    return _Reconstruction(reconstruct, Perceived(of_one_model(likelihood), per_element, excess, pixels=False))


# --- matrices -------------------------------------------------------------------------------------------


def kept_values(size: int, longest: int = 256) -> Int64[np.ndarray, " f"]:
    """The values of a factor that a matrix shows: all of them, or `longest` of them at equal distances.

    >>> kept_values(3).tolist(), kept_values(100, longest=4).tolist()
    ([0, 1, 2], [0, 33, 66, 99])
    """
    return np.unique(np.linspace(0, size - 1, min(size, longest)).round().astype(np.int64))


def distance_matrices(
    dataset: Any,
    distances: Any,
    traversals: int = 100,
    seed: int = 0,
    longest: int = 256,
    progress: Track | None = None,
) -> dict[str, dict[str, Float64[np.ndarray, "*members f f"]]]:
    """The mean over random traversals of all distances along each factor (michlo2023, Eqs. 9 and 10): D^(i).

    By factor and distance. All distances see the same traversals. Factors of one value are left out. Where only
    the examples have images, a traversal has those of its states that there are, and an entry that none has is NaN.

    Args:
        dataset: With factors.
        distances: By any names, as `{"perceived": perceived("bernoulli")}`. A function of factors `[m, k]` and images
            `[m, *shape]` that gives a matrix `[m, m]`, or `[members, m, m]`, is a distance, too.
        traversals: How many of each factor.
        seed: Of the traversals.
        longest: The most values of a factor that are shown (`kept_values`).
        progress: Such as `untwine.progress.track`.

    >>> import untwine.datasets
    >>> squares = untwine.datasets.xy_squares()
    >>> found = distance_matrices(squares, {"perceived": perceived()}, traversals=3)
    >>> found["x_R"]["perceived"][:3, :3]
    array([[  0., 128., 128.], [128.,   0., 128.], [128., 128.,   0.]])
    """
    functions, space = _functions(distances), check_dataset(dataset).factors
    if space is None:
        raise UntwineError(f"{dataset!r} has no factors, and so no traversals to compare distances along")
    for name, value, least in (("traversals", traversals, 1), ("longest", longest, 2), ("seed", seed, 0)):
        whole(name, value, least)
    moving = [column for column, size in enumerate(space.sizes) if size > 1]
    if not moving:
        raise UntwineError(f"every factor of {dataset!r} has a single value: there is nothing to traverse")

    states = states_of(dataset)
    jobs = [(column, number) for column in moving for number in range(traversals)]
    sums: dict[str, dict[str, _Sum]] = {}
    for column, number in tracked(progress, jobs, "traversals"):
        values = kept_values(space.sizes[column], longest)
        found = states.traversal(column, values, number, seed)
        if found is None:
            continue
        factors, images = states.factors(found), states.images(found)
        places = np.searchsorted(values, factors[:, column])
        of_factor = sums.setdefault(space.names[column], {name: _Sum(len(values)) for name in functions})
        with _encoded_once():
            for name, function in functions.items():
                matrix = checked(function(factors, images), f"the distances {name!r}", 2)
                if matrix.ndim > 3 or matrix.shape[-2:] != (len(places), len(places)):
                    raise UntwineError(
                        f"the distances {name!r} of {len(places)} states have shape {list(matrix.shape)}; they "
                        f"must be [{len(places)}, {len(places)}], or as many for each member"
                    )
                of_factor[name].add(places, matrix)
    if not sums:
        raise UntwineError(no_pairs(dataset))
    return {factor: {name: one.mean() for name, one in by.items()} for factor, by in sums.items()}


def _functions(distances: Any) -> dict[str, Callable[..., Any]]:
    if not isinstance(distances, Mapping) or not distances:
        raise UntwineError(f'distances go by names, as in {{"perceived": perceived()}}, not {distances!r}')
    functions = {}
    for name, distance in distances.items():
        if distance in (ground_truth, perceived, latent, posterior_kl, reconstruction):
            raise UntwineError(f"the distance {name!r} is a function that makes one: call it, as in perceived()")
        if not isinstance(distance, Distance) and not callable(distance):
            raise UntwineError(
                f"the distance {name!r} is {distance!r}; it must be one such as perceived(), or a function of factors "
                "and images"
            )
        functions[name] = distance.matrix if isinstance(distance, Distance) else distance
    return functions


class _Sum:
    """Matrices over some of the values, added up."""

    def __init__(self, size: int) -> None:
        self.size, self.count = size, np.zeros((size, size))
        self.total: np.ndarray | None = None

    def add(self, places: Int64[np.ndarray, " m"], matrix: Float64[np.ndarray, "*members m m"]) -> None:
        if self.total is None:
            self.total = np.zeros((*matrix.shape[:-2], self.size, self.size))
        rows = (..., places[:, None], places[None])
        self.total[rows] += matrix
        self.count[rows] += 1

    def mean(self) -> Float64[np.ndarray, "*members f f"]:
        assert self.total is not None
        return np.where(self.count > 0, self.total / np.maximum(self.count, 1), np.nan)

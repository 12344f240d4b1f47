"""Traversals: how images change along a latent, over the range in which the data's codes lie.

Codes are `[*batch, d]`: one code `[d]`, one for each member `[members, d]`, or several for each member. What is
known of each latent, such as its range, is `[d, ...]`, or `[members, d, ...]` where members differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike

from untwine.analysis.encodings import Whole, checked, diagonal
from untwine.checks import as_array
from untwine.errors import UntwineError

# Codes `[n, d]`, or `[members, n, d]` of several models, to images `[n, *shape]` or `[members, n, *shape]`.
Decode = Callable[[np.ndarray], Any]

_CHUNK = 2**16  # numbers at once: they stay in a cache
_HALVINGS = 52  # of a bracket, after which it is as narrow as float64 can tell


def ranges(
    means: ArrayLike, variances: ArrayLike | None = None, coverage: float = 0.95
) -> Float64[np.ndarray, "*members d 2"]:
    """The lowest and the highest value of each latent that the aggregate posterior takes, but for its tails.

    q(z_k) = 1/n sum_j N(z_k; mean_jk, variance_jk) has the mass `coverage` between them, and as much below as
    above: exact quantiles of that mixture, each the smallest value up to which the mass is reached. Without
    variances, those of the means.

    >>> ranges(np.zeros((3, 1)), np.full((3, 1), 4.0)).round(2).tolist()
    [[-3.92, 3.92]]
    >>> ranges(np.arange(100.0)[:, None], coverage=0.9).tolist()
    [[4.0, 94.0]]
    """
    if not 0 < coverage < 1:
        raise UntwineError(f"coverage must lie between 0 and 1, as 0.95 does, not {coverage!r}")
    tails = (1 - coverage) / 2, (1 + coverage) / 2
    if variances is None:
        found = np.quantile(checked(means, "means", 2), tails, axis=-2, method="inverted_cdf")
    else:
        found = np.stack([_quantile(*diagonal(means, variances), tail) for tail in tails])
    return np.moveaxis(found, 0, -1)


def _quantile(
    means: Float64[np.ndarray, "*members n d"], variances: Float64[np.ndarray, "*members n d"], mass: float
) -> Float64[np.ndarray, "*members d"]:
    """The quantile of a mixture of normals for each latent, by bisection."""
    from scipy.special import ndtri

    deviations = np.sqrt(variances)
    # Of all the mixture's parts, one reaches the mass first and one last: the mixture does so between them.
    each = means + deviations * ndtri(mass)
    low, high = np.nextafter(each.min(-2), -np.inf), each.max(-2)
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2
        reached = _mass_below(middle, means, deviations) >= mass
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return high


def _mass_below(
    points: Float64[np.ndarray, "*members d"],
    means: Float64[np.ndarray, "*members n d"],
    deviations: Float64[np.ndarray, "*members n d"],
) -> Float64[np.ndarray, "*members d"]:
    from scipy.special import ndtr

    total = np.zeros(points.shape)
    size = max(1, _CHUNK // points.size)
    for start in range(0, means.shape[-2], size):
        part = np.s_[..., start : start + size, :]
        offsets, deviation = points[..., None, :] - means[part], deviations[part]
        if deviation.all():
            offsets /= deviation
        else:  # a deterministic posterior is a step at its mean
            steps = np.where(offsets >= 0, np.inf, -np.inf)
            offsets = np.divide(offsets, deviation, out=steps, where=deviation > 0)
        total += ndtr(offsets, out=offsets).sum(-2)
    return total / means.shape[-2]


def usefulness(
    means: ArrayLike, variances: ArrayLike | None = None
) -> tuple[Int64[np.ndarray, "*members d"], Float64[np.ndarray, "*members d"]]:
    """The latents, most useful first, and how useful each of them is, in the order of the latents.

    With variances that is KL(q(z_k | x) || N(0, 1)) in nats, the mean over examples, which is 0 for a latent
    that the model does not use; without, the variance of its means.

    >>> order, nats = usefulness([[0.0, 2.0], [0.0, -2.0]], [[1.0, 0.1], [1.0, 0.1]])
    >>> order.tolist(), nats.round(2).tolist()
    ([1, 0], [0.0, 2.7])
    """
    if variances is None:
        found = checked(means, "means", 2).var(-2)
    else:
        mean, variance = diagonal(means, variances)
        if (variance == 0).any():
            raise UntwineError("deterministic posteriors have no KL: leave the variances out, and means are compared")
        found = 0.5 * (variance + mean**2 - 1 - np.log(variance)).mean(-2)
    return np.argsort(-found, axis=-1, kind="stable"), found


def along(
    code: ArrayLike, latent: ArrayLike, low: ArrayLike, high: ArrayLike, steps: Whole = 9
) -> Float64[np.ndarray, "*batch steps d"]:
    """Codes that differ in one latent, which goes from `low` to `high` in equal steps, both ends among them.

    `latent`, `low` and `high` are one number, or one for each code.

    >>> along([5.0, 7.0], latent=1, low=-1.0, high=1.0, steps=3).tolist()
    [[5.0, -1.0], [5.0, 0.0], [5.0, 1.0]]
    """
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 2:
        raise UntwineError(f"steps must be a whole number, 2 or more, not {steps!r}")
    base = checked(code, "codes")
    index = _latents(latent, base.shape[-1])
    ends = checked(low, "low ends", 0), checked(high, "high ends", 0)
    try:
        index, first, last = (np.broadcast_to(one, base.shape[:-1]) for one in (index, *ends))
    except ValueError:
        raise UntwineError(
            f"for codes {list(base.shape)}, latent and its ends are one number or {list(base.shape[:-1])} of them; "
            f"they have shapes {[list(one.shape) for one in (index, *ends)]}"
        ) from None
    codes = np.repeat(base[..., None, :], int(steps), -2)
    values = np.linspace(first, last, int(steps), axis=-1)
    np.put_along_axis(codes, index[..., None, None], values[..., None], -1)
    return codes


def grid(
    code: ArrayLike, ranges: ArrayLike, steps: Whole = 9, latents: ArrayLike | None = None
) -> Float64[np.ndarray, "*batch latents steps d"]:
    """Codes of a traversal of every latent, or of some (`[latents]`, or `[members, latents]`), in that order.

    >>> codes = grid(np.zeros(3), [[-1, 1], [-2, 2], [-3, 3]], steps=5, latents=[2, 0])
    >>> codes.shape, codes[0, 0].tolist(), codes[1, -1].tolist()
    ((2, 5, 3), [0.0, 0.0, -3.0], [1.0, 0.0, 0.0])
    """
    base = checked(code, "codes")
    ends = _ends(ranges, base.shape)
    members = ends.shape[:-2]
    index = _latents(np.arange(base.shape[-1]) if latents is None else latents, base.shape[-1])
    if index.ndim == 0 or index.shape[:-1] not in ((), members):
        raise UntwineError(f"latents have shape {list(index.shape)}; they must be {[*members, 'count']} or ['count']")
    index = np.broadcast_to(index, (*members, index.shape[-1]))
    chosen = np.take_along_axis(ends, index[..., None], -2)
    between = (1,) * (base.ndim - 1 - len(members))  # several codes for each member
    whole = (*base.shape[:-1], index.shape[-1])
    index, low, high = (
        np.broadcast_to(one.reshape(*members, *between, -1), whole) for one in (index, chosen[..., 0], chosen[..., 1])
    )
    return along(np.broadcast_to(base[..., None, :], (*whole, base.shape[-1])), index, low, high, steps)


def two(
    code: ArrayLike, first: Whole, second: Whole, ranges: ArrayLike, steps: Whole = 9
) -> Float64[np.ndarray, "*batch steps steps d"]:
    """Codes of a plane: the first latent changes from row to row, the second from column to column.

    >>> two([0.0, 0.0, 9.0], 0, 1, [[-1, 1], [-2, 2], [0, 0]], steps=3)[0, 2].tolist()
    [-1.0, 2.0, 9.0]
    """
    if first == second:
        raise UntwineError(f"a plane needs two latents, not {first} twice")
    rows = grid(code, ranges, steps, np.array([first]))[..., 0, :, :]
    return grid(rows, ranges, steps, np.array([second]))[..., 0, :, :]


def sparse_direction(code: ArrayLike, latent: ArrayLike, steps: Whole = 9) -> Float64[np.ndarray, "*batch steps d"]:
    """Codes from z_d to z_d + sign(z_d), away from zero: an active latent made more so (mathieu2019, Figure 5).

    `latent` is one number, or one for each code; `encodings.active_dimensions` finds them.

    >>> sparse_direction([0.0, -2.0], latent=1, steps=3).tolist()
    [[0.0, -2.0], [0.0, -2.5], [0.0, -3.0]]
    """
    base = checked(code, "codes")
    index = _latents(latent, base.shape[-1])
    if index.shape not in ((), base.shape[:-1]):
        raise UntwineError(f"for codes {list(base.shape)}, latent is one number or {list(base.shape[:-1])} of them")
    index = np.broadcast_to(index, base.shape[:-1])
    start = np.take_along_axis(base, index[..., None], -1)[..., 0]
    if (start == 0).any():
        raise UntwineError("a latent that is exactly 0 has no sign to follow: choose one that is active in this code")
    return along(base, index, start, start + np.sign(start), steps)


def decoded(decode: Decode, codes: ArrayLike, pack: bool = False) -> np.ndarray:
    """The images `[*grid, *shape]` of codes `[*grid, d]`, with members in front where `decode` is that of a pack.

    With `pack`, codes are `[members, *grid, d]`, each member's its own.

    >>> decoded(lambda z: np.stack([z, -z]), np.ones((3, 4, 5))).shape
    (2, 3, 4, 5)
    """
    array = checked(codes, "codes", 2 + pack)
    cells = array.shape[int(pack) : -1]
    count = math.prod(cells)
    flat = array.reshape(*array.shape[: int(pack)], count, array.shape[-1])
    images = as_array(decode(flat))
    axes = [axis for axis in (0, 1) if images.ndim > axis and images.shape[axis] == count and axis >= pack]
    if len(axes) == 2:  # as many members as codes, or as many channels: the dimension of codes is the one that grows
        more = as_array(decode(np.concatenate((flat, flat[:1]))))
        axes = [axis for axis in axes if more.shape[axis] == count + 1]
    if len(axes) != 1:
        raise UntwineError(
            f"decode gave images of shape {list(images.shape)} for codes {list(flat.shape)}; they must be "
            + (f"[members, {count}, *shape]" if pack else f"[{count}, *shape], or [members, {count}, *shape]")
        )
    return images.reshape(*images.shape[: axes[0]], *cells, *images.shape[axes[0] + 1 :])


def traverse(
    decode: Decode, code: ArrayLike, ranges: ArrayLike, steps: Whole = 9, latents: ArrayLike | None = None
) -> np.ndarray:
    """The images of a traversal of every latent, `[*members, *batch, latents, steps, *shape]`: see `grid`.

    `decode` is that of one model, of an ensemble at the same codes, or, with ranges `[members, d, 2]`, at
    codes of each member. `latents=usefulness(means, variances)[0]` puts the most useful first.

    >>> images = traverse(lambda z: z[:, :, None] * np.ones(4), np.zeros(2), [[-1, 1], [-2, 2]], steps=3)
    >>> images.shape, images[1, 0, 1].tolist()
    ((2, 3, 2, 4), [-2.0, -2.0, -2.0, -2.0])
    """
    return decoded(decode, grid(code, ranges, steps, latents), pack=as_array(ranges).ndim == 3)


def _latents(value: ArrayLike, count: int) -> Int64[np.ndarray, "*shape"]:
    index = np.asarray(value)
    if not np.issubdtype(index.dtype, np.integer) or ((index < 0) | (index >= count)).any():
        raise UntwineError(f"latents are whole numbers from 0 to {count - 1}, not {np.asarray(value).tolist()}")
    return index.astype(np.int64)


def _ends(value: ArrayLike, code: tuple[int, ...]) -> Float64[np.ndarray, "*members d 2"]:
    ends = checked(value, "ranges", 2)
    members = ends.shape[:-2]
    if (
        ends.shape[-2:] != (code[-1], 2)
        or len(members) > 1
        or len(members) >= len(code)
        or code[: len(members)] != members
    ):
        raise UntwineError(
            f"ranges have shape {list(ends.shape)} for codes {list(code)}; they must be [{code[-1]}, 2], "
            f"or [members, {code[-1]}, 2] for codes [members, ..., {code[-1]}]"
        )
    return ends

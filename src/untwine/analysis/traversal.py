"""Traversals: how images change along a latent, over the range in which the data's codes lie.

Codes are `[*batch, d]`: one code `[d]`, one for each member `[members, d]`, or several for each member. Ranges of the
latents are `[d, 2]`, or `[members, d, 2]` where members differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike

from untwine.analysis.arrays import Integer, finite_array
from untwine.arguments import checked
from untwine.checks import as_array
from untwine.errors import UntwineError
from untwine.room import refuse_larger

# Maps codes `[n, d]` or `[members, n, d]` to images `[n, *shape]` or `[members, n, *shape]`.
Decode = Callable[[np.ndarray], Any]


@checked()
def latent_line(
    code: ArrayLike, latent: ArrayLike, low: ArrayLike, high: ArrayLike, steps: Integer = 9
) -> Float64[np.ndarray, "*batch steps d"]:
    """Codes that differ in one latent, which goes from `low` to `high` in equal steps.

    Args:
        code: `[*batch, d]`.
        latent: The latent that changes: one number, or one for each code.
        low: Its first value: one number, or one for each code.
        high: Its last value: one number, or one for each code.
        steps: The number of values, both ends included.

    >>> latent_line([5.0, 7.0], latent=1, low=-1.0, high=1.0, steps=3).tolist()
    [[5.0, -1.0], [5.0, 0.0], [5.0, 1.0]]
    """
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 2:
        raise UntwineError(f"steps must be a whole number, 2 or more, not {steps!r}")
    base = finite_array(code, "codes")
    refuse_larger(8 * base.size * int(steps), f"{int(steps):,} codes on a line", "take fewer steps")
    index = _latents(latent, base.shape[-1])
    ends = finite_array(low, "low ends", 0), finite_array(high, "high ends", 0)
    try:
        index, first, last = (np.broadcast_to(number, base.shape[:-1]) for number in (index, *ends))
    except ValueError:
        raise UntwineError(
            f"for codes {list(base.shape)}, latent and its ends are one number or {list(base.shape[:-1])} of them; "
            f"they have shapes {[list(number.shape) for number in (index, *ends)]}"
        ) from None
    codes = np.repeat(base[..., None, :], int(steps), -2)
    values = np.linspace(first, last, int(steps), axis=-1)
    np.put_along_axis(codes, index[..., None, None], values[..., None], -1)
    return codes


@checked()
def latent_grid(
    code: ArrayLike, ranges: ArrayLike, steps: Integer = 9, latents: ArrayLike | None = None
) -> Float64[np.ndarray, "*batch latents steps d"]:
    """Codes of a traversal of each latent: a line of codes for each.

    Args:
        code: `[*batch, d]`.
        ranges: The first and the last value of each latent, `[d, 2]` or `[members, d, 2]`.
        steps: The number of values of each latent.
        latents: The latents in the order of the lines, `[latents]` or `[members, latents]`; None takes every latent.

    >>> codes = latent_grid(np.zeros(3), [[-1, 1], [-2, 2], [-3, 3]], steps=5, latents=[2, 0])
    >>> codes.shape, codes[0, 0].tolist(), codes[1, -1].tolist()
    ((2, 5, 3), [0.0, 0.0, -3.0], [1.0, 0.0, 0.0])
    """
    base = finite_array(code, "codes")
    ends = _ends(ranges, base.shape)
    members = ends.shape[:-2]
    index = _latents(np.arange(base.shape[-1]) if latents is None else latents, base.shape[-1])
    if index.ndim == 0 or index.shape[:-1] not in ((), members):
        raise UntwineError(f"latents have shape {list(index.shape)}; they must be {[*members, 'count']} or ['count']")
    index = np.broadcast_to(index, (*members, index.shape[-1]))
    chosen = np.take_along_axis(ends, index[..., None], -2)
    between = (1,) * (base.ndim - 1 - len(members))  # dimensions of several codes for each member
    lines = (*base.shape[:-1], index.shape[-1])
    index, low, high = (
        np.broadcast_to(numbers.reshape(*members, *between, -1), lines)
        for numbers in (index, chosen[..., 0], chosen[..., 1])
    )
    return latent_line(np.broadcast_to(base[..., None, :], (*lines, base.shape[-1])), index, low, high, steps)


@checked()
def latent_plane(
    code: ArrayLike, first: Integer, second: Integer, ranges: ArrayLike, steps: Integer = 9
) -> Float64[np.ndarray, "*batch steps steps d"]:
    """Codes of a plane: the first latent changes from row to row, the second from column to column.

    Args:
        code: `[*batch, d]`.
        first: The latent of the rows.
        second: The latent of the columns.
        ranges: The first and the last value of each latent, `[d, 2]` or `[members, d, 2]`.
        steps: The number of values of each of the two.

    >>> latent_plane([0.0, 0.0, 9.0], 0, 1, [[-1, 1], [-2, 2], [0, 0]], steps=3)[0, 2].tolist()
    [-1.0, 2.0, 9.0]
    """
    if first == second:
        raise UntwineError(f"a plane needs two latents, not {first} twice")
    rows = latent_grid(code, ranges, steps, np.array([first]))[..., 0, :, :]
    return latent_grid(rows, ranges, steps, np.array([second]))[..., 0, :, :]


@checked()
def sparse_direction(code: ArrayLike, latent: ArrayLike, steps: Integer = 9) -> Float64[np.ndarray, "*batch steps d"]:
    """Codes from z_d to z_d + sign(z_d): an active latent moves away from zero (mathieu2019, Figure 5).

    Args:
        code: `[*batch, d]`.
        latent: One number, or one for each code; `active_dimensions` finds the active ones.
        steps: The number of codes.

    >>> sparse_direction([0.0, -2.0], latent=1, steps=3).tolist()
    [[0.0, -2.0], [0.0, -2.5], [0.0, -3.0]]
    """
    base = finite_array(code, "codes")
    index = _latents(latent, base.shape[-1])
    if index.shape not in ((), base.shape[:-1]):
        raise UntwineError(f"for codes {list(base.shape)}, latent is one number or {list(base.shape[:-1])} of them")
    index = np.broadcast_to(index, base.shape[:-1])
    start = np.take_along_axis(base, index[..., None], -1)[..., 0]
    if (start == 0).any():
        raise UntwineError("a latent that is exactly 0 has no sign to follow: choose one that is active in this code")
    return latent_line(base, index, start, start + np.sign(start), steps)


@checked()
def decode_grid(decode: Decode, codes: ArrayLike, pack: bool = False) -> np.ndarray:
    """The images `[*grid, *shape]` of codes `[*grid, d]`; those of an ensemble are `[members, *grid, *shape]`.

    Args:
        decode: The decoder of a model, or `ensemble.decode`.
        codes: `[*grid, d]`, or with `pack` `[members, *grid, d]`.
        pack: Whether each member has codes of its own.

    >>> decode_grid(lambda z: np.stack([z, -z]), np.ones((3, 4, 5))).shape
    (2, 3, 4, 5)
    """
    array = finite_array(codes, "codes", 2 + pack)
    cells = array.shape[int(pack) : -1]
    count = math.prod(cells)
    flat = array.reshape(*array.shape[: int(pack)], count, array.shape[-1])
    images = as_array(decode(flat))
    axes = [axis for axis in (0, 1) if images.ndim > axis and images.shape[axis] == count and axis >= pack]
    if len(axes) == 2:  # as many members or channels as codes: decode one code more to see which dimension grows
        more = as_array(decode(np.concatenate((flat, flat[:1]))))
        axes = [axis for axis in axes if more.shape[axis] == count + 1]
    if len(axes) != 1:
        raise UntwineError(
            f"decode gave images of shape {list(images.shape)} for codes {list(flat.shape)}; they must be "
            + (f"[members, {count}, *shape]" if pack else f"[{count}, *shape], or [members, {count}, *shape]")
        )
    return images.reshape(*images.shape[: axes[0]], *cells, *images.shape[axes[0] + 1 :])


@checked()
def traverse(
    decode: Decode, code: ArrayLike, ranges: ArrayLike, steps: Integer = 9, latents: ArrayLike | None = None
) -> np.ndarray:
    """The images of a traversal of each latent, `[*members, *batch, latents, steps, *shape]`.

    Args:
        decode: The decoder of a model, or `ensemble.decode`.
        code: `[*batch, d]`.
        ranges: The first and the last value of each latent, `[d, 2]`; with `[members, d, 2]`, each member of an
            ensemble has codes of its own.
        steps: The number of values of each latent.
        latents: As in `latent_grid`; `usefulness(means, variances)[0]` puts the most useful first.

    >>> images = traverse(lambda z: z[:, :, None] * np.ones(4), np.zeros(2), [[-1, 1], [-2, 2]], steps=3)
    >>> images.shape, images[1, 0, 1].tolist()
    ((2, 3, 2, 4), [-2.0, -2.0, -2.0, -2.0])
    """
    return decode_grid(decode, latent_grid(code, ranges, steps, latents), pack=as_array(ranges).ndim == 3)


def _latents(value: ArrayLike, count: int) -> Int64[np.ndarray, "*shape"]:
    """The indices of latents, refused if there are no such latents."""
    index = np.asarray(value)
    if not np.issubdtype(index.dtype, np.integer) or ((index < 0) | (index >= count)).any():
        raise UntwineError(f"latents are whole numbers from 0 to {count - 1}, not {np.asarray(value).tolist()}")
    return index.astype(np.int64)


def _ends(value: ArrayLike, code: tuple[int, ...]) -> Float64[np.ndarray, "*members d 2"]:
    """The ranges of latents, refused if their shape does not suit the codes."""
    ends = finite_array(value, "ranges", 2)
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

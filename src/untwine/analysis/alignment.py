"""How training aligned a model: the polarised regime over time, and the columns of its Jacobian by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike

from untwine.analysis.arrays import Integer, finite_array
from untwine.arguments import checked
from untwine.checks import as_array
from untwine.errors import UntwineError


@checked("history")
def polarised_share(
    history: Sequence[Mapping[str, Any]], threshold: float = 0.03, term: str = "delta_kl"
) -> dict[str, float]:
    """The share of training steps after which Delta-KL stays below the threshold until the end, for each member.

    This is rolinek2019's Table 1. The share counts from the last logged step that is not below the threshold, or from
    the start if there is none, so it may be too large by up to `log_every` steps. A value that is not finite is not
    below. Members that diverged are left out. Logged values are those of a batch; the paper's are of all data.

    Args:
        history: `ensemble.history` of a run with `watch=("delta_kl",)` and, as in the paper, `log_every=500`.
        threshold: The bound on the term.
        term: The logged term.

    >>> logged = {500: 0.9, 1000: 0.02, 1500: 0.01}
    >>> history = [{"step": step, "members": {"seed-0": {"delta_kl": value}}} for step, value in logged.items()]
    >>> round(polarised_share(history)["seed-0"], 3)
    0.667
    """
    if not history:
        raise UntwineError("the history is empty: nothing was logged")
    values: dict[str, list[tuple[int, float | None]]] = {}
    diverged = {name for row in history for name, terms in row["members"].items() if "diverged" in terms}
    for row in history:
        for name, terms in row["members"].items():
            if name in diverged:
                continue
            if term not in terms:
                flag = term.replace("_", "-")
                raise UntwineError(
                    f"the log of {name} has no {term!r}: train with watch=({term!r},), or --watch {flag}"
                )
            values.setdefault(name, []).append((row["step"], terms[term]))
    return {name: _share_below(logged, threshold) for name, logged in values.items()}


def _share_below(logged: list[tuple[int, float | None]], threshold: float) -> float:
    """The share of steps after the last one whose value is not below the threshold."""
    above = [step for step, value in logged if value is None or not value < threshold]
    if not above:
        return 1.0
    last = max(step for step, _ in logged)
    return (last - max(above)) / max(last, 1)


class Columns(NamedTuple):
    """Columns of Jacobians, the largest first: `order` has their latents, `norms` their norms."""

    columns: np.ndarray
    order: Int64[np.ndarray, "*batch count"]
    norms: Float64[np.ndarray, "*batch count"]


@checked("count", "p")
def jacobian_columns(
    jacobians: ArrayLike,
    count: Integer | None = None,
    p: float | np.integer | np.floating = 2,
    dimensions: Integer = 3,
) -> Columns:
    """The columns of the decoder's Jacobian as images, sorted by their norm (rhodes2021, Figures 1 to 3).

    Args:
        jacobians: `[..., latent, *output]`, as `ensemble.jacobian` returns; each Jacobian is sorted by itself.
        count: The number of columns to return; None returns every column.
        p: The norm over all elements of the output: 2 as in the paper, 1, or infinity (np.inf).
        dimensions: The number of dimensions of an output: 3 for images, 1 for vectors.

    >>> columns, order, norms = jacobian_columns(np.array([[1.0, 0.0], [3.0, 4.0], [0.0, 2.0]]), 2, dimensions=1)
    >>> columns.tolist(), order.tolist(), norms.tolist()
    ([[3.0, 4.0], [0.0, 2.0]], [1, 2], [5.0, 2.0])
    """
    array = as_array(jacobians)
    if isinstance(dimensions, bool) or not isinstance(dimensions, int | np.integer) or dimensions < 1:
        raise UntwineError(f"dimensions is how many an output has, 1 or more, not {dimensions!r}")
    if array.ndim < dimensions + 1 or not np.issubdtype(array.dtype, np.floating):
        raise UntwineError(
            f"jacobians have shape {list(array.shape)} and are {array.dtype}; they must be floats "
            f"[..., latent, *output], with {dimensions} dimensions of the output (argument dimensions)"
        )
    axis = array.ndim - dimensions - 1
    latents = array.shape[axis]
    if count is not None and (
        isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= latents
    ):
        raise UntwineError(f"count is how many columns, from 1 to {latents} (the latents), not {count!r}")
    if isinstance(p, bool) or not isinstance(p, int | float | np.integer | np.floating) or not p >= 1:
        raise UntwineError(f"p is the power of a norm, 1 or more, or np.inf, not {p!r}")
    flat = finite_array(array, "jacobians").reshape(*array.shape[: axis + 1], -1)
    norms = np.linalg.norm(flat, ord=float(p), axis=-1)
    order = np.argsort(-norms, axis=-1, kind="stable")[..., :count]
    chosen = order.reshape(*order.shape, *(1,) * int(dimensions))
    return Columns(np.take_along_axis(array, chosen, axis), order, np.take_along_axis(norms, order, -1))

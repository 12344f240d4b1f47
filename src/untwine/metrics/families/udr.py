"""Unsupervised disentanglement ranking: how alike a model's latents are to those of other models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from untwine.errors import UntwineError, unknown
from untwine.metrics.arrays import varying
from untwine.metrics.score import UNIT, metric

METHODS = ("spearman", "lasso")


def _without_choice(details: Mapping[str, Any], codes: Sequence[np.ndarray]) -> list[str | None]:
    """A model without informative latents has 0. Two models have one pair, and both its score: one counts."""
    reasons = [None if latents else "no latent is informative" for latents in details["informative"]]
    if len(codes) == 2 and reasons[1] is None:
        reasons[1] = "two models are one pair, with one score"
    return reasons


@metric(together=True, bounds=UNIT, forced={"value": _without_choice})
def udr(
    codes: list[Float64[np.ndarray, "n _"]],
    method: str = "spearman",
    kl: Any = None,
    informative: float = 0.01,
    alpha: float = 0.1,
) -> tuple[Float64[np.ndarray, " models"], dict[str, Any]]:
    """How much each model's informative latents correspond one to one to those of the other models (no factors needed).

    Duan et al. 2020, on a list of codes `[n, d]` of the same samples, one array for each model:

        UDR_ij = 1 / (d_i + d_j) [sum_b r_b^2 I(b) / sum_a R(a, b) + sum_a r_a^2 I(a) / sum_b R(a, b)]

    with R(a, b) the similarity of latent a of model i and latent b of model j (the absolute Spearman correlation,
    or the absolute Lasso coefficient of a in the prediction of b, both standardised), r the largest of a row or of
    a column, I whether a latent is informative and d how many are; others have no similarity to any. A model's
    score is the median over the other models. (The published code averages both sums by themselves, which differs
    where d_i and d_j do. Lasso is not symmetric: there as here, a model's own latents are those predicted.)

    Models that agree up to order, sign and (spearman) monotone maps, with independent latents, have 1, or
    1 - alpha with lasso; the correlations of a finite sample take off about .8 (d - 1) / sqrt(n). Noise has
    about 0, and a model without informative latents 0.

    Args:
        codes: A list of codes `[n, d]` of the same samples, one array for each model.
        method: spearman or lasso.
        kl: For each model the mean KL of its latents from the prior, a list of arrays [d]. None estimates it by that
            of a latent whose aggregate is a standard normal: -log(1 - v) / 2, v the variance of its codes.
        informative: The KL, in nats, above which a latent is informative.
        alpha: The weight of the Lasso penalty.

    >>> x = np.indices((4, 4)).reshape(2, -1).T * 1.0
    >>> udr([x, -x[:, ::-1], x @ [[1, 1], [1, -1]]]).values.round(2).tolist()
    [0.68, 0.68, 0.35]
    """
    if method not in METHODS:
        raise unknown("similarity of udr:", str(method), METHODS)
    if not (np.isfinite(alpha) and alpha >= 0 and np.isfinite(informative) and informative >= 0):
        raise UntwineError(f"udr: alpha and informative must be 0 or more, not {alpha!r} and {informative!r}")
    sizes = [model.shape[1] for model in codes]
    starts = np.cumsum([0, *sizes[:-1]])
    latents = np.concatenate(codes, 1)
    used = varying(latents) & (_kl(latents.var(0), kl, sizes) > informative)
    similarity = correlations(latents, used, ranks=method == "spearman")
    if method == "lasso":
        models = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
        similarity = np.concatenate([lasso(similarity[model, model], similarity[model], alpha) for model in models])
    similarity = np.abs(similarity)
    pairs = pairwise(similarity, used, starts)
    others = ~np.eye(len(codes), dtype=bool)
    values = np.array([np.median(pairs[others[:, model], model]) for model in range(len(codes))])
    details = {
        "pairs": pairs * others,
        "similarity": [np.split(rows, starts[1:], axis=1) for rows in np.split(similarity, starts[1:])],
        "informative": [np.flatnonzero(model).tolist() for model in np.split(used, starts[1:])],
        "settings": {"kl": "from variances" if kl is None else "given"},
    }
    return values, details


def _kl(variance: Float64[np.ndarray, " latents"], kl: Any, sizes: list[int]) -> Float64[np.ndarray, " latents"]:
    """The KL of every latent of all models: the argument, or an estimate from the variances."""
    if kl is None:
        # KL(N(m, s^2) || N(0, 1)) averages to -log(s^2) / 2 where the aggregate has mean 0 and s^2 + v = 1.
        return np.where(variance < 1, -np.log1p(-np.minimum(variance, 1 - 1e-16)) / 2, np.inf)
    arrays = [np.asarray(model, np.float64) for model in kl]
    if [array.shape for array in arrays] != [(size,) for size in sizes]:
        shapes = [list(array.shape) for array in arrays]
        raise UntwineError(f"udr: kl has shapes {shapes}; it needs one number for each latent: {[[s] for s in sizes]}")
    by_latent = np.concatenate(arrays)
    if np.isnan(by_latent).any():
        raise UntwineError("udr: kl holds a NaN; did a model diverge?")
    return by_latent


def correlations(
    codes: Float64[np.ndarray, "n latents"], used: Bool[np.ndarray, " latents"], ranks: bool
) -> Float64[np.ndarray, "latents latents"]:
    """Correlations of all latents with each other; 0 for those that are not used.

    Args:
        codes: The latents of all models side by side.
        used: Which latents are used.
        ranks: Whether to correlate ranks instead of values.

    >>> x = np.array([[1.0, 1.0], [2.0, 4.0], [3.0, 99.0]])
    >>> correlations(x, np.array([True, True]), ranks=True).round(6).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    if ranks:
        from scipy.stats import rankdata

        codes = rankdata(codes, axis=0)
    centred = (codes - codes.mean(0)) * used
    length = np.sqrt((centred**2).sum(0))
    unit = centred / np.where(length > 0, length, 1)
    return unit.T @ unit


def lasso(
    gram: Float64[np.ndarray, "d d"], cross: Float64[np.ndarray, "d targets"], alpha: float
) -> Float64[np.ndarray, "d targets"]:
    """The w that minimise |y - x w|^2 / 2n + alpha |w|_1 for all targets y at once, by coordinate descent.

    Of standardised x and y only their correlations matter.

    Args:
        gram: Correlations within x.
        cross: Correlations between x and all y.
        alpha: The weight of the penalty.

    >>> lasso(np.eye(2), np.array([[1.0], [0.05]]), alpha=0.1).tolist()
    [[0.9], [0.0]]
    """
    weights = np.zeros_like(cross)
    live = np.flatnonzero(np.diag(gram) > 0)
    for _ in range(10_000):
        moved = 0.0
        for row in live:
            rest = cross[row] - gram[row] @ weights + gram[row, row] * weights[row]
            new = np.sign(rest) * np.maximum(np.abs(rest) - alpha, 0) / gram[row, row]
            moved = max(moved, float(np.abs(new - weights[row]).max()))
            weights[row] = new
        if moved < 1e-9:
            break
    return weights


def pairwise(
    similarity: Float64[np.ndarray, "latents latents"],
    used: Bool[np.ndarray, " latents"],
    starts: Int64[np.ndarray, " models"],
) -> Float64[np.ndarray, "models models"]:
    """UDR_ij of all pairs of models.

    Args:
        similarity: The similarity of all latents of all models.
        used: Which latents are informative.
        starts: Where the latents of each model begin.

    >>> pairwise(np.eye(4)[[0, 1, 0, 1]][:, [0, 1, 0, 1]], np.ones(4, bool), np.array([0, 2])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    def strengths(axis: int) -> Float64[np.ndarray, "models models"]:
        largest = np.maximum.reduceat(similarity, starts, axis=axis)
        total = np.add.reduceat(similarity, starts, axis=axis)
        # Without any similarity there is no strength.
        strength = np.where(total > 0, largest**2 / np.where(total > 0, total, 1), 0.0)
        return np.add.reduceat(strength, starts, axis=1 - axis)

    count = np.add.reduceat(used.astype(np.int64), starts)
    return (strengths(0) + strengths(1)) / np.maximum(count[:, None] + count, 1)

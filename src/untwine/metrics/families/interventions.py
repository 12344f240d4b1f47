"""Scores from interventions: which factor was held, told from what the codes of a group have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from untwine.errors import UntwineError
from untwine.metrics.arrays import dead_codes
from untwine.metrics.designs import Groups, Pairs
from untwine.metrics.forced import between_both, between_factors
from untwine.metrics.groups import agreeing, form_groups, grouped, held, paired, refuse_few, split_groups, wrong_shape
from untwine.metrics.score import UNIT, Outcome, metric


@metric(design=Groups(plain=True), bounds=UNIT, forced={"value": between_both})
def factor_vae_score(
    codes: Float64[np.ndarray, "*samples d"],
    factors: Int64[np.ndarray, "*samples k"],
    test: float = 1 / 3,
    prune: float = 0.05,
    groups: int = 1500,
    size: int = 64,
    seed: int = 0,
) -> Outcome:
    """How often the code that varies least in a group tells which factor the group holds (a majority vote).

    Kim & Mnih 2018, section 4: a group's vote is the code with the smallest variance within the group relative
    to its variance over all data; the classifier maps a code to the factor that most training groups with its
    vote hold. The value is its accuracy on the other groups. Arrays are a grouped sample, `[groups, size, d]`
    and `[groups, size, k]` (`designs.Groups`; the literature has 10,000 + 5,000 groups of 64), or a plain one,
    `[n, d]` and `[n, k]`, from which groups of rows that share a value are formed (with replacement; training and
    test groups of different rows). On a dataset with no more states than such groups would have, the sample is plain:
    each state once. On a larger one states may be in groups of both kinds, too few to be learned by heart: random
    codes of 20,000 states have 1/k too.

    A perfect code has 1, noise about 1/k, a model whose codes are all pruned 0, and with a single factor there is
    nothing to tell apart: 1. The variance is that of codes as they are: mathieu2019 (20,000 votes, groups of
    1,000) maps means under a Student-t prior to Gaussian ones, by the prior's distribution function, beforehand.

    Args:
        codes: Codes `[groups, size, d]` or `[n, d]`.
        factors: Factors `[groups, size, k]` or `[n, k]`.
        test: The part of the groups on which the accuracy is measured.
        prune: Codes with a smaller standard deviation have no vote, nor have constant ones.
        groups: How many groups are formed from a plain sample.
        size: How many rows a group formed from a plain sample has.
        seed: Seed of the groups that are formed and of the split.

    >>> x = np.indices((8, 8)).reshape(2, -1).T
    >>> float(factor_vae_score(x * 1.0, x, size=8))
    1.0
    """
    if prune < 0:
        raise UntwineError(f"factor_vae_score: prune is the least standard deviation, 0 or more, not {prune!r}")
    # Where the sample is grouped, the variance over all data is that of all groups' codes together. Each state of
    # a group has on its own the distribution of the data (what is held has a random value), so the pooled variance
    # tends to the variance over the data as the groups become many.
    dead = dead_codes(codes)
    if factors.ndim == 2:
        refuse_few("factor_vae_score", groups, size, least=2)
        rows, target, parts = form_groups(grouped, codes, factors, groups, size, test, seed, "factor_vae_score")
        _, deviation = spreads(codes[None])
        within, _ = spreads(codes[rows])
        factors = factors[rows]
    elif factors.ndim == 3 and factors.shape[1] > 1:
        target = held(agreeing(factors), "factor_vae_score")
        within, deviation = spreads(codes)
        parts = None
    else:
        raise wrong_shape("factor_vae_score", factors, "[groups, size, k] with a size of 2 or more")
    deviation[dead] = 0  # exactly, whatever rounding does
    active = np.flatnonzero((deviation > 0) & (deviation >= prune))
    settings = {"groups": len(target), "size": factors.shape[1]}
    train, test_rows = parts or split_groups(within, factors.sum(1), target, test, seed)
    d, k = codes.shape[-1], factors.shape[-1]
    details: dict[str, Any] = {"active_codes": active.tolist(), "settings": settings}
    if not len(active):
        return 0.0, {"train_accuracy": 0.0, "votes": np.zeros((d, k), np.int64), **details}
    vote = active[(within[:, active] / deviation[active] ** 2).argmin(1)]
    votes = np.bincount(vote[train] * k + target[train], minlength=d * k).reshape(d, k)
    right = votes.argmax(1)[vote] == target
    return float(right[test_rows].mean()), {"train_accuracy": float(right[train].mean()), "votes": votes, **details}


def spreads(
    codes: Float64[np.ndarray, "groups size d"],
) -> tuple[Float64[np.ndarray, "groups d"], Float64[np.ndarray, " d"]]:
    """The variance of each code in each group, and its standard deviation over all groups (both of n - 1).

    >>> within, pooled = spreads(np.array([[[0.0], [2.0]], [[4.0], [4.0]]]))
    >>> within[:, 0].tolist(), float(pooled[0] ** 2 * 3)
    ([2.0, 0.0], 11.0)
    """
    groups, size, d = codes.shape
    means, squares = np.empty((groups, d)), np.empty((groups, d))
    ones = np.ones((1, size))
    # Few groups at a time stay in the processor's cache, and a product of matrices adds faster than a sum over rows.
    for start in range(0, groups, step := max(1, 2**15 // (size * d))):
        part = codes[start : start + step]
        mean = ones @ part / size
        centred = part - mean
        means[start : start + step] = mean[:, 0]
        squares[start : start + step] = (ones @ np.square(centred, out=centred))[:, 0]
    pooled = squares.sum(0) + size * np.square(means - means.mean(0)).sum(0)
    return squares / max(size - 1, 1), np.sqrt(pooled / max(groups * size - 1, 1))


@metric(design=Pairs(plain=True), bounds=UNIT, forced={"value": between_factors})
def beta_vae_score(
    codes: Float64[np.ndarray, "*samples d"],
    factors: Int64[np.ndarray, "*samples k"],
    test: float = 1 / 3,
    groups: int = 1500,
    size: int = 64,
    seed: int = 0,
) -> Outcome:
    """How often a linear classifier tells which factor pairs agree in, from the mean distance of their codes.

    Higgins et al. 2017, section 3: a group's features are the means over its pairs of |code - code'|, and the
    value is the accuracy of a logistic regression (scikit-learn's, as in the literature) on groups that it was not
    fitted to. Arrays are a grouped sample, `[groups, size, 2, d]` and `[groups, size, 2, k]` (`designs.Pairs`; the
    literature has 10,000 + 5,000 groups of 64 pairs), or a plain one, `[n, d]` and `[n, k]`, from which pairs of
    rows that share a value are formed, for training and for testing of different rows. On a dataset with no more
    states than such groups would have, the sample is plain: each state once (on 1,440 states of two factors, drawn
    again and again, random codes had 0.7).

    A perfect code has 1, and so may a rotated one: what differs linearly between factors is enough. Noise has
    about 1/k. With a single factor there is nothing to tell apart: 1.

    Args:
        codes: Codes `[groups, size, 2, d]` or `[n, d]`.
        factors: Factors `[groups, size, 2, k]` or `[n, k]`.
        test: The part of the groups on which the accuracy is measured.
        groups: How many groups are formed from a plain sample.
        size: How many pairs a group formed from a plain sample has.
        seed: Seed of the pairs that are formed and of the split.

    >>> x = np.indices((8, 8)).reshape(2, -1).T
    >>> float(beta_vae_score(x * 1.0, x, groups=300))
    1.0
    """
    if factors.ndim == 2:
        refuse_few("beta_vae_score", groups, size, least=1)
        rows, target, parts = form_groups(paired, codes, factors, groups, size, test, seed, "beta_vae_score")
        codes, factors = codes[rows], factors[rows]
    elif factors.ndim == 4 and factors.shape[2] == 2:
        target = held((factors[:, :, 0] == factors[:, :, 1]).all(1), "beta_vae_score")
        parts = None
    else:
        raise wrong_shape("beta_vae_score", factors, "[groups, size, 2, k]")
    features = np.abs(codes[:, :, 0] - codes[:, :, 1]).mean(1)
    train, test_rows = parts or split_groups(features, factors.sum((1, 2)), target, test, seed)
    right = _classified(features, target, train) == target
    details = {
        "train_accuracy": float(right[train].mean()),
        "settings": {"groups": len(target), "size": factors.shape[1]},
    }
    return float(right[test_rows].mean()), details


def _classified(
    features: Float64[np.ndarray, "groups d"], target: Int64[np.ndarray, " groups"], train: Int64[np.ndarray, " train"]
) -> Int64[np.ndarray, " groups"]:
    """The factor that a logistic regression, fitted to the training groups, predicts for each group."""
    if (target[train] == target[train[0]]).all():
        return np.full(len(target), target[train[0]])
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    # scikit-learn's defaults, but for the iterations: the accuracy is to be that of the optimum. Threads that share
    # so few groups only wait for each other, twenty times as long on a busy machine.
    with threadpool_limits(1):
        return LogisticRegression(max_iter=10_000).fit(features[train], target[train]).predict(features)

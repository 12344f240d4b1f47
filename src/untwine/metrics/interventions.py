"""Scores from interventions: which factor was held, told from what the codes of a group have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from untwine.errors import UntwineError
from untwine.metrics.arrays import dead_codes
from untwine.metrics.designs import Groups, Pairs
from untwine.metrics.score import Outcome, metric
from untwine.metrics.split import split
from untwine.streams import np_uniform

# --- groups: as they were drawn, or formed from a sample ------------------------------------------------


def held(same: Bool[np.ndarray, "groups k"], metric: str) -> Int64[np.ndarray, " groups"]:
    """The one factor that each group holds, where `same` says in which factors its states agree.

    >>> held(np.eye(2, dtype=bool).repeat(5, 0), "factor_vae_score").tolist()
    [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]
    """
    if len(same) < 10:
        raise UntwineError(f"{metric}: {len(same)} groups are too few, it needs 10 or more: sample more points")
    count = same.sum(1)
    if (count == 1).all():
        return same.argmax(1)
    group = int(np.flatnonzero(count != 1)[0])
    if count[group]:
        which = " and ".join(map(str, np.flatnonzero(same[group])))
        raise UntwineError(
            f"{metric}: group {group} holds {count[group]} factors ({which} of those that vary), so it cannot be told "
            "which was meant: use larger groups, in which factors of few values do not agree by chance"
        )
    raise UntwineError(
        f"{metric}: group {group} holds no factor: in every group the states must agree in exactly one, as those "
        f"of metrics.designs do; a plain sample has codes [n, d] and factors [n, {same.shape[1]}]"
    )


def grouped(
    factors: Int64[np.ndarray, "n k"], groups: int, size: int, seed: int, metric: str
) -> tuple[Int64[np.ndarray, "groups size"], Int64[np.ndarray, " groups"]]:
    """Groups of rows of a sample that share a factor's value, and the factors held.

    A factor is chosen at random, then a row, and then the members of the group, independently, among the rows of
    that row's value. Values that occur once make no groups.

    >>> rows, factor = grouped(np.arange(40)[:, None] % 4, groups=3, size=5, seed=0, metric="factor_vae_score")
    >>> (rows % 4 == rows[:, :1] % 4).all(), factor.tolist()
    (np.True_, [0, 0, 0])
    """
    chosen = _chosen(groups, factors.shape[1], seed)
    rows = np.empty((groups, size), np.int64)
    for factor, column in enumerate(factors.T):
        mine = np.flatnonzero(chosen == factor)
        order, start, count, able = _blocks(column, factor, 2, seed, metric)
        first = able[(np_uniform(seed, "group", len(mine), factor) * len(able)).astype(np.int64)]
        members = np_uniform(seed, "members of a group", (len(mine), size), factor) * count[first][:, None]
        rows[mine] = order[start[first][:, None] + members.astype(np.int64)]
    return rows, chosen


def paired(
    factors: Int64[np.ndarray, "n k"], groups: int, size: int, seed: int, metric: str
) -> tuple[Int64[np.ndarray, "groups size 2"], Int64[np.ndarray, " groups"]]:
    """Groups of pairs of rows of a sample that share a value of the group's factor, and the factors held.

    A pair's first row is drawn from those whose value occurs again, its second from the other rows of that value.

    >>> rows, factor = paired(np.arange(40)[:, None] % 4, groups=3, size=5, seed=0, metric="beta_vae_score")
    >>> (rows[..., 0] % 4 == rows[..., 1] % 4).all(), (rows[..., 0] == rows[..., 1]).any()
    (np.True_, np.False_)
    """
    chosen = _chosen(groups, factors.shape[1], seed)
    rows = np.empty((groups, size, 2), np.int64)
    for factor, column in enumerate(factors.T):
        mine = np.flatnonzero(chosen == factor)
        order, start, count, able = _blocks(column, factor, 2, seed, metric)
        uniforms = np_uniform(seed, "pair", (len(mine), size, 2), factor)
        first = able[(uniforms[..., 0] * len(able)).astype(np.int64)]
        begin, length = start[first], count[first]
        step = 1 + (uniforms[..., 1] * (length - 1)).astype(np.int64)
        rows[mine] = order[np.stack([first, begin + (first - begin + step) % length], -1)]
    return rows, chosen


def _chosen(groups: int, k: int, seed: int) -> Int64[np.ndarray, " groups"]:
    return (np_uniform(seed, "held factor", groups) * k).astype(np.int64)


def _blocks(column: Int64[np.ndarray, " n"], factor: int, least: int, seed: int, metric: str) -> tuple[np.ndarray, ...]:
    """Rows sorted by their value and in random order within it; by position the start and the length of the run of
    equal values around it; and the positions in runs of at least `least`."""
    order = np.lexsort((np_uniform(seed, "order of rows", len(column), factor), column))
    _, starts, inverse, counts = np.unique(column[order], return_index=True, return_inverse=True, return_counts=True)
    start, count = starts[inverse], counts[inverse]
    able = np.flatnonzero(count >= least)
    if not len(able):
        raise UntwineError(
            f"{metric}: no value of factor {factor} (of those that vary) has {least} rows, the most is {counts.max()}: "
            "use more samples or smaller groups (size), or a grouped sample from metrics.designs"
        )
    return order, start, count, able


# --- the scores -----------------------------------------------------------------------------------------


@metric(design=Groups())
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
    test groups of different rows).

    A perfect code has 1, noise about 1/k, a model whose codes are all pruned 0, and with a single factor there is
    nothing to tell apart: 1. The variance is that of codes as they are: mathieu2019 (20,000 votes, groups of
    1,000) maps means under a Student-t prior to Gaussian ones, by the prior's distribution function, beforehand.

    Args:
        test: The part of the groups on which the accuracy is measured.
        prune: Codes with a smaller standard deviation have no vote, nor have constant ones.
        groups: How many groups are formed from a plain sample.
        size: How many rows a group formed from a plain sample has.
        seed: Of the groups that are formed and of the split.

    >>> x = np.indices((8, 8)).reshape(2, -1).T
    >>> float(factor_vae_score(x * 1.0, x, size=8))
    1.0
    """
    if prune < 0:
        raise UntwineError(f"factor_vae_score: prune is the least standard deviation, 0 or more, not {prune!r}")
    # Where the sample is grouped, the variance over all data is that of all groups' codes together. Each state of
    # a group has on its own the distribution of the data (what is held has a random value), so the pooled variance
    # tends to the variance over the data as the groups become many.
    everything = codes.reshape(-1, codes.shape[-1])
    deviation = everything.std(0, ddof=1) if len(everything) > 1 else np.zeros(codes.shape[-1])
    if factors.ndim == 2:
        _enough("factor_vae_score", groups, size, least=2)
        rows, target, parts = _from_rows(grouped, codes, factors, groups, size, test, seed, "factor_vae_score")
        codes, factors = codes[rows], factors[rows]
    elif factors.ndim == 3 and factors.shape[1] > 1:
        target = held((factors == factors[:, :1]).all(1), "factor_vae_score")
        parts = None
    else:
        raise _shape("factor_vae_score", factors, "[groups, size, k] with a size of 2 or more")
    deviation[dead_codes(everything)] = 0  # not what rounding makes of it
    active = np.flatnonzero((deviation > 0) & (deviation >= prune))
    settings = {"groups": len(target), "size": factors.shape[1]}
    within = codes.var(1, ddof=1)
    train, test_rows = parts or _split(within, factors.sum(1), target, test, seed)
    d, k = codes.shape[-1], factors.shape[-1]
    details: dict[str, Any] = {"active_codes": active.tolist(), "settings": settings}
    if not len(active):
        return 0.0, {"train_accuracy": 0.0, "votes": np.zeros((d, k), np.int64), **details}
    vote = active[(within[:, active] / deviation[active] ** 2).argmin(1)]
    votes = np.bincount(vote[train] * k + target[train], minlength=d * k).reshape(d, k)
    right = votes.argmax(1)[vote] == target
    return float(right[test_rows].mean()), {"train_accuracy": float(right[train].mean()), "votes": votes, **details}


@metric(design=Pairs())
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
    rows that share a value are formed.

    A perfect code has 1, and so may a rotated one: what differs linearly between factors is enough. Noise has
    about 1/k. With a single factor there is nothing to tell apart: 1.

    Args:
        test: The part of the groups on which the accuracy is measured.
        groups: How many groups are formed from a plain sample.
        size: How many pairs a group formed from a plain sample has.
        seed: Of the pairs that are formed and of the split.

    >>> x = np.indices((8, 8)).reshape(2, -1).T
    >>> float(beta_vae_score(x * 1.0, x, groups=300))
    1.0
    """
    if factors.ndim == 2:
        _enough("beta_vae_score", groups, size, least=1)
        rows, target, parts = _from_rows(paired, codes, factors, groups, size, test, seed, "beta_vae_score")
        codes, factors = codes[rows], factors[rows]
    elif factors.ndim == 4 and factors.shape[2] == 2:
        target = held((factors[:, :, 0] == factors[:, :, 1]).all(1), "beta_vae_score")
        parts = None
    else:
        raise _shape("beta_vae_score", factors, "[groups, size, 2, k]")
    features = np.abs(codes[:, :, 0] - codes[:, :, 1]).mean(1)
    train, test_rows = parts or _split(features, factors.sum((1, 2)), target, test, seed)
    right = _classified(features, target, train) == target
    details = {
        "train_accuracy": float(right[train].mean()),
        "settings": {"groups": len(target), "size": factors.shape[1]},
    }
    return float(right[test_rows].mean()), details


def _classified(
    features: Float64[np.ndarray, "groups d"], target: Int64[np.ndarray, " groups"], train: Int64[np.ndarray, " train"]
) -> Int64[np.ndarray, " groups"]:
    """What a logistic regression that was fitted to the training groups says of each group."""
    if (target[train] == target[train[0]]).all():
        return np.full(len(target), target[train[0]])
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    # scikit-learn's defaults, but for the iterations: the accuracy is to be that of the optimum. Threads that share
    # so few groups only wait for each other, twenty times as long on a busy machine.
    with threadpool_limits(1):
        return LogisticRegression(max_iter=10_000).fit(features[train], target[train]).predict(features)


def _split(
    features: np.ndarray, sums: np.ndarray, target: np.ndarray, test: float, seed: int
) -> tuple[Int64[np.ndarray, " train"], Int64[np.ndarray, " test"]]:
    """Groups to train on and to test on. What a group is known by is first of all its factors, so that the split
    depends neither on the order of groups and of rows in them, nor on what the codes are."""
    return split(features, np.column_stack([target, sums]), test, seed)


def _from_rows(
    form: Any, codes: np.ndarray, factors: np.ndarray, groups: int, size: int, test: float, seed: int, metric: str
) -> tuple[np.ndarray, Int64[np.ndarray, " groups"], tuple[np.ndarray, np.ndarray]]:
    """Groups formed from a plain sample: some of one part of its rows to train on, some of the other to test on.

    A classifier that had seen the rows of the test groups would do well on noise.
    """
    count = max(1, min(groups - 1, round(test * groups)))
    rows, target = [], []
    for part, (own, number) in enumerate(zip(split(codes, factors, test, seed), (groups - count, count), strict=True)):
        found, factor = form(factors[own], number, size, seed + part, metric)
        rows.append(own[found])
        target.append(factor)
    parts = np.arange(groups - count), np.arange(groups - count, groups)
    return np.concatenate(rows), np.concatenate(target), parts


def _enough(metric: str, groups: int, size: int, least: int) -> None:
    if groups < 2 or size < least:
        raise UntwineError(f"{metric}: {groups} groups of {size} are too few: it needs 2 groups of {least} or more")


def _shape(metric: str, factors: np.ndarray, right: str) -> UntwineError:
    return UntwineError(f"{metric}: factors have shape {list(factors.shape)}; they must be {right}, or [n, k]")

"""Groups of samples that agree in one factor: as they were drawn, or formed from the rows of a plain sample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float64, Int64, Num

from untwine.errors import UntwineError
from untwine.metrics.learners.split import split
from untwine.room import refuse_larger
from untwine.streams import np_uniform


def held(same: Bool[np.ndarray, "groups k"], metric: str) -> Int64[np.ndarray, " groups"]:
    """The one factor that each group holds.

    Args:
        same: In which factors the states of each group agree.
        metric: The name for error messages.

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


def agreeing(factors: Int64[np.ndarray, "groups size k"]) -> Bool[np.ndarray, "groups k"]:
    """In which factors the states of each group agree.

    >>> agreeing(np.array([[[0, 1], [0, 2]], [[3, 5], [4, 5]]])).tolist()
    [[True, False], [False, True]]
    """
    same = (factors[:, :4] == factors[:, :1]).all(1)  # a few states tell most factors apart
    for factor, column in enumerate(same.T):
        left = np.flatnonzero(column)
        column[left] = (factors[left, :, factor] == factors[left, :1, factor]).all(1)
    return same


def grouped(
    factors: Int64[np.ndarray, "n k"], groups: int, size: int, seed: int, metric: str
) -> tuple[Int64[np.ndarray, "groups size"], Int64[np.ndarray, " groups"]]:
    """Groups of rows of a sample that share a factor's value, and the factors held.

    Factors take turns; a row is chosen at random, and then the rows of the group, independently, among those with the
    same value. Values that occur once make no groups, unless all do and there is no other factor to tell apart.

    Args:
        factors: The factors of the sample.
        groups: How many groups to form.
        size: Rows in a group.
        seed: Seed of all choices.
        metric: The name for error messages.

    >>> rows, factor = grouped(np.arange(40)[:, None] % [4, 5], groups=3, size=5, seed=0, metric="factor_vae_score")
    >>> (rows[0] % 4 == rows[0, 0] % 4).all(), (rows[1] % 5 == rows[1, 0] % 5).all(), factor.tolist()
    (np.True_, np.True_, [0, 1, 0])
    """
    held_factors = np.arange(groups) % factors.shape[1]
    rows = np.empty((groups, size), np.int64)
    for factor, column in enumerate(factors.T):
        mine = np.flatnonzero(held_factors == factor)
        order, start, count, usable = _blocks(column, factor, factors.shape[1] == 1, seed, metric)
        first = usable[(np_uniform(seed, "group", len(mine), factor) * len(usable)).astype(np.int64)]
        offset = np_uniform(seed, "members of a group", (len(mine), size), factor) * count[first][:, None]
        rows[mine] = order[start[first][:, None] + offset.astype(np.int64)]
    return rows, held_factors


def paired(
    factors: Int64[np.ndarray, "n k"], groups: int, size: int, seed: int, metric: str
) -> tuple[Int64[np.ndarray, "groups size 2"], Int64[np.ndarray, " groups"]]:
    """Groups of pairs of rows of a sample that share a value of the group's factor, and the factors held.

    Factors take turns; a pair's first row is drawn from those whose value occurs again, its second from the other rows
    of that value.

    Args:
        factors: The factors of the sample.
        groups: How many groups to form.
        size: Pairs in a group.
        seed: Seed of all choices.
        metric: The name for error messages.

    >>> rows, factor = paired(np.arange(40)[:, None] % 4, groups=3, size=5, seed=0, metric="beta_vae_score")
    >>> (rows[..., 0] % 4 == rows[..., 1] % 4).all(), (rows[..., 0] == rows[..., 1]).any()
    (np.True_, np.False_)
    """
    held_factors = np.arange(groups) % factors.shape[1]
    rows = np.empty((groups, size, 2), np.int64)
    for factor, column in enumerate(factors.T):
        mine = np.flatnonzero(held_factors == factor)
        order, start, count, usable = _blocks(column, factor, factors.shape[1] == 1, seed, metric)
        uniforms = np_uniform(seed, "pair", (len(mine), size, 2), factor)
        first = usable[(uniforms[..., 0] * len(usable)).astype(np.int64)]
        begin, length = start[first], count[first]
        step = 1 + (uniforms[..., 1] * (length - 1)).astype(np.int64)
        rows[mine] = order[np.stack([first, begin + (first - begin + step) % length], -1)]
    return rows, held_factors


def _blocks(
    column: Int64[np.ndarray, " n"], factor: int, alone: bool, seed: int, metric: str
) -> tuple[np.ndarray, ...]:
    """Rows sorted by value (in random order within a value), and what describes the blocks of equal values.

    These are, for each position, the start and the length of its block, and the positions in blocks of two rows or
    more. Where there are none, a factor that is `alone` has all positions: whatever the groups, it is the one held.
    """
    order = np.lexsort((np_uniform(seed, "order of rows", len(column), factor), column))
    _, starts, inverse, counts = np.unique(column[order], return_index=True, return_inverse=True, return_counts=True)
    start, count = starts[inverse], counts[inverse]
    usable = np.flatnonzero(count >= 2)
    if alone and not len(usable):
        usable = np.arange(len(column))
    if not len(usable):
        raise UntwineError(
            f"{metric}: no value of factor {factor} (of those that vary) has 2 rows, the most is 1: use more "
            "samples, or a grouped sample from metrics.designs"
        )
    return order, start, count, usable


def form_groups(
    form: Callable[..., tuple[np.ndarray, np.ndarray]],
    codes: Float64[np.ndarray, "n d"],
    factors: Int64[np.ndarray, "n k"],
    groups: int,
    size: int,
    test: float,
    seed: int,
    metric: str,
) -> tuple[Int64[np.ndarray, "groups size ..."], Int64[np.ndarray, " groups"], tuple[np.ndarray, np.ndarray]]:
    """Rows and held factors of groups formed from a plain sample, and which groups to train and to test on.

    Training and test groups come from different rows: a classifier that had seen the rows of the test groups would
    do well on noise.

    Args:
        form: `grouped` or `paired`.
        codes: The codes of the sample.
        factors: Its factors.
        groups: How many groups to form.
        size: Rows, or pairs of rows, in a group.
        test: The fraction of the groups to test on.
        seed: Seed of the split and of the groups.
        metric: The name for error messages.
    """
    refuse_larger(8 * groups * size, f"{metric}: {groups:,} groups of {size:,} rows", "take fewer")
    parts = split(codes, factors, test, seed)
    count = max(1, min(groups - 1, round(test * groups)))
    rows, held_factors = [], []
    for number, (part, part_groups) in enumerate(zip(parts, (groups - count, count), strict=True)):
        part_rows, part_factors = form(factors[part], part_groups, size, seed + number, metric)
        rows.append(part[part_rows])
        held_factors.append(part_factors)
    train_and_test = np.arange(groups - count), np.arange(groups - count, groups)
    return np.concatenate(rows), np.concatenate(held_factors), train_and_test


def split_groups(
    features: Float64[np.ndarray, "groups d"],
    sums: Num[np.ndarray, "groups k"],
    held_factors: Int64[np.ndarray, " groups"],
    test: float,
    seed: int,
) -> tuple[Int64[np.ndarray, " train"], Int64[np.ndarray, " test"]]:
    """The groups to train on and those to test on.

    Groups are ordered by their factors first, so that the split depends neither on the order of groups and of rows in
    them, nor on the codes.

    Args:
        features: What a metric computes of each group's codes.
        sums: The sums of each group's factors.
        held_factors: The factor that each group holds.
        test: The fraction of the groups to test on.
        seed: Seed of the split.
    """
    return split(features, np.column_stack([held_factors, sums]), test, seed)


def refuse_few(metric: str, groups: int, size: int, least: int) -> None:
    """Refuse fewer than 2 groups, or groups of fewer than `least`."""
    if groups < 2 or size < least:
        raise UntwineError(f"{metric}: {groups} groups of {size} are too few: it needs 2 groups of {least} or more")


def wrong_shape(metric: str, factors: np.ndarray, right: str) -> UntwineError:
    """The error for factors that are neither a plain sample nor groups of the right shape."""
    return UntwineError(f"{metric}: factors have shape {list(factors.shape)}; they must be {right}, or [n, k]")

"""Gradient boosting as scikit-learn's classifier does it, on binned codes, with the trees of a round grown at once."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64, UInt8, UInt16

from untwine._version import __version__
from untwine.metrics.arrays import varying
from untwine.metrics.learners.trees import Fitted, Parts, Predicted, Target, each_factor
from untwine.streams import np_uniform

# The original has 100 rounds at rate 0.1. Half as many steps, twice as long, change importances little; still longer
# ones overshoot where a leaf is nearly certain.
_ROUNDS, _RATE, _DEPTH = 50, 0.2, 3
# With fewer bins splits are missed that exact trees find, and codes that say nothing make up for them.
_BINS = 1024
_COLUMNS = 64  # trees that are grown at once, which bounds the memory


def boosted_trees(parts: Parts, seed: int = 0) -> Fitted:
    """The algorithm of scikit-learn's gradient boosting on binned codes, tens of times faster.

    Each round adds a tree of depth 3 for every value of a factor (Friedman 2001, algorithm 6). Its splits minimise the
    squared error of the residuals, its leaves are Newton steps, and the importance of a code is by how much its splits
    lower the squared error in all trees. Where several codes split a node equally well, scikit-learn takes one of them
    at random; here they share the gain, which is what random choices tend to.

    >>> x = np.indices((4, 4)).reshape(2, -1).T.repeat(2, 0)
    >>> twice = np.hstack([x, x]) * 1.0
    >>> boosted_trees(Parts(twice, twice, x, x)).importance.round(2).tolist()
    [[0.5, 0.0], [0.0, 0.5], [0.5, 0.0], [0.0, 0.5]]
    """
    live = varying(parts.train)
    # Which of several equally good codes splits a node, in each round: predictions of the test part may differ.
    favour = np_uniform(seed, "ties between codes", (_ROUNDS, len(live)))[:, live]

    def fit(targets: list[Target]) -> Iterator[Predicted]:
        binned = _binned(parts.train[:, live], parts.test[:, live])
        for several in _together([size for _, size in targets]):
            for on_train, on_test, gain in _boost(binned, [targets[i] for i in several], favour):
                importance = np.zeros(len(live))
                importance[live] = gain
                yield on_train, on_test, importance

    return each_factor(parts, fit, f"untwine {__version__}")


def _together(sizes: list[int]) -> list[list[int]]:
    """Factors of few values in groups, in order: another tree costs less than the first.

    >>> _together([16, 40, 16, 100])
    [[0, 1], [2], [3]]
    """
    groups: list[list[int]] = []
    for factor, size in enumerate(sizes):
        if groups and sum(sizes[i] for i in groups[-1]) + size <= _COLUMNS:
            groups[-1].append(factor)
        else:
            groups.append([factor])
    return groups


@dataclass(frozen=True)
class Binned:
    """The bin of every code of both parts, and an indicator `[d * bins, train]` of the rows in each bin."""

    train: UInt16[np.ndarray, "d train"]
    test: UInt16[np.ndarray, "d test"]
    indicator: Any
    width: int  # there are as many bins as its square; those of codes with fewer values are empty

    @functools.cached_property
    def counts(self) -> Float32[np.ndarray, "d bins 1"]:
        """How many rows are in each bin and in those before it."""
        return self.sums(np.ones((1, self.train.shape[1]), np.float32))

    def sums(self, columns: Float32[np.ndarray, "columns train"]) -> Float32[np.ndarray, "d bins columns"]:
        """The sums of each column over the rows of each bin and of those before it."""
        sums = self.indicator @ columns.T
        # First within blocks of bins, all blocks at once: `cumsum`, number by number, would take most of the time.
        blocks = sums.reshape(-1, self.width, self.width, len(columns))
        for i in range(1, self.width):
            blocks[:, :, i] += blocks[:, :, i - 1]
        for i in range(1, self.width):
            blocks[:, i] += blocks[:, i - 1, -1:]
        return sums.reshape(-1, self.width**2, len(columns))


def _binned(train: Float64[np.ndarray, "train d"], test: Float64[np.ndarray, "test d"]) -> Binned:
    from scipy.sparse import csr_array

    n, d = train.shape
    edges = [_edges(code) for code in train.T]
    train_bins, test_bins = (
        np.stack([np.searchsorted(e, code) for e, code in zip(edges, part.T, strict=True)]).astype(np.uint16)
        for part in (train, test)
    )
    width = math.isqrt(max(map(len, edges))) + 1
    cells = train_bins + width**2 * np.arange(d)[:, None]
    places = cells.ravel(), np.tile(np.arange(n), d)
    indicator = csr_array((np.ones(n * d, np.float32), places), shape=(d * width**2, n))
    return Binned(train_bins, test_bins, indicator, width)


def _edges(code: Float64[np.ndarray, " train"]) -> Float64[np.ndarray, " edges"]:
    """Where the bins of a code meet: between all its values, or in the widest gaps and at quantiles of too many.

    A gap separates the values of a factor that a code has with little noise.
    """
    values = np.unique(code)
    last = np.arange(len(values) - 1)  # the last value of each bin
    if len(last) >= _BINS:
        widest = np.argsort(-np.diff(values / 2), kind="stable")[: _BINS // 2]
        quantiles = np.sort(code)[np.linspace(0, len(code) - 1, _BINS // 2 + 1).astype(np.int64)[1:-1]]
        last = np.unique(np.append(widest, np.searchsorted(values[:-2], quantiles)))
    return values[last] / 2 + values[last + 1] / 2  # halved first, so that no sum is too large for a float


def _boost(binned: Binned, targets: list[Target], favour: Float64[np.ndarray, "rounds d"]) -> list[Predicted]:
    """Predictions of both parts and importances for each factor. There is a tree for every value of every factor."""
    from scipy.special import softmax

    sizes = [size for _, size in targets]
    factors = [slice(end - size, end) for end, size in zip(np.cumsum(sizes), sizes, strict=True)]
    own = np.concatenate([column == np.arange(size)[:, None] for column, size in targets])
    scores = [np.tile(np.log(own.mean(1))[:, None], part.shape[1]) for part in (binned.train, binned.test)]
    rate = np.concatenate([np.full(size, _RATE * (size - 1) / size) for size in sizes])
    importance = np.zeros((favour.shape[1], len(own)))
    for preference in favour:
        probability = np.concatenate([softmax(scores[0][values], 0) for values in factors])
        for start in range(0, len(own), _COLUMNS):
            trees = slice(start, start + _COLUMNS)
            residual = own[trees] - probability[trees]
            nodes, gain = _grow(binned, _rounded(residual), preference)
            importance[:, trees] += gain
            # A Newton step in each leaf, with the diagonal of the Hessian. A leaf that is certain stays.
            leaves = [2**_DEPTH * np.arange(len(residual))[:, None] + part for part in nodes]
            slope, curvature = (
                np.bincount(leaves[0].ravel(), by_row.ravel(), 2**_DEPTH * len(residual))
                for by_row in (residual, probability[trees] * (1 - probability[trees]))
            )
            step = rate[trees].repeat(2**_DEPTH) * slope / np.where(curvature > 1e-150, curvature, np.inf)
            for score, leaf in zip(scores, leaves, strict=True):
                score[trees] += step[leaf]
    return [(*(score[values].argmax(0) for score in scores), importance[:, values].sum(1)) for values in factors]


def _rounded(residual: Float64[np.ndarray, "columns train"]) -> Float32[np.ndarray, "columns train"]:
    """Residuals as multiples of a power of two, so that all sums of them are exact in single precision.

    What a split is worth then depends on which rows are on either side, not on the order in which a code has them:
    redundant codes tie exactly.
    """
    grain = 2.0 ** (np.ceil(np.log2(np.abs(residual).sum(1, keepdims=True) + 1e-30)) - 23)
    return (np.rint(residual / grain) * grain).astype(np.float32)


def _grow(
    binned: Binned, residual: Float32[np.ndarray, "columns train"], preference: Float64[np.ndarray, " d"]
) -> tuple[list[UInt8[np.ndarray, "columns rows"]], Float64[np.ndarray, "d columns"]]:
    """The leaf of every row of both parts in a regression tree for each column, and the gain of each code in it.

    Nodes are numbered so that the children of node i of m are i, on the left, and m + i.
    """
    nodes = [np.zeros((len(residual), part.shape[1]), np.uint8) for part in (binned.train, binned.test)]
    sums = [(binned.sums(residual), np.repeat(binned.counts, len(residual), 2))]  # and counts, for each node
    importance = np.zeros((len(preference), len(residual)))
    for depth in range(_DEPTH):
        if depth:
            inside = [nodes[0] == parent for parent in range(len(sums))]
            left = [(binned.sums(rows * residual), binned.sums(rows.astype(np.float32))) for rows in inside]
            for parent, child in zip(sums, left, strict=True):
                for whole, part in zip(parent, child, strict=True):
                    whole -= part  # what is left is the right child
            sums = left + sums
        splits = [_split(*node, preference) for node in sums]
        importance += sum(gain for _, _, gain in splits)
        for part, bins in enumerate((binned.train, binned.test)):
            right = np.zeros(nodes[part].shape, bool)
            for node, (code, cut, _) in enumerate(splits):
                right |= (bins[code] > cut[:, None]) & (nodes[part] == node)
            nodes[part] += 2**depth * right.view(np.uint8)
    return nodes, importance


def _split(
    sums: Float32[np.ndarray, "d bins columns"],
    counts: Float32[np.ndarray, "d bins columns"],
    preference: Float64[np.ndarray, " d"],
) -> tuple[Int64[np.ndarray, " columns"], UInt16[np.ndarray, " columns"], Float64[np.ndarray, "d columns"]]:
    """The code that splits a node best in each column, its last bin on the left, and the gain of each code.

    Args:
        sums: The sums of the node's residuals up to each bin.
        counts: How many of its rows there are up to each bin.
        preference: Which of several codes that split equally well to take: that with the largest number.
    """
    # By how much the means of both sides lower the sum of squares. Sides are treated alike, so that a code and its
    # negative tie exactly. One code at a time stays in the processor's cache.
    fits = np.empty_like(sums)
    right, rows = np.empty_like(sums[0]), np.empty_like(sums[0])
    for left, count, fit in zip(sums, counts, fits, strict=True):
        np.multiply(left, left, out=fit)
        fit /= np.maximum(count, 0.5, out=rows)  # an empty side has the sum 0
        np.subtract(left[-1], left, out=right)
        right *= right
        np.subtract(count[-1], count, out=rows)
        right /= np.maximum(rows, 0.5, out=rows)
        fit += right
    by_code = fits.max(1)
    tied = by_code == by_code.max(0)
    code, columns = (tied * preference[:, None]).argmax(0), np.arange(sums.shape[2])
    cut = fits[code, :, columns].argmax(1)
    # The gain itself in double precision, where the differences of products are exact: no split gains exactly nothing.
    total, size, left, count = (
        numbers.astype(np.float64)
        for numbers in (sums[0, -1], counts[0, -1], sums[code, cut, columns], counts[code, cut, columns])
    )
    gain = np.square(left * size - count * total) / np.maximum(count * (size - count) * size, 0.5)
    return code, cut.astype(np.uint16), gain * tied / tied.sum(0)

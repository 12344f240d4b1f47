"""Linear support vector machines on a single number: all one-vs-rest problems of all factors solved at once, exactly.

A machine on one code x is two numbers, the weight w and the intercept b, the minimum of the objective of liblinear's
squared hinge (scikit-learn's `LinearSVC`), in which the intercept is regularised like a weight:

    (w^2 + b^2) / 2 + sum_i C_i max(0, 1 - y_i (w x_i + b))^2,   y_i = 1 for the samples of one value, -1 for the rest.

The samples with a loss are a half-line of each class. With the counts and the sums of x and x^2 along the sorted code,
the objective, its gradient and its Hessian cost a binary search, whatever the number of samples. The objective is
quadratic between the points where a sample starts or stops to have a loss, so Newton's method ends at its minimum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from untwine.errors import UntwineError

_STEPS = 100  # of Newton's method, which takes about ten
_HALVINGS = 30  # of one step


@dataclass(frozen=True)
class Machines:
    """One-vs-rest machines on one code: weight and intercept for every value of every factor.

    A value that never occurred in training has the intercept -inf: it is never predicted. Of two values, the first
    has zeros and the second the only machine there is.
    """

    weights: Float64[np.ndarray, " problems"]
    intercepts: Float64[np.ndarray, " problems"]
    sizes: list[int]

    def __call__(self, code: Float64[np.ndarray, " n"]) -> Int64[np.ndarray, "n k"]:
        """Every factor's value whose machine is surest, the lowest of equals."""
        machines = zip(_by_factor(self.weights, self.sizes), _by_factor(self.intercepts, self.sizes), strict=True)
        return np.stack([(code[:, None] * weight + intercept).argmax(1) for weight, intercept in machines], 1)


def train(code: Float64[np.ndarray, " n"], values: Int64[np.ndarray, "n k"], sizes: list[int], C: float) -> Machines:
    """Machines that predict each factor's value (from 0 on, below its size) from one code, classes balanced.

    The class in question has C n / (classes * its count), the rest C, as in liblinear; of two classes each has its
    own. Where the training samples have a single value, that is what is predicted.

    Args:
        code: The code of each sample.
        values: The index of every factor's value.
        sizes: How many values each factor has.
        C: The weight of a sample's loss.

    >>> code, values = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([[0], [0], [1], [1]])
    >>> machines = train(code, values, [2], C=1.0)
    >>> machines.weights.round(3).tolist(), machines(np.array([-5.0, 5.0]))[:, 0].tolist()
    ([0.0, 0.8], [0, 1])
    """
    if not 0 < C < np.inf:
        raise UntwineError(f"C, the weight of a sample's loss, must be a number above 0, not {C!r}")
    sums = _Sums(code, values, sizes)
    n, present = len(code), sums.counts > 0
    classes = np.array([part.sum() for part in _by_factor(present, sizes)])
    of_problem = np.repeat(classes, sizes)
    balanced = C * n / (of_problem * np.maximum(sums.counts, 1))
    # Two classes make a single problem, in which the rest is a class with a weight of its own.
    rest = np.where(of_problem == 2, C * n / (2 * np.maximum(n - sums.counts, 1)), C)
    weights, intercepts = _minimum(sums, balanced, rest)
    first = sums.offsets + np.array([part.argmax() for part in _by_factor(present, sizes)])
    # The second of two machines would be the first with the other sign. A single value is predicted always.
    fixed = first[classes <= 2]
    weights[fixed], intercepts[fixed] = 0.0, 0.0
    weights[~present], intercepts[~present] = 0.0, -np.inf
    return Machines(weights, intercepts, sizes)


def _by_factor(array: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
    return np.split(array, np.cumsum(sizes)[:-1])


class _Sums:
    """Counts and sums of x and x^2 below any threshold, of all samples and of every problem's own class."""

    def __init__(self, code: Float64[np.ndarray, " n"], values: Int64[np.ndarray, "n k"], sizes: list[int]):
        n = len(code)
        order = np.argsort(code, kind="stable")
        # Sums of squares keep their digits where x is centred; the regulariser makes up for it.
        self.middle = float(code[order[n // 2]])  # which no outlier moves
        self.x = code[order] - self.middle
        self.n = n
        powers = np.stack([np.ones(n), self.x, self.x**2])
        self.all = _running(powers)
        # Problems are numbered through all factors. A sample's key is its problem, then its place in the sorted code.
        self.offsets = np.cumsum([0, *sizes[:-1]], dtype=np.int64)
        problem = values[order] + self.offsets
        self.keys = np.sort((problem * n + np.arange(n)[:, None]).ravel(order="F"))
        self.own = _running(powers[:, self.keys % n])
        self.problems = np.arange(sum(sizes))
        edges = np.searchsorted(self.keys, np.append(self.problems, len(self.problems)) * n)
        self.start, self.counts = edges[:-1], np.diff(edges)
        self.own_total = self.own[:, edges[1:]] - self.own[:, edges[:-1]]

    def below(self, threshold: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums over the samples with x < threshold, for each problem: `[3, problems]` of its class, and of all."""
        rank = np.searchsorted(self.x, threshold)
        place = np.searchsorted(self.keys, self.problems * self.n + rank)
        return self.own[:, place] - self.own[:, self.start], self.all[:, rank]


def _running(powers: Float64[np.ndarray, "3 n"]) -> Float64[np.ndarray, "3 n_and_1"]:
    return np.concatenate([np.zeros((3, 1)), np.cumsum(powers, axis=1)], axis=1)


def _minimum(sums: _Sums, own: np.ndarray, rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weights and the intercepts where the objective is least; `own` and `rest` are the C of both classes."""
    middle = sums.middle  # the centred code is given to w x + c, so b = c - w middle

    def objective(w: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, ...]:
        """Value, gradient (w, c) and Hessian (ww, wc, cc) of every problem."""
        up = w >= 0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            hinge, other = (1 - c) / w, (-1 - c) / w
        # Without a slope all have a loss, or none. A sample on its hinge has none, whichever side it is counted on.
        flat = w == 0
        hinge = np.where(flat, np.where(c < 1, np.inf, -np.inf), hinge)
        other = np.where(flat, np.where(c > -1, -np.inf, np.inf), other)
        below, _ = sums.below(hinge)
        positive = own * np.where(up, below, sums.own_total - below)
        below, below_all = sums.below(other)
        all_rest, below_rest = sums.all[:, -1:] - sums.own_total, below_all - below
        negative = rest * np.where(up, all_rest - below_rest, below_rest)
        s0, s1, s2 = positive + negative
        d0, d1 = (positive - negative)[:2]
        b = c - middle * w
        value = (w**2 + b**2) / 2 + s2 * w**2 + 2 * s1 * w * c + s0 * c**2 - 2 * (d1 * w + d0 * c) + s0
        by_w = w - middle * b + 2 * (s2 * w + s1 * c - d1)
        by_c = b + 2 * (s1 * w + s0 * c - d0)
        return value, by_w, by_c, 1 + middle**2 + 2 * s2, 2 * s1 - middle, 1 + 2 * s0

    w, c = np.zeros(len(own)), np.zeros(len(own))
    value, by_w, by_c, ww, wc, cc = objective(w, c)
    for _ in range(_STEPS):
        determinant = ww * cc - wc**2
        step_w, step_c = (wc * by_c - cc * by_w) / determinant, (wc * by_w - ww * by_c) / determinant
        slope = by_w * step_w + by_c * step_c  # minus twice what is still to be gained
        if (-slope <= 1e-22 * value).all():
            break
        length = np.ones(len(own))
        gains = -slope > 1e-12 * value  # if less, the value's rounding decides nothing, and the minimum is a step away
        for _ in range(_HALVINGS):
            new = objective(w + length * step_w, c + length * step_c)
            worse = gains & (new[0] > value + 1e-4 * length * slope)
            if not worse.any():
                break
            length = np.where(worse, length / 2, length)
        w, c = w + length * step_w, c + length * step_c
        value, by_w, by_c, ww, wc, cc = objective(w, c)
    return w, c - middle * w

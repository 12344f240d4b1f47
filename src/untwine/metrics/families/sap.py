"""SAP: how far a factor's best code predicts it better than the second best."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Num

from untwine.errors import UntwineError
from untwine.metrics.arrays import varying
from untwine.metrics.families.information import labels
from untwine.metrics.learners import svm
from untwine.metrics.learners.split import split
from untwine.metrics.learners.targets import targets
from untwine.metrics.score import UNIT, Outcome, metric


def gaps(performance: Float64[np.ndarray, "d k"], constant: Float64[np.ndarray, " k"]) -> Float64[np.ndarray, " k"]:
    """For each factor the best code's performance less that of the second best.

    Args:
        performance: How well each code predicts each factor.
        constant: How well a constant does, which is the rival of a single code.

    >>> gaps(np.array([[0.9, 0.1], [0.2, 0.4]]), np.zeros(2)).round(3).tolist()
    [0.7, 0.3]
    """
    rivals = performance if len(performance) > 1 else np.vstack([performance, constant])
    ordered = np.sort(rivals, axis=0)
    return ordered[-1] - ordered[-2]


@metric(continuous=True, bounds=UNIT)
def sap(
    codes: Float64[np.ndarray, "n d"],
    factors: Num[np.ndarray, "n k"],
    regression: bool | None = None,
    test: float = 1 / 3,
    C: float = 0.01,
    seed: int = 0,
    kinds: tuple[str, ...] | None = None,
    sizes: tuple[int | float, ...] | None = None,
    wrap: bool = True,
) -> Outcome:
    """Mean over factors of how much better the best single code predicts it than the second best (SAP).

    Kumar et al. 2018, section 3. A code's score is the accuracy on held-out samples of a linear support vector
    machine (squared hinge, one against the rest, balanced classes: liblinear's, solved exactly), or for continuous
    factors R^2 = cov^2 / (var var) over all samples. A code that never varies scores 0, as does the rival of a
    single code.

    Classes have no order, so that classifiers take all kinds of factors alike. Regression takes a cyclic factor on its
    circle: R^2 is the part of the variance of the points (cos, sin) of its angle that a line in the code explains. A
    line does not go round: at most 1/2, of a code such as the cosine, and 6 / pi^2 / 2 (0.30) of the angle itself. A
    categorical factor has nothing to regress on, and keeps its classifier.

    Noise has about 0. By regression, a code that is linear in its factor alone has 1. By classification, a perfect
    code of a factor of two values has 1/2 (1 if all other codes are dead), and of four about 3/4; but one value
    against the rest is one threshold on a line, which cannot tell many values apart: with 64 a perfect code has about
    0.01. The classifiers are regularised and the codes taken as they are, so their scale and their offset matter: at
    a scale of 0.01 the perfect code of four values falls to about 0.3. Regression depends on neither.

    Args:
        codes: Codes `[n, d]`, or `[members, n, d]` of a pack.
        factors: Factors `[n, k]`, the index of each value, or floats.
        regression: Whether to take R^2 of a linear fit in place of a classifier; None does so for factors that are
            floats.
        test: The fraction of samples that classifiers are tested on.
        C: The weight of a classifier's errors against its regulariser.
        seed: Chooses the samples to test on.
        kinds: The kind of each factor, for regression. None takes all as ordered.
        sizes: How many values each factor has, or the period of floats; None takes the largest value of a cyclic factor
            for its last.
        wrap: Whether regression takes cyclic factors on their circles; False takes them as ordered.

    >>> x = np.indices((2, 2, 50)).reshape(3, -1).T[:, :2]
    >>> float(sap(4.0 * x, x)) > 0.4, round(float(sap(4.0 * x, x, regression=True)), 6)
    (True, 1.0)
    """
    floats = np.issubdtype(factors.dtype, np.floating)
    if regression is False and floats:
        raise UntwineError("sap: factors are floats, which have no classes: leave out regression=False, or bin them")
    regression = floats if regression is None else regression
    predicted = targets(factors, kinds, sizes, wrap) if regression else [None] * factors.shape[1]
    classified = np.array([target is None for target in predicted])
    scores = np.empty((codes.shape[1], factors.shape[1]))
    if classified.any():
        scores[:, classified] = _accuracies(codes, factors, classified, test, C, seed)
    if not classified.all():
        scores[:, ~classified] = explained(codes, [target for target in predicted if target is not None])
    by_factor = gaps(scores, np.zeros(factors.shape[1]))
    return float(by_factor.mean()), {"scores": scores, "gaps": by_factor, "settings": {"regression": bool(regression)}}


def explained(
    codes: Float64[np.ndarray, "n d"], coordinates: list[Float64[np.ndarray, "_ n"]]
) -> Float64[np.ndarray, "d k"]:
    """The part of each factor's variance, over all of its coordinates, that a line in each code explains.

    Args:
        codes: The codes.
        coordinates: The coordinates of each factor: its values, or the points of a circle.

    >>> angle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    >>> explained(np.cos(angle)[:, None], [np.stack([np.cos(angle), np.sin(angle)])]).round(6).tolist()
    [[0.5]]
    """
    ends = np.cumsum([len(of_factor) for of_factor in coordinates])
    squares = np.split(r_squared(codes, np.vstack(coordinates).T), ends[:-1], axis=1)
    shares = [of_factor.var(1) / of_factor.var(1).sum() for of_factor in coordinates]
    return np.stack([part @ share for part, share in zip(squares, shares, strict=True)], 1)


def r_squared(codes: Float64[np.ndarray, "n d"], factors: Num[np.ndarray, "n k"]) -> Float64[np.ndarray, "d k"]:
    """Squared correlations of all codes with all factors; 0 for codes and factors that never vary.

    >>> r_squared(np.array([[0.0, 3.0], [1.0, 3.0], [2.0, 3.0]]), np.array([[0], [-2], [-4]])).round(6).tolist()
    [[1.0], [0.0]]
    """
    live, moving = varying(codes), varying(factors)
    squares = np.zeros((codes.shape[1], factors.shape[1]))
    if live.any() and moving.any():
        both = np.hstack([codes[:, live], factors[:, moving]])
        both /= np.abs(both).max(0)  # squares of tiny numbers would vanish
        count = int(live.sum())
        squares[np.ix_(live, moving)] = np.corrcoef(both, rowvar=False)[:count, count:] ** 2
    return squares


def _accuracies(
    codes: np.ndarray, factors: np.ndarray, classified: np.ndarray, test: float, C: float, seed: int
) -> np.ndarray:
    """The accuracy of each code's support vector machine for each classified factor, on held-out samples."""
    values, sizes = labels(factors[:, classified])
    trained, tested = split(codes, factors, test, seed)
    accuracies = np.zeros((codes.shape[1], len(sizes)))
    for j in np.flatnonzero(varying(codes[trained])):
        machines = svm.train(codes[trained, j], values[trained], sizes, C)
        accuracies[j] = (machines(codes[tested, j]) == values[tested]).mean(0)
    return accuracies

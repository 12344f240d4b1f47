"""Scores of how well codes predict factors: SAP, explicitness, and the score of nearest neighbours."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64, Num

from untwine.data.factors import KINDS
from untwine.errors import UntwineError, unknown
from untwine.metrics import svm
from untwine.metrics.arrays import varying
from untwine.metrics.information import labels
from untwine.metrics.score import Outcome, metric
from untwine.metrics.split import split

NORMALISERS = ("constant", "gain")


def gaps(performance: Float64[np.ndarray, "d k"], constant: Float64[np.ndarray, " k"]) -> Float64[np.ndarray, " k"]:
    """For each factor the best code's performance less that of the second best; a single code's rival is a constant.

    >>> gaps(np.array([[0.9, 0.1], [0.2, 0.4]]), np.zeros(2)).round(3).tolist()
    [0.7, 0.3]
    """
    rivals = performance if len(performance) > 1 else np.vstack([performance, constant])
    ordered = np.sort(rivals, axis=0)
    return ordered[-1] - ordered[-2]


@metric(continuous=True)
def sap(
    codes: Float64[np.ndarray, "n d"],
    factors: Num[np.ndarray, "n k"],
    regression: bool | None = None,
    test: float = 1 / 3,
    C: float = 0.01,
    seed: int = 0,
) -> Outcome:
    """Mean over factors of how much better the best single code predicts it than the second best (SAP).

    Kumar et al. 2018, section 3. A code's score is the accuracy on held-out samples of a linear support vector
    machine (squared hinge, one against the rest, balanced classes: liblinear's, solved exactly), or for continuous
    factors R^2 = cov^2 / (var var) over all samples. A code that never varies scores 0, as does the rival of a
    single code.

    Noise has about 0. By regression, a code that is linear in its factor alone has 1. By classification, a perfect
    code of a factor of two values has 1/2 (1 if all other codes are dead), and of four about 3/4; but one value
    against the rest is one threshold on a line, which cannot tell many values apart: with 64 a perfect code has about
    0.01. The classifiers are regularised and the codes taken as they are, so their scale and their offset matter: at
    a scale of 0.01 the perfect code of four values falls to about 0.3. Regression depends on neither.

    Args:
        regression: R^2 of a linear fit in place of a classifier; if None, for factors that are floats.
        test: The fraction of samples that classifiers are tested on.
        C: The weight of a classifier's errors against its regulariser.
        seed: Chooses the samples to test on.

    >>> x = np.indices((2, 2, 50)).reshape(3, -1).T[:, :2]
    >>> float(sap(4.0 * x, x)) > 0.4, round(float(sap(4.0 * x, x, regression=True)), 6)
    (True, 1.0)
    """
    floats = np.issubdtype(factors.dtype, np.floating)
    if regression is False and floats:
        raise UntwineError("sap: factors are floats, which have no classes: leave out regression=False, or bin them")
    regression = floats if regression is None else regression
    scores = r_squared(codes, factors) if regression else _accuracies(codes, factors, test, C, seed)
    by_factor = gaps(scores, np.zeros(factors.shape[1]))
    return float(by_factor.mean()), {"scores": scores, "gaps": by_factor, "settings": {"regression": bool(regression)}}


def r_squared(codes: Float64[np.ndarray, "n d"], factors: Num[np.ndarray, "n k"]) -> Float64[np.ndarray, "d k"]:
    """Squared correlations of all codes with all factors; 0 for codes that never vary.

    >>> r_squared(np.array([[0.0, 3.0], [1.0, 3.0], [2.0, 3.0]]), np.array([[0], [-2], [-4]])).round(6).tolist()
    [[1.0], [0.0]]
    """
    live = varying(codes)
    found = np.zeros((codes.shape[1], factors.shape[1]))
    if live.any():
        both = np.hstack([codes[:, live], factors])
        both /= np.abs(both).max(0)  # squares of tiny numbers would vanish
        count = int(live.sum())
        found[live] = np.corrcoef(both, rowvar=False)[:count, count:] ** 2
    return found


def _accuracies(codes: np.ndarray, factors: np.ndarray, test: float, C: float, seed: int) -> np.ndarray:
    values, sizes = labels(factors)
    trained, tested = split(codes, factors, test, seed)
    found = np.zeros((codes.shape[1], len(sizes)))
    for j in np.flatnonzero(varying(codes[trained])):
        machines = svm.train(codes[trained, j], values[trained], sizes, C)
        found[j] = (machines(codes[tested, j]) == values[tested]).mean(0)
    return found


@metric(parts=("normalised",))
def explicitness(
    codes: Float64[np.ndarray, "n d"], factors: Int64[np.ndarray, "n k"], test: float = 1 / 3, seed: int = 0
) -> Outcome:
    """Mean over factors of how well a logistic regression on all codes ranks samples by each value (ROC AUC).

    Ridgeway & Mozer 2018, section 3: a multinomial regression (scikit-learn's, C = 1) on codes standardised by the
    training samples, and the area under the curve of one value against the rest on held-out samples, averaged over
    values, then over factors. Noise has 0.5, and a perfect code 1, or less where a factor has many values in a line
    (0.93 for 64, which a regularised linear classifier does not separate). `normalised` is 2 AUC - 1, which takes
    noise to 0; `train` is the mean on the training samples.

    Values that are missing from the training or from the held-out samples are left out of the average, and listed
    with their factor's index in `left_out`; a factor without any other value counts as 0.5.

    Args:
        test: The fraction of samples that are held out.
        seed: Chooses the samples that are held out.

    >>> x = np.indices((3, 3, 20)).reshape(3, -1).T[:, :2]
    >>> score = explicitness(x * 1.0, x)
    >>> round(float(score), 2), round(float(score.details["normalised"]), 2)
    (1.0, 1.0)
    """
    trained, tested = split(codes, factors, test, seed)
    spread = np.where(varying(codes[trained]), codes[trained].std(0), 0.0)
    standardised = np.where(spread > 0, (codes - codes[trained].mean(0)) / np.where(spread > 0, spread, 1.0), 0.0)
    train_areas, test_areas, left_out = [], [], []
    for i, factor in enumerate(factors.T):
        classes, probabilities = _probabilities(standardised, factor, trained)
        train_areas.append(areas(probabilities[trained], factor[trained], classes))
        found = areas(probabilities[tested], factor[tested], classes)
        test_areas.append(found)
        left_out += [[i, int(value)] for value in np.unique(factor) if int(value) not in found]
    by_factor, by_factor_train = (
        np.array([np.mean(list(found.values())) if found else 0.5 for found in each])
        for each in (test_areas, train_areas)
    )
    value = float(by_factor.mean())
    return value, {
        "auc_by_factor": by_factor,
        "train_auc_by_factor": by_factor_train,
        "train": float(by_factor_train.mean()),
        "normalised": 2 * value - 1,
        "left_out": left_out,
    }


def _probabilities(codes: np.ndarray, factor: np.ndarray, trained: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values among the training samples, and the probability of each for all samples `[n, values]`."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    classes = np.unique(factor[trained])
    if len(classes) == 1:
        return classes, np.ones((len(codes), 1))
    with threadpool_limits(1):  # threads that share so little only wait for each other
        classifier = LogisticRegression(max_iter=1000).fit(codes[trained], factor[trained])
    return classes, classifier.predict_proba(codes)


def areas(
    scores: Float64[np.ndarray, "n classes"], values: Int64[np.ndarray, " n"], classes: Int64[np.ndarray, " classes"]
) -> dict[int, float]:
    """The area under the ROC curve of each class against the rest, for those that some samples have, but not all.

    It is the probability that a sample of the class has a higher score than one of the rest, a tie being half.

    >>> areas(np.array([[0.1], [0.4], [0.4], [0.9]]), np.array([0, 1, 0, 1]), np.array([1]))
    {1: 0.875}
    """
    found = {}
    n = len(values)
    for score, value in zip(np.ascontiguousarray(scores.T), classes.tolist(), strict=True):
        own = score[values == value]
        count = len(own)
        if 0 < count < n:
            ordered = np.sort(score)
            below = np.searchsorted(ordered, own, "left") + np.searchsorted(ordered, own, "right")
            # Of pairs within the class, half count; they are taken away.
            found[value] = float((below.sum() - count**2) / (2 * count * (n - count)))
    return found


@metric(continuous=True)
def knn_score(
    codes: Float64[np.ndarray, "n d"],
    factors: Num[np.ndarray, "n k"],
    kinds: tuple[str, ...] | None = None,
    k: int = 5,
    test: float = 0.2,
    normalise: str = "constant",
    seed: int = 0,
) -> Outcome:
    """Mean over factors of how much better nearest neighbours in the best code predict it than in the second best.

    rolinek2019's Disentanglement score, Eqs. S65 to S67, S70 and S71. Neighbours predict a categorical factor by
    vote, others by their mean. A code's performance A is the accuracy, or std(factor) - root mean squared error; the
    gap of the best two is divided by M, the best constant's accuracy, or std(factor). A code that never varies
    predicts a constant: its A is 0, or the constant's accuracy, and so is that of a single code's rival.

    Noise has about 0. A perfect code has 1 where its rivals are dead, and up to sqrt(1 + 1/k) (1.095) where they are
    noise: the mean of k neighbours is worse than a constant, and A is not cut at 0. For c equally frequent
    categories, S71's M makes a perfect code c - 1. With `normalise="gain"`, M is 1 less the constant's accuracy:
    then, as in regression, a perfect code is 1 above a constant, whatever the number of categories.

    Args:
        kinds: Of each factor; the categorical ones get a classifier. None: all are ordered.
        k: The number of neighbours.
        test: The fraction of samples that are predicted, from the others.
        normalise: constant (S71) or gain: what classifiers' gaps are divided by.
        seed: Chooses the samples that are predicted.

    >>> x = np.indices((30, 30)).reshape(2, -1).T
    >>> 0.95 < float(knn_score(x / 30.0, x)) < 1.15
    True
    """
    given = ("ordered",) * factors.shape[1] if kinds is None else kinds
    for kind in given:
        if kind not in KINDS:
            raise unknown("kind of factor:", str(kind), KINDS)
    if normalise not in NORMALISERS:
        raise unknown("normaliser:", str(normalise), NORMALISERS)
    trained, tested = split(codes, factors, test, seed)
    if not 1 <= k <= len(trained):
        raise UntwineError(f"k must be a number of neighbours from 1 to the {len(trained)} training samples, not {k}")
    live = varying(codes[trained])
    near = [trained[nearest(codes[trained, j], codes[tested, j], k)] for j in np.flatnonzero(live)]
    performance = np.empty((codes.shape[1], len(given)))
    constant, normaliser = np.empty(len(given)), np.empty(len(given))
    for i, (factor, kind) in enumerate(zip(factors.T, given, strict=True)):
        if kind == "categorical":
            _, values, counts = np.unique(factor, return_inverse=True, return_counts=True)
            found = [float((vote(values[rows], len(counts)) == values[tested]).mean()) for rows in near]
            constant[i] = counts.max() / counts.sum()
            normaliser[i] = constant[i] if normalise == "constant" else 1 - constant[i]
        else:
            constant[i], normaliser[i] = 0.0, factor.std()
            errors = [np.mean((factor[rows].mean(1) - factor[tested]) ** 2) for rows in near]
            found = [float(normaliser[i] - np.sqrt(error)) for error in errors]
        performance[~live, i], performance[live, i] = constant[i], found
    by_factor = gaps(performance, constant) / normaliser
    return float(by_factor.mean()), {"performance": performance, "normaliser": normaliser, "gaps": by_factor}


def nearest(known: Float64[np.ndarray, " n"], asked: Float64[np.ndarray, " m"], k: int) -> Int64[np.ndarray, "m k"]:
    """For each number asked the indices of its k nearest among the known ones, nearest first.

    Which of equals are taken is settled by their places alone.

    >>> nearest(np.array([5.0, 1.0, 2.0]), np.array([1.2, 9.0]), k=2).tolist()
    [[1, 2], [0, 2]]
    """
    order = np.argsort(known, kind="stable")
    places = np.searchsorted(known[order], asked)[:, None] + np.arange(-k, k)  # they are among k on either side
    inside = (places >= 0) & (places < len(known))
    candidates = order[np.clip(places, 0, len(known) - 1)]
    distances = np.where(inside, np.abs(known[candidates] - asked[:, None]), np.inf)
    return np.take_along_axis(candidates, np.argsort(distances, axis=1, kind="stable")[:, :k], axis=1)


def vote(values: Int64[np.ndarray, "m k"], size: int) -> Int64[np.ndarray, " m"]:
    """The most frequent value of each row, the lowest of equals.

    >>> vote(np.array([[2, 1, 2], [2, 1, 0]]), 3).tolist()
    [2, 0]
    """
    m = len(values)
    counts = np.bincount((np.arange(m)[:, None] * size + values).ravel(), minlength=m * size)
    return counts.reshape(m, size).argmax(1)

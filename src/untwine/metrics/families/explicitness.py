"""Explicitness: how well all codes together predict factors."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

from untwine.metrics.arrays import varying
from untwine.metrics.forced import values_once
from untwine.metrics.learners.split import split
from untwine.metrics.score import UNIT, Outcome, metric


@metric(
    parts=("normalised",),
    bounds={"value": UNIT, "normalised": (-1.0, 1.0)},
    forced={"value": values_once, "normalised": values_once},
)
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
        codes: Codes `[n, d]`, or `[members, n, d]` of a pack.
        factors: Factors `[n, k]`, the index of each value.
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
        test_areas.append(areas(probabilities[tested], factor[tested], classes))
        left_out += [[i, int(value)] for value in np.unique(factor) if int(value) not in test_areas[-1]]
    by_factor, by_factor_train = (
        np.array([np.mean(list(by_value.values())) if by_value else 0.5 for by_value in part])
        for part in (test_areas, train_areas)
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
    """The area under the ROC curve of each class against the rest, without classes that no sample has, or all have.

    It is the probability that a sample of the class has a higher score than one of the rest; a tie counts as half.

    Args:
        scores: The score of each class for each sample.
        values: The class of each sample.
        classes: The class of each column of scores.

    >>> areas(np.array([[0.1], [0.4], [0.4], [0.9]]), np.array([0, 1, 0, 1]), np.array([1]))
    {1: 0.875}
    """
    by_class = {}
    n = len(values)
    for score, value in zip(np.ascontiguousarray(scores.T), classes.tolist(), strict=True):
        of_class = score[values == value]
        count = len(of_class)
        if 0 < count < n:
            ordered = np.sort(score)
            below = np.searchsorted(ordered, of_class, "left") + np.searchsorted(ordered, of_class, "right")
            # Pairs within the class have been counted by half, and are taken away.
            by_class[value] = float((below.sum() - count**2) / (2 * count * (n - count)))
    return by_class

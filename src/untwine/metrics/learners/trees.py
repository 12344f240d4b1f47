"""Gradient-boosted trees that predict factors from codes, and how much each code matters to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64


@dataclass(frozen=True)
class Fitted:
    """The importance of each code to each factor, and the accuracy for each factor on both parts."""

    importance: Float64[np.ndarray, "d k"]
    train: Float64[np.ndarray, " k"]
    test: Float64[np.ndarray, " k"]
    library: str  # with its version


@dataclass(frozen=True)
class Parts:
    """Codes and factors to train on and to test on."""

    train: Float64[np.ndarray, "train d"]
    test: Float64[np.ndarray, "test d"]
    train_factors: np.ndarray
    test_factors: np.ndarray


# The values of a factor in the training part, numbered from 0 on, and how many there are.
Target = tuple[Int64[np.ndarray, " train"], int]
# The predicted values of the training part and of the test part, and the importance of each code.
Predicted = tuple[Int64[np.ndarray, " train"], Int64[np.ndarray, " test"], Float64[np.ndarray, " d"]]


def each_factor(parts: Parts, fit: Callable[[list[Target]], Iterable[Predicted]], library: str) -> Fitted:
    """The result of a classifier for each factor.

    A factor that is constant in the training part, or codes that are, leave nothing to fit: the most frequent value
    is predicted. A value that occurs in the test part alone cannot be predicted.

    Args:
        parts: Codes and factors.
        fit: Fits a classifier to each of several factors.
        library: What `fit` uses, with its version.
    """
    d, k = parts.train.shape[1], parts.train_factors.shape[1]
    importance, scores = np.zeros((d, k)), np.zeros((2, k))
    dead = (parts.train == parts.train[:1]).all()
    factors = [np.unique(column, return_inverse=True) for column in parts.train_factors.T]
    fitted = [i for i, (values, _) in enumerate(factors) if len(values) > 1 and not dead]
    targets = [(factors[i][1], len(factors[i][0])) for i in fitted]
    results = dict(zip(fitted, fit(targets), strict=True)) if targets else {}
    for i, (values, column) in enumerate(factors):
        if i in results:
            on_train, on_test, importance[:, i] = results[i]
            predictions = values[on_train], values[on_test]
        else:
            guess = values[np.bincount(column).argmax()]
            predictions = guess, guess
        scores[0, i] = (predictions[0] == parts.train_factors[:, i]).mean()
        scores[1, i] = (predictions[1] == parts.test_factors[:, i]).mean()
    total = importance.sum(0)
    return Fitted(importance / np.where(total > 0, total, 1), scores[0], scores[1], library)


def sklearn_trees(parts: Parts, seed: int = 0) -> Fitted:
    """scikit-learn's gradient boosting with its defaults, the literature's: 100 rounds of trees of depth 3.

    >>> x = np.indices((4, 4)).reshape(2, -1).T.repeat(2, 0)
    >>> sklearn_trees(Parts(x * 1.0, x * 1.0, x, x)).importance.round(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    import sklearn
    from sklearn.ensemble import GradientBoostingClassifier

    def fit(target: Target) -> Predicted:
        # Its random numbers only say which of equally good splits is taken.
        model = GradientBoostingClassifier(random_state=seed % 2**32).fit(parts.train, target[0])
        predicted = [np.asarray(model.predict(part)) for part in (parts.train, parts.test)]
        return predicted[0], predicted[1], np.abs(model.feature_importances_)

    return each_factor(parts, lambda targets: map(fit, targets), f"scikit-learn {sklearn.__version__}")

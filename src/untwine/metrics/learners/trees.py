"""Gradient-boosted trees that predict factors from codes, and how much each code matters to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from untwine.errors import UntwineError


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


def lightgbm_library() -> Any:
    """The module `lightgbm`, or the error that says why it cannot be loaded."""
    try:
        import lightgbm
    except (ImportError, OSError) as error:  # its wheel does not bring the system's OpenMP library (libgomp)
        raise UntwineError(
            f"the estimator 'lightgbm' cannot be loaded ({error}): install the package lightgbm, and the system's "
            "OpenMP library (libgomp1 on Debian and Ubuntu, libomp on macOS), or use estimator='trees'"
        ) from error
    return lightgbm


# Where these differ from scikit-learn's 100 rounds at rate 0.1 without a penalty, they were chosen for importances
# that agree with it. 20 rounds at 0.5 agree as well as 100 at 0.1 in a fifth of the time. Leaf values are Newton
# steps: without the penalty some of them explode where a leaf is nearly certain, and importances with them. More
# bins let a split fall between two values of a factor. One thread: so little data gains nothing from more.
_SETTINGS = {
    "learning_rate": 0.5,
    "max_depth": 3,
    "num_leaves": 8,
    "lambda_l2": 1.0,
    "min_data_in_leaf": 1,
    "min_data_in_bin": 1,
    "max_bin": 1023,
    "metric": "None",
    "num_threads": 1,
    "deterministic": True,
    "force_col_wise": True,
    "verbosity": -1,
}
_ROUNDS = 20


def lightgbm_trees(parts: Parts, seed: int = 0) -> Fitted:
    """LightGBM: trees of the same size whose splits are Newton steps. Of equally good codes it takes the first.

    Codes are replaced by their ranks in the training part (and numbers in between for those of the test part): a
    tree's splits depend on no more, but LightGBM's bins would depend on where zero is.

    >>> x = np.indices((4, 4)).reshape(2, -1).T.repeat(2, 0)
    >>> lightgbm_trees(Parts(x * 1.0, x * 1.0, x, x)).importance.round(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    lightgbm = lightgbm_library()
    distinct = [np.unique(code) for code in parts.train.T]
    ranks = [np.interp(c, u, np.arange(1.0, len(u) + 1)) for c, u in zip(parts.train.T, distinct, strict=True)]
    between = [np.interp(c, u, np.arange(1.0, len(u) + 1)) for c, u in zip(parts.test.T, distinct, strict=True)]
    settings: dict[str, Any] = _SETTINGS | {"seed": seed % 2**31}
    # Binned once for all factors, which only differ in their labels.
    data = lightgbm.Dataset(np.stack(ranks, 1), np.zeros(len(parts.train)), params=settings, free_raw_data=False)
    held_out = lightgbm.Dataset(np.stack(between, 1), np.zeros(len(parts.test)), reference=data, params=settings)

    def fit(target: Target) -> Predicted:
        column, size = target
        # One tree a round suffices for two values.
        objective = {"objective": "multiclass", "num_class": size} if size > 2 else {"objective": "binary"}
        data.construct().set_label(column)
        booster = lightgbm.Booster(settings | objective, data)
        booster.add_valid(held_out, "test")
        for _ in range(_ROUNDS):
            if booster.update():  # no split is left that helps
                break
        predicted: list[np.ndarray] = []

        def predictions(scores: np.ndarray, _: Any) -> tuple[str, float, bool]:
            predicted.append(scores.argmax(1) if size > 2 else (scores > 0.5).astype(np.int64))
            return "", 0.0, True

        # Boosting keeps the predictions of both parts up to date; walking through all trees again costs more.
        booster.eval_train(predictions)
        booster.eval_valid(predictions)
        return predicted[0], predicted[1], booster.feature_importance("gain").astype(np.float64)

    return each_factor(parts, lambda targets: map(fit, targets), f"lightgbm {lightgbm.__version__}")

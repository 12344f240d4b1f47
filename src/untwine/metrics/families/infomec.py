"""InfoMEC: modularity, explicitness and compactness from information ("Disentanglement via Latent Quantization")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from untwine.checks import whole
from untwine.errors import UntwineError, unknown
from untwine.metrics.arrays import dead_codes
from untwine.metrics.families.information import entropy, labels, mutual_information
from untwine.metrics.forced import between_factors, too_few_codes
from untwine.metrics.learners.split import ordered
from untwine.metrics.score import UNIT, Outcome, metric

ESTIMATORS = ("knn", "histogram")

# Distances of standardised codes that differ by less are taken as equal: those of a lattice differ by rounding.
_EQUAL = 1e-10


def nearest_information(
    codes: Float64[np.ndarray, "n d"], factors: Int64[np.ndarray, "n k"], neighbours: int = 10
) -> Float64[np.ndarray, "d k"]:
    """I(code; factor) in nats for all pairs, by nearest neighbours instead of bins (Ross 2014, Eq. 2).

    For each sample: how far is its `neighbours`-th neighbour with the same value of the factor, and how many samples
    of any value are not farther? Codes are numbers, so neighbours are found by sorting. Where samples coincide or are
    equally far all of them count, which needs no random jitter; without ties this is scikit-learn's
    `mutual_info_classif`. Values that occur once are left out, as they are there; dead codes have 0.

    >>> x = np.arange(400)[:, None] % 4
    >>> nearest_information(x + np.arange(400)[:, None] / 1000, x).round(2)
    array([[1.39]])
    """
    information = np.zeros((codes.shape[1], factors.shape[1]))
    alive = np.setdiff1d(np.arange(codes.shape[1]), dead_codes(codes))
    values, _ = labels(factors)
    for j in alive:
        code = codes[:, j] / np.abs(codes[:, j]).max()  # so that no square overflows
        order = np.argsort(code, kind="stable")
        code = code[order] / code.std()
        for i in range(factors.shape[1]):
            information[j, i] = _of_sorted(code, values[order, i], neighbours)
    return information


def _of_sorted(code: Float64[np.ndarray, " n"], value: Int64[np.ndarray, " n"], neighbours: int) -> float:
    """The estimate for one code, in ascending order, and one factor."""
    from scipy.special import digamma

    kept = np.bincount(value)[value] > 1
    code, value = code[kept], value[kept]
    if not len(code):
        return 0.0
    # Samples by value, in ascending order of the code in each: `place` is where they are among all.
    place = np.argsort(value, kind="stable")
    value, by_value = value[place], code[place]
    sizes = np.bincount(value)
    last = np.cumsum(sizes)[value] - 1
    first, wanted = last - sizes[value] + 1, np.minimum(min(neighbours, len(code)), sizes[value] - 1)
    # The nearest `wanted` samples lie side by side, `before` of them on the left: the more there are, the farther the
    # leftmost is and the nearer the rightmost. The shortest reach is where the two cross.
    rows = np.arange(len(by_value))
    fewest, most = np.maximum(0, rows + wanted - last), np.minimum(wanted, rows - first)

    def sides(before: Int64[np.ndarray, " n"]) -> tuple[Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]:
        return by_value - by_value[rows - before], by_value[rows - before + wanted] - by_value

    low, high = fewest, most
    while (searching := low < high).any():
        middle = (low + high) // 2
        left, right = sides(middle)
        low, high = (
            np.where(searching & (left < right), middle + 1, low),
            np.where(searching & (left >= right), middle, high),
        )
    reach = np.minimum(np.maximum(*sides(low)), np.maximum(*sides(np.maximum(low - 1, fewest))))
    below = np.searchsorted(code, by_value - reach - _EQUAL, side="left")
    above = np.searchsorted(code, by_value + reach + _EQUAL, side="right")
    keys, offset = value * len(code) + place, value * len(code)
    same = np.searchsorted(keys, offset + above) - np.searchsorted(keys, offset + below)
    terms = digamma(same - 1) - digamma(sizes[value]) - digamma(above - below - 1)
    return max(0.0, float(digamma(len(code)) + terms.mean()))


def linear_cross_entropy(
    codes: Float64[np.ndarray, "n d"], values: Int64[np.ndarray, " n"], iterations: int = 100
) -> float:
    """H_V(factor | codes) in nats: the least mean -log p(factor | codes) of multinomial logistic regressions.

    No penalty and no held-out part (Xu et al. 2020, "A theory of usable information"). Separable codes have no
    minimum but 0, at infinite weights: what is reached depends on `iterations`, those of L-BFGS.

    >>> value = np.array([0, 0, 1, 1, 1, 0])
    >>> code = np.array([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]])
    >>> bool(np.isclose(linear_cross_entropy(code, value), -(2 * np.log(2 / 3) + np.log(1 / 3)) / 3))
    True
    """
    from scipy.optimize import minimize
    from threadpoolctl import threadpool_limits

    codes = np.delete(codes, dead_codes(codes), axis=1)
    inputs = np.hstack([(codes - codes.mean(0)) / codes.std(0), np.ones((len(codes), 1))])
    size = int(values.max()) + 1
    # The part of the loss that is linear in the weights: the mean inputs of each value.
    observed = np.stack([np.bincount(values, column, size) for column in inputs.T], 1) / len(inputs)
    options = {"maxiter": iterations, "gtol": 1e-4, "ftol": 64 * np.finfo(float).eps, "maxls": 50}
    # Start at the best guess without codes: from zero, L-BFGS gets less far where codes are separable.
    start = np.zeros_like(observed)
    start[:, -1] = np.log(observed[:, -1])
    # One thread, so that a score does not depend on their number; for L-BFGS's tiny matrices more would be slower.
    with threadpool_limits(1, "blas"):
        minimum = minimize(
            _cross_entropy, start.ravel(), (inputs, observed), jac=True, method="L-BFGS-B", options=options
        )
    return float(minimum.fun)


def _cross_entropy(
    flat: Float64[np.ndarray, " parameters"],
    inputs: Float64[np.ndarray, "n inputs"],
    observed: Float64[np.ndarray, "values inputs"],
) -> tuple[float, Float64[np.ndarray, " parameters"]]:
    """The cross entropy of a multinomial logistic regression with these weights, and its gradient."""
    weights = flat.reshape(observed.shape)
    scores = weights @ inputs.T
    top = scores.max(0)
    scores -= top
    np.exp(scores, out=scores)
    total = scores.sum(0)
    value = (np.log(total) + top).mean() - (weights * observed).sum()
    scores /= total
    return float(value), (scores @ inputs / len(inputs) - observed).ravel()


def concentration(information: Float64[np.ndarray, "rows columns"]) -> float:
    """The mean over rows of largest / sum, so scaled that an even row has 0 and a row with one entry has 1.

    A row of zeros has 0. With a single column there is nothing to be even with: a row has 1 unless it is zero.

    >>> concentration(np.array([[2.0, 0.0], [1.0, 1.0]]))
    0.5
    """
    columns, total = information.shape[1], information.sum(1)
    if columns == 1:
        return float((total > 0).mean())
    shares = np.where(total > 0, information.max(1) / np.where(total > 0, total, 1), 1 / columns)
    return max(0.0, float((shares.mean() - 1 / columns) / (1 - 1 / columns)))


def _between_active_codes(details: Mapping[str, Any], codes: np.ndarray, factors: np.ndarray) -> str | None:
    return too_few_codes(codes.shape[1] - len(details["inactive"]))


@metric(
    parts=("infoe", "infoc"),
    local={"bins": 5},
    bounds=UNIT,
    forced={"value": between_factors, "infoc": _between_active_codes},
    ratios=("value", "infoc"),
)
def infomec(
    codes: Float64[np.ndarray, "n d"],
    factors: Int64[np.ndarray, "n k"],
    estimator: str = "knn",
    neighbours: int = 10,
    bins: int = 20,
    inactive: float = 0.05,
    iterations: int = 100,
) -> Outcome:
    """InfoM; parts InfoE and InfoC: modularity, explicitness and compactness from information alone.

    Hsu et al. 2023, section 5. With NMI = I(code; factor) / H(factor) of all active codes: InfoM is the mean over
    codes of largest / sum over factors, InfoC the mean over factors of largest / sum over codes, both scaled to
    [0, 1]. InfoE is the mean over factors of 1 - H_V(factor | codes) / H(factor), where V is logistic regression on
    all codes, trained and scored on the same samples. Codes of tiny range are inactive and left out of InfoM and
    InfoC; with none active all three are 0. A code or factor without information counts as 0; with a single factor
    (for InfoM) or a single active code (for InfoC), one with information counts as 1.

    The default estimator is the paper's for continuous codes: it has no bins for the score to depend on, and sorting
    makes it fast. A perfect code has about 1 for all three (InfoE: what 100 iterations reach, 0.997 for factors of 64
    values). Noise has InfoE near 0, and InfoM and InfoC near 0 with bins, whose bias is the same for all pairs, but
    0.3 to 0.6 with knn: its estimates for noise are small or exactly 0, and the largest of a few such numbers is a
    large part of their sum. In InfoE the authors' code weights a factor's values to be equally frequent; here they
    are as frequent as they are, and so H(factor) is that of NMI.

    Args:
        codes: Codes `[n, d]`, or `[members, n, d]` of a pack.
        factors: Factors `[n, k]`, the index of each value.
        estimator: How mutual information is estimated: knn (nearest neighbours) or histogram (bins of equal width).
        neighbours: How many neighbours of a sample count, among those with its value (knn).
        bins: How many bins each code's range is cut into (histogram); 5 for local samples.
        inactive: A code is inactive where its range is at most this fraction of the largest range.
        iterations: The most iterations of the logistic regression.

    >>> x = np.indices((4, 4)).reshape(2, -1).T.repeat(20, 0)
    >>> score = infomec(x * 1.0, x)
    >>> float(score), float(score.details["infoc"]), bool(score.details["infoe"] > 0.99)
    (1.0, 1.0, True)
    """
    if estimator not in ESTIMATORS:
        raise unknown("estimator of infomec", str(estimator), ESTIMATORS)
    for name, number in (("neighbours", neighbours), ("iterations", iterations)):
        whole(f"infomec: {name}", number, 1)
    if not 0 <= inactive < 1:
        raise UntwineError(f"infomec: inactive is a fraction of the largest range, 0 or more and below 1: {inactive!r}")
    # Sums depend on the order of their terms in the last bit, and 100 iterations make more of it.
    order = ordered(codes, factors)
    codes, factors = codes[order], factors[order]
    values, sizes = labels(factors)
    of_factors = np.array([float(entropy(np.bincount(v, minlength=s))) for v, s in zip(values.T, sizes, strict=True)])
    if estimator == "knn":
        information = nearest_information(codes, factors, neighbours)
    else:
        information, _ = mutual_information(codes, factors, bins)
    nmi = information / of_factors
    ranges = np.ptp(codes, axis=0)
    active = (ranges > inactive * ranges.max()) & (ranges > 0)
    infom = infoc = 0.0
    by_factor = np.zeros(len(sizes))
    if active.any():
        infom, infoc = concentration(nmi[active]), concentration(nmi[active].T)
        remaining = np.array([linear_cross_entropy(codes, column, iterations) for column in values.T])
        by_factor = np.maximum(0, 1 - remaining / of_factors)
    details = {"infom": infom, "infoe": float(by_factor.mean()), "infoc": infoc, "nmi": nmi}
    return infom, details | {"infoe_by_factor": by_factor, "inactive": np.flatnonzero(~active).tolist()}

"""InfoMEC against its definition in loops, scikit-learn's estimators, and conditional entropies by hand."""

from __future__ import annotations

import warnings
from math import log

import numpy as np
import pytest
from scipy.special import digamma

from untwine.errors import UntwineError
from untwine.metrics.families.infomec import concentration, infomec, linear_cross_entropy, nearest_information
from untwine.metrics.families.information import mutual_information
from untwine.streams import np_uniform

VALUES = 5


def problem(kind: str, n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Codes of 3 dimensions for 2 factors; the third code is noise."""
    factors = (np_uniform(0, "factors", (n, 2)) * VALUES).astype(int)
    noise = np_uniform(0, "noise", (n, 3)) - 0.5
    perfect = np.hstack([factors / VALUES, noise[:, 2:]])
    mixing = np.array([[1, 0.6, 0.2], [-0.5, 1, 0], [0.1, 0, 1]])
    codes = {
        "perfect": perfect,
        "noisy": perfect + 0.4 * noise,
        "mixed": perfect @ mixing + 0.1 * noise,
        "noise": noise,
    }
    return codes[kind], factors


def three(score) -> list[float]:
    return [float(value[0]) for value in score.scores().values()]


# --- Mutual information by nearest neighbours ------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", [1, 3, 10])
@pytest.mark.parametrize("kind", ["noisy", "mixed", "noise"])
def test_without_ties_it_is_that_of_sklearn(kind, neighbours):
    from sklearn.feature_selection import mutual_info_classif

    codes, factors = problem(kind)
    codes = np.exp(codes)  # random numbers are on a lattice, where distances can be equal
    factors[:8, 0] = np.arange(10, 18)  # values that occur once
    found = nearest_information(codes, factors, neighbours)
    for i in range(2):
        expected = mutual_info_classif(
            codes, factors[:, i], discrete_features=False, n_neighbors=neighbours, random_state=0
        )
        assert found[:, i] == pytest.approx(expected, abs=1e-12)


def brute_force(code: np.ndarray, value: np.ndarray, neighbours: int) -> float:
    """Ross 2014 from the definition, sample by sample; all that are as far as the last neighbour count."""
    counts = {v: int((value == v).sum()) for v in set(value.tolist())}
    kept = np.array([counts[v] > 1 for v in value.tolist()])
    code, value = code[kept], value[kept]
    terms = []
    for s in range(len(code)):
        distance = np.abs(code - code[s])
        mine = np.sort(np.delete(distance[value == value[s]], np.flatnonzero(np.flatnonzero(value == value[s]) == s)))
        reach = mine[min(neighbours, len(mine)) - 1] + 1e-12
        same = (mine <= reach).sum()
        anyone = (distance <= reach).sum() - 1
        terms.append(digamma(same) - digamma(counts[int(value[s])]) - digamma(anyone))
    return max(0.0, float(digamma(len(code)) + np.mean(terms)))


@pytest.mark.parametrize("neighbours", [1, 4, 30])
def test_with_ties_it_is_the_definition_in_loops(neighbours):
    n = 120
    factors = (np_uniform(3, "factors", (n, 3)) * [2, 4, 30]).astype(int)
    draws = np_uniform(3, "codes", (n, 4))
    lattice = np.floor(draws[:, 0] * 9) * 0.1  # distances that are equal but for rounding
    clumps = np.where(draws[:, 1] < 0.5, 0.25, draws[:, 1])  # half of the samples coincide
    related = factors[:, 1] + np.round(draws[:, 2], 1)
    codes = np.stack([lattice, clumps, related, draws[:, 3]], 1)
    found = nearest_information(codes, factors, neighbours)
    for j in range(4):
        for i in range(3):
            assert found[j, i] == pytest.approx(brute_force(codes[:, j], factors[:, i], neighbours), abs=1e-9)


def test_coinciding_samples_are_as_good_as_jittered_ones():
    """Scikit-learn breaks ties with tiny noise, which is random; both estimate the same."""
    from sklearn.feature_selection import mutual_info_classif

    factors = (np_uniform(4, "factors", (2000, 1)) * 4).astype(int)
    code = (factors + (np_uniform(4, "codes", (2000, 1)) * 2.5).astype(int)) * 1.0
    expected = mutual_info_classif(code, factors[:, 0], discrete_features=False, n_neighbors=10, random_state=0)
    plain, _ = mutual_information(code, factors, bins=6)
    found = nearest_information(code, factors)
    assert found[0] == pytest.approx(expected, abs=0.05)
    assert found[0] == pytest.approx(plain[0], abs=0.02)


def test_nearest_information_of_dead_codes_and_of_values_that_all_occur_once():
    codes = np_uniform(0, "codes", (20, 2))
    codes[:, 1] = 7.3
    factors = np.stack([np.arange(20), np.arange(20) % 2], 1)
    found = nearest_information(codes, factors)
    assert found[:, 0].tolist() == [0, 0]  # nothing is left to count
    assert found[1].tolist() == [0, 0]
    huge = nearest_information(codes * 1e200, factors)
    assert huge == pytest.approx(found)


# --- Predictive information -----------------------------------------------------------------------------------------


def test_of_a_binary_code_it_is_the_conditional_entropy_by_hand():
    """A logistic regression on a binary code can have any distribution for each of its two values."""
    # code 0: values a a a b c c; code 1: values a b b c; code 0 holds 6 of 10 samples.
    code = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1])[:, None] * 1.0
    value = np.array([0, 0, 0, 1, 2, 2, 0, 1, 1, 2])
    given_zero = -(3 / 6 * log(3 / 6) + 1 / 6 * log(1 / 6) + 2 / 6 * log(2 / 6))
    given_one = -(1 / 4 * log(1 / 4) + 2 / 4 * log(2 / 4) + 1 / 4 * log(1 / 4))
    expected = 0.6 * given_zero + 0.4 * given_one
    assert linear_cross_entropy(code, value) == pytest.approx(expected, abs=1e-5)
    of_value = -(4 / 10 * log(4 / 10) + 2 * 3 / 10 * log(3 / 10))
    score = infomec(code, value[:, None], estimator="histogram", bins=2)
    assert score.details["infoe"] == pytest.approx(1 - expected / of_value, abs=1e-5)
    assert score.details["nmi"][0, 0] == pytest.approx(1 - expected / of_value)  # here V is every function


def test_it_is_that_of_sklearns_logistic_regression():
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    codes, factors = problem("mixed")
    x = (codes - codes.mean(0)) / codes.std(0)
    for i in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression(C=np.inf, max_iter=5000, tol=1e-8).fit(x, factors[:, i])
        least = float(log_loss(factors[:, i], model.predict_proba(x)))
        assert linear_cross_entropy(codes, factors[:, i]) == pytest.approx(least, abs=2e-3)
        assert linear_cross_entropy(codes, factors[:, i], iterations=5000) == pytest.approx(least, abs=1e-3)
        assert linear_cross_entropy(codes, factors[:, i], iterations=1) > least + 0.01


# --- Scores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["knn", "histogram"])
@pytest.mark.parametrize("kind", ["perfect", "mixed", "noise"])
def test_infom_and_infoc_are_the_definition_in_loops(kind, estimator):
    codes, factors = problem(kind)
    score = infomec(codes, factors, estimator=estimator, bins=7)
    if estimator == "knn":
        information = nearest_information(codes, factors)
    else:
        information = mutual_information(codes, factors, bins=7)[0]
    nmi = information.copy()
    for i in range(2):
        p = [float((factors[:, i] == v).mean()) for v in range(VALUES)]
        nmi[:, i] /= -sum(q * log(q) for q in p)
    infom = [max(nmi[j]) / sum(nmi[j]) if sum(nmi[j]) > 0 else 1 / 2 for j in range(3)]
    infoc = [max(nmi[:, i]) / sum(nmi[:, i]) if sum(nmi[:, i]) > 0 else 1 / 3 for i in range(2)]
    assert score.details["nmi"] == pytest.approx(nmi)
    assert float(score) == pytest.approx((sum(infom) / 3 - 1 / 2) / (1 - 1 / 2))
    assert score.details["infoc"] == pytest.approx((sum(infoc) / 2 - 1 / 3) / (1 - 1 / 3))
    assert score.details["infom"] == float(score)
    assert score.details["inactive"] == []


@pytest.mark.parametrize(
    ("information", "value"),
    [
        ([[1.0, 1.0, 1.0]], 0.0),
        ([[0.0, 3.0, 0.0]], 1.0),
        ([[0.0, 0.0], [5.0, 0.0]], 0.5),  # a row without information is as bad as an even one
        ([[0.0], [2.0]], 0.5),  # nothing to be even with
        ([[0.0, 0.0]], 0.0),
        ([[0.5, 0.25, 0.25]], 0.25),
    ],
)
def test_concentration(information, value):
    assert concentration(np.array(information)) == pytest.approx(value)


@pytest.mark.parametrize("estimator", ["knn", "histogram"])
def test_a_perfect_code_has_one(estimator):
    x = np.indices((4, 4)).reshape(2, -1).T.repeat(15, 0)
    assert three(infomec(x * 1.0, x, estimator=estimator)) == pytest.approx([1, 1, 1], abs=0.01)


def test_rotation_lowers_modularity_and_compactness_but_not_explicitness():
    x = np.indices((5, 5)).reshape(2, -1).T.repeat(20, 0)
    codes = x - 2 + 0.2 * (np_uniform(0, "jitter", x.shape) - 0.5)
    turned = codes @ np.array([[np.cos(0.6), -np.sin(0.6)], [np.sin(0.6), np.cos(0.6)]])
    straight, rotated = three(infomec(codes, x)), three(infomec(turned, x))
    assert straight[0] > 0.9 and straight[2] > 0.9
    assert rotated[0] < 0.6 and rotated[2] < 0.6
    assert min(straight[1], rotated[1]) > 0.97


def test_noise_has_no_explicitness_and_with_bins_no_modularity():
    codes, factors = problem("noise", n=5000)
    assert three(infomec(codes, factors, estimator="histogram")) == pytest.approx([0, 0, 0], abs=0.15)
    assert infomec(codes, factors).details["infoe"] < 0.01


def test_codes_of_tiny_range_are_inactive():
    codes, factors = problem("noisy")
    codes = codes * [1, 1, 0.04]  # below a twentieth of the largest range
    score = infomec(codes, factors)
    assert score.details["inactive"] == [2]
    assert three(score) == pytest.approx(three(infomec(codes[:, :2], factors)), abs=0.02)  # InfoE sees it still
    assert infomec(codes, factors, inactive=0.01).details["inactive"] == []
    dead = np.hstack([codes[:, :2], np.full((len(codes), 1), 0.3)])
    without = infomec(dead, factors, inactive=0)
    assert three(without) == pytest.approx(three(infomec(codes[:, :2], factors)), rel=1e-9)
    assert without.details["inactive"] == without.details["dead_codes"] == [2]


@pytest.mark.parametrize("estimator", ["knn", "histogram"])
def test_nothing_active_has_zero(estimator):
    _, factors = problem("perfect")
    score = infomec(np.full((500, 2), 0.1), factors, estimator=estimator)
    assert three(score) == [0, 0, 0]
    assert score.details["inactive"] == [0, 1]


@pytest.mark.parametrize("estimator", ["knn", "histogram"])
@pytest.mark.parametrize(("d", "k"), [(1, 2), (3, 1), (1, 1)])
def test_one_code_or_one_factor(estimator, d, k):
    codes, factors = problem("noisy")
    score = infomec(codes[:, :d], factors[:, :k], estimator=estimator)
    nmi = score.details["nmi"]
    if k == 1:
        assert float(score) == pytest.approx((nmi.sum(1) > 0).mean())
    if d == 1:
        assert score.details["infoc"] == pytest.approx((nmi.sum(0) > 0).mean())
    assert np.isfinite(three(score)).all()


def test_a_handful_of_samples():
    score = infomec(np.array([[0.0], [1.0], [2.0]]), np.array([[0], [1], [1]]))
    assert np.isfinite(three(score)).all()


def test_invariances():
    codes, factors = problem("mixed")
    score = three(infomec(codes, factors))
    shuffled = np.argsort(np_uniform(7, "order", len(codes)))
    assert three(infomec(codes[shuffled], factors[shuffled])) == score
    permuted = infomec(codes[:, [2, 0, 1]], factors[:, [1, 0]])
    assert three(permuted) == pytest.approx(score, abs=1e-3)
    assert three(permuted)[0] == pytest.approx(score[0])
    affine = three(infomec(-3 * codes + 8, factors))
    assert [affine[0], affine[2]] == pytest.approx([score[0], score[2]])
    assert affine[1] == pytest.approx(score[1], abs=1e-3)
    assert three(infomec(codes, factors * 3 - 7)) == pytest.approx(score)


def test_a_pack_has_the_scores_of_its_members():
    factors = problem("perfect")[1]
    several = [problem(kind)[0] for kind in ("perfect", "mixed")]
    several[0][:, 2] = 0
    score = infomec(np.stack(several), factors)
    alone = [infomec(codes, factors) for codes in several]
    assert score.values.tolist() == [float(one) for one in alone]
    assert score.details["infoe"].tolist() == [one.details["infoe"] for one in alone]
    assert score.details["nmi"].shape == (2, 3, 2)
    assert score.details["inactive"] == [[2], []]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimator": "knnn"}, "unknown estimator of infomec 'knnn'; did you mean 'knn'"),
        ({"neighbours": 0}, "neighbours must be a whole number, 1 or more, not 0"),
        ({"iterations": -2}, "iterations must be a whole number, 1 or more, not -2"),
        ({"inactive": 1}, "inactive is a fraction of the largest range"),
        ({"estimator": "histogram", "bins": 1}, "bins must be a whole number, 2 or more"),
    ],
)
def test_arguments_that_make_no_sense(arguments, message):
    with pytest.raises(UntwineError, match=message):
        infomec(*problem("perfect"), **arguments)


def test_continuous_factors_are_refused():
    codes, factors = problem("perfect")
    with pytest.raises(UntwineError, match="needs whole numbers"):
        infomec(codes, factors / 2)


def test_local_samples_have_five_bins():
    assert infomec.local == {"bins": 5}

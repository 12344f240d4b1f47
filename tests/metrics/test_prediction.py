"""SAP, explicitness and the neighbours' score against scikit-learn and loops, and what they do with little to go by."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import KDTree
from scipy.stats import mode
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from untwine.errors import UntwineError
from untwine.metrics.families.explicitness import areas, explicitness
from untwine.metrics.families.knn import knn_score, nearest, vote
from untwine.metrics.families.sap import gaps, r_squared, sap
from untwine.metrics.learners.split import split

METRICS = [sap, explicitness, knn_score]


def sample(seed=0, n=400, sizes=(4, 2, 3), extra=1, noise=0.3):
    """Codes that each know one factor, some that know none, and the factors."""
    rng = np.random.default_rng(seed)
    factors = np.stack([rng.integers(0, size, n) for size in sizes], 1)
    codes = np.hstack([factors / np.std(factors, 0), np.zeros((n, extra))])
    return codes + noise * rng.normal(size=codes.shape), factors


def unique_rows(seed=0, n=300):
    """As `sample`, with no state twice: the rows then have one order whatever the codes."""
    rng = np.random.default_rng(seed)
    factors = np.stack(np.unravel_index(rng.permutation(5 * 6 * 20)[:n], (5, 6, 20)), 1).astype(np.int64)
    return factors @ rng.normal(size=(3, 4)) + rng.normal(size=(n, 4)), factors


def best_less_second(row):
    first, second = sorted(row, reverse=True)[:2]
    return first - second


# --- All three ---


@pytest.mark.parametrize("score", METRICS)
@pytest.mark.parametrize("ties", [False, True])
def test_the_order_of_samples_does_not_matter(score, ties):
    codes, factors = sample()
    codes = codes.round() if ties else codes
    shuffled = np.random.default_rng(1).permutation(len(codes))
    assert float(score(codes, factors)) == pytest.approx(float(score(codes[shuffled], factors[shuffled])), abs=1e-9)


@pytest.mark.parametrize("score", METRICS)
def test_the_order_and_the_signs_of_latents_do_not_matter(score):
    codes, factors = unique_rows()
    value = float(score(codes, factors))
    assert float(score(codes[:, [2, 0, 3, 1]], factors)) == pytest.approx(value, abs=1e-4)
    assert float(score(codes * [1, -1, -1, 1], factors)) == pytest.approx(value, abs=1e-4)


@pytest.mark.parametrize("score", METRICS)
def test_a_pack_has_the_scores_of_its_members(score):
    codes, factors = sample()
    other = np.random.default_rng(5).normal(size=codes.shape)
    pack = score(np.stack([codes, other]), factors)
    np.testing.assert_allclose(pack.values, [float(score(codes, factors)), float(score(other, factors))], atol=1e-12)


@pytest.mark.parametrize("score", METRICS)
@pytest.mark.parametrize(
    ("codes", "sizes"), [(1, (3,)), (1, (2, 3)), (5, (2,)), (2, (2, 2, 2))], ids=["1x1", "d<k", "d>k", "2x3"]
)
@pytest.mark.parametrize("n", [8, 60])
def test_any_numbers_of_codes_and_factors(score, codes, sizes, n):
    rng = np.random.default_rng(n)
    factors = np.stack([rng.permutation(np.arange(n) % size) for size in sizes], 1)
    found = score(rng.normal(size=(n, codes)), factors)
    assert np.isfinite(found.values).all()
    assert all(np.isfinite(part).all() for part in found.scores().values())


@pytest.mark.parametrize("score", METRICS)
@pytest.mark.parametrize("constant", [0.0, 0.1])
def test_dead_codes_alone_know_nothing(score, constant):
    _, factors = sample()
    found = score(np.full((400, 3), constant), factors)
    assert float(found) == pytest.approx(0.5 if score is explicitness else 0.0)
    assert found.details["dead_codes"] == [0, 1, 2]


@pytest.mark.parametrize("score", METRICS)
def test_constant_factors_are_left_out(score):
    codes, factors = sample()
    with_constant = np.insert(factors, 1, 7, axis=1)
    found = score(codes, with_constant)
    assert float(found) == pytest.approx(float(score(codes, factors)), abs=1e-12)
    assert found.details["constant_factors"] == [1]


@pytest.mark.parametrize("score", METRICS)
def test_the_seed_chooses_the_split_and_the_fraction_is_checked(score):
    codes, factors = sample(noise=1.0)
    assert float(score(codes, factors, seed=1)) == float(score(codes, factors, seed=1)) != float(score(codes, factors))
    with pytest.raises(UntwineError, match="fraction between 0 and 1"):
        score(codes, factors, test=1.5)


def test_gaps_by_loops():
    performance = np.random.default_rng(0).random((5, 3))
    np.testing.assert_allclose(gaps(performance, np.zeros(3)), [best_less_second(row) for row in performance.T])
    np.testing.assert_allclose(gaps(performance[:1], np.full(3, 0.25)), np.abs(performance[0] - 0.25))


# --- SAP ---


@pytest.mark.parametrize("seed", [0, 1])
def test_sap_is_that_of_liblinear(seed):
    codes, factors = sample(seed)
    found = sap(codes, factors, seed=seed)
    trained, tested = split(codes, factors, 1 / 3, seed)
    expected = np.empty((4, 3))
    for j in range(4):
        for i in range(3):
            machine = LinearSVC(C=0.01, class_weight="balanced", tol=1e-10, max_iter=100_000)
            machine.fit(codes[trained][:, [j]], factors[trained, i])
            expected[j, i] = np.mean(machine.predict(codes[tested][:, [j]]) == factors[tested, i])
    np.testing.assert_allclose(found.details["scores"], expected, atol=1e-12)
    assert float(found) == pytest.approx(np.mean([best_less_second(row) for row in expected.T]))


def test_sap_by_regression_is_that_of_linear_fits():
    codes, factors = sample()
    found = sap(codes, factors, regression=True)
    expected = np.array(
        [[LinearRegression().fit(x[:, None], y).score(x[:, None], y) for y in factors.T] for x in codes.T]
    )
    np.testing.assert_allclose(found.details["scores"], expected, atol=1e-12)
    assert float(found) == pytest.approx(np.mean([best_less_second(row) for row in expected.T]))
    assert found.settings["regression"] is True


def test_sap_of_continuous_factors_is_by_regression():
    codes, factors = sample()
    found = sap(codes, factors * 0.5)
    assert float(found) == pytest.approx(float(sap(codes, factors, regression=True)))
    assert found.settings["regression"] is True and sap(codes, factors).settings["regression"] is False
    with pytest.raises(UntwineError, match="floats, which have no classes"):
        sap(codes, factors * 0.5, regression=False)


def test_sap_of_perfect_codes_and_of_noise():
    rng = np.random.default_rng(0)
    two, four, many = (rng.integers(0, size, (3000, 2)) for size in (2, 4, 64))
    noise = rng.normal(size=(3000, 5))
    assert float(sap(two * 2.0, two)) == pytest.approx(0.5, abs=0.05)
    assert float(sap(np.c_[two[:, 0] * 2.0, np.ones(3000)], two[:, :1])) == 1.0  # the rival is dead
    assert float(sap((four - 1.5) * 2, four)) == pytest.approx(0.75, abs=0.05)
    assert float(sap(many / many.std(0), many)) < 0.1  # a threshold for each value cannot tell them apart
    assert float(sap(many / many.std(0), many, regression=True)) > 0.99
    for factors in (two, four, many):
        assert 0 <= float(sap(noise, factors)) < 0.05
        assert 0 <= float(sap(noise, factors, regression=True)) < 0.01


def test_sap_depends_on_the_scale_by_classification_only():
    _, factors = sample(n=3000)
    codes = factors[:, [0, 2]] / factors[:, [0, 2]].std(0)
    assert float(sap(codes * 0.01, factors[:, [0, 2]])) < float(sap(codes, factors[:, [0, 2]])) - 0.2
    by_regression = [float(sap(codes * scale + 3, factors, regression=True)) for scale in (1e-8, 1.0, 1e8)]
    np.testing.assert_allclose(by_regression, by_regression[1], rtol=1e-6)
    assert float(sap(codes * 1e-170, factors, regression=True)) == pytest.approx(by_regression[1])


def test_sap_falls_under_rotation():
    codes, factors = sample(n=2000)
    rotation = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))[0]
    for regression in (False, True):
        straight, turned = (float(sap(x, factors, regression=regression)) for x in (codes, codes @ rotation))
        assert turned < 0.6 * straight


@pytest.mark.parametrize("regression", [False, True])
def test_sap_of_dead_codes_and_of_a_single_one(regression):
    codes, factors = sample()
    with_dead = np.insert(codes, 1, 0.1, axis=1)
    found = sap(with_dead, factors, regression=regression)
    assert (found.details["scores"][1] == 0).all()
    alone = sap(codes[:, :1], factors, regression=regression)
    np.testing.assert_array_equal(alone.details["gaps"], alone.details["scores"][0])


def test_sap_of_a_code_that_only_varies_in_the_test_part_is_zero():
    factors = np.stack(np.unravel_index(np.arange(30), (5, 6)), 1).astype(np.int64)
    codes = np.zeros((30, 1))
    _, tested = split(codes, factors, 1 / 3, 0)  # all states differ, so that codes do not move it
    codes[tested[0]] = 1.0
    found = sap(codes, factors)
    assert (found.details["scores"] == 0).all() and found.details["dead_codes"] == []


def test_r_squared_by_its_definition():
    codes, factors = sample()
    for j, i in np.ndindex(4, 3):
        covariance = np.cov(codes[:, j], factors[:, i])
        expected = covariance[0, 1] ** 2 / (covariance[0, 0] * covariance[1, 1])
        assert r_squared(codes, factors)[j, i] == pytest.approx(expected)


# --- Explicitness ---


def test_explicitness_is_that_of_scikit_learn():
    codes, factors = sample(sizes=(4, 2, 5), noise=1.0)
    found = explicitness(codes, factors)
    trained, tested = split(codes, factors, 1 / 3, 0)
    scaler = StandardScaler().fit(codes[trained])
    for rows, key in ((tested, "auc_by_factor"), (trained, "train_auc_by_factor")):
        for i, size in enumerate((4, 2, 5)):
            classifier = LogisticRegression().fit(scaler.transform(codes[trained]), factors[trained, i])
            probabilities = classifier.predict_proba(scaler.transform(codes[rows]))
            expected = roc_auc_score(np.eye(size)[factors[rows, i]], probabilities, average="macro")
            assert found.details[key][i] == pytest.approx(expected, abs=1e-6)
    assert float(found) == pytest.approx(found.details["auc_by_factor"].mean())
    assert found.details["train"] == pytest.approx(found.details["train_auc_by_factor"].mean())
    assert found.scores()["explicitness normalised"] == pytest.approx(2 * float(found) - 1)


@given(st.integers(0, 10_000), st.integers(2, 30), st.integers(1, 4))
@settings(max_examples=50, deadline=None)
def test_areas_are_those_of_pairs(seed, n, digits):
    rng = np.random.default_rng(seed)
    scores, values = rng.random((n, 3)).round(digits), rng.integers(0, 3, n)
    found = areas(scores, values, np.arange(3))
    for value in range(3):
        own = values == value
        if not own.any() or own.all():
            assert value not in found
            continue
        pairs = np.sign(scores[own, value][:, None] - scores[~own, value])
        assert found[value] == pytest.approx((pairs.mean() + 1) / 2)
        assert found[value] == pytest.approx(roc_auc_score(own, scores[:, value]))


def test_explicitness_of_perfect_codes_and_of_noise():
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 5, (2000, 2))
    assert float(explicitness(factors * 1.0, factors)) > 0.99
    rotation = np.array([[0.6, 0.8], [-0.8, 0.6]])
    assert float(explicitness(factors @ rotation, factors)) > 0.99  # of no concern to it
    assert float(explicitness(rng.normal(size=(2000, 4)), factors)) == pytest.approx(0.5, abs=0.03)


def test_explicitness_does_not_depend_on_scale_nor_on_dead_codes():
    codes, factors = sample(noise=1.0)
    value = float(explicitness(codes, factors))
    assert float(explicitness(codes * [1, 1e-6, 1e6, 3] + [0, 1, 2, 3], factors)) == pytest.approx(value, abs=1e-6)
    assert float(explicitness(np.insert(codes, 2, 0.1, axis=1), factors)) == pytest.approx(value, abs=1e-6)


def test_explicitness_leaves_out_values_that_a_part_lacks():
    codes, factors = sample(n=90, noise=1.0)
    factors[0, 0], factors[1, 2] = 17, -3  # each occurs once, so in one of the parts only
    found = explicitness(codes, factors)
    assert found.details["left_out"] == [[0, 17], [2, -3]]
    trained, tested = split(codes, factors, 1 / 3, 0)
    scaler = StandardScaler().fit(codes[trained])
    classifier = LogisticRegression().fit(scaler.transform(codes[trained]), factors[trained, 0])
    probabilities = classifier.predict_proba(scaler.transform(codes[tested]))
    columns = dict(zip(classifier.classes_.tolist(), probabilities.T, strict=True))
    expected = [roc_auc_score(factors[tested, 0] == value, columns[value]) for value in range(4)]
    assert found.details["auc_by_factor"][0] == pytest.approx(np.mean(expected), abs=1e-6)


@pytest.mark.parametrize("part", [0, 1], ids=["train", "test"])
def test_explicitness_of_a_factor_with_one_value_in_a_part_is_a_guess(part):
    codes = np.arange(12.0)[:, None]
    for row in range(12):
        factors = np.stack([np.arange(12) == row, np.arange(12) % 2], 1).astype(np.int64)
        if row in split(codes, factors, 1 / 3, 0)[1 - part]:
            break
    found = explicitness(codes, factors)
    assert found.details["auc_by_factor"][0] == 0.5
    assert [0, 1] in found.details["left_out"]


def test_explicitness_needs_whole_numbers():
    codes, factors = sample()
    with pytest.raises(UntwineError, match="whole numbers"):
        explicitness(codes, factors * 0.5)


# --- Nearest neighbours ---


@pytest.mark.parametrize("k", [1, 5, 8])
@pytest.mark.parametrize("normalise", ["constant", "gain"])
def test_knn_score_is_that_of_scikit_learn(k, normalise):
    codes, factors = sample()
    kinds = ("ordered", "categorical", "cyclic")
    found = knn_score(codes, factors, kinds, k=k, normalise=normalise, wrap=False)
    trained, tested = split(codes, factors, 0.2, 0)
    expected = np.empty((4, 3))
    for j in range(4):
        train_codes, test_codes = codes[trained][:, [j]], codes[tested][:, [j]]
        for i, kind in enumerate(kinds):
            if kind == "categorical":
                classifier = KNeighborsClassifier(k).fit(train_codes, factors[trained, i])
                expected[j, i] = classifier.score(test_codes, factors[tested, i])
            else:
                predicted = KNeighborsRegressor(k).fit(train_codes, factors[trained, i]).predict(test_codes)
                error = np.mean((predicted - factors[tested, i]) ** 2)
                expected[j, i] = np.sqrt(np.var(factors[:, i])) - np.sqrt(error)
    np.testing.assert_allclose(found.details["performance"], expected, atol=1e-12)
    constant = np.bincount(factors[:, 1]).max() / 400
    normalisers = [factors[:, 0].std(), constant if normalise == "constant" else 1 - constant, factors[:, 2].std()]
    gap = [best_less_second(row) / by for row, by in zip(expected.T, normalisers, strict=True)]
    assert float(found) == pytest.approx(np.mean(gap))


@pytest.mark.parametrize("k", [1, 3, 20])
def test_nearest_is_that_of_a_tree(k):
    rng = np.random.default_rng(0)
    known, asked = rng.normal(size=20), 2 * rng.normal(size=50)
    distances, found = KDTree(known[:, None]).query(asked[:, None], k=np.arange(1, k + 1))
    np.testing.assert_array_equal(nearest(known, asked, k), found)
    assert distances.shape == (50, k)


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_nearest_among_ties_has_the_least_distances(seed, n, k):
    rng = np.random.default_rng(seed)
    known, asked, k = rng.integers(0, 4, n).astype(float), rng.integers(-1, 6, 9).astype(float), min(k, n)
    found = nearest(known, asked, k)
    assert all(len(set(row)) == k for row in found.tolist())
    expected = np.sort(np.abs(known - asked[:, None]), axis=1)[:, :k]
    np.testing.assert_array_equal(np.abs(known[found] - asked[:, None]), expected)


def test_vote_is_the_mode():
    values = np.random.default_rng(0).integers(0, 4, (100, 5))
    np.testing.assert_array_equal(vote(values, 4), mode(values, axis=1).mode)


def test_knn_score_of_perfect_codes_and_of_noise():
    rng = np.random.default_rng(0)
    factors = rng.random((4000, 2))
    noise = rng.normal(size=(4000, 3))
    bound = np.sqrt(1 + 1 / 5)  # the error of five values' mean, in standard deviations
    found = knn_score(np.c_[factors, noise], factors)
    assert 1 < float(found) < bound + 0.01
    np.testing.assert_allclose(found.details["performance"][2:] / factors.std(0), 1 - bound, atol=0.06)
    assert float(knn_score(np.c_[factors[:, 0], np.ones(4000)], factors[:, :1])) == pytest.approx(1, abs=1e-3)
    assert 0 <= float(knn_score(noise, factors)) < 0.03


@pytest.mark.parametrize("values", [2, 6])
def test_knn_score_of_categories_passes_one_unless_it_is_a_gain(values):
    factors = np.arange(3000)[:, None] % values
    codes = np.c_[factors, np.full(3000, 0.1)]
    assert float(knn_score(codes, factors, ("categorical",))) == pytest.approx(values - 1)
    assert float(knn_score(codes, factors, ("categorical",), normalise="gain")) == pytest.approx(1)


def test_knn_score_of_dead_codes_is_that_of_a_constant():
    codes, factors = sample()
    kinds = ("ordered", "categorical", "categorical")
    found = knn_score(np.insert(codes, 1, 0.1, axis=1), factors, kinds)
    frequent = [np.bincount(factors[:, i]).max() / 400 for i in (1, 2)]
    np.testing.assert_allclose(found.details["performance"][1], [0, *frequent])
    alone = knn_score(codes[:, :1], factors, kinds).details
    expected = np.abs(alone["performance"][0] - [0, *frequent])
    np.testing.assert_allclose(alone["gaps"], expected / alone["normaliser"])


def test_knn_score_without_kinds_takes_all_as_ordered():
    codes, factors = sample()
    found = knn_score(codes, factors)
    assert float(found) == float(knn_score(codes, factors, ("ordered", "cyclic", "ordered"), wrap=False))
    np.testing.assert_allclose(found.details["normaliser"], factors.std(0))


def test_knn_score_takes_continuous_factors_and_their_categories():
    codes, factors = sample()
    assert float(knn_score(codes, factors * 0.5)) == pytest.approx(float(knn_score(codes, factors)))
    kinds = ("categorical",) * 3
    assert float(knn_score(codes, factors * 0.5, kinds)) == float(knn_score(codes, factors, kinds))


def test_knn_score_falls_under_rotation_and_bears_any_scale():
    codes, factors = sample(n=2000)
    value = float(knn_score(codes, factors))
    assert float(knn_score(np.c_[codes[:, 0] + codes[:, 1], codes[:, 0] - codes[:, 1]], factors[:, :2])) < 0.6 * value
    assert float(knn_score(codes * [1, 2, 1024, 2**-20], factors)) == value


def test_knn_score_leaves_out_the_kinds_of_constant_factors():
    codes, factors = sample()
    kinds = ("ordered", "categorical", "ordered")
    found = knn_score(codes, np.insert(factors, 0, 3, axis=1), ("categorical", *kinds))
    assert float(found) == float(knn_score(codes, factors, kinds))


def test_knn_score_says_what_is_wrong():
    codes, factors = sample(n=20)
    for k in (0, 17):
        with pytest.raises(UntwineError, match="from 1 to the 16 training samples"):
            knn_score(codes, factors, k=k)
    with pytest.raises(UntwineError, match="did you mean 'categorical'"):
        knn_score(codes, factors, ("ordered", "categoric", "ordered"))
    with pytest.raises(UntwineError, match="1 kinds for 3 factors"):
        knn_score(codes, factors, ("ordered",))
    with pytest.raises(UntwineError, match="unknown normaliser"):
        knn_score(codes, factors, normalise="entropy")


def test_explicitness_does_not_warn():
    codes, factors = sample()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert 0.5 < float(explicitness(codes, factors)) <= 1

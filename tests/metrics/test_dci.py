"""DCI against its definition written out, and its estimators against the libraries used plainly."""

from __future__ import annotations

import numpy as np
import pytest

from untwine.errors import UntwineError
from untwine.metrics.families.dci import dci, lasso, weighted_purity
from untwine.metrics.learners.boosting import boosted_trees
from untwine.metrics.learners.split import split
from untwine.metrics.learners.trees import Parts, sklearn_trees
from untwine.streams import np_uniform

VALUES = 4


def problem(kind: str, n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Codes of 4 dimensions for 3 factors."""
    factors = (np_uniform(seed, "factors", (n, 3)) * VALUES).astype(int)
    noise = np_uniform(seed, "noise", (n, 4))
    perfect = np.hstack([factors / VALUES, noise[:, 3:]])
    mixing = np.array([[1, 0.4, 0, 0.2], [0, 1, 0.3, 0], [0.5, 0, 1, 0.1], [0, 0, 0.2, 1]])
    turn = np.linalg.qr(np_uniform(1, "turn", (4, 4)) - 0.5)[0]
    codes = {
        "perfect": perfect,
        "jittered": perfect + noise / VALUES,
        "noisy": perfect + 0.5 * (noise - 0.5),
        "mixed": perfect @ mixing,
        "rotated": perfect @ turn,
        "noise": noise,
    }
    return codes[kind], factors


def in_parts(codes: np.ndarray, factors: np.ndarray, seed: int = 0) -> Parts:
    train, test = split(codes, factors, 1 / 3, seed)
    return Parts(codes[train], codes[test], factors[train], factors[test])


def three(score) -> list[float]:
    return [float(value[0]) for value in score.scores().values()]


# --- The formulas -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 2)])
def test_disentanglement_and_completeness_are_the_definition_written_out(shape):
    d, k = shape
    importance = np_uniform(0, "importance", shape) * (np_uniform(1, "importance", shape) > 0.3)
    importance[0] = 0  # a dead code
    total = sum(importance[i, j] for i in range(d) for j in range(k))
    disentanglement = completeness = 0.0
    for i in range(d):
        row = sum(importance[i])
        if row > 0:
            entropy = -sum(r / row * np.log(r / row) / np.log(k) for r in importance[i] if r > 0)
            disentanglement += (1 - entropy) * row / total
    for j in range(k):
        column = sum(importance[:, j])
        if column > 0:
            entropy = -sum(r / column * np.log(r / column) / np.log(d) for r in importance[:, j] if r > 0)
            completeness += (1 - entropy) * column / total
    assert weighted_purity(importance)[0] == pytest.approx(disentanglement)
    assert weighted_purity(importance.T)[0] == pytest.approx(completeness)
    # Another way: scipy's entropies, with zeros replaced by a tiny number.
    from scipy.stats import entropy as scipy_entropy

    each = 1 - scipy_entropy(importance.T + 1e-11, base=k)
    assert weighted_purity(importance)[1] == pytest.approx(np.where(importance.sum(1) > 0, each, 0), abs=1e-6)


@pytest.mark.parametrize(
    ("importance", "value", "each"),
    [
        ([[0.0, 0.0], [0.0, 0.0]], 0.0, [0, 0]),  # no importance at all
        ([[2.0], [3.0], [0.0]], 1.0, [1, 1, 0]),  # a single column
        ([[0.0]], 0.0, [0]),
        ([[1.0, 1.0, 1.0]], 0.0, [0]),  # an even row
        ([[0.0, 7.0, 0.0]], 1.0, [1]),
        ([[3.0, 0.0], [0.5, 0.5]], 0.75, [1, 0]),
    ],
)
def test_purity_of_degenerate_importances(importance, value, each):
    found = weighted_purity(np.array(importance))
    assert found[0] == pytest.approx(value)
    assert found[1].tolist() == pytest.approx(each)


# --- The estimators ---------------------------------------------------------------------------------------------------


def test_sklearn_is_gradient_boosting_with_its_defaults():
    from sklearn.ensemble import GradientBoostingClassifier

    codes, factors = problem("mixed", n=120)
    factors = factors[:, :2]
    score = dci(codes, factors, estimator="sklearn", seed=3)
    train, test = split(codes, factors, 1 / 3, seed=3)
    for i in range(2):
        model = GradientBoostingClassifier(random_state=3).fit(codes[train], factors[train, i])
        assert score.details["importance"][:, i] == pytest.approx(model.feature_importances_)
        expected = model.score(codes[test], factors[test, i])
        assert score.details["informativeness_by_factor"][i] == pytest.approx(expected)
    assert float(score) == pytest.approx(weighted_purity(score.details["importance"])[0])
    assert score.details["completeness"] == pytest.approx(weighted_purity(score.details["importance"].T)[0])
    assert score.details["informativeness"] == pytest.approx(score.details["informativeness_by_factor"].mean())


def test_lasso_is_the_minimum_of_its_loss_and_informativeness_one_minus_nrmse():
    codes, factors = problem("mixed")
    parts = in_parts(codes, factors)
    fitted = lasso(parts, alpha=0.05)
    x, y = (a - a.mean(0) for a in (parts.train, parts.train_factors))
    x, y = x / x.std(0), y / y.std(0)
    weights = np.zeros((4, 3))
    step = len(x) / np.linalg.eigvalsh(x.T @ x).max()
    for _ in range(2000):  # proximal gradient descent on |y - x w|^2 / 2n + alpha |w|
        weights = weights + step * x.T @ (y - x @ weights) / len(x)
        weights = np.sign(weights) * np.maximum(0, np.abs(weights) - step * 0.05)
    assert fitted.importance == pytest.approx(np.abs(weights), abs=1e-3)
    test = (parts.test - parts.train.mean(0)) / parts.train.std(0)
    for i in range(3):
        mean, deviation = parts.train_factors[:, i].mean(), parts.train_factors[:, i].std()
        errors = mean + deviation * (test @ weights[:, i]) - parts.test_factors[:, i]
        guesses = mean - parts.test_factors[:, i]
        assert fitted.test[i] == pytest.approx(1 - np.sqrt((errors**2).mean() / (guesses**2).mean()), abs=1e-3)


def test_lasso_takes_continuous_factors_and_scores_nothing_as_zero():
    codes, factors = problem("mixed")
    assert three(dci(codes, factors * 0.37, estimator="lasso")) == pytest.approx(
        three(dci(codes, factors, estimator="lasso"))
    )
    strong = dci(codes, factors, estimator="lasso", alpha=5.0)  # no weight survives
    assert three(strong) == pytest.approx([0, 0, 0], abs=1e-12)


# --- What scores mean -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["trees", "sklearn", "lasso"])
def test_perfect_codes_have_one_and_a_dead_code_has_no_importance(estimator):
    codes, factors = problem("perfect", n=300)
    codes[:, 3] = 0.1
    score = dci(codes, factors, estimator=estimator)
    assert three(score) == pytest.approx([1, 1, 1], abs=0.03)
    assert score.details["importance"][3].tolist() == [0, 0, 0]
    assert score.details["dead_codes"] == [3]
    assert score.details["disentanglement"] == float(score)


@pytest.mark.parametrize("estimator", ["trees", "lasso"])
def test_rotation_lowers_disentanglement_and_completeness(estimator):
    perfect, rotated = (three(dci(*problem(kind), estimator=estimator)) for kind in ("perfect", "rotated"))
    assert rotated[0] < perfect[0] - 0.3
    assert rotated[1] < perfect[1] - 0.3


def test_noise_has_about_zero_and_the_accuracy_of_a_guess():
    score = dci(*problem("noise", n=2000))
    assert three(score) == pytest.approx([0, 0, 1 / VALUES], abs=0.04)
    assert 0.5 < score.details["informativeness_train"] <= 1  # trees memorise


@pytest.mark.parametrize("estimator", ["trees", "lasso"])
def test_the_order_of_samples_changes_nothing(estimator):
    codes, factors = problem("mixed")
    score = dci(codes, factors, estimator=estimator)
    shuffled = np.argsort(np_uniform(7, "order", len(codes)))
    assert three(dci(codes[shuffled], factors[shuffled], estimator=estimator)) == three(score)


@pytest.mark.parametrize("estimator", ["trees", "lasso"])
def test_the_order_and_the_signs_of_codes_change_little(estimator):
    fit = {"trees": boosted_trees, "lasso": lambda parts: lasso(parts, 0.02)}[estimator]
    parts = in_parts(*problem("mixed"))
    importance, order = fit(parts).importance, [2, 0, 3, 1]
    permuted = Parts(parts.train[:, order], parts.test[:, order], parts.train_factors, parts.test_factors)
    flipped = Parts(-parts.train, -parts.test, parts.train_factors, parts.test_factors)
    assert fit(permuted).importance == pytest.approx(importance[order], abs=0.01)  # ties between splits
    assert fit(flipped).importance == pytest.approx(importance, abs=0.02)
    # Which of the samples with equal factors are held out depends on the codes as well: another draw of the split.
    codes, factors = problem("mixed")
    assert three(dci(codes[:, order], factors, estimator=estimator)) == pytest.approx(
        three(dci(codes, factors, estimator=estimator)), abs=0.06
    )


def test_trees_see_the_order_of_codes_only():
    parts = in_parts(*problem("mixed"))
    cubes = Parts(parts.train**3 * 1e6 + 4, parts.test**3 * 1e6 + 4, parts.train_factors, parts.test_factors)
    assert boosted_trees(cubes).importance.tolist() == boosted_trees(parts).importance.tolist()


def test_seed_and_test_choose_the_held_out_part():
    codes, factors = problem("noisy")
    values = {(seed, test): three(dci(codes, factors, test=test, seed=seed)) for seed in (0, 1) for test in (0.2, 0.5)}
    assert len({tuple(value) for value in values.values()}) == 4
    assert values[0, 0.2] == three(dci(codes, factors, test=0.2))


# --- Degenerate samples, packs, errors --------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", ["trees", "sklearn", "lasso"])
@pytest.mark.parametrize(("d", "k"), [(1, 3), (3, 1), (1, 1), (2, 3)])
def test_one_code_or_one_factor(estimator, d, k):
    codes, factors = problem("perfect", n=120)
    factors = factors // 2
    score = dci(codes[:, :d], factors[:, :k], estimator=estimator)
    assert np.isfinite(three(score)).all()
    if k == 1:
        assert float(score) == 1
    if d == 1:
        assert score.details["completeness"] == pytest.approx(1)


@pytest.mark.parametrize("estimator", ["trees", "sklearn", "lasso"])
def test_dead_codes_alone_have_zero_and_a_guess(estimator):
    _, factors = problem("perfect", n=300)
    score = dci(np.full((300, 2), 0.3), factors, estimator=estimator)
    assert three(score)[:2] == [0, 0]
    train, test = split(np.full((300, 2), 0.3), factors, 1 / 3)
    if estimator == "lasso":
        guess = [0, 0, 0]
    else:
        guess = [(factors[test, i] == np.bincount(factors[train, i]).argmax()).mean() for i in range(3)]
    assert score.details["informativeness_by_factor"] == pytest.approx(guess)


@pytest.mark.parametrize("estimator", ["trees", "sklearn"])
def test_values_that_one_part_lacks(estimator):
    fit = {"trees": boosted_trees, "sklearn": sklearn_trees}[estimator]
    x = np.arange(12.0)[:, None] % 3
    train = np.hstack([x, np.full((12, 1), 5), 10 * x]).astype(int)  # the second is constant in training
    test = np.array([[0, 5, 0], [9, 6, 10], [2, 5, 20]])  # 9 and 6 are new
    fitted = fit(Parts(x, np.array([[0.0], [1.0], [2.0]]), train, test))
    assert fitted.test.tolist() == pytest.approx([2 / 3, 2 / 3, 1])
    assert fitted.importance.tolist() == [[1, 0, 1]]


def test_a_handful_of_samples():
    score = dci(np.array([[0.0], [1.0], [2.0]]), np.array([[0], [1], [0]]))
    assert np.isfinite(three(score)).all()


def test_a_pack_has_the_scores_of_its_members():
    several = [problem(kind, n=200)[0] for kind in ("perfect", "noisy")]
    factors = np.hstack([problem("perfect", n=200)[1], np.zeros((200, 1), int)])
    score = dci(np.stack(several), factors)
    alone = [dci(codes, factors) for codes in several]
    assert score.values.tolist() == [float(one) for one in alone]
    assert score.details["importance"].shape == (2, 4, 3)
    assert score.details["completeness"].tolist() == [one.details["completeness"] for one in alone]
    assert score.details["constant_factors"] == [3]
    assert score.details["estimator"].startswith("trees (untwine ")
    assert score.settings["estimator"] == "trees"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimator": "sklern"}, "unknown estimator of dci 'sklern'; did you mean 'sklearn'"),
        ({"estimator": "lasso", "alpha": 0}, "alpha is a penalty, a number above 0"),
        ({"test": 1.5}, "fraction between 0 and 1"),
    ],
)
def test_arguments_that_make_no_sense(arguments, message):
    with pytest.raises(UntwineError, match=message):
        dci(*problem("perfect", n=50), **arguments)


@pytest.mark.parametrize("estimator", ["trees", "sklearn"])
def test_classifiers_refuse_continuous_factors(estimator):
    codes, factors = problem("perfect", n=50)
    with pytest.raises(UntwineError, match=r"factors are float64.*estimator='lasso'"):
        dci(codes, factors / 2, estimator=estimator)

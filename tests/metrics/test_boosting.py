"""The trees of `dci` beside scikit-learn's: single trees, ties, and scores on many kinds of codes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from dci_kinds import KINDS, SEEDS, STORED, original, problem

from untwine.metrics.families.dci import dci, weighted_purity
from untwine.metrics.learners.boosting import _binned, _edges, _grow, _rounded, boosted_trees
from untwine.metrics.learners.trees import Parts

NAMES = ("disentanglement", "completeness", "informativeness")


def scores(kind: str, seed: int) -> list[float]:
    codes, factors, train = problem(kind, seed)
    fitted = boosted_trees(Parts(codes[:train], codes[train:], factors[:train], factors[train:]))
    return [weighted_purity(fitted.importance)[0], weighted_purity(fitted.importance.T)[0], fitted.test.mean()]


# --- the original -----------------------------------------------------------------------------------------


def test_scores_agree_with_the_original_on_all_kinds_of_codes():
    """They differ by .006 on average and .04 at most; how scikit-learn breaks ties alone is worth .01."""
    stored = json.loads(STORED.read_text())
    assert set(stored) == set(KINDS) and len(KINDS) >= 12
    ours = np.array([[scores(kind, seed) for seed in SEEDS] for kind in KINDS])
    difference = np.abs(ours - np.array([stored[kind] for kind in KINDS]))
    for name, mean, worst in zip(NAMES, difference.mean((0, 1)), difference.max((0, 1)), strict=True):
        kind = list(KINDS)[difference[..., NAMES.index(name)].max(1).argmax()]
        assert mean <= 0.01 and worst <= 0.06, f"{name}: {mean:.3f} on average, {worst:.3f} on {kind!r}"


def test_the_stored_scores_are_what_the_original_gives():
    kind = "mixed, 100 training rows"
    assert original(kind, seed=1) == pytest.approx(json.loads(STORED.read_text())[kind][1], abs=0.03)


def test_redundant_codes_are_seen():
    factors = np.random.RandomState(0).randint(0, 4, (1500, 3))
    codes = (factors - factors.mean(0)) / factors.std(0)
    redundant = dci(np.hstack([codes, codes]), factors)
    assert float(redundant) == pytest.approx(1)
    assert redundant.details["completeness"] == pytest.approx(1 - np.log(2) / np.log(6))  # .613; the original .62
    noisy = np.hstack([codes, codes]) + 0.05 * np.random.RandomState(1).normal(size=(1500, 6))
    assert dci(noisy, factors).details["completeness"] == pytest.approx(1 - np.log(2) / np.log(6), abs=0.01)


# --- single trees -----------------------------------------------------------------------------------------


def gains(codes: np.ndarray, residual: np.ndarray, depth: int = 3) -> np.ndarray:
    """How much each code lowers the squared error in a tree grown by trying every split; equal splits share."""
    found = np.zeros(codes.shape[1])
    if depth == 0 or len(residual) < 2:
        return found
    error = len(residual) * residual.var()
    best = np.zeros(codes.shape[1])
    sides = [np.ones(len(residual), bool)] * codes.shape[1]
    for j, code in enumerate(codes.T):
        for cut in np.unique(code)[:-1]:
            left = code <= cut
            gain = error - sum(side.sum() * residual[side].var() for side in (left, ~left))
            if gain > best[j] + 1e-12:
                best[j], sides[j] = gain, left
    tied = best > best.max() - 1e-9
    found += np.where(tied, best.max() / tied.sum(), 0)
    left = sides[int(best.argmax())]
    return found + gains(codes[left], residual[left], depth - 1) + gains(codes[~left], residual[~left], depth - 1)


@pytest.mark.parametrize(("n", "d"), [(60, 3), (150, 4), (9, 2)])
def test_a_tree_is_that_of_every_split_tried_and_of_scikit_learn(n, d):
    from sklearn.tree import DecisionTreeRegressor

    random = np.random.default_rng(n)
    codes, residual = random.normal(size=(n, d)), random.normal(size=(4, n)) + np.linspace(-1, 1, 4)[:, None]
    nodes, gain = _grow(_binned(codes, codes[:7]), _rounded(residual), np.ones(d))
    for column in range(4):
        assert gain[:, column] == pytest.approx(gains(codes, residual[column]), rel=1e-4)
        tree = DecisionTreeRegressor(max_depth=3, random_state=0).fit(codes, residual[column])
        lowered = n * tree.tree_.compute_feature_importances(normalize=False)  # of equal splits one takes all
        assert gain[:, column].sum() == pytest.approx(lowered.sum(), rel=1e-4)
        leaves = tree.apply(codes)
        assert ((nodes[0][column][:, None] == nodes[0][column]) == (leaves[:, None] == leaves)).all()
        assert (nodes[1][column] == nodes[0][column][:7]).all()  # the test part goes the same way


def test_importances_are_those_of_scikit_learn_with_its_rounds(monkeypatch):
    from sklearn.ensemble import GradientBoostingClassifier

    monkeypatch.setattr("untwine.metrics.learners.boosting._ROUNDS", 30)
    monkeypatch.setattr("untwine.metrics.learners.boosting._RATE", 0.1)
    codes = np.random.default_rng(0).normal(size=(150, 3))
    factors = np.stack([np.digitize(codes @ [1, 0.5, 0.1], [-1, 0, 1]), codes @ [0, 1, 1] > 0], 1).astype(int)
    fitted = boosted_trees(Parts(codes, codes, factors, factors))
    for i in range(2):  # of four values, and of two, for which scikit-learn grows one tree instead of two
        model = GradientBoostingClassifier(n_estimators=30, random_state=0).fit(codes, factors[:, i])
        assert fitted.importance[:, i] == pytest.approx(model.feature_importances_, abs=0.01)
        assert fitted.train[i] == pytest.approx(model.score(codes, factors[:, i]), abs=0.01)


# --- ties -------------------------------------------------------------------------------------------------


def test_codes_that_split_alike_have_equal_importances():
    codes = np.random.default_rng(0).normal(size=(300, 2))
    factors = np.stack([np.digitize(codes[:, 0] + 0.3 * codes[:, 1], [-1, 0, 1])] * 2, 1)
    copies = np.hstack([codes, -codes, np.exp(3 * codes)])
    importance = boosted_trees(Parts(copies, copies, factors, factors)).importance
    assert (importance[:2] == importance[2:4]).all() and (importance[:2] == importance[4:]).all()


def test_sums_of_residuals_are_exact():
    residual = np.random.default_rng(0).uniform(-1, 1, (3, 6000)) * [[1], [1e-3], [1e-9]]
    rounded = _rounded(residual)
    assert (np.abs(rounded - residual).max(1) <= np.abs(residual).sum(1) * 2.0**-23).all()
    assert rounded.sum(1).tolist() == np.cumsum(rounded[:, ::-1], 1)[:, -1].tolist()
    assert rounded.sum(1).tolist() == rounded.astype(np.float64).sum(1).tolist()


# --- what does not matter ---------------------------------------------------------------------------------


def test_factors_that_are_done_together_are_as_if_alone(monkeypatch):
    codes, factors, train = problem("random network, 2, 4 and 16 values", 0)
    monkeypatch.setattr("untwine.metrics.learners.boosting._ROUNDS", 5)

    def fitted(columns: list[int]):
        return boosted_trees(Parts(codes[:train], codes[train:], factors[:train, columns], factors[train:, columns]))

    together, alone = fitted([0, 1, 2]), [fitted([i]) for i in range(3)]
    assert together.importance.tolist() == np.hstack([one.importance for one in alone]).tolist()
    assert together.test.tolist() == [one.test[0] for one in alone]
    monkeypatch.setattr("untwine.metrics.learners.boosting._COLUMNS", 3)  # the trees of a factor in parts
    assert fitted([0, 1, 2]).importance == pytest.approx(together.importance, abs=1e-12)


def test_a_code_of_many_values_is_binned_in_its_gaps_and_at_quantiles():
    random = np.random.default_rng(0)
    few = random.integers(0, 9, 400) * 0.1
    assert _edges(few) == pytest.approx(np.arange(0.05, 0.8, 0.1))
    many = random.integers(0, 64, 20_000) + 0.02 * random.normal(size=20_000)  # 64 values with a little noise
    edges = _edges(many)
    assert 800 < len(edges) < 1024
    assert all(((edges > value + 0.1) & (edges < value + 0.9)).any() for value in range(63))
    assert np.bincount(np.searchsorted(edges, many)).max() < 3 * len(many) / 512
    assert np.isfinite(_edges(np.array([-1.7e308, 1.7e308]))).all()

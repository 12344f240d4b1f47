"""Unsupervised disentanglement ranking against its formula, with scipy's and scikit-learn's similarities."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import Lasso
from sklearn.preprocessing import StandardScaler

from untwine.errors import UntwineError
from untwine.metrics.families.udr import lasso, udr

RNG = np.random.default_rng(0)
GRID = np.indices((5, 4, 6)).reshape(3, -1).T * 1.0


def similar(a: np.ndarray, b: np.ndarray, method: str, alpha: float = 0.1) -> np.ndarray:
    """R(a, b) by libraries."""
    if method == "spearman":
        return np.array([[abs(spearmanr(x, y).statistic) for y in b.T] for x in a.T])
    a, b = StandardScaler().fit_transform(a), StandardScaler().fit_transform(b)
    model = Lasso(alpha=alpha, tol=1e-13, max_iter=100_000)
    return np.abs(np.stack([model.fit(a, y).coef_ for y in b.T], 1))


def defined(codes: list[np.ndarray], method: str, informative: list[list[int]]) -> np.ndarray:
    """UDR_i in loops; latents that are not informative are left out of everything."""
    codes = [one[:, keep] for one, keep in zip(codes, informative, strict=True)]
    values = []
    for i, own in enumerate(codes):
        scores = []
        for j, other in enumerate(codes):
            if i == j:
                continue
            r = similar(other, own, method)
            total = sum(r[:, b].max() ** 2 / r[:, b].sum() for b in range(r.shape[1]) if r[:, b].sum() > 0)
            total += sum(r[a].max() ** 2 / r[a].sum() for a in range(r.shape[0]) if r[a].sum() > 0)
            scores.append(total / sum(r.shape))
        values.append(np.median(scores))
    return np.array(values)


def models(n: int = 200) -> list[np.ndarray]:
    """Four models of 3, 5, 2 and 4 latents with something in common; of ties, too."""
    x = RNG.normal(size=(n, 3))
    found = [np.tanh(x @ RNG.normal(size=(3, d))) * 2 + 0.5 * RNG.normal(size=(n, d)) for d in (3, 5, 2, 4)]
    found[3] = found[3].round()
    return found


@pytest.mark.parametrize("method", ["spearman", "lasso"])
def test_equals_its_formula(method):
    codes = models()
    everything = [list(range(one.shape[1])) for one in codes]
    score = udr(codes, method=method)
    assert score.details["informative"] == everything
    assert score.values == pytest.approx(defined(codes, method, everything), abs=1e-7)
    assert score.details["similarity"][1][2] == pytest.approx(similar(codes[1], codes[2], method), abs=1e-7)


@pytest.mark.parametrize("method", ["spearman", "lasso"])
def test_latents_below_the_kl_are_left_out(method):
    codes = models()
    kl = [np.array([1, 0.0, 2]), np.array([0.011, 0.009, 3, 0, 1]), np.array([5.0, 5]), np.array([0, 0, 0, 1.0])]
    keep = [[0, 2], [0, 2, 4], [0, 1], [3]]
    score = udr(codes, method=method, kl=kl)
    assert score.details["informative"] == keep
    assert score.values == pytest.approx(defined(codes, method, keep), abs=1e-7)
    assert score.settings["kl"] == "given" and udr(codes).settings["kl"] == "from variances"
    assert udr(codes, kl=kl, informative=2.5).details["informative"] == [[], [2], [0, 1], []]


def test_without_a_kl_the_variance_decides():
    # -log(1 - v) / 2 = 0.01 at v = 1 - exp(-0.02) = 0.0198
    unit = (GRID[:, :1] - GRID[:, 0].mean()) / GRID[:, 0].std()
    codes = np.concatenate([unit * np.sqrt(v) for v in (0.0, 0.0197, 0.0199, 0.5, 1.0, 50.0)], 1)
    assert udr([codes, codes]).details["informative"] == [[2, 3, 4, 5]] * 2
    assert udr([codes, codes], informative=0.0).details["informative"] == [[1, 2, 3, 4, 5]] * 2


@pytest.mark.parametrize("alpha", [0.0, 0.03, 0.1, 0.5])
def test_the_lasso_minimises_its_objective(alpha):
    x, y = RNG.normal(size=(80, 4)) @ (np.eye(4) + 0.5), RNG.normal(size=(80, 6))
    y[:, :4] += x
    x, y = StandardScaler().fit_transform(x), StandardScaler().fit_transform(y)
    weights = lasso(x.T @ x / 80, x.T @ y / 80, alpha)
    # The conditions of an optimum: the residual's correlation is alpha times the sign, or smaller where w = 0.
    pull = x.T @ (y - x @ weights) / 80
    assert np.abs(pull).max() <= alpha + 1e-7
    assert pull[weights != 0] == pytest.approx(alpha * np.sign(weights[weights != 0]), abs=1e-7)


def test_equal_models_up_to_order_sign_and_monotone_maps():
    same = [GRID, -GRID[:, [2, 0, 1]], np.exp(GRID)]
    assert udr(same).values == pytest.approx(1, abs=1e-12)
    # what remains of a coefficient of 1 under the penalty
    assert udr(same[:2], method="lasso").values == pytest.approx(0.9, abs=1e-9)
    assert udr(same[:2], method="lasso", alpha=0.25).values == pytest.approx(0.75, abs=1e-9)


@pytest.mark.parametrize("method", ["spearman", "lasso"])
def test_a_rotated_model_is_told_apart(method):
    x = RNG.normal(size=(3000, 4))
    rotation = np.linalg.qr(RNG.normal(size=(4, 4)))[0]
    values = udr([x, x[:, ::-1], -x, x @ rotation], method=method).values
    assert values[3] < values[:3].min() - 0.2


@pytest.mark.parametrize("method", ["spearman", "lasso"])
def test_noise_has_about_zero(method):
    assert udr([RNG.normal(size=(2000, 5)) for _ in range(4)], method=method).values.max() < 0.03


def test_what_a_finite_sample_takes_off():
    n, d = 4000, 6
    x = RNG.normal(size=(n, d))
    assert 1 - udr([x, -x]).values[0] == pytest.approx(0.8 * (d - 1) / n**0.5, rel=0.4)


@pytest.mark.parametrize("method", ["spearman", "lasso"])
def test_invariances(method):
    codes = models()
    value, rows = udr(codes, method=method).values, RNG.permutation(200)
    assert udr([one[rows] for one in codes], method=method).values == pytest.approx(value, abs=1e-7)
    changed = [-one[:, ::-1] * 3 + 1 for one in codes]
    assert udr(changed, method=method).values == pytest.approx(value, abs=1e-7)
    assert udr(codes[::-1], method=method).values == pytest.approx(value[::-1], abs=1e-7)


@pytest.mark.parametrize("method", ["spearman", "lasso"])
def test_dead_latents_and_dead_models(method):
    codes = models()[:2]
    value = udr(codes, method=method).values
    padded = [np.column_stack([np.full((200, 2), 0.1), one]) for one in codes]
    score = udr(padded, method=method)
    assert score.values == pytest.approx(value, abs=1e-7) and score.details["dead_codes"] == [[0, 1]] * 2
    # also where their KL is large
    given = udr(padded, method=method, kl=[np.ones(one.shape[1]) for one in padded])
    assert given.values == pytest.approx(value, abs=1e-7)
    dead = np.full((200, 3), 0.1)
    assert udr([*codes, dead], method=method).values[2] == 0
    assert udr([dead, dead], method=method).values.tolist() == [0, 0]


def test_lasso_predicts_a_models_own_latents():
    """As in the published code: for the score of model i, the others' latents are the predictors."""
    x = RNG.normal(size=(500, 2))
    mixed = np.column_stack([x, x.sum(1)])
    score = udr([x, mixed], method="lasso")
    assert score.values[0] == pytest.approx(score.details["pairs"][1, 0])
    assert score.values == pytest.approx(defined([x, mixed], "lasso", [[0, 1], [0, 1, 2]]), abs=1e-7)
    assert score.details["pairs"][0, 1] != pytest.approx(score.details["pairs"][1, 0], abs=1e-3)


def test_one_latent_each_and_an_array_of_models():
    x = RNG.normal(size=(50, 1))
    assert udr([x, x**3]).values == pytest.approx(1, abs=1e-12)
    stacked = RNG.normal(size=(3, 50, 4))
    assert udr(stacked).values.tolist() == udr(list(stacked)).values.tolist()


def test_errors():
    codes = models()
    with pytest.raises(UntwineError, match="unknown similarity of udr: 'spearmann'; did you mean 'spearman'"):
        udr(codes, method="spearmann")
    with pytest.raises(UntwineError, match="compares models"):
        udr(codes[:1])
    with pytest.raises(
        UntwineError, match=r"the same n samples, .*given a list of 2 codes of shapes \[200, 3\], \[199, 5\]"
    ):
        udr([codes[0], codes[1][:-1]])
    for said, wrong in {
        "codes of shape [200, 3]": codes[0],
        "codes of shape [1, 200, 3]": codes[0][None],
        "codes of shape [2, 2, 200, 3]": np.zeros((2, 2, 200, 3)),
        "a list of 1 codes of shapes [200, 3]": codes[:1],
        "a list of 2 codes of shapes [200], [200]": [codes[0][:, 0], codes[1][:, 0]],
        "a list of 7 codes of shapes [9], [9], [9], [9], [9] and 2 more": [np.zeros(9)] * 7,
        "a list of 0 codes": [],
    }.items():
        with pytest.raises(
            UntwineError, match=r"each \[n, d\] .*, in a list or an array \[models, n, d\]; it was"
        ) as error:
            udr(wrong)
        assert str(error.value).endswith(f"it was given {said}")
    with pytest.raises(UntwineError, match=r"kl has shapes \[\[2\], \[5\]\]; it needs .*: \[\[3\], \[5\]\]"):
        udr(codes[:2], kl=[np.ones(2), np.ones(5)])
    with pytest.raises(UntwineError, match="kl holds a NaN"):
        udr(codes[:2], kl=[np.ones(3), np.full(5, np.nan)])
    with pytest.raises(UntwineError, match="must be 0 or more, not -1"):
        udr(codes, alpha=-1)

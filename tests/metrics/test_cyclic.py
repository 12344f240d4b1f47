"""Cyclic factors in metrics: scores on a circle against scikit-learn and closed forms, and turns of the circle."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

import untwine as uw
from untwine.data import FactorSpace
from untwine.data.contract import Dataset
from untwine.data.states import Labelled
from untwine.data.windows import around
from untwine.errors import UntwineError
from untwine.metrics.examples import centres
from untwine.metrics.families import explicitness as explicitness_family
from untwine.metrics.families import knn
from untwine.metrics.families import sap as sap_family
from untwine.metrics.families.knn import knn_score
from untwine.metrics.families.sap import sap
from untwine.metrics.learners.split import split
from untwine.metrics.local import local

SIZES = (5, 12, 3)
KINDS = ("ordered", "cyclic", "categorical")
KNOWN = {"kinds": KINDS, "sizes": SIZES}


def sample(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noisy codes of an ordered, a cyclic and a categorical factor, the cyclic one as cosine, sine and angle."""
    rng = np.random.default_rng(seed)
    factors = np.stack([rng.integers(0, size, n) for size in SIZES], 1)
    angle = 2 * np.pi * factors[:, 1] / SIZES[1]
    codes = np.stack([factors[:, 0], np.cos(angle), np.sin(angle), angle, factors[:, 2]], 1)
    return codes + 0.2 * rng.normal(size=codes.shape), factors


def points(values: np.ndarray, size: float) -> np.ndarray:
    """Cosines and sines, one by one."""
    return np.array([[math.cos(2 * math.pi * v / size), math.sin(2 * math.pi * v / size)] for v in values.tolist()])


@pytest.fixture
def fixed_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """A split by place: the usual one sorts rows by their factors, and so depends on how values are numbered."""

    def by_place(codes: np.ndarray, factors: np.ndarray, test: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        rows = np.random.default_rng(seed).permutation(len(codes))
        return rows[round(test * len(rows)) :], rows[: round(test * len(rows))]

    for module in (explicitness_family, knn, sap_family):
        monkeypatch.setattr(module, "split", by_place)


# --- nearest neighbours ---------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 5])
def test_neighbours_predict_points_of_the_circle(k: int):
    codes, factors = sample()
    found = knn_score(codes, factors, k=k, **KNOWN).details
    trained, tested = split(codes, factors, 0.2, 0)
    on_circle = points(factors[:, 1], 12)
    spread = math.sqrt(((on_circle - on_circle.mean(0)) ** 2).sum(1).mean())
    assert found["normaliser"][1] == pytest.approx(spread, abs=1e-12)
    for j in range(5):
        regressor = KNeighborsRegressor(k).fit(codes[trained][:, [j]], on_circle[trained])
        apart = regressor.predict(codes[tested][:, [j]]) - on_circle[tested]
        error = math.sqrt(np.mean([math.hypot(x, y) ** 2 for x, y in apart.tolist()]))
        assert found["performance"][j, 1] == pytest.approx(spread - error, abs=1e-12)


def test_neighbours_of_a_perfect_angle_and_of_half_of_it():
    """The angle is a perfect code. The cosine leaves the sign of the sine to chance, whose best guess is 0."""
    n, k = 4000, 5
    angle = np.random.default_rng(1).uniform(-np.pi, np.pi, (n, 1))
    degrees = {"kinds": ("cyclic",), "sizes": (360,), "k": k}
    found = knn_score(np.hstack([angle, np.cos(angle), np.ones((n, 1))]), np.degrees(angle), **degrees)
    by_angle, by_cosine, by_none = found.details["performance"][:, 0]
    assert found.details["normaliser"][0] == pytest.approx(1, abs=0.01)  # the points of a circle are 1 from its centre
    assert by_angle == pytest.approx(1, abs=0.03) and by_none == 0
    # sin^2 has mean 1/2; the mean of k signs adds 1/k of it
    assert by_cosine == pytest.approx(1 - math.sqrt((1 + 1 / k) / 2), abs=0.03)
    alone = knn_score(np.random.default_rng(0).normal(size=(n, 1)), np.degrees(angle), **degrees)
    assert alone.details["performance"][0, 0] == pytest.approx(1 - math.sqrt(1 + 1 / k), abs=0.03)


def test_a_code_that_begins_its_turn_elsewhere_is_as_good():
    """As ordered values it is not: where 0 and 59 are neighbours, their mean is 29.5, and on the circle beside both."""
    factors = np.arange(3000)[:, None] % 60
    noise = 2 * np.random.default_rng(0).normal(size=(3000, 1))
    scores = {
        (start, wrap): float(knn_score((factors + start) % 60 + noise, factors, ("cyclic",), wrap=wrap))
        for start in (0, 30)
        for wrap in (True, False)
    }
    assert scores[30, True] == pytest.approx(scores[0, True], abs=0.02)
    assert scores[30, False] < scores[0, False] - 0.1


# --- SAP ------------------------------------------------------------------------------------------------


def test_sap_by_regression_on_points_of_the_circle():
    codes, factors = sample()
    found = sap(codes, factors, regression=True, **KNOWN).details["scores"]
    classes = sap(codes, factors, **KNOWN).details["scores"]
    for j in range(5):
        code = codes[:, [j]]
        assert found[j, 0] == pytest.approx(LinearRegression().fit(code, factors[:, 0]).score(code, factors[:, 0]))
        on_circle = points(factors[:, 1], 12)
        left = on_circle - LinearRegression().fit(code, on_circle).predict(code)
        total = ((on_circle - on_circle.mean(0)) ** 2).sum()
        assert found[j, 1] == pytest.approx(1 - (left**2).sum() / total, abs=1e-12)
        assert found[j, 2] == classes[j, 2]  # categories keep their classifier


def test_sap_of_circular_codes_in_closed_form():
    n = 20_000
    factors = np.arange(n)[:, None]
    angle = 2 * np.pi * (factors + 0.5) / n
    codes = np.hstack([np.cos(angle), angle, np.cos(angle - 1.3), np.cos(2 * angle)])
    scores = sap(codes, factors, regression=True, kinds=("cyclic",)).details["scores"][:, 0]
    assert scores == pytest.approx([1 / 2, 3 / math.pi**2, 1 / 2, 0], abs=1e-6)
    assert float(sap(codes[:, [0, 3]], factors, regression=True, kinds=("cyclic",))) == pytest.approx(0.5, abs=1e-6)


def test_sap_of_two_values_on_a_circle_is_that_of_two_on_a_line():
    codes, factors = sample()
    two = factors[:, :1] % 2
    circle = sap(codes, two, regression=True, kinds=("cyclic",), sizes=(2,))
    np.testing.assert_allclose(circle.details["scores"], sap(codes, two, regression=True).details["scores"], atol=1e-9)


def test_classifiers_do_not_see_kinds():
    codes, factors = sample()
    assert float(sap(codes, factors, **KNOWN)) == float(sap(codes, factors))


# --- turns of the circle --------------------------------------------------------------------------------

SCORES = {
    "mig": {},
    "modularity": {},
    "explicitness": {},
    "infomec": {},
    "sap": {},
    "sap by regression": {"regression": True},
    "knn_score": {},
}


@pytest.mark.usefixtures("fixed_split")
@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("turn", [1, 5, 11])
def test_where_a_circle_begins_does_not_matter(name: str, turn: int):
    codes, factors = sample()
    metric = uw.metrics.get(name.split()[0])
    known = metric.known_options(**KNOWN) | SCORES[name]
    turned = (factors + np.array([0, turn, 0])) % SIZES
    value = float(metric(codes, factors, **known))
    # classifiers are solved to a tolerance; the rest is sums of the same numbers in another order
    assert float(metric(codes, turned, **known)) == pytest.approx(value, abs=1e-4 if name == "explicitness" else 1e-9)


@pytest.mark.usefixtures("fixed_split")
@pytest.mark.parametrize("name", ["sap by regression", "knn_score"])
def test_as_ordered_it_does(name: str):
    codes, factors = sample()
    metric = uw.metrics.get(name.split()[0])
    turned = (factors + np.array([0, 5, 0])) % SIZES
    options = KNOWN | SCORES[name] | {"wrap": False}
    assert abs(float(metric(codes, turned, **options)) - float(metric(codes, factors, **options))) > 0.01
    ordered = {**options, "kinds": ("ordered", "ordered", "categorical"), "wrap": True}
    assert float(metric(codes, factors, **options)) == float(metric(codes, factors, **ordered))


# --- the circle is that of the space --------------------------------------------------------------------


class Turns(Dataset):
    """A turn and a shift that are seen as they are."""

    def __init__(self) -> None:
        super().__init__((2,), 100, FactorSpace(("turn", "x"), (20, 12), ("cyclic", "ordered")))
        self.spec = {"name": "turns"}

    def _batch(self, indices: Any) -> np.ndarray:
        return self._observe(self._factors_of(indices))

    def _factors_of(self, indices: Any) -> np.ndarray:
        return self.factors.sample(100, seed=0)[indices]

    def _observe(self, factors: np.ndarray) -> np.ndarray:
        return factors.astype(np.float32)


def encode(x: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(x[:, 0] / 10 * np.pi), x[:, 0] + x[:, 1] / 4], 1)


@pytest.mark.parametrize("name", ["knn_score", "sap by regression"])
@pytest.mark.parametrize("wrap", [True, False])
def test_windows_and_metrics_share_the_circle(name: str, wrap: bool):
    """A window has a part of the circle: the number of values cannot be seen in its sample."""
    data, metric = Turns(), uw.metrics.get(name.split()[0])
    score = local(metric, radius=0.3, samples=6, points=200, wrap=wrap, **SCORES[name])(encode, data, seed=1)
    assert score.settings["wrap"] is wrap and score.settings["sizes"] == [20, 12]
    options = metric.known_options(kinds=data.factors.kinds, sizes=data.factors.sizes) | SCORES[name]
    states = centres(data.factors.factors(np.arange(240)), 6, seed=1)
    by_hand, round_the_end = [], 0
    for step, low in enumerate(score.details["low"]):
        window = around(data.factors, 0.3, centre=states[step], wrap=wrap)
        factors = window.place(window.grid.distinct(200, 1, step))
        by_hand.append(float(metric(encode(data.observe(factors)), factors, **options, wrap=wrap, seed=1)))
        round_the_end += low[0] + window.grid.sizes[0] > 20
    assert score.details["by_window"] == pytest.approx(by_hand, abs=1e-12)
    assert (round_the_end > 0) == wrap


def test_a_metric_that_cuts_bins_sees_a_window_across_the_end_in_one_piece():
    """Values 36, ..., 39, 0, ..., 4 in bins of their range would be mixed up."""
    space = FactorSpace(("turn", "x"), (40, 40), ("cyclic", "ordered"))
    data = Labelled(space.factors(np.arange(1600)).astype(np.float32), space.factors(np.arange(1600)), space)
    data.spec = {"name": "turns"}
    score = local("irs", radius=0.1, samples=40)(lambda x: x + np.array([40, 0]) * (x < 20), data)
    across = [low + size > 40 for (low, _), (size, _) in zip(score.details["low"], score.details["sizes"], strict=True)]
    assert any(across) and not all(across)
    assert score.details["by_window"][across] == pytest.approx(1.0)


def test_windows_at_the_end_of_a_circle_score_like_all_others():
    """A noisy code that follows the turn without a jump, where the numbers of its values jump."""
    factors = np.stack([(np.arange(500) % 9 - 4) % 40, np.arange(500) % 7], 1)
    codes = np.stack([np.sin(factors[:, 0] / 20 * np.pi), factors[:, 1] / 5], 1)
    codes += np.random.default_rng(0).normal(size=codes.shape) / 10
    options = {"kinds": ("cyclic", "ordered"), "sizes": (40, 7)}
    for metric, more in ((knn_score, {}), (sap, {"regression": True})):
        on_circle = metric(codes, factors, **options, **more).details["gaps"]
        in_line = metric(codes, factors, **options, **more, wrap=False).details["gaps"]
        assert on_circle[0] > in_line[0] + 0.05 and on_circle[0] == pytest.approx(on_circle[1], abs=0.05)
        assert on_circle[1] == in_line[1]


def test_sizes_come_from_the_caller_or_from_the_largest_value():
    codes, factors = sample()
    found = knn_score(codes, factors, KINDS)
    assert float(found) == float(knn_score(codes, factors, **KNOWN)) and found.settings["sizes"] is None
    assert float(found) != float(knn_score(codes, factors, KINDS, sizes=(5, 24, 3)))
    left_out = np.insert(factors, 0, 1, axis=1)  # constant: its entries are dropped
    assert float(found) == float(knn_score(codes, left_out, ("cyclic", *KINDS), sizes=(7, *SIZES)))


@pytest.mark.parametrize("metric", [knn_score, functools.partial(sap, regression=True)], ids=["knn", "sap"])
def test_what_is_no_circle_is_refused(metric: Any):
    codes, factors = sample()
    with pytest.raises(UntwineError, match="factor 1 is cyclic with 8 values, from 0 to 7, but its values are from 0"):
        metric(codes, factors, kinds=KINDS, sizes=(5, 8, 3))
    with pytest.raises(UntwineError, match="but its values are from -3 to 8; give their indices"):
        metric(codes, factors - 3, kinds=KINDS)
    with pytest.raises(UntwineError, match="2 sizes for 3 factors"):
        metric(codes, factors, kinds=KINDS, sizes=(5, 12))
    with pytest.raises(UntwineError, match="cyclic and of floats, and its period is None: say by sizes after how much"):
        metric(codes, factors / 2, kinds=KINDS)
    with pytest.raises(UntwineError, match="did you mean 'cyclic'"):
        metric(codes, factors, kinds=("ordered", "cyclical", "ordered"))
    halves = float(metric(codes, factors / 2, kinds=KINDS, sizes=(2.5, 6, 1.5)))
    assert halves == pytest.approx(float(metric(codes, factors, kinds=KINDS, sizes=SIZES)), abs=1e-9)

"""Small grids: each picture counts once, none is trained and tested on, and one more or less hardly matters."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import untwine as uw
from untwine.data import FactorSpace
from untwine.data.states import Labelled
from untwine.data.windows import around
from untwine.errors import UntwineError
from untwine.metrics import Encoder, sampling
from untwine.metrics.designs import Independent
from untwine.metrics.local import local, sampled
from untwine.metrics.windows import Windows, draw_samples

SPACE = FactorSpace(("object", "pose"), (20, 36), ("ordered", "ordered"))
STATES = SPACE.factors(np.arange(SPACE.states))
RANDOM = np.random.default_rng(0).normal(size=(SPACE.states, 6))


def pictures(codes: np.ndarray, without: int | None = None, space: FactorSpace = SPACE) -> Labelled:
    """A picture of every state, or of all but one: the picture is its code."""
    kept = np.arange(space.states) if without is None else np.delete(np.arange(space.states), without)
    data = Labelled(codes[kept].astype(np.float32), space.factors(kept), space)
    data.spec = {"name": "pictures"}
    assert data.complete == (without is None)
    return data


def identity(x: np.ndarray) -> np.ndarray:
    return x


# --- codes that have nothing to do with the factors -------------------------------------------------

# How well a metric that is tested on some samples predicts the factors of these codes, what a guess has, and how far a
# score may be above it: four standard deviations of as many test samples, or of as many values of the factors.
PREDICTS: dict[str, tuple[Callable[[uw.metrics.Score], float], float, float]] = {
    "dci": (lambda score: float(score.details["informativeness"]), (1 / 20 + 1 / 36) / 2, 0.035),
    "explicitness": (float, 0.5, 0.06),
    "sap": (lambda score: float(score.details["scores"].mean(0).mean()), (1 / 20 + 1 / 36) / 2, 0.035),
    "knn_score": (lambda score: float((score.details["performance"] / score.details["normaliser"]).max()), 0, 0.1),
    "factor_vae_score": (float, 0.5, 0.17),
    "beta_vae_score": (float, 0.5, 0.17),
}
MEMORISE = ("dci", "explicitness", "knn_score")  # those whose models are able to


def test_no_metric_that_tests_on_a_part_is_missing():
    assert PREDICTS.keys() == {name for name in uw.metrics.names() if "test" in uw.metrics.get(name).options}


@pytest.mark.parametrize("name", PREDICTS)
def test_what_can_be_learned_by_heart_is_not_scored(name):
    predicts, guess, above = PREDICTS[name]
    score = sampled(name)(identity, pictures(RANDOM))
    assert predicts(score) <= guess + above
    assert score.settings["samples"] == 720


@pytest.mark.parametrize("name", MEMORISE)
def test_with_repeated_pictures_it_would_be(name):
    """The bounds above can be missed: states drawn with replacement are on both sides."""
    predicts, guess, above = PREDICTS[name]
    states = SPACE.sample(3000, 0)
    assert predicts(uw.metrics.get(name)(RANDOM[SPACE.index(states)], states)) > guess + above


# --- one picture left out ---------------------------------------------------------------------------

ABLE = [name for name in uw.metrics.names() if "factors" in uw.metrics.get(name).takes]
ABLE = [name for name in ABLE if not uw.metrics.get(name).design.intervenes]


def codes_of_every_kind() -> np.ndarray:
    """One nearly perfect code, one of both factors, one that winds, and noise: scores far from 0 and from 1."""
    x, y = (STATES / SPACE.sizes).T
    return np.stack([x, x + y, np.sin(9 * y), y**2], 1) + 0.1 * RANDOM[:, :4]


@pytest.mark.parametrize("name", ABLE)
def test_the_same_pictures_without_one_have_nearly_the_same_scores(name):
    """A row that is missing moves at most one other to the other part; another split moves `knn_score` by .08."""
    codes = codes_of_every_kind()
    complete, without = (sampled(name)(identity, pictures(codes, row)).scores() for row in (None, 300))
    for part, (value,) in complete.items():
        assert without[part][0] == pytest.approx(value, abs=0.03), part
    assert 0 < complete[name][0] < 0.99


def test_windows_that_hold_all_their_states_have_the_samples_of_the_complete_grid():
    codes = codes_of_every_kind()
    windows = [around(SPACE, 0.1, centre=centre) for centre in ([10, 15], [15, 30], [5, 20])]
    complete, without = (
        draw_samples(windows, Independent(), 10_000, Encoder(identity, pictures(codes, row)), 0) for row in (None, 0)
    )
    for first, second in zip(complete, without, strict=True):
        assert len(first) == len(second) == first.window.grid.states
        states = [SPACE.index(sample.factors) for sample in (first, second)]
        orders = [np.argsort(numbers) for numbers in states]
        assert np.array_equal(states[0][orders[0]], states[1][orders[1]])
        assert np.array_equal(first.codes[orders[0]], second.codes[orders[1]])


def test_windows_of_few_states_count_with_or_without_a_picture_elsewhere():
    space = FactorSpace(SPACE.names, SPACE.sizes, ("categorical", "ordered"))  # a window has 7 states of one object
    codes = codes_of_every_kind()
    complete, without = (local("mig", samples=60)(identity, pictures(codes, row, space)) for row in (None, 340))
    windows = [map(tuple, np.hstack([score.details["low"], score.details["sizes"]])) for score in (complete, without)]
    scores = [
        dict(zip(keys, score.details["by_window"], strict=True))
        for keys, score in zip(windows, (complete, without), strict=True)
    ]
    shared = scores[0].keys() & scores[1].keys()
    assert len(shared) > 1 and all(scores[0][window] == pytest.approx(scores[1][window], abs=1e-9) for window in shared)
    assert not any(low[0] == 9 and low[1] <= 16 < low[1] + 7 for low in without.details["low"])  # 340 is [9, 16]
    assert len(shared) > 50  # the centres are the same, but for those whose windows lack a picture
    assert float(without) == pytest.approx(float(complete), abs=7 * np.ptp(complete.details["by_window"]) / 60)


def test_a_picture_that_is_there_twice_counts_once():
    twice = np.arange(SPACE.states).repeat(2)
    once, doubled = (
        Labelled(RANDOM[rows].astype(np.float32), STATES[rows], SPACE)
        for rows in (np.arange(1, SPACE.states), twice[2:])
    )
    for data in (once, doubled):
        data.spec = {"name": "pictures"}
    scores = [sampled("dci")(identity, data) for data in (once, doubled)]
    assert [score.settings["samples"] for score in scores] == [719, 719]
    assert scores[0].details["informativeness"] == scores[1].details["informativeness"] < 0.1


# --- how many there are -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mig", "factor_vae_score", "beta_vae_score"])
def test_scores_say_how_many_states_they_are_of(name):
    data = pictures(RANDOM)
    score = local(name, radius=0.2, samples=6)(identity, data)
    sizes = [int(np.prod(size)) for size in score.details["sizes"]]
    assert score.settings["samples"] == sizes and len(set(sizes)) > 1
    assert sampled(name)(identity, data).settings["samples"] == 720
    smaller = {} if name == "mig" else {"size": 16}  # ten groups or more
    assert sampled(name, points=640, **smaller)(identity, data).settings["samples"] == 640


def test_groups_that_are_formed_are_as_many_as_would_be_drawn():
    data = pictures(RANDOM)
    assert sampled("factor_vae_score")(identity, data).settings["groups"] == 15_000
    assert sampled("factor_vae_score", groups=200, size=32)(identity, data).settings["groups"] == 200
    assert local("beta_vae_score", radius=0.2, samples=2)(identity, data).settings["groups"] == 10_000 // 128


@pytest.mark.parametrize("windows", [None, Windows(0.2, 6)], ids=["global", "local"])
@pytest.mark.parametrize(
    ("without", "arguments"), [(None, {}), (5, {}), (None, {"groups": 10})], ids=["complete", "incomplete", "groups"]
)
def test_progress_bars_end_full(windows, without, arguments, monkeypatch):
    bars: list[list[int]] = []

    @contextlib.contextmanager
    def counter(what: str, total: int, progress: bool | None) -> Iterator[Callable[[int], Any]]:
        bars.append([total, 0])

        def advance(more: int) -> None:
            assert more >= 0
            bars[-1][1] += more

        yield advance

    monkeypatch.setattr(sampling, "counter", counter)
    task = sampling.bind("factor_vae_score" if arguments else "mig", 10_000, windows, **arguments)
    encoder = Encoder(identity, pictures(RANDOM, without))
    for _ in range(2):  # the second time everything is encoded already
        ((_, score),) = sampling.score_tasks([task], encoder, 0, progress=True)
        assert isinstance(score, uw.metrics.Score)
        assert bars[-1] == [np.sum(score.settings["samples"])] * 2
    assert len(bars) == 2


# --- very small samples -----------------------------------------------------------------------------

TINY = FactorSpace(("x", "y"), (4, 4), ("ordered", "ordered"))


@pytest.mark.parametrize("name", PREDICTS)
def test_a_sample_that_is_too_small_to_be_split_is_refused(name):
    data = pictures(TINY.factors(np.arange(16)) * 1.0, space=TINY)
    with pytest.raises(UntwineError, match=rf"^{name} trains on a part of .* only 16 points; it takes 20 or more$"):
        sampled(name)(identity, data)
    with pytest.raises(UntwineError, match=r"only \d points; it takes 20 or more: take a larger radius \(rho\)$"):
        local(name, radius=0.25)(identity, data)


@pytest.mark.parametrize("seed", range(2))
def test_windows_that_are_too_small_to_be_split_are_left_out(seed):
    space = FactorSpace(("x", "y", "z"), (12, 10, 6), ("ordered",) * 3)
    data = pictures(space.factors(np.arange(720)) * 1.0, space=space)
    score = local("sap", radius=0.2, samples=200)(identity, data, seed=seed)
    corners = 200 - score.settings["windows"]
    assert corners > 0 and min(score.settings["samples"]) >= 20
    assert len(score.details["low"]) == len(score.details["by_window"]) == 200 - corners
    left_out = f"{corners} of 200 windows left out, as they hold fewer than 20 points"
    assert score.details["windows_left_out"] == {"value": (left_out,)}


@pytest.mark.parametrize("name", ["mig", "modularity", "irs"])
def test_what_needs_no_split_is_exact_on_all_states_however_few(name):
    data = pictures(TINY.factors(np.arange(16)) * 1.0, space=TINY)
    assert float(sampled(name)(identity, data)) == pytest.approx(1)
    score = local(name, radius=0.25)(identity, data)
    assert float(score) == pytest.approx(1) and min(score.settings["samples"]) == 4
    mixed = pictures(TINY.factors(np.arange(16)) @ np.array([[1.0, 0.6], [0.7, 1.0]]), space=TINY)
    states = TINY.factors(np.arange(16)).repeat(100, 0)  # as often as one likes, each as often
    metric = uw.metrics.get(name)
    often = metric(mixed.observe(states), states, **({} if name == "irs" else {"bins": 16}))
    assert float(sampled(name)(identity, mixed)) == pytest.approx(float(often), abs=0.02 if name == "irs" else 1e-9)


@pytest.mark.parametrize("name", ["factor_vae_score", "beta_vae_score"])
def test_a_single_factor_has_groups_though_each_value_occurs_once(name):
    space = FactorSpace(("x",), (40,), ("ordered",))
    assert float(sampled(name)(identity, pictures(RANDOM[:40], space=space))) == 1

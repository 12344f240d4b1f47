"""Scores that cannot be otherwise have a reason, and are left out of summaries and of means over windows."""

from __future__ import annotations

import numpy as np
import pytest

import untwine as uw
from untwine.data import FactorSpace
from untwine.data.contract import Dataset
from untwine.errors import UntwineError
from untwine.metrics import local
from untwine.metrics.averaging import average
from untwine.metrics.score import Score, bounds_of, metric
from untwine.metrics.windows import Windows

RNG = np.random.default_rng(0)
ONE_FACTOR = "only one factor varies"


def grids(size: int, factors: int) -> np.ndarray:
    return RNG.integers(0, size, (600, factors))


def models(factors: np.ndarray, count: int = 5) -> list[np.ndarray]:
    """Codes of every kind: perfect, monotone, mixed, noisy, noise alone."""
    n, k = factors.shape
    mixed = factors @ RNG.normal(size=(k, 3)) + 0.3 * RNG.normal(size=(n, 3))
    return [factors * 1.0, np.exp(factors / 3.0), mixed, mixed**3, RNG.normal(size=(n, 3))][:count]


CONSTANT = {  # with one factor each of these has one value, whatever the codes
    "modularity": 1.0,
    "dci": 1.0,
    "factor_vae_score": 1.0,
    "beta_vae_score": 1.0,
}


@pytest.mark.parametrize("name", CONSTANT)
def test_with_one_factor_every_model_has_the_same_score_and_a_reason(name):
    factors = grids(4, 1)
    for codes in models(factors):
        score = uw.metrics.get(name)(codes, factors)
        assert float(score) == pytest.approx(CONSTANT[name], abs=1e-9)
        assert score.reasons() == (ONE_FACTOR,)
        with pytest.raises(UntwineError, match=f"says nothing to summarise: {ONE_FACTOR}"):
            score.summary()


@pytest.mark.parametrize("name", ["modularity", "dci", "infomec", "irs", "factor_vae_score", "beta_vae_score"])
def test_with_two_factors_the_score_depends_on_the_codes_and_has_no_reason(name):
    factors = grids(4, 2)
    scores = [uw.metrics.get(name)(codes, factors) for codes in models(factors)]
    assert np.ptp([float(score) for score in scores]) > 0.05
    assert all(score.reasons() == (None,) and not score.forced for score in scores)


def test_one_factor_leaves_infomec_a_count_of_codes_with_information():
    factors = grids(4, 1)
    for codes in models(factors, 4):
        assert float(uw.metrics.infomec(codes, factors)) == 1.0
    score = uw.metrics.infomec(models(factors)[4], factors)
    assert score.forced == {"value": (ONE_FACTOR,)} and score.reasons("infoe") == (None,)


def test_a_single_code_has_nothing_to_share_a_factor_with():
    factors = grids(4, 2)
    for codes in models(factors, 4):
        single = np.hstack([codes[:, :1], np.zeros((600, 1))])
        dci, infomec = uw.metrics.dci(single, factors), uw.metrics.infomec(single, factors)
        assert dci.details["completeness"] == pytest.approx(1.0)
        assert infomec.details["infoc"] in (0.5, 1.0)  # the share of factors that the code says something about
        assert float(dci) == pytest.approx(0.0, abs=1e-9)  # every factor has all of its importance
        assert dci.forced == dict.fromkeys(("value", "completeness"), ("only one code varies",))
        assert uw.metrics.factor_vae_score(single, factors).reasons() == ("only one code varies",)
        assert infomec.forced == {"infoc": ("only one code varies",)}


def test_codes_that_never_vary():
    factors, pack = grids(4, 2), np.stack([np.zeros((600, 2)), RNG.normal(size=(600, 2))])
    for name in ("modularity", "dci", "infomec", "irs"):
        score = uw.metrics.get(name)(pack, factors)
        assert score.values[0] == 0.0 and score.reasons() == ("no code varies", None)
        assert score.summary().mean == score.values[1]  # the first is left out
    assert uw.metrics.hoyer(pack).reasons() == ("no code varies", None)
    assert uw.metrics.hoyer(pack, normalise=False).reasons() == (None, None)
    assert uw.metrics.mig(pack, factors).reasons() == (None, None)  # 0 is what it should be


def test_models_without_active_latents_or_columns():
    means, passive = RNG.normal(size=(50, 2)) / 100, np.full((50, 2), 0.99)
    assert float(uw.metrics.delta_kl(means, passive)) == 1.0
    assert uw.metrics.delta_kl(means, passive).reasons() == ("no latent is active",)
    assert uw.metrics.delta_kl(means, passive * [1, 0.01]).reasons() == (None,)
    columns = RNG.normal(size=(20, 2, 6))
    assert uw.metrics.dto(columns).reasons() == (None,)
    for one in (columns[:, :1], columns):
        score = uw.metrics.dto(one, passive_below=0.999)
        assert float(score) == pytest.approx(0.0, abs=1e-9) and score.reasons() == ("only one latent counts",)
    assert uw.metrics.dto(columns * 0).reasons() == ("the decoder does not depend on its latents",)


def test_values_that_occur_once_cannot_be_learned():
    factors = RNG.permutation(60)[:, None]
    for codes in models(factors):
        score = uw.metrics.explicitness(codes, factors)
        assert float(score) == 0.5 and score.reasons() == ("no value of a factor occurs twice",)
        score = uw.metrics.dci(codes, factors)
        assert score.details["informativeness"] == 0.0
        assert score.reasons("informativeness") == ("no value of a factor occurs twice",)
    assert uw.metrics.explicitness(codes, factors // 6).reasons() == (None,)


def test_models_without_informative_latents_have_no_udr():
    noise = 1e-3 * RNG.normal(size=(3, 200, 2))
    noise[2] *= 1e3
    score = uw.metrics.udr(list(noise))
    assert score.reasons() == ("no latent is informative", "no latent is informative", None)
    assert score.values[:2].tolist() == [0.0, 0.0]


def test_two_models_are_one_pair():
    codes = [RNG.normal(size=(300, 3)) for _ in range(3)]
    pair = uw.metrics.udr([codes[0], codes[0] + codes[1]])
    assert pair.values[0] == pytest.approx(pair.values[1], abs=1e-12)
    assert pair.reasons() == (None, "two models are one pair, with one score")
    known = pair.summary()
    assert (known.count, known.std, known.interval) == (1, None, None)
    assert uw.metrics.udr(codes).reasons() == (None, None, None)


def test_windows_that_cannot_be_otherwise_do_not_count():
    values = np.array([[0.2, 0.4], [1.0, 0.6], [0.4, 0.8]])  # windows, members
    reasons = [(None, None), (ONE_FACTOR, None), (None, None)]
    scores = []
    for value, reason in zip(values, reasons, strict=True):
        details = {"constant_factors": [], "dead_codes": [[], []], "half": value / 2}
        forced = {"value": reason} if any(reason) else {}
        scores.append(Score("modularity", value, details, {"samples": 9}, ("half",), forced))
    space = FactorSpace(("x",), (9,), ("ordered",))
    windows = [uw.data.windows.around(space, 0.2, 0, step) for step in range(3)]
    mean = average(scores, windows, Windows(0.2, 3))
    assert mean.values == pytest.approx([0.3, 0.6]) and mean.details["half"] == pytest.approx([0.8 / 3, 0.3])
    assert not mean.forced
    said = {"value": (f"1 of 3 windows left out, as {ONE_FACTOR}", None)}
    assert mean.details["windows_left_out"] == said and mean.details["by_window"].shape == (2, 3)


class Grid(Dataset):
    """States that are seen as they are."""

    def __init__(self, *sizes: int):
        names = tuple("abc"[: len(sizes)])
        super().__init__((len(sizes),), 10, FactorSpace(names, sizes, ("ordered",) * len(sizes)))
        self.spec = {"name": "grid", "sizes": list(sizes)}

    def _batch(self, indices):
        return self._observe(self._factors_of(indices))

    def _factors_of(self, indices):
        return self.factors.sample(10, seed=0)[indices]

    def _observe(self, factors):
        return factors.astype(np.float32)


@pytest.mark.parametrize("name", ["modularity", "dci", "irs"])
def test_windows_in_which_one_factor_varies(name):
    """A radius that moves only the factor of many values: the score is the same for any model."""
    turned = np.array([[0.6, 0.8], [-0.8, 0.6]])
    for data, reason in (
        (Grid(200, 4), f"{ONE_FACTOR} in every window"),
        (Grid(200, 200), None),
    ):
        score = local(name, radius=0.1, samples=3, points=300)(lambda x: np.stack([x, x @ turned]), data)
        assert score.reasons() == (reason, reason) and np.isfinite(score.values).all()


def test_every_metric_declares_what_it_can_be():
    unbounded = {"decomposition"}  # nats
    for name in uw.metrics.names():
        bounds = bounds_of(name)
        assert (bounds[0] == 0) == (name not in unbounded), name
        assert bounds == bounds_of(f"local_{name}")
    assert bounds_of("explicitness", "normalised") == (-1, 1)
    with pytest.raises(UntwineError, match="unknown part of metric 'odd': 'half'"):

        @metric(bounds={"half": (0, 1)})
        def odd(codes, factors):
            return 0.0, {}


@pytest.mark.parametrize("name", ["rho", "gaussian", "points", "sampling_seed"])
def test_options_that_requests_have_are_refused(name):
    definition = f"@metric\ndef odd(codes, factors, {name}=1): return 0.0, {{}}"
    with pytest.raises(UntwineError, match=f"every score has a setting '{name}'"):
        exec(definition, {"metric": metric})

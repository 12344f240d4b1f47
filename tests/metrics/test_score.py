"""What every metric gets from its wrapper: checks, packs, constant factors, settings."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch

import untwine as uw
from untwine.errors import UntwineError
from untwine.metrics.families.information import mig, modularity
from untwine.metrics.score import Metric, Score, metric, metrics


@pytest.fixture
def forgotten():
    """Metrics that a test registers are taken out again."""
    before = dict(metrics._entries)
    yield
    metrics._entries = before


def sample(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 4, (n, 3))
    return factors + rng.normal(size=(n, 3)), factors


def test_a_pack_has_the_scores_of_its_members():
    codes, factors = sample()
    pack = np.stack([codes, -codes, codes[:, ::-1] ** 3])
    score = mig(pack, factors)
    assert score.values.shape == (3,)
    for i, one in enumerate(pack):
        alone = mig(one, factors)
        assert score.values[i] == float(alone)
        assert np.array_equal(score.details["mutual_information"][i], alone.details["mutual_information"])
    assert score.details["dead_codes"] == [[], [], []]
    with pytest.raises(UntwineError, match=r"3 members: use \.values"):
        float(score)


def test_lists_and_tensors_are_arrays_too():
    codes, factors = sample(50)
    plain = float(mig(codes, factors))
    assert float(mig(codes.tolist(), factors.tolist())) == plain
    assert float(mig(torch.from_numpy(codes), torch.from_numpy(factors))) == plain


def test_constant_factors_are_left_out_and_listed():
    codes, factors = sample()
    more = np.hstack([np.full((len(codes), 1), 7), factors, np.zeros((len(codes), 1), int)])
    score = mig(codes, more)
    assert score.details["constant_factors"] == [0, 4]
    assert float(score) == float(mig(codes, factors)) and score.details["mutual_information"].shape == (3, 3)
    with pytest.raises(UntwineError, match="every factor is constant"):
        mig(codes, np.zeros_like(factors))


@pytest.mark.parametrize(
    ("codes", "factors", "message"),
    [
        (np.zeros((5, 2)), np.eye(4, dtype=int), r"codes for \[5\] samples, and factors for \[4\]"),
        (np.zeros(5), np.eye(5, dtype=int), r"shape \[5\]; they must be"),
        (np.zeros((2, 2, 5, 2)), np.eye(5, dtype=int), "they must be"),
        (np.zeros((5, 2)), np.zeros(5, int), r"factors have shape \[5\]"),
        (np.zeros((5, 2)), np.eye(5), "needs whole numbers"),
        (np.full((5, 2), np.nan), np.eye(5, dtype=int), r"NaN or an infinity, first at \[0, 0\]"),
        (np.full((5, 2), np.inf), np.eye(5, dtype=int), "NaN or an infinity"),
        (np.zeros((5, 2), complex), np.eye(5, dtype=int), "complex128; they must be numbers"),
        (np.array([["a", "b"]] * 5), np.eye(5, dtype=int), "they must be numbers"),
        (np.zeros((5, 2)), np.array([["a"]] * 5), "they must be whole numbers"),
        (np.zeros((0, 2)), np.zeros((0, 2), int), r"factors have shape \[0, 2\]"),
        (np.zeros((5, 0)), np.eye(5, dtype=int), "are empty"),
    ],
)
def test_bad_arrays_are_refused(codes, factors, message):
    with pytest.raises(UntwineError, match=message):
        modularity(codes, factors)


def test_wrong_arguments_are_named():
    codes, factors = sample(30)
    with pytest.raises(UntwineError, match="'binz'; did you mean 'bins'"):
        mig(codes, factors, binz=3)
    with pytest.raises(UntwineError, match=r"bins of metric 'mig' must be a whole number, not 2\.5"):
        mig(codes, factors, bins=2.5)
    with pytest.raises(UntwineError, match=r"mig' needs factors; its arguments are \(codes, factors, bins=20"):
        mig(codes)


def test_settings_tell_what_is_comparable():
    codes, factors = sample(100)
    score = mig(codes, factors)
    assert score.settings == {"bins": 20, "binning": "histogram", "samples": 100}
    assert json.loads(json.dumps(score.settings)) == score.settings
    assert score.comparable(mig(codes + 1, factors)) and not score.comparable(mig(codes, factors, bins=5))
    assert not score.comparable(modularity(codes, factors)) and not score.comparable(mig(codes[:50], factors[:50]))


def test_a_metric_of_ones_own(forgotten):
    @metric(parts=("half",), local={"power": 2.0})
    def spread(codes, factors, power=1.0):
        """The range of the codes."""
        return float(np.ptp(codes) ** power), {"half": float(np.ptp(codes) / 2), "settings": {"chosen": "range"}}

    assert isinstance(metrics["spread"], Metric) and spread.takes == ("codes", "factors")
    score = spread(np.array([[[0.0], [2.0]], [[0.0], [4.0]]]), np.array([[0], [1]]))
    assert score.scores()["spread"].tolist() == [2.0, 4.0] and score.scores()["spread half"].tolist() == [1.0, 2.0]
    assert score.settings == {"power": 1.0, "samples": 2, "chosen": "range"}
    with pytest.raises(UntwineError, match="local default of odd"):

        @metric(local={"bins": 5})
        def odd(codes, factors):
            return 0.0, {}


@pytest.mark.parametrize("returned", [0.5, (0.5,), (0.5, {}, {}), (0.5, None), np.zeros(2), None])
def test_what_a_metric_must_return_is_said(forgotten, returned):
    @metric
    def bare(codes, factors):
        """Returns something else."""
        return returned

    @metric(together=True)
    def all_bare(codes):
        """Returns something else for all models."""
        return returned

    wrong = re.escape(f"it returned {type(returned).__name__} {returned!r}")
    with pytest.raises(UntwineError, match=rf"'bare' must return \(value, details\), .* such as {{}}; {wrong}"):
        bare(*sample())
    with pytest.raises(UntwineError, match=rf"'all_bare' must return .*a value for each model.*{wrong}"):
        all_bare([sample()[0]] * 2)


def test_several_models_together(forgotten):
    @metric(together=True)
    def widths(codes):
        return [one.shape[1] for one in codes], {}

    score = widths([np.eye(4)[:, :2], np.eye(4)])
    assert score.values.tolist() == [2.0, 4.0] and score.settings == {"samples": 4, "models": 2}
    with pytest.raises(UntwineError, match="compares models"):
        widths([np.eye(4)])
    with pytest.raises(UntwineError, match="the same n samples"):
        widths([np.eye(4), np.eye(3)])


def test_members_of_different_arrays_must_agree(forgotten):
    @metric
    def both(means, variances):
        return float((means + variances).sum()), {}

    assert both(np.ones((2, 3, 1)), np.ones((2, 3, 1))).values.tolist() == [6.0, 6.0]
    for wrong in (np.ones((3, 3, 1)), np.ones((2, 4, 1)), np.ones((3, 1))):
        with pytest.raises(UntwineError, match="both: "):
            both(np.ones((2, 3, 1)), wrong)


def test_a_score_prints_its_values():
    assert "mig" in repr(Score("mig", np.array([0.25]))) and "0.25" in repr(Score("mig", np.array([0.25])))


def test_only_what_is_public_is_listed():
    listed = dir(uw.metrics)
    assert set(uw.metrics.names()) <= set(listed) == set(uw.metrics.__all__)
    assert not {"annotations", "score", "families", "_registry"} & set(listed)
    assert all(hasattr(uw.metrics, name) for name in listed)

"""Parts of a dataset: no example is lost or shared, and models are scored on a part that they did not see."""

from __future__ import annotations

import numpy as np
import pytest

import untwine as uw
from untwine.data.families.split import split
from untwine.data.specs import build, full_spec
from untwine.errors import UntwineError
from untwine.scores.columns import columns

PARTS = ("train", "evaluation", "test")
SQUARE = "synthetic-linear(samples=1000, levels=50)"


def test_the_parts_are_the_whole_dataset_and_share_nothing():
    whole = uw.datasets.synthetic_linear(samples=1000, levels=50)
    parts = [split(SQUARE, name) for name in PARTS]
    assert [len(part) for part in parts] == [800, 100, 100]
    rows = np.concatenate([part.examples() for part in parts])
    assert np.array_equal(np.unique(rows, axis=0), np.unique(whole.examples(), axis=0)) and len(rows) == 1000
    factors = np.concatenate([part.factors_of(np.arange(len(part))) for part in parts])
    by_row = {tuple(row): tuple(state) for row, state in zip(rows.tolist(), factors.tolist(), strict=True)}
    of_whole = zip(whole.examples().tolist(), whole.factors_of(np.arange(1000)).tolist(), strict=True)
    assert by_row == {tuple(row): tuple(state) for row, state in of_whole}


def test_the_seed_and_the_shares_decide_the_parts():
    assert not np.array_equal(split(SQUARE).examples(), split(SQUARE, seed=1).examples())
    assert len(split(SQUARE, "test", test=0.25)) == 250 and len(split(SQUARE, evaluation=0.0)) == 900
    assert len(split("synthetic-linear(samples=7)", "train")) == 6  # of 5.6
    for shares in ({"evaluation": 0.0, "part": "evaluation"}, {"test": 0.5, "evaluation": 0.5}):
        with pytest.raises(UntwineError, match="no example is left"):
            split(SQUARE, **shares)
    with pytest.raises(UntwineError, match="train"):
        split(SQUARE, "trian")


def test_a_spec_names_the_inner_dataset_in_full_and_makes_nothing():
    spec = full_spec({"name": "split", "dataset": "dsprites", "part": "test"})  # a file that is not here
    assert spec["dataset"] == {"name": "dsprites", "rendered": False} and spec["part"] == "test"
    data = split(SQUARE)
    assert np.array_equal(build({**data.spec, "part": "test"}).examples(), split(SQUARE, "test").examples())


def test_a_part_is_scored_on_its_own_examples():
    test = split(SQUARE, "test", seed=3)
    method = uw.methods.beta_vae(beta=1e-3, likelihood="squared-error")
    run = uw.Run(method, split(SQUARE, seed=3), "rolinek_linear", latents=2, seeds=[0], steps=2)
    ensemble = uw.fit(run, device="cpu")
    scores = uw.evaluate(ensemble, ["delta_kl"], dataset=test, progress=False)
    means, variances = ensemble.encode(test.examples()), ensemble.variances(test.examples())
    expected = uw.metrics.delta_kl(means.numpy(), variances.numpy())
    (column,) = columns(scores.entries[0])
    assert [value for _, value, _ in column.members] == pytest.approx(list(expected.values))
    with pytest.raises(UntwineError, match="needs interventions"):
        uw.evaluate(ensemble, ["factor_vae_score"], dataset=test, progress=False)

"""The stored floors: every metric has them, and noise scores them again."""

from __future__ import annotations

import numpy as np
import pytest

import untwine as uw
from untwine.bench import floors as bench
from untwine.errors import UntwineError
from untwine.metrics.floors import KINDS, floors
from untwine.metrics.sampling import PAIRED
from untwine.scoring.requests import requests

FACTORS = np.random.default_rng(5).integers(0, 64, (10_000, 6))  # states of three_dots


@pytest.mark.parametrize("name", uw.metrics.names())
def test_every_metric_has_its_floors(name):
    stored, metric = floors(name), uw.metrics.get(name)
    local = [f"local_{name}"] if metric.takes == PAIRED else []
    expected = [" ".join(filter(None, (score, part))) for score in (name, *local) for part in ("", *metric.parts)]
    assert sorted(stored) == sorted(expected)
    has_noise = "codes" in metric.takes
    for scores in stored.values():
        assert list(scores) == list(KINDS) and (scores["noise"] is not None) == has_noise
        assert scores["collapsed"] is not None and scores["untrained"] is not None


@pytest.mark.parametrize("name", ["mig", "modularity", "irs"])
def test_noise_scores_its_floor(name):
    """From arrays alone, with other noise: the mean of three models is within five of its standard deviations."""
    codes = np.random.default_rng(6).normal(size=(10, *FACTORS.shape[:1], bench.LATENTS))
    values = uw.metrics.get(name)(codes, FACTORS).values
    stored = floors(name)[name]["noise"]
    assert stored == pytest.approx(values.mean(), abs=5 / 3**0.5 * values.std(ddof=1) + 1e-4)


def test_the_floors_are_measured_by_the_bench(monkeypatch: pytest.MonkeyPatch, tmp_path):
    data = uw.datasets.synthetic_linear(samples=200, levels=40)
    monkeypatch.setattr(uw.datasets, "three_dots", lambda: data, raising=False)

    def trained(data, beta, seeds, steps, lr, device):
        network = uw.networks.mlp(hidden=(4,))
        method = uw.methods.beta_vae(beta, likelihood="squared_error")
        spec = uw.Run(method=method, dataset=data, network=network, latents=3, seeds=range(seeds), steps=steps, lr=lr)
        return uw.fit(spec, device="cpu")

    monkeypatch.setattr(bench, "_trained", trained)
    with pytest.raises(UntwineError, match="after 2 steps a latent is still active"):
        bench.run(("mig",), seeds=2, steps=2)
    monkeypatch.setattr(bench, "active_counts", lambda ensemble, data: [0] * len(ensemble))
    rows = bench.run(("mig", "local-dci", "dto"), seeds=2, steps=2, windows=1, out=str(tmp_path / "floors.json"))
    named = [(row["metric"], row["part"]) for row in rows]
    assert named[:2] == [("mig", "value"), ("local_dci", "value")] and len(rows) == 5
    assert all(isinstance(row["untrained"], float) for row in rows) and rows[-1]["noise"] is None
    (request,) = requests(["mig"])
    noise = bench._score_noise(request, data, seeds=2, windows=1, groups=10)
    assert noise is not None and noise.values.shape == (2,)
    assert rows[0]["noise"] == round(float(noise.values.mean()), 4)

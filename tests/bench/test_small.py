"""Benchmarks that compare two ways of computing the same: rows, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import tiny

import untwine as uw
from untwine.bench import batching, kinks, metrics, peers, waiting
from untwine.cli import main
from untwine.cli.commands.bench import BENCHES
from untwine.errors import UntwineError


def test_members_are_mapped_in_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = tiny()
    case = {"method": uw.methods.beta_vae(), "dataset": run.make_dataset(), "network": uw.networks.mlp(hidden=(4,))}
    monkeypatch.setattr(batching, "_cases", lambda: {"small": case})
    rows = batching.run(pack_sizes=(1, 2), steps=1, device="cpu", out=str(tmp_path / "rows.json"))
    assert [(row["network"], row["pack"]) for row in rows] == [("small", 1), ("small", 2)]
    assert all(row["loop_ms"] > 0 and row["vmap_ms"] > 0 for row in rows)
    assert json.loads((tmp_path / "rows.json").read_text())["rows"] == rows
    with pytest.raises(UntwineError, match="one step or more"):
        batching.run(steps=0)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_kinks_of_any_run(tmp_path: Path, activation: str):
    network = uw.networks.mlp(hidden=(12,), activation=activation)
    uw.fit(tiny(network=network, steps=3), tmp_path / "run")
    rows = kinks.run(str(tmp_path / "run"), batches=20, size=8, out=str(tmp_path / "rows.json"))
    assert {row["way"] for row in rows} == {"exact", "finite, 1e-3", "finite, 1e-2"}
    assert {row["parameter"].partition(".")[0] for row in rows} == {"decoder"}
    exact = [row for row in rows if row["way"] == "exact" and row["mean"] is not None]
    assert exact and all(row["mean"] == 1 and row["one_batch"] >= 1 for row in exact)
    # Without kinks, differences err by their step alone; where one crosses a kink, it counts a thousandfold.
    far = max(row["one_batch"] for row in rows if row["way"] == "finite, 1e-3" and row["one_batch"] is not None)
    assert far < 0.01 if activation == "tanh" else far > 1
    assert json.loads((tmp_path / "rows.json").read_text())["dataset"]["name"] == "synthetic_nonlinear"
    with pytest.raises(UntwineError, match="two batches or more"):
        kinks.run(str(tmp_path / "run"), batches=1)


def test_metrics_beside_loops():
    rows = peers.run(samples=1_000, values=4)
    names = ["sap", "mig", "modularity", "knn_score", "irs", "factor_vae_score", "factor_vae_score, drawn"]
    assert [row["metric"] for row in rows] == names
    assert all(row["ratio"] == row["loop_seconds"] / row["seconds"] for row in rows)
    with pytest.raises(UntwineError, match="1,000 or more"):
        peers.run(samples=10)
    with pytest.raises(UntwineError, match="two values or more, not 1"):
        peers.run(values=1)


def test_every_metric_has_a_task():
    """Also one that a user adds, whatever arrays it takes."""

    @uw.metric
    def spread(codes, variances):
        return float(np.ptp(codes) + variances.mean()), {}

    try:
        space = uw.FactorSpace(("a", "b"), (10, 10), ("ordered", "ordered"))
        tasks = metrics._tasks(space, 50, 3)
        assert set(tasks) == {*uw.metrics.names(), "local_mig"}
        assert tasks["spread"]().values > 0 and tasks["udr"]().values.shape == (5,)
    finally:
        del uw.metrics.score.metrics._entries["spread"]


def test_help_lists_the_benchmarks(capsys: pytest.CaptureFixture[str]):
    assert main(["bench", "kinks", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"untwine bench {name}" in said for name in BENCHES) and "--folder" in said
    assert main(["bench", "kink"]) == 2
    assert "did you mean 'kinks'" in capsys.readouterr().err


def test_threads_beside_busy_programs(tmp_path: Path):
    (row,) = waiting.run(steps=3, repeats=1, programs=(1,), out=str(tmp_path / "rows.json"))
    assert row["busy_programs"] == 1 and row["times_faster"] == row["torch_as_it_is_s"] / row["untwine_s"] > 0
    assert row["same_bits"], "how threads wait has nothing to do with what they compute"
    assert json.loads((tmp_path / "rows.json").read_text())["rows"] == [row]
    with pytest.raises(UntwineError, match="1 step and repeat or more"):
        waiting.run(steps=0)

"""The speed of the papers' settings: which kinds of models there are, and what a row says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from untwine.bench import pace
from untwine.errors import UntwineError
from untwine.experiments.engine import speeds


def test_models_that_differ_in_numbers_alone_are_one_kind():
    kinds = [(row["method"], row["batch_size"], row["latents"]) for row, _ in speeds.settings(("michlo2023/fig9",))]
    assert kinds == [("beta_vae", 256, 9), ("ada_gvae", 256, 9)]


def test_the_published_settings_are_all_there():
    # In a process of its own: where the shape of every argument is checked, members take long to make.
    code = "import json\nfrom untwine.experiments.engine.speeds import FIGURES, settings\n"
    code += "print(json.dumps([row for row, _ in settings(FIGURES)]))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    found = {(row["method"], row["network"], row["dataset"]) for row in json.loads(said)}
    networks = {network for _, network, _ in found}
    assert networks >= {"rhodes64", "locatello64", "michlo64", "mathieu_dsprites", "mathieu_fashion"}
    assert {("factor_vae", "locatello64", "three_dots"), ("beta_vae_full", "rolinek_mnist", "mnist")} <= found


def test_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    asked = []

    def measured(run, device, steps, blocks, path="auto"):
        if run.network.spec["name"] == "rolinek_nonlinear":
            raise UntwineError("no such data\nsecond line")
        asked.append((run.network.spec["name"], len(run.seeds), path))
        return pace.Pace([3e-3, 1e-3, 2e-3] if path == "auto" else [8e-3] * 3, "fast", 1.5)

    monkeypatch.setattr(pace, "measured", measured)
    out = tmp_path / "speeds.json"
    rows = speeds.run(("rolinek2019/table2",), device="cpu", out=str(out))
    assert {row["network"] for row in rows if "error" in row} == {"rolinek_nonlinear"}
    good = [row for row in rows if "error" not in row]
    assert asked == [(row["network"], seeds, path) for row in good for seeds, path in ((5, "auto"), (1, "plain"))]
    for row in good:
        assert (row["ms_per_seed_and_step"], row["ms_of_a_plain_loop"], row["times_as_fast"]) == (2.0, 8.0, 4.0)
        assert (row["path"], row["compile_seconds"], row["pack"]) == ("fast", 1.5, 5)
    assert json.loads(out.read_text())["rows"] == rows
    assert speeds.run(("rolinek2019/table2",), device="cpu", out=str(out)) == []  # nothing is measured twice

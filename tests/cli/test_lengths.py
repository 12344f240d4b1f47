"""How long a run is by default, and what is said about the time that it takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import untwine as uw
from untwine.cli import lengths, main
from untwine.train.run import defaults

DATA = ["--dataset", "synthetic-linear", "--dataset.samples", "200", "--network", "mlp", "--network.hidden", "4"]
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[uw.Run]:
    """The runs that a command would have trained."""
    found: list[uw.Run] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("untwine.cli.commands.train.fit", lambda run, *_: found.append(run))
    return found


@pytest.mark.parametrize("method", uw.methods.names())
def test_a_gpu_gets_the_published_length_and_a_cpu_a_shorter_one(method: str):
    published = defaults(method)["steps"]
    assert lengths.default_length(method, "cuda")["steps"] == published
    short = lengths.default_length(method, "cpu")
    assert short["steps"] == min(published, 10_000)
    if "anneal" in short:  # the same share of the run
        share = lengths.default_length(method, "cuda")["anneal"] / published
        assert short["anneal"] == pytest.approx(share * short["steps"], abs=1)


def test_a_cpu_trains_less_and_says_so(runs: list[uw.Run], capsys: Captured):
    assert main(["train", "jl1-vae", *DATA, "--device", "cpu"]) == 0
    [run] = runs
    assert run.steps == 10_000 and run.to_json()["method"]["anneal"] == 3_333
    said = capsys.readouterr()
    assert said.out == "" and said.err == (
        "untwine: on a CPU this run has 10,000 steps rather than the published 300,000, and its weights rise over "
        "3,333 of them; for those: --steps 300000 --anneal 100000\n"
    )
    assert main(["train", "jl1-vae", *DATA, "--device", "cpu", "--steps", "300000"]) == 0
    assert runs[1].replace(dataset="xy_squares") == uw.Run("jl1_vae", "xy_squares", run.network)
    assert main(["train", "jl1-vae", *DATA, "--device", "cpu", "--anneal=7"]) == 0
    assert runs[2].steps == 10_000 and runs[2].to_json()["method"]["anneal"] == 7
    assert uw.Run("jl1_vae", "xy_squares").steps == 300_000  # Python says what it takes


def test_a_run_that_was_begun_keeps_its_length(runs: list[uw.Run], tmp_path: Path, capsys: Captured):
    """The same command resumes it, on whatever machine it was begun."""
    method = uw.methods.jl1_vae(anneal=4, likelihood="squared_error")
    data = uw.datasets.synthetic_linear(samples=200)
    begun = uw.Run(method, data, uw.networks.mlp(hidden=(4,)), steps=6)
    uw.fit(begun, tmp_path / "run")
    given = ["--likelihood", "squared-error", "--out", str(tmp_path / "run"), "--device", "cpu"]
    assert main(["train", "jl1-vae", *DATA, *given]) == 0
    assert runs == [begun] and capsys.readouterr().err == ""


def test_a_dry_run_trains_nothing(runs: list[uw.Run], capsys: Captured):
    given = ["--likelihood", "squared-error", "--steps", "1000", "--seeds", "0-1", "--device", "cpu", "--dry-run"]
    assert main(["train", "vae", *DATA, *given]) == 0
    assert capsys.readouterr().out.startswith("1,000 steps of 2 models would take about ")
    assert main(["train", "vae", *DATA, *given, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["models"] == 2 and said["steps"] == 1000 and 0 < said["seconds"] < 600
    assert runs == [] and list(Path().iterdir()) == []


# --- the forecast ---------------------------------------------------------------------------------------


def forecast(monkeypatch: pytest.MonkeyPatch, seconds: float, members: int, pack: int, steps: int, at: int = 0) -> None:
    """Let a clock run while a pack trains: the first step takes ten times as long as the others."""
    clock = [100.0]
    monkeypatch.setattr(lengths.time, "perf_counter", lambda: clock[0])
    reporter = lengths.Forecast(members)
    reporter.begin({"members": [f"seed-{i}" for i in range(pack)]}, at, steps)
    for step in range(at + 1, steps + 1):
        clock[0] += seconds * (10 if step == at + 1 else 1)
        reporter.step(step)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        # 3 seconds are known after 31 steps, of which 30 are timed.
        ({"seconds": 0.1, "members": 1, "pack": 1, "steps": 10_000}, "17 min: 10,000 steps of 1 model, 10 steps"),
        # Two packs more: 9,969 + 20,000 steps of half a second.
        ({"seconds": 0.5, "members": 6, "pack": 2, "steps": 10_000}, "4.2 h: 10,000 steps of 6 models, 2 steps"),
        ({"seconds": 0.5, "members": 2, "pack": 2, "steps": 10_000, "at": 9_000}, "8 min: 10,000 steps of 2 models"),
    ],
)
def test_the_time_is_said_once(settings: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured):
    forecast(monkeypatch, **settings)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"untwine: this will take about {text}")


def test_nothing_is_said_of_a_short_run(monkeypatch: pytest.MonkeyPatch, capsys: Captured):
    forecast(monkeypatch, seconds=0.1, members=1, pack=1, steps=200)
    assert capsys.readouterr().err == ""

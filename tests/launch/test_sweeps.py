"""Sweeps: what trains together, that nothing is computed twice, and what the table says."""

import csv
import importlib.util
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import untwine as uw
from untwine.launch import members, units
from untwine.launch.sweeping import Sweep
from untwine.launch.table import SweepTable
from untwine.train.joining import structure

RUN: dict[str, Any] = {
    "method": {"name": "beta_vae", "likelihood": "squared_error"},
    "dataset": {"name": "synthetic_linear", "samples": 100, "levels": 16},
    "network": {"name": "mlp", "hidden": [4]},
    "latents": 2,
    "steps": 20,
    "batch_size": 8,
    "lr": 0.01,
    "log_every": 10,
}
GRID = {"method.beta": [0.001, 0.1]}
SCORE = {"metrics": ["mig"], "points": 50}


def spec(grid: dict[str, Any] | None = None, score: Any = SCORE, runs: Any = ({},), **run: Any) -> dict[str, Any]:
    return {"run": {**RUN, **run}, "grid": GRID if grid is None else grid, "runs": list(runs), "score": score}


def swept(content: dict[str, Any], out: Path, **settings: Any) -> SweepTable:
    return uw.launch.sweep(content, out, device="cpu", progress=False, **settings)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The members that were trained, by id."""
    known: list[str] = []
    fit = members.fit

    def noted(run: uw.Run, *args: Any, **kwargs: Any) -> Any:
        known.extend(member.id for member in run.members())
        return fit(run, *args, **kwargs)

    monkeypatch.setattr(members, "fit", noted)
    return known


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that were scored."""
    known: list[str] = []
    evaluate = units.evaluate

    def noted(folder: Path, *args: Any, **kwargs: Any) -> Any:
        known.append(folder.name)
        return evaluate(folder, *args, **kwargs)

    monkeypatch.setattr(units, "evaluate", noted)
    return known


# --- what trains together -----------------------------------------------------------------------------------


def test_equal_structures_are_packed(tmp_path: Path):
    made = Sweep.from_json(spec({"latents": [2, 3], "method.beta": [1, 4, 16], "lr": [0.1, 0.01]}, seeds="0-2"))
    planned = made.units(tmp_path, pack=10)
    runs = [unit.run for unit in planned if unit.run]
    assert sorted(len(run.seeds) for run in runs) == [8, 8, 10, 10]  # 18 with either number of latents
    assert all(len({structure(member.spec) for member in run.members()}) == 1 for run in runs)
    planned_ids = [member.id for run in runs for member in run.members()]
    assert len(planned_ids) == 36 and set(planned_ids) == {member.id for member in made.members()}
    assert len({unit.folder for unit in planned}) == len(planned)


def test_numbers_that_cannot_differ_by_member_stand_apart(tmp_path: Path):
    """A schedule's number of steps is a whole number, and so a matter of structure."""
    made = Sweep.from_json(spec({"method.anneal": [0, 5]}, seeds="0-1", method="jl1_vae"))
    assert [len(unit.run.seeds) for unit in made.units(tmp_path) if unit.run] == [2, 2]


def test_a_pack_is_the_same_after_an_interruption(tmp_path: Path):
    """What is left trains in the folders in which it would have trained."""
    content = spec(seeds="0-3")
    planned = [unit.folder for unit in Sweep.from_json(content).units(tmp_path, pack=3)]
    swept(content, tmp_path, pack=3)
    shutil.rmtree(planned[1])
    assert [unit.folder for unit in Sweep.from_json(content).units(tmp_path, pack=3)] == planned[1:2]


def test_members_are_those_of_fit_and_their_scores_those_of_evaluate(tmp_path: Path):
    table = swept(spec(seeds="0-1"), tmp_path)
    run = uw.Run(**{**RUN, "method": {**RUN["method"], "beta": [0.001, 0.001, 0.1, 0.1]}}, seeds=[0, 1, 0, 1])
    ensemble = uw.fit(run, device="cpu", progress=False)
    scores = uw.evaluate(ensemble, metrics=["mig"], points=50, progress=False)
    assert [row["id"] for row in table.rows] == [member.id for member in run.members()]
    assert [row["mig(points=50)"] for row in table.rows] == scores["mig"].values.tolist()
    last = ensemble.history[-1]["members"]
    assert [row["loss"] for row in table.rows] == [last[member.name]["loss"] for member in ensemble.members]


# --- nothing twice ------------------------------------------------------------------------------------------


def test_nothing_is_computed_twice(tmp_path: Path, trained: list[str], scored: list[str]):
    first = swept(spec(seeds="0-1"), tmp_path)
    assert len(trained) == 4 and len(scored) == 1
    assert swept(spec(seeds="0-1"), tmp_path) == first
    assert len(trained) == 4 and len(scored) == 1
    more = swept(spec(seeds="0-2"), tmp_path)  # a further seed
    assert len(trained) == len(set(trained)) == 6 and len(scored) == 2
    assert [row for row in more.rows if row["seed"] < 2] == list(first.rows)
    other = spec({"method.beta": [0.1, 0.5]}, seeds="0-2")  # another sweep in the same folder
    swept(other, tmp_path)
    assert len(trained) == len(set(trained)) == 9
    again = swept({**other, "score": {**SCORE, "points": 40}}, tmp_path)  # other scores of the same models
    assert len(trained) == 9 and "mig(points=40)" in again.columns
    assert len(swept({**other, "score": False}, tmp_path).numbers) == 1 and len(trained) == 9


def test_what_is_damaged_is_computed_again_and_nothing_else(tmp_path: Path, trained: list[str], scored: list[str]):
    first = swept(spec(seeds="0-1"), tmp_path, pack=2)
    for file in tmp_path.glob("results/*/*.json"):
        file.write_text(file.read_text().replace("0.", "1."))
    with pytest.warns(UserWarning, match="is damaged .it was changed.; what it says is read from the run again"):
        assert swept(spec(seeds="0-1"), tmp_path, pack=2) == first
    assert len(trained) == 4 and len(scored) == 4
    broken = tmp_path / first.rows[0]["folder"] / "run.json"
    broken.write_text(broken.read_text() + "more")
    with pytest.warns(UserWarning, match="what it holds is trained again, in another folder"):
        again = swept(spec(seeds="0-1"), tmp_path, pack=2)
    assert trained[4:] == [row["id"] for row in first.rows if row["folder"] == first.rows[0]["folder"]]
    assert [{**row, "folder": ""} for row in again.rows] == [{**row, "folder": ""} for row in first.rows]
    assert broken.read_text().endswith("more") and again.rows[0]["folder"] == f"{first.rows[0]['folder']}-2"


# --- what goes wrong ----------------------------------------------------------------------------------------


def test_a_unit_that_fails_stops_no_other(tmp_path: Path):
    runs = [{}, {"network": {"name": "conv"}}]
    table = swept(spec({}, runs=runs), tmp_path)
    assert [row["state"] for row in table.rows] == ["done", "failed"] and table.rows[0]["loss"] is not None
    assert len(table.problems) == 1 and table.problems[0].startswith("beta_vae(likelihood=SquaredError) on synth")
    assert "seeds 0: network 'conv' takes images" in table.problems[0]
    assert swept(spec({}, runs=runs[:1]), tmp_path).problems == []  # another sweep is not to blame


def test_a_bug_is_told_with_its_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(members, "fit", lambda *args, **kwargs: 1 / 0)
    table = swept(spec({}), tmp_path)
    assert table.problems[0].endswith("ZeroDivisionError: division by zero") and "1 / 0" in table.notes[0]


def test_a_member_that_diverged_is_finished(tmp_path: Path, trained: list[str]):
    content = spec({"lr": [0.01, 1e30]})
    table = swept(content, tmp_path)
    assert [row["state"] for row in table.rows] == ["done", "diverged"] and not table.problems
    assert any("diverged at step 0" in note for note in table.notes)
    assert swept(content, tmp_path) == table and len(trained) == 2


def test_a_worker_without_the_folder_says_so(tmp_path: Path):
    (unit,) = Sweep.from_json(spec({})).units(tmp_path / "elsewhere")
    with pytest.raises(uw.UntwineError, match="all machines of a cluster share that folder"):
        units.compute(unit)


# --- the table ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[SweepTable, Path]:
    out = tmp_path_factory.mktemp("sweep")
    runs = [{"method.beta": 0.001}, {"method.beta": 0.1, "network": {"name": "mlp", "hidden": [3, 2]}}]
    return swept(spec({}, runs=runs, seeds="0-2"), out), out


def test_every_file_of_the_table_says_the_same(table: tuple[SweepTable, Path]):
    made, out = table
    content = json.loads((out / "table.json").read_text())
    assert content["rows"] == list(made.rows) and content["problems"] == []
    read = list(csv.DictReader(io.StringIO((out / "table.csv").read_text())))
    assert [float(row["loss"]) for row in read] == [row["loss"] for row in made.rows]
    assert [json.loads(row["network.hidden"]) for row in read] == [[4]] * 3 + [[3, 2]] * 3
    assert [row["id"] for row in read] == [row["id"] for row in made.rows]
    assert {file.name for file in made.files(out)} == {file.name for file in out.glob("table.*")}


def test_the_summary_has_the_mean_over_seeds(table: tuple[SweepTable, Path]):
    made, _ = table
    for i, line in enumerate(made.summary()):
        values = [row["loss"] for row in made.rows[3 * i : 3 * i + 3]]
        assert line["loss"]["mean"] == pytest.approx(np.mean(values))
        assert line["loss"]["standard_error"] == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))
        assert (line["members"], line["done"], line["method.beta"]) == (3, 3, [0.001, 0.1][i])


def test_a_parquet_file_where_pyarrow_is(table: tuple[SweepTable, Path]):
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    made, out = table
    read = parquet.read_table(out / "table.parquet").to_pylist()
    assert [row["loss"] for row in read] == [row["loss"] for row in made.rows]
    assert [json.loads(row["network.hidden"]) for row in read] == [row["network.hidden"] for row in made.rows]


def test_without_pyarrow_there_is_no_parquet_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert [file.suffix for file in SweepTable([], []).files(tmp_path)] == [".csv", ".json"]

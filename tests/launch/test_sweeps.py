"""Sweeps: what trains together, that nothing is computed twice, and what the table says."""

import csv
import datetime
import importlib.util
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import untwine as uw
from untwine import files
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


def test_a_finished_member_counts_wherever_an_unfinished_pack_lies(tmp_path: Path):
    """A grid that became shorter leaves a pack behind that is never finished, under whatever name."""
    content = spec({"method.beta": [0.001, 0.1]}, seeds="0-1")
    table = swept(content, tmp_path)
    (done,) = (tmp_path / "runs").iterdir()
    for name in ("0" * 16, "f" * 16):  # before and after it
        left = done.with_name(name)
        shutil.copytree(done, left)
        record = json.loads((left / "run.json").read_text())
        for part in (*record["members"], *record["packs"]):
            part["state"] = "training"
        (left / "run.json").write_text(json.dumps(files.sealed(record)))
    assert swept(content, tmp_path).rows == table.rows and table.counts() == {"done": 4}


def test_what_an_older_folder_said_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Scores failed; then the record was damaged, and the models were trained again in another folder."""
    with monkeypatch.context() as patch:
        patch.setattr(units, "evaluate", lambda *args, **kwargs: _raise(uw.UntwineError("mig: not today")))
        failed = swept(spec({}), tmp_path)
    assert failed.problems[0].endswith("mig: not today") and "mig(points=50)" not in failed.rows[0]
    record = tmp_path / failed.rows[0]["folder"] / "run.json"
    record.write_text(record.read_text().replace('"steps": 20', '"steps": 21'))
    with pytest.warns(UserWarning, match="in another folder"):
        again = swept(spec({}), tmp_path)
    assert again.problems == [] and again.rows[0]["folder"] == f"{failed.rows[0]['folder']}-2"
    with pytest.warns(UserWarning, match="in another folder"):
        assert swept(spec({}), tmp_path) == again


def _raise(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize("name", ["scores.json", "notes.txt"])
def test_a_folder_without_its_record_is_left_as_it_is(tmp_path: Path, name: str):
    first = swept(spec({}), tmp_path)
    folder = tmp_path / first.rows[0]["folder"]
    (folder / "run.json").unlink()
    (folder / name).touch()
    with pytest.warns(UserWarning, match="holds no run but other files .* trained again, in another folder"):
        again = swept(spec({}), tmp_path)
    assert [{**row, "folder": ""} for row in again.rows] == [{**row, "folder": ""} for row in first.rows]
    assert again.rows[0]["folder"].endswith("-2") and (folder / name).exists()


def test_equal_runs_are_one(tmp_path: Path):
    once = swept(spec({"method.beta": [0.1]}, seeds="0-1"), tmp_path)
    assert swept(spec({"method.beta": [0.1, 0.1]}, seeds="0-1"), tmp_path) == once
    overlapping = spec({"method.beta": [0.1]}, runs=[{"seeds": [0]}, {"seeds": "0-1"}])
    assert swept(overlapping, tmp_path) == once and once.summary()[0]["loss"]["count"] == 2


def test_a_row_says_where_its_model_is(tmp_path: Path):
    for row in swept(spec(seeds="0-1"), tmp_path).rows:
        ensemble = uw.load(tmp_path / row["folder"])
        (member,) = (member for member in ensemble.members if member.name == row["member"])
        assert member.id == row["id"]
        assert ensemble.member(row["member"]) is not None


# --- what goes wrong ----------------------------------------------------------------------------------------


def test_a_worker_that_died_while_scoring_leaves_what_was_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = Sweep.from_json(spec({}))
    (unit,) = made.units(tmp_path)
    members.Members(tmp_path).train(unit.run, unit.folder, "cpu", False)
    table = made.table(tmp_path, [(unit, {"members": {}, "problems": ["its worker died"], "notes": []})])
    assert table.rows[0]["state"] == "done" and table.rows[0]["folder"] == f"runs/{unit.folder.name}"
    assert table.problems == ["its worker died"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (spec(score={"points": "200"}), "points of score must be a whole number or None, not '200'"),
        (spec(score={"points": 2.5}), "points of score must be a whole number"),
        (spec(score={"rho": "x"}), "rho of score must be"),
        (spec(score={"windows": {}}), "windows of score must be a whole number"),
        (spec(score={"metrics": datetime.date(2026, 1, 1)}), "score.metrics of a sweep cannot be of type date"),
        (spec(score={"seed": "x"}), "seed of score must be a whole number"),
        (spec(score={"examples": -1}), "examples must be 2 or more, not -1"),
        (spec(score={"metrics": "udr"}), "udr compares the models of a run with each other"),
        (spec({"method.beta": list(range(400)), "lr": list(range(400))}), "at most 100,000 runs, and this one 160,000"),
        (spec({"method.name": ["vae", "ae"]}), "method.name: write the name as method ="),
        (spec({}, **{"batch-size": 4}), "batch_size is given twice"),
        (spec({}, steps={"name": 3}), "steps"),
        (
            spec({}, lr=[0.1, 0.2], seeds="0-1"),
            "lr has a number for each seed; in a sweep such a list stands under grid",
        ),
        (spec({}, method=object()), "run.method of a sweep cannot be of type object: it has no form in files"),
        (spec({"lr": [datetime.date(2026, 1, 1)]}), "grid.lr of a sweep cannot be of type date"),
    ],
)
def test_what_a_sweep_cannot_be(content: dict[str, Any], message: str, tmp_path: Path):
    with pytest.raises(uw.UntwineError, match=re.escape(message)):
        swept(content, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": "2"}, "workers of sweep must be a whole number or None, not '2'"),
        ({"retries": None}, "retries of sweep must be a whole number, not None"),
        ({"pack": 2.5}, "pack of sweep must be a whole number, not 2.5"),
        ({"engine": None}, "engine of sweep must be"),
        ({"out": 5}, "out of sweep must be"),
        ({"foo": 1}, "unknown argument of sweep: 'foo'"),
        ({"device": "foo"}, "unknown device 'foo'"),
        ({"address": "10.0.0.1:6379"}, "inline works here, on one after the other: an address is for ray"),
        ({"gpus": 7}, "7 GPUs for each is for processes or ray"),
        ({"engine": "processes", "address": "10.0.0.1:6379"}, "this machine alone: an address is for ray"),
    ],
)
def test_arguments_of_a_sweep_that_cannot_be(settings: dict[str, Any], message: str, tmp_path: Path):
    with pytest.raises(uw.UntwineError, match=re.escape(message)):
        uw.launch.sweep(spec({}), **{"out": tmp_path, "device": "cpu", **settings})
    with pytest.raises(uw.UntwineError, match=r"spec of sweep must be .*, not 5"):
        uw.launch.sweep(5, out=tmp_path)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_numbers_of_numpy_are_numbers(tmp_path: Path):
    table = swept(spec({"latents": [np.int64(3), 2], "method.beta": [np.float64(0.1)]}, seeds=range(1)), tmp_path)
    assert [row["latents"] for row in table.rows] == [3, 2] and table.counts() == {"done": 2}
    assert swept(spec({"latents": [3, 2], "method.beta": [0.1]}, seeds=[0]), tmp_path) == table


def test_what_python_makes_may_stand_for_its_name():
    """Methods, datasets and networks by name, and as what they return."""
    made = {
        "method": uw.methods.beta_vae(beta=0.1, likelihood=uw.likelihoods.squared_error),
        "dataset": uw.datasets.synthetic_linear(samples=100, levels=16),
        "network": uw.networks.mlp(hidden=[4]),
    }
    written = Sweep.from_json(spec({"method.beta": [0.1]}))
    assert Sweep.from_json({"run": {**RUN, **made}}).runs == written.runs
    assert Sweep.from_json({"run": RUN, "grid": {"method": [made["method"]]}}).runs == written.runs


def test_a_file_may_begin_with_a_mark_of_its_order(tmp_path: Path):
    (tmp_path / "a.toml").write_text('[run]\nmethod = "vae"\ndataset = "synthetic-linear"\n', encoding="utf-8-sig")
    assert len(Sweep.read(tmp_path / "a.toml").runs) == 1


def test_a_unit_that_fails_stops_no_other(tmp_path: Path):
    runs = [{}, {"network": {"name": "conv"}}]
    table = swept(spec({}, runs=runs), tmp_path)
    assert [row["state"] for row in table.rows] == ["done", "failed"] and table.rows[0]["loss"] is not None
    assert len(table.problems) == 1 and table.problems[0].startswith("beta_vae(likelihood=SquaredError) on synth")
    failed = Sweep.from_json(spec({}, runs=runs[1:])).units(tmp_path)[0].folder.name
    assert f"seeds 0 (runs/{failed}): network 'conv' takes images" in table.problems[0]
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
    large = SweepTable(["n"], [{"n": 1}, {"n": 10**20}])  # more than 64 bits
    assert [row["n"] for row in parquet.read_table(io.BytesIO(large._parquet())).to_pylist()] == [1.0, 1e20]
    read = parquet.read_table(out / "table.parquet").to_pylist()
    assert [row["loss"] for row in read] == [row["loss"] for row in made.rows]
    assert [json.loads(row["network.hidden"]) for row in read] == [row["network.hidden"] for row in made.rows]


def test_without_pyarrow_there_is_no_parquet_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert [file.suffix for file in SweepTable([], []).files(tmp_path)] == [".csv", ".json"]

"""`untwine.evaluate` in Python: what can be evaluated, what is stored, and scores as tables."""

from __future__ import annotations

import csv
import functools
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import tiny

import untwine as uw
from untwine.errors import UntwineError
from untwine.scores import storage, tables
from untwine.scoring import evaluation
from untwine.scoring.sources import Source
from untwine.train.folders import record

FAST: dict[str, Any] = {"rho": 0.2, "windows": 2, "points": 100, "examples": 50, "jacobians": 10}


@pytest.fixture(scope="module")
def ensemble() -> uw.Ensemble:
    """Trained in memory, so far that all latents are active."""
    return uw.fit(tiny(seeds=[0, 1, 2], steps=30, lr=0.03))


@pytest.fixture(scope="module")
def scores(ensemble: uw.Ensemble) -> uw.Scores:
    return uw.evaluate(ensemble, ["mig", "local-mig", "dci(estimator=lasso)", "hoyer"], **FAST)


# --- what can be evaluated --------------------------------------------------------------------------------


def test_an_ensemble_has_the_scores_of_its_folder(ensemble: uw.Ensemble, scores: uw.Scores, tmp_path: Path):
    stored = uw.fit(tiny(seeds=[0, 1, 2], steps=30, lr=0.03), tmp_path / "run")
    assert ensemble.path is None and stored.path == tmp_path / "run"
    names = list(scores)
    assert uw.evaluate(tmp_path / "run", names, **FAST) == scores
    assert uw.evaluate(str(tmp_path / "run"), names, **FAST) == scores
    assert uw.evaluate(stored, names, **FAST) == uw.evaluate(uw.load(tmp_path / "run"), names, **FAST) == scores


def test_an_ensemble_with_a_folder_is_scored_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    trained = uw.fit(tiny(steps=3), tmp_path / "run")
    first = uw.evaluate(trained, ["mig"], **FAST)
    assert [entry["metric"] for entry in storage.read(tmp_path / "run")] == ["mig"]
    monkeypatch.setattr(Source, "encode", lambda *_: pytest.fail("encoded again"))
    assert uw.evaluate(trained, ["mig"], **FAST) == first
    (tmp_path / "run" / "run.json").unlink()
    with pytest.raises(pytest.fail.Exception, match="encoded again"):
        uw.evaluate(trained, ["mig"], **FAST)  # its folder is gone, and so are its scores


def test_run_json_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    uw.fit(tiny(steps=3), tmp_path / "run")
    reads = []
    read = record.read
    monkeypatch.setattr(record, "read", lambda path: reads.append(path) or read(path))
    uw.evaluate(tmp_path / "run", ["mig", "local-mig"], **FAST)
    assert len(reads) == 1


def test_a_run_that_is_not_trained_is_refused():
    with pytest.raises(UntwineError, match=r"not trained: evaluate the ensemble that fit\(run\) returns"):
        evaluation._opened(tiny(), "cpu")


def test_data_that_were_an_array_in_memory(tmp_path: Path):
    pictures = np.random.default_rng(0).integers(0, 255, (20, 8, 8), dtype=np.uint8)
    data = uw.datasets.images(pictures)
    run = tiny(uw.methods.beta_vae(), dataset=data, steps=2)
    trained = uw.fit(run, tmp_path / "run")
    assert list(uw.evaluate(trained, **FAST)) == ["hoyer", "delta-kl", "dto(jacobians=10)"]
    with pytest.raises(UntwineError, match="was made from an array in memory"):
        uw.evaluate(tmp_path / "run", **FAST)
    assert list(uw.evaluate(tmp_path / "run", dataset=data, **FAST)) == ["hoyer", "delta-kl", "dto(jacobians=10)"]


def test_members_of_different_hyperparameters_in_memory():
    method = uw.methods.beta_vae(beta=[0.01, 0.1], likelihood="squared_error")
    scores = uw.evaluate(uw.fit(tiny(method, seeds=[0, 0], steps=2)), ["mig"], **FAST)
    assert [row["method.beta"] for row in scores.rows()] == [0.01, 0.1]
    assert [row["own"] for row in scores.summary()] == [{"method.beta": 0.01}, {"method.beta": 0.1}]
    assert "mig(points=100), beta=0.01" in scores.to_latex()


# --- metrics of one's own ---------------------------------------------------------------------------------


def test_metrics_of_ones_own_by_name_and_as_functions(ensemble: uw.Ensemble):
    @uw.metric
    def spread_of_codes(codes, factors, power: float = 1.0):
        """The range of the codes."""
        return float(np.ptp(codes) ** power), {}

    try:
        names = ["spread-of-codes", "local-spread-of-codes(power=2.0)", spread_of_codes]
        scores = uw.evaluate(ensemble, names, **FAST)
        conditions = "(rho=0.2, power=2.0, windows=2, points=100)"  # the third is the first
        assert list(scores) == ["spread-of-codes(points=100)", f"local-spread-of-codes{conditions}"]
        assert scores["local_spread_of_codes(power=2.0)"].settings["power"] == 2.0
        with pytest.raises(UntwineError, match="did you mean 'spread-of-codes'"):
            uw.evaluate(ensemble, ["spread-of-code"], **FAST)
    finally:
        del uw.metrics.score.metrics._entries["spread_of_codes"]
    assert uw.metric is uw.metrics.metric
    with pytest.raises(UntwineError, match="If 'local-spread-of-codes' is your own, import the module that defines it"):
        uw.evaluate(ensemble, ["local_spread_of_codes(power=2.0)"], **FAST)


def test_metrics_with_arguments_as_partials(ensemble: uw.Ensemble):
    named = uw.evaluate(ensemble, ["mig(bins=5)"], **FAST)
    assert uw.evaluate(ensemble, [functools.partial(uw.metrics.mig, bins=5)], **FAST) == named
    with pytest.raises(UntwineError, match="a metric is a name such as 'local-mig', or a function"):
        uw.evaluate(ensemble, [np.mean], **FAST)


# --- tables -----------------------------------------------------------------------------------------------


def test_scores_by_name(scores: uw.Scores):
    assert len(scores) == 4 and "local_mig" in scores and "sap" not in scores and scores.get("sap") is None
    score = scores["local-mig"]
    assert score.metric == "local_mig" and score.values.shape == (3,) and score.settings["radius"] == 0.2
    assert score.summary() == uw.metrics.statistics.summary(score.values, bounds=(0, 1))
    dci = scores["dci(estimator=lasso)"]
    assert dci.parts == ("completeness", "informativeness") and dci.scores()["dci completeness"].shape == (3,)
    with pytest.raises(UntwineError, match="unknown score 'local-mag'; did you mean 'local-mig'"):
        scores["local-mag"]
    assert repr(scores).startswith("Scores(3 members: mig(points=100) 0.") and repr(scores).count("±") == 4


def test_radii_are_told_apart(ensemble: uw.Ensemble):
    scores = uw.evaluate(ensemble, ["local-mig", "mig"], **FAST | {"rho": [0.2, 0.5]})
    more = "windows=2, points=100"
    assert list(scores) == [f"local-mig(rho=0.2, {more})", f"local-mig(rho=0.5, {more})", "mig(points=100)"]
    assert scores["local_mig(rho=0.5)"].settings["radius"] == 0.5
    assert repr(uw.Scores(scores.entries[:1])).startswith(f"Scores(3 members: local-mig(rho=0.2, {more}) ")
    with pytest.raises(UntwineError, match=r"several scores are called 'local-mig': local-mig\(rho=0.2, .*rho=0.5"):
        scores["local-mig"]
    assert "local-mig" not in scores and scores.get("local-mig") is None


def test_rows_and_csv(scores: uw.Scores, tmp_path: Path):
    rows = scores.rows()
    assert len(rows) == 3 * 6  # dci has two parts
    assert (
        rows[0]["metric"] == "mig(points=100)"
        and rows[0]["member"] == "seed-0"
        and rows[0]["value"] == scores["mig"].values[0]
    )
    assert scores.to_csv(tmp_path / "scores.csv") is None
    text = scores.to_csv()
    assert text is not None and (tmp_path / "scores.csv").read_text() == text
    read = list(csv.DictReader(io.StringIO(text)))
    assert [float(row["value"]) for row in read] == [row["value"] for row in rows]
    assert json.loads(read[3]["settings"]) == scores.entries[1]["settings"] and read[3]["radius"] == "0.2"


def test_a_frame(scores: uw.Scores, monkeypatch: pytest.MonkeyPatch):
    pandas = pytest.importorskip("pandas")
    frame = scores.to_frame()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 18
    means = frame.groupby("metric")["value"].mean()
    assert means["mig(points=100)"] == pytest.approx(scores["mig"].values.mean())


def test_without_pandas_the_error_says_what_helps(scores: uw.Scores, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UntwineError, match="needs pandas: pip install pandas"):
        scores.to_frame()


def test_a_table_for_latex(scores: uw.Scores):
    lines = scores.to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}" and lines[-1] == r"\end{tabular}"
    (line,) = (line for line in lines if line.startswith("local-mig"))
    summary = scores["local-mig"].summary()
    label = "local-mig(rho=0.2, windows=2, points=100)"
    assert line.startswith(rf"{label} & 3 & {summary.mean:.3f} $\pm$ {2 * summary.standard_error:.3f} & [")
    assert line.endswith(r"\\")
    special = [{**entry, "label": "50%_of & {a}"} for entry in scores.entries[:1]]
    assert r"50\%\_of \& \{a\}" in uw.Scores(special).to_latex()


def test_latex_prints_what_is_written(scores: uw.Scores, tmp_path: Path):
    """Every character that LaTeX gives a meaning is escaped once, and numbers below zero have a minus."""
    (entry,) = (entry for entry in scores.entries if entry["metric"] == "hoyer")
    members = {name: {**member, "value": -0.25} for name, member in entry["members"].items()}
    special = uw.Scores([{**entry, "label": r"a\b{c}~^<d>#", "members": members}])
    text = special.to_latex()
    assert r"a\textbackslash{}b\{c\}\textasciitilde{}\textasciicircum{}$<$d$>$\# & 3 & $-$0.250" in text
    assert text.count("{") == text.count("}")
    assert special.to_latex(tmp_path / "table.tex") is None and (tmp_path / "table.tex").read_text() == text


def test_a_table_of_several_runs(scores: uw.Scores, tmp_path: Path):
    """Rows of a metric stand together, each with the numbers of its own run."""
    half = uw.Scores([{**e, "members": dict(list(e["members"].items())[:2])} for e in scores.entries])
    tables.write(tmp_path / "both.tex", {"runs/a_1": scores, "runs/b": half})
    lines = (tmp_path / "both.tex").read_text().splitlines()
    assert lines[0] == r"\begin{tabular}{llrrr}"
    first, second = (line.split(" & ") for line in lines[4:6])
    assert first[:3] == ["mig(points=100)", r"runs/a\_1", "3"] and second[:3] == ["", "runs/b", "2"]
    low, high = sorted(half["mig"].values)
    assert second[4] == rf"{low:.3f} to {high:.3f}$^*$ \\" and lines[6] == r"\addlinespace"
    tables.write(tmp_path / "both.csv", {"a": scores, "b": half})
    with (tmp_path / "both.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["run"] for row in rows] == ["a"] * 18 + ["b"] * 12
    assert [float(row["value"]) for row in rows[:3]] == scores["mig"].values.tolist()
    with pytest.raises(UntwineError, match=r"ends in \.csv or \.tex, not 'scores.txt'"):
        tables.write(Path("scores.txt"), {"a": scores})


def test_no_scores_at_all():
    scores = uw.Scores([])
    assert repr(scores) == "Scores(0 members: none)" and not scores and scores.rows() == [] == scores.summary()

"""Tables of scores: what they say of one, two and more models, in 80 columns."""

from __future__ import annotations

from typing import Any

import pytest

import untwine as uw
from untwine.cli import main, output, tables

Captured = pytest.CaptureFixture[str]


def entry(label: str, values: list[float], metric: str = "mig", **member: Any) -> dict[str, Any]:
    """An entry of scores.json with a member for each value."""
    members = {
        f"seed-{i}": {"id": str(i), "own": {}, "parts": {}, "value": value, **member} for i, value in enumerate(values)
    }
    return {"metric": metric, "label": label, "settings": {"samples": 10_000}, "members": members}


def printed(entries: list[dict[str, Any]], capsys: Captured) -> list[str]:
    tables.scores("runs/first", uw.Scores(entries).summary())
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0.25], ["10,000", "1", "0.25", "-"]),
        ([0.12, 0.15], ["10,000", "2", "0.135", "0.12 to 0.15*"]),
        ([0.5, 0.5], ["10,000", "2", "0.5", "all equal"]),
        ([0.0, 0.02, 0.04], ["10,000", "3", "0.02 ± 0.0231", "0 to 0.0697"]),  # Student's would begin at -0.0297
        ([0.1, 0.2, 0.3, 0.4, 0.5], ["10,000", "5", "0.3 ± 0.141", "0.104 to 0.496"]),
    ],
)
def test_one_two_and_more_models(values, shown, capsys: Captured):
    lines = printed([entry("mig", values)], capsys)
    (line,) = (line for line in lines if line.startswith("mig"))
    assert [cell.strip() for cell in line.split("  ") if cell.strip()] == ["mig", *shown]
    assert ("* is the range of two models, not an interval" in lines) == shown[-1].endswith("*")


def test_a_dash_has_its_reason(capsys: Captured):
    forced = entry("modularity", [1.0, 1.0], "modularity", forced={"value": "only one factor varies"})
    some = entry("dci(points=500)", [0.3, 0.4, 0.5], "dci")
    some["members"]["seed-1"]["forced"] = {"value": "no latent is active"}
    windows = entry("local-irs(rho=0.1)", [0.5, 0.7], "local_irs", windows_left_out={"value": "3 of 20 windows"})
    lines = printed([forced, some, windows], capsys)
    cells = {line.split()[0]: line.split()[1:] for line in lines if line.startswith(("modularity ", "dci "))}
    assert cells["modularity"] == ["10,000", "0", "-", "-"] and cells["dci"][:3] == ["10,000", "2", "0.4"]
    assert "modularity: no score, as only one factor varies" in lines
    assert "dci: seed-1 left out, as no latent is active" in lines
    assert "local-irs(rho=0.1): 3 of 20 windows" in lines


@pytest.mark.parametrize("columns", [80, 60])
def test_tables_fit(columns, capsys: Captured, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output, "width", lambda: columns)
    long = "local-factor-vae-score(rho=0.125, groups=2000, prune=0.001, sampling_seed=3, points=50000)"
    values = [0.00123, 0.00234, 0.0345]
    entries = [entry(label, values) for label in (long, "local-modularity(rho=0.1)", "mig", "udr(method=lasso)")]
    lines = printed(entries, capsys)
    assert max(map(len, lines)) <= 80  # 60 columns are too few for numbers alone, which are never cut
    names = "".join(line[:25].strip() + " " * line.endswith(",") for line in lines[3:])
    assert "sampling_seed=3" in names and "local-modularity(" in names
    rows = [{"metric": long, "first": "runs/a", "second": "runs/b", "difference": 0.0123, "t": -12.3, "freedom": 10.1}]
    tables.comparisons([rows[0] | {"p": 0.000123, "effect": -3.21}])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_sizes_that_tell_scores_apart_are_kept(capsys: Captured):
    labels = ("mig(points=50)", "mig(points=60)", "sap(points=60)")
    lines = printed([entry(label, [0.1]) for label in labels], capsys)
    assert [line.split()[0] for line in lines[3:6]] == ["mig(points=50)", "mig(points=60)", "sap"]


def test_the_page_of_a_metric(capsys: Captured):
    assert main(["metrics", "migg"]) == 2
    assert "did you mean 'mig'" in capsys.readouterr().err
    assert main(["metrics", "local-mig"]) == 0
    said = capsys.readouterr().out
    assert all(text in said for text in ("Eq. 6", "bins=20", "From 0 to 1.", "a collapsed model", "local-mig"))
    assert max(map(len, said.splitlines())) <= 80
    assert main(["metrics"]) == 0
    said = capsys.readouterr().out
    assert all(name.replace("_", "-") in said for name in uw.metrics.names())

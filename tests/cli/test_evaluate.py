"""`untwine evaluate` as a user would call it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import untwine as uw
from untwine.cli import main

sys.path.insert(0, str(Path(__file__).parents[1] / "train"))
from helpers import tiny

FAST = ["--windows", "2", "--points", "100", "--rho", "0.2"]
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    path = tmp_path_factory.mktemp("runs")
    beta_vae = uw.methods.beta_vae(0.01, likelihood="squared_error")
    for name, method in (("jl1", None), ("beta", beta_vae)):
        uw.fit(tiny(method, seeds=[0, 1], steps=30, lr=0.03), path / name)  # all latents are active then
    return str(path / "jl1"), str(path / "beta")


def test_json_has_scores_and_settings(runs, capsys: Captured):
    assert main(["evaluate", runs[0], "--metrics", "mig", "local-mig", *FAST, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["runs"][runs[0]]
    assert [entry["metric"] for entry in said["scores"]] == ["mig", "local_mig"]
    assert said["scores"][1]["settings"]["radius"] == 0.2 and set(said["scores"][1]["members"]) == {"seed-0", "seed-1"}
    stored = json.loads((Path(runs[0]) / "scores.json").read_text())["scores"]
    assert said["scores"][0] in [{key: value for key, value in entry.items() if key != "sha256"} for entry in stored]
    assert {"mean", "standard_error", "interval"} <= set(said["summary"][0])


def test_tables_as_files(runs, tmp_path: Path, capsys: Captured):
    files = [str(tmp_path / name) for name in ("scores.csv", "scores.tex")]
    assert main(["evaluate", *runs, "--metrics", "mig", *FAST, "--table", *files]) == 0
    assert files[1] in capsys.readouterr().out.splitlines()[-1]
    assert len((tmp_path / "scores.csv").read_text().splitlines()) == 1 + 2 * 2
    assert r"\begin{tabular}{llrrr}" in (tmp_path / "scores.tex").read_text()
    assert main(["evaluate", runs[0], "--metrics", "mig", *FAST, "--table", "scores.doc"]) == 2
    assert "a table is a file that ends in .csv or .tex" in capsys.readouterr().err


def test_tables_and_comparison(runs, capsys: Captured):
    assert main(["evaluate", *runs, "--metrics", "local-modularity", "dci", *FAST, "--compare"]) == 0
    said = capsys.readouterr().out
    expected = (
        "local-modularity(rho=0.2) ",
        "dci completeness ",
        "± 2 s.e.",
        "Welch's t-test",
        "effect",
        "scores.json",
    )
    assert all(text in said for text in expected), said
    assert main(["evaluate", *runs, "--metrics", "local-modularity", *FAST, "--compare", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["comparisons"]
    assert row["metric"] == "local-modularity(rho=0.2, windows=2, points=100)"
    assert row["difference"] == pytest.approx(row["means"][0] - row["means"][1])


def test_a_comparison_of_nothing_fails(runs, tmp_path: Path, capsys: Captured):
    """The scores are there all the same; where a single one can be compared, the command has done something."""
    uw.fit(tiny(dataset=uw.datasets.synthetic_nonlinear(samples=300, seed=5), steps=2), tmp_path / "other")
    asked = [str(tmp_path / "other"), "--metrics", "mig", "--points", "100", "--compare"]
    assert main(["evaluate", runs[0], *asked]) == 1
    said = capsys.readouterr()
    assert "mig cannot be compared: dataset.seed" in said.out and (tmp_path / "other" / "scores.json").exists()
    assert [line for line in said.err.splitlines() if "warning" not in line] == [
        "untwine: none of these scores can be compared; what stands above says why of each"
    ]
    assert main(["evaluate", *runs, *asked]) == 0


def test_help_teaches_the_metrics(capsys: Captured):
    assert main(["evaluate", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(name.replace("_", "-") in said for name in uw.metrics.names())
    assert all(text in said for text in ("--rho", "--compare", "--metrics", "--again", "--json"))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "needs the folder of a run"),
        (["RUN", "--metrics", "migg"], 2, "did you mean 'mig'"),
        (["RUN", "--compare"], 2, "needs two runs"),
        (["nowhere"], 1, "nowhere holds no run"),
        (["RUN", "--metrics", "local-mig", "--rho", "0.0001"], 1, "every factor is constant"),
        (["RUN", "--rho", "-1"], 2, "rho is a fraction"),
        (["RUN", "--points", "1"], 2, "points must be 2 or more"),
        (["RUN", "--windows", "0"], 2, "windows must be 1 or more"),
        (["RUN", "--device", "gpu"], 2, "gpu"),
        (["--metrics", "mig", "RUN"], 2, "before any options"),
        (["RUN", "--metrics", "mig", "--points", "5"], 1, "5 samples are fewer than 20 bins"),
    ],
)
def test_mistakes_are_said_in_a_line(runs, capsys: Captured, arguments, code, message):
    (Path(runs[0]) / "scores.json").unlink(missing_ok=True)
    assert main(["evaluate", *(runs[0] if arg == "RUN" else arg for arg in arguments)]) == code
    out, err = capsys.readouterr()
    assert message in err and err.count("\n") == 1 and (not out or "--rho" in arguments)


def test_a_run_that_fails_does_not_lose_the_others(runs, capsys: Captured):
    assert main(["evaluate", runs[0], "nowhere", "--metrics", "mig", "--points", "100"]) == 1
    out, err = capsys.readouterr()
    assert "mig" in out and "nowhere holds no run" in err

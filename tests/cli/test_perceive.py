"""`untwine perceive` as a user types it, and the pictures that it draws."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import untwine as uw
from untwine.analysis.perception import importance
from untwine.cli import main
from untwine.errors import UntwineError
from untwine.experiments import perceive
from untwine.report import perception

Captured = pytest.CaptureFixture[str]

FEW = ["--pairs", "300", "--traversals", "3"]
SQUARES = ["xy-squares", "--dataset.size", "16", "--dataset.square", "2", "--dataset.spacing", "2", *FEW]
FILES = {"importance.json", "perceived.npz", "matrices.png", "cumulative.png"}


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_table_and_files(capsys: Captured):
    assert main(["perceive", *SQUARES]) == 0
    said = capsys.readouterr()
    [warning] = said.err.splitlines()
    assert warning.startswith(
        "untwine: warning: adversarial for squared-error: all values of x_R, y_R, x_G, y_G, x_B, y_B"
    )
    assert "overlap(squared-error)" in warning
    lines = [line.split() for line in said.out.splitlines() if line.strip()]
    names = [words[0] for words in lines if words[0] in ("random", "x_R", "y_R", "x_G", "y_G", "x_B", "y_B")]
    assert names == ["random", "x_R", "y_R", "x_G", "y_G", "x_B", "y_B"]
    expected = f"{8 / 768:.5f}"
    assert ["x_R", "8", expected, "0.00000", "0.000", "constant:", "adversarial"] in lines
    assert "squared-error per element (an example has 768), 300 pairs for each row" in said.out
    assert "Saved in perceived/xy-squares: importance.json" in said.out
    assert {path.name for path in Path("perceived/xy-squares").iterdir()} == FILES
    arrays = np.load("perceived/xy-squares/perceived.npz", allow_pickle=False)
    assert np.allclose(arrays["perceived/x_R"][np.triu_indices(8, 1)], 8 / 768)
    assert arrays["ground_truth/y_B"][0].tolist() == arrays["values/y_B"].tolist() == list(range(8))


def test_json_is_the_importance_and_nothing_else(capsys: Captured):
    assert (
        main(["perceive", *SQUARES, "--likelihood", "overlap(squared-error, radius=7)", "--out", "here", "--json"]) == 0
    )
    said = capsys.readouterr()
    assert said.err == ""
    found = json.loads(said.out)
    assert found["out"] == "here" and set(found["files"]) == FILES == {path.name for path in Path("here").iterdir()}
    assert found["likelihood"] == "overlap(squared-error, radius=7)" and found["adversarial"] == []
    assert all(factor["spearman"] > 0.9 for factor in found["factors"]) and len(found["random"]["quantiles"]) == 101
    written = json.loads(Path("here/importance.json").read_text())
    assert written == {key: value for key, value in found.items() if key not in ("out", "files")}


def test_flags_reach_the_analysis(capsys: Captured):
    given = [
        "three_dots",
        "--dataset.size",
        "12",
        "--dataset.positions",
        "5",
        "--likelihood",
        "bernoulli",
        "--seed",
        "3",
    ]
    assert main(["perceive", *given, *FEW, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = importance(uw.datasets.three_dots(size=12, positions=5), "bernoulli", pairs=300, seed=3)
    assert {key: found[key] for key in found if key not in ("out", "files")} == json.loads(
        json.dumps(expected.to_json())
    )
    assert found["out"] == "perceived/three-dots"


def test_notes_on_factors(capsys: Captured):
    assert main(["perceive", "pinwheel", *FEW]) == 0
    said = capsys.readouterr().out
    assert "categorical: no order" in said and "radial" in said and "near 1" in said


def test_pictures_without_factors(capsys: Captured):
    np.save("pictures.npy", (np.arange(40 * 64).reshape(40, 8, 8) % 251).astype(np.uint8))
    assert main(["perceive", "images", "--dataset.source", "pictures.npy", *FEW]) == 0
    said = capsys.readouterr()
    assert "has no factors: only random pairs of its examples are compared" in said.err
    assert "random" in said.out and "prefers" not in said.out
    assert {path.name for path in Path("perceived/images").iterdir()} == {"importance.json", "cumulative.png"}


# --- what is wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which dataset? untwine perceive DATASET, where DATASET is one of images, "),
        (["xy-square"], "unknown dataset 'xy-square'; did you mean 'xy-squares'?"),
        (["--pairs", "200"], "which dataset?"),
        (["xy-squares", "--likelihood", "bernuli"], "unknown likelihood 'bernuli'; did you mean 'bernoulli'?"),
        (["xy-squares", "--likelihood", "overlap("], "cannot read the likelihood 'overlap('"),
        (["xy-squares", "--likelihood", "laplace(scale=[1,2])"], "needs one number, not one for each member"),
        (["xy-squares", "--pairs", "99"], "pairs must be a whole number, 100 or more, not 99"),
        (["xy-squares", "--pairs", "many"], "'many' is not a whole number"),
        (["xy-squares", "--traversals", "0"], "traversals must be a whole number, 1 or more, not 0"),
        (["xy-squares", "--seed", "-1"], "seed must be a whole number, 0 or more, not -1"),
        (["xy-squares", "--pair", "200"], "--pairs"),
        (["xy-squares", "--dataset.spacing", "9"], "spacing is 9"),
        (["pinwheel", "--likelihood", "bernoulli"], "compares values in [0, 1], and these are from"),
        (["pinwheel", "--likelihood", "overlap(squared-error)"], "overlap blurs images"),
        (["images", "--dataset.source", "nowhere"], "there is no nowhere"),
        (["images"], "--dataset.source"),
        (["pinwheel", "--out", "a-file"], "cannot make the folder a-file: a file is in its way"),
        (["pinwheel", "--out", "a-file/below"], "cannot make the folder a-file/below: a file is in its way"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], message: str, capsys: Captured):
    Path("a-file").write_text("")
    assert main(["perceive", *arguments]) == 2
    said = capsys.readouterr()
    assert message in said.err and said.out == ""
    assert not Path("perceived").exists()


def test_help_teaches(capsys: Captured):
    assert main(["perceive", "--help"]) == 0
    said = capsys.readouterr().out
    for text in (
        "untwine perceive DATASET",
        "perceived distance",
        "xy-squares",
        "--likelihood",
        "50000",
        "--json",
        "overlap(",
    ):
        assert text in said
    assert main(["perceive", "xy-squares", "--help"]) == 0
    said = capsys.readouterr().out
    for text in ("--dataset.spacing", "--pairs", "50000", "perceived/xy-squares", "adversarial"):
        assert text in said


def test_help_needs_no_torch():
    run = "code = untwine.cli.main(['perceive', 'xy-squares', '--help'])"
    code = f"import sys, untwine.cli\n{run}\nassert 'torch' not in sys.modules\nsys.exit(code)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_what_cannot_be_written(monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("untwine.report.save", full)
    with pytest.raises(UntwineError, match=r"cannot write into here: No space left on device"):
        perceive.run(uw.datasets.pinwheel(), pairs=100, traversals=1, out="here")


# --- pictures -------------------------------------------------------------------------------------------


def test_matrices_have_a_row_for_each_distance():
    matrix = np.abs(np.arange(4)[:, None] - np.arange(4)) * 0.5
    hole = matrix.copy()
    hole[1] = np.nan
    found = {
        "x": {"truth": matrix, "perceived": hole},
        "a factor of a long name": {"truth": np.stack([matrix, 3 * matrix])},
    }
    figure = perception.matrices(found, "a title")
    shown = [axes for axes in figure.axes if axes.axison]
    assert len(figure.axes) == 4 and len(shown) == 3
    assert [axes.get_xlabel() for axes in shown] == ["0 to 1.5", "0 to 3", "0 to 1.5"]
    assert [axes.get_title() for axes in figure.axes[:2]] == ["x", "a factor of a lon…"]
    drawn = shown[2].images[0].get_array()
    assert drawn is not None and drawn.mask[1].all() and not drawn.mask[0].any()  # pyright: ignore
    renderer, whole = FigureCanvasAgg(figure).get_renderer(), figure.bbox
    for axes in figure.axes:
        box = axes.get_tightbbox(renderer)
        assert box is None or (box.x0 >= 0 and box.x1 <= whole.x1 and box.y0 >= 0 and box.y1 <= whole.y1)
    with pytest.raises(UntwineError, match="no matrices"):
        perception.matrices({})


def test_curves_that_coincide_are_one():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure = perception.cumulative(importance(uw.datasets.xy_squares(), pairs=200))
    [axes] = figure.axes
    assert [line.get_label() for line in axes.lines] == ["x_R, y_R, x_G\ny_G, x_B, y_B", "random pairs"]
    assert axes.lines[0].get_xdata()[0] == pytest.approx(128 / 12288)  # pyright: ignore
    figure = perception.cumulative(importance(uw.datasets.pinwheel(), pairs=200, per_element=False), "a title")
    [axes] = figure.axes
    assert len(axes.lines) == 4 and axes.get_title() == "a title" and "summed over 2 elements" in axes.get_xlabel()


def test_pictures_need_no_screen(tmp_path: Path):
    code = f"""
import sys, numpy as np
from untwine import report
report.save(report.matrices({{"x": {{"d": np.eye(3)}}}}), {str(tmp_path / "picture.png")!r})
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")

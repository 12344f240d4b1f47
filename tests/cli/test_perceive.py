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
from untwine.analysis.importance import Importance, Row
from untwine.analysis.perception import factor_importance
from untwine.cli import main
from untwine.cli.commands import perceive as cli_perceive
from untwine.errors import UntwineError
from untwine.model.likelihoods import Likelihood
from untwine.report import perceived_factors, perception

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
    assert ["x_R", "8", expected, "0", "0.00000", "0.000", "constant:", "adversarial"] in lines
    assert "squared-error, L(x, y) - L(x, x), per element (an example has 768), 300 pairs for each row" in " ".join(
        said.out.split()
    )
    assert "Saved in perceived/xy-squares-spacing-2-size-16-square-2: importance.json" in said.out
    assert {path.name for path in Path("perceived/xy-squares-spacing-2-size-16-square-2").iterdir()} == FILES
    arrays = np.load("perceived/xy-squares-spacing-2-size-16-square-2/perceived.npz", allow_pickle=False)
    assert np.allclose(arrays["perceived/x_R"][np.triu_indices(8, 1)], 8 / 768)
    assert arrays["ground_truth/y_B"][0].tolist() == arrays["values/y_B"].tolist() == list(range(8))


def test_values_keep_the_names_of_a_table(capsys: Captured):
    rows = [(toy, angle) for toy in ("toy-19", "toy-2", "$x$") for angle in (0, 35, 70, 105)]
    np.save("toys.npy", np.random.default_rng(0).integers(0, 256, (12, 8, 8)).astype(np.uint8))
    Path("toys.csv").write_text("toy,angle\n" + "".join(f"{toy},{angle}\n" for toy, angle in rows))
    own = ["images", "--dataset.source", "toys.npy", "--dataset.factors", "toys.csv", *FEW, "--out", "out"]
    assert main(["perceive", *own, "--json"]) == 0
    arrays = np.load("out/perceived.npz", allow_pickle=False)
    assert arrays["values/toy"].tolist() == ["$x$", "toy-19", "toy-2"] and arrays["values/angle"].tolist() == [
        *range(0, 106, 35)
    ]


def test_rows_of_matrices_have_the_names_of_values():
    names = {"toy": ["$x$", "a very long name indeed"], "angle": list(range(0, 200, 10))}
    of = {factor: {"truth": np.eye(len(values)), "seen": np.eye(len(values))} for factor, values in names.items()}
    figure = perception.matrices(of | {"z": {"truth": np.eye(2), "seen": np.eye(2)}}, values=names)
    texts = [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes]
    assert texts[0] == texts[3] == [r"\$x\$", "a very long …"] and texts[2] == []
    assert texts[1] == ["0", "30", "50", "80", "110", "140", "160", "190"]  # eight of twenty, the first and the last
    assert figure.axes[1].get_yticks().tolist() == [int(text) // 10 for text in texts[1]]
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    assert not [1 for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]
    with pytest.raises(UntwineError, match="the matrices of toy have 2 rows, and there are 3 values"):
        perception.matrices(of, values={"toy": [1, 2, 3]})


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
    expected = factor_importance(uw.datasets.three_dots(size=12, positions=5), "bernoulli", pairs=300, seed=3)
    assert {key: found[key] for key in found if key not in ("out", "files")} == json.loads(
        json.dumps(expected.to_json())
    )
    assert found["out"] == "perceived/three-dots-size-12-positions-5-bernoulli"


def test_notes_on_factors(capsys: Captured):
    assert main(["perceive", "pinwheel", *FEW]) == 0
    said = capsys.readouterr().out
    assert "categorical: no order" in said and "radial" in said
    assert "near 0 means that the loss does not see the order" in " ".join(said.split()) and "near 1" not in said
    # An error of one digit for each row that has any.
    [words] = [line.split() for line in said.splitlines() if line.split()[:1] == ["random"]]
    error = json.loads(Path("perceived/pinwheel/importance.json").read_text())["random"]["error"]
    assert "± 2 s.e." in said and float(words[2]) == pytest.approx(2 * error, rel=0.5)
    arrays = np.load("perceived/pinwheel/perceived.npz")
    assert set(np.unique(arrays["ground_truth/arm"]).tolist()) == {0.0, 1.0}


def test_cyclic_factors_go_round_unless_told_not_to(capsys: Captured):
    turns = np.indices((12, 3)).reshape(2, -1).T
    pictures = np.zeros((36, 8, 8), np.uint8)
    angles = turns[:, 0] / 12 * 2 * np.pi
    pictures[:, 0], pictures[:, 1] = (127 + 100 * np.stack([np.cos(angles), np.sin(angles)])[..., None]).astype(int)
    pictures[:, 2] = 40 * turns[:, 1:]
    np.save("pictures.npy", pictures)
    np.save("factors.npy", turns)
    given = ["images", "--dataset.source", "pictures.npy", "--dataset.factors", "factors.npy", *FEW, "--out", "here"]
    given += ["--dataset.kinds", "factor0=cyclic"]
    around, correlations = {}, {}
    for flag in ([], ["--no-wrap"]):
        assert main(["perceive", *given, *flag]) == 0
        [words] = [line.split() for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["factor0"]]
        assert words[6:] == ["cyclic,", "not", "wrapped"] if flag else ["cyclic"]
        around[bool(flag)] = np.load("here/perceived.npz")["ground_truth/factor0"][0].tolist()
        correlations[bool(flag)] = float(words[5])
    assert around[False] == [0, 1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1] and around[True] == list(range(12))
    assert correlations[False] > 0.95 and correlations[True] < 0.8
    row = Row("turn", "cyclic", 3, 1.0, 0.5, 0.01, (0.0, 1.0), None, None, False, True, True)
    cli_perceive._print_importance(Importance({}, "squared-error", True, 4, 100, 0, row, (row,), {}))
    assert "all equal: no order" in capsys.readouterr().out


def test_order_that_is_not_seen(capsys: Captured):
    row = Row("x", "ordered", 5, 1.0, 0.5, 0.01, (0.0, 1.0), 0.05, 0.0, False, True)
    cli_perceive._print_importance(Importance({}, "squared-error", True, 4, 100, 0, row, (row,), {}))
    assert "order not seen" in capsys.readouterr().out


def test_no_files_of_another_run_are_left(capsys: Captured):
    np.save("pictures.npy", (np.arange(40 * 64).reshape(40, 8, 8) % 251).astype(np.uint8))
    assert main(["perceive", "pinwheel", *FEW, "--out", "here"]) == 0
    Path("here/notes.txt").write_text("mine")
    assert main(["perceive", "images", "--dataset.source", "pictures.npy", *FEW, "--out", "here"]) == 0
    assert {path.name for path in Path("here").iterdir()} == {"importance.json", "cumulative.png", "notes.txt"}
    assert json.loads(Path("here/importance.json").read_text())["dataset"]["name"] == "images"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, UntwineError])
def test_a_run_that_is_stopped_leaves_nothing(stop: Any, monkeypatch: pytest.MonkeyPatch, capsys: Captured):
    def stopped(*_: Any, **__: Any) -> None:
        raise stop("stopped")

    monkeypatch.setattr("untwine.analysis.perception.factor_importance", stopped)
    assert main(["perceive", "pinwheel", *FEW, "--out", "new/below"]) == 1
    assert not Path("new").exists()
    Path("old").mkdir()
    assert main(["perceive", "pinwheel", *FEW, "--out", "old"]) == 1
    assert Path("old").is_dir() and not list(Path("old").iterdir())


def test_a_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, capsys: Captured):
    def read_only(**_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", read_only)
    monkeypatch.setattr("untwine.analysis.perception.factor_importance", lambda *_, **__: pytest.fail("it computes"))
    assert main(["perceive", "pinwheel", "--out", "here"]) == 2
    assert "cannot write into here: Permission denied" in capsys.readouterr().err and not Path("here").exists()


def test_pictures_without_factors(capsys: Captured):
    np.save("pictures.npy", (np.arange(40 * 64).reshape(40, 8, 8) % 251).astype(np.uint8))
    assert main(["perceive", "images", "--dataset.source", "pictures.npy", *FEW]) == 0
    said = capsys.readouterr()
    assert "has no factors: only random pairs of its examples are compared" in said.err
    assert "random" in said.out and "prefers" not in said.out
    assert {path.name for path in next(Path("perceived").glob("images-*")).iterdir()} == {
        "importance.json",
        "cumulative.png",
    }


# --- what is wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which dataset? It comes first, and is one of cars3d, "),
        ([], "\nusage: untwine perceive DATASET [OPTIONS]"),
        (["--out", "pinwheel", "xy-squares"], "\nusage: untwine perceive DATASET [OPTIONS]"),
        (["xy-square"], "\nusage: untwine perceive DATASET [OPTIONS]"),
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
        (["images", "--dataset.source", "nowhere"], "there is no "),
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
    likelihoods = [name for name, entry in Likelihood.registry.items() if entry.__module__.startswith("untwine.")]
    expected = ("--dataset.spacing", "--pairs", "50000", "perceived/xy-squares", "adversarial", "examples:")
    for text in (*expected, *likelihoods):
        assert text.replace("_", "-") in said
    assert "no effect without factors" in " ".join(said.replace("│", " ").split())
    assert max(map(len, said.splitlines())) <= 120


def test_help_needs_no_torch():
    run = "code = untwine.cli.main(['perceive', 'xy-squares', '--help'])"
    code = f"import sys, untwine.cli\n{run}\nassert 'torch' not in sys.modules\nsys.exit(code)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_what_cannot_be_written(monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("untwine.report.figures.save", full)
    with pytest.raises(UntwineError, match=r"cannot write into here: No space left on device"):
        perceived_factors.write_perceived_factors(uw.datasets.pinwheel(), pairs=100, traversals=1, out="here")
    assert not Path("here").exists()
    Path("here").mkdir()
    Path("here/importance.json").write_text("of another run")
    with pytest.raises(UntwineError, match=r"cannot write into here"):
        perceived_factors.write_perceived_factors(uw.datasets.pinwheel(), pairs=100, traversals=1, out="here")
    assert [path.name for path in Path("here").iterdir()] == ["importance.json"]
    assert Path("here/importance.json").read_text() == "of another run"


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
    assert "dark is close, bright is far" in [text.get_text() for text in figure.texts]
    assert [text.get_text() for text in perception.matrices(found).texts] == ["dark is close, bright is far"]
    with pytest.raises(UntwineError, match="no matrices"):
        perception.matrices({})


def test_curves_that_coincide_are_one():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure = perception.cumulative(factor_importance(uw.datasets.xy_squares(), pairs=200))
    [axes] = figure.axes
    assert [line.get_label() for line in axes.lines] == ["x_R, y_R, x_G\ny_G, x_B, y_B", "random pairs"]
    assert axes.lines[0].get_xdata()[0] == pytest.approx(128 / 12288)  # pyright: ignore
    figure = perception.cumulative(factor_importance(uw.datasets.pinwheel(), pairs=200, per_element=False), "a title")
    [axes] = figure.axes
    assert len(axes.lines) == 4 and axes.get_title() == "a title" and "summed over 2 elements" in axes.get_xlabel()


def test_only_curves_that_coincide_by_their_own_size_are_one():
    def row(name: str, mean: float, visible: bool = True) -> Row:
        quantiles = tuple((mean * np.linspace(0.5, 1.5, 101)).tolist())
        return Row(name, "ordered", 5, mean, mean / 4, 0.0, quantiles, 0.5, 0.5, False, visible)

    # Beside a large distance all of them are nearly 0.
    rows = [row("a", 0.0054), row("b", 0.00542), row("c", 0.0018), row("d", 1e-9), row("e", 0.0, False)]
    found = Importance({}, "squared-error", True, 4, 100, 0, row("random", 9.0), (*rows, row("f", 0.0, False)), {})
    [axes] = perception.cumulative(found).axes
    assert [line.get_label() for line in axes.lines] == ["a, b", "c", "d", "e, f", "random pairs"]
    assert all(line.get_drawstyle() == "steps-post" for line in axes.lines)


def test_pictures_need_no_screen(tmp_path: Path):
    code = f"""
import sys, numpy as np
from untwine.report import figures
figures.save(figures.matrices({{"x": {{"d": np.eye(3)}}}}), {str(tmp_path / "picture.png")!r})
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")

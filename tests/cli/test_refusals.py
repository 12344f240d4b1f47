"""Folders that cannot be written to, flags that belong together, data that have changed: a line, no traceback."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import untwine as uw
from untwine.cli import main
from untwine.errors import UntwineError


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished models of vectors."""
    folder = tmp_path_factory.mktemp("runs") / "vectors"
    data = {"name": "synthetic_linear", "samples": 200}
    uw.fit(uw.Run("vae", data, "rolinek_linear", seeds="0-1", steps=2), folder)
    return folder


def failing(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """What a command that fails writes to standard error."""
    code = main([str(word) for word in words])
    said = capsys.readouterr()
    assert code in (1, 2) and "Traceback" not in said.err
    return said.err


def test_files_in_place_of_folders(vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    words = ("evaluate", vectors, "--metrics", "mig", "--points", "100", "--table", taken / "scores.csv")
    assert main([str(word) for word in words]) == 2  # before anything is scored
    said = capsys.readouterr()
    assert not said.out and str(taken) in said.err and "Traceback" not in said.err
    assert str(taken) in failing(capsys, "export", vectors, "--hub-folder", taken / "hub")
    assert taken.read_text() == "mine"


def test_a_report_is_a_page(vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for name in ("", tmp_path / "report.pdf"):
        assert "ends in .html" in failing(capsys, "report", vectors, "--out", name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flags", "needed"), [(("--members", "seed-0"), "--onnx"), (("--out", "a"), "--onnx"), (("--public",), "--hub")]
)
def test_flags_of_another_export(
    vectors: Path, tmp_path: Path, flags: tuple[str, ...], needed: str, capsys: pytest.CaptureFixture[str]
):
    said = failing(capsys, "export", vectors, "--hub-folder", tmp_path / "hub", *flags)
    assert f"{flags[0]} belongs to {needed}" in said and not (tmp_path / "hub").exists()


def test_information_about_vectors(vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["show", str(vectors), "--what", "information", "--out", str(tmp_path / "information.png")]) == 0
    assert "no images" in failing(capsys, "show", vectors, "--what", "traversals", "--out", tmp_path / "a.png")
    page = uw.write_report(vectors, tmp_path / "report.html").read_text()
    assert "--what curves" in page and "--what traversals" not in page


def test_the_range_of_two_models_is_no_interval(vectors: Path):
    latex = uw.evaluate(vectors, ["mig"], points=100).to_latex()
    assert "$^*$ The range of two models, not an interval." in latex
    assert next(line for line in latex.splitlines() if line.startswith("mig")).endswith(r"$^*$ \\")


def test_damaged_weights_are_not_published(tmp_path: Path):
    run = uw.Run("vae", {"name": "synthetic_linear", "samples": 200}, "rolinek_linear", seeds="0-1", steps=1)
    uw.fit(run, tmp_path / "run")
    weights = tmp_path / "run" / "members" / "seed-1.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0")
    with pytest.raises(UntwineError, match="the weights of seed-1 cannot be published"):
        uw.save_for_hub(tmp_path / "run", tmp_path / "hub")
    assert not (tmp_path / "hub").exists()


def test_pictures_that_have_changed_since_training(tmp_path: Path):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for i, pixels in enumerate(np.random.default_rng(0).integers(0, 255, (12, 8, 8), dtype=np.uint8)):
        Image.fromarray(pixels).save(pictures / f"{i}.png")
    data = uw.datasets.images(str(pictures), size=8)
    uw.fit(uw.Run("vae", data, {"name": "mlp", "hidden": [8]}, steps=1), tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uw.load(tmp_path / "run").dataset()
    (pictures / "3.png").unlink()
    with pytest.warns(UserWarning, match="they have changed since"):
        uw.load(tmp_path / "run").dataset()

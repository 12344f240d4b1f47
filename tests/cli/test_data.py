"""`untwine data`: list, get, check and show, as a user types them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import untwine as uw
from untwine.cli import main

Captured = pytest.CaptureFixture[str]
Publish = Callable[[str], Path]


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, without network."""
    folder = tmp_path / "nothing"
    folder.mkdir()
    monkeypatch.setenv("UNTWINE_DATA", str(folder))
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    monkeypatch.delenv("UNTWINE_MIRROR", raising=False)
    return folder


def listed(capsys: Captured) -> dict[str, dict]:
    assert main(["data", "list", "--json"]) == 0
    return {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["datasets"]}


# --- list -------------------------------------------------------------------------------------------------


def test_list_says_what_there_is_without_fetching(empty: Path, capsys: Captured):
    found = listed(capsys)
    assert sorted(found) == uw.datasets.names()
    dots = found["three_dots"]
    assert (dots["shape"], dots["examples"], dots["factors"]["x1"]) == ([1, 64, 64], 500_000, 64)
    assert (dots["state"], dots["licence"], dots["files"]) == ("drawn", None, [])
    assert found["images"]["needs"] == ["source"] and found["images"]["state"] == "yours"
    sprites = found["dsprites"]
    assert (sprites["state"], sprites["drawable"], sprites["examples"]) == ("fetchable", True, 737_280)
    assert sprites["factors"] == {"shape": 3, "scale": 6, "orientation": 40, "x": 32, "y": 32}
    assert sprites["bytes"] == 737_280 * 4096 and sprites["files"][0]["here"] is None
    assert all(one["licence"] for one in found.values() if one.get("files"))
    assert list(empty.iterdir()) == []


def test_list_for_people(empty: Path, capsys: Captured):
    assert main(["data", "list"]) == 0
    said = capsys.readouterr().out
    for text in ("three-dots", "dsprites", "fetchable", "drawn", "needs --dataset.source", "CC BY 4.0", str(empty)):
        assert text in said


def test_list_knows_what_is_here(public: Publish, capsys: Captured):
    folder = public("mnist")
    found = listed(capsys)
    assert found["mnist"]["state"] == "present" and found["fashion_mnist"]["state"] == "fetchable"
    assert found["mnist"]["files"][0]["here"].startswith(str(folder))


# --- get --------------------------------------------------------------------------------------------------


def test_get_of_files_that_are_here(public: Publish, capsys: Captured):
    folder = public("mnist")
    assert main(["data", "get", "mnist"]) == 0
    said = capsys.readouterr().out
    assert str(folder / "mnist" / "train-images-idx3-ubyte.gz") in said and "is ready" in said
    assert main(["data", "get", "mnist", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dataset"]["split"] == "train"


@pytest.mark.parametrize("command", [["data", "get"], ["data", "show"], ["perceive"]])
def test_what_cannot_be_had_says_all_that_helps(command: list[str], empty: Path, capsys: Captured):
    assert main([*command, "dsprites"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    for text in (
        "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz",
        "https://github.com/google-deepmind/dsprites-dataset",
        "7da33b31b13a06f4b04a70402ce90c2e",
        str(empty / "dsprites"),
        "--dataset.rendered true",
    ):
        assert text in said.err
    assert not [file for file in empty.rglob("*") if file.is_file() and file.suffix != ".lock"]


def test_training_on_what_cannot_be_had(empty: Path, tmp_path: Path, capsys: Captured):
    assert main(["train", "vae", "--dataset", "shapes3d", "--out", str(tmp_path / "run"), "--steps", "1"]) == 1
    assert "3dshapes.h5" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_what_was_made_does_without_the_archive(public: Publish, monkeypatch: pytest.MonkeyPatch, capsys: Captured):
    folder = public("shapes3d")
    monkeypatch.setenv("UNTWINE_OFFLINE", "1")
    assert main(["data", "get", "shapes3d"]) == 0
    (folder / "shapes3d" / "3dshapes.h5").unlink()
    capsys.readouterr()
    assert main(["data", "get", "shapes3d", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == []


def test_get_of_what_is_done_without(empty: Path, capsys: Captured):
    """The dataset could use other photographs, but the user asked for the file."""
    assert main(["data", "get", "natural-patches"]) == 1
    said = capsys.readouterr().err
    assert "IMAGES.mat is not here" in said and "warning" not in said
    assert main(["data", "get", "natural-patches", "--dataset.source", "scikit-learn"]) == 0


def test_get_of_what_is_drawn(capsys: Captured):
    assert main(["data", "get", "xy-squares"]) == 0
    assert "no download was needed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["get"], "which dataset?"),
        (["get", "dsprite"], "did you mean 'dsprites'?"),
        (["show", "mnistt"], "did you mean 'mnist'?"),
        (["get", "mpi3d", "--dataset.variant", "reel"], "did you mean 'real'?"),
        (["get", "mnist", "--dataset.size", "0"], "size of dataset 'mnist' must be a whole number, 1 or more, not 0"),
        (["get", "cars3d", "--dataset.size", "0"], "1 or more, not 0"),
        (["get", "smallnorb", "--dataset.camera", "5"], "from 0 to 1, not 5"),
        (["get", "mpi3d-multi", "--dataset.examples", "0"], "1 or more, not 0"),
        (["show", "pinwheel"], "vectors of 2 numbers"),
        (["show", "xy-squares", "--steps", "1"], "steps must be a whole number, 2 or more"),
        (["show", "xy-squares", "--out", "squares.xyz"], "unlike 'squares.xyz'"),
        (["check", "mnistt"], "did you mean 'mnist'?"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], message: str, empty: Path, capsys: Captured):
    assert main(["data", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["get", "show", "check", "list"])
def test_help_teaches(command: str, capsys: Captured):
    assert main(["data", command, "--help"]) == 0
    said = capsys.readouterr().out
    assert f"untwine data {command}" in said and "UNTWINE_DATA" in said


# --- check ------------------------------------------------------------------------------------------------


def test_check_reads_every_byte(public: Publish, capsys: Captured):
    folder = public("mnist")
    assert main(["data", "check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["files"]
    assert {one["state"] for one in found} == {"right"} and len(found) >= 2
    broken = folder / "mnist" / "train-images-idx3-ubyte.gz"
    content = bytearray(broken.read_bytes())
    content[-1] ^= 1
    broken.write_bytes(content)
    assert main(["data", "check"]) == 1
    said = capsys.readouterr()
    assert "wrong" in said.out and "train-images-idx3-ubyte.gz is wrong" in said.err and str(broken) in said.err
    assert main(["data", "get", "mnist"]) == 1
    assert broken.read_bytes() == bytes(content)


def test_check_of_what_is_not_here(empty: Path, capsys: Captured):
    assert main(["data", "check", "smallnorb"]) == 0
    assert "nothing to check" in capsys.readouterr().out
    assert main(["data", "check"]) == 0
    assert "nothing to check" in capsys.readouterr().out


def test_check_of_what_was_drawn(empty: Path, capsys: Captured):
    assert main(["data", "get", "shapes3d", "--dataset.rendered", "true"]) == 0
    capsys.readouterr()
    for arguments in (["shapes3d"], []):
        assert main(["data", "check", *arguments, "--json"]) == 0
        (found,) = json.loads(capsys.readouterr().out)["files"]
        assert (found["name"], found["state"]) == ("shapes3d/rendered-1.npy", "right")
    assert main(["data", "check", "dsprites"]) == 0
    capsys.readouterr()
    with (empty / "shapes3d" / "rendered-1.npy").open("r+b") as file:
        file.seek(5000)
        file.write(b"\xff\x00\xff")
    for _ in range(2):
        assert main(["data", "check"]) == 1
        assert "shapes3d/rendered-1.npy is wrong" in capsys.readouterr().err


def test_a_file_of_two_datasets_is_checked_once(public: Publish, capsys: Captured):
    public("mpi3d")
    assert main(["data", "check", "mpi3d", "mpi3d-multi", "mpi3d", "--json"]) == 0
    names = [one["name"] for one in json.loads(capsys.readouterr().out)["files"]]
    assert names and len(set(names)) == len(names)


# --- show -------------------------------------------------------------------------------------------------


def test_show_draws_a_column_for_each_factor(tmp_path: Path, capsys: Captured):
    file = tmp_path / "pictures" / "squares.png"
    assert main(["data", "show", "xy-squares", "--steps", "4", "--out", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["columns"] == {name: [0, 2, 5, 7] for name in uw.datasets.xy_squares().factors.names}
    with Image.open(file) as picture:
        assert np.asarray(picture.convert("RGB")).std() > 10


def test_show_names_values_as_the_table_does(tmp_path: Path, capsys: Captured):
    rows = [(f"toy-{toy}", angle / 2) for toy in range(1, 8) for angle in (0, 7, 35)]
    np.save(tmp_path / "toys.npy", np.arange(21 * 64).reshape(21, 8, 8) % 251)
    (tmp_path / "toys.csv").write_text("toy,angle\n" + "".join(f"{toy},{angle}\n" for toy, angle in rows))
    own = ["--dataset.source", str(tmp_path / "toys.npy"), "--dataset.factors", str(tmp_path / "toys.csv")]
    shown = ["data", "show", "images", *own, "--steps", "3", "--out", str(tmp_path / "toys.png")]
    assert main([*shown, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["columns"] == {"toy": ["toy-1", "toy-4", "toy-7"], "angle": [0.0, 3.5, 17.5]}
    assert said["factors"]["values"] == [[f"toy-{toy}" for toy in range(1, 8)], [0.0, 3.5, 17.5]]
    assert main(shown) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "toy categorical 7 toy-1, toy-2, toy-3, ..., toy-7" in lines and "angle ordered 3 0, 3.5, 17.5" in lines


def test_captions_are_the_names_of_values():
    from untwine.analysis import factor_traversals
    from untwine.report import figures

    table = {"toy": ["a cat with a tall hat", "$x$"] * 2, "scale": [0.5, 0.5, 2.0, 2.0]}
    data = uw.datasets.images(np.arange(4 * 64).reshape(4, 8, 8) % 251, factors=table)
    figure = figures.factor_traversals(factor_traversals(data))
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == [r"\$x\$", "0.5", "a cat with a…", "2"]
    plain = figures.factor_traversals(factor_traversals(uw.datasets.xy_squares(), steps=2))
    assert {text.get_text() for text in plain.axes[0].texts} == {"0", "7"}


def test_show_of_several_looks_and_of_none(public: Publish, tmp_path: Path, capsys: Captured):
    public("mnist")
    assert main(["data", "show", "mnist", "--steps", "10", "--out", str(tmp_path / "a.png"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["columns"]["digit"]) > 1
    np.save(tmp_path / "own.npy", np.arange(20 * 64, dtype=np.uint8).reshape(20, 8, 8))
    arguments = ["--dataset.source", str(tmp_path / "own.npy"), "--out", str(tmp_path / "b.svg")]
    assert main(["data", "show", "images", *arguments]) == 0
    assert (tmp_path / "b.svg").stat().st_size > 1000 and "b.svg" in capsys.readouterr().out


def test_the_picture_says_which_form_was_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured):
    monkeypatch.chdir(tmp_path)
    assert main(["data", "show", "xy-squares", "--steps", "2", "--dataset.spacing", "4"]) == 0
    assert main(["data", "show", "tiled", "--steps", "2", "--dataset.dataset", "xy-squares(spacing=4)"]) == 0
    assert "shown/xy-squares-spacing-4.png" in capsys.readouterr().out
    names = {file.name for file in (tmp_path / "shown").iterdir()}
    assert names == {"xy-squares-spacing-4.png", "tiled-dataset-xy-squares-spacing-4.png"}


def test_names_are_written_as_they_are(tmp_path: Path, capsys: Captured):
    folder = tmp_path / r"a$\foo$"
    folder.mkdir()
    np.save(folder / "own.npy", np.arange(4 * 64, dtype=np.uint8).reshape(4, 8, 8))
    (folder / "own.csv").write_text("$\\cost$\n1\n2\n3\n4\n")
    own = ["--dataset.source", str(folder / "own.npy"), "--dataset.factors", str(folder / "own.csv")]
    assert main(["data", "show", "images", *own, "--steps", "2", "--out", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").is_file()


def test_few_examples_are_not_repeated():
    from untwine.report.dataset_picture import _examples

    data = uw.datasets.images((np.arange(20 * 64) % 251).astype(np.uint8).reshape(20, 8, 8))
    shown = _examples(data, 8, 0)
    assert shown.shape == (2, 8, 1, 8, 8) and len(np.unique(shown.reshape(16, -1), axis=0)) == 16


def test_a_picture_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "a.png"
    assert main(["data", "show", "xy-squares", "--steps", "2", "--out", str(file)]) == 0
    before = file.read_bytes()

    def full(new: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("untwine.files.settle", full)
    assert main(["data", "show", "xy-squares", "--steps", "3", "--out", str(file)]) == 1
    assert file.read_bytes() == before and [one.name for one in tmp_path.iterdir()] == ["a.png"]

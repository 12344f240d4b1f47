"""Scores are tied to the weights that they are of, and show that they were edited."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import tiny

import untwine as uw
from untwine import files
from untwine.files import sealed
from untwine.scores import storage
from untwine.scoring import evaluation

ASKED = {"metrics": ["mig"], "points": 50}


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scored") / "run"
    uw.fit(tiny(seeds=[0, 1], steps=2), folder)
    uw.evaluate(folder, **ASKED)
    return folder


@pytest.fixture
def folder(scored: Path, tmp_path: Path) -> Path:
    return shutil.copytree(scored, tmp_path / "run")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scores that were computed, not read."""
    names: list[str] = []
    to_entry = storage.to_entry

    def noted(score: Any, label: str, *args: Any, **kwargs: Any) -> Any:
        names.append(label)
        return to_entry(score, label, *args, **kwargs)

    monkeypatch.setattr(storage, "to_entry", noted)
    return names


def edit(folder: Path, change: Callable[[dict[str, Any]], None], seal: bool = False) -> None:
    file = folder / storage.FILE
    content = json.loads(file.read_text())
    (entry,) = content["scores"]
    change(entry)
    if seal:
        content["scores"] = [files.sealed(entry)]
    file.write_text(json.dumps(content))


def swap(folder: Path) -> None:
    """Give each member the other's weights, as one would who knows the checksums of run.json."""
    content = json.loads((folder / "run.json").read_text())
    first, second = content["members"]
    first["sha256"], second["sha256"] = second["sha256"], first["sha256"]
    (folder / "run.json").write_text(json.dumps(sealed(content)))
    for old, new in (("seed-0", "held"), ("seed-1", "seed-0"), ("held", "seed-1")):
        (folder / "members" / f"{old}.safetensors").rename(folder / "members" / f"{new}.safetensors")


def test_an_untouched_score_is_not_computed_again(folder: Path, counted: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*(changed|other weights)")
        assert uw.evaluate(folder, **ASKED) == uw.load(folder).scores
    assert counted == []


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: entry["members"]["seed-0"].update(value=0.99),
        lambda entry: entry.update(label="dci"),
        lambda entry: entry["settings"].update(samples=10**6),
        lambda entry: entry.pop(files.SEAL),
        lambda entry: entry.pop("members"),
    ],
)
def test_an_edited_score_is_left_out_and_computed_again(folder: Path, counted: list[str], change: Any) -> None:
    right = uw.load(folder).scores
    edit(folder, change)
    with pytest.warns(UserWarning, match=r"scores\.json: the score '.*' was changed since it was written"):
        assert not len(uw.load(folder).scores)
    with pytest.warns(UserWarning, match="was changed since"):
        assert uw.evaluate(folder, **ASKED) == right
    assert counted == ["mig(points=50)"]
    assert uw.load(folder).scores == right


def test_scores_of_swapped_weights_are_noticed(folder: Path, counted: list[str]) -> None:
    before = uw.load(folder).scores["mig"].values.tolist()
    swap(folder)
    with pytest.warns(UserWarning, match=r"mig\(points=50\) of seed-0 is of other weights"):
        assert not len(uw.load(folder).scores)
    with pytest.warns(UserWarning, match="other weights"):
        scores = uw.evaluate(folder, **ASKED)
    assert counted == ["mig(points=50)"]
    assert scores["mig"].values.tolist() == before[::-1] != before  # the same models under each other's names


def test_a_forged_score_of_the_right_form_is_no_entry(folder: Path) -> None:
    edit(folder, lambda entry: entry.update(members={"seed-0": 3}), seal=True)
    with pytest.warns(UserWarning, match="was changed since"):
        assert not len(uw.load(folder).scores)


def test_one_flipped_bit_in_scores(folder: Path) -> None:
    """Every flip is refused, or the score is left out, or nothing has changed."""
    file = folder / storage.FILE
    before, right = file.read_bytes(), storage.read(folder)
    refused = []
    for bit in range(0, 8 * len(before), 61):
        flipped = bytearray(before)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                assert storage.read(folder) in ([], right)
            except uw.UntwineError as error:
                refused.append(str(error))
    assert all(text.startswith(f"{file} cannot be used") for text in refused)


def test_a_folder_that_cannot_be_written_to_shows_its_scores(
    folder: Path, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation.os, "access", lambda path, mode: mode != os.W_OK)
    before = (folder / storage.FILE).read_bytes()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*cannot be written to")
        assert "mig(points=50)" in uw.evaluate(folder, **ASKED)
    assert counted == []
    with pytest.warns(UserWarning, match="cannot be written to: what is scored now is not kept"):
        assert "modularity(points=50)" in uw.evaluate(folder, ["modularity"], points=50)
    assert counted == ["modularity(points=50)"] and (folder / storage.FILE).read_bytes() == before
